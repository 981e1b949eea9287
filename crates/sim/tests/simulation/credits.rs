//! Transports with credits against what their papers promise: no loss of data, bounded credits, shares of a link.

use std::collections::BTreeSet;

use pliant_proto::switch::queue::DropReason;
use pliant_proto::time::Instant;
use pliant_sim::oracle::fairness::jain;
use pliant_sim::results::{FlowState, PortRow, RunResult};
use pliant_sim::topology::LinkId;

use crate::scenarios::{resolve_with, run_resolved, run_with};

/// Payload to wire of a full packet.
const WIRE: f64 = 1538.0 / 1460.0;

/// Packets dropped outside the queues of credits, by reason.
fn dropped(result: &RunResult, reason: DropReason) -> u64 {
    let data = result.ports.iter().filter(|port| port.queue_name != "credit");
    data.map(|port| port.dropped(reason).packets).sum()
}

/// Asserts that nothing but credits, and red packets if they may be, was dropped.
fn assert_no_data_lost(result: &RunResult, red_too: bool, what: &str) {
    for reason in DropReason::ALL {
        if red_too || reason != DropReason::Colour {
            assert_eq!(dropped(result, reason), 0, "{what}: {} drops", reason.name());
        }
    }
}

/// Gbit/s of wire that each group's payload took from `from_ms` on, by samples.
fn shares(result: &RunResult, from_ms: u64) -> Vec<f64> {
    let from = Instant::from_ps(from_ms * 1_000_000_000);
    let seconds = result.end().since(from).as_secs_f64();
    let bytes = |group: usize| -> u64 {
        let samples = result.throughput_samples.iter().filter(|sample| sample.at > from);
        samples.filter(|sample| usize::from(sample.group) == group).map(|sample| sample.delivered_bytes).sum()
    };
    (0..result.groups.len()).map(|group| bytes(group) as f64 * 8e-9 / seconds * WIRE).collect()
}

const INCAST: &str = r#"
duration = "1ms"
drain = "2s"
[topology]
kind = "star"
hosts = 513
link = { rate = "10Gbit/s", delay = "2us" }
[queues]
plan = "expresspass"
[traffic.new]
kind = "incast"
transport = "expresspass"
receivers = 0
senders = 1
size = "10kB"
period = "1s"
"#;

/// N senders to one receiver lose no data, whatever N, law and size: credits, at one per packet time, schedule it.
#[test]
fn incast_of_any_size_loses_no_data() {
    let large = [(1, "1MB"), (2, "300kB"), (8, "64kB"), (64, "64kB")];
    let numbers = [1, 2, 3, 4, 5, 7, 11, 16, 23, 32, 48, 65, 96, 128, 191, 256, 384, 512];
    for (senders, size) in large.into_iter().chain(numbers.map(|senders| (senders, "10kB"))) {
        for (plan, transport, feedback) in [
            ("expresspass", "expresspass", "bic"),
            ("expresspass", "expresspass", "delivered"),
            ("expresspass", "expresspass-layered", "bic"),
            ("flexpass", "flexpass", "bic"),
        ] {
            let what = format!("{senders} senders, {transport}, {feedback}");
            let result = run_with(
                INCAST,
                &[
                    &format!("senders={senders}"),
                    &format!("size={size}"),
                    &format!("queues.plan={plan}"),
                    &format!("traffic.new.transport={transport}"),
                    &format!("traffic.new.credit.feedback={feedback}"),
                ],
            );
            assert_no_data_lost(&result, transport != "flexpass", &what);
            assert_eq!(result.flows.len(), senders, "{what}");
            assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed), "{what}");
            let timeouts: u32 = result.flows.iter().map(|flow| flow.timeouts).sum();
            assert!(transport == "flexpass" || timeouts == 0, "{what}: {timeouts} timeouts");
        }
    }
}

/// The same for every N up to 64 of ExpressPass, for every fifth up to 512, and for a quarter of these of the others.
#[test]
fn incast_of_many_numbers_loses_no_data() {
    for senders in (1..=64).chain((65..=512).step_by(5)) {
        let other = match senders % 12 {
            0 => Some(("expresspass", "expresspass", "delivered")),
            4 => Some(("expresspass", "expresspass-layered", "bic")),
            8 => Some(("flexpass", "flexpass", "bic")),
            _ => None,
        };
        for (plan, transport, feedback) in [("expresspass", "expresspass", "bic")].into_iter().chain(other) {
            let what = format!("{senders} senders, {transport}, {feedback}");
            let changes = [
                &format!("senders={senders}"),
                "size=3kB",
                &format!("queues.plan={plan}"),
                &format!("traffic.new.transport={transport}"),
                &format!("traffic.new.credit.feedback={feedback}"),
            ];
            let result = run_with(INCAST, &changes);
            assert_no_data_lost(&result, transport != "flexpass", &what);
            assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed), "{what}");
        }
    }
}

/// The timer of FlexPass's reactive sub-flow expires because selective dropping takes the end of a window, of which no
/// acknowledgement tells: only in flows that had such drops, and in none where nothing is dropped. No flow waits for it:
/// with a timer that cannot expire the last one ends no sooner.
#[test]
fn reactive_timers_expire_by_selective_drops_only_and_delay_no_flow() {
    let flexpass = ["senders=64", "size=64kB", "queues.plan=flexpass", "traffic.new.transport=flexpass"];
    let run = |change: &[&str]| run_with(INCAST, &[&flexpass[..], change].concat());
    let timeouts = |result: &RunResult| result.flows.iter().map(|flow| flow.timeouts).sum::<u32>();
    let last = |result: &RunResult| result.flows.iter().map(|flow| flow.fct().expect("completed")).max().unwrap();

    let usual = run(&[]);
    assert!(timeouts(&usual) > 0 && dropped(&usual, DropReason::Colour) > 0);
    assert!(usual.flows.iter().all(|flow| flow.timeouts == 0 || flow.drops > 0));

    let roomy = run(&["queues.colour_limit=4.5MB"]);
    assert_eq!((timeouts(&roomy), dropped(&roomy, DropReason::Colour)), (0, 0));

    let patient = run(&["traffic.new.tcp.min_rto=1s", "traffic.new.tcp.initial_rto=1s"]);
    assert_eq!(timeouts(&patient), 0);
    assert!(last(&usual) <= last(&patient), "{} and {}", last(&usual), last(&patient));
}

/// Aeolus: with a burst before the first credit data on credits is still never lost, and flows end no later, but for
/// what the burst adds to the link: a probe of each sender, and the few packets that the first credits repeat because
/// they have arrived but are not acknowledged yet. Of many senders at once 6 kB of bursts, four packets, pass at all, so
/// there is as little to win. A run varies by 5 % with the jitter of its credits: means are of eight seeds.
#[test]
fn a_burst_before_the_first_credit_loses_nothing_scheduled() {
    let aeolus = "traffic.new.credit.pre_credit=14.6kB";
    // One queue; unscheduled packets beyond 6 kB of them are dropped.
    let queue = |name: &str, rest: &str| format!("{{ name = \"{name}\", {rest} }}");
    let credit = queue("credit", "classes = [31], limit = \"840B\", shaper = { share = 0.0517879, depth = \"168B\" }");
    let data = queue("data", "classes = [0], weight = 1538, limit = \"4.5MB\", colour_limit = \"6kB\"");
    let queues = format!("queues={{ scheduler = \"dwrr\", strict = 1, quantum = \"1B\", queue = [{credit}, {data}] }}");
    // A host's own port holds a whole burst.
    let hosts = "host_queues={ plan = \"expresspass\" }";
    let mean = |result: &RunResult| {
        let times = result.flows.iter().map(|flow| flow.fct().expect("completed").as_us_f64());
        times.sum::<f64>() / result.flows.len() as f64
    };
    for number in [1, 2, 4, 8, 12, 16, 32, 64, 128] {
        let senders = format!("senders={number}");
        let (mut late_us, mut added_us) = (0.0, 0.0);
        for seed in 1..=8 {
            let seed = format!("seed={seed}");
            let plain = run_with(INCAST, &[&queues, hosts, &senders, &seed]);
            let burst = run_with(INCAST, &[&queues, hosts, &senders, &seed, aeolus]);
            assert_no_data_lost(&burst, false, &senders);
            late_us += mean(&burst) - mean(&plain);
            let repeated: u64 = burst.flows.iter().map(|flow| flow.duplicate_bytes).sum();
            added_us += (f64::from(number) * 84.0 + repeated as f64 * WIRE) * 8e-4;
        }
        assert!(late_us <= added_us, "{senders}: {} us late, {} us added", late_us / 8.0, added_us / 8.0);
    }
    // Alone, a flow of one bandwidth-delay product takes its ideal time but for the request before it.
    let lone = run_with(INCAST, &[&queues, hosts, "senders=1", aeolus]);
    let flow = &lone.flows[0];
    let late = flow.fct().unwrap().minus(flow.ideal_fct).as_us_f64();
    assert!(late <= 0.1, "{late} us");
}

const CLOS: &str = r#"
duration = "10ms"
drain = "1s"
[topology]
kind = "clos"
pods = 2
racks_per_pod = 2
aggs_per_pod = 2
hosts_per_rack = 4
cores = 4
host_link = { rate = "10Gbit/s", delay = "1us" }
[queues]
plan = "expresspass"
[traffic.new]
kind = "poisson"
transport = "expresspass"
workload = "web_search"
size_below = "3MB"
load = 0.5
"#;

/// In a fabric with 2:1 oversubscription no data is lost at any load, because its credits crossed each link before: up to
/// all that the uplinks carry, and with half as much again.
#[test]
fn a_fabric_loses_no_data_at_any_load() {
    for load in [0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.5] {
        for (plan, transport) in [("expresspass", "expresspass"), ("flexpass", "flexpass")] {
            let what = format!("load {load}, {transport}");
            // All uplinks carry 80 Gbit/s together, four fifths of the flows cross them: a load of 1 is 39,400 a second.
            let arrivals = if load > 1.0 {
                format!("rate_per_s = {}", load * 39.4e3)
            } else {
                format!("load = {load}, load_on = \"uplinks\"")
            };
            let traffic = format!(
                "traffic.new={{ kind = \"poisson\", size = \"2kB..600kB\", transport = \"{transport}\", {arrivals} }}"
            );
            let result = run_with(CLOS, &[&traffic, &format!("queues.plan={plan}"), "duration=5ms"]);
            assert_no_data_lost(&result, transport != "flexpass", &what);
            assert!(result.flows.len() > 10, "{what}");
            assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed), "{what}");
        }
    }
}

/// Where even requests and stops are dropped, a request that was repeated may come after the stop and open its receiver
/// anew. The flow's credits then still find it, and not one that started since; every flow completes.
#[test]
fn late_requests_find_their_own_flow() {
    let traffic = r#"traffic.new={ kind = "poisson", size = "2kB..600kB", transport = "expresspass", load = 0.9, load_on = "uplinks" }"#;
    for seed in 1..=6 {
        let changes = [traffic, "deployment.deployed=0.5", "queues.shared_buffer=100kB", "duration=5ms"];
        let result = run_with(CLOS, &[&changes[..], &[&format!("seed={seed}")]].concat());
        assert!(dropped(&result, DropReason::SharedBuffer) > 0);
        assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed), "seed {seed}");
    }
}

/// Data takes the way of its credits back: on every link no more data arrives than credits crossed its reverse.
#[test]
fn data_takes_the_way_of_its_credits_back() {
    for topology in [
        r#"{ kind = "fat-tree", k = 4, link = { rate = "10Gbit/s", delay = "1us" } }"#,
        r#"{ kind = "leaf-spine", leaves = 3, spines = 3, hosts_per_leaf = 4, host_link = { rate = "10Gbit/s", delay = "1us" } }"#,
    ] {
        let traffic = r#"traffic.new={ kind = "all-to-all", transport = "expresspass", size = "30kB" }"#;
        for seed in 1..4 {
            let result = run_with(CLOS, &[&format!("topology={topology}"), traffic, &format!("seed={seed}")]);
            let queue = |port: u32, name: &str| -> &PortRow {
                let found = result.ports.iter().find(|row| row.port == port && row.queue_name == name);
                found.expect("every port has both queues")
            };
            let flows = result.flows.len() as u64;
            let mut carried = 0;
            for row in result.ports.iter().filter(|row| row.queue_name == "data") {
                let (port, data) = (row.port, row.dequeued().bytes);
                let credits = queue(LinkId(port).reverse().0, "credit").dequeued().packets;
                // Requests, stops and their answers need no credits.
                assert!(data <= credits * 1538 + flows * 10 * 84, "link {port}: {data} bytes on {credits} credits");
                carried += data;
            }
            assert!(carried > flows * 30_000 * 2, "every flow crosses two links at least");
        }
    }
}

/// The same of every single packet: a flow alone sends each of its packets, and no other, over exactly the links whose
/// reverse its credits crossed, whichever of the equal paths it was given.
#[test]
fn every_packet_takes_the_way_of_its_credit_back() {
    let topologies = [
        (16, r#"{ kind = "fat-tree", k = 4, link = { rate = "10Gbit/s", delay = "1us" } }"#),
        (
            12,
            r#"{ kind = "leaf-spine", leaves = 3, spines = 4, hosts_per_leaf = 4, host_link = { rate = "10Gbit/s", delay = "1us" } }"#,
        ),
        (16, &CLOS[CLOS.find("kind").unwrap()..CLOS.find("[queues]").unwrap()]),
    ];
    let mut paths = BTreeSet::new();
    for (index, (hosts, topology)) in topologies.into_iter().enumerate() {
        let topology = if topology.starts_with('{') {
            topology.to_owned()
        } else {
            format!("{{ {} }}", topology.trim().replace('\n', ", "))
        };
        for seed in 0..24 {
            let (source, destination) = (seed * 5 % hosts, (seed * 5 + 1 + seed * 7 % (hosts - 1)) % hosts);
            let flow = format!("{{ source = {source}, destination = {destination}, size = \"30kB\" }}");
            for transport in ["expresspass", "flexpass"] {
                let traffic =
                    format!("traffic.new={{ kind = \"flows\", transport = \"{transport}\", flows = [{flow}] }}");
                let plan = format!("queues.plan={transport}");
                let changes = [&format!("topology={topology}"), &traffic, &plan, &format!("seed={seed}")];
                let result = run_with(CLOS, &changes.map(String::as_str));
                let credits = |port: u32| {
                    let row = result.ports.iter().find(|row| row.port == port && row.queue_name == "credit");
                    row.expect("every port has credits").dequeued().packets
                };
                // Data is what goes the flow's way in full packets.
                let mut path = Vec::new();
                for row in result.ports.iter().filter(|row| ["data", "flexpass"].contains(&&*row.queue_name)) {
                    let data = row.dequeued().bytes > 30_000;
                    assert_eq!(data, credits(LinkId(row.port).reverse().0) > 0, "{transport}: link {}", row.port);
                    path.extend(data.then_some((row.port, row.dequeued())));
                }
                let (_, first) = path[0];
                assert!(path.iter().all(|(_, sent)| *sent == first), "{transport}: {path:?}");
                paths.insert((index, path.iter().map(|(port, _)| *port).collect::<Vec<_>>()));
            }
        }
    }
    assert!(paths.len() > 40, "{} paths", paths.len());
}

/// Long flows over one link of 10 Gbit/s between hosts of their own. They start 3 us apart, so that their requests do not
/// meet.
fn dumbbell(flows: usize, feedback: &str, jitter: f64, duration_ms: u64) -> RunResult {
    let flow =
        |flow: usize| format!("{{ source = {flow}, destination = {}, start = \"{}us\" }}", flows + flow, 3 * flow);
    let pairs: Vec<String> = (0..flows).map(flow).collect();
    let text = format!(
        r#"
duration = "{duration_ms}ms"
drain = "0s"
[topology]
kind = "dumbbell"
pairs = {flows}
edge_link = {{ rate = "10Gbit/s", delay = "5us" }}
bottleneck_link = {{ rate = "10Gbit/s", delay = "5us" }}
[queues]
plan = "expresspass"
[traffic.new]
kind = "flows"
transport = "expresspass"
credit = {{ feedback = "{feedback}", jitter = {jitter} }}
flows = [{}]
"#,
        pairs.join(", ")
    );
    run_with(&text, &[])
}

/// What `later` delivered beyond `earlier`, a run of the same flows that ended sooner, per flow.
fn delivered_between(earlier: &RunResult, later: &RunResult) -> Vec<f64> {
    let pairs = earlier.flows.iter().zip(&later.flows);
    pairs.map(|(before, after)| (after.delivered_bytes - before.delivered_bytes) as f64).collect()
}

/// Equal flows share what credits leave of the link: utilisation 0.89 to 0.949, Jain's index at least 0.96 over
/// 50 ms (over 10 ms it may be 0.94), no data dropped, and at most three packets in any queue. The multiplicative cut answers one congestion twice and so leaves more unused.
#[test]
fn equal_flows_share_a_full_link() {
    for feedback in ["bic", "delivered"] {
        for flows in [2, 8, 64] {
            let (warm, whole) = (dumbbell(flows, feedback, 0.1, 10), dumbbell(flows, feedback, 0.1, 60));
            let bytes = delivered_between(&warm, &whole);
            let used = bytes.iter().sum::<f64>() * 8.0 * WIRE / 5e8;
            let fairness = jain(&bytes);
            let what = format!("{feedback}, {flows} flows: {used:.4} of the link, Jain {fairness:.4}");
            assert!((0.89..0.9495).contains(&used) && fairness >= 0.96, "{what}");
            assert_no_data_lost(&whole, true, &what);
            let data = whole.ports.iter().filter(|port| port.queue_name == "data");
            let most = data.map(|port| port.counters.max_packets).max().expect("ports");
            assert!(most <= 3, "{what}: {most} packets queued");
        }
    }
}

/// With credits at their full rate a lone flow takes 1538 / 1622 = 94.82 % of the line. Jitter costs it 0.04 %: a gap that
/// is too long by more than the shaper's two credits is never made up for, and ten that are too short lose a credit.
#[test]
fn a_lone_flow_takes_94_82_percent_of_the_line() {
    let exact = 1538.0 / 1622.0;
    for feedback in ["bic", "delivered", "multiplicative"] {
        for (jitter, least) in [(0.0, exact - 1e-4), (0.1, exact - 1e-3)] {
            let (warm, whole) = (dumbbell(1, feedback, jitter, 20), dumbbell(1, feedback, jitter, 80));
            let used = delivered_between(&warm, &whole)[0] * 8.0 * WIRE / 6e8;
            assert!((least..=exact + 1e-4).contains(&used), "{feedback}, jitter {jitter}: {used}");
        }
    }
}

/// A port that always has a credit to send passes 7706 ± 2 in 10 ms at 10 Gbit/s.
#[test]
fn a_port_passes_7706_credits_in_10_ms() {
    let credits = |result: &RunResult| {
        let rows =
            result.ports.iter().filter(|port| port.queue_name == "credit" && port.name == "switch 1 -> switch 0");
        rows.map(|port| port.dequeued().packets).sum::<u64>()
    };
    let (warm, whole) = (dumbbell(64, "delivered", 0.1, 10), dumbbell(64, "delivered", 0.1, 20));
    let passed = credits(&whole) - credits(&warm);
    assert!(passed.abs_diff(7706) <= 2, "{passed}");
}

const BESIDE: &str = r#"
duration = "200ms"
drain = "0s"
sample_interval = "1ms"
[topology]
kind = "dumbbell"
pairs = 2
edge_link = { rate = "10Gbit/s", delay = "5us" }
bottleneck_link = { rate = "10Gbit/s", delay = "5us" }
[queues]
plan = "flexpass"
[transport]
ack_every = 1
[traffic.new]
kind = "flows"
transport = "flexpass"
flows = [{ source = 0, destination = 2 }]
[traffic.old]
kind = "flows"
class = 1
transport = "dctcp"
flows = [{ source = 1, destination = 3 }]
"#;

/// DCTCP beside ExpressPass in one queue starves, at most 10 % of the link (FlexPass, figure 1: 5 %); beside layering or
/// FlexPass it keeps 50 ± 3 % (figure 9: 51 %).
#[test]
fn dctcp_keeps_its_half_beside_flexpass_and_layering() {
    let naive = ["queues.plan=expresspass", "traffic.new.transport=expresspass"];
    let old = shares(&run_with(BESIDE, &naive), 50)[1];
    assert!(old <= 1.0, "{old} Gbit/s beside ExpressPass");
    let layering = ["queues.plan=expresspass", "traffic.new.transport=expresspass-layered"];
    for changes in [&layering[..], &[]] {
        let result = run_with(BESIDE, changes);
        for share in shares(&result, 50) {
            assert!((4.7..=5.3).contains(&share), "{share} Gbit/s: {:?}", result.groups);
        }
    }
}

/// Another threshold for a plan with credits marks and drops nothing: data on credits cannot be marked, and passes.
#[test]
fn another_marking_threshold_drops_no_scheduled_data() {
    let naive = ["queues.plan=expresspass", "traffic.new.transport=expresspass", "queues.ecn=30kB"];
    let result = run_with(BESIDE, &naive);
    assert_no_data_lost(&result, true, "30 kB");
    assert!(shares(&result, 50)[0] > 9.0);
}

/// Alone FlexPass fills the link: half by credits, half by its window (figure 7 a); beside DCTCP the window gets next to
/// nothing (figure 7 c).
#[test]
fn flexpass_takes_what_is_left() {
    let alone = run_with(BESIDE, &["traffic.old.flows=[{ source = 1, destination = 3, start = \"199ms\" }]"]);
    let used = shares(&alone, 50)[0];
    assert!(used >= 9.8, "{used} Gbit/s");
    let reactive = |result: &RunResult| {
        let flow = &result.flows[0];
        flow.reactive_bytes as f64 / flow.delivered_bytes as f64
    };
    let (split, beside) = (reactive(&alone), reactive(&run_with(BESIDE, &[])));
    assert!((0.45..0.60).contains(&split), "{split}");
    assert!(beside < 0.10, "{beside}");
}

/// Half of the racks deployed: a quarter of the pairs or so use the new transport, the others are a group of their own,
/// and the oracle reserves what share of bytes that is.
#[test]
fn flows_upgrade_if_both_ends_have() {
    let partly = "deployment={ deployed = 0.5, by = \"rack\" }";
    let small = "traffic.new={ kind = \"poisson\", size = \"20kB\", load = 0.3, transport = \"flexpass\" }";
    let result = run_with(CLOS, &["queues.plan=flexpass", small, partly]);
    let names: Vec<&str> = result.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["new", "new.legacy"]);
    let upgraded = |host: u32| host < 8;
    for flow in &result.flows {
        let both = upgraded(flow.source) && upgraded(flow.destination);
        assert_eq!(flow.group, u16::from(!both), "{flow:?}");
        assert_eq!(flow.credits > 0, both);
        assert_eq!(flow.state, FlowState::Completed);
    }
    let share = result.flows.iter().filter(|flow| flow.group == 0).count() as f64 / result.flows.len() as f64;
    assert!((0.18..0.29).contains(&share), "{share} of the flows, 56 of 240 pairs");
    let oracle = ["queues={ plan = \"flexpass\", reserve = \"traffic\" }", partly, small];
    let resolved = resolve_with(CLOS, &oracle);
    let weights: Vec<u32> = resolved.switch_plan.queues[1..].iter().map(|queue| queue.weight).collect();
    let bytes = |both: bool| -> u64 {
        let flows =
            resolved.traffic().unwrap().filter(|flow| resolved.is_upgraded(flow.source, flow.destination) == both);
        flows.map(|flow| flow.bytes).sum()
    };
    let expected = bytes(true) as f64 / (bytes(true) + bytes(false)) as f64;
    let reserved = f64::from(weights[0]) / f64::from(weights[0] + weights[1]);
    assert!((reserved - expected).abs() < 0.001, "{reserved} for {expected}");
}

/// The published simulator's settings run, and a scenario with every setting written out gives the same run.
#[test]
fn variants_run_and_print() {
    let partly = "deployment={ deployed = 0.5, by = \"host\", order = \"random\" }";
    for changes in [
        [
            "queues.plan=flexpass-artifact",
            "traffic.new.transport=flexpass",
            "traffic.new.credit.variant=artifact",
            partly,
        ],
        ["queues.plan=flexpass", "traffic.new.transport=flexpass", "traffic.new.credit.splitting=both-ends", partly],
        ["queues.plan=expresspass", "traffic.new.transport=expresspass-layered", "traffic.new.legacy=cubic", partly],
        ["queues.plan=flexpass", "traffic.new.transport=flexpass", "traffic.new.credit.reactive_class=1", partly],
    ] {
        let resolved = resolve_with(CLOS, &changes);
        let result = run_resolved(&resolved);
        let again = run_with(&resolved.to_toml(), &[]);
        assert_eq!(result.digest, again.digest, "{changes:?}");
        assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed), "{changes:?}");
    }
}
