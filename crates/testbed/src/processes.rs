//! The processes of a testbed, as their parent sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pliant_net::clock::{SharedClock, to_timeout};
use pliant_net::switch::ethernet::Mode;
use pliant_proto::time::Instant;
use pliant_sim::scenario::Resolved;
use pliant_sim::traffic::UNLIMITED_BYTES;

use crate::controller::ObjectController;
use crate::error::{TestbedError, failed};
use crate::mail::{MAIL, line, read};
use crate::messages::OVER;
use crate::namespaces;
use crate::network;
use crate::options::{Options, Progress};
use crate::real_time::{HOST_PRIORITY, SWITCH_PRIORITY};

/// How long processes may take to start, or to report.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked whether the run is over.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The processes of a testbed: hosts by number, then the switch. They die when this is dropped.
pub(crate) struct Processes {
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
    pub(crate) fn spawn(scenario: &Resolved, options: &Options, file: &Path) -> Result<Self, TestbedError> {
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

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(|(child, _)| child.id()).collect()
    }

    fn name(&self, index: usize) -> String {
        if index + 1 == self.children.len() { "switch".to_owned() } else { format!("host {index}") }
    }

    fn failure(&self, index: usize, what: &str) -> TestbedError {
        TestbedError::Process { who: self.name(index), what: what.to_owned() }
    }

    /// The process at `index` was heard to end. Named is one that a signal has killed, if there is one: others end for that.
    fn ended(&mut self, index: usize) -> TestbedError {
        let is_killed =
            |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some_and(|of| of.signal().is_some()));
        let killed = self.children.iter_mut().position(|(child, _)| is_killed(child));
        self.failure(killed.unwrap_or(index), "ended before it should")
    }

    pub(crate) fn tell_all(&mut self, line: &str) -> Result<(), TestbedError> {
        self.tell(0..self.children.len(), line)
    }

    pub(crate) fn tell(&mut self, whom: std::ops::Range<usize>, line: &str) -> Result<(), TestbedError> {
        for index in whom {
            let input = self.children[index].1.as_mut().expect("it is piped");
            let told = writeln!(input, "{line}").and_then(|()| input.flush());
            told.map_err(|_| self.ended(index))?;
        }
        Ok(())
    }

    /// The next line of one process.
    fn line(&mut self, index: usize) -> Result<String, TestbedError> {
        loop {
            if let Some(lines) = self.early.get_mut(&index).filter(|lines| !lines.is_empty()) {
                return Ok(lines.remove(0));
            }
            match self.lines.recv_timeout(ANSWER_TIMEOUT) {
                Ok((from, Some(line))) => self.early.entry(from).or_default().push(line),
                // One that has reported may be gone before another has.
                Ok((from, None)) if from != index && self.early.get(&from).is_some_and(|lines| !lines.is_empty()) => {}
                Ok((from, None)) if self.reported.contains(&from) => {}
                Ok((from, None)) => return Err(self.ended(from)),
                Err(_) => return Err(self.failure(index, "does not answer")),
            }
        }
    }

    pub(crate) fn expect_all(&mut self, expected: &str) -> Result<(), TestbedError> {
        for index in 0..self.children.len() {
            let line = self.line(index)?;
            if line != expected {
                return Err(self.failure(index, &format!("says {line:?} in place of {expected:?}")));
            }
        }
        Ok(())
    }

    /// Waits until the run is over. Whether it was interrupted.
    pub(crate) fn wait(
        &mut self,
        scenario: &Resolved,
        clock: SharedClock,
        control: &mut Option<ObjectController<'_>>,
        interrupt: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<bool, TestbedError> {
        let duration = scenario.spec.duration;
        let end = Instant::ZERO.after(duration).after(scenario.drain());
        let endless = scenario.traffic().is_ok_and(|mut traffic| traffic.any(|flow| flow.bytes == UNLIMITED_BYTES));
        let mut over = vec![false; scenario.topology.hosts() as usize];
        loop {
            let look = control
                .as_mut()
                .map_or(POLL_INTERVAL, |control| POLL_INTERVAL.min(to_timeout(control.next_at().since(clock.now()))));
            match self.lines.recv_timeout(look) {
                Ok((from, Some(line))) if line == OVER && from < over.len() => over[from] = true,
                Ok((from, Some(line))) => {
                    let mail = control.as_mut().zip(read(&line));
                    if !mail.is_some_and(|(control, mail)| control.post(clock.now(), mail)) {
                        return Err(self.failure(from, &format!("says {line:?}")));
                    }
                }
                Ok((from, None)) => return Err(self.ended(from)),
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

    pub(crate) fn report<T: serde::de::DeserializeOwned>(&mut self, index: usize) -> Result<T, TestbedError> {
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
