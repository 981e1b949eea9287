//! The controller of objects: it runs in the process that started the testbed, and its mail takes the pipes to the hosts'
//! processes. As in the simulator it is no host, its messages take the time that the scenario says and no room on links.

use std::collections::BTreeMap;
use std::iter::{Enumerate, Peekable};

use pliant_proto::time::Instant;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::push::{Outgoing, TaskId, ToReceiver};
use pliant_sim::engine::{Mail, Objects, Opened, flow_path};
use pliant_sim::run::FlowFactory;
use pliant_sim::scenario::Resolved;
use pliant_sim::topology::LinkId;
use pliant_sim::traffic::{FlowSpec, Traffic};

use crate::mail::{ControllerMessage, EndpointMessage, HostMessage};
use crate::network::pushes;

/// A flow under way.
struct Flow {
    task: TaskId,
    source: u32,
    destination: u32,
}

/// The controller, told of flows as they start.
pub(crate) struct ObjectController<'a> {
    scenario: &'a Resolved,
    starts: Peekable<Enumerate<Traffic>>,
    factory: FlowFactory<'a>,
    objects: Objects,
    flows: BTreeMap<u64, Flow>,
    /// When something happens next, if nothing comes before.
    wake_at: Instant,
}

impl<'a> ObjectController<'a> {
    /// The controller of a scenario that pushes objects; `None` of others.
    pub(crate) fn new(scenario: &'a Resolved) -> Option<Self> {
        let any = (0..scenario.groups.len() as u16).any(|group| pushes(scenario, group));
        any.then(|| Self {
            scenario,
            starts: scenario.traffic().expect("the scenario was checked").enumerate().peekable(),
            factory: FlowFactory::new(scenario),
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

    /// A message is on its way to it. False if it is of no flow.
    pub(crate) fn post(&mut self, now: Instant, mail: HostMessage) -> bool {
        self.start(now);
        let Some(flow) = self.flows.get(&mail.flow) else { return false };
        self.wake_at = self.wake_at.min(self.objects.post(now, flow.task, mail.message));
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
            let Opened::<AnyTransport> { push, .. } = self.factory.open(&spec, &path);
            let push = push.expect("the group pushes");
            let links = path.iter().map(|link| (link.0, self.scenario.topology.link(*link).rate));
            self.objects.add(now, number as u32, push, links);
            self.flows.insert(number as u64, Flow { task: push.task, source, destination });
        }
    }

    /// Handles what has arrived and what is due; `out` takes replies, each with the host that it is for.
    pub(crate) fn advance(&mut self, now: Instant, mut out: impl FnMut(u32, ControllerMessage)) {
        self.start(now);
        self.wake_at = Instant::MAX;
        loop {
            while let Some(mail) = self.objects.take_mail(now) {
                let (task, source, to) = match mail {
                    Mail::ToController(task, message) => {
                        self.objects.deliver(now, task, message);
                        continue;
                    }
                    Mail::Out(Outgoing::Source(task, source, order)) => (task, source, EndpointMessage::Source(order)),
                    Mail::Out(Outgoing::Receiver(task, message)) => (task, 0, EndpointMessage::Receiver(message)),
                };
                if let Some(number) = self.objects.flow_of(task, source).map(u64::from)
                    && let Some(flow) = self.flows.get(&number)
                {
                    let host = if matches!(to, EndpointMessage::Source(_)) { flow.source } else { flow.destination };
                    out(host, ControllerMessage { flow: number, to });
                }
                if to == EndpointMessage::Receiver(ToReceiver::FinAck) {
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
