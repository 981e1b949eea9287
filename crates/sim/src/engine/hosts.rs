//! What the flows of each host share ([`pliant_proto::host`]), and when it has something to say.

use pliant_proto::host::{Host, HostAnswer, HostRequest};
use pliant_proto::packet::EndpointId;
use pliant_proto::time::Instant;

use super::schedule::{Schedule, kind};

/// The shared machines of the hosts that have any: made when a flow first asks for them.
#[derive(Default)]
pub(super) struct Hosts {
    hosts: Vec<Option<Box<Shared>>>,
}

struct Shared {
    host: Host,
    /// Time of the earliest pending event; others of the host's events are stale.
    wake_at: Instant,
}

impl Shared {
    fn schedule(&mut self, now: Instant, number: u32, schedule: &mut Schedule) {
        if let Some(at) = self.host.poll_timeout().map(|at| at.max(now))
            && at < self.wake_at
        {
            self.wake_at = at;
            schedule.push(at, kind::HOST, number);
        }
    }
}

impl Hosts {
    /// Takes a request of an endpoint whose flow takes the link in this place of host `number`; the flow's other side is at host
    /// `peer`. `machines` makes the host's.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        (number, link): (u32, usize),
        (endpoint, peer): (EndpointId, u32),
        request: HostRequest,
        machines: impl FnOnce() -> Host,
        schedule: &mut Schedule,
    ) {
        let index = number as usize;
        if self.hosts.len() <= index {
            self.hosts.resize_with(index + 1, || None);
        }
        let shared =
            self.hosts[index].get_or_insert_with(|| Box::new(Shared { host: machines(), wake_at: Instant::MAX }));
        shared.host.handle_request_on(link, endpoint, peer, request);
        shared.schedule(now, number, schedule);
    }

    /// Whether the event of host `number` is not stale; it is done with then.
    pub(super) fn wake(&mut self, now: Instant, number: u32) -> bool {
        let Some(Some(shared)) = self.hosts.get_mut(number as usize) else { return false };
        let due = shared.wake_at == now;
        if due {
            shared.wake_at = Instant::MAX;
        }
        due
    }

    /// The next answer of host `number`; without one, its next event is scheduled.
    pub(super) fn next_answer(
        &mut self,
        now: Instant,
        number: u32,
        schedule: &mut Schedule,
    ) -> Option<(EndpointId, HostAnswer)> {
        let shared = self.hosts[number as usize].as_mut().expect("a host that woke was asked before");
        let answer = shared.host.poll(now);
        if answer.is_none() {
            shared.schedule(now, number, schedule);
        }
        answer
    }
}
