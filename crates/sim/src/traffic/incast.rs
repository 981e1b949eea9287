//! Incast: many hosts send to one at the same instant.

use std::collections::{BTreeMap, BTreeSet};

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::Arrival;
use super::hosts::HostSet;
use super::load::LoadCounts;
use super::load::ROUNDING;
use super::pairs::HostShares;
use crate::workload::{Distribution, SizeRange};

/// Every period, `senders` hosts each start `flows_per_sender` flows to one receiver, all at the same instant or within
/// `jitter`.
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
    /// Time from round to round, above 0s. Either this or `load`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub period: Option<Span>,
    /// Mean load of the link to each receiver, above 0 and at most 1, which sets the period. Either this or `period`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Bytes that `load` counts: `"wire"` (default) or `"payload"`.
    #[serde(default)]
    pub load_counts: LoadCounts,
    /// Each sender of a round starts up to this much later, uniformly at random; below the period. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub jitter: Option<Span>,
    /// When the first round starts. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// Rounds and their flows start before this. Default: the run's duration.
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
    jitter_choice: Stream,
    jitter_ps: u64,
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
    receiver: u32,
    /// When each sender starts, by time.
    senders: std::vec::IntoIter<(u64, u32)>,
    /// The sender whose turn it is, when it starts, and how many flows it has left.
    sender: Option<(u64, u32, u32)>,
}

/// The rounds that a description asks for.
#[derive(Debug)]
pub(super) struct Rounds {
    sources: Vec<u32>,
    receivers: Vec<u32>,
    /// Senders in a round; `None` for all.
    senders: Option<u32>,
    pub(super) period_ps: u64,
    /// Mean number of flows in a round.
    pub(super) flows: f64,
}

impl IncastSpec {
    /// Checks hosts, senders and period.
    pub(super) fn rounds(&self, context: &Context<'_>) -> Result<Rounds, TrafficError> {
        let sources = context.hosts("sources", self.sources.as_ref())?;
        let receivers = context.hosts("receivers", self.receivers.as_ref())?;
        let most = sources.len() - usize::from(receivers.iter().any(|receiver| sources.contains(receiver)));
        if self.senders.is_some_and(|count| count == 0 || count as usize > most) || most == 0 {
            let asked = self.senders.map_or_else(|| "all".to_owned(), |count| count.to_string());
            return Err(context.error("senders", format!("{asked}: 1 to {most} hosts can send beside the receiver")));
        }
        if self.flows_per_sender == 0 {
            return Err(context.error("flows_per_sender", "must be at least 1"));
        }
        let mut rounds = Rounds { sources, receivers, senders: self.senders, period_ps: 0, flows: 0.0 };
        rounds.flows = rounds.mean_senders() * f64::from(self.flows_per_sender);
        rounds.period_ps = match (self.period, self.load) {
            (Some(period), None) => context.period(period)?,
            (None, Some(load)) => self.period_of_load(load, &rounds, context)?,
            (None, None) => return Err(context.error("period", "give either period or load")),
            (Some(_), Some(_)) => return Err(context.error("period", "give either period or load, not both")),
        };
        Ok(rounds)
    }

    fn period_of_load(&self, load: f64, rounds: &Rounds, context: &Context<'_>) -> Result<u64, TrafficError> {
        if !(load > 0.0 && load <= 1.0) {
            return Err(context.error("load", format!("{load} is not above 0 and at most 1")));
        }
        let sizes = context.sizes(self.size, self.workload.as_deref())?;
        let wire_bits = 8.0 * context.packets.mean_wire_bytes(&sizes);
        let bits = match self.load_counts {
            LoadCounts::Wire => wire_bits,
            LoadCounts::Payload => 8.0 * sizes.mean_bytes(),
        };
        let host_rate = context.fabric().host_rate.bits_per_sec() as f64;
        let period_s = rounds.flows * bits / (load * host_rate * rounds.receivers.len() as f64);
        let (sources, receivers) = rounds.host_shares();
        for (hosts, link) in [(receivers, "link to a receiver"), (sources, "link from a sender")] {
            let share = hosts.iter().map(|(_, share)| *share).fold(0.0, f64::max);
            let offered = rounds.flows * wire_bits * share / period_s;
            if offered > host_rate * (1.0 + ROUNDING) {
                let (offered, rate) = (offered / 1e9, context.fabric().host_rate);
                let why = format!("{load} would put {offered:.3} Gbit/s on the {link}, of {rate}");
                return Err(context.error("load", format!("{why}; period overloads on purpose")));
            }
        }
        Ok((period_s * 1e12).max(1.0) as u64)
    }
}

impl Rounds {
    /// How many of the sources can send in a round of each receiver: all but itself.
    fn candidates(&self) -> Vec<f64> {
        let sources: BTreeSet<u32> = self.sources.iter().copied().collect();
        let is_source = |receiver| f64::from(u8::from(sources.contains(receiver)));
        self.receivers.iter().map(|receiver| sources.len() as f64 - is_source(receiver)).collect()
    }

    /// How many of them do.
    fn sending(&self, candidates: f64) -> f64 {
        self.senders.map_or(candidates, f64::from)
    }

    fn mean_senders(&self) -> f64 {
        let all: f64 = self.candidates().into_iter().map(|candidates| self.sending(candidates)).sum();
        all / self.receivers.len() as f64
    }

    /// The probabilities with which a flow is of each source, and to each receiver.
    pub(super) fn host_shares(&self) -> HostShares {
        let candidates = self.candidates();
        let total = self.mean_senders() * self.receivers.len() as f64;
        let chance = |candidates: f64| self.sending(candidates) / candidates / total;
        let everyone: f64 = candidates.iter().map(|&candidates| chance(candidates)).sum();
        let own: BTreeMap<u32, f64> =
            self.receivers.iter().zip(&candidates).map(|(&host, &candidates)| (host, chance(candidates))).collect();
        let source = |&host: &u32| (host, everyone - own.get(&host).copied().unwrap_or(0.0));
        let receiver = |(&host, &candidates): (&u32, &f64)| (host, self.sending(candidates) / total);
        (self.sources.iter().map(source).collect(), self.receivers.iter().zip(&candidates).map(receiver).collect())
    }
}

impl Incast {
    pub(super) fn new(spec: &IncastSpec, context: &Context<'_>) -> Result<Self, TrafficError> {
        let window = context.window(spec.start, spec.stop)?;
        let rounds = spec.rounds(context)?;
        let jitter_ps = spec.jitter.unwrap_or(Span::ZERO).as_ps();
        if jitter_ps >= rounds.period_ps {
            let period = Span::from_ps(rounds.period_ps).rounded();
            return Err(context.error("jitter", format!("must be shorter than the period, {period}")));
        }
        Ok(Self {
            sender_choice: context.stream("senders"),
            receiver_choice: context.stream("receivers"),
            size_choice: context.stream("sizes"),
            jitter_choice: context.stream("jitter"),
            jitter_ps,
            sources: rounds.sources,
            receivers: rounds.receivers,
            order: spec.receiver_order,
            senders: spec.senders.map(|count| count as usize),
            flows_per_sender: spec.flows_per_sender,
            sizes: context.sizes(spec.size, spec.workload.as_deref())?,
            period_ps: rounds.period_ps,
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
        let mut starts: Vec<(u64, u32)> = senders.into_iter().map(|sender| (at_ps, sender)).collect();
        if self.jitter_ps > 0 {
            for (start, _) in &mut starts {
                *start = start.saturating_add(self.jitter_choice.below(self.jitter_ps + 1));
            }
            starts.sort_by_key(|(start, _)| *start);
        }
        self.current = Round { receiver, senders: starts.into_iter(), sender: None };
        self.next_round_ps = at_ps.checked_add(self.period_ps);
        self.round += 1;
        Some(())
    }

    /// The next flow's start and sender within the round.
    fn next_sender(&mut self) -> Option<(u64, u32)> {
        let round = &mut self.current;
        let (start, sender, left) = match round.sender.take() {
            Some((start, sender, left)) if left > 0 => (start, sender, left),
            _ => {
                let (start, sender) = round.senders.next()?;
                (start, sender, self.flows_per_sender)
            }
        };
        round.sender = Some((start, sender, left - 1));
        Some((start, sender))
    }
}

impl Iterator for Incast {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let (start, sender) = if let Some(next) = self.next_sender() {
            next
        } else {
            self.begin_round()?;
            self.next_sender().expect("a round has a sender")
        };
        let bytes = self.sizes.sample(&mut self.size_choice);
        // Only the jitter of the last round reaches beyond the end, and what follows it starts later still.
        (start < self.stop_ps).then(|| Arrival::new(start, (sender, self.current.receiver), bytes))
    }
}
