//! Named plans written out, with the keys that a scenario gives in place of the plan's own.

use pliant_proto::switch::plan::QueuePlan;

use super::disciplines::DisciplineName;
use super::presets;
use super::queues::{DEFAULT_QUANTUM, QueueSpec, QueuesSpec, Reserve, ReserveBy, Scheduler};
use crate::tables::KeyError;
use crate::topology::Topology;

impl QueuesSpec {
    /// The plan of this name, written out.
    pub fn named(name: &str) -> Result<Self, String> {
        presets::queues(name)
    }

    /// The plan that these keys describe; the error names the key below them, and why.
    pub fn plan(&self) -> Result<QueuePlan, (String, String)> {
        self.expanded()?.build()
    }

    /// The same queues written out, those of `ports` too.
    pub(in super::super) fn expanded(&self) -> Result<Self, KeyError> {
        let mut expanded = self.expanded_above()?;
        expanded.ports = self.expanded_ports(&expanded)?;
        Ok(expanded)
    }

    /// The same without `ports`.
    fn expanded_above(&self) -> Result<Self, KeyError> {
        let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        for (given, key) in
            [(self.rate.is_some(), "rate"), (self.tier.is_some(), "tier"), (self.direction.is_some(), "direction")]
        {
            if given {
                return refuse(key, "chooses ports: it goes into an element of `ports`");
            }
        }
        if self.queue.is_empty() {
            for (given, key) in [(self.scheduler.is_some(), "scheduler"), (self.strict.is_some(), "strict")] {
                if given {
                    return refuse(key, "the plan decides; write the queues out as [[queues.queue]] to choose it");
                }
            }
            let name = self.plan.as_deref().unwrap_or("shared");
            let preset = presets::queues_with(name, self.reserved_share()?);
            return preset.map_err(|why| ("plan".to_owned(), why))?.adjusted(
                self,
                &format!("the plan {name}"),
                Some(name),
            );
        }
        for (given, key) in [
            (self.plan.is_some(), "plan"),
            (self.ecn.is_some(), "ecn"),
            (self.limit.is_some(), "limit"),
            (self.colour_limit.is_some(), "colour_limit"),
            (self.reserve.is_some(), "reserve"),
        ] {
            if given {
                return refuse(key, "goes with a named plan, not with queues that are written out");
            }
        }
        let mut expanded = Self { ports: Vec::new(), ..self.clone() };
        let scheduler = *expanded.scheduler.get_or_insert(Scheduler::Strict);
        expanded.device_fifo_packets.get_or_insert(0);
        match scheduler {
            Scheduler::Strict if self.strict.is_some() => return refuse("strict", "all queues are strict anyway"),
            Scheduler::Strict => {}
            _ => _ = expanded.strict.get_or_insert(0),
        }
        match scheduler {
            Scheduler::Dwrr => _ = expanded.quantum.get_or_insert(DEFAULT_QUANTUM),
            _ if self.quantum.is_some() => return refuse("quantum", "only DWRR has one"),
            _ => {}
        }
        Ok(expanded)
    }

    /// These expanded queues, called `whose`, with the keys of `wishes` in place of their own; `plan` is their name.
    pub(super) fn adjusted(mut self, wishes: &Self, whose: &str, plan: Option<&str>) -> Result<Self, KeyError> {
        let refuse = |key: &str, what: &str| Err((key.to_owned(), format!("{whose} {what}")));
        if wishes.reserve.is_some() && !plan.is_some_and(presets::reserves) {
            return refuse("reserve", "reserves nothing for credits");
        }
        if wishes.colour_limit.is_some() && self.queue.iter().all(|queue| queue.colour_limit.is_none()) {
            return refuse("colour_limit", "limits no red packets");
        }
        // Queues of credits, of headers and those that drop early are what they must be. Data on credits cannot be marked: it
        // must pass.
        let credits = self.queue.iter().any(|queue| queue.shaper.is_some());
        let adjustable = |queue: &&mut QueueSpec| {
            let headers = queue.discipline == DisciplineName::ReturnToSender;
            queue.shaper.is_none() && queue.red.is_none() && !headers
        };
        for queue in self.queue.iter_mut().filter(adjustable) {
            if let Some(limit) = queue.colour_limit.as_mut().zip(wishes.colour_limit) {
                *limit.0 = limit.1;
            }
            if let Some(limit) = wishes.limit {
                queue.limit = limit;
            }
            if let Some(ecn) = wishes.ecn {
                queue.ecn = if credits { ecn.passing() } else { ecn };
            }
        }
        self.quantum = if self.scheduler == Some(Scheduler::Dwrr) { wishes.quantum.or(self.quantum) } else { None };
        self.device_fifo_packets = wishes.device_fifo_packets.or(self.device_fifo_packets);
        self.shared_buffer = wishes.shared_buffer.or(self.shared_buffer);
        self.ports = Vec::new();
        Ok(self)
    }

    /// What hosts have where only switches are told: the same, unless it trims by name.
    pub(in super::super) fn at_hosts(&self, topology: &Topology) -> Self {
        let ports = self.ports_at_hosts(topology);
        match self.plan.as_deref() {
            Some(name) if presets::trims(name) => {
                Self { plan: Some(presets::HOST_PLAN.to_owned()), rate: self.rate, ports, ..Self::default() }
            }
            _ => Self { ports, ..self.clone() },
        }
    }

    /// The share that the file asks for, as a number.
    fn reserved_share(&self) -> Result<Option<f64>, KeyError> {
        match self.reserve {
            Some(Reserve::Share(share)) if !(share > 0.0 && share <= 1.0) => {
                Err(("reserve".to_owned(), "must lie in (0, 1]".to_owned()))
            }
            Some(Reserve::Share(share)) => Ok(Some(share)),
            Some(Reserve::Following(ReserveBy::Traffic)) | None => Ok(None),
        }
    }
}
