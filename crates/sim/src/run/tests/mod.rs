mod ideal;
mod perfect;

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use pliant_proto::congestion::ControllerSettings;
use pliant_proto::congestion::dctcp::{Dctcp, DctcpConfig};
use pliant_proto::congestion::{AckSample, AnyController, Congestion, CongestionControl, EcnMode};
use pliant_proto::contract::Contract;
use pliant_proto::contract::policy::Policy;
use pliant_proto::host::{HostAnswer, HostRequest};
use pliant_proto::packet::{Packet, SackBlocks};
use pliant_proto::rng::Stream;
use pliant_proto::settings;
use pliant_proto::switch::queue::DropReason;
use pliant_proto::switch::{Enqueued, ForeignDiscipline, ForeignQueue, QueueConfig};

use pliant_proto::transport::any::ForeignTransport;
use pliant_proto::transport::udp::{UdpConfig, UdpReceiver, UdpSender};
use pliant_proto::transport::{Command, Deadline, Event, Statistics, Transport};

use super::*;
use crate::families::{
    Endpoints, Family, FlowEndpoints, ForeignController, GroupSettings, GroupTransport, Member, RunSettings,
    SettingsTable, Traits, TransportName, register, register_controller,
};
use crate::scenario::{Override, Scenario, ScenarioError, register_discipline};
use crate::tables::KeyError;

const SMALL: &str = r#"
duration = "2ms"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
host_link = { rate = "10Gbit/s", delay = "1us" }
[traffic.web]
kind = "poisson"
size = "2kB..100kB"
load = 0.6
[traffic.backup]
kind = "flows"
flows = [{ source = 0, destination = 5, size = "1MB" }, { source = 1, destination = 5, start = "100us" }]
class = 1
"#;

fn try_small(changes: &[&str]) -> Result<Resolved, ScenarioError> {
    let changes: Vec<_> = changes.iter().map(|change| Override::parse("--set", change).unwrap()).collect();
    Scenario::parse(SMALL, Path::new("small.toml")).and_then(|scenario| scenario.with(&changes))?.resolve()
}

fn small(changes: &[&str]) -> Resolved {
    try_small(changes).unwrap()
}

fn run_small(changes: &[&str]) -> RunResult {
    run(&small(changes), &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// The short way for runs of TCP alone is the way for all transports, event for event; others do not take it.
#[test]
fn plain_tcp_is_a_short_cut() {
    let scenario = small(&["queues.plan=strict"]);
    assert!(scenario.groups.iter().all(Group::is_plain_tcp));
    let (general, _) =
        run_with::<AnyTransport, _>(&scenario, NoRecorder, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let short = run_small(&["queues.plan=strict"]);
    assert_eq!((short.digest, short.packet_hops), (general.digest, general.packet_hops));
    for change in ["traffic.backup.transport=dccp", "traffic.backup.cross_queue={}"] {
        assert!(!small(&["queues.plan=strict", change]).groups.iter().all(Group::is_plain_tcp), "{change}");
    }
}

/// Lengths of paths that a [`Foreign`] controller was told.
static HOPS: Mutex<BTreeSet<u8>> = Mutex::new(BTreeSet::new());

/// A controller of another crate: DCTCP that notes the length of its path.
#[derive(Clone, Debug)]
struct Foreign(Dctcp);

impl CongestionControl for Foreign {
    fn on_ack(&mut self, sample: &AckSample) {
        self.0.on_ack(sample);
    }
    fn on_congestion(&mut self, event: &Congestion) {
        self.0.on_congestion(event);
    }
    fn on_recovered(&mut self, flight: u64) {
        self.0.on_recovered(flight);
    }
    fn on_idle(&mut self) {
        self.0.on_idle();
    }
    fn window(&self) -> u64 {
        self.0.window()
    }
    fn ssthresh(&self) -> u64 {
        self.0.ssthresh()
    }
    fn ecn_mode(&self) -> EcnMode {
        self.0.ecn_mode()
    }
    fn set_hops(&mut self, hops: u8) {
        HOPS.lock().unwrap().insert(hops);
    }
}

settings! {
    /// Its settings: those of DCTCP.
    #[derive(Clone, Copy, Debug)]
    struct ForeignConfig {}
    nested {
        /// DCTCP.
        pub dctcp: DctcpConfig
    }
}

impl ControllerSettings for ForeignConfig {
    fn controller(&self, mss: u16, _: &Contract) -> AnyController {
        AnyController::foreign(Foreign(Dctcp::new(self.dctcp, mss)))
    }
}

/// DCTCP as another crate's makes the same run, event for event, under the name that it is registered by. It hears how many
/// links each path has: two below one leaf, four across. Its settings are read and checked as those of built-in ones.
#[test]
fn a_controller_of_another_crate_makes_the_same_run() {
    register_controller(ForeignController {
        name: "foreign-dctcp",
        description: "a test's",
        honours: &[],
        settings: &|| Box::new(ForeignConfig::default()),
    });
    let foreign = ["traffic.web.transport=foreign-dctcp", "traffic.backup.transport=foreign-dctcp"];
    assert_eq!(run_small(&foreign).digest, run_small(&[]).digest);
    assert_eq!(HOPS.lock().unwrap().iter().copied().collect::<Vec<_>>(), [2, 4]);
    let settings = |setting: &str| [foreign[0], setting].map(str::to_owned);
    let set = |settings: [String; 2]| try_small(&settings.each_ref().map(String::as_str)).map(|_| ());
    assert!(set(settings("traffic.web.tcp.gain=0.25")).is_ok());
    let refused = set(settings("traffic.web.tcp.gain=2.0")).unwrap_err().to_string();
    assert!(refused.ends_with("`traffic.web.tcp.gain`: must lie in (0, 1]"), "{refused}");
}

/// A transport of another crate: datagrams, behind a pointer.
struct ForeignUdp<T>(T);

impl<T: Transport<Request = Infallible, Answer = Infallible>> Transport for ForeignUdp<T> {
    type Request = HostRequest;
    type Answer = HostAnswer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        self.0.handle_packet(now, packet, sack);
    }
    fn handle_command(&mut self, now: Instant, command: Command<HostAnswer>) {
        if let Some(command) = command.filter_map_answer(|_| None) {
            self.0.handle_command(now, command);
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.0.poll_transmit(now)
    }
    fn poll_event(&mut self) -> Option<Event<HostRequest>> {
        self.0.poll_event().map(|event| event.map_request(|never| match never {}))
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.0.poll_timeout()
    }
    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }
}

/// The family of that transport, without settings: it sends at 1 Gbit/s.
struct ForeignFamily;

#[derive(Debug)]
struct ForeignGroup;

impl Family for ForeignFamily {
    fn members(&self) -> &'static [Member] {
        &[Member { name: "foreign-udp", description: "a test's", honours: &[], traits: Traits::PLAIN }]
    }
    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        Vec::new()
    }
    fn resolve(&self, _: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        Ok(Arc::new(ForeignGroup))
    }
}

impl GroupTransport for ForeignGroup {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        let class = TrafficClass::new(run.class);
        let config = UdpConfig { rate: Rate::from_gbit_per_sec(1), payload: run.mss, wire: run.wire, class };
        Box::new(ForeignEndpoints(config))
    }
}

struct ForeignEndpoints(UdpConfig);

impl Endpoints for ForeignEndpoints {
    fn open(&mut self, _: &FlowSpec, _: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let sender: ForeignTransport = Box::new(ForeignUdp(UdpSender::new(self.0)));
        let receiver: ForeignTransport = Box::new(ForeignUdp(UdpReceiver::new()));
        (sender, receiver).into()
    }
}

/// A transport of another crate makes the run that the built-in one makes, event for event, under the name that its family
/// is registered by; a table of settings that it does not have is a mistake.
#[test]
fn a_transport_of_another_crate_runs() {
    register(&ForeignFamily);
    let built_in = run_small(&["traffic.web.transport=udp", "traffic.web.udp.rate=1Gbit/s"]);
    assert_eq!(run_small(&["traffic.web.transport=foreign-udp"]).digest, built_in.digest);
    let wrong = try_small(&["traffic.web.transport=foreign-udp", "traffic.web.udp.rate=1Gbit/s"]);
    let wrong = wrong.map(|_| ()).unwrap_err().to_string();
    assert!(wrong.ends_with("`traffic.web.udp`: foreign-udp has no settings of UDP"), "{wrong}");
}

/// First in, first out, by another crate: a full queue refuses the arriving packet, or pushes the oldest out.
#[derive(Debug)]
struct Fifo {
    pushes_out: bool,
}

#[derive(Debug)]
struct FifoQueue {
    packets: VecDeque<Packet>,
    bytes: u64,
    limit: usize,
    pushes_out: bool,
}

impl ForeignDiscipline for Fifo {
    fn name(&self) -> &'static str {
        if self.pushes_out { "drop-oldest" } else { "foreign-fifo" }
    }
    fn queue(&self, config: &QueueConfig, _link: Rate, _stream: Stream) -> Box<dyn ForeignQueue> {
        let limit = config.limit_packets as usize;
        Box::new(FifoQueue { packets: VecDeque::new(), bytes: 0, limit, pushes_out: self.pushes_out })
    }
}

impl ForeignQueue for FifoQueue {
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Enqueued {
        let full = self.packets.len() == self.limit;
        if full && !self.pushes_out {
            return Enqueued::Dropped(DropReason::Tail);
        }
        let oldest = if full { self.dequeue(now) } else { None };
        self.bytes += u64::from(packet.wire_bytes);
        self.packets.push_back(packet);
        oldest.map_or(Enqueued::Queued, Enqueued::Displaced)
    }
    fn next_bytes(&self) -> Option<u16> {
        self.packets.front().map(|packet| packet.wire_bytes)
    }
    fn dequeue(&mut self, _now: Instant) -> Option<Packet> {
        let first = self.packets.pop_front()?;
        self.bytes -= u64::from(first.wire_bytes);
        Some(first)
    }
    fn occupancy(&self) -> Occupancy {
        Occupancy { packets: self.packets.len() as u32, bytes: self.bytes }
    }
}

/// A queue of another crate that does what the built-in one does makes the same run, event for event, at switches and at
/// hosts. One that pushes packets out makes another, and both conserve packets, which every run asserts.
#[test]
fn a_discipline_of_another_crate_makes_the_same_run() {
    register_discipline(Arc::new(Fifo { pushes_out: false }));
    register_discipline(Arc::new(Fifo { pushes_out: true }));
    let run = |discipline: &str| {
        let queue =
            format!("queues.queue=[{{ name='own', classes=[0, 1], limit='20 packets', discipline='{discipline}' }}]");
        let result = run_small(&["traffic.web.transport=cubic", "traffic.backup.transport=cubic", &queue]);
        let dropped: u64 =
            result.ports.iter().map(|port| port.counters.dropped[DropReason::Tail as usize].packets).sum();
        (result.digest, dropped)
    };
    let built_in = run("fifo");
    assert!(built_in.1 > 0, "queues are full at times");
    assert_eq!(run("foreign-fifo"), built_in);
    let pushed_out = run("drop-oldest");
    assert!(pushed_out.1 > 0 && pushed_out.0 != built_in.0);
}

/// Every finite flow completes, the endless one runs to the end, and nothing is lost between.
#[test]
fn a_small_scenario_runs_to_its_end() {
    let result = run_small(&[]);
    let states = |state| result.flows.iter().filter(|flow| flow.state == state).count();
    assert!(result.flows.len() > 100, "{} flows", result.flows.len());
    assert_eq!(states(FlowState::RanToEnd), 1);
    assert_eq!(states(FlowState::Completed), result.flows.len() - 1);
    assert!(result.simulated >= Span::from_ms(2) && !result.interrupted);
    assert_eq!(result.ports.len(), 2 * (8 + 4), "a queue for each direction of 8 host cables and 4 fabric cables");
}

/// A send buffer bounds what is in flight and loses nothing: 2 MB by 25 kB each 100 us takes 79 round trips and the way
/// of the last packet.
#[test]
fn a_send_buffer_is_filled_again_as_it_drains() {
    let text = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 2\nlink = { rate = '100Gbit/s', delay = '25us' }\n\
                [traffic.a]\nkind = 'flows'\nflows = [{ source = 0, destination = 1, size = '2MB' }]\n\
                tcp = { send_buffer = '25kB', ack_every = 1, initial_window = 20 }\n";
    for transport in ["dctcp", "cubic", "tcp-lp"] {
        let scenario = Scenario::parse(text, Path::new("buffer.toml")).unwrap();
        let change = Override::parse("--set", &format!("traffic.a.transport={transport}")).unwrap();
        let result = run(&scenario.with(&[change]).unwrap().resolve().unwrap(), &AtomicBool::new(false), &mut |_| {});
        let flow = result.unwrap().flows[0];
        assert_eq!((flow.state, flow.delivered_bytes), (FlowState::Completed, 2_000_000));
        let fct = flow.fct().unwrap().as_us_f64();
        assert!((7950.0..8400.0).contains(&fct), "{transport}: {fct} us");
    }
}

/// What progress tells of hops costs no more than the events do, however many links there are, and is as old as that
/// many events at most.
#[test]
fn progress_does_not_count_all_links_after_every_slice() {
    let text = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 500\nlink = { rate = '10Gbit/s', delay = '1us' }\n\
                [traffic.a]\nkind = 'flows'\nflows = [{ source = 0, destination = 1, size = '1MB' }]\n";
    let scenario = Scenario::parse(text, Path::new("wide.toml")).unwrap().resolve().unwrap();
    let links = scenario.topology.links().len() as u64;
    let mut told = Vec::new();
    let result = run(&scenario, &AtomicBool::new(false), &mut |progress| told.push(progress.packet_hops)).unwrap();
    assert!(told.is_sorted() && told.len() > 500, "{} slices", told.len());
    assert!(result.packet_hops - told[told.len() - 1] < links, "{told:?} of {}", result.packet_hops);
    told.dedup();
    assert!((2..=1 + result.events / links).contains(&(told.len() as u64)), "{told:?} at {} events", result.events);
}

/// Equal seeds give equal runs, recorded or not; another seed gives another.
#[test]
fn the_digest_depends_on_the_seed_alone() {
    let first = run_small(&[]);
    assert_eq!(first.digest, run_small(&[]).digest);
    let recorded = run_small(&["sample_interval=50us"]);
    assert_eq!((recorded.digest, &recorded.flows), (first.digest, &first.flows));
    assert!(!recorded.queue_samples.is_empty() && !recorded.throughput_samples.is_empty());
    assert_ne!(first.digest, run_small(&["seed=2"]).digest);
}

/// 20 us of 10 Gbit/s are 25 kB, as a threshold and as a limit; a port of another rate has another length.
#[test]
fn lengths_in_time_follow_the_rate() {
    let bytes = run_small(&["queues.ecn=25kB", "queues.limit=250kB"]);
    assert_eq!(run_small(&["queues.ecn=20us", "queues.limit=200us"]).digest, bytes.digest);
    assert_ne!(run_small(&["queues.ecn=10us", "queues.limit=200us"]).digest, bytes.digest);
    assert_ne!(run_small(&["queues.ecn=20us", "queues.limit=50us"]).digest, bytes.digest);
    let error = try_small(&["queues.limit=1us"]).err().map(|error| error.to_string());
    let expected = "1us of a link of 10Gbit/s are 1250 bytes: not even a full packet of 1538";
    assert!(error.as_ref().is_some_and(|error| error.ends_with(expected)), "{error:?}");
}

/// A phantom queue is asked for by `drain`, and counts neither departures nor the port.
#[test]
fn phantom_queues_are_asked_for_by_their_drain() {
    let ecn = |keys: &str| format!("queues.ecn={{ threshold = \"30kB\", {keys} }}");
    let digest = |keys: &str| run_small(&[&ecn(keys)]).digest;
    assert_ne!(digest("drain = 0.9"), digest("not_ect = \"drop\""));
    for (keys, said) in [
        ("drain = 0.9, at = \"dequeue\"", "leave out `at` and `scope`"),
        ("drain = 0.9, scope = \"port\"", "leave out `at` and `scope`"),
        ("drain = 1.1", "must lie in (0, 1]"),
    ] {
        let error = try_small(&[&ecn(keys)]).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(said)), "{keys}: {error:?}");
    }
}

/// Every transport and every named queue plan carries the same flows to their end.
#[test]
fn transports_and_plans_complete() {
    for transport in ["reno", "newreno", "cubic", "dctcp", "weighted-fair"] {
        for plan in ["drop-tail", "shared", "strict", "dwrr-9-1", "wfq-99-1", "reflex", "low-priority"] {
            let result = run_small(&[
                &format!("traffic.web.transport={transport}"),
                &format!("queues.plan={plan}"),
                "duration=500us",
                "drain=1s",
            ]);
            let unfinished = result.flows.iter().filter(|flow| flow.state == FlowState::Unfinished).count();
            assert_eq!(unfinished, 0, "{transport} over {plan}");
        }
    }
}

#[test]
fn flows_of_the_warm_up_have_no_row() {
    let (all, warm) = (run_small(&[]), run_small(&["warmup=1ms"]));
    assert_eq!(all.digest, warm.digest);
    let late = all.flows.iter().filter(|flow| flow.start >= Instant::ZERO.after(Span::from_ms(1))).count();
    assert!(late < all.flows.len());
    assert_eq!(warm.flows.len(), late);
}

/// A second of warm-up, ten measured and five of cool-down, in milliseconds: only flows that start in the ten have a
/// row, the events are the same, and flows that the end of the run cuts off count with the time they had.
#[test]
fn flows_of_the_cool_down_have_no_row() {
    let times = ["duration=1600us", "warmup=100us", "drain=0s", "web.size=1MB"];
    let (all, part) = (run_small(&times), run_small(&[&times[..], &["measure_until=1100us"]].concat()));
    assert_eq!(all.digest, part.digest);
    let last = Instant::ZERO.after(Span::from_us(1100));
    assert!(all.flows.iter().any(|flow| flow.start >= last) && part.flows.iter().all(|flow| flow.start < last));
    assert_eq!(part.flows.len(), all.flows.iter().filter(|flow| flow.start < last).count());
    assert!(
        part.end() > Instant::ZERO.after(Span::from_us(1500)) && part.end() <= Instant::ZERO.after(Span::from_us(1600))
    );
    assert!(part.flows.iter().any(|flow| flow.state == FlowState::Unfinished));
}

/// Two flows of 10 MB from different hosts share the link to a third: fair congestion control gives each nearly its
/// share; ACK traffic and the slow start are what is missing. With the second one under strict priority below the
/// first, it gets next to nothing until the first is through, and then all of its link: it completes when both
/// together have been served, as in the fluid system, so only `fair_share` shows it.
#[test]
fn shares_tell_who_was_starved() {
    let star = "duration = '1ms'\ndrain = '100ms'\nshares = true\n[topology]\nkind = 'star'\nhosts = 3\n\
                link = { rate = '10Gbit/s', delay = '1us' }\n[queues]\nplan = 'strict'\n\
                [traffic.a]\nkind = 'flows'\nflows = [{ source = 0, destination = 2, size = '10MB' }]\n\
                [traffic.b]\nkind = 'flows'\nflows = [{ source = 1, destination = 2, size = '10MB' }]\n";
    let shares = |text: &str| {
        let resolved = Scenario::parse(text, Path::new("star.toml")).unwrap().resolve().unwrap();
        let result = run(&resolved, &AtomicBool::new(false), &mut |_| {}).unwrap();
        let shares = |flow: &FlowRow| (flow.fair_share.get().unwrap(), flow.fluid_share.get().unwrap());
        (shares(&result.flows[0]), shares(&result.flows[1]))
    };
    let (a, b) = shares(star);
    for share in [a.0, a.1, b.0, b.1] {
        assert!((0.9..1.1).contains(&share), "{a:?} {b:?}");
    }
    let (a, b) = shares(&format!("{star}class = 1\n"));
    // The first takes 8 ms where 16 are fair and twice its rate; the second has its bytes in 16 ms, in which it was
    // entitled to 4 ms of its link beside the first and 8 ms alone.
    assert!((1.8..2.05).contains(&a.0) && (1.8..2.05).contains(&a.1), "{a:?}");
    assert!((0.6..0.7).contains(&b.0) && (0.95..1.05).contains(&b.1), "{b:?}");
}

/// Shares are computed on request only, and change nothing else; no share of a flow alone is above 1.
#[test]
fn shares_change_no_run() {
    let (without, with) = (run_small(&[]), run_small(&["shares=true"]));
    assert_eq!(without.digest, with.digest);
    assert!(without.flows.iter().all(|flow| flow.fair_share.get().is_none() && flow.fluid_share.get().is_none()));
    assert!(with.flows.iter().all(|flow| flow.fair_share.get().is_some()));
    let endless = with.flows.iter().find(|flow| flow.state == FlowState::RanToEnd).unwrap();
    assert!(endless.fluid_share.get().is_none() && endless.fair_share.get().is_some_and(|share| share > 0.0));
    let alone = run_small(&[
        "traffic.web.flows=1",
        "traffic.backup.flows=[{source=6,destination=7,size=\"5MB\"}]",
        "shares=true",
    ]);
    assert_eq!(alone.flows.len(), 2);
    for flow in &alone.flows {
        let (fair, fluid, slowdown) =
            (flow.fair_share.get().unwrap(), flow.fluid_share.get().unwrap(), flow.slowdown().unwrap());
        assert!(fair <= 1.0 + 1e-9 && (fluid - 1.0 / slowdown).abs() < 1e-6, "{fair} {fluid} {slowdown}");
    }
}

/// Where a contract promises a share, each flow is held against it without being asked, unless the file says not to.
#[test]
fn a_promised_share_is_held_against_what_came_of_it() {
    let text = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 3\nlink = { rate = '10Gbit/s', delay = '1us' }\n\
                [queues]\nplan = 'reflex'\n[traffic.backup]\nkind = 'flows'\nflows = [{ source = 0, destination = 2, size = '1MB' }]\n\
                contract = { min_share = 0.5 }\nreflex = {}\n";
    let share = |text: &str| {
        let resolved = Scenario::parse(text, Path::new("star.toml")).unwrap().resolve().unwrap();
        run(&resolved, &AtomicBool::new(false), &mut |_| {}).unwrap().flows[0].fair_share.get()
    };
    assert!(share(text).is_some_and(|share| share > 0.9));
    assert_eq!(share(&format!("shares = false\n{text}")), None);
    assert_eq!(share(&text.replace("0.5", "1")), None);
}

/// A flow and its duplicate find each other in the results.
#[test]
fn duplicates_share_their_request() {
    let result = run_small(&[
        "traffic.web.load=0.2",
        "traffic.backup={kind=\"duplicates\", of=\"web\", class=1, transport=\"cubic\"}",
        "queues.plan=low-priority",
    ]);
    let of_group = |group| result.flows.iter().filter(move |flow| flow.group == group);
    assert!(of_group(0).count() > 30 && of_group(0).count() == of_group(1).count());
    for (original, copy) in of_group(0).zip(of_group(1)) {
        assert_eq!((original.request, original.start, original.bytes), (copy.request, copy.start, copy.bytes));
        assert_eq!(original.destination, copy.destination);
        assert_ne!(original.source, copy.source);
    }
}

#[test]
fn an_interrupted_run_keeps_what_finished() {
    let resolved = Scenario::parse(SMALL, Path::new("small.toml")).unwrap().resolve().unwrap();
    let interrupt = AtomicBool::new(false);
    let mut stop_at_half = |progress: &Progress| {
        if progress.now >= Span::from_ms(1) {
            interrupt.store(true, Ordering::Relaxed);
        }
    };
    let result = run(&resolved, &interrupt, &mut stop_at_half).unwrap();
    assert!(result.interrupted && result.simulated <= Span::from_ms(1));
    assert!(result.flows.iter().any(|flow| flow.state == FlowState::Completed));
}

/// Datagrams beyond a link's rate are lost, and the flow says so.
#[test]
fn udp_overload_loses() {
    let result = run_small(&["traffic.web.load=0.01", "backup.transport=udp", "traffic.backup.udp.rate=9Gbit/s"]);
    let finite = result.flows.iter().find(|flow| flow.group == 1 && flow.bytes == 1_000_000).unwrap();
    assert_eq!(finite.state, FlowState::SentWithLoss);
    assert!(finite.delivered_bytes < finite.bytes && finite.drops > 0);
}

/// Where the fabric is slower than the hosts, sprayed packets beat any one path, but never the sum of the paths: the
/// run would panic.
#[test]
fn sprayed_flows_do_not_beat_their_ideal() {
    for routing in ["spray-random", "spray-round-robin"] {
        let changes = [
            "topology.spines=4",
            "topology.host_link.rate=40Gbit/s",
            "topology.fabric_link={rate=\"10Gbit/s\", delay=\"1us\"}",
            "traffic.web.load=0.2",
        ];
        let routing = format!("routing={routing}");
        let result = run_small(&[&changes[..], &[routing.as_str()]].concat());
        assert!(result.flows.iter().any(|flow| flow.state == FlowState::Completed));
    }
}

/// Two loops over links of 10 Gbit/s and 1 us: the next answer starts when the acknowledgement of the one before it, 84
/// bytes, has crossed both links, and its pause is over.
#[test]
fn a_closed_loop_goes_on_when_its_answer_is_acknowledged() {
    let text = r#"
duration = "10ms"
topology = { kind = "star", hosts = 2, link = { rate = "10Gbit/s", delay = "1us" } }
[traffic.requests]
kind = "closed-loop"
source = 0
destination = 1
loops = 2
stagger = "40us"
size = "1kB"
pause = "93us"
"#;
    let resolved = Scenario::parse(text, Path::new("loop.toml")).unwrap().resolve().unwrap();
    let flows = run(&resolved, &AtomicBool::new(false), &mut |_| ()).unwrap().flows;
    let way_back = Span::from_us(2).plus(Rate::from_gbit_per_sec(10).time_for(84).times(2));
    for number in [0, 1] {
        let of_loop: Vec<_> = flows.iter().filter(|flow| flow.request == number).collect();
        assert_eq!(of_loop[0].start, Instant::ZERO.after(Span::from_us(40).times(number)));
        // Answers take 4 us with their acknowledgements, so 100 or 101 of them fit.
        assert!((100..=104).contains(&of_loop.len()), "{}", of_loop.len());
        for pair in of_loop.windows(2) {
            let received = pair[0].completed.unwrap();
            assert_eq!(pair[1].start, received.after(way_back).after(Span::from_us(93)));
        }
        assert!(of_loop.iter().all(|flow| flow.start < Instant::ZERO.after(Span::from_ms(10))));
    }
}

const TWO_SPINES: &str = "duration = '10ms'\ndrain = '500ms'\n[topology]\nkind = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
                          host_link = '10Gbit/s'\nfabric_link = '40Gbit/s'\n[transport]\nmin_rto = '1ms'\n[traffic.copies]\n\
                          kind = 'permutation'\nhosts = [0, 4, 1, 5, 2, 6, 3, 7]\nsize = '5MB'\n";

/// A cable fails for good at 2 ms. Without new paths the flows on it stand still to the end; 1 ms later paths leave it out, and
/// all flows end, with what was lost in between. The run itself asserts that no packet is made or lost without a count.
#[test]
fn flows_move_from_a_failed_link() {
    let run = |more: &str| {
        let text = format!("outages = [{{ links = ['spine 0 -> leaf 1'], from = '2ms'{more} }}]\n{TWO_SPINES}");
        let resolved = Scenario::parse(&text, Path::new("two.toml")).unwrap().resolve().unwrap();
        run(&resolved, &AtomicBool::default(), &mut |_| ()).unwrap()
    };
    let unfinished = |result: &RunResult| result.flows.iter().filter(|flow| flow.completed.is_none()).count();
    let lost = |result: &RunResult| -> u64 {
        result.ports.iter().map(|port| port.dropped(pliant_proto::switch::DropReason::Loss).packets).sum()
    };
    let (stuck, moved) = (run(""), run(", reroute_after = '1ms'"));
    assert!(unfinished(&stuck) > 0, "some flow was on it");
    assert_eq!(unfinished(&moved), 0);
    assert!(lost(&moved) > 0 && lost(&moved) < lost(&stuck) + 10_000);
    // It fails in both directions, and comes back: flows end though nothing is moved.
    let back = run(", until = '4ms'");
    assert_eq!(unfinished(&back), 0);
    let whole = run(", until = '4ms', reroute_after = '500us'");
    assert!(unfinished(&whole) == 0 && lost(&whole) > 0);
}

/// Cables and a whole switch of a fat-tree fail and come back while flows start, on one path each and sprayed: all flows end,
/// nothing loops (a packet that did would overflow its count of hops), and equal seeds give equal runs.
#[test]
fn a_fabric_that_fails_and_comes_back_delivers_everything() {
    for routing in ["ecmp", "spray-random"] {
        let text = format!(
            "routing = '{routing}'\nduration = '10ms'\ndrain = '500ms'\noutages = [\n\
             {{ links = ['tor 0.0 -> agg 0.0', 'agg 1.1 -> core 3'], from = '1ms', until = '5ms', reroute_after = '300us' }},\n\
             {{ switches = ['agg 2.0'], from = '2ms', until = '6ms', reroute_after = '200us' }},\n\
             {{ switches = ['core 0'], from = '3ms', reroute_after = '0s' }}]\n\
             [topology]\nkind = 'fat-tree'\nk = 4\nlink = '10Gbit/s'\n[transport]\nmin_rto = '1ms'\n\
             [traffic.web]\nkind = 'poisson'\nsize = '20kB..200kB'\nload = 0.3\n"
        );
        let resolved = Scenario::parse(&text, Path::new("tree.toml")).unwrap().resolve().unwrap();
        assert_eq!(resolved.reroutes.len(), 5);
        let once = run(&resolved, &AtomicBool::default(), &mut |_| ()).unwrap();
        assert!(once.flows.len() > 100 && once.flows.iter().all(|flow| flow.completed.is_some()), "{routing}");
        assert_eq!(run(&resolved, &AtomicBool::default(), &mut |_| ()).unwrap().digest, once.digest);
    }
}

/// The failure of the only path is refused by name where paths are to move, and so is what is no link, or has hosts.
#[test]
fn outages_of_links_are_checked() {
    let error = |outage: &str| {
        let text = format!("outages = [{{ {outage} }}]\n{TWO_SPINES}");
        Scenario::parse(&text, Path::new("two.toml")).unwrap().resolve().expect_err(outage).to_string()
    };
    for (outage, why) in [
        (
            "links = ['leaf 0 -> spine 0', 'spine 1 -> leaf 0'], reroute_after = '1ms'",
            "`outages.0.reroute_after`: without `leaf 0 -> spine 0`, ",
        ),
        ("switches = ['spine 0', 'spine 1'], reroute_after = '1ms'", "there is no path from leaf "),
        ("links = ['leaf 0 -> spine 7']", "`outages.0.links`: unknown link `leaf 0 -> spine 7`, did you mean"),
        ("switches = ['leaf 0']", "`outages.0.switches`: leaf 0 is the only switch of hosts such as host 0"),
        ("hosts = 1, reroute_after = '1ms'", "`outages.0.reroute_after`: is about `links` and `switches`"),
        ("from = '1ms'", "`outages.0.hosts`: is missing, and so are `links` and `switches`"),
        ("links = ['leaf 0 -> spine 0'], loss = 0.5", "`outages.0.loss`: is about `hosts`"),
    ] {
        let error = error(outage);
        assert!(error.contains(why), "{error}");
    }
}
