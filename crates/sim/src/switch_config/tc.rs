//! Scripts of `tc`, for Linux.
//!
//! With `ets` a band is a queue, strict bands first, then weighted ones with a quantum each (IEEE 802.1Qaz); `red` marks. With
//! `htb` every queue is a class that borrows the whole link: by `prio` where it is strict, by `quantum` among equals.

use std::fmt::Write as _;

use pliant_proto::switch::marker::{MarkAt, MarkerConfig, Scope};
use pliant_proto::switch::plan::{QueueConfig, SchedulerConfig};

use super::form::Exported;
use super::port::Port;

/// Bands that `ets` has.
const MAX_BANDS: usize = 16;
/// Priorities that `htb` has.
const MAX_PRIORITIES: usize = 8;
/// Rate that a class of `htb` has before it borrows, in bit/s.
const OWN_RATE: u64 = 8_000;
/// Most bytes of a quantum of `htb`, which warns above.
const MAX_QUANTUM: u64 = 200_000;
/// Bytes that a bare queue holds if nothing limits it.
const UNLIMITED: u64 = 1 << 30;

/// Which queueing disciplines the script uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RootDiscipline {
    Ets,
    Htb,
}

pub(super) fn export(port: &Port<'_>, kind: RootDiscipline) -> Result<Exported, String> {
    let (plan, count, strict) = (port.plan, port.plan.queues.len(), port.strict());
    // Those behind the strict ones are one priority.
    let priorities = strict + usize::from(strict < count);
    match kind {
        RootDiscipline::Ets if count > MAX_BANDS => {
            return Err(format!("the plan has {count} queues, and `ets` {MAX_BANDS} bands"));
        }
        RootDiscipline::Htb if priorities > MAX_PRIORITIES => {
            return Err(format!("the plan has {priorities} levels of priority, and `htb` {MAX_PRIORITIES}"));
        }
        _ => {}
    }
    let mut not_expressed = port.beyond_switches();
    if plan.shared_buffer.is_some() {
        not_expressed.push("the buffer that all queues share: each has its own limit alone".to_owned());
    }
    if plan.scheduler.name() == "wrr" {
        not_expressed.push("turns by packets: written as turns by bytes with the same weights".to_owned());
    }
    let mut commands = String::new();
    let quanta = quanta(port);
    root(port, kind, &quanta, &mut commands);
    for (index, queue) in plan.queues.iter().enumerate() {
        leaf(port, kind, index, queue, &quanta, &mut commands, &mut not_expressed);
    }
    filters(port, &mut commands);
    let mut text = String::from("#!/bin/sh\n# The queues of an interface: ");
    let names: Vec<&str> = plan.queues.iter().map(|queue| queue.name.as_str()).collect();
    let _ = writeln!(text, "{}.\n# Usage: sh FILE [INTERFACE]", one_line(&names.join(", ")));
    for sentence in &not_expressed {
        let _ = writeln!(text, "# Not expressed: {}", one_line(sentence));
    }
    let device = port.names.first().map_or("eth0", String::as_str);
    let _ = write!(text, "set -e\ndev=${{1:-{device}}}\ntc qdisc replace dev \"$dev\" root {commands}");
    Ok(Exported { text, not_expressed })
}

/// A comment stays one line whatever names a file gave.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Bytes of each weighted queue's turn.
fn quanta(port: &Port<'_>) -> Vec<u64> {
    let (weights, _) = port.weights(u32::MAX);
    let unit = match port.plan.scheduler {
        SchedulerConfig::Dwrr { quantum_bytes, .. } => {
            let given = port.plan.queues[port.strict()..].iter().map(|queue| queue.weight.max(1));
            let divisor = given.zip(&weights).map(|(weight, least)| weight / least).next().unwrap_or(1);
            u64::from(quantum_bytes) * u64::from(divisor)
        }
        _ => u64::from(port.packet_bytes),
    };
    // The least turn lets a full frame pass.
    let least = weights.iter().copied().min().unwrap_or(1);
    let frame = (u64::from(port.packet_bytes) + 14).div_ceil(u64::from(least.max(1)));
    weights.iter().map(|weight| u64::from(*weight) * unit.max(frame)).collect()
}

fn root(port: &Port<'_>, kind: RootDiscipline, quanta: &[u64], commands: &mut String) {
    let (count, strict) = (port.plan.queues.len(), port.strict());
    let _ = match kind {
        RootDiscipline::Ets => {
            let _ = write!(commands, "handle 1: ets bands {count}");
            if strict > 0 {
                let _ = write!(commands, " strict {strict}");
            }
            if !quanta.is_empty() {
                let words: Vec<String> = quanta.iter().map(ToString::to_string).collect();
                let _ = write!(commands, " quanta {}", words.join(" "));
            }
            let rest = rest(port).to_string();
            writeln!(commands, " priomap {}", [rest.as_str(); 16].join(" "))
        }
        RootDiscipline::Htb => {
            let rate = port.rate.bits_per_sec();
            let burst = rate / 8 / 1000;
            writeln!(
                commands,
                "handle 1: htb default {:x}\ntc class add dev \"$dev\" parent 1: classid 1:ff htb rate {rate}bit \
                 ceil {rate}bit burst {burst} cburst {burst}",
                rest(port) + 1
            )
        }
    };
}

fn leaf(
    port: &Port<'_>,
    kind: RootDiscipline,
    index: usize,
    queue: &QueueConfig,
    quanta: &[u64],
    commands: &mut String,
    not_expressed: &mut Vec<String>,
) {
    let (number, name) = (index + 1, &queue.name);
    let limit = port.limit_bytes(queue).min(UNLIMITED);
    let shaped = queue.shaper.map(|shaper| (shaper.rate.at(port.rate).bits_per_sec(), shaper.depth_bytes));
    if queue.red_limit_bytes != u64::MAX {
        not_expressed.push(format!(
            "queue \"{name}\": its limit of {} bytes for red packets: they have the limit of all",
            queue.red_limit_bytes
        ));
    }
    let mut parent = format!("1:{number:x}");
    match kind {
        RootDiscipline::Htb => {
            let (priority, quantum) = match index.checked_sub(port.strict()) {
                Some(weighted) => (port.strict(), quanta[weighted].min(MAX_QUANTUM)),
                None => (index, u64::from(port.packet_bytes) + 14),
            };
            let (ceil, burst) = shaped.map_or((port.rate.bits_per_sec(), None), |(rate, depth)| (rate, Some(depth)));
            let own = OWN_RATE.min(ceil);
            let cburst = burst.map_or(String::new(), |depth| format!(" cburst {depth}"));
            let _ = writeln!(
                commands,
                "tc class add dev \"$dev\" parent 1:ff classid {parent} htb rate {own}bit ceil {ceil}bit prio {priority} \
                 quantum {quantum}{cburst}"
            );
        }
        RootDiscipline::Ets => {
            if let Some((rate, depth)) = shaped {
                let handle = format!("1{number:x}:");
                let depth = depth.max(port.packet_bytes);
                let _ = writeln!(
                    commands,
                    "tc qdisc add dev \"$dev\" parent {parent} handle {handle} tbf rate {rate}bit burst {depth} limit {limit}"
                );
                parent = format!("{handle}1");
            }
        }
    }
    if kind == RootDiscipline::Htb && queue.marker != MarkerConfig::None {
        not_expressed.push(format!("queue \"{name}\": marking: `bfifo` has none; the form `tc` has it"));
    }
    let discipline = match (kind, queue.marker) {
        (RootDiscipline::Ets, MarkerConfig::Threshold(threshold)) => {
            if threshold.pass_not_ect {
                not_expressed.push(format!("queue \"{name}\": packets that cannot be marked pass: `red` drops them"));
            }
            if threshold.at == MarkAt::Dequeue || threshold.scope == Scope::Port {
                not_expressed.push(format!(
                    "queue \"{name}\": marking as packets leave, or by the port's queue: `red` marks as they come, by its own"
                ));
            }
            let packet = u64::from(port.packet_bytes);
            let bytes = port.level_bytes(threshold.level).max(packet);
            // `red` needs a maximum above its minimum, and room above that.
            let (limit, burst) = (limit.max(3 * bytes), bytes / packet + 1);
            format!(
                "red limit {limit} min {bytes} max {} avpkt {packet} burst {burst} probability 1 bandwidth {}bit ecn",
                bytes + 1,
                port.rate.bits_per_sec()
            )
        }
        (RootDiscipline::Ets, MarkerConfig::Red(red)) => {
            not_expressed.push(format!(
                "queue \"{name}\": the weight of RED's average ({}), and the rise of its probability above the maximum: `red` \
                 takes the first from `burst`",
                red.weight
            ));
            let (min, max) = red.bytes(port.packet_bytes, port.rate);
            let (min, max) = (min.max(1), max.max(min.max(1) + 1));
            let packet = u64::from(port.packet_bytes);
            let burst = (2 * min + max) / (3 * packet) + 1;
            format!(
                "red limit {} min {min} max {max} avpkt {packet} burst {burst} probability {} bandwidth {}bit ecn{}",
                limit.max(2 * max),
                red.max_probability,
                port.rate.bits_per_sec(),
                if red.hard_drop { " harddrop" } else { "" }
            )
        }
        _ => format!("bfifo limit {limit}"),
    };
    let _ = writeln!(commands, "tc qdisc add dev \"$dev\" parent {parent} {discipline}");
}

/// The queue of most classes, which takes what no filter knows.
fn rest(port: &Port<'_>) -> usize {
    let queues = 0..port.plan.queues.len();
    queues.max_by_key(|queue| port.dscps(*queue).len()).unwrap_or(0)
}

/// Filters that look at the DSCP: one for each, for IPv4 and IPv6.
fn filters(port: &Port<'_>, commands: &mut String) {
    for index in 0..port.plan.queues.len() {
        if index == rest(port) {
            continue;
        }
        for dscp in port.dscps(index) {
            let (octet, class) = (dscp << 2, index + 1);
            for (protocol, family, priority, field) in [("ip", "ip", 1, "dsfield"), ("ipv6", "ip6", 2, "priority")] {
                let _ = writeln!(
                    commands,
                    "tc filter add dev \"$dev\" parent 1: protocol {protocol} prio {priority} u32 match {family} {field} \
                     0x{octet:02x} 0xfc flowid 1:{class:x}"
                );
            }
        }
    }
}
