//! A picture of the network: every cable coloured by how busy it was, the bottleneck named.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::escape::escape;
use super::measures::number;
use crate::results::RunResult;
use crate::scenario::Scenario;
use crate::topology::{LinkId, NodeId, Topology};

/// Most hosts and most cables of a picture: more would be lines on lines.
const MOST_HOSTS: u32 = 512;
const MOST_CABLES: usize = 4000;
/// Ports with more rows than this are not looked at: the network would have to be built again.
const MOST_ROWS: usize = 40_000;
/// Size of the picture; it is stretched to the page.
const WIDTH: f64 = 1200.0;
const TIER_HEIGHT: f64 = 110.0;
const MARGIN: f64 = 24.0;
/// Between two cables of the same nodes.
const CABLE_GAP: f64 = 5.0;
/// Names are shown of so many nodes of a tier.
const NAMED: usize = 24;

/// What a link carried, as a part of what it could.
struct Load {
    link: LinkId,
    utilisation: f64,
    most_queued_packets: u64,
}

/// The section, unless the scenario cannot be read again or the network is too large.
pub(super) fn picture(run: &RunResult, scenario_toml: &str) -> Option<String> {
    if run.ports.is_empty() || run.ports.len() > MOST_ROWS {
        return None;
    }
    let resolved = Scenario::parse(scenario_toml, Path::new("scenario.toml")).ok()?.resolve().ok()?;
    let topology = &resolved.topology;
    if topology.hosts() > MOST_HOSTS || topology.links().len() / 2 > MOST_CABLES {
        return None;
    }
    let loads = loads(run, topology)?;
    let busiest =
        loads.iter().max_by(|a, b| a.utilisation.total_cmp(&b.utilisation)).filter(|load| load.utilisation > 0.0)?;
    let told = format!(
        "Busiest: {}, of {}, {} % full in the mean over the run; at most {} packets waited there.",
        topology.link_name(busiest.link),
        topology.link(busiest.link).rate,
        number(100.0 * busiest.utilisation),
        busiest.most_queued_packets
    );
    Some(format!(
        "<section id=\"network\"><h2>Where the traffic goes</h2><figure class=\"wide\">{}<figcaption>{} Each cable has the \
         colour of its busier direction: <span class=\"key\"></span> 0 to 100&nbsp;%.</figcaption></figure></section>\n",
        drawing(topology, &loads, busiest.link, &told),
        escape(&told)
    ))
}

/// Of every link; `None` if the rows are of another network.
fn loads(run: &RunResult, topology: &Topology) -> Option<Vec<Load>> {
    let seconds = run.simulated.as_secs_f64();
    let load = |link| Load { link, utilisation: 0.0, most_queued_packets: 0 };
    let mut loads: Vec<Load> = topology.link_ids().map(load).collect();
    for row in &run.ports {
        let load = loads.get_mut(row.port as usize)?;
        let capacity = topology.link(load.link).rate.bits_per_sec() as f64 * seconds;
        load.utilisation += row.dequeued().bytes as f64 * 8.0 / capacity.max(1.0);
        load.most_queued_packets = load.most_queued_packets.max(u64::from(row.counters.max_packets));
    }
    Some(loads)
}

fn drawing(topology: &Topology, loads: &[Load], busiest: LinkId, told: &str) -> String {
    let tiers = topology.tiers() as usize;
    let height = TIER_HEIGHT * tiers as f64 + 2.0 * MARGIN;
    let places = places(topology);
    let mut svg = format!(
        "<svg class=\"network\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" tabindex=\"0\" aria-label=\"{}\">",
        escape(told)
    );
    // The busiest last, so that they lie on top.
    let mut cables: Vec<(usize, f64)> = (0..loads.len() / 2)
        .map(|cable| (cable, loads[2 * cable].utilisation.max(loads[2 * cable + 1].utilisation)))
        .collect();
    cables.sort_by(|a, b| a.1.total_cmp(&b.1));
    let aside = beside_each_other(topology, loads);
    for (cable, utilisation) in cables {
        let (there, back) = (&loads[2 * cable], &loads[2 * cable + 1]);
        let link = topology.link(there.link);
        let ((x1, y1), (x2, y2)) = moved(places[link.from.index()], places[link.to.index()], aside[cable]);
        let is_busiest = busiest.index() / 2 == cable;
        let percent = |load: &Load| format!("{} {} %", topology.link_name(load.link), number(100.0 * load.utilisation));
        write!(
            svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{}\" stroke-width=\"{}\"><title>{}, {}</title>\
             </line>",
            heat(utilisation),
            if is_busiest { 5.0 } else { 1.0 + 2.0 * utilisation.min(1.0) },
            escape(&percent(there)),
            escape(&percent(back))
        )
        .expect(TAKES_ALL);
    }
    for node in 0..topology.nodes() {
        let (x, y) = places[node as usize];
        let name = escape(&topology.node_name(NodeId(node)));
        let radius = if topology.is_host(NodeId(node)) { 2.5 } else { 6.0 };
        write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"><title>{name}</title></circle>")
            .expect(TAKES_ALL);
    }
    for tier in 0..=tiers as u32 {
        let of_tier: Vec<u32> = (0..topology.nodes()).filter(|&node| topology.tier(NodeId(node)) == tier).collect();
        if of_tier.len() > NAMED {
            continue;
        }
        for node in of_tier {
            let (x, y) = places[node as usize];
            let y = if tier == 0 { y + 16.0 } else { y - 10.0 };
            let name = escape(&topology.node_name(NodeId(node)));
            write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>").expect(TAKES_ALL);
        }
    }
    svg.push_str("</svg>");
    svg
}

const TAKES_ALL: &str = "a string takes all";

/// A line that lies so far beside the one between two places, to the same side whichever place is named first.
fn moved(from: (f64, f64), to: (f64, f64), aside: f64) -> ((f64, f64), (f64, f64)) {
    let (across, down) = (to.0 - from.0, to.1 - from.1);
    let length = across.hypot(down).max(1.0);
    let side = if (across, down) < (0.0, 0.0) { -aside } else { aside };
    let (x, y) = (-down / length * side, across / length * side);
    ((from.0 + x, from.1 + y), (to.0 + x, to.1 + y))
}

/// How far each cable is drawn to the side: several between the same nodes lie next to each other.
fn beside_each_other(topology: &Topology, loads: &[Load]) -> Vec<f64> {
    let ends = |cable: usize| {
        let link = topology.link(loads[2 * cable].link);
        (link.from.index().min(link.to.index()), link.from.index().max(link.to.index()))
    };
    let cables = 0..loads.len() / 2;
    let mut between: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    cables.clone().for_each(|cable| between.entry(ends(cable)).or_default().push(cable));
    let mut aside = vec![0.0; cables.len()];
    for together in between.values() {
        let middle = (together.len() - 1) as f64 / 2.0;
        for (place, &cable) in together.iter().enumerate() {
            aside[cable] = CABLE_GAP * (place as f64 - middle);
        }
    }
    aside
}

/// Where each node stands: hosts at the bottom, each tier above the one below, evenly from left to right.
fn places(topology: &Topology) -> Vec<(f64, f64)> {
    let tiers = topology.tiers();
    let mut places = vec![(0.0, 0.0); topology.nodes() as usize];
    for tier in 0..=tiers {
        let of_tier: Vec<usize> = (0..topology.nodes())
            .filter(|&node| topology.tier(NodeId(node)) == tier)
            .map(|node| node as usize)
            .collect();
        let step = (WIDTH - 2.0 * MARGIN) / of_tier.len().max(1) as f64;
        for (at, node) in of_tier.into_iter().enumerate() {
            let y = MARGIN + TIER_HEIGHT * f64::from(tiers - tier);
            places[node] = (MARGIN + step * (at as f64 + 0.5), y);
        }
    }
    places
}

/// From pale blue over yellow to red, for 0 to 1.
fn heat(utilisation: f64) -> String {
    const STOPS: [(f64, f64, f64); 4] =
        [(176.0, 196.0, 222.0), (0.0, 114.0, 178.0), (230.0, 159.0, 0.0), (200.0, 30.0, 20.0)];
    let at = utilisation.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (at as usize).min(STOPS.len() - 2);
    let share = at - low as f64;
    let mix = |a: f64, b: f64| (a + (b - a) * share).round() as u8;
    let ((r1, g1, b1), (r2, g2, b2)) = (STOPS[low], STOPS[low + 1]);
    format!("#{:02x}{:02x}{:02x}", mix(r1, r2), mix(g1, g2), mix(b1, b2))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Three hosts send to a fourth: the link to it is the bottleneck, it is named, and it is close to full.
    #[test]
    fn the_bottleneck_is_named() {
        let text = "duration = '2ms'\ndrain = '0s'\n[topology]\nkind = 'star'\nhosts = 4\nlink = '10Gbit/s'\n[traffic.in]\nkind = 'flows'\n\
                    flows = [{ source = 0, destination = 3 }, { source = 1, destination = 3 }, { source = 2, destination = 3 }]\n";
        let resolved = Scenario::parse(text, Path::new("star.toml")).unwrap().resolve().unwrap();
        let run = crate::run::run(&resolved, &AtomicBool::default(), &mut |_| ()).unwrap();
        let section = picture(&run, &resolved.to_toml()).unwrap();
        let told = section.split("<figcaption>Busiest: ").nth(1).unwrap();
        assert!(told.starts_with("switch 0 -&gt; host 3, of 10Gbit/s, "), "{told}");
        let percent: f64 = told.split("10Gbit/s, ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((90.0..=100.0).contains(&percent), "{percent}");
        assert_eq!(section.matches("<line ").count(), 4);
        assert_eq!(section.matches("stroke-width=\"5\"").count(), 1);
        assert!(picture(&run, "no scenario").is_none());
    }

    /// Two cables between one leaf and one spine, of which both are seen.
    #[test]
    fn parallel_cables_lie_next_to_each_other() {
        let text = "duration = '1ms'\n[topology]\nkind = 'leaf-spine'\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\ncables = 2\n\
                    host_link = '10Gbit/s'\n[traffic.in]\nkind = 'flows'\nflows = [{ source = 0, destination = 1, size = '1MB' }]\n";
        let resolved = Scenario::parse(text, Path::new("two.toml")).unwrap().resolve().unwrap();
        let run = crate::run::run(&resolved, &AtomicBool::default(), &mut |_| ()).unwrap();
        let section = picture(&run, &resolved.to_toml()).unwrap();
        let mut places: Vec<&str> =
            section.split("<line ").skip(1).map(|line| line.split(" stroke").next().unwrap()).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 6, "{places:?}");
    }

    #[test]
    fn colours_go_from_pale_to_red() {
        assert_eq!([0.0, 1.0, 2.0].map(heat), ["#b0c4de", "#c81e14", "#c81e14"]);
    }
}
