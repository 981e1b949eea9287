use std::fmt::Write;

use pliant_proto::rng::Stream;
use proptest::prelude::*;

use super::*;
use crate::topology::TopologySpec;

const LINK: &str = "{ rate = \"10Gbit/s\", delay = \"1us\" }";

fn build(text: &str) -> Topology {
    toml::from_str::<TopologySpec>(text).unwrap().build().unwrap()
}

fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32) -> Topology {
    build(&format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = {hosts_per_leaf}\n\
         host_link = {LINK}"
    ))
}

fn fat_tree(k: u32) -> Topology {
    build(&format!("kind = \"fat-tree\"\nk = {k}\nlink = {LINK}"))
}

fn clos(pods: u32, racks: u32, aggs: u32, cores_per_agg: u32) -> Topology {
    build(&format!(
        "kind = \"clos\"\npods = {pods}\nracks_per_pod = {racks}\naggs_per_pod = {aggs}\nhosts_per_rack = 2\n\
         cores = {}\nhost_link = {LINK}",
        cores_per_agg * aggs
    ))
}

/// A connected random graph of switches with one host each, wired by `seed`.
fn random_graph(switches: u32, extra: u32, seed: u64) -> Topology {
    let mut stream = Stream::named(seed, "random graph");
    let mut cables: Vec<(u32, u32)> = (1..switches).map(|s| (stream.below(u64::from(s)) as u32, s)).collect();
    for _ in 0..extra {
        let mut draw = || stream.below(u64::from(switches)) as u32;
        let (a, b) = (draw(), draw());
        let cable = (a.min(b), a.max(b));
        // Now and then a second cable between the same switches.
        if a != b {
            cables.push(cable);
        }
    }
    let mut text = String::from("from,to,rate,delay\n");
    for (a, b) in cables {
        writeln!(text, "s{a},s{b},1Gbit/s,1us").unwrap();
    }
    for switch in 0..switches {
        writeln!(text, "host{switch},s{switch},1Gbit/s,1us").unwrap();
    }
    crate::topology::EdgeList { file: "random.csv".into(), host_delay: pliant_proto::time::Span::ZERO }
        .build_from(text.as_bytes(), "random.csv".into())
        .unwrap()
}

/// Two cables between the same switches, and two between a leaf and one of two spines: flows take each, both ways the same.
#[test]
fn flows_spread_over_parallel_cables() {
    let list = |text: &str| {
        let text = format!("from,to,rate,delay\n{text}").replace('|', ",1Gbit/s,1us\n");
        let spec = crate::topology::EdgeList { file: "x.csv".into(), host_delay: pliant_proto::time::Span::ZERO };
        spec.build_from(text.as_bytes(), "x.csv".into()).unwrap()
    };
    let pair = list("host0,a|host1,b|a,b|a,b|");
    let fabric = list("host0,l0|host1,l1|host2,l2|l0,s0|l0,s0|l0,s1|l1,s0|l1,s1|l2,s0|l2,s1|");
    for (topology, ways) in [(&pair, 2), (&fabric, 3)] {
        let routing = Routing::new(topology).unwrap();
        let mut taken = std::collections::BTreeMap::<Vec<LinkId>, u32>::new();
        for key in 0..3000 {
            let there = path(&routing, 0, 1, key);
            let mut back = path(&routing, 1, 0, key);
            back.reverse();
            assert_eq!(there, back.into_iter().map(LinkId::reverse).collect::<Vec<_>>());
            *taken.entry(there).or_default() += 1;
        }
        assert_eq!(taken.len(), ways);
        let even = 3000 / ways as u32;
        assert!(taken.values().all(|&flows| flows.abs_diff(even) < even / 5), "{taken:?}");
    }
    let names: Vec<String> = (4..8).map(|link| pair.link_name(LinkId(link))).collect();
    assert_eq!(names, ["a -> b", "b -> a", "a -> b (2)", "b -> a (2)"]);
}

fn path(routing: &Routing, src: u32, dst: u32, key: u64) -> Vec<LinkId> {
    let mut links = Vec::new();
    routing.path(NodeId(src), NodeId(dst), key, &mut links);
    links
}

/// Hops between all pairs of nodes, by relaxation of every link until nothing changes: slow and plain.
fn plain_distances(topology: &Topology) -> Vec<Vec<u32>> {
    let nodes = topology.nodes() as usize;
    let mut distances = vec![vec![u32::MAX / 2; nodes]; nodes];
    (0..nodes).for_each(|node| distances[node][node] = 0);
    // No shortest path has more links than there are nodes.
    for _ in 0..nodes {
        for link in topology.links() {
            let beyond = distances[link.to.index()].clone();
            for (here, beyond) in distances[link.from.index()].iter_mut().zip(beyond) {
                *here = (*here).min(beyond + 1);
            }
        }
    }
    distances
}

/// Next links are exactly the links that come one hop nearer, ordered by plane, and `max_hops` is the diameter.
fn check_next_links(topology: &Topology) {
    let (routing, distances) = (Routing::new(topology).unwrap(), plain_distances(topology));
    let mut diameter = 0;
    for host in (0..topology.hosts()).map(NodeId) {
        for node in (0..topology.nodes()).map(NodeId) {
            let left = distances[node.index()][host.index()];
            let nearer = |link: &&LinkId| distances[topology.link(**link).to.index()][host.index()] < left;
            let mut expected: Vec<LinkId> = topology.outgoing(node).iter().filter(nearer).copied().collect();
            expected.sort_by_key(|&link| (topology.link(link).plane, topology.link(link).to));
            assert_eq!(routing.next_links(node, host), expected, "{} to {}", node.0, host.0);
            if topology.is_host(node) {
                diameter = diameter.max(left as usize);
            }
        }
    }
    assert_eq!(routing.max_hops(), diameter);
}

/// Every path is a shortest one that hangs together, and the way back is its mirror.
fn check_paths(topology: &Topology, keys: u64) {
    let routing = Routing::new(topology).unwrap();
    let distances = plain_distances(topology);
    for (src, dst) in (0..topology.hosts()).flat_map(|src| (0..topology.hosts()).map(move |dst| (src, dst))) {
        for key in (0..keys).filter(|_| src != dst) {
            let links = path(&routing, src, dst, key);
            assert_eq!(links.len() as u32, distances[src as usize][dst as usize]);
            let mut node = NodeId(src);
            for &link in &links {
                assert_eq!(topology.link(link).from, node);
                node = topology.link(link).to;
            }
            assert_eq!(node, NodeId(dst));
            let mut back = path(&routing, dst, src, key);
            back.reverse();
            assert!(links.iter().zip(&back).all(|(link, back)| link.reverse() == *back), "{src} {dst} {key}");
        }
    }
}

/// Upper tail of the chi-squared statistic of `counts` against equal shares.
fn chi_squared(counts: &[u32]) -> f64 {
    let expected = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum()
}

/// Chi-squared with 7 degrees of freedom exceeds this with probability 0.01.
const CHI_SQUARED_7_AT_1_PERCENT: f64 = 18.475;

#[test]
fn small_networks_have_the_known_hops() {
    for (topology, hops) in [
        (build(&format!("kind = \"star\"\nhosts = 3\nlink = {LINK}")), 2),
        (build(&format!("kind = \"dumbbell\"\npairs = 2\nedge_link = {LINK}\nbottleneck_link = {LINK}")), 3),
        (build(&format!("kind = \"parking-lot\"\nhops = 4\nedge_link = {LINK}\nbottleneck_link = {LINK}")), 6),
        (leaf_spine(3, 2, 2), 4),
        (fat_tree(4), 6),
        (clos(8, 4, 2, 4), 6),
        (clos(1, 3, 2, 1), 4),
        (clos(3, 1, 2, 2), 6),
    ] {
        assert_eq!(Routing::new(&topology).unwrap().max_hops(), hops);
        check_next_links(&topology);
        check_paths(&topology, 3);
    }
}

#[test]
fn candidates_are_ordered_by_plane() {
    let topology = fat_tree(4);
    let routing = Routing::new(&topology).unwrap();
    let up = routing.next_links(topology.rack(NodeId(0)), NodeId(15));
    assert_eq!(up.iter().map(|&link| topology.link(link).plane).collect::<Vec<_>>(), [0, 1]);
    let agg = topology.link(up[1]).to;
    let cores: Vec<u32> = routing.next_links(agg, NodeId(15)).iter().map(|&link| topology.link(link).plane).collect();
    assert_eq!(cores, [1, 3], "plane 1 holds the odd cores");
}

/// 10^5 flows over eight equal-cost links: chi-squared with p > 0.01, for flows of many pairs and of one pair.
#[test]
fn flows_spread_evenly() {
    let topology = leaf_spine(8, 8, 8);
    let routing = Routing::new(&topology).unwrap();
    let mut stream = Stream::named(1, "flows");
    let spine = |links: &[LinkId]| topology.link(links[1]).plane as usize;
    let (mut pairs, mut keys) = ([0; 8], [0; 8]);
    for key in 0..100_000 {
        let (src, dst) = (stream.below(8) as u32, 8 + stream.below(56) as u32);
        pairs[spine(&path(&routing, src, dst, key))] += 1;
        keys[spine(&path(&routing, 0, 63, key))] += 1;
    }
    assert!(chi_squared(&pairs) < CHI_SQUARED_7_AT_1_PERCENT, "{pairs:?}");
    assert!(chi_squared(&keys) < CHI_SQUARED_7_AT_1_PERCENT, "{keys:?}");
}

/// Weighted links are taken in proportion to their weights, each switch by its own; a weight that all have changes no share.
#[test]
fn flows_spread_by_weight() {
    let topology = leaf_spine(3, 3, 2);
    let of_link = |link: usize| {
        let link = &topology.links()[link];
        if topology.is_host(link.from) { 7 } else { 1 + u64::from(link.plane) }
    };
    let weights: Vec<u64> = (0..topology.links().len()).map(of_link).collect();
    let routing = Routing::new(&topology).unwrap().weighted(weights);
    let mut counts = [0u32; 3];
    for key in 0..60_000 {
        let there = path(&routing, 5, 0, key);
        assert_eq!(there.len(), 4);
        counts[topology.link(there[1]).plane as usize] += 1;
    }
    let expected = [10_000.0, 20_000.0, 30_000.0];
    let chi: f64 =
        counts.iter().zip(expected).map(|(&count, expected)| (f64::from(count) - expected).powi(2) / expected).sum();
    // Chi-squared with 2 degrees of freedom exceeds 9.21 with probability 0.01.
    assert!(chi < 9.21, "{counts:?}");
    let links: Vec<LinkId> = routing.next_links(topology.rack(NodeId(5)), NodeId(0)).to_vec();
    let edges = [0, u32::MAX / 6, u32::MAX / 6 + 2, u32::MAX / 2, u32::MAX / 2 + 2, u32::MAX];
    assert_eq!(edges.map(|drawn| routing.weighted_choice(&links, drawn)), [0, 0, 1, 1, 2, 2]);
}

/// The flows that one choice sends to an aggregation switch spread evenly over its cores: tiers do not polarise.
#[test]
fn tiers_choose_independently() {
    let topology = fat_tree(16);
    let routing = Routing::new(&topology).unwrap();
    let mut counts = [[0u32; 8]; 8];
    for key in 0..100_000 {
        let links = path(&routing, 0, 1023, key);
        let (agg, core) = (topology.link(links[1]).plane, topology.link(links[2]).plane);
        assert_eq!(core % 8, agg);
        counts[agg as usize][(core / 8) as usize] += 1;
    }
    // Chi-squared with 63 degrees of freedom exceeds 92.01 with probability 0.01.
    assert!(chi_squared(counts.as_flattened()) < 92.01, "{counts:?}");
}

/// Of flows that take turns, as many in a row as there are paths take each path once: those to the aggregation switches first,
/// then those to the cores.
#[test]
fn flows_in_turn_take_each_path_once() {
    let topology = fat_tree(4);
    let routing = Routing::new(&topology).unwrap().in_turn();
    let mut links = Vec::new();
    let mut of_flow = |number| {
        routing.path_in_turn(NodeId(0), NodeId(15), number, &mut links);
        assert_eq!(links.len(), 6);
        (topology.link(links[1]).plane, topology.link(links[2]).plane)
    };
    assert_eq!([0, 1, 2, 3, 4].map(&mut of_flow), [(0, 0), (1, 1), (0, 2), (1, 3), (0, 0)]);
    routing.path_in_turn(NodeId(0), NodeId(1), 3, &mut links);
    assert_eq!(links.len(), 2, "one path has no turns");
}

/// The table of a large network: 11,664 hosts, below 4 kB each with the topology's own arrays.
#[test]
fn large_fat_tree_stays_small() {
    let topology = fat_tree(36);
    assert_eq!(topology.hosts(), 11_664);
    let routing = Routing::new(&topology).unwrap();
    let bytes = (topology.memory_bytes() + routing.memory_bytes()) / topology.hosts() as usize;
    assert!(bytes < 4000, "{bytes} bytes per host");
    assert_eq!(path(&routing, 0, 11_663, 7).len(), 6);
}

/// A ring of 20,000 switches would need 4 * 10^8 entries.
#[test]
fn tables_beyond_memory_are_refused() {
    let switches = 20_000;
    let mut text = String::from("from,to,rate,delay\n");
    for switch in 0..switches {
        let next = (switch + 1) % switches;
        writeln!(text, "s{switch},s{next},1Gbit/s,1us\nhost{switch},s{switch},1Gbit/s,1us").unwrap();
    }
    let ring = crate::topology::EdgeList { file: "ring.csv".into(), host_delay: pliant_proto::time::Span::ZERO }
        .build_from(text.as_bytes(), "ring.csv".into())
        .unwrap();
    assert!(Routing::new(&ring).unwrap_err().to_string().contains("400000000 table entries"));
}

proptest! {
    /// In Clos networks both directions, each computed hop by hop, mirror each other.
    #[test]
    fn clos_paths_mirror(pods in 1u32..5, racks in 1u32..4, aggs in 1u32..4, cores in 1u32..4, spines in 1u32..9) {
        check_paths(&clos(pods, racks, aggs, cores), 4);
        check_paths(&leaf_spine(racks + 1, spines, 2), 4);
    }

    /// Arbitrary graphs have exact next links, shortest paths and mirrored returns.
    #[test]
    fn random_graphs_route_exactly(switches in 2u32..12, extra in 0u32..20, seed: u64) {
        let topology = random_graph(switches, extra, seed);
        check_next_links(&topology);
        check_paths(&topology, 3);
    }
}

proptest! {
    /// Without some cables every path is a shortest of those that are left, from any switch each hop comes nearer, so nothing
    /// loops; where a host cannot be reached, that is said.
    #[test]
    fn paths_without_links_avoid_them(switches in 3u32..9, extra in 0u32..12, seed: u64, failed in 0usize..5) {
        let topology = random_graph(switches, extra, seed);
        let hosts = topology.hosts();
        let between = |link: u32| {
            let link = topology.link(LinkId(link));
            !topology.is_host(link.from) && !topology.is_host(link.to)
        };
        let mut cables: Vec<u32> = (0..topology.links().len() as u32).step_by(2).filter(|&link| between(link)).collect();
        Stream::named(seed, "failed").shuffle(&mut cables);
        let dead: BTreeSet<u32> = cables.iter().take(failed).flat_map(|&link| [link, link ^ 1]).collect();
        // Hops from every node to host 0's switch over what is left.
        let hops_to = |host: u32| {
            let mut hops = vec![None; topology.nodes() as usize];
            let mut queue = std::collections::VecDeque::from([NodeId(host)]);
            hops[host as usize] = Some(0u32);
            while let Some(node) = queue.pop_front() {
                for &link in topology.outgoing(node).iter().filter(|link| !dead.contains(&link.0)) {
                    let to = topology.link(link).to;
                    if hops[to.index()].is_none() && (!topology.is_host(to)) {
                        hops[to.index()] = hops[node.index()].map(|hops| hops + 1);
                        queue.push_back(to);
                    }
                }
            }
            hops
        };
        let is_whole = (0..hosts).all(|host| {
            let hops = hops_to(host);
            (0..hosts).all(|other| hops[topology.rack(NodeId(other)).index()].is_some())
        });
        let routing = Routing::without(&topology, &dead);
        prop_assert_eq!(routing.is_ok(), is_whole);
        let Ok(routing) = routing else { return Ok(()) };
        for destination in 0..hosts {
            let hops = hops_to(destination);
            for switch in hosts..topology.nodes() {
                for &link in routing.next_links(NodeId(switch), NodeId(destination)) {
                    prop_assert!(!dead.contains(&link.0));
                    let to = topology.link(link).to;
                    let left = if to == NodeId(destination) { Some(0) } else { hops[to.index()] };
                    prop_assert_eq!(left.map(|left| left + 1), hops[switch as usize]);
                }
            }
            for source in (0..hosts).filter(|&source| source != destination) {
                let links = path(&routing, source, destination, seed);
                prop_assert_eq!(links.len() as u32, hops[topology.rack(NodeId(source)).index()].unwrap() + 1);
                prop_assert!(links.iter().all(|link| !dead.contains(&link.0)));
            }
        }
    }
}

/// A random graph of switches, where each host has one to three cables to any of them.
fn random_homes(switches: u32, extra: u32, hosts: u32, seed: u64) -> Topology {
    let mut stream = Stream::named(seed, "random homes");
    let mut text = String::from("from,to,rate,delay\n");
    for switch in 1..switches {
        writeln!(text, "s{switch},s{},1Gbit/s,1us", stream.below(u64::from(switch))).unwrap();
    }
    for _ in 0..extra {
        let (a, b) = (stream.below(u64::from(switches)), stream.below(u64::from(switches)));
        if a != b {
            writeln!(text, "s{a},s{b},1Gbit/s,1us").unwrap();
        }
    }
    for host in 0..hosts {
        for _ in 0..=stream.below(3) {
            writeln!(text, "host{host},s{},1Gbit/s,1us", stream.below(u64::from(switches))).unwrap();
        }
    }
    crate::topology::EdgeList { file: "homes.csv".into(), host_delay: pliant_proto::time::Span::ZERO }
        .build_from(text.as_bytes(), "homes.csv".into())
        .unwrap()
}

/// Hops from every node to a host, where hosts carry nothing for others; `None` where there is no path.
fn hops_to_host(topology: &Topology, host: u32, dead: &BTreeSet<u32>) -> Vec<Option<u32>> {
    let mut hops = vec![None; topology.nodes() as usize];
    let mut queue = std::collections::VecDeque::from([NodeId(host)]);
    hops[host as usize] = Some(0u32);
    while let Some(node) = queue.pop_front() {
        if topology.is_host(node) && node.0 != host {
            continue;
        }
        for &link in topology.outgoing(node).iter().filter(|link| !dead.contains(&link.0)) {
            let to = topology.link(link).to;
            if hops[to.index()].is_none() {
                hops[to.index()] = hops[node.index()].map(|hops| hops + 1);
                queue.push_back(to);
            }
        }
    }
    hops
}

proptest! {
    /// Hosts with several links: from every node the next links are exactly those that come nearer without passing through
    /// another host, of hosts too; paths are shortest, and the way back is the way there; with links missing as well.
    #[test]
    fn hosts_with_several_links_route_exactly(
        switches in 1u32..7, extra in 0u32..8, hosts in 2u32..9, seed: u64, failed in 0usize..4,
    ) {
        let topology = random_homes(switches, extra, hosts, seed);
        let may_fail = |link: u32| {
            let link = topology.link(LinkId(link));
            [link.from, link.to].into_iter().all(|end| !topology.is_host(end) || topology.has_several_links(end))
        };
        let mut cables: Vec<u32> = (0..topology.links().len() as u32).step_by(2).filter(|&link| may_fail(link)).collect();
        Stream::named(seed, "failed").shuffle(&mut cables);
        let dead: BTreeSet<u32> = cables.iter().take(failed).flat_map(|&link| [link, link ^ 1]).collect();
        let routing = Routing::without(&topology, &dead);
        let is_whole = (0..hosts).all(|host| {
            let hops = hops_to_host(&topology, host, &dead);
            (0..hosts).all(|other| hops[other as usize].is_some())
        });
        prop_assert_eq!(routing.is_ok(), is_whole);
        let Ok(routing) = routing else { return Ok(()) };
        let mut longest = 0;
        for destination in 0..hosts {
            let hops = hops_to_host(&topology, destination, &dead);
            for node in (0..topology.nodes()).filter(|&node| node != destination) {
                let expected: BTreeSet<LinkId> = topology.outgoing(NodeId(node)).iter().copied().filter(|link| {
                    let to = topology.link(*link).to;
                    let may_pass = !topology.is_host(to) || to.0 == destination;
                    // A host with one link has no choice.
                    let nearer = hops[to.index()].map(|left| left + 1) == hops[node as usize];
                    !dead.contains(&link.0) && may_pass && hops[node as usize].is_some() && nearer
                }).collect();
                let found: BTreeSet<LinkId> =
                    routing.next_links(NodeId(node), NodeId(destination)).iter().copied().collect();
                prop_assert_eq!(&found, &expected, "{} to {}", node, destination);
            }
            for source in (0..hosts).filter(|&source| source != destination) {
                let there = path(&routing, source, destination, seed);
                longest = longest.max(there.len());
                prop_assert_eq!(Some(there.len() as u32), hops[source as usize]);
                let mut back = path(&routing, destination, source, seed);
                back.reverse();
                prop_assert!(there.iter().zip(&back).all(|(link, back)| link.reverse() == *back));
            }
        }
        prop_assert!(longest <= routing.max_hops());
    }
}

/// Dual-homed racks: the known hops, and each of the two links of both ends carries half of the flows, independently.
#[test]
fn dual_homed_hosts_use_both_links() {
    let topology = build(&format!(
        "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 3\nleaves_per_host = 2\nhost_link = {LINK}"
    ));
    let routing = Routing::new(&topology).unwrap();
    assert_eq!(routing.max_hops(), 4);
    let mut counts = [0u32; 8];
    for key in 0..40_000 {
        let links = path(&routing, 0, 5, key);
        assert_eq!((links.len(), path(&routing, 0, 2, key).len()), (4, 2));
        let up = topology.outgoing(NodeId(0)).iter().position(|&link| link == links[0]).unwrap();
        let down = topology.outgoing(NodeId(5)).iter().position(|&link| link == links[3].reverse()).unwrap();
        counts[4 * up + 2 * down + topology.link(links[1]).plane as usize] += 1;
    }
    assert!(chi_squared(&counts) < CHI_SQUARED_7_AT_1_PERCENT, "{counts:?}");
    // Pairs of racks are one class of destinations: tables grow with pairs, not with hosts.
    assert!(routing.memory_bytes() < 2500, "{}", routing.memory_bytes());
}
