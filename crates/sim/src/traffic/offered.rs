//! What groups offer to links, on average: loads of several groups on the same links add up.

use std::collections::BTreeMap;
use std::ops::Range;

use super::context::Context;
use super::environment::Environment;
use super::error::TrafficError;
use super::groups::{GroupAmongOthers, each};
use super::load::arrivals_per_second;
use super::objects::ObjectRate;
use super::pairs::Pairs;
use super::periodic::{DestinationChoice, PeriodicSpec};
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

/// A group's mean: bit/s of all its flows, and where they go.
struct MeanFlow {
    bits_per_s: f64,
    spread: Spread,
    /// Whether it is a single round.
    once: bool,
}

/// Where the bytes of a group go.
enum Spread {
    /// Sources and destinations are drawn each by itself.
    Independent {
        /// The probability with which a byte leaves each host.
        sources: Vec<(u32, f64)>,
        /// The probability with which it reaches each host.
        destinations: Vec<(u32, f64)>,
        /// The probability that it goes to another rack; `None` if that follows from the hosts' own.
        between_racks: Option<f64>,
    },
    /// Between these pairs of hosts, equally.
    Pairs(Vec<(u32, u32)>),
}

/// The probabilities with which a byte leaves and reaches each host, and leaves and reaches each rack.
type Shares = [BTreeMap<u32, f64>; 4];

impl Spread {
    fn destinations(&self) -> Vec<(u32, f64)> {
        match self {
            Self::Independent { destinations, .. } => destinations.clone(),
            Self::Pairs(_) => self.shares(&[])[1].iter().map(|(&host, &share)| (host, share)).collect(),
        }
    }

    /// Without `racks` nothing leaves one.
    fn shares(&self, racks: &[u32]) -> Shares {
        let rack_of = |host: u32| racks.get(host as usize).copied().unwrap_or(0);
        let mut shares = Shares::default();
        match self {
            Self::Independent { sources, destinations, between_racks } => {
                let mut per_rack = BTreeMap::<u32, (f64, f64)>::new();
                for &(host, share) in sources {
                    *shares[0].entry(host).or_default() += share;
                    per_rack.entry(rack_of(host)).or_default().0 += share;
                }
                for &(host, share) in destinations {
                    *shares[1].entry(host).or_default() += share;
                    per_rack.entry(rack_of(host)).or_default().1 += share;
                }
                let between = 1.0 - per_rack.values().map(|(from, to)| from * to).sum::<f64>();
                let scale = between_racks.filter(|_| between > 0.0).map_or(1.0, |exactly| exactly / between);
                for (&rack, (from, to)) in &per_rack {
                    shares[2].insert(rack, from * (1.0 - to) * scale);
                    shares[3].insert(rack, to * (1.0 - from) * scale);
                }
            }
            Self::Pairs(pairs) => {
                let each = 1.0 / pairs.len() as f64;
                for &(source, destination) in pairs {
                    *shares[0].entry(source).or_default() += each;
                    *shares[1].entry(destination).or_default() += each;
                    let (from, to) = (rack_of(source), rack_of(destination));
                    if from != to {
                        *shares[2].entry(from).or_default() += each;
                        *shares[3].entry(to).or_default() += each;
                    }
                }
            }
        }
        shares
    }
}

impl MeanFlow {
    fn new(bits_per_s: f64, sources: Vec<(u32, f64)>, destinations: Vec<(u32, f64)>) -> Self {
        Self { bits_per_s, spread: Spread::Independent { sources, destinations, between_racks: None }, once: false }
    }

    fn of_pairs(bits_per_s: f64, pairs: Vec<(u32, u32)>) -> Self {
        Self { bits_per_s, spread: Spread::Pairs(pairs), once: false }
    }

    fn offered(self, group: u16, window: Range<u64>, racks: &[u32]) -> Offered {
        let [from_hosts, to_hosts, from_racks, to_racks] = self.spread.shares(racks).map(|shares| {
            let loads = shares.into_iter().map(|(place, share)| (place, share * self.bits_per_s));
            loads.filter(|(_, load)| *load > 0.0).collect()
        });
        Offered { group, window, once: self.once, from_hosts, to_hosts, from_racks, to_racks }
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
                let destinations = originals.spread.destinations();
                (
                    window,
                    MeanFlow { once: originals.once, ..MeanFlow::new(originals.bits_per_s, sources, destinations) },
                )
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
                let round = match spec.destination_choice {
                    DestinationChoice::Random => MeanFlow::new(bits, uniform(&sources), uniform(&destinations)),
                    DestinationChoice::Paired => {
                        MeanFlow::of_pairs(bits, PeriodicSpec::pairs(&context, &sources, &destinations)?)
                    }
                };
                context.in_rounds(context.window(spec.start, spec.stop)?, period, round)
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
            TrafficSpec::Permutation(spec) => {
                // Flows without an end take what is left to them.
                if self.group.spec.has_endless_flows() && context.mean_flow_bytes().is_none() {
                    return Ok(None);
                }
                let sizes = context.sizes(spec.size, spec.workload.as_deref())?;
                let pairs = spec.pairs(&context)?;
                let bits = pairs.len() as f64 * wire_bits(&sizes);
                let window = context.window(spec.start, None)?;
                context.in_rounds(window, None, MeanFlow::of_pairs(bits, pairs))
            }
            TrafficSpec::Flows(_) | TrafficSpec::ClosedLoop(_) | TrafficSpec::Trace(_) => return Ok(None),
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
        // Of a load that follows the time, its greatest.
        let peak = spec.profile(self)?.map_or(1.0, |profile| profile.peak());
        let rate = peak * arrivals_per_second(self, &spec.load_spec(), peak, &pairs, &sizes)?;
        let bits = 8.0 * self.packets.mean_wire_bytes(&sizes);
        let part = part_kept(&sizes, &spec.kept_sizes(), self.packets);
        let bits_per_s = rate * bits * if kept { part } else { 1.0 - part };
        let (sources, destinations) = pairs.host_shares();
        let between_racks = Some(pairs.link_shares().inter_rack);
        let spread = Spread::Independent { sources, destinations, between_racks };
        Ok((self.window(spec.start, spec.stop)?, MeanFlow { bits_per_s, spread, once: false }))
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

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}
