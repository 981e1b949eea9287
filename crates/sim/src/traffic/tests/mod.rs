mod trace;

use pliant_proto::packet::WireFormat;
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;
use proptest::prelude::*;

use super::*;
use crate::workload::PacketFormat;

/// `racks` racks of `per_rack` hosts at 10 Gbit/s, uplinks oversubscribed by `oversubscription`.
fn fabric(racks: u32, per_rack: u32, oversubscription: u64, duration: Span) -> Fabric {
    let host_rate = Rate::from_gbit_per_sec(10);
    let hosts = racks * per_rack;
    let uplinks = u64::from(hosts) * host_rate.bits_per_sec() / oversubscription;
    Fabric {
        racks: (0..hosts).map(|host| host / per_rack).collect(),
        host_rate,
        uplinks: (racks > 1).then(|| Rate::from_bits_per_sec(uplinks)),
        duration,
    }
}

fn ethernet() -> PacketFormat {
    PacketFormat::new(1460, WireFormat::ETHERNET)
}

fn try_flows(fabric: &Fabric, seed: u64, groups: &[(&str, &str)]) -> Result<Traffic, TrafficError> {
    let directory = std::env::temp_dir();
    let classes = ["best-effort", "scavenger"];
    let environment = Environment { fabric, seed, directory: &directory, classes: &classes };
    let specs: Vec<TrafficSpec> = groups.iter().map(|(_, text)| toml::from_str(text).expect(text)).collect();
    let groups: Vec<_> = groups
        .iter()
        .zip(&specs)
        .map(|((name, _), spec)| TrafficGroup { name, spec, packets: ethernet(), messages: None })
        .collect();
    generate(&groups, &environment)
}

fn flows(fabric: &Fabric, groups: &[(&str, &str)]) -> Vec<FlowSpec> {
    try_flows(fabric, 1, groups).unwrap().collect()
}

fn error(fabric: &Fabric, text: &str) -> String {
    try_flows(fabric, 1, &[("backup", text)]).err().map_or_else(String::new, |error| error.to_string())
}

fn pairs(flows: &[FlowSpec]) -> Vec<(u32, u32)> {
    flows.iter().map(|flow| (flow.source, flow.destination)).collect()
}

/// One host pair at 10 Gbit/s, load 0.6, 1 MB: 750 flows/s counting payload, 712 counting the wire.
#[test]
fn arrival_rates_have_their_known_values() {
    let fabric = fabric(1, 2, 1, Span::from_secs(20));
    let base = "kind = 'poisson'\nload = 0.6\nsize = '1MB'\nsources = 0\ndestinations = 1\n";
    for (counts, per_second) in [("payload", 750.0), ("wire", 711.96)] {
        let text = format!("{base}load_counts = '{counts}'");
        let measured = flows(&fabric, &[("rpc", &text)]).len() as f64 / 20.0;
        let standard_error = f64::sqrt(per_second / 20.0);
        assert!((measured - per_second).abs() < 4.0 * standard_error, "{counts}: {measured}");
    }
}

/// Bytes on the wire over time and capacity come to the load asked for: on host links and on uplinks, where the pairs
/// that stay in their rack count for nothing.
#[test]
fn load_converges() {
    let seconds = 30;
    let fabric = fabric(4, 8, 3, Span::from_secs(seconds));
    let crosses_racks = |flow: &FlowSpec| fabric.racks[flow.source as usize] != fabric.racks[flow.destination as usize];
    for (load_on, capacity) in [("host-links", 320e9), ("uplinks", 320e9 / 3.0)] {
        let text = format!("kind = 'poisson'\nload = 0.3\nload_on = '{load_on}'\nworkload = 'hadoop'");
        let flows = try_flows(&fabric, 1, &[("rpc", &text)]).unwrap();
        let counted = flows.filter(|flow| load_on == "host-links" || crosses_racks(flow));
        let bytes: u64 = counted.map(|flow| ethernet().wire_bytes(flow.bytes)).sum();
        let load = bytes as f64 * 8.0 / seconds as f64 / capacity;
        assert!((load / 0.3 - 1.0).abs() < 0.02, "{load_on}: {load}");
    }
}

/// REFLEX's third workload: 20 hosts, 20 % of payload, 2921 flows/s.
#[test]
fn web_search_at_twenty_percent_is_2921_per_second() {
    let fabric = fabric(1, 20, 1, Span::from_secs(10));
    let text = "kind = 'poisson'\nload = 0.2\nload_counts = 'payload'\nworkload = 'web_search'";
    let rate = flows(&fabric, &[("w3", text)]).len() as f64 / 10.0;
    assert!((rate - 2921.0).abs() < 4.0 * f64::sqrt(292.1), "{rate}");
}

/// Gaps of a Poisson process have a standard deviation equal to their mean.
#[test]
fn gaps_are_exponential() {
    let fabric = fabric(1, 4, 1, Span::from_secs(1));
    let flows = flows(&fabric, &[("rpc", "kind = 'poisson'\nrate_per_s = 100_000.0\nsize = '1B'")]);
    let gaps: Vec<f64> = flows.windows(2).map(|pair| pair[1].start.since(pair[0].start).as_us_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((mean - 10.0).abs() < 0.15 && (deviation - 10.0).abs() < 0.2, "{mean} {deviation}");
}

/// Every ordered pair of different hosts is equally likely; `inter_rack` leaves only those between racks.
#[test]
fn pairs_are_uniform() {
    let fabric = fabric(2, 3, 1, Span::from_secs(1));
    for (inter_rack, expected) in [(false, 30), (true, 18)] {
        let text = format!("kind = 'poisson'\nrate_per_s = 60_000.0\nsize = '1B'\ninter_rack = {inter_rack}");
        let flows = flows(&fabric, &[("rpc", &text)]);
        let mut counts = std::collections::BTreeMap::<_, u32>::new();
        for pair in pairs(&flows) {
            *counts.entry(pair).or_default() += 1;
        }
        assert_eq!(counts.len(), expected);
        let mean = flows.len() as f64 / expected as f64;
        assert!(counts.values().all(|count| (f64::from(*count) - mean).abs() < 5.0 * mean.sqrt()), "{counts:?}");
        assert!(counts.keys().all(|(a, b)| a != b && !(inter_rack && a / 3 == b / 3)));
    }
}

/// Splitting one load by size gives two groups that together have all its bytes.
#[test]
fn a_load_split_by_size() {
    let fabric = fabric(1, 8, 1, Span::from_secs(4));
    let base = "kind = 'poisson'\nload = 0.5\nworkload = 'web_search'\n";
    let small = format!("{base}size_below = '1MB'");
    let large = format!("{base}size_at_least = '1MB'");
    let flows = flows(&fabric, &[("small", &small), ("large", &large)]);
    assert!(flows.iter().all(|flow| (flow.bytes < 1_000_000) == (flow.group == 0)));
    let bytes: u64 = flows.iter().map(|flow| ethernet().wire_bytes(flow.bytes)).sum();
    let load = bytes as f64 * 8.0 / 4.0 / 80e9;
    assert!((load / 0.5 - 1.0).abs() < 0.03, "{load}");
}

/// A group and its remainder are the process that is not split: the same arrivals, hosts and sizes, each once.
#[test]
fn a_group_and_its_remainder_are_one_process() {
    let fabric = fabric(1, 8, 1, Span::from_secs(2));
    let whole = "kind = 'poisson'\nload = 0.5\nworkload = 'web_search'\n";
    for limit in ["size_below = '1MB'", "size_at_least = '1MB'"] {
        let split = format!("{whole}{limit}");
        let parts = flows(&fabric, &[("large", "kind = 'remainder'\nof = 'rpc'"), ("rpc", &split)]);
        assert!(
            parts.iter().all(|flow| (flow.group == 1) == ((flow.bytes < 1_000_000) == limit.starts_with("size_b")))
        );
        let seen = |flows: &[FlowSpec]| {
            flows.iter().map(|flow| (flow.start, flow.source, flow.destination, flow.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(seen(&parts), seen(&flows(&fabric, &[("rpc", whole)])));
        assert!(parts.len() > 1000);
    }
}

/// Every flow has a duplicate with the same number, at the same instant, of the same size, to the same destination,
/// from a third host; the originals are as they were without duplicates.
#[test]
fn duplicates_repeat_another_group() {
    let fabric = fabric(1, 40, 1, Span::from_ms(20));
    let requests = ("requests", "kind = 'poisson'\nload = 0.3\nsize = '1B..256kB'");
    let all = flows(&fabric, &[("copies", "kind = 'duplicates'\nof = 'requests'\nsources = '0..20'"), requests]);
    let (copies, originals): (Vec<FlowSpec>, Vec<FlowSpec>) = all.iter().partition(|flow| flow.group == 0);
    let alone = flows(&fabric, &[requests]);
    assert_eq!(originals.iter().map(|flow| FlowSpec { group: 0, ..*flow }).collect::<Vec<_>>(), alone);
    assert!(alone.len() > 500 && copies.len() == originals.len());
    for (copy, original) in copies.iter().zip(&originals) {
        assert!(copy.source != original.source && copy.source != original.destination && copy.source < 20);
        assert_eq!(FlowSpec { source: original.source, group: 1, ..*copy }, *original);
    }
    let mean = alone.iter().map(|flow| flow.bytes as f64).sum::<f64>() / alone.len() as f64;
    assert!((mean / 128_000.0 - 1.0).abs() < 0.1, "sizes are uniform from 0 to twice the mean: {mean}");
    let sources: std::collections::BTreeSet<u32> = copies.iter().map(|flow| flow.source).collect();
    assert_eq!(sources.len(), 20, "every source sends duplicates");
}

/// 8 workers send 500 kB each to one server: 4 MB of payload per round are a load of 0.5 at 10 Gbit/s every 6.4 ms.
#[test]
fn the_load_of_an_incast_sets_its_period() {
    let fabric = fabric(1, 9, 1, Span::from_ms(20));
    let base = "kind = 'incast'\nsources = '0..8'\nreceivers = 8\nsize = '500kB'\n";
    let text = format!("{base}load = 0.5\nload_counts = 'payload'");
    let starts = |text: &str| flows(&fabric, &[("updates", text)]).iter().map(|flow| flow.start).collect::<Vec<_>>();
    assert_eq!(starts(&text), starts(&format!("{base}period = '6400us'")));
    // On the wire a packet of 1460 bytes is 1538.
    let wire = starts(&format!("{base}load = 0.5"));
    assert_eq!(wire[8].since(wire[0]).as_ps(), 8 * ethernet().wire_bytes(500_000) * 8 * 100 * 2);
    // Hosts that take turns at receiving each get their load.
    let turns = flows(&fabric, &[("updates", "kind = 'incast'\nsize = '500kB'\nload = 0.5")]);
    assert_eq!(turns[8].start.since(turns[0].start).as_ps(), 8 * ethernet().wire_bytes(500_000) * 8 * 100 * 2 / 9);
}

/// Jitter delays each sender of a round by 0 to 20 us, and leaves rounds and receivers as they were.
#[test]
fn incast_jitter_is_uniform() {
    let fabric = fabric(1, 9, 1, Span::from_ms(1000));
    let text = "kind = 'incast'\nsources = '0..8'\nreceivers = 8\nsize = '1kB'\nperiod = '1ms'\njitter = '20us'";
    let flows = flows(&fabric, &[("updates", text)]);
    assert_eq!(flows.len(), 8000);
    let delay =
        |(place, flow): (usize, &FlowSpec)| flow.start.since(Instant::ZERO).as_us_f64() - 1000.0 * (place / 8) as f64;
    let delays: Vec<f64> = flows.iter().enumerate().map(delay).collect();
    assert!(delays.iter().all(|delay| (0.0..=20.0).contains(delay)));
    let mean = delays.iter().sum::<f64>() / 8000.0;
    assert!((mean - 10.0).abs() < 4.0 * 20.0 / f64::sqrt(12.0 * 8000.0), "{mean}");
    for round in flows.chunks(8) {
        let mut senders: Vec<u32> = round.iter().map(|flow| flow.source).collect();
        senders.sort_unstable();
        assert_eq!(senders, (0..8).collect::<Vec<_>>());
    }
}

/// Storage traffic to one receiver: `load` is that of the link to it.
#[test]
fn load_of_one_destination_is_that_of_its_link() {
    let seconds = 20;
    let fabric = fabric(1, 9, 1, Span::from_secs(seconds));
    let text = "kind = 'poisson'\nload = 0.1\nworkload = 'alibaba_storage'\ndestinations = 8";
    let flows = flows(&fabric, &[("storage", text)]);
    let bytes: u64 = flows.iter().map(|flow| ethernet().wire_bytes(flow.bytes)).sum();
    let load = bytes as f64 * 8.0 / seconds as f64 / 10e9;
    assert!((load / 0.1 - 1.0).abs() < 0.03 && flows.iter().all(|flow| flow.destination == 8), "{load}");
}

/// What groups offer on average is what their flows come to, on every host link.
#[test]
fn offered_loads_are_those_of_the_flows() {
    let seconds = 10;
    let fabric = fabric(2, 5, 1, Span::from_secs(seconds));
    let small = "kind = 'poisson'\nload = 0.3\nworkload = 'hadoop'\nsize_below = '100kB'";
    let specs = [
        ("rpc", small),
        ("rest", "kind = 'remainder'\nof = 'rpc'"),
        ("copies", "kind = 'duplicates'\nof = 'rpc'\nsources = '0..9'"),
        ("updates", "kind = 'incast'\nsources = '0..8'\nreceivers = '7..9'\nsize = '500kB'\nload = 0.4"),
        ("backup", "kind = 'periodic'\nsources = '0..5'\ndestinations = '8..10'\nsize = '1MB'\nperiod = '10ms'"),
        ("shuffle", "kind = 'all-to-all'\nsize = '100kB'\nperiod = '10ms'"),
    ];
    let texts: Vec<TrafficSpec> = specs.iter().map(|(_, text)| toml::from_str(text).unwrap()).collect();
    let groups: Vec<_> = specs
        .iter()
        .zip(&texts)
        .map(|((name, _), spec)| TrafficGroup { name, spec, packets: ethernet(), messages: None })
        .collect();
    let environment = Environment { fabric: &fabric, seed: 1, directory: std::path::Path::new(""), classes: &[] };
    let offered = offered(&groups, &environment).unwrap();
    assert_eq!(offered.len(), specs.len());
    let mut sent = vec![[[0.0f64; 2]; 10]; specs.len()];
    for flow in generate(&groups, &environment).unwrap() {
        let rate = ethernet().wire_bytes(flow.bytes) as f64 * 8.0 / seconds as f64;
        sent[usize::from(flow.group)][flow.source as usize][0] += rate;
        sent[usize::from(flow.group)][flow.destination as usize][1] += rate;
    }
    for group in &offered {
        for (direction, hosts) in [&group.from_hosts, &group.to_hosts].into_iter().enumerate() {
            let total: f64 = hosts.iter().map(|(_, rate)| rate).sum();
            for (host, rate) in hosts {
                let measured = sent[usize::from(group.group)][*host as usize][direction];
                let name = specs[usize::from(group.group)].0;
                // Duplicates take a source other than the flow's own two, which the mean leaves aside.
                assert!((measured - rate).abs() < 0.03 * total, "{name} {host} {direction}: {measured} {rate}");
            }
        }
    }
}

/// Traffic whose pairs are fixed is counted pair by pair, on links above racks as on those of hosts.
#[test]
fn fixed_pairs_are_counted_one_by_one() {
    let fabric = fabric(4, 5, 1, Span::from_ms(100));
    let environment = Environment { fabric: &fabric, seed: 7, directory: std::path::Path::new(""), classes: &[] };
    for (text, rounds) in [
        ("kind = 'periodic'\nsize = '1MB'\nperiod = '10ms'", 10.0),
        ("kind = 'periodic'\nsources = '0..7'\ndestinations = '3..15'\nsize = '1MB'\nperiod = '10ms'", 10.0),
        ("kind = 'periodic'\nsources = '0..9'\ndestinations = '18..20'\nsize = '1MB'", 1.0),
        ("kind = 'permutation'\nsize = '1MB'", 1.0),
        ("kind = 'permutation'\nhosts = '2..9'\nsize = '1MB'", 1.0),
    ] {
        let spec: TrafficSpec = toml::from_str(text).unwrap();
        let groups = [TrafficGroup { name: "copies", spec: &spec, packets: ethernet(), messages: None }];
        let offered = offered(&groups, &environment).unwrap();
        let flow = ethernet().wire_bytes(1_000_000) as f64 * 8.0 / 0.1;
        let mut counted = [const { std::collections::BTreeMap::<u32, f64>::new() }; 4];
        let flows: Vec<FlowSpec> = generate(&groups, &environment).unwrap().collect();
        for &FlowSpec { source, destination, .. } in &flows {
            let racks = [source, destination].map(|host| fabric.racks[host as usize]);
            let places = [Some(source), Some(destination)]
                .into_iter()
                .chain(racks.map(|rack| Some(rack).filter(|_| racks[0] != racks[1])));
            for (counted, place) in counted.iter_mut().zip(places) {
                if let Some(place) = place {
                    *counted.entry(place).or_default() += flow;
                }
            }
        }
        let found = [&offered[0].from_hosts, &offered[0].to_hosts, &offered[0].from_racks, &offered[0].to_racks];
        for (found, counted) in found.into_iter().zip(counted) {
            assert_eq!(found.len(), counted.len(), "{text}");
            assert!(
                found.iter().all(|(place, load)| (load / counted[place] - 1.0).abs() < 1e-9),
                "{text}: {found:?} {counted:?}"
            );
        }
        assert_eq!(offered[0].once, rounds == 1.0);
    }
}

/// A load with a profile: in each hour as many flows as its factor says, spread like those of a steady load; at a greatest
/// load beyond 1 it is refused.
#[test]
fn a_load_follows_its_profile() {
    let path = std::env::temp_dir().join(format!("pliant-{}-profile.csv", std::process::id()));
    std::fs::write(&path, "time,factor\n0,1\n1s,0\n2s,0.25\n3s,2\n").unwrap();
    let fabric = fabric(1, 10, 1, Span::from_secs(4));
    let group = |load: f64| format!("kind = 'poisson'\nload = {load}\nsize = '1MB'\nprofile = '{}'", path.display());
    let followed = flows(&fabric, &[("web", &group(0.3))]);
    let steady = flows(&fabric, &[("web", "kind = 'poisson'\nload = 0.3\nsize = '1MB'")]).len() as f64 / 4.0;
    let in_second = |second: u64| {
        let within = |flow: &&FlowSpec| flow.start.as_ps() / 1_000_000_000_000 == second;
        followed.iter().filter(within).count() as f64 / steady
    };
    for (second, factor) in [(0, 1.0), (1, 0.0), (2, 0.25), (3, 2.0)] {
        assert!((in_second(second) - factor).abs() < 0.05, "{second}: {}", in_second(second));
    }
    let refused = error(&fabric, &group(0.6));
    std::fs::remove_file(&path).unwrap();
    assert!(refused.contains("1.2 would put 12.000 Gbit/s on the link"), "{refused}");
}

/// Flows without an end have no mean.
#[test]
fn endless_permutations_offer_no_mean() {
    let fabric = fabric(2, 5, 1, Span::from_ms(100));
    let environment = Environment { fabric: &fabric, seed: 7, directory: std::path::Path::new(""), classes: &[] };
    let spec: TrafficSpec = toml::from_str("kind = 'permutation'").unwrap();
    let group = TrafficGroup { name: "copies", spec: &spec, packets: ethernet(), messages: None };
    assert_eq!(offered(&[group], &environment).unwrap(), []);
}

/// Rounds of an incast: who sends, to whom, when, and that the rotating receiver never sends to itself.
#[test]
fn incast_rounds() {
    let fabric = fabric(1, 9, 1, Span::from_ms(3));
    let fixed = "kind = 'incast'\nsources = '0..8'\nreceivers = 8\nsize = '500kB'\nperiod = '1ms'\nstart = '250us'";
    let fixed = flows(&fabric, &[("updates", fixed)]);
    assert_eq!(fixed.len(), 3 * 8);
    for (i, flow) in fixed.iter().enumerate() {
        let start = Instant::ZERO.after(Span::from_us(250)).after(Span::from_ms(i as u64 / 8));
        assert_eq!((flow.start, flow.source, flow.destination), (start, i as u32 % 8, 8));
        assert_eq!((flow.bytes, flow.sequence), (500_000, i as u64));
    }
    let rotating = "kind = 'incast'\nsenders = 5\nflows_per_sender = 4\nsize = '8kB'\nperiod = '1ms'";
    let rotating = flows(&fabric, &[("foreground", rotating)]);
    assert_eq!(rotating.len(), 3 * 5 * 4);
    for (round, flows) in rotating.chunks(20).enumerate() {
        assert!(flows.iter().all(|flow| flow.destination == round as u32 && flow.source != flow.destination));
        let mut senders: Vec<u32> = flows.iter().map(|flow| flow.source).collect();
        senders.sort_unstable();
        senders.dedup();
        assert_eq!(senders.len(), 5);
    }
}

/// Bursts of each source once per period, the second source half a period behind.
#[test]
fn periodic_bursts() {
    let fabric = fabric(1, 4, 1, Span::from_ms(4));
    let text =
        "kind = 'periodic'\nsources = '0..2'\ndestinations = '2..4'\nsize = '1MB'\nperiod = '2ms'\nstagger = '1ms'";
    let flows = flows(&fabric, &[("backup", text)]);
    let seen: Vec<_> =
        flows.iter().map(|flow| (flow.start.as_ps() / 1_000_000_000, flow.source, flow.destination)).collect();
    assert_eq!(seen, [(0, 0, 2), (1, 1, 3), (2, 0, 2), (3, 1, 3)]);
}

/// Without a period each source has one burst, however late the last of them comes.
#[test]
fn periodic_once() {
    let fabric = fabric(1, 4, 1, Span::from_ms(9));
    let text = "kind = 'periodic'\nsources = '0..3'\ndestinations = 3\nsize = '1MB'\nstart = '1ms'\nstagger = '2ms'";
    let seen: Vec<_> = flows(&fabric, &[("backup", text)]).iter().map(|flow| (flow.start, flow.source)).collect();
    assert_eq!(seen, [(1, 0), (3, 1), (5, 2)].map(|(ms, source)| (Instant::ZERO.after(Span::from_ms(ms)), source)));
}

/// What comes once, or has no second round within the duration, counts by its bytes over the duration.
#[test]
fn single_rounds_are_offered_over_the_duration() {
    let fabric = fabric(1, 8, 1, Span::from_ms(20));
    let bits = 8.0 * ethernet().wire_bytes(5_000_000) as f64;
    for (round, flows) in [
        ("kind = 'periodic'\nsources = '0..4'\ndestinations = '4..8'\nstart = '5ms'", 4.0),
        ("kind = 'periodic'\nsources = '0..4'\ndestinations = '4..8'\nperiod = '1s'", 4.0),
        ("kind = 'all-to-all'", 56.0),
        ("kind = 'incast'\nreceivers = 7\nsources = '0..4'\nperiod = '20ms'", 4.0),
    ] {
        let spec: TrafficSpec = toml::from_str(&format!("{round}\nsize = '5MB'")).unwrap();
        let group = TrafficGroup { name: "once", spec: &spec, packets: ethernet(), messages: None };
        let environment = Environment { fabric: &fabric, seed: 1, directory: std::path::Path::new(""), classes: &[] };
        let offered = offered(&[group], &environment).unwrap();
        let total: f64 = offered[0].from_hosts.iter().map(|(_, rate)| rate).sum();
        assert!((total / (flows * bits / 0.020) - 1.0).abs() < 1e-9, "{round}: {total}");
        assert!(offered[0].once && offered[0].window == (0..20_000_000_000), "{round}: {:?}", offered[0].window);
    }
}

/// A random destination is never the source.
#[test]
fn periodic_random_destinations() {
    let fabric = fabric(1, 3, 1, Span::from_ms(100));
    let text = "kind = 'periodic'\ndestination_choice = 'random'\nsize = '1MB'\nperiod = '1ms'";
    let flows = flows(&fabric, &[("backup", text)]);
    assert_eq!(flows.len(), 300);
    assert!(flows.iter().all(|flow| flow.source != flow.destination));
}

/// Every ordered pair once per round.
#[test]
fn all_to_all_is_complete() {
    let fabric = fabric(1, 5, 1, Span::from_ms(2));
    let flows = flows(&fabric, &[("shuffle", "kind = 'all-to-all'\nsize = '1MB'\nperiod = '1ms'")]);
    for round in flows.chunks(20) {
        let mut pairs = pairs(round);
        pairs.sort_unstable();
        pairs.dedup();
        assert!(pairs.len() == 20 && pairs.iter().all(|(source, destination)| source != destination));
    }
    assert_eq!(flows.len(), 40);
}

/// Listed flows come in the order of their starts and have no end unless they have a size.
#[test]
fn listed_flows() {
    let fabric = fabric(1, 3, 1, Span::from_secs(1));
    let text = "kind = 'flows'\nflows = [{ source = 0, destination = 2, start = '5ms', size = '1GB' }, \
                { source = 1, destination = 2 }]";
    let flows = flows(&fabric, &[("long", text)]);
    assert_eq!(pairs(&flows), [(1, 2), (0, 2)]);
    assert_eq!((flows[0].bytes, flows[1].bytes), (UNLIMITED_BYTES, 1_000_000_000));
}

/// Objects go to random receivers, or to each receiver in turn: then each has one before any has two.
#[test]
fn objects_take_turns_if_told_to() {
    let fabric = fabric(1, 12, 1, Span::from_ms(1));
    let text = "kind = 'objects'\nholders = '0..3'\nreceivers = '4..12'\nsize = '30kB'\nperiod = '0s'\nobjects = 16";
    let receivers =
        |text: &str| flows(&fabric, &[("model", text)]).iter().map(|flow| flow.destination).collect::<Vec<_>>();
    let in_turn: Vec<u32> = (0..16).flat_map(|object| [4 + object % 8; 3]).collect();
    assert_eq!(receivers(&format!("{text}\nreceiver_order = 'rotating'")), in_turn);
    assert_ne!(receivers(text), in_turn);
    assert_eq!(receivers(&format!("{text}\nreceiver_order = 'random'")), receivers(text));
}

/// A group added before, after or between leaves the flows of the others as they were.
#[test]
fn adding_a_group_shifts_no_flow() {
    let fabric = fabric(2, 8, 2, Span::from_ms(20));
    let rpc = ("rpc", "kind = 'poisson'\nload = 0.4\nworkload = 'web_search'");
    let incast = ("incast", "kind = 'incast'\nsize = '20kB'\nperiod = '3ms'\nsenders = 4\nreceiver_order = 'random'");
    let of_group = |flows: Vec<FlowSpec>, group: u16| {
        let chosen = flows.into_iter().filter(|flow| flow.group == group);
        chosen.map(|flow| FlowSpec { group: 0, ..flow }).collect::<Vec<_>>()
    };
    let alone = flows(&fabric, &[rpc]);
    let other = ("other", "kind = 'poisson'\nload = 0.2\nworkload = 'hadoop'");
    assert_eq!(of_group(flows(&fabric, &[other, rpc, incast]), 1), alone);
    assert_eq!(of_group(flows(&fabric, &[incast, other]), 0), flows(&fabric, &[incast]));
    let reseeded: Vec<_> = try_flows(&fabric, 2, &[rpc]).unwrap().collect();
    assert!(alone != reseeded && !alone.is_empty());
}

/// The merge orders by start, then group, then sequence.
#[test]
fn simultaneous_flows_come_by_group() {
    let fabric = fabric(1, 4, 1, Span::from_ms(3));
    let burst = "kind = 'all-to-all'\nsize = '1kB'\nperiod = '1ms'";
    let flows = flows(&fabric, &[("a", burst), ("b", burst), ("c", burst)]);
    assert_eq!(flows.len(), 3 * 3 * 12);
    assert!(flows.is_sorted_by_key(|flow| (flow.start, flow.group, flow.sequence)));
}

/// `KEY: WHY` as an error about the group `backup` says it.
fn named(message: &str) -> String {
    format!("`traffic.backup.{}", message.replacen(':', "`:", 1))
}

/// Wrong keys are refused by group and key, with what would be right.
#[test]
fn errors_name_group_and_key() {
    let fabric = fabric(2, 4, 4, Span::from_secs(1));
    for (text, message) in [
        ("kind = 'poisson'\nload = 0.0\nsize = '1MB'", "load: 0 is not above 0"),
        ("kind = 'poisson'\nload = nan\nsize = '1MB'", "load: NaN is not above 0"),
        (
            "kind = 'poisson'\nload = 1.2\nsize = '1MB'",
            "load: 1.2 would put 12.000 Gbit/s on the link from host 0, of 10Gbit/s",
        ),
        (
            "kind = 'poisson'\nload = 0.9\nsize = '1MB'",
            "load: 0.9 would put 41.143 Gbit/s on the links above the racks",
        ),
        ("kind = 'poisson'\nsize = '1MB'", "load: give either load or rate_per_s"),
        (
            "kind = 'poisson'\nload = 0.1\nrate_per_s = 5.0\nsize = '1MB'",
            "load: give either load or rate_per_s, not both",
        ),
        ("kind = 'poisson'\nrate_per_s = -5.0\nsize = '1MB'", "rate_per_s: -5 is not"),
        ("kind = 'poisson'\nload = 0.1", "size: give either size or workload"),
        ("kind = 'poisson'\nload = 0.1\nworkload = 'websearch'", "workload: no workload is called \"websearch\""),
        ("kind = 'poisson'\nload = 0.1\nsize = '0B'", "size: sizes from 0 to 0 bytes"),
        ("kind = 'poisson'\nload = 0.1\nsize = '1MB'\nsize_at_least = '2MB'", "size_at_least: no flow"),
        ("kind = 'poisson'\nload = 0.1\nsize = '1MB'\nsources = 8", "sources: host 8 does not exist, hosts are 0 to 7"),
        ("kind = 'poisson'\nload = 0.1\nsize = '1MB'\nsources = [1, 1]", "sources: host 1 is named twice"),
        ("kind = 'poisson'\nload = 0.1\nsize = '1MB'\nsources = '4..4'", "sources: names no host"),
        ("kind = 'poisson'\nload = 0.1\nsize = '1MB'\nsources = 1\ndestinations = 1", "destinations: no source"),
        ("kind = 'poisson'\nload = 0.1\nsize = '1MB'\nstart = '2s'", "start: no flow can start: 2s is not before 1s"),
        (
            "kind = 'poisson'\nload = 0.1\nsize = '1MB'\nsources = '0..4'\ndestinations = '0..4'\ninter_rack = true",
            "inter_rack: no source and destination",
        ),
        ("kind = 'incast'\nsenders = 8\nsize = '1B'\nperiod = '1s'", "senders: 8: 1 to 7 hosts can send"),
        ("kind = 'incast'\nsize = '1B'\nperiod = '0s'", "period: must be longer than 0s"),
        ("kind = 'incast'\nsize = '1B'", "period: give either period or load"),
        ("kind = 'incast'\nsize = '1B'\nload = 1.5", "load: 1.5 is not above 0 and at most 1"),
        (
            "kind = 'incast'\nsize = '1MB'\nload = 0.5\nsources = 0\nreceivers = '1..8'",
            "load: 0.5 would put 35.000 Gbit/s on the link from a sender",
        ),
        (
            "kind = 'incast'\nsize = '1B'\nperiod = '1us'\njitter = '1us'",
            "jitter: must be shorter than the period, 1us",
        ),
        ("kind = 'duplicates'\nof = 'backup'", "of: no other group is called \"backup\", there is none"),
        ("kind = 'remainder'\nof = 'x'", "of: no other group is called \"x\""),
        ("kind = 'permutation'\nhosts = 3", "hosts: a permutation needs two hosts"),
        ("kind = 'flows'\nflows = [{ source = 1, destination = 1 }]", "flows: host 1 would send to itself"),
        ("kind = 'flows'\nflows = [{ source = 1, destination = 9 }]", "flows: host 9 does not exist"),
    ] {
        let found = error(&fabric, text);
        assert!(found.starts_with(&named(message)), "{text}\n{found}");
    }
}

/// Groups that name another group are refused if it is not what they need.
#[test]
fn errors_about_other_groups() {
    let fabric = fabric(1, 4, 1, Span::from_secs(1));
    let rpc = ("rpc", "kind = 'poisson'\nload = 0.1\nsize = '1kB'");
    for (text, message) in [
        ("kind = 'duplicates'\nof = 'copies'", "of: copies is itself a group of duplicates"),
        (
            "kind = 'duplicates'\nof = 'rpc'\nsources = [0, 1]",
            "sources: no host is left for a duplicate of a flow from",
        ),
        ("kind = 'remainder'\nof = 'rpc'", "of: rpc is no poisson group with size_at_least or size_below"),
        ("kind = 'remainder'\nof = 'small'", "of: small leaves no flow out"),
        ("kind = 'remainder'\nof = 'larch'", "of: no other group is called \"larch\", there are: rpc, copies, small"),
    ] {
        let copies = ("copies", "kind = 'duplicates'\nof = 'rpc'");
        let small = ("small", "kind = 'poisson'\nload = 0.1\nsize = '1kB'\nsize_below = '2kB'");
        let error = try_flows(&fabric, 1, &[rpc, copies, small, ("backup", text)]).err().unwrap().to_string();
        assert!(error.starts_with(&named(message)), "{error}");
    }
}

/// Unknown keys and kinds are refused; a description written out reads back the same.
#[test]
fn descriptions_are_strict_and_round_trip() {
    for bad in ["kind = 'poisson'\nlaod = 0.5", "kind = 'burst'", "kind = 'duplicates'", "load = 0.5"] {
        assert!(toml::from_str::<TrafficSpec>(bad).is_err(), "{bad}");
    }
    for good in [
        "kind = 'poisson'\nload = 0.5\nworkload = 'hadoop'\nsources = '0..4,7'\nstop = '1ms'\nsize_below = '1MB'",
        "kind = 'incast'\nsize = '20kB'\nperiod = '1ms'\nreceivers = [3, 5]",
        "kind = 'periodic'\nsize = '1MB..2MB'\nperiod = '10ms'\nstagger = '1us'",
        "kind = 'all-to-all'\nsize = '1MB'",
        "kind = 'poisson'\nload = 1\nsize = '1MB'",
        "kind = 'permutation'",
        "kind = 'flows'\nflows = [{ source = 0, destination = 1, start = '1ms' }]",
        "kind = 'trace'\npath = 'a.csv'",
        "kind = 'incast'\nsize = '20kB'\nload = 0.5\njitter = '20us'\nload_counts = 'payload'",
        "kind = 'duplicates'\nof = 'rpc'\nsources = 3",
        "kind = 'remainder'\nof = 'rpc'",
    ] {
        let spec: TrafficSpec = toml::from_str(good).unwrap();
        let written = toml::to_string(&spec).unwrap();
        assert_eq!(toml::from_str::<TrafficSpec>(&written).unwrap(), spec, "{written}");
    }
}

proptest! {
    /// A permutation sends from and to each host once, never to itself, whatever the seed and the hosts.
    #[test]
    fn permutations_have_no_fixed_point(seed: u64, hosts in 2u32..40) {
        let fabric = fabric(1, hosts, 1, Span::from_secs(1));
        let flows: Vec<_> = try_flows(&fabric, seed, &[("p", "kind = 'permutation'")]).unwrap().collect();
        let mut destinations: Vec<u32> = flows.iter().map(|flow| flow.destination).collect();
        destinations.sort_unstable();
        prop_assert_eq!(destinations, (0..hosts).collect::<Vec<_>>());
        prop_assert!(flows.iter().all(|flow| flow.source != flow.destination && flow.bytes == UNLIMITED_BYTES));
    }

    /// Host sets print as they read.
    #[test]
    fn host_sets_round_trip(text in "[0-9]{1,3}(\\.\\.[0-9]{1,3})?(,[0-9]{1,3}(\\.\\.[0-9]{1,3})?){0,3}") {
        let set: HostSet = text.parse().unwrap();
        prop_assert_eq!(set.to_string().parse::<HostSet>().unwrap(), set);
    }

    #[test]
    fn any_host_set_is_read_or_refused(text in ".{0,30}") {
        if let Ok(set) = text.parse::<HostSet>() {
            let _ = set.resolve(100);
        }
    }
}
