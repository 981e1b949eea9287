//! What happens next: arrivals in one queue, everything else in another.
//!
//! Arrivals are most events and one per busy link; timers and starts are many and rarely due. Apart, the arrivals'
//! queue stays small.

use pliant_proto::event_queue::{Event, EventQueue};
use pliant_proto::time::Instant;

use super::arrivals::Arrivals;

/// Kinds of events, in their order among simultaneous ones.
pub(super) mod kind {
    /// The first packet on a link's wire arrives; the entity is the link.
    pub(in crate::engine) const ARRIVAL: u8 = 0;
    /// A port's queues have tokens again; the entity is the link.
    pub(in crate::engine) const WAKE_PORT: u8 = 1;
    /// A transport's deadline; the entity is the endpoint.
    pub(in crate::engine) const TIMER: u8 = 2;
    /// The next flow starts.
    pub(in crate::engine) const FLOW_START: u8 = 3;
    /// The recorder looks.
    pub(in crate::engine) const SAMPLE: u8 = 4;
    /// Transports have asked the oracle.
    pub(in crate::engine) const ORACLE_REQUESTS: u8 = 5;
    /// The oracle tells new rates.
    pub(in crate::engine) const ORACLE_UPDATE: u8 = 6;
    /// The application has another message; the entity is the flow.
    pub(in crate::engine) const MESSAGE: u8 = 7;
    /// What the flows of a host share has an answer; the entity is the host.
    pub(in crate::engine) const HOST: u8 = 8;
    /// The controller of objects has mail, sends some, or acts.
    pub(in crate::engine) const CONTROL: u8 = 9;
    /// Paths move; the entity is the number of the move.
    pub(in crate::engine) const REROUTE: u8 = 10;
    /// Hosts tell each other of their links.
    pub(in crate::engine) const HOST_REPORTS: u8 = 11;
}

/// A flow's place among simultaneous events of its kind.
pub(super) const fn order_of(flow: u64) -> u32 {
    flow as u32 & Event::ORDER
}

/// The pending events of a run.
pub(super) struct Schedule {
    arrivals: Arrivals,
    others: EventQueue,
    /// Time of the first of the others.
    others_at: Instant,
    /// The first arrival is being handled: the next one scheduled takes its place, which spares a sift.
    first_is_spent: bool,
    /// Time of the event being handled.
    now: Instant,
}

impl Schedule {
    /// An empty schedule for links `0..links`.
    pub(super) fn new(links: usize) -> Self {
        Self {
            arrivals: Arrivals::new(links),
            others: EventQueue::new(),
            others_at: Instant::MAX,
            first_is_spent: false,
            now: Instant::ZERO,
        }
    }

    /// The link's next packet arrives at `at`.
    #[inline(always)]
    pub(super) fn arrival(&mut self, at: Instant, link: u32) {
        let Some(key) = self.arrivals.key(self.now, at, link) else {
            return self.push_other(Event { at, kind: kind::ARRIVAL, order: 0, entity: link });
        };
        if self.first_is_spent {
            self.first_is_spent = false;
            self.arrivals.replace_first(key);
        } else {
            self.arrivals.push(key);
        }
    }

    /// Any other event that is no flow's.
    #[inline]
    pub(super) fn push(&mut self, at: Instant, kind: u8, entity: u32) {
        debug_assert_ne!(kind, kind::ARRIVAL);
        self.push_other(Event { at, kind, order: 0, entity });
    }

    /// An event of a flow. Simultaneous ones come by the flows' numbers, not by their slots: which slot a flow has depends on
    /// when others ended.
    #[inline]
    pub(super) fn push_of_flow(&mut self, at: Instant, kind: u8, flow: u64, entity: u32) {
        self.push_other(Event { at, kind, order: order_of(flow), entity });
    }

    fn push_other(&mut self, event: Event) {
        self.others_at = self.others_at.min(event.at);
        self.others.push(event);
    }

    /// The next event not after `end`. It stays in place until [`Self::finish`].
    #[inline]
    pub(super) fn begin_next(&mut self, end: Instant) -> Option<Event> {
        match self.arrivals.peek() {
            Some((at, entity)) if at < self.others_at && at <= end => {
                self.first_is_spent = true;
                self.now = at;
                Some(Event { at, kind: kind::ARRIVAL, order: 0, entity })
            }
            arrival => self.begin_next_of_both(arrival, end),
        }
    }

    /// Compares in full, for arrivals that are not plainly first.
    #[inline(never)]
    fn begin_next_of_both(&mut self, arrival: Option<(Instant, u32)>, end: Instant) -> Option<Event> {
        let arrival = arrival.map(|(at, entity)| Event { at, kind: kind::ARRIVAL, order: 0, entity });
        let other = self.others.peek();
        let arrival_first = match (&arrival, &other) {
            (Some(arrival), Some(other)) => arrival.precedes(other),
            (arrival, _) => arrival.is_some(),
        };
        let event = if arrival_first { arrival } else { other }.filter(|event| event.at <= end)?;
        if arrival_first {
            self.first_is_spent = true;
        } else {
            self.others.remove_first();
            self.others_at = self.others.peek().map_or(Instant::MAX, |event| event.at);
        }
        self.now = event.at;
        Some(event)
    }

    /// The event of [`Self::begin_next`] has been handled.
    #[inline]
    pub(super) fn finish(&mut self) {
        if self.first_is_spent {
            self.first_is_spent = false;
            self.arrivals.remove_first();
        }
    }

    /// When the first event is due; [`Instant::MAX`] if nothing is pending.
    pub(super) fn next_at(&self) -> Instant {
        self.arrivals.peek().map_or(self.others_at, |(at, _)| at.min(self.others_at))
    }

    /// Whether nothing is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.arrivals.is_empty() && self.others.is_empty()
    }
}
