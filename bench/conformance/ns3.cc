// One case of the conformance table on stock ns-3: a network, its queues and a list of flows; one JSON line on stdout.
//
// Everything of TCP and of queue disciplines that has an attribute in ns-3 is set by it on the command line, such as
// --ns3::TcpCubic::HyStart=false. Each flow has a connection and a port of its own; its completion is when the receiver
// has its last byte. Besides ns-3's congestion controls there are TcpCubicHoldingThreshold and TcpNewRenoHalvingWindow,
// which a case can name; besides its queue disciplines there are LateFifoQueueDisc, for hosts, ClassRoundRobinQueueDisc and
// WeightedClassesQueueDisc. Flows may be flexible (REFLEX, reflex.h).

#include "reflex.h"

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <deque>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace ns3;

namespace
{

constexpr uint16_t FIRST_PORT = 10000;
constexpr uint32_t SEGMENTS_PER_WRITE = 10;
// By class. ns-3 makes of these the priorities 0 (best effort) and 2 (bulk), which PrioQueueDisc sorts by. Another value
// for class 0 would end ECN: a socket with a type of service of its own sends its data as not ECN-capable.
constexpr uint8_t TYPE_OF_SERVICE[] = {0x00, 0x08};
constexpr uint32_t LOW_CLASS = 1;
constexpr const char* BANDS = "0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1";

std::vector<std::string>
Words(const std::string& list)
{
    std::vector<std::string> words;
    std::istringstream in(list);
    for (std::string word; std::getline(in, word, ',');)
    {
        words.push_back(word);
    }
    return words;
}

// ns-3's CUBIC, but a further timeout of the same segment leaves ssthresh as it is (RFC 5681, section 3.1). ns-3's lowers it again.
class TcpCubicHoldingThreshold : public TcpCubic
{
  public:
    static TypeId GetTypeId()
    {
        static const TypeId type =
            TypeId("TcpCubicHoldingThreshold").SetParent<TcpCubic>().AddConstructor<TcpCubicHoldingThreshold>();
        return type;
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> state, uint32_t inFlight) override
    {
        const bool again = state->m_congState == TcpSocketState::CA_LOSS;
        return again ? uint32_t(state->m_ssThresh) : TcpCubic::GetSsThresh(state, inFlight);
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<TcpCubicHoldingThreshold>(this);
    }
};

NS_OBJECT_ENSURE_REGISTERED(TcpCubicHoldingThreshold);

// ns-3's NewReno, but a loss leaves half of the window (Linux). ns-3's leaves half of what is in flight without what was SACKed.
class TcpNewRenoHalvingWindow : public TcpNewReno
{
  public:
    static TypeId GetTypeId()
    {
        static const TypeId type =
            TypeId("TcpNewRenoHalvingWindow").SetParent<TcpNewReno>().AddConstructor<TcpNewRenoHalvingWindow>();
        return type;
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> state, uint32_t) override
    {
        return std::max<uint32_t>(2 * state->m_segmentSize, state->m_cWnd / 2);
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<TcpNewRenoHalvingWindow>(this);
    }
};

NS_OBJECT_ENSURE_REGISTERED(TcpNewRenoHalvingWindow);

// A packet that finds its host's port idle starts up to a given time later, by a uniform draw. Pliant's host_jitter is the same.
class LateFifoQueueDisc : public FifoQueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static const TypeId type =
            TypeId("LateFifoQueueDisc")
                .SetParent<FifoQueueDisc>()
                .AddConstructor<LateFifoQueueDisc>()
                .AddAttribute("Rate", "Of the link.", DataRateValue(), MakeDataRateAccessor(&LateFifoQueueDisc::m_rate), MakeDataRateChecker())
                .AddAttribute("Latest", "The longest delay.", TimeValue(), MakeTimeAccessor(&LateFifoQueueDisc::m_latest), MakeTimeChecker());
        return type;
    }

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override
    {
        const Time now = Simulator::Now();
        if (GetNPackets() == 0 && now >= m_idleFrom)
        {
            m_notBefore = now + Seconds(m_draws->GetValue(0, m_latest.GetSeconds()));
            Simulator::Schedule(m_notBefore - now, &QueueDisc::Run, this);
        }
        return GetInternalQueue(0)->Enqueue(item);
    }

    Ptr<QueueDiscItem> DoDequeue() override
    {
        const Time now = Simulator::Now();
        if (now < m_notBefore)
        {
            return nullptr;
        }
        Ptr<QueueDiscItem> item = GetInternalQueue(0)->Dequeue();
        if (item)
        {
            m_idleFrom = std::max(m_idleFrom, now) + m_rate.CalculateBytesTxTime(item->GetSize());
        }
        return item;
    }

    DataRate m_rate;
    Time m_latest;
    Time m_notBefore;
    Time m_idleFrom;
    Ptr<UniformRandomVariable> m_draws = CreateObject<UniformRandomVariable>();
};

NS_OBJECT_ENSURE_REGISTERED(LateFifoQueueDisc);

// Bands in turn, a packet each, where stock ns-3 has a queue for each flow, one limit for all, and drops from the longest.
class ClassRoundRobinQueueDisc : public PrioQueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static const TypeId type =
            TypeId("ClassRoundRobinQueueDisc").SetParent<PrioQueueDisc>().AddConstructor<ClassRoundRobinQueueDisc>();
        return type;
    }

  private:
    Ptr<QueueDiscItem> DoDequeue() override
    {
        for (size_t tried = 0; tried < GetNQueueDiscClasses(); ++tried)
        {
            m_band = (m_band + 1) % GetNQueueDiscClasses();
            if (Ptr<QueueDiscItem> item = GetQueueDiscClass(m_band)->GetQueueDisc()->Dequeue())
            {
                return item;
            }
        }
        return nullptr;
    }

    size_t m_band = 0;
};

NS_OBJECT_ENSURE_REGISTERED(ClassRoundRobinQueueDisc);

// The number that a packet's FlowIdTag carries is its band. Unlike a type of service it can change during a flow, and leaves ECN on.
class TagFilter : public PacketFilter
{
  public:
    static TypeId GetTypeId()
    {
        static const TypeId type = TypeId("TagFilter").SetParent<PacketFilter>().AddConstructor<TagFilter>();
        return type;
    }

  private:
    bool CheckProtocol(Ptr<QueueDiscItem>) const override
    {
        return true;
    }

    int32_t DoClassify(Ptr<QueueDiscItem> item) const override
    {
        FlowIdTag tag;
        return item->GetPacket()->PeekPacketTag(tag) ? int32_t(tag.GetFlowId()) : PF_NO_MATCH;
    }
};

NS_OBJECT_ENSURE_REGISTERED(TagFilter);

// Bands by deficit round robin with weights (Shreedhar and Varghese, SIGCOMM 1995), of which stock ns-3 has none for classes.
class WeightedClassesQueueDisc : public PrioQueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static const TypeId type = TypeId("WeightedClassesQueueDisc")
                                       .SetParent<PrioQueueDisc>()
                                       .AddConstructor<WeightedClassesQueueDisc>()
                                       .AddAttribute("Weights", "Of the bands, with commas.", StringValue(""),
                                                     MakeStringAccessor(&WeightedClassesQueueDisc::SetWeights), MakeStringChecker());
        return type;
    }

  private:
    // Per unit of weight and round: a full packet as ns-3's disciplines count it, without the link's framing.
    static constexpr uint32_t QUANTUM = 1500;

    void SetWeights(std::string list)
    {
        m_quanta.clear();
        for (const auto& word : Words(list))
        {
            m_quanta.push_back(QUANTUM * std::stoul(word));
        }
        m_deficits.assign(m_quanta.size(), 0);
    }

    Ptr<QueueDiscItem> DoDequeue() override
    {
        for (size_t empty = 0; empty < m_quanta.size();)
        {
            auto queue = GetQueueDiscClass(m_band)->GetQueueDisc();
            uint32_t& deficit = m_deficits[m_band];
            Ptr<const QueueDiscItem> head = queue->Peek();
            if (head && head->GetSize() <= deficit)
            {
                deficit -= head->GetSize();
                Ptr<QueueDiscItem> item = queue->Dequeue();
                deficit = queue->GetNPackets() > 0 ? deficit : 0;
                return item;
            }
            empty = head ? 0 : empty + 1;
            m_band = (m_band + 1) % m_quanta.size();
            if (GetQueueDiscClass(m_band)->GetQueueDisc()->GetNPackets() > 0)
            {
                m_deficits[m_band] += m_quanta[m_band];
            }
        }
        return nullptr;
    }

    std::vector<uint32_t> m_quanta;
    std::vector<uint32_t> m_deficits;
    size_t m_band = 0;
};

NS_OBJECT_ENSURE_REGISTERED(WeightedClassesQueueDisc);

struct Options
{
    std::string topology = "dumbbell";
    uint32_t hosts = 4;
    double edgeMbit = 100;
    double edgeMicroseconds = 100;
    double coreMbit = 10;
    double coreMicroseconds = 10000;
    std::string queue = "fifo";
    std::string limits = "100p";
    std::string weights;
    std::string flows;
    std::string flexible;
    double intervalMicroseconds = 5000;
    double seconds = 1;
    double sampleFrom = 0;
    double sampleMicroseconds = 1000;
    double hostJitterMicroseconds = 0;
    uint32_t mss = 1448;
};

// A connection from one host to another. It counts what it sends again, and its timeouts. A flexible one follows REFLEX.
class Flow
{
  public:
    Flow(uint32_t number, Ptr<Node> source, Ptr<Node> destination, Ipv4Address address, uint64_t bytes, uint8_t tos, uint32_t mss)
        : m_source(source),
          m_peer(InetSocketAddress(address, FIRST_PORT + number)),
          m_bytes(bytes),
          m_unwritten(bytes),
          m_mss(mss)
    {
        m_peer.SetTos(tos);
        m_listener = Socket::CreateSocket(destination, TcpSocketFactory::GetTypeId());
        m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), FIRST_PORT + number));
        m_listener->Listen();
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      MakeCallback(&Flow::OnAccept, this));
    }

    // Before the start.
    void MakeFlexible(const ReflexCycle& cycle, double share, double delivery)
    {
        m_interval = Seconds(cycle.intervalSeconds);
        m_reflex.emplace(cycle, share, delivery, m_bytes);
    }

    void Start()
    {
        m_started = Simulator::Now();
        if (m_reflex)
        {
            m_boundary = m_started;
            ScheduleBoundary();
        }
        m_socket = Socket::CreateSocket(m_source, TcpSocketFactory::GetTypeId());
        m_socket->SetIpTos(m_peer.GetTos());
        m_socket->Bind();
        m_socket->TraceConnectWithoutContext("Tx", MakeCallback(&Flow::OnSend, this));
        m_socket->TraceConnectWithoutContext("CongState", MakeCallback(&Flow::OnState, this));
        m_socket->SetConnectCallback(MakeCallback(&Flow::OnConnect, this), MakeNullCallback<void, Ptr<Socket>>());
        m_socket->SetSendCallback(MakeCallback(&Flow::OnRoom, this));
        m_socket->Connect(m_peer);
    }

    void Print(std::ostream& out) const
    {
        out << "{\"delivered\":" << m_received << ",\"fct_us\":";
        m_completed.IsZero() ? out << "null" : out << (m_completed - m_started).GetNanoSeconds() / 1e3;
        out << ",\"segments\":" << m_segments << ",\"retransmitted\":" << m_retransmitted
            << ",\"timeouts\":" << m_timeouts;
        if (m_reflex)
        {
            out << ",\"given_up\":" << m_givenUp << ",\"low_us\":" << LowTime().GetNanoSeconds() / 1e3 << ",\"fair_rates\":[";
            const char* comma = "";
            for (const auto& [at, rate] : m_fairRates)
            {
                out << comma << "[" << at.GetSeconds() << "," << rate << "]";
                comma = ",";
            }
            out << "]";
        }
        out << "}";
    }

  private:
    void OnConnect(Ptr<Socket> socket)
    {
        m_connected = true;
        m_sendBuffer = socket->GetTxAvailable();
        Write();
    }

    void OnRoom(Ptr<Socket>, uint32_t)
    {
        Write();
    }

    // Whole segments, but for the last.
    void Write()
    {
        while (m_connected && m_unwritten > 0)
        {
            const uint64_t chunk = std::min<uint64_t>(m_unwritten, uint64_t(SEGMENTS_PER_WRITE) * m_mss);
            if (m_socket->GetTxAvailable() < chunk)
            {
                return;
            }
            m_socket->Send(Create<Packet>(uint32_t(chunk)));
            m_unwritten -= chunk;
            m_written += chunk;
        }
    }

    void ScheduleBoundary()
    {
        const Time now = Simulator::Now();
        const int64_t next = now.GetNanoSeconds() / m_interval.GetNanoSeconds() + 1;
        Simulator::Schedule(m_interval * next - now, &Flow::OnBoundary, this, uint64_t(next));
    }

    // Of the clock that all hosts share: simulated time.
    void OnBoundary(uint64_t interval)
    {
        const Time now = Simulator::Now();
        const Time elapsed = now - m_boundary;
        const uint64_t acked = m_connected ? m_written - (m_sendBuffer - m_socket->GetTxAvailable()) : 0;
        m_low = LowTime();
        m_reflex->Update(interval, double(acked - m_acked), elapsed.GetSeconds());
        m_boundary = now;
        m_acked = acked;
        // What is in the socket cannot be taken back.
        const uint64_t givenUp = m_reflex->GivenUp();
        m_unwritten -= std::min(m_unwritten, givenUp - m_givenUp);
        m_givenUp = givenUp;
        if (const auto rate = m_reflex->FairRate())
        {
            m_fairRates.emplace_back(now, *rate);
        }
        CheckCompleted();
        if (!m_reflex->IsFinished() && m_completed.IsZero())
        {
            ScheduleBoundary();
        }
    }

    // Until now, or until the flow was complete.
    Time LowTime() const
    {
        const Time end = m_completed.IsZero() ? Simulator::Now() : m_completed;
        return m_low + (m_reflex->IsLow() && end > m_boundary ? end - m_boundary : Time());
    }

    void CheckCompleted()
    {
        if (m_received + m_givenUp >= m_bytes && m_completed.IsZero())
        {
            m_completed = Simulator::Now();
        }
    }

    void OnAccept(Ptr<Socket> socket, const Address&)
    {
        socket->SetRecvCallback(MakeCallback(&Flow::OnReceive, this));
    }

    void OnReceive(Ptr<Socket> socket)
    {
        while (Ptr<Packet> packet = socket->Recv())
        {
            if (packet->GetSize() == 0)
            {
                break;
            }
            m_received += packet->GetSize();
        }
        CheckCompleted();
    }

    void OnSend(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>)
    {
        if (packet->GetSize() == 0)
        {
            return;
        }
        if (m_reflex && m_reflex->IsLow())
        {
            packet->AddPacketTag(FlowIdTag(LOW_CLASS));
        }
        ++m_segments;
        const SequenceNumber32 end = header.GetSequenceNumber() + packet->GetSize();
        if (m_segments > 1 && end <= m_highest)
        {
            ++m_retransmitted;
        }
        else
        {
            m_highest = end;
        }
    }

    void OnState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t state)
    {
        m_timeouts += state == TcpSocketState::CA_LOSS;
    }

    Ptr<Node> m_source;
    InetSocketAddress m_peer;
    uint64_t m_bytes;
    uint64_t m_unwritten;
    uint32_t m_mss;
    Ptr<Socket> m_listener;
    Ptr<Socket> m_socket;
    bool m_connected = false;
    Time m_started;
    Time m_completed;
    uint64_t m_received = 0;
    uint64_t m_segments = 0;
    uint64_t m_retransmitted = 0;
    uint64_t m_timeouts = 0;
    SequenceNumber32 m_highest;
    // Of flexible flows.
    Time m_interval;
    std::optional<Reflex> m_reflex;
    uint32_t m_sendBuffer = 0;
    uint64_t m_written = 0;
    uint64_t m_acked = 0;
    uint64_t m_givenUp = 0;
    Time m_boundary;
    Time m_low;
    std::vector<std::pair<Time, double>> m_fairRates;
};

TrafficControlHelper
Queues(const Options& options, double mbit, double microseconds)
{
    const auto limits = Words(options.limits);
    TrafficControlHelper helper;
    if (options.queue == "fifo")
    {
        helper.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue(limits.at(0)));
    }
    else if (options.queue == "red")
    {
        helper.SetRootQueueDisc("ns3::RedQueueDisc",
                                "MaxSize", StringValue(limits.at(0)),
                                "LinkBandwidth", DataRateValue(DataRate(uint64_t(mbit * 1e6))),
                                "LinkDelay", TimeValue(NanoSeconds(microseconds * 1e3)));
    }
    else if (options.queue == "late-fifo")
    {
        helper.SetRootQueueDisc("LateFifoQueueDisc",
                                "MaxSize", StringValue(limits.at(0)),
                                "Rate", DataRateValue(DataRate(uint64_t(mbit * 1e6))),
                                "Latest", TimeValue(NanoSeconds(options.hostJitterMicroseconds * 1e3)));
    }
    else if (options.queue == "strict" || options.queue == "class-round-robin")
    {
        const char* discipline = options.queue == "strict" ? "ns3::PrioQueueDisc" : "ClassRoundRobinQueueDisc";
        const uint16_t root = helper.SetRootQueueDisc(discipline, "Priomap", StringValue(BANDS));
        const auto bands = helper.AddQueueDiscClasses(root, limits.size(), "ns3::QueueDiscClass");
        for (size_t band = 0; band < limits.size(); ++band)
        {
            helper.AddChildQueueDisc(root, bands[band], "ns3::FifoQueueDisc", "MaxSize", StringValue(limits[band]));
        }
    }
    else if (options.queue == "weighted-classes")
    {
        const uint16_t root = helper.SetRootQueueDisc("WeightedClassesQueueDisc", "Priomap", StringValue(BANDS),
                                                      "Weights", StringValue(options.weights));
        helper.AddPacketFilter(root, "TagFilter");
        const auto bands = helper.AddQueueDiscClasses(root, limits.size(), "ns3::QueueDiscClass");
        for (size_t band = 0; band < limits.size(); ++band)
        {
            helper.AddChildQueueDisc(root, bands[band], "ns3::RedQueueDisc",
                                     "MaxSize", StringValue(limits[band]),
                                     "LinkBandwidth", DataRateValue(DataRate(uint64_t(mbit * 1e6))),
                                     "LinkDelay", TimeValue(NanoSeconds(microseconds * 1e3)));
        }
    }
    else if (options.queue == "round-robin")
    {
        // Deficit round robin of one queue per flow. CoDel's part is switched off by a target that is never reached.
        helper.SetRootQueueDisc("ns3::FqCoDelQueueDisc",
                                "MaxSize", StringValue(limits.at(0)),
                                "DropBatchSize", UintegerValue(1),
                                "Target", StringValue("1000s"),
                                "Interval", StringValue("1000s"),
                                "EnableSetAssociativeHash", BooleanValue(true));
    }
    else
    {
        NS_FATAL_ERROR("unknown queue " << options.queue);
    }
    return helper;
}

class Network
{
  public:
    explicit Network(const Options& options)
        : m_options(options)
    {
        const bool star = options.topology == "star";
        m_hosts.Create(options.hosts);
        m_switches.Create(star ? 1 : 2);
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        internet.Install(m_hosts);
        internet.Install(m_switches);
        m_addresses.SetBase("10.0.0.0", "255.255.255.252");
        if (!star)
        {
            auto ports = Connect(m_switches.Get(0), m_switches.Get(1), options.coreMbit, options.coreMicroseconds);
            m_bottleneck = Install(ports.Get(0), true, options.coreMbit, options.coreMicroseconds);
            Install(ports.Get(1), true, options.coreMbit, options.coreMicroseconds);
            Number(ports);
        }
        for (uint32_t host = 0; host < options.hosts; ++host)
        {
            auto near = m_switches.Get(star || host < options.hosts / 2 ? 0 : 1);
            auto ports = Connect(m_hosts.Get(host), near, options.edgeMbit, options.edgeMicroseconds);
            Install(ports.Get(0), false, options.edgeMbit, options.edgeMicroseconds);
            auto queue = Install(ports.Get(1), true, options.edgeMbit, options.edgeMicroseconds);
            m_bottleneck = m_bottleneck ? m_bottleneck : queue;
            m_address.push_back(Number(ports).GetAddress(0));
        }
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    }

    Ptr<Node> Host(uint32_t host) const
    {
        return m_hosts.Get(host);
    }

    Ipv4Address Address(uint32_t host) const
    {
        return m_address.at(host);
    }

    // From switch to switch in a dumbbell, to host 0 in a star.
    Ptr<QueueDisc> Bottleneck() const
    {
        return m_bottleneck;
    }

  private:
    NetDeviceContainer Connect(Ptr<Node> a, Ptr<Node> b, double mbit, double microseconds)
    {
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(mbit * 1e6))));
        wire.SetChannelAttribute("Delay", TimeValue(NanoSeconds(microseconds * 1e3)));
        wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
        return wire.Install(a, b);
    }

    Ptr<QueueDisc> Install(Ptr<NetDevice> device, bool isSwitch, double mbit, double microseconds)
    {
        Options options = m_options;
        if (!isSwitch)
        {
            options.queue = options.hostJitterMicroseconds > 0 ? "late-fifo" : "fifo";
            options.limits = "100000p";
        }
        return Queues(options, mbit, microseconds).Install(device).Get(0);
    }

    Ipv4InterfaceContainer Number(const NetDeviceContainer& ports)
    {
        auto numbered = m_addresses.Assign(ports);
        m_addresses.NewNetwork();
        return numbered;
    }

    Options m_options;
    NodeContainer m_hosts;
    NodeContainer m_switches;
    Ipv4AddressHelper m_addresses;
    std::vector<Ipv4Address> m_address;
    Ptr<QueueDisc> m_bottleneck;
};

struct Sampler
{
    Ptr<QueueDisc> queue;
    Time interval;
    uint64_t packets = 0;
    uint64_t samples = 0;

    void Sample()
    {
        packets += queue->GetNPackets();
        ++samples;
        Simulator::Schedule(interval, &Sampler::Sample, this);
    }
};

} // namespace

int
main(int argc, char* argv[])
{
    Options options;
    CommandLine command(__FILE__);
    command.AddValue("topology", "dumbbell or star", options.topology);
    command.AddValue("hosts", "number of hosts, in a dumbbell of both sides", options.hosts);
    command.AddValue("edgeMbit", "rate of hosts' links", options.edgeMbit);
    command.AddValue("edgeUs", "delay of hosts' links", options.edgeMicroseconds);
    command.AddValue("coreMbit", "rate of the dumbbell's link", options.coreMbit);
    command.AddValue("coreUs", "delay of the dumbbell's link", options.coreMicroseconds);
    command.AddValue("queue", "fifo, red, strict, round-robin, class-round-robin or weighted-classes, at switches", options.queue);
    command.AddValue("limits", "limit of each queue, such as 100p or 64000B, with commas", options.limits);
    command.AddValue("weights", "of weighted-classes, with commas", options.weights);
    command.AddValue("flexible", "flows under REFLEX, as number:alpha:r, with commas", options.flexible);
    command.AddValue("intervalUs", "length of REFLEX's intervals", options.intervalMicroseconds);
    command.AddValue("flows", "list of flows (CSV: start,src,dst,bytes,class)", options.flows);
    command.AddValue("seconds", "simulated time", options.seconds);
    command.AddValue("sampleFrom", "when sampling of the queue begins, in seconds", options.sampleFrom);
    command.AddValue("sampleUs", "time between samples", options.sampleMicroseconds);
    command.AddValue("hostJitterUs", "how much later a packet may start that finds its host's port idle", options.hostJitterMicroseconds);
    command.AddValue("mss", "segment size", options.mss);
    command.Parse(argc, argv);
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(options.mss));

    Network network(options);
    std::deque<Flow> flows;
    std::ifstream list(options.flows);
    std::string line;
    std::getline(list, line);
    while (std::getline(list, line))
    {
        const auto fields = Words(line);
        const uint32_t source = std::stoul(fields.at(1));
        const uint32_t destination = std::stoul(fields.at(2));
        flows.emplace_back(flows.size(), network.Host(source), network.Host(destination), network.Address(destination),
                           std::stoull(fields.at(3)), TYPE_OF_SERVICE[std::stoul(fields.at(4))], options.mss);
        Simulator::Schedule(Seconds(std::stod(fields.at(0))), &Flow::Start, &flows.back());
    }
    ReflexCycle cycle;
    cycle.intervalSeconds = options.intervalMicroseconds / 1e6;
    for (const auto& word : Words(options.flexible))
    {
        std::istringstream in(word);
        size_t number = 0;
        double share = 1;
        double delivery = 1;
        char colon = ':';
        in >> number >> colon >> share >> colon >> delivery;
        flows.at(number).MakeFlexible(cycle, share, delivery);
    }

    Sampler sampler{network.Bottleneck(), NanoSeconds(options.sampleMicroseconds * 1e3)};
    Simulator::Schedule(Seconds(options.sampleFrom), &Sampler::Sample, &sampler);
    Simulator::Stop(Seconds(options.seconds));
    Simulator::Run();

    const auto stats = network.Bottleneck()->GetStats();
    std::cout << "{\"queue_packets\":" << (sampler.samples ? double(sampler.packets) / sampler.samples : 0)
              << ",\"forwarded\":" << stats.nTotalSentPackets << ",\"dropped\":" << stats.nTotalDroppedPackets
              << ",\"marked\":" << stats.nTotalMarkedPackets << ",\"flows\":[";
    const char* comma = "";
    for (const Flow& flow : flows)
    {
        std::cout << comma;
        flow.Print(std::cout);
        comma = ",";
    }
    std::cout << "]}" << std::endl;
    Simulator::Destroy();
    return 0;
}
