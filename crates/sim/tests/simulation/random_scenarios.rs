//! Every transport that the simulator has, in small scenarios drawn at random: each flow gets what it was promised, and
//! the engine's own checks hold when the run ends (no packet and no byte appears or vanishes at any port).

use proptest::prelude::*;
use proptest::sample::select;

use pliant_sim::families::TransportName;
use pliant_sim::results::{FlowState, RunResult};

use crate::common::cases;
use crate::scenarios::{resolve_with, run_resolved, try_resolve};

/// What a transport needs of a network, and keys that go with it.
struct Needs {
    plans: &'static [&'static str],
    /// Class of its data.
    class: u8,
    /// Sprayed packets do it no harm.
    sprays: bool,
    keys: &'static [&'static str],
}

const ANY_PLAN: &[&str] = &["drop-tail", "shared", "strict", "dwrr-9-1", "wfq-3-1", "reflex", "low-priority"];
/// With what is drawn in place of the two words.
const REFLEX: &str = "contract = { min_delivery = DELIVERY, min_share = SHARE }\nreflex = { interval = \"1ms\" }";
const MESSAGES: &str = "contract = { min_delivery = 0.8 }\nmessages = { size = \"1kB..10kB\" }";

fn needs(transport: TransportName) -> Option<Needs> {
    let of = |plans, class, sprays, keys| Needs { plans, class, sprays, keys };
    Some(match transport.name() {
        "kernel" => return None,
        "udp" => of(ANY_PLAN, 1, true, &["udp = { rate = \"3Gbit/s\" }"]),
        "push" => of(ANY_PLAN, 1, false, &["", "push = { weights = \"equal\" }"]),
        "ndp" => of(&["ndp"], 0, true, &["", "ndp = { initial_window = 10 }"]),
        "scdp" => of(&["scdp"], 0, true, &[""]),
        "homa" => of(&["homa"], 0, true, &["", "homa = { rtt_bytes = \"20kB\" }"]),
        "pfabric" => of(&["pfabric"], 0, true, &["", MESSAGES]),
        "atp" => of(&["atp"], 1, true, &[MESSAGES, "contract = { min_delivery = 0.5 }", ""]),
        "expresspass" | "expresspass-layered" => of(&["expresspass", "flexpass"], 0, false, &[""]),
        "flexpass" => of(&["flexpass", "flexpass-artifact"], 0, false, &["", "credit = { variant = \"artifact\" }"]),
        "dctcp-sd" | "dctcp-bw" => of(ANY_PLAN, 1, false, &[MESSAGES, ""]),
        "weighted-fair" => of(ANY_PLAN, 0, false, &["contract = { weight = 0.25 }", REFLEX]),
        "reno" | "newreno" | "dctcp" => of(ANY_PLAN, 0, false, &["", REFLEX]),
        "cubic" => of(&["strict", "dwrr-9-1"], 1, false, &["", "cross_queue = {}"]),
        "tcp-lp" | "ledbat" | "ledbat++" | "dccp" | "near-opt" => of(ANY_PLAN, 1, false, &[""]),
        "bounded" => of(ANY_PLAN, 1, false, &["", "contract = { min_share = SHARE }"]),
        "bounded-two-class" => of(&["strict", "dwrr-9-1"], 1, false, &["", "contract = { min_share = SHARE }"]),
        name => panic!("say here what a random scenario of {name} needs"),
    })
}

fn topologies() -> impl Strategy<Value = String> {
    let link = (select(vec![1, 10, 40]), 1..20)
        .prop_map(|(rate, delay)| format!("{{ rate = \"{rate}Gbit/s\", delay = \"{delay}us\" }}"));
    let kind = select(vec![
        "kind = \"star\"\nhosts = 8\nlink = LINK",
        "kind = \"dumbbell\"\npairs = 4\nedge_link = LINK\nbottleneck_link = LINK",
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nhost_link = LINK\nfabric_link = LINK",
        "kind = \"fat-tree\"\nk = 4\nlink = LINK",
    ]);
    (kind, link).prop_map(|(kind, link)| kind.replace("LINK", &link))
}

/// Few flows among the first eight hosts.
fn flows() -> impl Strategy<Value = String> {
    let size = prop_oneof![1u64..3000, 1u64..300_000];
    let flow = (0u32..8, 1u32..8, 0u64..500, size).prop_map(|(source, hop, start, size)| {
        let destination = (source + hop) % 8;
        format!("{{ source = {source}, destination = {destination}, start = \"{start}us\", size = \"{size}B\" }}")
    });
    prop::collection::vec(flow, 1..8).prop_map(|flows| format!("flows = [{}]", flows.join(", ")))
}

/// One draw of everything that a scenario of a transport may vary in.
#[derive(Clone, Debug)]
struct Draw {
    topology: String,
    flows: [String; 2],
    plan: usize,
    keys: [usize; 2],
    /// Bounds of each group's contract under REFLEX: least delivery and least share, in per cent.
    contracts: [[u8; 2]; 2],
    seed: u32,
    routing: usize,
}

fn draws() -> impl Strategy<Value = Draw> {
    let picks = (any::<usize>(), any::<[usize; 2]>(), any::<u32>(), any::<usize>());
    let per_cent = || prop_oneof![1 => Just(0), 1 => Just(100), 4 => 1u8..100];
    let contract = || [per_cent(), per_cent()];
    (topologies(), [flows(), flows()], [contract(), contract()], picks).prop_map(
        |(topology, flows, contracts, (plan, keys, seed, routing))| Draw {
            topology,
            flows,
            plan,
            keys,
            contracts,
            seed,
            routing,
        },
    )
}

/// A scenario with two groups of the transport.
fn scenario(transport: TransportName, draw: &Draw) -> String {
    let needs = needs(transport).expect("the simulator has it");
    let routings = match transport.name() {
        _ if needs.sprays => &["ecmp", "spray-random", "spray-permutation", "flowlet"][..],
        "near-opt" => &["ecmp"],
        _ if transport.traits().has_credits => &["ecmp"],
        _ => &["ecmp", "flowlet"],
    };
    let pick = |of: &[&'static str], pick: usize| of[pick % of.len()];
    let (plan, routing, seed) = (pick(needs.plans, draw.plan), pick(routings, draw.routing), draw.seed);
    // REFLEX needs a queue to give way in.
    let gives_way = draw.keys.iter().any(|&key| pick(needs.keys, key) == REFLEX);
    let plan = if gives_way && ["drop-tail", "shared"].contains(&plan) { "wfq-3-1" } else { plan };
    let topology = &draw.topology;
    let mut text = format!(
        "duration = \"1ms\"\ndrain = \"1000s\"\nseed = {seed}\nrouting = \"{routing}\"\n\n\
         [topology]\n{topology}\n\n[queues]\nplan = \"{plan}\"\n",
    );
    for (group, name) in ["first", "second"].into_iter().enumerate() {
        let (transport, class, flows) = (transport.name(), needs.class, &draw.flows[group]);
        let [delivery, share] = draw.contracts[group].map(|per_cent| format!("{:.2}", f64::from(per_cent) / 100.0));
        let keys = pick(needs.keys, draw.keys[group]).replace("DELIVERY", &delivery).replace("SHARE", &share);
        let group = [
            format!("[traffic.{name}]"),
            "kind = \"flows\"".to_owned(),
            flows.clone(),
            format!("transport = \"{transport}\""),
            format!("class = {class}"),
            keys,
        ];
        text += &["\n", &group.join("\n"), "\n"].concat();
    }
    text
}

fn transports() -> Vec<TransportName> {
    TransportName::all_built_in().filter(|&name| needs(name).is_some()).collect()
}

/// What must arrive of the flow of a group.
fn held(result: &RunResult, transport: TransportName, min_delivery: &[f64]) -> Result<(), TestCaseError> {
    for flow in &result.flows {
        let least = min_delivery[usize::from(flow.group)];
        match transport.name() {
            // Nobody repeats what a queue dropped.
            "udp" | "dccp" => {
                prop_assert!(flow.state != FlowState::Unfinished);
                prop_assert!(flow.drops > 0 || flow.delivered_bytes == flow.bytes);
            }
            _ => {
                prop_assert_eq!(flow.state, FlowState::Completed);
                match flow.messages {
                    Some(counts) => {
                        prop_assert!(counts.delivered >= counts.needed);
                        prop_assert!(f64::from(counts.delivered) >= least * f64::from(counts.total) - 1e-9);
                    }
                    None => prop_assert!(flow.delivered_bytes as f64 >= least * flow.bytes as f64 - 1e-6),
                }
            }
        }
    }
    Ok(())
}

/// Whatever is drawn below makes a scenario: none of the cases is lost to a refusal.
#[test]
fn every_draw_is_a_scenario() {
    let refused = transports().into_iter().flat_map(|transport| {
        let needs = needs(transport).expect("chosen so");
        (0..needs.plans.len() * needs.keys.len()).filter_map(move |pick| {
            let flows = "flows = [{ source = 0, destination = 1, size = \"1kB\" }]".to_owned();
            let topology = "kind = \"star\"\nhosts = 2\nlink = { rate = \"1Gbit/s\", delay = \"1us\" }".to_owned();
            let (plan, key) = (pick % needs.plans.len(), pick / needs.plans.len());
            let (flows, contracts) = ([flows.clone(), flows], [[0, 100], [100, 0]]);
            let draw = Draw { topology, flows, plan, keys: [key, key], contracts, seed: 1, routing: pick };
            try_resolve(&scenario(transport, &draw)).err()
        })
    });
    assert_eq!(refused.collect::<Vec<_>>(), [""; 0]);
}

proptest! {
    #![proptest_config(cases(300))]

    /// Every flow of every transport ends with no less than its contract says, and a second run is the same.
    #[test]
    fn every_transport_keeps_its_promise(transport in select(transports()), draw in draws()) {
        let scenario = resolve_with(&scenario(transport, &draw), &[]);
        let result = run_resolved(&scenario);
        let least: Vec<f64> = scenario.groups.iter().map(|group| group.contract.min_delivery).collect();
        held(&result, transport, &least)?;
        prop_assert_eq!(run_resolved(&scenario).digest, result.digest);
    }
}
