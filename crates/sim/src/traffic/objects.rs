//! Objects that many hosts hold, on their way to one host each: the traffic of PPUSH.
//!
//! Every object is as many flows as it has sources. A transport that moves objects shares them out itself; for others
//! each source sends an equal part.

use std::ops::Range;

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::Arrival;
use super::hosts::HostSet;
use super::incast::ReceiverOrder;
use super::load::ROUNDING;
use crate::workload::{Distribution, SizeRange};

/// Most sources of an object.
pub const FANOUT_MAX: u32 = 32;

/// Objects arrive as a Poisson process, or at fixed intervals, or all at once; sources are drawn at random, and receivers unless they take turns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObjectsSpec {
    /// Sources of each object, 1 to 32. Default: 3, as in the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fanout: Option<u32>,
    /// Hosts that hold the objects. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holders: Option<HostSet>,
    /// Hosts that receive them. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receivers: Option<HostSet>,
    /// How the receiver of an object is chosen. Default: at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_order: Option<ReceiverOrder>,
    /// Size of each object: `"1MB"`, or `"2kB..200kB"` for a uniform one. Either this or `workload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Name of a distribution of sizes, or the path of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The distribution stretched so that its smallest and largest size are these. Default: as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaled_to: Option<SizeRange>,
    /// Mean load of the links from the holders, or of those to the receivers where these are busier, above 0 and at most 1.
    /// Either this, `rate_per_s` or `period`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Mean number of objects that arrive per second, above 0 and at most 1e12.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Time between two objects; `"0s"`: all at once, which needs `objects`.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub period: Option<Span>,
    /// Most objects. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Each source sends an equal part, known in advance. Default: true, with `push` false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<bool>,
    /// Objects arrive from here on. Default: 0s.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// Objects arrive before this. Default: the run's duration.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stop: Option<Span>,
}

impl ObjectsSpec {
    /// Sources of each object.
    pub fn fanout(&self) -> u32 {
        self.fanout.unwrap_or(3)
    }

    /// Whether each source sends an equal part.
    pub fn splits(&self) -> bool {
        self.split.unwrap_or(true)
    }

    fn sizes(&self, context: &Context<'_>) -> Result<Distribution, TrafficError> {
        let sizes = context.sizes(self.size, self.workload.as_deref())?;
        let error = |source| TrafficError::Sizes { group: context.name.to_owned(), key: "scaled_to", source };
        self.scaled_to.map_or(Ok(sizes.clone()), |range| sizes.scaled_to(range.least(), range.most()).map_err(error))
    }
}

/// When the next object comes.
#[derive(Debug)]
enum Gaps {
    Poisson { stream: Stream, mean_ps: f64, fraction: f64 },
    Fixed { period_ps: u64, first: bool },
}

/// The running generator.
#[derive(Debug)]
pub(super) struct Objects {
    gaps: Gaps,
    host_choice: Stream,
    size_choice: Stream,
    holders: Vec<u32>,
    receivers: Vec<u32>,
    order: ReceiverOrder,
    sizes: Distribution,
    fanout: u32,
    splits: bool,
    now_ps: u64,
    stop_ps: u64,
    begun: u64,
    left: u64,
    /// Flows of the object under way, the last one first.
    pending: Vec<Arrival>,
}

/// Objects per second of a spec that gives a load or a rate, and what that needs.
pub(super) struct ObjectRate {
    /// Mean objects per second; `None` of fixed intervals of no time.
    pub(super) per_s: Option<f64>,
    pub(super) holders: Vec<u32>,
    pub(super) receivers: Vec<u32>,
    pub(super) mean_wire_bytes: f64,
    pub(super) window: Range<u64>,
    sizes: Distribution,
}

impl ObjectsSpec {
    pub(super) fn rate(&self, context: &Context<'_>) -> Result<ObjectRate, TrafficError> {
        let holders = context.hosts("holders", self.holders.as_ref())?;
        let receivers = context.hosts("receivers", self.receivers.as_ref())?;
        let fanout = self.fanout();
        let others = |receiver: &u32| holders.iter().filter(|holder| *holder != receiver).count();
        if let Some(receiver) = receivers.iter().find(|receiver| others(receiver) < fanout as usize) {
            let have = others(receiver);
            let why = format!("{fanout} sources, but host {receiver} can receive from {have} holders only");
            return Err(context.error("fanout", why));
        }
        let sizes = self.sizes(context)?;
        let mean_wire_bytes = context.packets.mean_wire_bytes(&sizes);
        let per_s = self.per_second(context, [holders.len(), receivers.len()], mean_wire_bytes)?;
        let window = context.window(self.start, self.stop)?;
        Ok(ObjectRate { per_s, holders, receivers, mean_wire_bytes, window, sizes })
    }

    fn per_second(
        &self,
        context: &Context<'_>,
        [holders, receivers]: [usize; 2],
        wire_bytes: f64,
    ) -> Result<Option<f64>, TrafficError> {
        let refuse = |key, why: &str| Err(context.error(key, why));
        match (self.load, self.rate_per_s, self.period) {
            (Some(load), None, None) if load > 0.0 && load <= 1.0 + ROUNDING => {
                let links = holders.min(receivers) as f64;
                Ok(Some(load * links * context.fabric().host_rate.bits_per_sec() as f64 / (8.0 * wire_bytes)))
            }
            (Some(load), None, None) => refuse("load", &format!("{load} is not above 0 and at most 1")),
            (None, Some(rate), None) if rate > 0.0 && rate <= 1e12 => Ok(Some(rate)),
            (None, Some(rate), None) => {
                refuse("rate_per_s", &format!("{rate} is not between 0 (excluded) and 1e12 objects per second"))
            }
            (None, None, Some(Span::ZERO)) if self.objects.is_none() => {
                refuse("period", "must be longer than 0s, unless `objects` says how many")
            }
            (None, None, Some(Span::ZERO)) => Ok(None),
            (None, None, Some(period)) => Ok(Some(1e12 / period.as_ps() as f64)),
            (None, None, None) => refuse("load", "give one of load, rate_per_s and period"),
            _ => refuse("load", "give only one of load, rate_per_s and period"),
        }
    }
}

impl Objects {
    pub(super) fn new(spec: &ObjectsSpec, context: &Context<'_>) -> Result<Self, TrafficError> {
        let ObjectRate { per_s, holders, receivers, window, sizes, .. } = spec.rate(context)?;
        if spec.splits() && sizes.quantile(0.0) < u64::from(spec.fanout()) {
            return Err(context.error("size", format!("too small to be split among {} sources", spec.fanout())));
        }
        let gaps = match (spec.period, per_s) {
            (Some(period), _) => Gaps::Fixed { period_ps: period.as_ps(), first: true },
            (None, Some(rate)) => Gaps::Poisson { stream: context.stream("gaps"), mean_ps: 1e12 / rate, fraction: 0.0 },
            (None, None) => unreachable!("a spec without a period has a rate"),
        };
        Ok(Self {
            gaps,
            host_choice: context.stream("hosts"),
            size_choice: context.stream("sizes"),
            holders,
            receivers,
            order: spec.receiver_order.unwrap_or(ReceiverOrder::Random),
            sizes,
            fanout: spec.fanout(),
            splits: spec.splits(),
            now_ps: window.start,
            stop_ps: window.end,
            begun: 0,
            left: spec.objects.unwrap_or(u64::MAX),
            pending: Vec::new(),
        })
    }

    fn advance(&mut self) {
        let gap = match &mut self.gaps {
            Gaps::Fixed { first: true, .. } => 0,
            Gaps::Fixed { period_ps, .. } => *period_ps,
            Gaps::Poisson { stream, mean_ps, fraction } => {
                let gap = stream.exponential(*mean_ps) + *fraction;
                let whole = libm::floor(gap);
                *fraction = gap - whole;
                whole as u64
            }
        };
        if let Gaps::Fixed { first, .. } = &mut self.gaps {
            *first = false;
        }
        self.now_ps = self.now_ps.saturating_add(gap);
    }

    /// Draws the next object.
    fn begin(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        self.advance();
        if self.now_ps >= self.stop_ps {
            self.left = 0;
            return None;
        }
        let count = self.receivers.len() as u64;
        let receiver = match self.order {
            ReceiverOrder::Random => self.host_choice.below(count),
            ReceiverOrder::Rotating => self.begun % count,
        };
        self.begun += 1;
        let receiver = self.receivers[receiver as usize];
        let mut sources: Vec<u32> = Vec::with_capacity(self.fanout as usize);
        while sources.len() < self.fanout as usize {
            let source = self.holders[self.host_choice.below(self.holders.len() as u64) as usize];
            if source != receiver && !sources.contains(&source) {
                sources.push(source);
            }
        }
        let bytes = self.sizes.sample(&mut self.size_choice);
        let (each, more) = (bytes / u64::from(self.fanout), bytes % u64::from(self.fanout));
        for (place, &source) in sources.iter().enumerate().rev() {
            let part = if self.splits { each + u64::from((place as u64) < more) } else { bytes };
            self.pending.push(Arrival::new(self.now_ps, (source, receiver), part));
        }
        Some(())
    }
}

impl Iterator for Objects {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        if self.pending.is_empty() {
            self.begin()?;
        }
        self.pending.pop()
    }
}
