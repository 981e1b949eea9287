//! A run of the simulator and one of a real network side by side: each measure, and their ratio.

use std::fmt::Write;

use pliant_proto::time::Span;
use pliant_sim::results::RunResult;
use pliant_sim::results::statistics::by_group;

/// Queues shorter than this in the mean are left out: a frame more or less is no disagreement.
const LEAST_QUEUE_PACKETS: f64 = 2.0;

/// One line per measure.
pub(crate) fn text(label: &str, interval: Option<Span>, simulated: &RunResult, real: &RunResult) -> String {
    let mut lines = String::new();
    let heading = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let _ = writeln!(lines, "\n{heading}testbed against simulator");
    for (what, unit, sim, testbed) in measures(interval, simulated, real) {
        let ratio = if sim == 0.0 { String::from("–") } else { format!("{:.3}", testbed / sim) };
        let _ = writeln!(lines, "  {what:<44} {sim:>10.4} {testbed:>10.4} {unit:<7} ratio {ratio}");
    }
    lines
}

/// Fewer packets sent again than this are left out.
const LEAST_RETRANSMISSIONS: u64 = 20;

/// What is measured, its unit, and its value in the simulator and on the testbed.
pub(crate) type Measure = (String, &'static str, f64, f64);

/// All measures of a run in both places.
pub(crate) fn measures(interval: Option<Span>, simulated: &RunResult, real: &RunResult) -> Vec<Measure> {
    let mut all = Vec::new();
    for (index, (sim, testbed)) in by_group(simulated).iter().zip(&by_group(real)).enumerate() {
        let name = &simulated.groups[index].name;
        let (a, b) = (&sim.all, &testbed.all);
        all.push((format!("{name}: goodput"), "Gbit/s", a.goodput_gbit_per_s, b.goodput_gbit_per_s));
        all.push((format!("{name}: share of all bytes"), "", sim.share_of_delivered, testbed.share_of_delivered));
        if a.completed > 0
            && let (Some(a), Some(b)) = (&a.fct_us, &b.fct_us)
        {
            all.push((format!("{name}: mean completion time"), "ms", a.mean.value / 1000.0, b.mean.value / 1000.0));
        }
        if a.retransmissions.max(b.retransmissions) >= LEAST_RETRANSMISSIONS {
            let (a, b) = (a.retransmissions as f64, b.retransmissions as f64);
            all.push((format!("{name}: sent again"), "packets", a, b));
        }
    }
    for port in &simulated.ports {
        let Some(interval) = interval else { break };
        let mean = |result: &RunResult| mean_queue(result, interval, port.port, port.queue);
        let (a, b) = (mean(simulated), mean(real));
        if a >= LEAST_QUEUE_PACKETS || b >= LEAST_QUEUE_PACKETS {
            all.push((format!("{}, {}: mean queue", port.name, port.queue_name), "packets", a, b));
        }
    }
    all
}

/// Mean length of a queue over the run, by its samples; a look that found it empty left none.
fn mean_queue(result: &RunResult, interval: Span, port: u32, queue: u8) -> f64 {
    let samples = result.queue_samples.iter().filter(|sample| sample.port == port && sample.queue == queue);
    let packets: f64 = samples.map(|sample| f64::from(sample.packets)).sum();
    packets * interval.as_ps() as f64 / result.simulated.as_ps().max(1) as f64
}
