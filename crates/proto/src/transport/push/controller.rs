//! The controller: which source pushes what to which receiver, and the weight of each flow.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::message::{Order, TaskId, ToController, ToReceiver, ToSource};
use super::weights::{self, Link};
use crate::time::{Instant, Span};

/// A source loses its slot to another after this many reports in a row that call it silent.
const SILENT_REPORTS: u8 = 3;
/// Weights that differ by less count as equal.
const SAME_WEIGHT: f64 = 1e-9;

/// Number of a source, any unique one.
pub type SourceId = u64;

/// Settings of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControllerConfig {
    /// How long a task is pushed without a report. Default 3 s.
    pub pause_after: Span,
    /// How often orders that were not accepted are sent again. Default 200 ms.
    pub retry: Span,
    /// How often accepted orders are sent again. Default 1 s.
    pub refresh: Span,
    /// Least time between two assignments of weights caused only by reports. Default 5 ms.
    pub reweigh: Span,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            pause_after: Span::from_secs(3),
            retry: Span::from_ms(200),
            refresh: Span::from_secs(1),
            reweigh: Span::from_ms(5),
        }
    }
}

/// How the weights of a task's flows are chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Weighting {
    /// Each has this weight, at least [`weights::LOW_WEIGHT`].
    Fixed(f64),
    /// Algorithm 1: the smallest remaining task first.
    Remaining {
        /// Rank, which goes before the size: the greatest first. In the paper all ranks are equal.
        priority: u8,
    },
}

/// A source that has a task's object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// The source.
    pub source: SourceId,
    /// Links on its path to the receiver.
    pub path: Vec<Link>,
}

/// A message of the controller.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outgoing {
    /// To a task's receiver.
    Receiver(TaskId, ToReceiver),
    /// To a source, about a task.
    Source(TaskId, SourceId, ToSource),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Known, but not fetched yet.
    Known,
    Active,
    /// Its receiver has not reported for a long time.
    Paused,
}

/// An active source.
#[derive(Debug)]
struct Assigned {
    holding: Holding,
    /// The last order.
    latest: ToSource,
    accepted: bool,
    sent_at: Instant,
    weight: f64,
    /// Reports in a row that called it silent.
    silent: u8,
    /// It keeps its slot and sends nothing for now.
    rests: bool,
}

#[derive(Debug)]
struct Task {
    /// Tasks of one delivery have their weights as one task.
    delivery: u64,
    weighting: Weighting,
    phase: Phase,
    slots: Vec<Option<Assigned>>,
    spares: VecDeque<Holding>,
    remaining: u64,
    decoded: u32,
    next: u32,
    heard_at: Instant,
    orders: u32,
}

/// Manages tasks. It is a machine without its own clock.
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    tasks: BTreeMap<TaskId, Task>,
    /// Large weight (theta⁺) of each link.
    high: BTreeMap<Link, f64>,
    outbox: VecDeque<Outgoing>,
    next_tick: Option<Instant>,
    weighed_at: Instant,
}

impl Controller {
    /// A controller without tasks.
    pub fn new(config: ControllerConfig) -> Self {
        assert!(config.retry > Span::ZERO, "time passes between two tries");
        Self {
            config,
            tasks: BTreeMap::new(),
            high: BTreeMap::new(),
            outbox: VecDeque::new(),
            next_tick: None,
            weighed_at: Instant::ZERO,
        }
    }

    /// Sets theta⁺ of a link, [`weights::high_weight`]. The least value counts.
    pub fn set_high_weight(&mut self, link: Link, weight: f64) {
        let high = self.high.entry(link).or_insert(weight);
        *high = high.min(weight);
    }

    /// Adds a task: an object of `symbols` symbols, pushed by at most `slots` sources at once. Tasks with the same
    /// `delivery` have their weights as one.
    pub fn add_task(&mut self, task: TaskId, delivery: u64, symbols: u64, slots: u8, weighting: Weighting) {
        assert!(slots > 0, "somebody pushes");
        let task_state = Task {
            delivery,
            weighting,
            phase: Phase::Known,
            slots: (0..slots).map(|_| None).collect(),
            spares: VecDeque::new(),
            remaining: symbols,
            decoded: 0,
            next: 0,
            heard_at: Instant::ZERO,
            orders: 0,
        };
        let known = self.tasks.insert(task, task_state);
        assert!(known.is_none(), "task {task} is new");
    }

    /// Adds a source that has a task's object, from the start or from now on.
    pub fn add_source(&mut self, now: Instant, task: TaskId, holding: Holding) {
        let Some(state) = self.tasks.get_mut(&task) else { return };
        let at_work = state.slots.iter().flatten().any(|assigned| assigned.holding.source == holding.source);
        if at_work || state.spares.iter().any(|spare| spare.source == holding.source) {
            return;
        }
        state.spares.push_back(holding);
        if state.phase != Phase::Known {
            self.fill(now, task);
            self.weigh(now);
        }
    }

    /// Removes a source from all tasks.
    pub fn remove_source(&mut self, now: Instant, source: SourceId) {
        let mut tasks = Vec::new();
        for (&task, state) in &mut self.tasks {
            state.spares.retain(|spare| spare.source != source);
            for slot in &mut state.slots {
                if slot.as_ref().is_some_and(|assigned| assigned.holding.source == source) {
                    *slot = None;
                    tasks.push(task);
                }
            }
        }
        for task in tasks {
            self.fill(now, task);
        }
        self.weigh(now);
    }

    /// An active source of a task rests from now on, or works again. It keeps its slot.
    pub fn set_resting(&mut self, now: Instant, task: TaskId, source: SourceId, rests: bool) {
        let Some(state) = self.tasks.get_mut(&task) else { return };
        let is_source = |assigned: &Assigned| assigned.holding.source == source;
        let Some(slot) = state.slots.iter().position(|slot| slot.as_ref().is_some_and(is_source)) else { return };
        let Some(assigned) = &mut state.slots[slot] else { return };
        if core::mem::replace(&mut assigned.rests, rests) == rests {
            return;
        }
        assigned.silent = 0;
        if rests {
            self.order(now, task, slot, Order::Pause);
        } else if state.phase == Phase::Active {
            self.push(now, task, slot);
        }
    }

    /// Takes a message of a receiver or source. A message about an unknown task is answered if an answer ends it.
    pub fn handle_message(&mut self, now: Instant, task: TaskId, message: ToController) {
        if message == ToController::Fin {
            self.close(now, task);
            self.outbox.push_back(Outgoing::Receiver(task, ToReceiver::FinAck));
            return;
        }
        let Some(state) = self.tasks.get_mut(&task) else { return };
        match message {
            ToController::Fetch => {
                self.outbox.push_back(Outgoing::Receiver(task, ToReceiver::FetchAck));
                if state.phase == Phase::Known {
                    (state.phase, state.heard_at) = (Phase::Active, now);
                    self.next_tick.get_or_insert(now.after(self.config.retry));
                    self.fill(now, task);
                    self.weigh(now);
                }
            }
            ToController::Report { decoded, remaining, heard, next } => {
                self.handle_report(now, task, (decoded, remaining, next), heard);
            }
            ToController::Accepted { slot, number } => {
                if let Some(Some(assigned)) = state.slots.get_mut(usize::from(slot)) {
                    assigned.accepted |= assigned.latest.number == number;
                }
            }
            ToController::Fin => {}
        }
    }

    fn handle_report(&mut self, now: Instant, task: TaskId, (decoded, remaining, next): (u32, u64, u32), heard: u32) {
        let Some(state) = self.tasks.get_mut(&task) else { return };
        if state.phase == Phase::Known {
            // Ahead of the fetch: what the receiver has of an earlier one.
            (state.decoded, state.remaining, state.next) = (decoded, state.remaining.min(remaining), next);
            return;
        }
        state.heard_at = now;
        // A report that was overtaken tells of less.
        if decoded >= state.decoded {
            state.next = if decoded > state.decoded { next } else { state.next.max(next) };
            state.decoded = decoded;
        }
        state.remaining = state.remaining.min(remaining);
        for (slot, assigned) in state.slots.iter_mut().enumerate() {
            if let Some(assigned) = assigned {
                let heard = assigned.rests || heard & 1 << slot != 0;
                assigned.silent = if heard { 0 } else { assigned.silent.saturating_add(1) };
            }
        }
        if state.phase == Phase::Paused {
            state.phase = Phase::Active;
            for slot in 0..state.slots.len() {
                self.push(now, task, slot);
            }
            self.weigh(now);
        }
        self.fill(now, task);
        if now >= self.weighed_at.after(self.config.reweigh) {
            self.weigh(now);
        }
    }

    /// Gives empty slots, and those of silent sources, to waiting sources. Without one, it sends the silent source its
    /// order again.
    fn fill(&mut self, now: Instant, task: TaskId) {
        let Some(state) = self.tasks.get_mut(&task) else { return };
        let mut silent = Vec::new();
        for slot in 0..state.slots.len() {
            let vacant = state.slots[slot].as_ref().is_none_or(|assigned| assigned.silent >= SILENT_REPORTS);
            if !vacant || state.phase != Phase::Active {
                continue;
            }
            let Some(holding) = state.spares.pop_front() else {
                // Nobody can take its place: if it comes back it may know nothing of its task any more.
                if state.slots[slot].is_some() {
                    silent.push(slot);
                }
                continue;
            };
            let weight = match state.weighting {
                Weighting::Fixed(weight) => weight,
                Weighting::Remaining { .. } => weights::LOW_WEIGHT,
            };
            let latest = ToSource { number: 0, order: Order::Stop };
            let assigned = Assigned { holding, latest, accepted: true, sent_at: now, weight, silent: 0, rests: false };
            if let Some(former) = state.slots[slot].replace(assigned) {
                // It may come back.
                let pause = ToSource { number: state.orders, order: Order::Pause };
                state.orders += 1;
                self.outbox.push_back(Outgoing::Source(task, former.holding.source, pause));
                state.spares.push_back(former.holding);
            }
        }
        let is_new =
            |slot: &usize| state.slots[*slot].as_ref().is_some_and(|assigned| assigned.latest.order == Order::Stop);
        let unordered: Vec<usize> = (0..state.slots.len()).filter(is_new).chain(silent).collect();
        for slot in unordered {
            self.push(now, task, slot);
        }
    }

    /// Orders the source in a slot to push from the receiver's position on.
    fn push(&mut self, now: Instant, task: TaskId, slot: usize) {
        let Some(state) = self.tasks.get_mut(&task) else { return };
        let at_work = state.slots.iter().flatten().filter(|assigned| !assigned.rests).count();
        let Some(Some(assigned)) = state.slots.get_mut(slot) else { return };
        assigned.silent = 0;
        if assigned.rests {
            return;
        }
        let weight = assigned.weight;
        let order = Order::Push {
            slot: slot as u8,
            slots: state.slots.len() as u8,
            sources: at_work as u8,
            block: state.decoded,
            start: state.next,
            weight,
        };
        self.order(now, task, slot, order);
    }

    fn order(&mut self, now: Instant, task: TaskId, slot: usize, order: Order) {
        let Some(state) = self.tasks.get_mut(&task) else { return };
        let Some(Some(assigned)) = state.slots.get_mut(slot) else { return };
        assigned.latest = ToSource { number: state.orders, order };
        (assigned.accepted, assigned.sent_at) = (false, now);
        state.orders += 1;
        self.outbox.push_back(Outgoing::Source(task, assigned.holding.source, assigned.latest));
    }

    fn close(&mut self, now: Instant, task: TaskId) {
        let Some(state) = self.tasks.remove(&task) else { return };
        let at_work = state.slots.into_iter().flatten().map(|assigned| assigned.holding);
        for Holding { source, .. } in at_work.chain(state.spares) {
            let stop = ToSource { number: u32::MAX, order: Order::Stop };
            self.outbox.push_back(Outgoing::Source(task, source, stop));
        }
        if self.tasks.is_empty() {
            self.next_tick = None;
        }
        self.weigh(now);
    }

    /// Assigns the weights (Algorithm 1) and sends those that changed.
    fn weigh(&mut self, now: Instant) {
        self.weighed_at = now;
        let mut deliveries: BTreeMap<u64, weights::Task> = BTreeMap::new();
        let mut flows: BTreeMap<u64, Vec<(TaskId, usize)>> = BTreeMap::new();
        for (&id, task) in &self.tasks {
            let Weighting::Remaining { priority } = task.weighting else { continue };
            if task.phase != Phase::Active {
                continue;
            }
            let whole = weights::Task { id: task.delivery, priority, remaining: 0, paths: Vec::new() };
            let whole = deliveries.entry(task.delivery).or_insert(whole);
            whole.remaining += task.remaining;
            for (slot, assigned) in task.slots.iter().enumerate() {
                if let Some(assigned) = assigned {
                    whole.paths.push(assigned.holding.path.clone());
                    flows.entry(task.delivery).or_default().push((id, slot));
                }
            }
        }
        let tasks: Vec<weights::Task> = deliveries.into_values().collect();
        let high = |link: Link| self.high.get(&link).copied().unwrap_or(1.0).max(weights::LOW_WEIGHT);
        let assigned = weights::assign(&tasks, high);
        for (task, weights) in tasks.iter().zip(assigned) {
            let flows = flows.get(&task.id).map_or(&[][..], Vec::as_slice);
            for (&(id, slot), weight) in flows.iter().zip(weights) {
                self.set_weight(now, id, slot, weight);
            }
        }
    }

    fn set_weight(&mut self, now: Instant, task: TaskId, slot: usize, weight: f64) {
        let Some(state) = self.tasks.get_mut(&task) else { return };
        let Some(Some(assigned)) = state.slots.get_mut(slot) else { return };
        if (assigned.weight - weight).abs() <= SAME_WEIGHT {
            return;
        }
        assigned.weight = weight;
        if assigned.rests {
            return;
        }
        // An order to push that is under way must not be overtaken by one that only weighs.
        match assigned.latest.order {
            Order::Push { slot: own, slots, sources, block, start, .. } if !assigned.accepted => {
                self.order(now, task, slot, Order::Push { slot: own, slots, sources, block, start, weight });
            }
            _ => self.order(now, task, slot, Order::Theta { weight }),
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_tick
    }

    /// Repeats orders that were not accepted, refreshes accepted ones, and pauses tasks whose receivers are silent.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_tick.is_none_or(|at| at > now) {
            return;
        }
        self.next_tick = Some(now.after(self.config.retry));
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for task in ids {
            let Some(state) = self.tasks.get_mut(&task) else { continue };
            if state.phase == Phase::Active && state.heard_at.after(self.config.pause_after) <= now {
                state.phase = Phase::Paused;
                for slot in 0..state.slots.len() {
                    self.order(now, task, slot, Order::Pause);
                }
                self.weigh(now);
                continue;
            }
            for assigned in state.slots.iter_mut().flatten() {
                let wait = if assigned.accepted { self.config.refresh } else { self.config.retry };
                if assigned.sent_at.after(wait) <= now {
                    assigned.sent_at = now;
                    self.outbox.push_back(Outgoing::Source(task, assigned.holding.source, assigned.latest));
                }
            }
        }
    }

    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<Outgoing> {
        self.outbox.pop_front()
    }
}
