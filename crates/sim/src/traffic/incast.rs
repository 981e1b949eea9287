//! Incast: many hosts send to one at the same instant.

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::{Arrival, HostSet, TrafficError};
use crate::workload::{Distribution, SizeRange};

/// Every period, `senders` hosts each start `flows_per_sender` flows to one receiver, all at the same instant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncastSpec {
    /// Number of hosts that send in a round, drawn from `sources` anew each time. Default: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub senders: Option<u32>,
    /// Hosts that may send; the round's receiver never does. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<HostSet>,
    /// Hosts that may receive: one number for a fixed receiver. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receivers: Option<HostSet>,
    /// How a round's receiver is chosen: `"rotating"` (default) or `"random"`.
    #[serde(default)]
    pub receiver_order: ReceiverOrder,
    /// Flows that each sender starts in a round. Default: 1.
    #[serde(default = "one")]
    pub flows_per_sender: u32,
    /// Size of each flow: `"1MB"`, or `"2kB..200kB"` for a uniform one. Either this or `workload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Name of a flow-size distribution, or the path of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Time from round to round, above 0s.
    #[serde(with = "crate::units_serde")]
    pub period: Span,
    /// When the first round starts. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// Rounds start before this. Default: the run's duration.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stop: Option<Span>,
}

fn one() -> u32 {
    1
}

/// How the receiver of a round is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiverOrder {
    /// One after the other, in the order of the set.
    #[default]
    Rotating,
    /// At random, uniformly.
    Random,
}

/// The running generator.
#[derive(Debug)]
pub(super) struct Incast {
    sender_choice: Stream,
    receiver_choice: Stream,
    size_choice: Stream,
    sources: Vec<u32>,
    receivers: Vec<u32>,
    order: ReceiverOrder,
    senders: Option<usize>,
    flows_per_sender: u32,
    sizes: Distribution,
    period_ps: u64,
    stop_ps: u64,
    next_round_ps: Option<u64>,
    round: u64,
    current: Round,
}

/// The flows of a round that have not been given out.
#[derive(Debug, Default)]
struct Round {
    at_ps: u64,
    receiver: u32,
    senders: std::vec::IntoIter<u32>,
    sender: Option<(u32, u32)>,
}

impl Incast {
    pub(super) fn new(spec: &IncastSpec, context: &Context<'_>) -> Result<Self, TrafficError> {
        let window = context.window(spec.start, spec.stop)?;
        let sources = context.hosts("sources", spec.sources.as_ref())?;
        let receivers = context.hosts("receivers", spec.receivers.as_ref())?;
        let most = sources.len() - usize::from(receivers.iter().any(|receiver| sources.contains(receiver)));
        let senders = spec.senders.map(|count| count as usize);
        if senders.is_some_and(|count| count == 0 || count > most) || most == 0 {
            let asked = senders.map_or_else(|| "all".to_owned(), |count| count.to_string());
            return Err(context.error("senders", format!("{asked}: 1 to {most} hosts can send beside the receiver")));
        }
        if spec.flows_per_sender == 0 {
            return Err(context.error("flows_per_sender", "must be at least 1"));
        }
        Ok(Self {
            sender_choice: context.stream("senders"),
            receiver_choice: context.stream("receivers"),
            size_choice: context.stream("sizes"),
            sources,
            receivers,
            order: spec.receiver_order,
            senders,
            flows_per_sender: spec.flows_per_sender,
            sizes: context.sizes(spec.size, spec.workload.as_deref())?,
            period_ps: context.period(spec.period)?,
            stop_ps: window.end,
            next_round_ps: Some(window.start),
            round: 0,
            current: Round::default(),
        })
    }

    /// Begins the next round if there is one.
    fn begin_round(&mut self) -> Option<()> {
        let at_ps = self.next_round_ps.filter(|at| *at < self.stop_ps)?;
        let count = self.receivers.len() as u64;
        let receiver = self.receivers[match self.order {
            ReceiverOrder::Rotating => self.round % count,
            ReceiverOrder::Random => self.receiver_choice.below(count),
        } as usize];
        let mut senders = self.sources.clone();
        senders.retain(|source| *source != receiver);
        if let Some(count) = self.senders {
            self.sender_choice.shuffle(&mut senders);
            senders.truncate(count);
        }
        self.current = Round { at_ps, receiver, senders: senders.into_iter(), sender: None };
        self.next_round_ps = at_ps.checked_add(self.period_ps);
        self.round += 1;
        Some(())
    }

    /// The next flow's sender within the round.
    fn next_sender(&mut self) -> Option<u32> {
        let round = &mut self.current;
        let (sender, left) = match round.sender.take() {
            Some((sender, left)) if left > 0 => (sender, left),
            _ => (round.senders.next()?, self.flows_per_sender),
        };
        round.sender = Some((sender, left - 1));
        Some(sender)
    }
}

impl Iterator for Incast {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let sender = if let Some(sender) = self.next_sender() {
            sender
        } else {
            self.begin_round()?;
            self.next_sender().expect("a round has a sender")
        };
        let bytes = self.sizes.sample(&mut self.size_choice);
        Some(Arrival::new(self.current.at_ps, (sender, self.current.receiver), bytes))
    }
}
