//! What groups offer to links, on average: loads of several groups on the same links add up.

use std::ops::Range;

use super::context::Context;
use super::environment::Environment;
use super::error::TrafficError;
use super::groups::{GroupAmongOthers, each};
use super::load::arrivals_per_second;
use super::objects::ObjectRate;
use super::pairs::Pairs;
use super::periodic::DestinationChoice;
use super::poisson::PoissonSpec;
use super::spec::{TrafficGroup, TrafficSpec};
use crate::workload::{Distribution, PacketFormat};

/// Points at which a distribution is looked at to tell what part of its bytes a size limit keeps.
const QUANTILES: u32 = 1 << 14;

/// What a group offers while it is active: bits on the wire, sent once.
#[derive(Clone, PartialEq, Debug)]
pub struct Offered {
    /// The group's index.
    pub group: u16,
    /// Times at which its flows start, in picoseconds; of a single round the whole run, over which its bytes count.
    pub window: Range<u64>,
    /// Whether it is a single round, which no queue grows from without end.
    pub once: bool,
    /// Mean bit/s that each sending host puts on its link.
    pub from_hosts: Vec<(u32, f64)>,
    /// Mean bit/s that each receiving host's link brings.
    pub to_hosts: Vec<(u32, f64)>,
    /// Mean bit/s that leave each rack.
    pub from_racks: Vec<(u32, f64)>,
    /// Mean bit/s that reach each rack from others.
    pub to_racks: Vec<(u32, f64)>,
}

/// What each group offers that starts flows again and again; single rounds count over the whole run; lists
/// and traces have no mean.
pub fn offered(groups: &[TrafficGroup<'_>], environment: &Environment<'_>) -> Result<Vec<Offered>, TrafficError> {
    let mut all = Vec::new();
    for (number, group) in each(groups, environment).enumerate() {
        if let Some((window, flow)) = group.mean_flow()? {
            all.push(flow.offered(number as u16, window, &environment.fabric.racks));
        }
    }
    Ok(all)
}

/// A group's mean: bit/s of all its flows, and the probabilities with which a byte leaves and reaches hosts.
struct MeanFlow {
    bits_per_s: f64,
    sources: Vec<(u32, f64)>,
    destinations: Vec<(u32, f64)>,
    /// The probability that a byte goes to another rack; `None` if that follows from the hosts' own.
    between_racks: Option<f64>,
    /// Whether it is a single round.
    once: bool,
}

impl MeanFlow {
    fn new(bits_per_s: f64, sources: Vec<(u32, f64)>, destinations: Vec<(u32, f64)>) -> Self {
        Self { bits_per_s, sources, destinations, between_racks: None, once: false }
    }

    fn offered(self, group: u16, window: Range<u64>, racks: &[u32]) -> Offered {
        let scaled =
            |shares: &[(u32, f64)]| shares.iter().map(|&(host, share)| (host, share * self.bits_per_s)).collect();
        let mut per_rack = vec![(0.0, 0.0); racks.iter().max().map_or(0, |&last| last as usize + 1)];
        for &(host, share) in &self.sources {
            per_rack[racks[host as usize] as usize].0 += share;
        }
        for &(host, share) in &self.destinations {
            per_rack[racks[host as usize] as usize].1 += share;
        }
        let between = 1.0 - per_rack.iter().map(|(from, to)| from * to).sum::<f64>();
        let scale = self.between_racks.filter(|_| between > 0.0).map_or(1.0, |exactly| exactly / between);
        let rack = |number: usize, share: f64| (number as u32, share * scale * self.bits_per_s);
        let leaves = per_rack.iter().enumerate().map(|(number, (from, to))| rack(number, from * (1.0 - to)));
        let comes = per_rack.iter().enumerate().map(|(number, (from, to))| rack(number, to * (1.0 - from)));
        let some = |(_, load): &(u32, f64)| *load > 0.0;
        Offered {
            group,
            window,
            once: self.once,
            from_hosts: scaled(&self.sources),
            to_hosts: scaled(&self.destinations),
            from_racks: leaves.filter(some).collect(),
            to_racks: comes.filter(some).collect(),
        }
    }
}

impl GroupAmongOthers<'_> {
    fn mean_flow(&self) -> Result<Option<(Range<u64>, MeanFlow)>, TrafficError> {
        let context = self.context();
        let wire_bits = |sizes: &Distribution| 8.0 * context.packets.mean_wire_bytes(sizes);
        let mean = match self.group.spec {
            TrafficSpec::Poisson(spec) => context.poisson_mean(spec, true)?,
            TrafficSpec::Remainder(spec) => {
                let (whole, spec) = self.whole(spec)?;
                whole.context().poisson_mean(spec, false)?
            }
            TrafficSpec::Duplicates(spec) => {
                let Some((window, originals)) = self.duplicated(spec)?.mean_flow()? else { return Ok(None) };
                let sources = uniform(&context.hosts("sources", spec.sources.as_ref())?);
                (window, MeanFlow { sources, between_racks: None, ..originals })
            }
            TrafficSpec::Incast(spec) => {
                let rounds = spec.rounds(&context)?;
                let sizes = context.sizes(spec.size, spec.workload.as_deref())?;
                let (sources, destinations) = rounds.host_shares();
                let bits = rounds.flows * wire_bits(&sizes);
                let window = context.window(spec.start, spec.stop)?;
                context.in_rounds(window, Some(rounds.period_ps), MeanFlow::new(bits, sources, destinations))
            }
            TrafficSpec::Periodic(spec) => {
                let sources = context.hosts("sources", spec.sources.as_ref())?;
                let destinations = context.hosts("destinations", spec.destinations.as_ref())?;
                let sizes = context.sizes(spec.size, spec.workload.as_deref())?;
                let bits = sources.len() as f64 * wire_bits(&sizes);
                let period = spec.period.map(|period| context.period(period)).transpose()?;
                let destinations = match spec.destination_choice {
                    DestinationChoice::Random => uniform(&destinations),
                    DestinationChoice::Paired => paired(&sources, &destinations),
                };
                let window = context.window(spec.start, spec.stop)?;
                context.in_rounds(window, period, MeanFlow::new(bits, uniform(&sources), destinations))
            }
            TrafficSpec::AllToAll(spec) => {
                let period = spec.period.map(|period| context.period(period)).transpose()?;
                let hosts = context.hosts("hosts", spec.hosts.as_ref())?;
                let sizes = context.sizes(spec.size, spec.workload.as_deref())?;
                let flows = hosts.len() as f64 * (hosts.len() as f64 - 1.0);
                let window = context.window(spec.start, spec.stop)?;
                context.in_rounds(
                    window,
                    period,
                    MeanFlow::new(flows * wire_bits(&sizes), uniform(&hosts), uniform(&hosts)),
                )
            }
            TrafficSpec::Objects(spec) => {
                let ObjectRate { per_s, holders, receivers, mean_wire_bytes, window, .. } = spec.rate(&context)?;
                // A limited number of objects is no steady load.
                let Some(per_s) = per_s.filter(|_| spec.objects.is_none()) else { return Ok(None) };
                (window, MeanFlow::new(8.0 * mean_wire_bytes * per_s, uniform(&holders), uniform(&receivers)))
            }
            TrafficSpec::Permutation(_)
            | TrafficSpec::Flows(_)
            | TrafficSpec::ClosedLoop(_)
            | TrafficSpec::Trace(_) => return Ok(None),
        };
        Ok(Some(mean))
    }
}

impl Context<'_> {
    /// When and how much per second where `round` has the bits of each round, of which there is one per `period`, or one.
    fn in_rounds(&self, window: Range<u64>, period: Option<u64>, round: MeanFlow) -> (Range<u64>, MeanFlow) {
        if let Some(period) = period.filter(|&period| window.end - window.start > period) {
            return (window, MeanFlow { bits_per_s: round.bits_per_s / seconds(period), ..round });
        }
        let duration = self.fabric().duration.as_ps();
        (0..duration, MeanFlow { bits_per_s: round.bits_per_s / seconds(duration), once: true, ..round })
    }

    /// The flows that a `poisson` group keeps, or those that it leaves out.
    fn poisson_mean(&self, spec: &PoissonSpec, kept: bool) -> Result<(Range<u64>, MeanFlow), TrafficError> {
        let pairs = Pairs::new(self, spec.sources.as_ref(), spec.destinations.as_ref(), spec.inter_rack)?;
        let sizes = self.sizes(spec.size, spec.workload.as_deref())?;
        let rate = arrivals_per_second(self, &spec.load_spec(), &pairs, &sizes)?;
        let bits = 8.0 * self.packets.mean_wire_bytes(&sizes);
        let part = part_kept(&sizes, &spec.kept_sizes(), self.packets);
        let bits_per_s = rate * bits * if kept { part } else { 1.0 - part };
        let (sources, destinations) = pairs.host_shares();
        let between_racks = Some(pairs.link_shares().inter_rack);
        Ok((
            self.window(spec.start, spec.stop)?,
            MeanFlow { between_racks, ..MeanFlow::new(bits_per_s, sources, destinations) },
        ))
    }
}

/// What part of all bytes flows of these sizes have.
fn part_kept(sizes: &Distribution, kept: &Range<u64>, packets: PacketFormat) -> f64 {
    if kept.contains(&sizes.quantile(0.0)) && kept.contains(&sizes.max_bytes()) {
        return 1.0;
    }
    let (mut all, mut part) = (0.0, 0.0);
    for point in 0..QUANTILES {
        let size = sizes.quantile((f64::from(point) + 0.5) / f64::from(QUANTILES));
        let bytes = packets.wire_bytes(size) as f64;
        all += bytes;
        part += if kept.contains(&size) { bytes } else { 0.0 };
    }
    part / all
}

fn uniform(hosts: &[u32]) -> Vec<(u32, f64)> {
    hosts.iter().map(|&host| (host, 1.0 / hosts.len() as f64)).collect()
}

/// The n-th source sends to the n-th destination, counted round.
fn paired(sources: &[u32], destinations: &[u32]) -> Vec<(u32, f64)> {
    let (each, places) = (1.0 / sources.len() as f64, destinations.len());
    let senders = |place: usize| (sources.len() + places - 1 - place) / places;
    destinations.iter().enumerate().map(|(place, &host)| (host, each * senders(place) as f64)).collect()
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}
