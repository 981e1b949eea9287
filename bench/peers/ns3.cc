// Benchmark scenarios S1, S1c, S2 and S3 (see ../README.md) on stock ns-3, one JSON line on stdout.
//
// What differs from the other simulators: a PPP header adds 2 bytes to every packet on the wire, and the one packet
// which the device holds behind the queue disc is not seen by RED.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <sys/resource.h>

#include <deque>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>

using namespace ns3;

namespace
{

constexpr uint32_t PAYLOAD_BYTES = 1460;
constexpr double LINE_RATE_BPS = 10e9;
constexpr double MAX_GOODPUT_BPS = LINE_RATE_BPS * 1460 / 1500;
constexpr uint32_t FIRST_ADDRESS = 0x0a000001; // 10.0.0.1, host 0
constexpr uint16_t SINK_PORT = 9;

uint64_t packetHops = 0;

void
CountHop(Ptr<const Packet>)
{
    ++packetHops;
}

struct Topology
{
    uint32_t hosts;
    uint32_t nodes;
    std::vector<std::pair<uint32_t, uint32_t>> links;
    double delayMicroseconds;
};

// `pairs` hosts on either side; the first link joins the two switches.
Topology
Dumbbell(uint32_t pairs)
{
    const uint32_t hosts = 2 * pairs;
    Topology topology{hosts, hosts + 2, {{hosts, hosts + 1}}, 5.0};
    for (uint32_t host = 0; host < hosts; ++host)
    {
        topology.links.emplace_back(host, host < pairs ? hosts : hosts + 1);
    }
    return topology;
}

// Al-Fares fat-tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores.
Topology
FatTree(uint32_t k)
{
    const uint32_t half = k / 2;
    const uint32_t hosts = k * half * half;
    const uint32_t edges = hosts;
    const uint32_t aggregations = edges + k * half;
    const uint32_t cores = aggregations + k * half;
    Topology topology{hosts, cores + half * half, {}, 1.0};
    for (uint32_t host = 0; host < hosts; ++host)
    {
        topology.links.emplace_back(host, edges + host / half);
    }
    for (uint32_t pod = 0; pod < k; ++pod)
    {
        for (uint32_t a = 0; a < half; ++a)
        {
            const uint32_t aggregation = aggregations + pod * half + a;
            for (uint32_t i = 0; i < half; ++i)
            {
                topology.links.emplace_back(edges + pod * half + i, aggregation);
                topology.links.emplace_back(aggregation, cores + a * half + i);
            }
        }
    }
    return topology;
}

struct Flow
{
    double startSeconds;
    uint32_t src;
    uint32_t dst;
    uint64_t bytes; // 0: without end
};

std::vector<Flow>
ReadFlows(const std::string& file)
{
    std::ifstream in(file);
    std::string line;
    if (!std::getline(in, line))
    {
        NS_FATAL_ERROR(file << ": no flow list");
    }
    const bool picoseconds = line.rfind("start_ps,", 0) == 0;
    std::vector<Flow> flows;
    while (std::getline(in, line))
    {
        std::replace(line.begin(), line.end(), ',', ' ');
        std::istringstream fields(line);
        Flow flow;
        if (!(fields >> flow.startSeconds >> flow.src >> flow.dst >> flow.bytes))
        {
            NS_FATAL_ERROR(file << ": expected start,src,dst,bytes: " << line);
        }
        flow.startSeconds *= picoseconds ? 1e-12 : 1.0;
        flows.push_back(flow);
    }
    return flows;
}

uint64_t
Mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

// Shortest paths with per-flow ECMP. ns-3's own choices either spread single packets (RandomEcmpRouting) or pin every
// flow to one path (Nix-vector); this one hashes addresses and ports, salted by the node so choices are independent.
class FlowEcmp : public Ipv4RoutingProtocol
{
  public:
    void AddPort(Ptr<NetDevice> device, Ipv4Address source)
    {
        auto route = Create<Ipv4Route>();
        route->SetOutputDevice(device);
        route->SetSource(source);
        route->SetGateway(Ipv4Address::GetAny());
        m_routes.push_back(route);
    }

    // The ports on shortest paths to each host, indexed by host.
    void SetNextPorts(std::vector<std::vector<uint32_t>> nextPorts)
    {
        m_nextPorts = std::move(nextPorts);
    }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>,
                               const Ipv4Header&,
                               Ptr<NetDevice>,
                               Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOTERROR;
        return m_routes.at(0); // only hosts originate, and they have one port
    }

    bool RouteInput(Ptr<const Packet> packet,
                    const Ipv4Header& header,
                    Ptr<const NetDevice> device,
                    UnicastForwardCallback forward,
                    MulticastForwardCallback,
                    LocalDeliverCallback deliver,
                    ErrorCallback) override
    {
        const uint32_t interface = m_ipv4->GetInterfaceForDevice(device);
        if (m_ipv4->IsDestinationAddress(header.GetDestination(), interface))
        {
            deliver(packet, header, interface);
            return true;
        }
        const auto& ports = m_nextPorts[header.GetDestination().Get() - FIRST_ADDRESS];
        const size_t choice = ports.size() == 1 ? 0 : FlowHash(packet, header) % ports.size();
        forward(m_routes[ports[choice]], packet, header);
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override
    {
    }

    void NotifyInterfaceDown(uint32_t) override
    {
    }

    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void SetIpv4(Ptr<Ipv4> ipv4) override
    {
        m_ipv4 = ipv4;
        m_salt = Mix(ipv4->GetObject<Node>()->GetId() + 1);
    }

    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override
    {
    }

  private:
    uint64_t FlowHash(Ptr<const Packet> packet, const Ipv4Header& header) const
    {
        uint8_t ports[4] = {};
        packet->CopyData(ports, sizeof(ports));
        const uint64_t portPair = ports[0] << 24 | ports[1] << 16 | ports[2] << 8 | ports[3];
        const uint64_t source = header.GetSource().Get();
        return Mix(source << 32 ^ header.GetDestination().Get() ^ Mix(portPair ^ m_salt));
    }

    Ptr<Ipv4> m_ipv4;
    uint64_t m_salt = 0;
    std::vector<Ptr<Ipv4Route>> m_routes;
    std::vector<std::vector<uint32_t>> m_nextPorts;
};

class Network
{
  public:
    Network(const Topology& topology, TrafficControlHelper& queueDiscs)
        : m_topology(topology),
          m_peers(topology.nodes)
    {
        m_nodes.Create(topology.nodes);
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        internet.Install(m_nodes);
        for (uint32_t node = 0; node < topology.nodes; ++node)
        {
            m_routing.push_back(CreateObject<FlowEcmp>());
            m_nodes.Get(node)->GetObject<Ipv4>()->SetRoutingProtocol(m_routing[node]);
        }
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(LINE_RATE_BPS))));
        wire.SetDeviceAttribute("Mtu", UintegerValue(1500));
        wire.SetChannelAttribute("Delay", TimeValue(MicroSeconds(topology.delayMicroseconds)));
        wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
        for (auto [a, b] : topology.links)
        {
            auto devices = wire.Install(m_nodes.Get(a), m_nodes.Get(b));
            AddPort(a, b, devices.Get(0), queueDiscs);
            AddPort(b, a, devices.Get(1), queueDiscs);
        }
        InstallRoutes();
    }

    Ptr<Node> Host(uint32_t host) const
    {
        return m_nodes.Get(host);
    }

    static Ipv4Address Address(uint32_t host)
    {
        return Ipv4Address(FIRST_ADDRESS + host);
    }

    // The first port made: in a dumbbell the bottleneck.
    Ptr<QueueDisc> FirstQueue() const
    {
        return m_firstQueue;
    }

  private:
    void AddPort(uint32_t node, uint32_t peer, Ptr<NetDevice> device, TrafficControlHelper& queueDiscs)
    {
        device->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&CountHop));
        auto queues = queueDiscs.Install(device);
        m_firstQueue = m_firstQueue ? m_firstQueue : queues.Get(0);
        auto ipv4 = m_nodes.Get(node)->GetObject<Ipv4>();
        const uint32_t interface = ipv4->AddInterface(device);
        if (node < m_topology.hosts)
        {
            ipv4->AddAddress(interface, Ipv4InterfaceAddress(Address(node), Ipv4Mask::GetOnes()));
        }
        ipv4->SetUp(interface);
        m_routing[node]->AddPort(device, node < m_topology.hosts ? Address(node) : Ipv4Address());
        m_peers[node].push_back(peer);
    }

    std::vector<uint32_t> DistancesTo(uint32_t host) const
    {
        std::vector<uint32_t> distance(m_topology.nodes, UINT32_MAX);
        std::deque<uint32_t> frontier{host};
        distance[host] = 0;
        while (!frontier.empty())
        {
            const uint32_t node = frontier.front();
            frontier.pop_front();
            for (uint32_t peer : m_peers[node])
            {
                if (distance[peer] == UINT32_MAX)
                {
                    distance[peer] = distance[node] + 1;
                    frontier.push_back(peer);
                }
            }
        }
        return distance;
    }

    void InstallRoutes()
    {
        std::vector<std::vector<std::vector<uint32_t>>> nextPorts(m_topology.nodes);
        for (uint32_t host = 0; host < m_topology.hosts; ++host)
        {
            const auto distance = DistancesTo(host);
            for (uint32_t node = 0; node < m_topology.nodes; ++node)
            {
                auto& ports = nextPorts[node].emplace_back();
                for (uint32_t port = 0; port < m_peers[node].size(); ++port)
                {
                    if (distance[m_peers[node][port]] < distance[node])
                    {
                        ports.push_back(port);
                    }
                }
            }
        }
        for (uint32_t node = 0; node < m_topology.nodes; ++node)
        {
            m_routing[node]->SetNextPorts(std::move(nextPorts[node]));
        }
    }

    Topology m_topology;
    NodeContainer m_nodes;
    std::vector<Ptr<FlowEcmp>> m_routing;
    std::vector<std::vector<uint32_t>> m_peers;
    Ptr<QueueDisc> m_firstQueue;
};

void
ConfigureTcp(const std::string& congestionControl)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue(congestionControl));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(PAYLOAD_BYTES));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(250)));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpDctcp::DctcpShiftG", DoubleValue(1.0 / 16));
}

// DCTCP marking: RED on the instantaneous length with both thresholds at 65 packets.
TrafficControlHelper
MarkingQueue()
{
    TrafficControlHelper helper;
    helper.SetRootQueueDisc("ns3::RedQueueDisc",
                            "MaxSize", StringValue("1000p"),
                            "MinTh", DoubleValue(65),
                            "MaxTh", DoubleValue(65),
                            "QW", DoubleValue(1),
                            "Gentle", BooleanValue(false),
                            "UseEcn", BooleanValue(true),
                            "UseHardDrop", BooleanValue(false),
                            "MeanPktSize", UintegerValue(1500),
                            "LinkBandwidth", DataRateValue(DataRate(uint64_t(LINE_RATE_BPS))),
                            "LinkDelay", TimeValue(MicroSeconds(5)));
    return helper;
}

TrafficControlHelper
DropTail(uint32_t packets)
{
    TrafficControlHelper helper;
    helper.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, packets)));
    return helper;
}

// Counts data segments which start below the highest sequence number sent.
class RetransmissionCounter
{
  public:
    void OnSend(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>)
    {
        if (packet->GetSize() == 0)
        {
            return;
        }
        const SequenceNumber32 end = header.GetSequenceNumber() + packet->GetSize();
        if (m_sent && end <= m_highest)
        {
            ++m_retransmissions;
        }
        else
        {
            m_highest = end;
            m_sent = true;
        }
    }

    void Watch(Ptr<BulkSendApplication> sender)
    {
        sender->GetSocket()->TraceConnectWithoutContext("Tx", MakeCallback(&RetransmissionCounter::OnSend, this));
    }

    uint64_t Retransmissions() const
    {
        return m_retransmissions;
    }

  private:
    bool m_sent = false;
    SequenceNumber32 m_highest;
    uint64_t m_retransmissions = 0;
};

class QueueSampler
{
  public:
    QueueSampler(Ptr<QueueDisc> queue, double startSeconds)
        : m_queue(queue)
    {
        Simulator::Schedule(Seconds(startSeconds), &QueueSampler::Sample, this);
    }

    double Mean() const
    {
        return m_samples ? double(m_sum) / m_samples : 0;
    }

  private:
    void Sample()
    {
        m_sum += m_queue->GetNPackets();
        ++m_samples;
        Simulator::Schedule(MicroSeconds(20), &QueueSampler::Sample, this);
    }

    Ptr<QueueDisc> m_queue;
    uint64_t m_sum = 0;
    uint64_t m_samples = 0;
};

double
Jain(const std::vector<double>& shares)
{
    double sum = 0;
    double squares = 0;
    for (double share : shares)
    {
        sum += share;
        squares += share * share;
    }
    return squares > 0 ? sum * sum / (shares.size() * squares) : 0;
}

double
Seconds(const timeval& time)
{
    return time.tv_sec + time.tv_usec * 1e-6;
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string scenario = "S1";
    std::string flowFile;
    double simulated = 0.1;
    uint32_t bufferPackets = 100;
    CommandLine command(__FILE__);
    command.AddValue("scenario", "S1, S1c, S2 or S3", scenario);
    command.AddValue("flows", "flow list (CSV)", flowFile);
    command.AddValue("simulated", "simulated seconds", simulated);
    command.AddValue("buffer", "drop-tail packets (S1c)", bufferPackets);
    // As fast as any of ns-3's schedulers here: 5 to 40 % above its default, the map.
    GlobalValue::Bind("SchedulerType", StringValue("ns3::CalendarScheduler"));
    command.Parse(argc, argv);

    const bool cubic = scenario == "S1c";
    const bool dumbbell = cubic || scenario == "S1";
    const bool longFlows = scenario != "S3";
    ConfigureTcp(cubic ? "ns3::TcpCubic" : "ns3::TcpDctcp");
    auto queueDiscs = cubic ? DropTail(bufferPackets) : MarkingQueue();
    const auto flows = ReadFlows(flowFile);
    const Topology topology = dumbbell ? Dumbbell(cubic ? 2 : 8) : FatTree(8);
    Network network(topology, queueDiscs);

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t host = 0; host < topology.hosts; ++host)
    {
        PacketSinkHelper helper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), SINK_PORT));
        sinks.push_back(DynamicCast<PacketSink>(helper.Install(network.Host(host)).Get(0)));
    }
    std::deque<RetransmissionCounter> counters;
    for (const Flow& flow : flows)
    {
        if (flow.startSeconds >= simulated)
        {
            continue;
        }
        BulkSendHelper helper("ns3::TcpSocketFactory", InetSocketAddress(Network::Address(flow.dst), SINK_PORT));
        helper.SetAttribute("MaxBytes", UintegerValue(flow.bytes));
        helper.SetAttribute("SendSize", UintegerValue(44 * PAYLOAD_BYTES));
        auto sender = DynamicCast<BulkSendApplication>(helper.Install(network.Host(flow.src)).Get(0));
        sender->SetStartTime(ns3::Seconds(flow.startSeconds));
        if (cubic)
        {
            // The socket exists once the application has started.
            counters.emplace_back();
            Simulator::Schedule(NanoSeconds(1), &RetransmissionCounter::Watch, &counters.back(), sender);
        }
    }
    std::unique_ptr<QueueSampler> sampler;
    if (dumbbell)
    {
        sampler = std::make_unique<QueueSampler>(network.FirstQueue(), std::min(0.1, simulated / 2));
    }

    rusage setup;
    getrusage(RUSAGE_SELF, &setup);
    Simulator::Stop(ns3::Seconds(simulated));
    Simulator::Run();
    rusage total;
    getrusage(RUSAGE_SELF, &total);

    std::vector<double> received;
    for (const auto& sink : sinks)
    {
        received.push_back(sink->GetTotalRx());
    }
    const double bytes = std::accumulate(received.begin(), received.end(), 0.0);
    const double sharers = dumbbell ? 1 : topology.hosts;
    const double setupSeconds = Seconds(setup.ru_utime) + Seconds(setup.ru_stime);
    const double userSeconds = Seconds(total.ru_utime);
    const double systemSeconds = Seconds(total.ru_stime);
    std::ostringstream json;
    json << "{\"scenario\":\"" << scenario << "\",\"system\":\"ns-3\",\"version\":\"" NS3_VERSION "\""
         << ",\"transport\":\"" << (cubic ? "cubic" : "dctcp") << "\",\"simulated_s\":" << simulated
         << ",\"packet_hops\":" << packetHops << ",\"delivered\":" << uint64_t(bytes / PAYLOAD_BYTES)
         << ",\"goodput_fraction\":" << bytes * 8 / (MAX_GOODPUT_BPS * sharers * simulated);
    if (longFlows)
    {
        std::vector<double> shares;
        for (const Flow& flow : flows)
        {
            shares.push_back(received[flow.dst]);
        }
        json << ",\"jain\":" << Jain(shares);
    }
    if (sampler)
    {
        json << ",\"mean_queue_packets\":" << sampler->Mean();
    }
    if (cubic)
    {
        uint64_t retransmissions = 0;
        for (const auto& counter : counters)
        {
            retransmissions += counter.Retransmissions();
        }
        json << ",\"buffer_packets\":" << bufferPackets << ",\"retransmissions\":" << retransmissions;
    }
    json << ",\"setup_s\":" << setupSeconds << ",\"user_s\":" << userSeconds
         << ",\"sys_s\":" << systemSeconds
         << ",\"hops_per_cpu_s\":" << uint64_t(packetHops / (userSeconds + systemSeconds - setupSeconds))
         << ",\"peak_rss_mb\":" << total.ru_maxrss / 1024.0 << "}";
    std::cout << json.str() << std::endl;
    Simulator::Destroy();
    return 0;
}
