use std::path::PathBuf;

use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use proptest::prelude::*;

use super::*;

fn read(text: &str) -> TopologySpec {
    toml::from_str(text).unwrap()
}

fn build(text: &str) -> Topology {
    read(text).build().unwrap()
}

fn build_error(text: &str) -> String {
    read(text).build().unwrap_err().to_string()
}

const LINK: &str = "{ rate = \"10Gbit/s\", delay = \"1us\" }";

fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32) -> String {
    format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = {hosts_per_leaf}\n\
         host_link = {LINK}"
    )
}

fn names(topology: &Topology, nodes: &[u32]) -> Vec<String> {
    nodes.iter().map(|&node| topology.node_name(NodeId(node))).collect()
}

#[test]
fn dumbbell_has_one_bottleneck() {
    let topology = build(&format!(
        "kind = \"dumbbell\"\npairs = 3\nedge_link = {LINK}\nhost_delay = \"4us\"\n\
         bottleneck_link = {{ rate = \"1Gbit/s\", delay = \"7us\" }}"
    ));
    assert_eq!((topology.hosts(), topology.switches(), topology.links().len()), (6, 2, 14));
    assert_eq!(topology.describe(), "dumbbell: 6 hosts, 2 switches in 1 tier, 7 cables, host links 10Gbit/s");
    let bottleneck = topology.link(LinkId(12));
    assert_eq!((bottleneck.from, bottleneck.to, bottleneck.delay), (NodeId(6), NodeId(7), Span::from_us(7)));
    let racks: Vec<u32> = (0..6).map(|host| topology.rack(NodeId(host)).0).collect();
    assert_eq!(racks, [6, 6, 6, 7, 7, 7]);
    let host_link = topology.link(topology.uplink(NodeId(0)));
    assert_eq!(host_link.delay, Span::from_us(5), "the host's processing delay counts in each direction");
    assert_eq!(topology.link(topology.uplink(NodeId(0)).reverse()).delay, Span::from_us(5));
    assert_eq!(topology.link_name(LinkId(12)), "switch 0 -> switch 1");
}

#[test]
fn star_and_parking_lot_have_their_sizes() {
    let star = build(&format!("kind = \"star\"\nhosts = 40\nlink = {LINK}"));
    assert_eq!(star.describe(), "star: 40 hosts, 1 switch in 1 tier, 40 cables, host links 10Gbit/s");
    let lot = build(&format!("kind = \"parking-lot\"\nhops = 3\nedge_link = {LINK}\nbottleneck_link = {LINK}"));
    assert_eq!((lot.hosts(), lot.switches(), lot.links().len()), (8, 4, 22));
    let racks: Vec<String> = (0..8).map(|host| lot.node_name(lot.rack(NodeId(host)))).collect();
    let ends = ["0", "3", "0", "1", "1", "2", "2", "3"].map(|switch| format!("switch {switch}"));
    assert_eq!(racks, ends);
}

/// B4 has 18 sites and the 40 links that are known, 12 of them between continents, each once. Between every two sites a
/// path of least delay is among those of fewest links; between 18 of the 153 pairs there are slower ones among these,
/// which routing by hops takes for equal.
#[test]
fn b4_is_what_is_known_of_it() {
    let topology = build(&format!("kind = \"b4\"\nhosts_per_site = 2\nhost_link = {LINK}\nrate = \"1Gbit/s\""));
    assert_eq!((topology.hosts(), topology.switches(), topology.links().len()), (36, 18, 2 * (36 + 40)));
    assert_eq!(names(&topology, &[0, 35, 36, 53]), ["host 0", "host 35", "site 0", "site 17"]);
    assert_eq!(topology.rack(NodeId(5)), NodeId(36 + 2));
    let continent = |site: u32| [5, 12, 13].iter().filter(|first| site >= **first).count();
    let links: Vec<(u32, u32)> = b4::NEAR.into_iter().chain(b4::FAR).collect();
    assert!(b4::NEAR.iter().all(|&(a, b)| continent(a) == continent(b)));
    assert!(b4::FAR.iter().all(|&(a, b)| continent(a) != continent(b)));
    let different: std::collections::BTreeSet<_> = links.iter().collect();
    assert_eq!((links.len(), different.len(), b4::FAR.len()), (40, 40, 12));
    // Fewest links with the least and, negative, the greatest delay of such paths, and least delay, by Floyd and Warshall.
    let sites = b4::SITES as usize;
    let mut best = vec![vec![(99, 0); sites]; sites];
    let (mut worst, mut by_delay) = (best.clone(), vec![vec![999i32; sites]; sites]);
    for (number, &(a, b)) in links.iter().enumerate() {
        let delay = if number < b4::NEAR.len() { 1 } else { 10 };
        for (a, b) in [(a as usize, b as usize), (b as usize, a as usize)] {
            (best[a][b], worst[a][b], by_delay[a][b]) = ((1, delay), (1, -delay), delay);
        }
    }
    for via in 0..sites {
        for a in 0..sites {
            for b in (0..sites).filter(|&b| a != b && a != via && b != via) {
                for paths in [&mut best, &mut worst] {
                    let through = (paths[a][via].0 + paths[via][b].0, paths[a][via].1 + paths[via][b].1);
                    paths[a][b] = paths[a][b].min(through);
                }
                by_delay[a][b] = by_delay[a][b].min(by_delay[a][via] + by_delay[via][b]);
            }
        }
    }
    let mut slower = 0;
    for a in 0..sites {
        for b in 0..a {
            assert_eq!(best[a][b].1, by_delay[a][b], "{a} to {b}");
            slower += u32::from(-worst[a][b].1 != by_delay[a][b]);
        }
    }
    assert_eq!(slower, 18);
    let one_big_switch = build(&format!("kind = \"one-big-switch\"\nhosts = 5\nlink = {LINK}"));
    assert_eq!(one_big_switch.switches(), 1);
    let fat_tree = build(&format!("kind = \"fat-tree\"\nk = 8\nlink = {LINK}"));
    assert_eq!((fat_tree.hosts(), fat_tree.switches()), (128, 80));
}

#[test]
fn leaf_spine_connects_every_leaf_to_every_spine() {
    let topology = build(&leaf_spine(3, 2, 4));
    assert_eq!(
        topology.describe(),
        "leaf-spine: 12 hosts, 5 switches in 2 tiers, 18 cables, host links 10Gbit/s, oversubscription 2:1 from the \
         hosts up"
    );
    assert_eq!(
        names(&topology, &[0, 11, 12, 14, 15, 16]),
        ["host 0", "host 11", "leaf 0", "leaf 2", "spine 0", "spine 1"]
    );
    for leaf in 12..15 {
        let planes: Vec<u32> =
            topology.outgoing(NodeId(leaf)).iter().skip(4).map(|&link| topology.link(link).plane).collect();
        assert_eq!(planes, [0, 1]);
    }
}

/// k = 8 gives the 128 hosts and 80 switches of the paper's formula.
#[test]
fn fat_tree_has_the_papers_sizes() {
    let topology = build(&format!("kind = \"fat-tree\"\nk = 8\nlink = {LINK}"));
    assert_eq!((topology.hosts(), topology.switches(), topology.tiers()), (128, 80, 3));
    assert_eq!(topology.links().len(), 3 * 128 * 2);
    assert_eq!((topology.oversubscription(1), topology.oversubscription(2)), (Some(1.0), Some(1.0)));
    for switch in 128..208 {
        assert_eq!(topology.outgoing(NodeId(switch)).len(), 8, "every switch uses its k ports");
    }
    assert_eq!(names(&topology, &[128, 133, 170, 192]), ["tor 0.0", "tor 1.1", "agg 2.2", "core 0"]);
}

/// FlexPass's network: 192 hosts, 32 ToR, 16 aggregation and 8 core switches of 8 ports, 3:1.
#[test]
fn clos_builds_the_flexpass_network() {
    let topology = build(
        "kind = \"clos\"\npods = 8\nracks_per_pod = 4\naggs_per_pod = 2\nhosts_per_rack = 6\ncores = 8\n\
         host_link = { rate = \"40Gbit/s\", delay = \"1us\" }\ncore_link = { rate = \"100Gbit/s\", delay = \"2us\" }",
    );
    assert_eq!((topology.hosts(), topology.switches()), (192, 32 + 16 + 8));
    assert!((192..248).all(|switch| topology.outgoing(NodeId(switch)).len() == 8));
    assert_eq!(topology.oversubscription(1), Some(3.0));
    assert!(topology.describe().ends_with("host links 40Gbit/s, oversubscription 3:1 and 0.4:1 from the hosts up"));
    let core = topology.links().iter().find(|link| topology.node_name(link.to) == "core 5").unwrap();
    assert_eq!((core.rate, core.plane), (Rate::from_gbit_per_sec(100), 5));
    assert_eq!(topology.node_name(core.from), "agg 0.1", "odd cores connect to odd aggregation switches");
}

#[test]
fn specifications_refuse_what_they_do_not_know() {
    let error = |text: &str| toml::from_str::<TopologySpec>(text).unwrap_err().to_string();
    assert!(error(&format!("kind = \"star\"\nhosts = 2\nlink = {LINK}\nhost = 3")).contains("unknown field `host`"));
    assert!(error(&format!("kind = \"ring\"\nhosts = 2\nlink = {LINK}")).contains("unknown variant `ring`"));
    assert!(
        error("kind = \"star\"\nhosts = 2\nlink = { rate = \"1Gbit/s\", delay = \"1us\", loss = 0 }")
            .contains("unknown field `loss`")
    );
    assert!(error("kind = \"star\"\nhosts = 2\nlink = { rate = 10, delay = \"1us\" }").contains("its unit"));
    assert!(error("kind = \"star\"\nhosts = 2").contains("missing field `link`"));
}

#[test]
fn specifications_survive_a_round_trip() {
    for text in [
        leaf_spine(3, 2, 4),
        format!("kind = \"fat-tree\"\nk = 4\nlink = {LINK}\nhost_delay = \"2us\""),
        "kind = \"edge-list\"\nfile = \"wan.csv\"".to_string(),
    ] {
        let spec = read(&text);
        assert_eq!(read(&toml::to_string(&spec).unwrap()), spec);
    }
}

#[test]
fn impossible_sizes_are_refused_before_memory_is_taken() {
    let star = |hosts: u32| build_error(&format!("kind = \"star\"\nhosts = {hosts}\nlink = {LINK}"));
    assert_eq!(star(1), "`hosts` = 1 is out of range: it must be between 2 and 1000000");
    assert!(star(1_000_001).contains("`hosts` = 1000001 is out of range"));
    assert!(build_error(&leaf_spine(1_000_000, 1_000_000, 2)).contains("2000000 hosts are too many"));
    assert!(build_error(&leaf_spine(1_000_000, 2000, 1)).contains("directed links are too many"));
    let fat_tree = |k| build_error(&format!("kind = \"fat-tree\"\nk = {k}\nlink = {LINK}"));
    assert_eq!(fat_tree(7), "`k` = 7 must be a multiple of 2, half of a switch's ports face up");
    assert!(fat_tree(160).contains("out of range"));
    let zero = "kind = \"star\"\nhosts = 2\nlink = { rate = \"0Gbit/s\", delay = \"1us\" }";
    assert_eq!(build_error(zero), "`link.rate` must be above zero");
}

fn edges(lines: &str) -> Result<Topology, TopologyError> {
    let spec = EdgeList { file: "net.csv".into(), host_delay: Span::from_us(3) };
    spec.build_from(format!("from,to,rate,delay\n{lines}").as_bytes(), PathBuf::from("net.csv"))
}

#[test]
fn edge_list_reads_cables_and_numbers_hosts_first() {
    let topology = edges("# two sites\nwest, east, 1Gbit/s, 5ms\nhost_a,west,10Gbit/s,1us\neast,host_b,10Gbit/s,1us\n");
    let topology = topology.unwrap();
    assert_eq!(names(&topology, &[0, 1, 2, 3]), ["host_a", "host_b", "west", "east"]);
    assert_eq!(topology.link(topology.uplink(NodeId(1))).to, NodeId(3));
    assert_eq!(topology.link(topology.uplink(NodeId(1))).delay, Span::from_us(4));
    assert_eq!(topology.link(LinkId(0)).delay, Span::from_ms(5));
    assert!(!topology.is_layered());
}

/// A host may have several cables, also to one switch; the sizes of a dual-homed leaf-spine are known.
#[test]
fn hosts_may_have_several_links() {
    let topology =
        edges("host1,s,1Gbit/s,1us\nhost1,t,2Gbit/s,1us\nhost2,s,1Gbit/s,1us\nhost2,s,1Gbit/s,1us\ns,t,1Gbit/s,1us\n");
    let topology = topology.unwrap();
    assert_eq!([0, 1].map(|host| topology.outgoing(NodeId(host)).len()), [2, 2]);
    assert_eq!(topology.host_rate(NodeId(0)), pliant_proto::units::Rate::from_gbit_per_sec(3));
    let twice: Vec<String> = topology.outgoing(NodeId(1)).iter().map(|&link| topology.link_name(link)).collect();
    assert_eq!(twice, ["host2 -> s", "host2 -> s (2)"]);
    let dual = build(&format!(
        "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 3\nleaves_per_host = 2\ncables = 2\nhost_link = {LINK}"
    ));
    assert_eq!((dual.hosts(), dual.switches(), dual.links().len()), (6, 6, 2 * (12 + 16)));
    let leaves = |host| -> Vec<String> {
        dual.outgoing(NodeId(host)).iter().map(|&link| dual.node_name(dual.link(link).to)).collect()
    };
    assert_eq!(
        (leaves(2), leaves(3)),
        (vec!["leaf 0".into(), "leaf 1".into()], vec!["leaf 2".into(), "leaf 3".into()])
    );
    assert!(dual.describe().contains(", 6 hosts with several links"), "{}", dual.describe());
    let odd = toml::from_str::<TopologySpec>(&format!(
        "kind = \"leaf-spine\"\nleaves = 3\nspines = 1\nhosts_per_leaf = 1\nleaves_per_host = 2\nhost_link = {LINK}"
    ));
    let said = odd.unwrap().build().unwrap_err().to_string();
    assert!(said.contains("`leaves` = 3 must be a multiple of 2"), "{said}");
}

#[test]
fn edge_list_errors_name_file_and_line() {
    let error = |lines: &str| edges(lines).unwrap_err().to_string();
    let good = "host1,s,1Gbit/s,1us\nhost2,s,1Gbit/s,1us\n";
    assert!(edges(good).is_ok());
    for (line, message) in [
        ("s,s,1Gbit/s,1us", "net.csv, line 4: s is connected to itself"),
        ("host1,host2,1Gbit/s,1us", "net.csv, line 4: host1 and host2 are both hosts: a host connects to a switch"),
        (
            "s,t,1Gb,1us",
            "net.csv, line 4: `rate`: \"1Gb\" is not a rate such as \"10Gbit/s\": its unit is not known here, there are: Tbit/s, Gbit/s, Mbit/s, \
             kbit/s, bit/s, Tbps, Gbps, Mbps, kbps, bps",
        ),
        (
            "s,t,1Gbit/s,5",
            "net.csv, line 4: `delay`: \"5\" is not a time such as \"5us\": it has no unit, there are: h, min, s, ms, us, ns, ps",
        ),
        ("s,t,0bit/s,1us", "net.csv, line 4: `rate` must be above zero"),
        ("s,t,1Gbit/s", "net.csv, line 4: expected 4 fields (from,to,rate,delay), found 3"),
        (",t,1Gbit/s,1us", "net.csv, line 4: `from` is empty"),
        ("host3,t,1Gbit/s,1us", "net.csv: there is no path from host1 to host3"),
    ] {
        assert_eq!(error(&format!("{good}{line}\n")), message);
    }
    assert!(error("host1,s,1Gbit/s,1us\n").contains("names 1 hosts, at least 2 are needed"));
}

#[test]
fn edge_list_needs_its_header_and_its_file() {
    let spec = EdgeList { file: "net.csv".into(), host_delay: Span::ZERO };
    let error = |text: &[u8]| spec.build_from(text, PathBuf::from("net.csv")).unwrap_err().to_string();
    assert_eq!(
        error(b"a,b,1Gbit/s,1us\n"),
        "net.csv, line 1: the header must be `from,to,rate,delay`, not `a,b,1Gbit/s,1us`"
    );
    assert!(error(b"").contains("line 1: the header must be"));
    assert_eq!(error(b"from,to,rate,delay\n\xff\xfe,s,1Gbit/s,1us\n"), "net.csv, line 2: it is not UTF-8 text");
    let missing = spec.build().unwrap_err().to_string();
    assert!(missing.starts_with("net.csv: cannot read the edge list"));
}

proptest! {
    /// The arrays of any topology agree: cables are pairs of opposite links, each link leaves exactly one node, hosts
    /// come first and hang below a switch of tier 1, neighbours differ by at most one tier.
    #[test]
    fn arrays_agree(pods in 1u32..4, racks in 1u32..4, aggs in 1u32..4, hosts in 1u32..4, cores in 1u32..4) {
        let topology = build(&format!(
            "kind = \"clos\"\npods = {pods}\nracks_per_pod = {racks}\naggs_per_pod = {aggs}\n\
             hosts_per_rack = {hosts}\ncores = {}\nhost_link = {LINK}", cores * aggs
        ));
        let mut left = vec![0; topology.links().len()];
        for node in (0..topology.nodes()).map(NodeId) {
            for &id in topology.outgoing(node) {
                let (link, back) = (topology.link(id), topology.link(id.reverse()));
                left[id.index()] += 1;
                prop_assert_eq!((link.from, link.to), (back.to, back.from));
                prop_assert_eq!(link.from, node);
                prop_assert_eq!((link.rate, link.delay, link.plane), (back.rate, back.delay, back.plane));
                prop_assert_eq!(topology.tier(link.from).abs_diff(topology.tier(link.to)), 1);
            }
        }
        prop_assert!(left.iter().all(|&times| times == 1));
        for host in (0..topology.hosts()).map(NodeId) {
            prop_assert_eq!(topology.tier(topology.rack(host)), 1);
        }
    }
}
