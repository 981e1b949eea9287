//! `summary.json`: what identifies a run, what it cost, and its statistics.

use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use crate::results::statistics::{GroupStatistics, by_group};
use crate::results::{GroupInfo, RunResult};

/// Version of the folder's layout; a change that breaks readers raises it.
const FORMAT: u32 = 3;

/// What identifies a run and what it cost.
#[derive(Serialize, Deserialize)]
struct Run {
    format: u32,
    scenario: String,
    version: String,
    seed: u64,
    digest: String,
    interrupted: bool,
    #[serde(default)]
    overloaded: Option<String>,
    simulated_ps: u64,
    wall_s: f64,
    cpu_s: f64,
    packet_hops: u64,
    events: u64,
    control_messages: u64,
}

#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    run: Run,
    packet_hops_per_cpu_s: f64,
    groups: Vec<GroupStatistics>,
}

#[derive(Deserialize)]
struct Read {
    #[serde(flatten)]
    run: Run,
    groups: Vec<GroupInfo>,
}

/// The summary of `result` as JSON.
pub fn summary_json(result: &RunResult) -> String {
    let summary = Written {
        run: Run {
            format: FORMAT,
            scenario: result.scenario.clone(),
            version: result.version.clone(),
            seed: result.seed,
            digest: result.digest_text(),
            interrupted: result.interrupted,
            overloaded: result.overloaded.clone(),
            simulated_ps: result.simulated.as_ps(),
            wall_s: result.wall_s,
            cpu_s: result.cpu_s,
            packet_hops: result.packet_hops,
            events: result.events,
            control_messages: result.control_messages,
        },
        packet_hops_per_cpu_s: result.hops_per_cpu_second(),
        groups: by_group(result),
    };
    let mut text = serde_json::to_string_pretty(&summary).expect("a summary is plain data");
    text.push('\n');
    text
}

/// The run that a summary tells of, without flows, ports and samples.
pub(super) fn read_summary(text: &str) -> Result<RunResult, String> {
    let Read { run, groups } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if run.format != FORMAT {
        return Err(format!("it has format {}, this version reads format {FORMAT}", run.format));
    }
    if groups.len() > usize::from(u16::MAX) {
        return Err(format!("{} groups are too many", groups.len()));
    }
    Ok(RunResult {
        digest: u64::from_str_radix(&run.digest, 16).map_err(|_| format!("\"{}\" is no digest", run.digest))?,
        scenario: run.scenario,
        version: run.version,
        seed: run.seed,
        simulated: Span::from_ps(run.simulated_ps),
        wall_s: run.wall_s,
        cpu_s: run.cpu_s,
        packet_hops: run.packet_hops,
        events: run.events,
        control_messages: run.control_messages,
        interrupted: run.interrupted,
        overloaded: run.overloaded,
        groups,
        flows: Vec::new(),
        ports: Vec::new(),
        queue_samples: Vec::new(),
        throughput_samples: Vec::new(),
        reflex_samples: Vec::new(),
        window_samples: Vec::new(),
    })
}
