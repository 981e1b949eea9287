//! Objects under way: their controller, and what it and the flows' ends tell each other.
//!
//! The controller is no host. Its messages take a delay of their own, are lost only where a host is cut off, and take no
//! room on links.

use std::collections::BTreeMap;

use pliant_proto::switch::marker::Level;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::push::{
    Controller, ControllerConfig, Holding, Outgoing, TaskId, ToController, Weighting, weights,
};
use pliant_proto::units::Rate;

/// A flow that pushes an object, or a part of one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PushFlow {
    /// The task: flows of one task go to one receiver.
    pub task: TaskId,
    /// Tasks of one delivery are weighed as one.
    pub delivery: u64,
    /// Source symbols of the task.
    pub symbols: u64,
    /// Most sources at once.
    pub slots: u8,
    /// How its flows are weighed.
    pub weighting: Weighting,
    /// Large weight of the links on its path.
    pub high: HighWeight,
    /// Time that a message to or from the controller takes.
    pub delay: Span,
}

/// The large weight (theta⁺) of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum HighWeight {
    /// This.
    Fixed(f64),
    /// (C·d + K)/2 of each link (PPUSH, equation 20).
    OfLink {
        /// Round-trip time without queues (d).
        rtt: Span,
        /// Bytes of a full packet on the wire.
        packet_bytes: u16,
        /// Where queues mark (K); `None` where they do not.
        threshold: Option<Level>,
    },
}

impl HighWeight {
    fn of(self, rate: Rate) -> f64 {
        match self {
            Self::Fixed(weight) => weight,
            Self::OfLink { rtt, packet_bytes, threshold } => {
                let full = f64::from(packet_bytes);
                let packets = rate.bits_per_sec() as f64 / (8.0 * full);
                let threshold = threshold.map_or(0.0, |level| level.bytes(packet_bytes.into(), rate) as f64 / full);
                weights::high_weight(packets * rtt.as_secs_f64() + threshold)
            }
        }
    }
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub enum Mail {
    /// From an end of one of the task's flows.
    ToController(TaskId, ToController),
    /// From the controller.
    Out(Outgoing),
}

struct Task {
    /// The flows, by source.
    flows: Vec<u32>,
    delay: Span,
}

/// The controller and its mail. Drivers number flows as they like.
pub struct Objects {
    controller: Controller,
    tasks: BTreeMap<TaskId, Task>,
    mail: BTreeMap<(Instant, u64), Mail>,
    sent: u64,
    /// Time of the earliest pending event of the controller's own.
    armed: Instant,
    /// Flows whose receiver has something to say to their source because another flow's packet made it.
    pub(super) woken: Vec<(u32, TaskId)>,
}

impl Default for Objects {
    fn default() -> Self {
        Self {
            controller: Controller::new(ControllerConfig::default()),
            tasks: BTreeMap::new(),
            mail: BTreeMap::new(),
            sent: 0,
            armed: Instant::MAX,
            woken: Vec::new(),
        }
    }
}

impl Objects {
    /// A flow starts, over `links` with their rates.
    pub fn add(&mut self, now: Instant, flow: u32, push: PushFlow, links: impl Iterator<Item = (u32, Rate)>) {
        let task = self.tasks.entry(push.task).or_insert_with(|| {
            self.controller.add_task(push.task, push.delivery, push.symbols, push.slots, push.weighting);
            Task { flows: Vec::new(), delay: push.delay }
        });
        let source = task.flows.len() as u64;
        task.flows.push(flow);
        let mut path = Vec::new();
        for (link, rate) in links {
            self.controller.set_high_weight(link, push.high.of(rate));
            path.push(link);
        }
        self.controller.add_source(now, push.task, Holding { source, path });
    }

    /// An end of a flow has a message for the controller; tells when it arrives.
    pub fn post(&mut self, now: Instant, task: TaskId, message: ToController) -> Instant {
        self.send(now, task, Mail::ToController(task, message))
    }

    fn send(&mut self, now: Instant, task: TaskId, mail: Mail) -> Instant {
        let at = now.after(self.tasks.get(&task).map_or(Span::ZERO, |task| task.delay));
        self.mail.insert((at, self.sent), mail);
        self.sent += 1;
        at
    }

    /// Messages sent so far, in both directions.
    pub fn messages(&self) -> u64 {
        self.sent
    }

    /// The next message that has arrived by `now`.
    pub fn take_mail(&mut self, now: Instant) -> Option<Mail> {
        let first = self.mail.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    /// A message arrived at the controller.
    pub fn deliver(&mut self, now: Instant, task: TaskId, message: ToController) {
        self.controller.handle_message(now, task, message);
    }

    /// A task's flow by its source, which counts from 0.
    pub fn flow_of(&self, task: TaskId, source: u64) -> Option<u32> {
        self.tasks.get(&task)?.flows.get(source as usize).copied()
    }

    /// Forgets a task whose controller has closed it.
    pub fn forget(&mut self, task: TaskId) {
        self.tasks.remove(&task);
    }

    /// The receiver of a task has the whole object: its other flows are told.
    #[cold]
    pub(super) fn wake_others(&mut self, task: TaskId, flow: u32) {
        if let Some(found) = self.tasks.get(&task) {
            self.woken.extend(found.flows.iter().filter(|other| **other != flow).map(|&other| (other, task)));
        }
    }

    /// Lets the controller act, takes what it has to say, and gives the times at which something happens next.
    pub fn advance(&mut self, now: Instant, mut schedule: impl FnMut(Instant)) {
        if self.armed <= now {
            self.armed = Instant::MAX;
        }
        self.controller.handle_timeout(now);
        while let Some(out) = self.controller.poll_message() {
            let (Outgoing::Receiver(task, _) | Outgoing::Source(task, ..)) = out;
            schedule(self.send(now, task, Mail::Out(out)));
        }
        if let Some(at) = self.controller.poll_timeout().filter(|at| *at < self.armed) {
            self.armed = at;
            schedule(at);
        }
    }
}
