// Figure 17 of DCTCP's paper as in ns-3's `dctcp-example.cc`, for settings that the example does not have. Every attribute of
// ns-3 is an option, such as --ns3::TcpL4Protocol::RecoveryType=ns3::TcpClassicRecovery. Prints Mbit/s of each sender of S1, S2
// and S3 from 4 to 5 s.
//
// g++ -O2 -std=c++17 -o figure_17 dctcp_figure_17.cc -lns3-applications -lns3-internet -lns3-point-to-point -lns3-traffic-control -lns3-network -lns3-core

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>
#include <vector>

using namespace ns3;

namespace
{

const Time MEASURED_FROM = Seconds(4);
const Time END = Seconds(5);

struct Senders
{
    std::string name;
    uint32_t count;
    Time between;
    uint64_t bytes = 0;
};

void Received(Senders* senders, Ptr<const Packet> packet, const Address&)
{
    if (Simulator::Now() >= MEASURED_FROM)
    {
        senders->bytes += packet->GetSize();
    }
}

// RED of the paper's section 4: from `least` to three times as many packets.
void InstallRed(NetDeviceContainer devices, const std::string& rate, double least)
{
    TrafficControlHelper red;
    red.SetRootQueueDisc("ns3::RedQueueDisc", "LinkBandwidth", StringValue(rate), "LinkDelay", StringValue("10us"), "MinTh",
                         DoubleValue(least), "MaxTh", DoubleValue(3 * least));
    red.Install(devices);
}

// A connection that always has data, from its start on.
void Connect(Senders* senders, Ptr<Node> from, Ptr<Node> to, Ipv4Address address, uint16_t port, Time start)
{
    PacketSinkHelper receiver("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    ApplicationContainer sink = receiver.Install(to);
    sink.Start(Seconds(0));
    sink.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&Received, senders));
    BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(address, port));
    sender.SetAttribute("SendSize", UintegerValue(1000));
    sender.Install(from).Start(start);
}

} // namespace

int main(int argc, char* argv[])
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpDctcp"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
    Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::MeanPktSize", UintegerValue(1500));
    Config::SetDefault("ns3::RedQueueDisc::MaxSize", QueueSizeValue(QueueSize("2666p")));
    Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1));
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(false));
    CommandLine options;
    options.Parse(argc, argv);

    std::vector<Senders> groups{{"S1", 10, MilliSeconds(105)}, {"S2", 20, MilliSeconds(55)}, {"S3", 10, MilliSeconds(105)}};
    NodeContainer switches(2), receivers(21);
    InternetStackHelper stack;
    stack.Install(switches);
    stack.Install(receivers);
    PointToPointHelper edge, core;
    edge.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    edge.SetChannelAttribute("Delay", StringValue("10us"));
    core.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    core.SetChannelAttribute("Delay", StringValue("10us"));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");

    NetDeviceContainer middle = core.Install(switches);
    InstallRed(middle, "10Gbps", 50);
    addresses.Assign(middle);
    std::vector<Ipv4Address> at;
    for (uint32_t i = 0; i < receivers.GetN(); i++)
    {
        NetDeviceContainer link = edge.Install(switches.Get(1), receivers.Get(i));
        InstallRed(link.Get(0), "1Gbps", 20);
        addresses.NewNetwork();
        at.push_back(addresses.Assign(link).GetAddress(1));
    }
    for (uint32_t group = 0; group < groups.size(); group++)
    {
        Senders* senders = &groups[group];
        for (uint32_t i = 0; i < senders->count; i++)
        {
            Ptr<Node> host = CreateObject<Node>();
            stack.Install(host);
            NetDeviceContainer link = edge.Install(switches.Get(group == 2 ? 1 : 0), host);
            InstallRed(link.Get(0), "1Gbps", 20);
            addresses.NewNetwork();
            addresses.Assign(link);
            // Receiver 0 is the one that S1 and S3 share; the third group starts as if it came after the first.
            const uint32_t to = group == 1 ? 1 + i : 0;
            const Time after = MilliSeconds(group == 2 ? 50 : 0);
            Connect(senders, host, receivers.Get(to), at[to], uint16_t(50000 + 100 * group + i), senders->between * i + after);
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    Simulator::Stop(END);
    Simulator::Run();
    for (const Senders& senders : groups)
    {
        const double seconds = (END - MEASURED_FROM).GetSeconds();
        std::cout << senders.name << " " << senders.bytes * 8e-6 / seconds / senders.count << std::endl;
    }
    Simulator::Destroy();
    return 0;
}
