//! What every generator needs while it is built, with errors that name the group and the key.

use std::ops::Range;

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;

use super::environment::{Environment, Fabric};
use super::error::TrafficError;
use super::flow_spec::UNLIMITED_BYTES;
use super::hosts::{HostSet, no_host};
use crate::workload::{Distribution, Messages, PacketFormat, Size, SizeRange};

/// One group in its surroundings.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The group's name.
    pub(super) name: &'a str,
    /// How its transport cuts flows into packets.
    pub(super) packets: PacketFormat,
    pub(super) messages: Option<&'a Messages>,
    pub(super) environment: &'a Environment<'a>,
}

impl<'a> Context<'a> {
    pub(super) fn fabric(&self) -> &'a Fabric {
        self.environment.fabric
    }

    pub(super) fn error(&self, key: &'static str, why: impl Into<String>) -> TrafficError {
        TrafficError::Key { group: self.name.to_owned(), key, why: why.into() }
    }

    /// The random stream of one of the group's choices, so that (say) another load leaves the pairs as they were.
    pub(super) fn stream(&self, choice: &str) -> Stream {
        Stream::named(self.environment.seed, &format!("traffic.{}.{choice}", self.name))
    }

    /// The hosts of a set; all hosts if the key is absent.
    pub(super) fn hosts(&self, key: &'static str, set: Option<&HostSet>) -> Result<Vec<u32>, TrafficError> {
        let count = self.fabric().hosts();
        match set {
            Some(set) => set.resolve(count).map_err(|why| self.error(key, why)),
            None if count == 0 => Err(self.error(key, "the topology has no hosts")),
            None => Ok((0..count).collect()),
        }
    }

    pub(super) fn host(&self, key: &'static str, host: u32) -> Result<u32, TrafficError> {
        let count = self.fabric().hosts();
        if host < count { Ok(host) } else { Err(self.error(key, no_host(host, count))) }
    }

    /// Times at which flows may start, in picoseconds: `start..stop`, ended by the run's duration.
    pub(super) fn window(&self, start: Option<Span>, stop: Option<Span>) -> Result<Range<u64>, TrafficError> {
        let start = start.unwrap_or(Span::ZERO);
        let duration = self.fabric().duration;
        let stop = stop.map_or(duration, |stop| stop.min(duration));
        if start >= stop {
            return Err(self.error("start", format!("no flow can start: {start} is not before {stop}, the end")));
        }
        Ok(start.as_ps()..stop.as_ps())
    }

    pub(super) fn period(&self, period: Span) -> Result<u64, TrafficError> {
        if period == Span::ZERO { Err(self.error("period", "must be longer than 0s")) } else { Ok(period.as_ps()) }
    }

    /// The sizes that exactly one of `size` and `workload` names, or the mean size if counted messages decide it.
    pub(super) fn sizes(&self, size: Option<SizeRange>, workload: Option<&str>) -> Result<Distribution, TrafficError> {
        if let Some((mean, _)) = self.mean_flow_bytes() {
            if size.is_some() || workload.is_some() {
                let key = if size.is_some() { "size" } else { "workload" };
                return Err(self.error(key, "messages.count decides the size of a flow"));
            }
            let placeholder = Size::Fixed((mean.round() as u64).clamp(1, UNLIMITED_BYTES));
            let error = |source| TrafficError::Sizes { group: self.name.to_owned(), key: "size", source };
            return placeholder.distribution(self.environment.directory).map_err(error);
        }
        let (key, size) = match (size, workload) {
            (Some(range), None) => ("size", range.size()),
            (None, Some(name)) => ("workload", Size::Workload(name.to_owned())),
            (None, None) => return Err(self.error("size", "give either size or workload")),
            (Some(_), Some(_)) => return Err(self.error("size", "give either size or workload, not both")),
        };
        let sizes = size.distribution(self.environment.directory);
        sizes.map_err(|source| TrafficError::Sizes { group: self.name.to_owned(), key, source })
    }

    /// Mean payload bytes of a flow and mean bytes on the wire, if counted messages decide its size.
    pub(super) fn mean_flow_bytes(&self) -> Option<(f64, f64)> {
        self.messages.and_then(|messages| messages.mean_flow_bytes(self.packets))
    }

    /// As [`Context::sizes`]; without either key flows have no end.
    pub(super) fn sizes_or_unlimited(
        &self,
        size: Option<SizeRange>,
        workload: Option<&str>,
    ) -> Result<Distribution, TrafficError> {
        let unlimited = size.is_none() && workload.is_none() && self.mean_flow_bytes().is_none();
        self.sizes(if unlimited { Some(SizeRange::fixed(UNLIMITED_BYTES)) } else { size }, workload)
    }
}
