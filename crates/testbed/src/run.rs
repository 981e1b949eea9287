//! Runs a scenario on a testbed: starts the processes, connects them, waits, and puts what they report together into
//! the result that the simulator yields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pliant_net::clock::{SharedClock, nap};
use pliant_net::switch::FaultConfig;
use pliant_net::switch::ethernet::Mode;
use pliant_proto::time::{Instant, Span};
use pliant_sim::results::RunResult;
use pliant_sim::scenario::Resolved;
use pliant_sim::traffic::UNLIMITED_BYTES;

use crate::control::{Control, MAIL, line, read};
use crate::messages::{ALIVE, HostReport, OVER, READY, SET_UP, STOP, SwitchReport, start};
use crate::namespaces;
use crate::network::{self, Unsuitable};
use crate::result::result;

/// How long processes may take to start, or to report.
const PATIENCE: Duration = Duration::from_secs(30);
/// From the last word to all processes to the start of time.
const LEAD: Span = Span::from_ms(300);
/// How often it is looked whether the run is over.
const LOOK: Duration = Duration::from_millis(5);

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that has the hidden commands `testbed host` and `testbed switch`.
    pub program: PathBuf,
    /// What the switch takes for a frame.
    pub mode: Mode,
    /// On loopback, in place of network namespaces.
    pub on_loopback: bool,
    /// All processes with real-time priority (SCHED_RR), the switch before hosts: for machines that have other work.
    pub real_time: bool,
    /// What the switch does to frames.
    pub faults: FaultConfig,
    /// The table of faults as text, for the switch's command line.
    pub fault_text: String,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time so far.
    pub now: Span,
    /// Time at which no more flows start.
    pub duration: Span,
}

/// What the machine had left, and whether the result can be believed.
#[derive(Clone, Debug, Default)]
pub struct Headroom {
    /// Fraction of one processor that the switch took.
    pub switch: f64,
    /// Fraction of one processor that all hosts took together.
    pub hosts: f64,
    /// Fraction of all processors that was idle.
    pub idle: f64,
    /// Half of all frames left no later than this after they were due.
    pub late_median: Span,
    /// 99 % of them.
    pub late_p99: Span,
    /// All of them.
    pub late_max: Span,
    /// Frames that were lost because the switch came too late, or the kernel had no room for them.
    pub lost: u64,
    /// Payload bytes that arrived and were not those sent.
    pub wrong_bytes: u64,
    /// Datagrams that hosts refused: not packets, or of no flow of theirs.
    pub refused: u64,
    /// Frames that the switch refused for what they were, or for want of buffers.
    pub switch_refused: u64,
    /// What faults did: lost, blacked out, duplicated, corrupted, held back.
    pub faults: [u64; 5],
    /// The switch's counters, as a table.
    pub counters: String,
}

/// Of what delay of the 99th percentile a run is called overloaded.
const TOO_LATE: Span = Span::from_ms(1);
/// Of what delay of a single frame: longer than the switch waits for its turn beside other work, and of the order of
/// retransmission timeouts. Linux takes 50 ms of each second from real-time processes that leave nothing to others.
const STALL: Span = Span::from_ms(20);

impl Headroom {
    /// Why the run is not a result, if so.
    pub fn overload(&self) -> Option<String> {
        if self.lost > 0 {
            return Some(format!("{} frames were lost beside the queues", self.lost));
        }
        if self.late_p99 > TOO_LATE {
            return Some(format!("1 % of frames left more than {TOO_LATE} late"));
        }
        (self.late_max > STALL).then(|| format!("the switch stood still for more than {STALL}"))
    }

    /// Two lines for people.
    pub fn text(&self) -> String {
        let percent = |fraction: f64| (100.0 * fraction).round();
        let mut text = format!(
            "processors: switch {} %, hosts {} % of one; {} % of all idle\n\
             frames left late by at most {} (half), {} (99 %), {} (all)\n",
            percent(self.switch),
            percent(self.hosts),
            percent(self.idle),
            self.late_median.rounded(),
            self.late_p99.rounded(),
            self.late_max.rounded(),
        );
        if let Some(why) = self.overload() {
            let _ = writeln!(
                text,
                "overloaded, not a result: {why}; `--real-time`, a slower scenario or an idler machine is needed"
            );
        }
        if self.faults != [0; 5] {
            let [lost, dark, twice, corrupt, held] = self.faults;
            let _ = writeln!(
                text,
                "faults: {lost} frames lost, {dark} in blackouts, {twice} sent twice, {corrupt} corrupted, {held} held back"
            );
        }
        text
    }
}

/// Why a scenario did not run.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The scenario asks for what a testbed cannot do.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// The user may not make network namespaces.
    #[error(
        "network namespaces need root, or the capabilities CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_RAW; --relay does without, on loopback"
    )]
    NotPermitted,
    /// A process ended before it should, or did not answer.
    #[error("the testbed's {who} {what}")]
    Process {
        /// Which one.
        who: String,
        /// What it did.
        what: String,
    },
    /// The system refused.
    #[error("cannot {doing}: {error}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The system's reason.
        error: io::Error,
    },
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> TestbedError {
    move |error| TestbedError::Io { doing, error }
}

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
    let clock = SharedClock::starting_in(LEAD);
    processes.tell_all(&start(clock))?;
    let idle_before = idle_and_all();
    let mut control = Control::new(scenario);
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

/// The processes of a testbed: hosts by number, then the switch. They die when this is dropped.
struct Processes {
    children: Vec<(Child, Option<ChildStdin>)>,
    lines: Receiver<(usize, Option<String>)>,
    /// Lines that came before somebody waited for them.
    early: BTreeMap<usize, Vec<String>>,
    /// Those that have said all they had to say.
    reported: BTreeSet<usize>,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (child, input) in &mut self.children {
            drop(input.take());
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Processes {
    fn spawn(scenario: &Resolved, options: &Options, file: &Path) -> Result<Self, TestbedError> {
        let hosts = scenario.topology.hosts();
        let (sender, lines) = channel();
        let mut processes = Self { children: Vec::new(), lines, early: BTreeMap::new(), reported: BTreeSet::new() };
        let loopback = Loopback::new(hosts);
        let text = |addresses: &[Ipv4Addr]| addresses.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(",");
        for host in 0..hosts {
            let (own, peers) = if options.on_loopback {
                (loopback.own(host), (0..hosts).map(|other| loopback.alias(other)).collect::<Vec<_>>())
            } else {
                (network::address(host), (0..hosts).map(network::address).collect())
            };
            let mut command = program(options, HOST_PRIORITY);
            command.args(["testbed", "host", "--host", &host.to_string(), "--address", &own.to_string()]);
            command.args(["--peers", &text(&peers), "--scenario"]).arg(file);
            processes.add(command, &sender)?;
        }
        let mut command = program(options, SWITCH_PRIORITY);
        command.args(["testbed", "switch"]);
        if options.on_loopback {
            let pairs = (0..hosts).map(|host| format!("{}={}", loopback.own(host), loopback.alias(host)));
            command.args(["--loopback", &pairs.collect::<Vec<_>>().join(",")]);
        } else {
            let names: Vec<String> = (0..hosts).map(namespaces::interface).collect();
            command.args(["--interfaces", &names.join(",")]);
        }
        command.args(["--mode", if options.mode == Mode::Speed { "speed" } else { "fidelity" }]);
        command.args(["--faults", &options.fault_text, "--scenario"]).arg(file);
        processes.add(command, &sender)?;
        Ok(processes)
    }

    fn add(&mut self, mut command: Command, sender: &Sender<(usize, Option<String>)>) -> Result<(), TestbedError> {
        let index = self.children.len();
        // A group of its own: Ctrl-C is for the parent, which stops its children in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed("start a process of the testbed"))?;
        let output = child.stdout.take().expect("it is piped");
        let input = child.stdin.take();
        self.children.push((child, input));
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send((index, Some(line))).is_err() {
                    return;
                }
            }
            let _ = sender.send((index, None));
        });
        Ok(())
    }

    fn pids(&self) -> Vec<u32> {
        self.children.iter().map(|(child, _)| child.id()).collect()
    }

    fn name(&self, index: usize) -> String {
        if index + 1 == self.children.len() { "switch".to_owned() } else { format!("host {index}") }
    }

    fn failure(&self, index: usize, what: &str) -> TestbedError {
        TestbedError::Process { who: self.name(index), what: what.to_owned() }
    }

    fn tell_all(&mut self, line: &str) -> Result<(), TestbedError> {
        self.tell(0..self.children.len(), line)
    }

    fn tell(&mut self, whom: std::ops::Range<usize>, line: &str) -> Result<(), TestbedError> {
        for index in whom {
            let input = self.children[index].1.as_mut().expect("it is piped");
            let told = writeln!(input, "{line}").and_then(|()| input.flush());
            told.map_err(|_| self.failure(index, "ended before it should"))?;
        }
        Ok(())
    }

    /// The next line of one process.
    fn line(&mut self, index: usize) -> Result<String, TestbedError> {
        loop {
            if let Some(lines) = self.early.get_mut(&index).filter(|lines| !lines.is_empty()) {
                return Ok(lines.remove(0));
            }
            match self.lines.recv_timeout(PATIENCE) {
                Ok((from, Some(line))) => self.early.entry(from).or_default().push(line),
                // One that has reported may be gone before another has.
                Ok((from, None)) if from != index && self.early.get(&from).is_some_and(|lines| !lines.is_empty()) => {}
                Ok((from, None)) if self.reported.contains(&from) => {}
                Ok((from, None)) => return Err(self.failure(from, "ended before it should")),
                Err(_) => return Err(self.failure(index, "does not answer")),
            }
        }
    }

    fn expect_all(&mut self, expected: &str) -> Result<(), TestbedError> {
        for index in 0..self.children.len() {
            let line = self.line(index)?;
            if line != expected {
                return Err(self.failure(index, &format!("says {line:?} in place of {expected:?}")));
            }
        }
        Ok(())
    }

    /// Waits until the run is over. Whether it was interrupted.
    fn wait(
        &mut self,
        scenario: &Resolved,
        clock: SharedClock,
        control: &mut Option<Control<'_>>,
        interrupt: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<bool, TestbedError> {
        let duration = scenario.spec.duration;
        let end = Instant::ZERO.after(duration).after(scenario.drain());
        let endless = scenario.traffic().is_ok_and(|mut traffic| traffic.any(|flow| flow.bytes == UNLIMITED_BYTES));
        let mut over = vec![false; scenario.topology.hosts() as usize];
        loop {
            let look = control.as_mut().map_or(LOOK, |control| LOOK.min(nap(control.next_at().since(clock.now()))));
            match self.lines.recv_timeout(look) {
                Ok((from, Some(line))) if line == OVER && from < over.len() => over[from] = true,
                Ok((from, Some(line))) => {
                    let letter = control.as_mut().zip(read(&line));
                    if !letter.is_some_and(|(control, letter)| control.post(clock.now(), letter)) {
                        return Err(self.failure(from, &format!("says {line:?}")));
                    }
                }
                Ok((from, None)) => return Err(self.failure(from, "ended before it should")),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("this holds a sender's thread for each child"),
            }
            let now = clock.now();
            let mut replies = Vec::new();
            if let Some(control) = control {
                control.advance(now, |host, reply| replies.push((host as usize, reply)));
            }
            for (host, reply) in replies {
                self.tell(host..host + 1, &line(&reply))?;
            }
            progress(&Progress { now: now.since(Instant::ZERO), duration });
            let may_end = !endless || now >= Instant::ZERO.after(duration);
            if over.iter().all(|over| *over) && may_end || now >= end {
                return Ok(false);
            }
            if interrupt.load(Ordering::Relaxed) {
                return Ok(true);
            }
        }
    }

    fn report<T: serde::de::DeserializeOwned>(&mut self, index: usize) -> Result<T, TestbedError> {
        loop {
            let line = self.line(index)?;
            if line != OVER && !line.starts_with(MAIL) {
                self.reported.insert(index);
                let report = serde_json::from_str(&line);
                return report.map_err(|error| self.failure(index, &format!("reports nonsense: {error}")));
            }
        }
    }
}

/// Real-time priorities, of 1 to 99.
const HOST_PRIORITY: &str = "5";
const SWITCH_PRIORITY: &str = "10";

/// While it is there this thread, and those that it starts, have the hosts' priority.
struct RealTime {
    thread: String,
}

impl RealTime {
    fn begin() -> Self {
        let this = Self { thread: rustix::thread::gettid().as_raw_nonzero().to_string() };
        this.change(&["--rr", "-p", HOST_PRIORITY]);
        this
    }

    /// Best effort: where it is not allowed the processes fail at once, and say so.
    fn change(&self, arguments: &[&str]) {
        let _ = Command::new("chrt").args(arguments).arg(&self.thread).stderr(Stdio::null()).status();
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        self.change(&["--other", "-p", "0"]);
    }
}

/// The command of a process, to which its arguments are added.
fn program(options: &Options, priority: &str) -> Command {
    let mut words = Vec::new();
    if options.real_time {
        words.extend(["chrt", "--rr", priority]);
    }
    if !options.on_loopback {
        words.extend(namespaces::IN_NEW);
    }
    match words.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(&options.program);
            command
        }
        None => Command::new(&options.program),
    }
}

/// Addresses on loopback, others for each run of this machine.
struct Loopback {
    second: u8,
}

impl Loopback {
    fn new(hosts: u32) -> Self {
        assert!(hosts <= network::MAX_HOSTS, "the scenario was checked");
        Self { second: 64 + (std::process::id() % 128) as u8 }
    }

    fn own(&self, host: u32) -> Ipv4Addr {
        Ipv4Addr::new(127, self.second, 0, host as u8 + 1)
    }

    fn alias(&self, host: u32) -> Ipv4Addr {
        Ipv4Addr::new(127, self.second, 1, host as u8 + 1)
    }
}

/// Idle and total time of all processors, in ticks.
fn idle_and_all() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    (ticks.get(3).copied().unwrap_or(0.0), ticks.iter().sum())
}

fn headroom(
    hosts: &[HostReport],
    switch: &SwitchReport,
    wall_s: f64,
    (idle_before, all_before): (f64, f64),
    (idle_after, all_after): (f64, f64),
) -> Headroom {
    Headroom {
        switch: switch.cpu_s / wall_s,
        hosts: hosts.iter().map(|host| host.cpu_s).sum::<f64>() / wall_s,
        idle: (idle_after - idle_before) / (all_after - all_before).max(1.0),
        late_median: Span::from_ps(switch.late_median_ps),
        late_p99: Span::from_ps(switch.late_p99_ps),
        late_max: Span::from_ps(switch.late_max_ps),
        lost: switch.overrun + switch.send_failed + hosts.iter().map(|host| host.failed_sends).sum::<u64>(),
        wrong_bytes: hosts.iter().flat_map(|host| &host.receivers).map(|flow| flow.wrong_bytes).sum(),
        refused: hosts.iter().map(|host| host.malformed + host.stray).sum(),
        switch_refused: switch.refused,
        faults: switch.faults,
        counters: switch.counters.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run is a result unless frames were lost beside the queues, many left late, or the switch stood still.
    #[test]
    fn overload_is_said() {
        let fine = Headroom { late_p99: Span::from_us(256), late_max: Span::from_ms(4), ..Headroom::default() };
        assert_eq!(fine.overload(), None);
        assert!(!fine.text().contains("overloaded"));
        for (headroom, why) in [
            (Headroom { lost: 3, ..fine.clone() }, "3 frames were lost"),
            (Headroom { late_p99: Span::from_us(1024), ..fine.clone() }, "1 % of frames left more than 1ms late"),
            (Headroom { late_max: Span::from_ms(50), ..fine }, "stood still for more than 20ms"),
        ] {
            let text = headroom.text();
            assert!(text.contains("overloaded, not a result") && text.contains(why), "{text}");
        }
    }
}
