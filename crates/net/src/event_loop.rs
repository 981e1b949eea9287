//! The loop that both drivers here have: [`driver`](crate::driver), of connections, and [`host`](crate::host), of the
//! flows of a testbed's host.
//!
//! It is the simulator's with a real clock: what arrived is handled, deadlines that have come are handled, every
//! transport that was touched is drained, and the loop sleeps until there is more.
//!
//! Deadlines of pacers are handled as of the time when they were due, before anything else: a rate stays what the
//! transport wants however late the process wakes up, and only the packets themselves are late. All others are handled
//! as of now, after what has arrived: a timeout must not strike while the acknowledgement waits in the socket.
//!
//! What is behind [`EventHandler`] differs for a reason:
//! - Whom a packet is for. The driver's endpoint opens and checks it; a testbed has flows whose numbers both sides know,
//!   and no handshake, which the simulator would not have.
//! - When it is answered. The driver has all that waits answered at once, by one acknowledgement; a host answers each
//!   packet by itself as the simulator does, or windows would grow otherwise than there.
//! - The socket. The driver's ([`socket`](crate::socket)) knows IPv6 and every kernel, and sends runs to one peer. A host
//!   sends to many peers in many classes by one call, and needs the whole octet of what arrives (`mmsg`).

use std::io;

use pliant_proto::event_queue::{Event, EventQueue};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::{Deadline, Timer, Transport};

/// System calls for what has arrived before anything else is done.
const RECEIVE_CALLS: usize = 4;
/// A pacer that is later than this is not made up for: what it would send by now would be a burst.
pub(crate) const MAX_ARREARS: Span = Span::from_ms(2);

/// Which deadlines are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Pacers,
    All,
}

/// A transport and the events that its driver keeps for it.
pub(crate) struct Timed<T> {
    pub(crate) transport: T,
    /// Times of its earliest pending event and of one behind it; others of its events are stale.
    armed: [Instant; 2],
    /// When it was last told or asked something: its time never runs backwards.
    told: Instant,
    /// As of when its last deadline was handled.
    handled: Instant,
}

impl<T> Timed<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, armed: [Instant::MAX; 2], told: Instant::ZERO, handled: Instant::ZERO }
    }

    /// When it may be told something at the earliest.
    pub(crate) fn told(&self) -> Instant {
        self.told
    }

    /// The transport, to be told or asked something now.
    #[inline]
    pub(crate) fn tell(&mut self, now: Instant) -> &mut T {
        self.told = now;
        &mut self.transport
    }
}

/// When deadlines of a driver's transports are to be looked at.
#[derive(Default)]
pub(crate) struct Schedule {
    events: EventQueue,
    /// Deadlines that have come and are put off.
    later: Vec<Event>,
}

impl Schedule {
    /// Sees to it that transport `number` is looked at by its deadline. A later one than the pending event is looked at
    /// when that comes.
    #[inline]
    pub(crate) fn arm<T>(&mut self, flow: &mut Timed<T>, number: u32, deadline: Option<Deadline>, now: Instant) {
        if let Some(at) = deadline.map(|deadline| deadline.at.max(now))
            && at < flow.armed[0]
        {
            flow.armed = [at, flow.armed[0]];
            self.events.push(Event { at, kind: 0, order: 0, entity: number });
        }
    }

    /// When the next deadline may come.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.events.peek().map(|event| event.at)
    }

    fn take_due(&mut self, now: Instant) -> Option<Event> {
        let event = self.events.peek().filter(|event| event.at <= now)?;
        self.events.remove_first();
        Some(event)
    }
}

/// What the loop calls: the clock, the socket and the transports of a driver. Every transport has a number.
pub(crate) trait EventHandler {
    type Transport: Transport;

    /// The time.
    fn now(&mut self) -> Instant;
    /// When its transports are to be looked at.
    fn schedule(&mut self) -> &mut Schedule;
    /// The same beside a transport, if that is still there.
    fn parts(&mut self, number: u32) -> (&mut Schedule, Option<&mut Timed<Self::Transport>>);
    /// Takes all that a transport has to say at `at`, and arms its deadline.
    fn drain(&mut self, number: u32, at: Instant);
    /// Handles what one system call finds as of `now`, which [`now`](Self::now) has just given.
    fn receive(&mut self, now: Instant) -> io::Result<ReceiveOutcome>;
    /// Takes what is to be said to what has arrived, as of then, and to the application's commands. Whether there was any.
    fn answer(&mut self) -> io::Result<bool>;
    /// Sends what was taken.
    fn flush(&mut self) -> io::Result<()>;
}

/// What a call of [`EventHandler::receive`] found.
#[derive(Clone, Copy)]
pub(crate) struct ReceiveOutcome {
    pub(crate) any: bool,
    /// More may be waiting.
    pub(crate) full: bool,
}

/// Handles what has arrived and what is due, and sends what follows. Whether there was anything; if not, the caller may
/// sleep until its schedule's next deadline.
pub(crate) fn run_once<C: EventHandler>(handler: &mut C) -> io::Result<bool> {
    let (mut paced, mut received) = (false, false);
    for _ in 0..RECEIVE_CALLS {
        // Of one time: what a transport is told of arrivals must not make it lose what it might have sent by then.
        let now = handler.now();
        paced |= handle_deadlines(handler, Which::Pacers, now);
        let taken = handler.receive(now)?;
        received |= taken.any;
        if !taken.full {
            break;
        }
    }
    let answered = handler.answer()?;
    let now = handler.now();
    let due = handle_deadlines(handler, Which::All, now);
    handler.flush()?;
    Ok(paced || received || answered || due)
}

/// Handles deadlines that have come. Whether there were any.
fn handle_deadlines<C: EventHandler>(handler: &mut C, which: Which, now: Instant) -> bool {
    let mut any = false;
    while let Some(event) = handler.schedule().take_due(now) {
        let (schedule, Some(flow)) = handler.parts(event.entity) else { continue };
        if flow.armed[0] != event.at {
            // The earlier one was put off.
            if flow.armed[1] == event.at {
                schedule.later.push(event);
            }
            continue;
        }
        let deadline = flow.transport.poll_timeout();
        let Some(due) = deadline.filter(|deadline| deadline.at <= now) else {
            flow.armed = [flow.armed[1], Instant::MAX];
            schedule.arm(flow, event.entity, deadline, now);
            continue;
        };
        let in_time = due.at.max(flow.told).max(now.before(MAX_ARREARS));
        let at = match (due.why, which) {
            // What wants the same moment again waits for the others.
            (Timer::Pace, _) if in_time > flow.handled => in_time,
            (_, Which::All) if now > flow.handled => now,
            _ => {
                schedule.later.push(event);
                continue;
            }
        };
        any = true;
        flow.armed = [flow.armed[1], Instant::MAX];
        flow.handled = at;
        flow.tell(at).handle_timeout(at);
        handler.drain(event.entity, at);
    }
    let Schedule { events, later } = handler.schedule();
    later.drain(..).for_each(|event| events.push(event));
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use pliant_proto::packet::{Packet, SackBlocks};
    use pliant_proto::transport::{self, Command, Outlet, Statistics};
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// Wants deadlines in turn, and notes when it was told of each.
    struct Script {
        deadlines: Vec<Deadline>,
        handled: Vec<Instant>,
    }

    impl Transport for Script {
        type Request = Infallible;
        type Answer = Infallible;

        fn handle_packet(&mut self, _now: Instant, _packet: &Packet, _sack: &SackBlocks) {}

        fn handle_command(&mut self, _now: Instant, _command: Command) {}

        fn handle_timeout(&mut self, now: Instant) {
            self.handled.push(now);
            if self.deadlines.last().is_some_and(|deadline| deadline.at <= now) {
                self.deadlines.pop();
            }
        }

        fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
            None
        }

        fn sack_blocks(&self) -> &SackBlocks {
            &SackBlocks::EMPTY
        }

        fn poll_event(&mut self) -> Option<transport::Event> {
            None
        }

        fn poll_timeout(&self) -> Option<Deadline> {
            self.deadlines.last().copied()
        }

        fn statistics(&self) -> Statistics {
            Statistics::default()
        }
    }

    struct Alone {
        now: Instant,
        schedule: Schedule,
        flows: Vec<Timed<Script>>,
    }

    struct Armed(Option<Deadline>);

    impl Outlet<Infallible> for Armed {
        fn transmit(&mut self, _packet: Packet, _sack: &SackBlocks) {}

        fn event(&mut self, _event: transport::Event) {}

        fn arm(&mut self, deadline: Option<Deadline>) {
            self.0 = deadline;
        }
    }

    impl EventHandler for Alone {
        type Transport = Script;

        fn now(&mut self) -> Instant {
            self.now
        }

        fn schedule(&mut self) -> &mut Schedule {
            &mut self.schedule
        }

        fn parts(&mut self, number: u32) -> (&mut Schedule, Option<&mut Timed<Script>>) {
            (&mut self.schedule, self.flows.get_mut(number as usize))
        }

        fn drain(&mut self, number: u32, at: Instant) {
            let flow = &mut self.flows[number as usize];
            let mut armed = Armed(None);
            transport::drain(flow.tell(at), at, &mut armed);
            self.schedule.arm(flow, number, armed.0, at);
        }

        fn receive(&mut self, _now: Instant) -> io::Result<ReceiveOutcome> {
            Ok(ReceiveOutcome { any: false, full: false })
        }

        fn answer(&mut self) -> io::Result<bool> {
            Ok(false)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO.after(Span::from_us(us))
    }

    proptest! {
        /// Whatever transports want, in whatever order, and however late the loop wakes: a loop that says it may sleep has
        /// left no deadline that has come, and its schedule knows of the next; no transport's time runs backwards, none is
        /// told before its time, and pacers that are not too late are told as of theirs.
        #[test]
        fn every_deadline_is_handled(
            wanted in prop::collection::vec(prop::collection::vec((0u64..5000, any::<bool>()), 0..20), 1..4),
            naps in prop::collection::vec((1u64..3000, prop::option::of((0usize..4, 0u64..5000, any::<bool>()))), 1..20),
        ) {
            let deadline = |&(us, paces): &(u64, bool)| Deadline {
                at: at(us),
                why: if paces { Timer::Pace } else { Timer::Retransmit },
            };
            let script = |wanted: &Vec<_>| Script { deadlines: wanted.iter().map(deadline).collect(), handled: vec![] };
            let flows = wanted.iter().map(|wanted| Timed::new(script(wanted))).collect::<Vec<_>>();
            let mut alone = Alone { now: at(0), schedule: Schedule::default(), flows };
            (0..alone.flows.len() as u32).for_each(|number| alone.drain(number, at(0)));
            for (nap, news) in naps {
                // What is told to a transport may make it want something sooner, or later.
                if let Some((number, us, paces)) = news && number < alone.flows.len() {
                    alone.flows[number].transport.deadlines.push(deadline(&(us, paces)));
                    alone.drain(number as u32, alone.now);
                }
                alone.now = alone.now.after(Span::from_us(nap));
                let mut iterations = 0;
                while run_once(&mut alone).unwrap() {
                    iterations += 1;
                    prop_assert!(iterations < 1000, "the loop does not come to rest");
                    // Time goes on, or what wants the same moment again would wait for ever.
                    alone.now = alone.now.after(Span::from_ns(1));
                }
                for flow in &alone.flows {
                    if let Some(next) = flow.transport.poll_timeout() {
                        prop_assert!(next.at > alone.now, "a deadline was left");
                        prop_assert!(alone.schedule.next_at().is_some_and(|at| at <= next.at), "nobody would wake");
                    }
                    prop_assert!(flow.transport.handled.is_sorted());
                }
            }
        }

        /// A pacer's deadlines are handled as of when they were due, all those of a sleep in one iteration.
        #[test]
        fn pacers_are_told_as_of_their_time(gaps in prop::collection::vec(1u64..500, 1..30)) {
            let mut due = 1;
            let times: Vec<u64> = gaps.iter().map(|gap| { due += gap; due }).collect();
            let deadlines = times.iter().rev().map(|us| Deadline { at: at(*us), why: Timer::Pace }).collect();
            let flow = Timed::new(Script { deadlines, handled: Vec::new() });
            let mut alone = Alone { now: at(0), schedule: Schedule::default(), flows: vec![flow] };
            alone.drain(0, at(0));
            alone.now = at(due);
            run_once(&mut alone).unwrap();
            let told = &alone.flows[0].transport.handled;
            let earliest = alone.now.before(MAX_ARREARS);
            // Those that are too late want one moment: one of them is told as of it, the rest as of now.
            let in_time: Vec<Instant> = times.iter().map(|us| at(*us)).filter(|at| *at > earliest).collect();
            if in_time.len() == times.len() {
                prop_assert_eq!(told, &in_time);
            }
            prop_assert!(told.iter().all(|at| *at >= earliest && *at <= alone.now));
        }
    }
}
