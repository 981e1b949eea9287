//! What no estimator and no packets bound: REFLEX's workloads as a fluid whose flows always have the rates that a policy
//! gives them, at once and exactly.
//!
//! `cargo test --release -p pliant-sim --lib ideal_policies -- --ignored --nocapture`, with scenario files in `PLIANT_IDEAL`,
//! separated by `;`. Paths are relative to crates/sim.
//!
//! Every flexible flow first gets what its policy asks for, then regular flows share what is left, then flexible flows what
//! is left of that; each time by max-min.

use std::path::Path;

use super::perfect::{capacities, mean_and_p99, part_below};
use super::*;
use crate::oracle::max_min::{FlowDemand, max_min};
use crate::scenario::Scenario;

/// What a flexible flow is given before regular flows.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Policy {
    /// It is a regular flow.
    Normal,
    /// Nothing.
    Nothing,
    /// At every moment this part of its fair rate.
    Always(f64),
    /// Nothing while what is owed can still be earned at the fair rate until the end; its fair rate from then on. This is
    /// the latest time to pay. The part is promised over the flow's life.
    Latest(f64),
}

struct Fluid<'a> {
    links: &'a [usize],
    flexible: bool,
    arrival: f64,
    bytes: f64,
    served: f64,
    entitled: f64,
    completed: f64,
}

/// The fair rate of each open flow, and what it gets.
fn rates(capacities: &[f64], flows: &[Fluid<'_>], open: &[usize], policy: Policy) -> (Vec<f64>, Vec<f64>) {
    let demand = |links, demand| FlowDemand { links, weight: 1.0, demand };
    let all: Vec<_> = open.iter().map(|&flow| demand(flows[flow].links, None)).collect();
    let fair = max_min(capacities, &all);
    let asks = |at: usize| {
        let flow = &flows[open[at]];
        match policy {
            Policy::Normal => fair[at],
            _ if !flow.flexible => 0.0,
            Policy::Nothing => 0.0,
            Policy::Always(share) => share * fair[at],
            Policy::Latest(share) => {
                let owed = share * flow.entitled - flow.served;
                if owed >= (1.0 - share) * (flow.bytes - flow.served) { fair[at] } else { 0.0 }
            }
        }
    };
    let mut given: Vec<f64> = (0..open.len()).map(asks).collect();
    for flexible in [false, true] {
        let mut left = capacities.to_vec();
        for (at, &flow) in open.iter().enumerate() {
            flows[flow].links.iter().for_each(|&link| left[link] = (left[link] - given[at]).max(0.0));
        }
        let turn: Vec<usize> = (0..open.len()).filter(|&at| flows[open[at]].flexible == flexible).collect();
        let more = max_min(&left, &turn.iter().map(|&at| demand(flows[open[at]].links, None)).collect::<Vec<_>>());
        turn.iter().zip(more).for_each(|(&at, rate)| given[at] += rate);
    }
    (fair, given)
}

/// Serves `flows`, which come by arrival, until `end`. Rates are chosen anew at each arrival, at each end of a flow and
/// after `step`.
fn serve(capacities: &[f64], flows: &mut [Fluid<'_>], policy: Policy, step: f64, end: f64) {
    let (mut now, mut next, mut open) = (0.0, 0, Vec::new());
    while now < end && (next < flows.len() || !open.is_empty()) {
        if open.is_empty() {
            now = flows[next].arrival;
        }
        while next < flows.len() && flows[next].arrival <= now {
            open.push(next);
            next += 1;
        }
        let (fair, given) = rates(capacities, flows, &open, policy);
        let ends = open.iter().zip(&given).map(|(&flow, rate)| (flows[flow].bytes - flows[flow].served) / rate);
        let arrival = flows.get(next).map_or(f64::INFINITY, |flow| flow.arrival - now);
        let span = ends.fold(arrival.min(step).min(end - now), f64::min).max(1e-12);
        now += span;
        for (at, &flow) in open.iter().enumerate() {
            flows[flow].served += given[at] * span;
            flows[flow].entitled += fair[at] * span;
            if flows[flow].bytes - flows[flow].served <= 1e-3 {
                flows[flow].completed = now;
            }
        }
        open.retain(|&flow| flows[flow].completed.is_nan());
    }
}

fn fluid(links: &[usize], flexible: bool, arrival: f64, bytes: f64) -> Fluid<'_> {
    Fluid { links, flexible, arrival, bytes, served: 0.0, entitled: 0.0, completed: f64::NAN }
}

/// One link of 1, a regular flow of 1 and a flexible flow of 1 from the start. By hand: equal rates end both after 2. With a
/// half always, the regular flow has 3/4 until 4/3; then two thirds of the flexible flow are left. At the latest time with a half
/// it has nothing until the regular flow ends at 1, when it owes 1/4 and could still earn 1/2. With 0.8 it owes 0.8 t/2 at time t and
/// can earn 0.2: the same at 1/2. From then on both have a half until the regular flow ends at 3/2.
#[test]
fn known_rates() {
    let ends = |policy| {
        let mut flows = [fluid(&[0], false, 0.0, 1.0), fluid(&[0], true, 0.0, 1.0)];
        serve(&[1.0], &mut flows, policy, 1e-3, 10.0);
        let share = flows[1].served / flows[1].entitled;
        (flows[0].completed, flows[1].completed, share)
    };
    let close = |(a, b, c): (f64, f64, f64), (x, y, z): (f64, f64, f64)| {
        assert!((a - x).abs() < 5e-3 && (b - y).abs() < 5e-3 && (c - z).abs() < 5e-3, "{a} {b} {c} for {x} {y} {z}");
    };
    close(ends(Policy::Normal), (2.0, 2.0, 1.0));
    close(ends(Policy::Nothing), (1.0, 2.0, 1.0 / 1.5));
    close(ends(Policy::Always(0.5)), (4.0 / 3.0, 2.0, 1.0 / (2.0 / 3.0 + 2.0 / 3.0)));
    close(ends(Policy::Latest(0.5)), (1.0, 2.0, 1.0 / 1.5));
    close(ends(Policy::Latest(0.8)), (1.5, 2.0, 0.8));
}

/// A line for each policy: speed-up of regular flows in mean and 99th percentile, flexible flows below 0.8, and their least share.
#[test]
#[ignore = "an experiment: it takes minutes"]
fn ideal_policies() {
    for file in
        std::env::var("PLIANT_IDEAL").unwrap_or_default().split(';').map(str::trim).filter(|file| !file.is_empty())
    {
        let text = std::fs::read_to_string(file).unwrap();
        let scenario = Scenario::parse(&text, Path::new(file)).unwrap().resolve().unwrap();
        let (links, capacities) = (scenario.topology.links(), capacities(&scenario));
        let specs: Vec<_> = scenario.traffic().unwrap().collect();
        // A star: a host's own link up, and one down.
        let path = |source: u32, destination: u32| {
            let up = links.iter().position(|link| link.from.0 == source).unwrap();
            [up, links.iter().position(|link| link.to.0 == destination).unwrap()]
        };
        let paths: Vec<_> = specs.iter().map(|spec| path(spec.source, spec.destination)).collect();
        let flexible = scenario.groups.iter().position(|group| group.name == "flexible").unwrap();
        let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
        let from = scenario.spec.warmup.as_secs_f64();
        let until = scenario.spec.measure_until.unwrap().as_secs_f64();
        let policies = [
            Policy::Normal,
            Policy::Nothing,
            Policy::Always(0.8),
            Policy::Always(0.9),
            Policy::Latest(0.8),
            Policy::Latest(0.9),
        ];
        let mut normal = None;
        for policy in policies {
            let mut flows: Vec<_> = specs
                .iter()
                .zip(&paths)
                .map(|(spec, path)| {
                    fluid(path, usize::from(spec.group) == flexible, seconds(spec.start), spec.bytes as f64)
                })
                .collect();
            serve(&capacities, &mut flows, policy, 1e-3, scenario.spec.duration.as_secs_f64());
            flows.retain(|flow| (from..until).contains(&flow.arrival));
            let done = |flow: &&Fluid<'_>| !flow.flexible && !flow.completed.is_nan();
            let times = flows.iter().filter(done).map(|flow| flow.completed - flow.arrival).collect();
            let (mean, p99) = mean_and_p99(times);
            let shares: Vec<f64> =
                flows.iter().filter(|flow| flow.flexible).map(|flow| flow.served / flow.entitled).collect();
            // The steps of time leave a promise that is just kept a little below.
            let below = part_below(&shares, 0.8 - 1e-3);
            let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let (normal_mean, normal_p99) = *normal.get_or_insert((mean, p99));
            let (mean, p99) = (normal_mean / mean, normal_p99 / p99);
            println!("{mean:.3} {p99:.3} {below:.4} of {}, least {least:.3}: {policy:?} {file}", shares.len());
        }
    }
}
