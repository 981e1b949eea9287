//! SCDP in networks whose switches trim.

use std::sync::Arc;

use pliant_proto::packet::TrafficClass;
use pliant_proto::switch::plan::SchedulerConfig;
use pliant_proto::switch::{Discipline, QueueConfig, QueuePlan};
use pliant_proto::time::Span;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::scdp::{ScdpConfig, ScdpObject, ScdpReceiver, ScdpSender};
use pliant_proto::transport::tcp::TcpConfig;
use pliant_sim::recorder::NoRecorder;
use pliant_sim::results::{FlowState, RunResult};
use pliant_sim::topology::EdgeList;

use crate::common::{TestBed, at_ms, flow};
use crate::scenarios::{last_completion, run_with};

/// Incast of `size` from each of `senders` to one host of a star, by `transport` through the plan `scdp`.
fn incast(senders: u32, size: &str, transport: &str) -> RunResult {
    let text = format!(
        "duration = \"1ms\"\ndrain = \"1s\"\n[topology]\nkind = \"star\"\nhosts = {}\n\
         link = {{ rate = \"10Gbit/s\", delay = \"2us\" }}\n[queues]\nplan = \"scdp\"\n\
         [traffic.incast]\nkind = \"incast\"\nreceivers = 0\nperiod = \"1s\"\nsize = \"{size}\"\n\
         transport = \"{transport}\"\n",
        senders + 1
    );
    let result = run_with(&text, &[]);
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed));
    assert_eq!(result.flows.iter().map(|flow| flow.drops).sum::<u32>(), 0);
    result
}

/// Every object arrives with at most k + 2 symbols and a window on the wire, and the link is used as by NDP: 95 % of what
/// it can carry at least.
#[test]
fn an_incast_fills_the_link() {
    for senders in [1, 8, 100] {
        let result = incast(senders, "300kB", "scdp");
        let ideal = f64::from(senders) * 300e3 * (1538.0 / 1460.0) * 8.0 / 10e9;
        println!("{senders}: {:.4} of ideal", last_completion(&result) / ideal);
        assert!(last_completion(&result) <= ideal / 0.95 + 10e-6, "{senders}: {}", last_completion(&result));
        let to_receiver = result.ports.iter().filter(|port| port.name.ends_with("-> host 0"));
        let whole = to_receiver.filter(|port| port.queue_name != "headers").map(|port| port.dequeued().packets);
        let needed = 300_000u64.div_ceil(1460) + 2;
        let whole = whole.sum::<u64>();
        assert!(whole <= u64::from(senders) * (needed + 15), "{whole} symbols for {senders} objects of {needed}");
    }
}

/// A single sender's object takes as long as NDP's flow through the same switches, within the two symbols that decoding may
/// ask for; of several senders at once the last and the mean are as NDP's, within 3 and 5 %.
#[test]
fn one_object_per_sender_is_ndp() {
    for senders in [1, 8, 100] {
        let times = |transport: &str| {
            let result = incast(senders, "300kB", transport);
            let mean = result.flows.iter().map(|flow| flow.fct().expect("complete").as_secs_f64()).sum::<f64>();
            (last_completion(&result), mean / f64::from(senders))
        };
        let ((last, mean), (ndp_last, ndp_mean)) = (times("scdp"), times("ndp"));
        println!("{senders}: last {last} against {ndp_last}, mean {mean} against {ndp_mean}");
        if senders == 1 {
            assert!((last - ndp_last).abs() <= 2.0 * 1538.0 * 8.0 / 10e9, "{last} s against {ndp_last} s");
        }
        assert!((last / ndp_last - 1.0).abs() <= 0.03, "{senders}: last {last} s against {ndp_last} s");
        assert!((mean / ndp_mean - 1.0).abs() <= 0.05, "{senders}: mean {mean} s against {ndp_mean} s");
    }
}

/// The first symbols of a small object pass those of large ones: objects of a window, one every 100 us among forty of 1000
/// symbols, take less than half the time that they take by NDP, which has one level. (Where many small objects come at
/// once they trim each other, and then wait for pulls like all others, as by NDP.)
#[test]
fn levels_let_small_objects_pass() {
    let mean_small = |transport: &str| {
        let text = format!(
            "duration = \"2ms\"\ndrain = \"1s\"\n[topology]\nkind = \"star\"\nhosts = 51\n\
             link = {{ rate = \"10Gbit/s\", delay = \"2us\" }}\n[queues]\nplan = \"scdp\"\n\
             [traffic.large]\nkind = \"incast\"\nsources = \"1..41\"\nreceivers = 0\nperiod = \"1s\"\nsize = \"1460kB\"\n\
             transport = \"{transport}\"\n[traffic.small]\nkind = \"incast\"\nsources = \"41..51\"\nsenders = 1\n\
             receivers = 0\nstart = \"1ms\"\nperiod = \"100us\"\nsize = \"21900B\"\ntransport = \"{transport}\"\n"
        );
        let result = run_with(&text, &[]);
        let small = result.flows.iter().filter(|flow| flow.group == 1);
        small.map(|flow| flow.fct().expect("it completes").as_secs_f64()).sum::<f64>() / 10.0
    };
    let (scdp, ndp) = (mean_small("scdp"), mean_small("ndp"));
    println!("{scdp} against {ndp}");
    assert!(scdp < 0.5 * ndp, "{scdp} against {ndp}");
}

/// Two sources whose links have 2 and 4 Gbit/s bring one object to a receiver with 10 Gbit/s: they deliver symbols in the
/// ratio of their rates, finish together, at 95 % of what both links carry at least, and no more than k + 2 symbols and
/// both windows arrive.
#[test]
fn two_sources_share_an_object_by_their_rates() {
    let directory = std::env::temp_dir().join(format!("pliant-scdp-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a folder");
    let cables = "from,to,rate,delay\nhost0,s,2Gbit/s,2us\nhost1,s,4Gbit/s,2us\nhost2,s,10Gbit/s,2us\n";
    std::fs::write(directory.join("cables.csv"), cables).expect("a file");
    let topology = EdgeList { file: directory.join("cables.csv"), host_delay: Span::default() }.build();
    std::fs::remove_dir_all(&directory).expect("it was there");
    let topology = topology.expect("a network");

    let headers = QueueConfig { discipline: Discipline::ReturnToSender, ..QueueConfig::tail_drop("headers", 188) };
    let discipline = Discipline::Trim { header_bytes: 84, header_class: 31 };
    let data = QueueConfig { discipline, ..QueueConfig::tail_drop("data", 8) };
    let mut plan = QueuePlan::per_class(vec![headers, data], SchedulerConfig::Strict);
    plan.queue_of_class = std::array::from_fn(|class| u8::from(class != 31));
    let bed = TestBed::new(topology, plan, &TcpConfig::default());

    let config = Arc::new(ScdpConfig { control_class: TrafficClass::new(31), ..ScdpConfig::default() });
    let (bytes, k) = (6_000_000u64, 6_000_000u64.div_ceil(1460));
    let object = Arc::new(ScdpObject::new(&config, bytes, Some(1)));
    let pair = |spec: &pliant_sim::traffic::FlowSpec| {
        let sender = ScdpSender::new(Arc::clone(&config), spec.source, 2);
        let receiver = ScdpReceiver::new(Arc::clone(&config), Arc::clone(&object), 2);
        (AnyTransport::from(sender), AnyTransport::from(receiver))
    };
    let outcome = bed.run(&[flow(0, 2, bytes), flow(1, 2, bytes)], pair, NoRecorder, at_ms(1000));
    let (slow, fast) = (&outcome.flows[0], &outcome.flows[1]);
    let ratio = fast.delivered_bytes as f64 / slow.delivered_bytes as f64;
    let took = fast.fct().expect("it completed").as_secs_f64();
    println!("{ratio:.3}, {took} s, {} symbols", object.arrived());
    assert_eq!(fast.completed, slow.completed, "both learn at once");
    assert_eq!(slow.delivered_bytes + fast.delivered_bytes, bytes);
    assert!((ratio / 2.0 - 1.0).abs() <= 0.05, "{ratio}");
    assert!(took <= bytes as f64 * (1538.0 / 1460.0) * 8.0 / 6e9 / 0.95, "{took}");
    assert!(object.arrived() <= k + 2 && object.was_decoded());
    let sent: u64 = [0usize, 2].iter().flat_map(|&port| &outcome.ports[port]).map(|queue| queue.admitted.packets).sum();
    // Hosts' ports: symbols only, for pulls and acknowledgements are the receiver's.
    assert!(sent <= k + 2 + 2 * 15, "{sent} symbols for {k}");
}

/// Objects of which four hosts hold each, on a leaf-spine network that sprays: all arrive, exactly once; of 3 sources none
/// brings all; no more than k + 2 symbols come before an object is complete, and what was on its way after; the run is the
/// same with a recorder. Split in advance they take longer.
#[test]
fn objects_come_from_several_sources() {
    let text = "duration = \"1s\"\ndrain = \"5s\"\nrouting = \"spray-permutation\"\n[topology]\nkind = \"leaf-spine\"\n\
        leaves = 4\nspines = 2\nhosts_per_leaf = 4\nhost_link = { rate = \"1Gbit/s\", delay = \"2us\" }\n\
        fabric_link = { rate = \"2Gbit/s\", delay = \"2us\" }\n[queues]\nplan = \"scdp\"\n[traffic.images]\n\
        kind = \"objects\"\nholders = \"0..4\"\nreceivers = \"4..16\"\nsize = \"300kB..3MB\"\nload = 0.8\nobjects = 40\n\
        transport = \"scdp\"\n";
    let result = run_with(text, &[]);
    let objects = result.objects();
    assert_eq!((objects.len(), result.flows.len()), (40, 120));
    for object in &objects {
        assert!(object.completed.is_some() && object.delivered_bytes == object.bytes, "{object:?}");
        assert_eq!(object.decoded_blocks + object.whole_blocks, 1, "{object:?}");
        assert!(object.largest_part < 0.9, "{object:?}");
        let needed = object.bytes.div_ceil(1460) + 2;
        // A window of each source is on its way when the object is complete, and what timeouts sent beside.
        let late = u64::from(object.sources + object.timeouts) * 15;
        assert!(object.symbols - object.excess_symbols <= needed && object.excess_symbols <= late, "{object:?}");
    }
    assert_eq!(run_with(text, &["sample_interval=1ms"]).digest, result.digest);
    let mean = |result: &RunResult| {
        let times = result
            .objects()
            .iter()
            .map(|object| object.completion_time().expect("complete").as_secs_f64())
            .sum::<f64>();
        times / 40.0
    };
    let (shared, split) = (mean(&result), mean(&run_with(text, &["images.split=true"])));
    assert!(shared < split, "{shared} s against {split} s");
}
