//! SCDP in networks whose switches trim.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_sim::results::{FlowState, RunResult};
use pliant_sim::run::run;
use pliant_sim::scenario::Scenario;

/// Incast of `size` from each of `senders` to one host of a star, by `transport` through the plan `scdp`.
fn incast(senders: u32, size: &str, transport: &str) -> RunResult {
    let text = format!(
        "duration = \"1ms\"\ndrain = \"1s\"\n[topology]\nkind = \"star\"\nhosts = {}\n\
         link = {{ rate = \"10Gbit/s\", delay = \"2us\" }}\n[queues]\nplan = \"scdp\"\n\
         [traffic.incast]\nkind = \"incast\"\nreceivers = 0\nperiod = \"1s\"\nsize = \"{size}\"\n\
         transport = \"{transport}\"\n",
        senders + 1
    );
    let resolved = Scenario::parse(&text, Path::new("scdp.toml")).unwrap().resolve();
    let resolved = resolved.unwrap_or_else(|error| panic!("{error}"));
    let result = run(&resolved, &AtomicBool::new(false), &mut |_| {}).expect("nothing can fail");
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed));
    assert_eq!(result.flows.iter().map(|flow| flow.drops).sum::<u32>(), 0);
    result
}

fn last(result: &RunResult) -> f64 {
    result.flows.iter().filter_map(|flow| flow.fct()).max().expect("there are flows").as_secs_f64()
}

/// Every object arrives with at most k + 2 symbols and a window on the wire, and the link is used as by NDP: 95 % of what
/// it can carry at least.
#[test]
fn an_incast_fills_the_link() {
    for senders in [1, 8, 100] {
        let result = incast(senders, "300kB", "scdp");
        let ideal = f64::from(senders) * 300e3 * (1538.0 / 1460.0) * 8.0 / 10e9;
        println!("{senders}: {:.4} of ideal", last(&result) / ideal);
        assert!(last(&result) <= ideal / 0.95 + 10e-6, "{senders}: {}", last(&result));
        let to_receiver = result.ports.iter().filter(|port| port.name.ends_with("-> host 0"));
        let whole = to_receiver.filter(|port| port.queue_name != "headers").map(|port| port.dequeued().packets);
        let needed = 300_000u64.div_ceil(1460) + 2;
        let whole = whole.sum::<u64>();
        assert!(whole <= u64::from(senders) * (needed + 15), "{whole} symbols for {senders} objects of {needed}");
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
        let resolved = Scenario::parse(&text, Path::new("scdp.toml")).unwrap().resolve().unwrap();
        let result = run(&resolved, &AtomicBool::new(false), &mut |_| {}).expect("nothing can fail");
        let small = result.flows.iter().filter(|flow| flow.group == 1);
        small.map(|flow| flow.fct().expect("it completes").as_secs_f64()).sum::<f64>() / 10.0
    };
    let (scdp, ndp) = (mean_small("scdp"), mean_small("ndp"));
    println!("{scdp} against {ndp}");
    assert!(scdp < 0.5 * ndp, "{scdp} against {ndp}");
}
