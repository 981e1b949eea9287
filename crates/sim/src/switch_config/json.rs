//! The neutral form.

use pliant_proto::switch::marker::{MarkAt, MarkerConfig, Scope};
use pliant_proto::switch::plan::{Discipline, QueueConfig, SchedulerConfig};
use serde_json::{Value, json};

use super::form::Exported;
use super::port::Port;

pub(super) fn export(port: &Port<'_>) -> Exported {
    let plan = port.plan;
    let queues: Vec<Value> =
        plan.queues.iter().enumerate().map(|(index, queue)| describe(port, index, queue)).collect();
    let quantum = match plan.scheduler {
        SchedulerConfig::Dwrr { quantum_bytes, .. } => Some(quantum_bytes),
        _ => None,
    };
    let described = json!({
        "ports": port.names,
        "kind_of_port": (!port.kind.is_empty()).then_some(port.kind),
        "link_bits_per_second": port.rate.bits_per_sec(),
        "scheduler": plan.scheduler.name(),
        "quantum_bytes_per_weight": quantum,
        "strict_queues": port.strict(),
        "shared_buffer_bytes": plan.shared_buffer.map(|bytes| bytes.0),
        "device_fifo_packets": plan.device_fifo_packets,
        "queues": queues,
    });
    let mut text = serde_json::to_string_pretty(&described).expect("plain values");
    text.push('\n');
    Exported { text, not_expressed: port.other_kinds().into_iter().collect() }
}

fn describe(port: &Port<'_>, index: usize, queue: &QueueConfig) -> Value {
    let bytes = |bytes: u64| (bytes != u64::MAX).then_some(bytes);
    let marking = match queue.marker {
        MarkerConfig::None => Value::Null,
        MarkerConfig::Threshold(threshold) => json!({
            "kind": "threshold",
            "bytes": port.level_bytes(threshold.level),
            "at": if threshold.at == MarkAt::Enqueue { "enqueue" } else { "dequeue" },
            "scope": if threshold.scope == Scope::Queue { "queue" } else { "port" },
            "drops_not_ect": !threshold.pass_not_ect,
        }),
        MarkerConfig::Red(red) => json!({
            "kind": "red",
            "min_bytes": red.bytes(port.packet_bytes, port.rate).0,
            "max_bytes": red.bytes(port.packet_bytes, port.rate).1,
            "max_probability": red.max_probability,
            "average_weight": red.weight,
            "gentle": red.gentle,
            "drops_above": red.hard_drop,
        }),
        MarkerConfig::Phantom(phantom) => json!({
            "kind": "phantom",
            "drain": phantom.drain,
            "bytes": port.level_bytes(phantom.level),
            "drops_not_ect": !phantom.pass_not_ect,
        }),
    };
    json!({
        "name": queue.name,
        "dscp": port.dscps(index),
        "strict": index < port.strict(),
        "weight": queue.weight,
        "limit_packets": (queue.limit_packets != u32::MAX).then_some(queue.limit_packets),
        "limit_bytes": bytes(queue.bytes_at(port.rate)),
        "red_limit_bytes": bytes(queue.red_limit_bytes),
        "marking": marking,
        "buffer_alpha": queue.buffer_alpha,
        "reserved_bytes": queue.reserved_bytes,
        "shaper": queue.shaper.map(|shaper| json!({
            "bits_per_second": shaper.rate.at(port.rate).bits_per_sec(),
            "depth_bytes": shaper.depth_bytes,
        })),
        "discipline": match &queue.discipline {
            Discipline::Fifo => "fifo",
            Discipline::PFabric => "pfabric",
            Discipline::Trim { .. } => "trim",
            Discipline::ReturnToSender => "return-to-sender",
            Discipline::Foreign(foreign) => foreign.name(),
        },
        "lane": queue.lane,
    })
}
