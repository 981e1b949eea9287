//! The controller of objects: it runs in the process that started the testbed, and its mail takes the pipes to the hosts'
//! processes. As in the simulator it is no host, its messages take the time that the scenario says and no room on links.

use std::collections::BTreeMap;
use std::iter::{Enumerate, Peekable};

use pliant_proto::time::Instant;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::push::{Order, Outgoing, TaskId, ToController, ToReceiver, ToSource};
use pliant_sim::engine::{Mail, Objects, Opened, flow_path};
use pliant_sim::run::Opener;
use pliant_sim::scenario::{Carrier, Resolved};
use pliant_sim::topology::LinkId;
use pliant_sim::traffic::{FlowSpec, Traffic};
use serde::{Deserialize, Serialize};

/// What a line with a [`Letter`] or a [`Reply`] begins with.
pub(crate) const MAIL: &str = "mail ";

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToController")]
enum ToControllerText {
    Fetch,
    Report { decoded: u32, remaining: u64, heard: u32, next: u32 },
    Fin,
    Accepted { slot: u8, number: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToReceiver")]
enum ToReceiverText {
    FetchAck,
    FinAck,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Order")]
enum OrderText {
    Push { slot: u8, slots: u8, sources: u8, block: u32, start: u32, weight: f64 },
    Theta { weight: f64 },
    Pause,
    Stop,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToSource")]
struct ToSourceText {
    number: u32,
    #[serde(with = "OrderText")]
    order: Order,
}

/// From an end of a flow to the controller.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Letter {
    pub(crate) flow: u64,
    #[serde(with = "ToControllerText")]
    pub(crate) message: ToController,
}

/// From the controller to an end of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) flow: u64,
    pub(crate) to: To,
}

/// To which end, and what.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum To {
    Source(#[serde(with = "ToSourceText")] ToSource),
    Receiver(#[serde(with = "ToReceiverText")] ToReceiver),
}

/// As a line.
pub(crate) fn line(mail: &impl Serialize) -> String {
    format!("{MAIL}{}", serde_json::to_string(mail).expect("mail is plain data"))
}

/// From a line, if it is one.
pub(crate) fn read<T: serde::de::DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line.strip_prefix(MAIL)?).ok()
}

/// Whether flows of this group push.
pub(crate) fn pushes(scenario: &Resolved, group: u16) -> bool {
    matches!(scenario.groups[usize::from(group)].carrier, Carrier::Push(_))
}

/// A flow under way.
struct Flow {
    task: TaskId,
    source: u32,
    destination: u32,
}

/// The controller, told of flows as they start.
pub(crate) struct Control<'a> {
    scenario: &'a Resolved,
    starts: Peekable<Enumerate<Traffic>>,
    opener: Opener<'a>,
    objects: Objects,
    flows: BTreeMap<u64, Flow>,
    /// When something happens next, if nothing comes before.
    wake_at: Instant,
}

impl<'a> Control<'a> {
    /// The controller of a scenario that pushes objects; `None` of others.
    pub(crate) fn new(scenario: &'a Resolved) -> Option<Self> {
        let any = (0..scenario.groups.len() as u16).any(|group| pushes(scenario, group));
        any.then(|| Self {
            scenario,
            starts: scenario.traffic().expect("the scenario was checked").enumerate().peekable(),
            opener: Opener::new(scenario),
            objects: Objects::default(),
            flows: BTreeMap::new(),
            wake_at: Instant::ZERO,
        })
    }

    /// When [`advance`](Self::advance) has something to do.
    pub(crate) fn next_at(&mut self) -> Instant {
        self.starts.peek().map_or(self.wake_at, |(_, spec)| spec.start.min(self.wake_at))
    }

    /// Messages to and from it so far.
    pub(crate) fn messages(&self) -> u64 {
        self.objects.messages()
    }

    /// A letter is on its way to it. False if it is of no flow.
    pub(crate) fn post(&mut self, now: Instant, letter: Letter) -> bool {
        self.start(now);
        let Some(flow) = self.flows.get(&letter.flow) else { return false };
        self.wake_at = self.wake_at.min(self.objects.post(now, flow.task, letter.message));
        true
    }

    /// Learns of the flows that have started.
    fn start(&mut self, now: Instant) {
        let mut path: Vec<LinkId> = Vec::new();
        while let Some((number, spec)) = self.starts.next_if(|(_, spec)| spec.start <= now) {
            if !pushes(self.scenario, spec.group) {
                continue;
            }
            let FlowSpec { source, destination, .. } = spec;
            path.clear();
            flow_path(&self.scenario.routing, &spec, self.scenario.spec.seed, &mut path);
            let Opened::<AnyTransport> { push, .. } = self.opener.open(&spec, &path);
            let push = push.expect("the group pushes");
            let links = path.iter().map(|link| (link.0, self.scenario.topology.link(*link).rate));
            self.objects.add(now, number as u32, push, links);
            self.flows.insert(number as u64, Flow { task: push.task, source, destination });
        }
    }

    /// Handles what has arrived and what is due; `out` takes replies, each with the host that it is for.
    pub(crate) fn advance(&mut self, now: Instant, mut out: impl FnMut(u32, Reply)) {
        self.start(now);
        self.wake_at = Instant::MAX;
        loop {
            while let Some(mail) = self.objects.take_mail(now) {
                let (task, source, to) = match mail {
                    Mail::ToController(task, message) => {
                        self.objects.deliver(now, task, message);
                        continue;
                    }
                    Mail::Out(Outgoing::Source(task, source, order)) => (task, source, To::Source(order)),
                    Mail::Out(Outgoing::Receiver(task, message)) => (task, 0, To::Receiver(message)),
                };
                if let Some(number) = self.objects.flow_of(task, source).map(u64::from)
                    && let Some(flow) = self.flows.get(&number)
                {
                    let host = if matches!(to, To::Source(_)) { flow.source } else { flow.destination };
                    out(host, Reply { flow: number, to });
                }
                if to == To::Receiver(ToReceiver::FinAck) {
                    self.objects.forget(task);
                }
            }
            let mut next = Instant::MAX;
            self.objects.advance(now, |at| next = next.min(at));
            self.wake_at = self.wake_at.min(next);
            // Mail that takes no time is there already.
            if next > now {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is read again, and other lines are no mail.
    #[test]
    fn mail_survives_the_pipe() {
        let report = ToController::Report { decoded: 1, remaining: 2, heard: 3, next: 4 };
        for message in [ToController::Fetch, report, ToController::Fin, ToController::Accepted { slot: 1, number: 9 }] {
            let letter = Letter { flow: 7, message };
            assert_eq!(read(&line(&letter)), Some(letter));
        }
        let push = Order::Push { slot: 1, slots: 2, sources: 2, block: 3, start: 4, weight: 0.5 };
        for order in [push, Order::Theta { weight: 12.25 }, Order::Pause, Order::Stop] {
            let reply = Reply { flow: 8, to: To::Source(ToSource { number: 5, order }) };
            assert_eq!(read(&line(&reply)), Some(reply));
        }
        for message in [ToReceiver::FetchAck, ToReceiver::FinAck] {
            let reply = Reply { flow: 8, to: To::Receiver(message) };
            assert_eq!(read(&line(&reply)), Some(reply));
        }
        assert_eq!(read::<Letter>("stop"), None);
        assert_eq!(read::<Letter>("mail {}"), None);
    }
}
