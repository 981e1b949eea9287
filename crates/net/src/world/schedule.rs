//! Whose turn it is: tasks, time and events of a world.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pliant_proto::packet::{Ecn, TrafficClass};
use pliant_proto::rng::Stream;

use super::attackers::{SEALED, kind};
use super::disk::{Disk, DiskFaults, Lasting};
use super::here::{Here, enter};
use super::network::{Link, Port, Wire, check_destination};
use crate::seam::{DiskOperation, Mutant};

/// The time of day when a world begins, in nanoseconds since 1970.
const EPOCH_NS: u64 = 1_750_000_000_000_000_000;
/// What it takes to read a clock, so that a loop that never waits is not for ever.
const CLOCK_READ_NS: u64 = 100;
/// The first port given to a socket that asks for any.
const FIRST_PORT: u16 = 40_000;

/// Index of a task in its world.
pub(super) type TaskNumber = usize;

/// A host of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostConfig {
    /// Its link.
    pub(crate) link: Link,
    /// Its disk.
    pub(crate) disk: DiskFaults,
    /// Its clocks jump: when, the monotonic clock so far ahead, the time of day so far, all in nanoseconds.
    pub(crate) jumps: Vec<(u64, u64, i64)>,
    /// When its NAT forgets its sockets' addresses, in nanoseconds.
    pub(crate) rebinds: Vec<u64>,
}

struct Host {
    wire: Wire,
    disk: Disk,
    monotonic_ahead_ns: u64,
    time_of_day_ahead_ns: i64,
    next_port: u16,
    /// A waker was called, and no wait has ended by it.
    woken: bool,
}

/// Why a task does not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TaskState {
    Running,
    /// Until an event with this turn, or until something arrives at its port or its host's waker is called.
    Waiting {
        turn: u64,
        port: Option<usize>,
    },
    Done,
}

struct Task {
    name: String,
    host: usize,
    parent: Option<TaskNumber>,
    /// The world goes on for as long as one of these is not done.
    counts: bool,
    state: TaskState,
    turns: u64,
    may_run: Arc<Condvar>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake { task: TaskNumber, turn: u64 },
    Arrive { to: SocketAddr, from: SocketAddr, ecn: u8, bytes: Vec<u8> },
    Jump { host: usize, monotonic_ns: u64, time_of_day_ns: i64 },
    Rebind { host: usize },
}

struct State {
    now: u64,
    end: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events_pushed: u64,
    steps: u64,
    /// Of every step: two runs that agree here were the same.
    digest: u64,
    random: Stream,
    hosts: Vec<Host>,
    tasks: Vec<Task>,
    ports: Vec<Port>,
    failure: Option<String>,
    over: bool,
    /// Copies of what hosts have sent, for attackers who see it.
    seen: Option<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>,
}

/// Hosts, their network and their time.
pub(crate) struct World {
    mutant: Option<Mutant>,
    state: Mutex<State>,
    ended: Condvar,
}

/// How a world has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ending {
    /// Events handled.
    pub(crate) steps: u64,
    /// Of all events in order.
    pub(crate) digest: u64,
    /// Nanoseconds of its time.
    pub(crate) now_ns: u64,
    /// What went wrong with it: a task that panicked or never ended.
    pub(crate) failure: Option<String>,
}

/// With this its tasks are ended.
struct WorldEnded;

/// A task whose thread is yet to begin.
pub(super) struct Child(Here);

impl World {
    /// A world that ends after so long at the latest, with a mistake if one is put back.
    pub(crate) fn new(seed: u64, longest: Duration, mutant: Option<Mutant>) -> Arc<Self> {
        let state = State {
            now: 0,
            end: longest.as_nanos() as u64,
            events: BinaryHeap::new(),
            events_pushed: 0,
            steps: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            random: Stream::named(seed, "world"),
            hosts: Vec::new(),
            tasks: Vec::new(),
            ports: Vec::new(),
            failure: None,
            over: false,
            seen: None,
        };
        Arc::new(Self { mutant, state: Mutex::new(state), ended: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a host; its address is [`address`](Self::address) of its number.
    pub(crate) fn add_host(&self, config: HostConfig) -> usize {
        let mut state = self.lock();
        let host = state.hosts.len();
        for (at, monotonic_ns, time_of_day_ns) in config.jumps {
            state.push(at, Event::Jump { host, monotonic_ns, time_of_day_ns });
        }
        for at in config.rebinds {
            state.push(at, Event::Rebind { host });
        }
        state.hosts.push(Host {
            wire: Wire::new(config.link),
            disk: Disk::new(config.disk),
            monotonic_ahead_ns: 0,
            time_of_day_ahead_ns: 0,
            next_port: FIRST_PORT,
            woken: false,
        });
        host
    }

    /// Where a host's socket with this port is.
    pub(crate) fn address(host: usize, port: u16) -> SocketAddr {
        ([10, 0, 0, host as u8 + 1], port).into()
    }

    /// From now on a copy of every datagram is kept for [`take_seen`](Self::take_seen).
    pub(crate) fn watch(&self) {
        self.lock().seen = Some(Vec::new());
    }

    /// What was sent since the last call: from, to, bytes.
    pub(crate) fn take_seen(&self) -> Vec<(SocketAddr, SocketAddr, Vec<u8>)> {
        self.lock().seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sends a datagram from an address that need not be the sender's.
    pub(crate) fn inject(&self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let mut state = self.lock();
        let at = state.now + 1_000_000;
        state.push(at, Event::Arrive { to, from, ecn: 0, bytes: bytes.to_vec() });
    }

    /// The mistake that is put back.
    pub(super) fn mutant(&self) -> Option<Mutant> {
        self.mutant
    }

    /// Runs `work` on a host from `at` nanoseconds on. A world ends when all tasks that count have.
    pub(crate) fn spawn<R: Send + 'static>(
        self: &Arc<Self>,
        host: usize,
        name: &str,
        at: u64,
        counts: bool,
        work: impl FnOnce(&Arc<Self>) -> R + Send + 'static,
    ) -> JoinHandle<Option<R>> {
        let task = self.lock().add_task(host, name, None, counts, at);
        let here = Here { world: self.clone(), task };
        std::thread::spawn(move || {
            let world = here.world.clone();
            Child(here).run_caught(move || work(&world)).ok()
        })
    }

    /// Lets the tasks run until all that count have ended.
    pub(crate) fn run(&self) -> Ending {
        let mut state = self.lock();
        state.dispatch();
        while !state.over {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ending { steps: state.steps, digest: state.digest, now_ns: state.now, failure: state.failure.clone() }
    }

    /// How much of a host's file a power cut would leave.
    pub(crate) fn lasting(&self, host: usize, path: &Path) -> Option<Lasting> {
        self.lock().hosts[host].disk.lasting(path)
    }

    /// How often a host's disk has failed.
    pub(crate) fn disk_failures(&self, host: usize) -> u64 {
        self.lock().hosts[host].disk.failures
    }

    /// Nanoseconds since the world began.
    pub(crate) fn now_ns(&self) -> u64 {
        self.lock().now
    }

    pub(super) fn read_clock(&self, task: TaskNumber, time_of_day: bool) -> u64 {
        let mut state = self.lock();
        state.now += CLOCK_READ_NS;
        let host = &state.hosts[state.tasks[task].host];
        if time_of_day {
            (EPOCH_NS + state.now).saturating_add_signed(host.time_of_day_ahead_ns)
        } else {
            state.now + host.monotonic_ahead_ns
        }
    }

    pub(super) fn draw_seed(&self) -> [u8; 32] {
        let mut state = self.lock();
        let mut seed = [0; 32];
        seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&state.random.next_u64().to_le_bytes()));
        seed
    }

    pub(super) fn wake(&self, task: TaskNumber) {
        let mut state = self.lock();
        let host = state.tasks[task].host;
        state.hosts[host].woken = true;
        let now = state.now;
        let waiting: Vec<_> =
            state.tasks.iter().enumerate().filter_map(|(number, task)| Some((number, task.listens(host)?))).collect();
        for (task, turn) in waiting {
            state.push(now, Event::Wake { task, turn });
        }
    }

    pub(super) fn add_child(self: &Arc<Self>, parent: TaskNumber) -> Child {
        let mut state = self.lock();
        let (host, now) = (state.tasks[parent].host, state.now);
        let task = state.add_task(host, "child", Some(parent), false, now);
        Child(Here { world: self.clone(), task })
    }

    pub(super) fn wait_for_children(&self, task: TaskNumber) {
        let any = || {
            let state = self.lock();
            state.tasks.iter().any(|child| child.parent == Some(task) && child.state != TaskState::Done)
        };
        while any() {
            self.wait_for(task, Duration::from_millis(1));
        }
    }

    pub(super) fn bind(&self, task: TaskNumber, address: SocketAddr) -> io::Result<(usize, SocketAddr)> {
        let mut state = self.lock();
        let host = state.tasks[task].host;
        let port = match address.port() {
            0 => {
                state.hosts[host].next_port += 1;
                state.hosts[host].next_port
            }
            port => port,
        };
        let address = Self::address(host, port);
        if state.ports.iter().any(|port| port.open && port.inside == address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        state.ports.push(Port::new(host, address));
        Ok((state.ports.len() - 1, address))
    }

    pub(super) fn close(&self, port: usize) {
        self.lock().ports[port].open = false;
    }

    pub(super) fn send(&self, port: usize, to: SocketAddr, class: u8, bytes: &[u8]) -> io::Result<()> {
        self.lock().send(port, to, class, bytes)
    }

    pub(super) fn receive(&self, task: TaskNumber, port: usize, most: usize) -> Vec<(SocketAddr, Ecn, Vec<u8>)> {
        let due = {
            let state = self.lock();
            state.events.peek().is_some_and(|Reverse((at, ..))| *at <= state.now)
        };
        // Others were due before: whoever never waits does not keep them out.
        if due {
            self.wait_for(task, Duration::ZERO);
        }
        self.lock().ports[port].take(most)
    }

    pub(super) fn wait_for_input(&self, task: TaskNumber, port: usize, time: Duration) {
        let mut state = self.lock();
        let host = state.tasks[task].host;
        let ready = std::mem::take(&mut state.hosts[host].woken) || !state.ports[port].is_empty();
        Self::wait(state, task, if ready { Duration::ZERO } else { time }, Some(port));
        let mut state = self.lock();
        state.hosts[host].woken = false;
    }

    pub(super) fn wait_for(&self, task: TaskNumber, time: Duration) {
        Self::wait(self.lock(), task, time, None);
    }

    pub(super) fn touch_disk(&self, task: TaskNumber, operation: DiskOperation, path: &Path) -> io::Result<()> {
        let delay_ns = {
            let state = self.lock();
            let faults = &state.hosts[state.tasks[task].host].disk.faults;
            faults.delay_ns + if operation == DiskOperation::Sync { faults.sync_ns } else { 0 }
        };
        if delay_ns > 0 {
            self.wait_for(task, Duration::from_nanos(delay_ns));
        }
        let mut state = self.lock();
        let host = state.tasks[task].host;
        state.note(operation_code(operation));
        state.hosts[host].disk.touch(operation, path)
    }

    /// Lets others run.
    fn wait(mut state: MutexGuard<'_, State>, task: TaskNumber, time: Duration, port: Option<usize>) {
        if std::thread::panicking() {
            return;
        }
        let turn = state.tasks[task].turns + 1;
        state.tasks[task].turns = turn;
        state.tasks[task].state = TaskState::Waiting { turn, port };
        let at = state.now.saturating_add(time.as_nanos() as u64);
        state.push(at, Event::Wake { task, turn });
        state.dispatch();
        Self::wait_for_turn(state, task);
    }

    fn wait_for_turn(mut state: MutexGuard<'_, State>, task: TaskNumber) {
        let may_run = state.tasks[task].may_run.clone();
        while state.tasks[task].state != TaskState::Running {
            if state.over {
                drop(state);
                resume_unwind(Box::new(WorldEnded));
            }
            state = may_run.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.over {
            drop(state);
            resume_unwind(Box::new(WorldEnded));
        }
    }

    fn end_task(&self, task: TaskNumber, panicked: Option<String>) {
        let mut state = self.lock();
        state.tasks[task].state = TaskState::Done;
        if let Some(panicked) = panicked {
            let name = state.tasks[task].name.clone();
            state.failure.get_or_insert(format!("{name}: {panicked}"));
        }
        if !state.over {
            state.dispatch();
        }
        if state.over {
            self.ended.notify_all();
        }
    }
}

impl Child {
    /// Runs the task's work in this thread, when it is its turn.
    pub(super) fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self.run_caught(work) {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    }

    fn run_caught<R>(self, work: impl FnOnce() -> R) -> std::thread::Result<R> {
        let Here { world, task } = self.0.clone();
        enter(self.0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            World::wait_for_turn(world.lock(), task);
            work()
        }));
        let panicked = match &result {
            Ok(_) => None,
            Err(panic) if panic.is::<WorldEnded>() => None,
            Err(panic) => Some(message(panic.as_ref())),
        };
        world.end_task(task, panicked);
        result
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "it panicked".into())
}

fn operation_code(operation: DiskOperation) -> u64 {
    match operation {
        DiskOperation::Create => 1,
        DiskOperation::Write(bytes) => 16 + bytes as u64,
        DiskOperation::Sync => 2,
        DiskOperation::Rename => 3,
        DiskOperation::SyncFolder => 4,
    }
}

impl Task {
    /// The turn of its wait, if a waker of `host` ends that.
    fn listens(&self, host: usize) -> Option<u64> {
        match self.state {
            TaskState::Waiting { turn, port: Some(_) } if self.host == host => Some(turn),
            _ => None,
        }
    }
}

impl State {
    fn push(&mut self, at: u64, event: Event) {
        self.events_pushed += 1;
        self.events.push(Reverse((at, self.events_pushed, event)));
    }

    fn note(&mut self, what: u64) {
        self.digest = (self.digest ^ what).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
    }

    fn add_task(&mut self, host: usize, name: &str, parent: Option<TaskNumber>, counts: bool, at: u64) -> TaskNumber {
        let task = self.tasks.len();
        let state = TaskState::Waiting { turn: 0, port: None };
        let (name, may_run) = (name.to_owned(), Arc::new(Condvar::new()));
        self.tasks.push(Task { name, host, parent, counts, state, turns: 0, may_run });
        self.push(at, Event::Wake { task, turn: 0 });
        task
    }

    fn send(&mut self, port: usize, to: SocketAddr, class: u8, bytes: &[u8]) -> io::Result<()> {
        let (host, inside, from) = (self.ports[port].host, self.ports[port].inside, self.ports[port].outside);
        check_destination(inside, to, bytes.len(), &self.hosts[host].wire.link)?;
        if let Some(seen) = &mut self.seen {
            seen.push((from, to, bytes.to_vec()));
        }
        let ecn = TrafficClass::from_octet(class).ecn();
        let (arrivals, ecn) = self.hosts[host].wire.pass(self.now, bytes.len(), ecn, &mut self.random);
        for at in arrivals {
            let mut bytes = bytes.to_vec();
            let corrupt = self.random.unit() < self.hosts[host].wire.link.corrupt;
            if corrupt && kind(&bytes) == Some(SEALED) {
                let bit = self.random.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            self.push(at, Event::Arrive { to, from, ecn: ecn as u8, bytes });
        }
        Ok(())
    }

    /// Takes the earliest events until one lets a task run, or all is over.
    fn dispatch(&mut self) {
        loop {
            let done = |task: &Task| !task.counts || task.state == TaskState::Done;
            if self.failure.is_some() || self.tasks.iter().all(done) {
                return self.end();
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                self.failure = Some("every task waits for another".into());
                continue;
            };
            self.now = self.now.max(at);
            if self.now > self.end {
                let left = self.tasks.iter().filter(|task| task.counts && task.state != TaskState::Done);
                let names: Vec<&str> = left.map(|task| task.name.as_str()).collect();
                self.failure = Some(format!("not done in time: {}", names.join(", ")));
                continue;
            }
            self.steps += 1;
            self.note(at);
            if let Some(task) = self.handle(event) {
                self.note(task as u64);
                self.tasks[task].state = TaskState::Running;
                self.tasks[task].may_run.notify_all();
                return;
            }
        }
    }

    /// The task that an event lets run.
    fn handle(&mut self, event: Event) -> Option<TaskNumber> {
        match event {
            Event::Wake { task, turn } => {
                let waits = matches!(self.tasks[task].state, TaskState::Waiting { turn: now, .. } if now == turn);
                waits.then_some(task)
            }
            Event::Arrive { to, from, ecn, bytes } => {
                let number = self.ports.iter().position(|port| port.open && port.outside == to)?;
                let host = self.ports[number].host;
                if self.hosts[host].wire.link.is_down(self.now) {
                    return None;
                }
                self.note(bytes.len() as u64);
                self.ports[number].put(from, TrafficClass::from_octet(ecn).ecn(), bytes);
                let waits =
                    |task: &Task| matches!(task.state, TaskState::Waiting { port: Some(port), .. } if port == number);
                self.tasks.iter().position(waits)
            }
            Event::Jump { host, monotonic_ns, time_of_day_ns } => {
                self.hosts[host].monotonic_ahead_ns += monotonic_ns;
                self.hosts[host].time_of_day_ahead_ns += time_of_day_ns;
                None
            }
            Event::Rebind { host } => {
                for port in self.ports.iter_mut().filter(|port| port.host == host) {
                    port.outside.set_port(port.outside.port() ^ 0x4000);
                }
                None
            }
        }
    }

    fn end(&mut self) {
        self.over = true;
        self.tasks.iter().for_each(|task| task.may_run.notify_all());
    }
}
