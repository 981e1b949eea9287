//! Runs a scenario on a testbed: starts the processes, connects them, waits, and puts what they report together into
//! the result that the simulator yields.

use std::sync::atomic::AtomicBool;

use pliant_net::clock::SharedClock;
use pliant_proto::time::Span;
use pliant_sim::results::RunResult;
use pliant_sim::scenario::Resolved;

use crate::controller::ObjectController;
use crate::error::{TestbedError, failed};
use crate::headroom::{Headroom, headroom, idle_and_all};
use crate::messages::{ALIVE, HostReport, READY, SET_UP, STOP, SwitchReport, start};
use crate::namespaces;
use crate::network;
use crate::options::{Options, Progress};
use crate::processes::Processes;
use crate::real_time::RealTime;
use crate::result::result;

/// From the last word to all processes to the start of time.
const START_DELAY: Span = Span::from_ms(300);

/// Runs until every flow with an end is over, or `drain` after `duration`, as the simulator does.
pub fn run(
    scenario: &Resolved,
    options: &Options,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(RunResult, Headroom), TestbedError> {
    network::check(scenario, options.on_loopback, options.mode)?;
    if !options.on_loopback && !namespaces::permitted() {
        return Err(TestbedError::NotPermitted);
    }
    let folder = tempfile::tempdir().map_err(failed("make a temporary folder"))?;
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario.to_toml()).map_err(failed("write a temporary file"))?;
    // Mail of objects goes through this process and its threads.
    let _in_time = options.real_time.then(RealTime::begin);
    let mut processes = Processes::spawn(scenario, options, &file)?;
    processes.expect_all(ALIVE)?;
    if !options.on_loopback {
        let pids = processes.pids();
        let (switch, hosts) = pids.split_last().expect("the switch is the last");
        namespaces::connect(*switch, hosts, options.mode).map_err(failed("connect the namespaces"))?;
    }
    processes.tell_all(SET_UP)?;
    processes.expect_all(READY)?;
    let clock = SharedClock::starting_in(START_DELAY);
    processes.tell_all(&start(clock))?;
    let idle_before = idle_and_all();
    let mut control = ObjectController::new(scenario);
    let interrupted = processes.wait(scenario, clock, &mut control, interrupt, progress)?;
    let messages = control.map_or(0, |control| control.messages());
    let ended = clock.now();
    let idle_after = idle_and_all();
    let hosts = scenario.topology.hosts() as usize;
    processes.tell(0..hosts, STOP)?;
    let reports: Vec<HostReport> = (0..hosts).map(|host| processes.report(host)).collect::<Result<_, _>>()?;
    processes.tell(hosts..hosts + 1, STOP)?;
    let switch: SwitchReport = processes.report(hosts)?;
    let wall_s = ended.as_secs_f64().max(1e-9);
    let headroom = headroom(&reports, &switch, wall_s, idle_before, idle_after);
    let mut result = result(scenario, &reports, &switch, ended, interrupted);
    result.control_messages = messages;
    Ok((result, headroom))
}
