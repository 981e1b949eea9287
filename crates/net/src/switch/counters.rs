//! What a switch counted, as a table for people and in Prometheus's text form.

use std::fmt::Write;

use pliant_proto::switch::queue::{DropReason, QueueCounters};

use super::forwarder::{PortCounters, Switch, SwitchConfig};

/// Name, help and value of each of a port's counters.
type PortField = (&'static str, &'static str, fn(&PortCounters) -> u64);

const PORT_FIELDS: [PortField; 15] = [
    ("received_frames", "Frames that arrived.", |p| p.received),
    ("received_bytes", "Bytes that arrived.", |p| p.received_bytes),
    ("sent_frames", "Frames that left.", |p| p.sent),
    ("sent_bytes", "Bytes that left.", |p| p.sent_bytes),
    ("forwarded_frames", "Frames that arrived and were passed on.", |p| p.forwarded),
    ("malformed_frames", "Frames refused: too short or contradictory.", |p| p.malformed),
    ("tagged_frames", "Frames refused: with a VLAN tag.", |p| p.tagged),
    ("oversized_frames", "Frames refused: too long, as superframes are.", |p| p.oversized),
    ("unknown_destination_frames", "Frames refused: to no port's address.", |p| p.unknown_destination),
    ("no_frame_frames", "Frames refused: all buffers were taken.", |p| p.no_frame),
    ("stranger_frames", "Datagrams refused: to a relay's alias, from an address that is no port's host.", |p| {
        p.strangers
    }),
    ("overrun_frames", "Frames lost because the switch came too late.", |p| p.overrun),
    ("went_down", "Times that the interface went down, or was removed.", |p| p.went_down),
    ("checksums_completed", "Checksums completed that a host had left to its interface.", |p| p.checksums_completed),
    ("send_failed_frames", "Frames that the kernel refused to send.", |p| p.send_failed),
];

/// The names of links, queues and ports beside what they counted.
pub struct Names {
    ports: Vec<String>,
    links: Vec<(String, Vec<String>)>,
}

impl Names {
    /// The names in a configuration.
    pub fn new(config: &SwitchConfig) -> Self {
        let queues = |plan: usize| config.fabric.plans[plan].queues.iter().map(|queue| queue.name.clone()).collect();
        let links = config.fabric.links.iter().map(|link| (link.name.clone(), queues(link.plan)));
        Self { ports: config.ports.clone(), links: links.collect() }
    }

    /// Of the ports, in their order.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(String::as_str)
    }
}

/// A table for people: what is not zero.
pub fn text(names: &Names, switch: &Switch) -> String {
    let mut text = String::new();
    for (name, counters) in names.ports.iter().zip(switch.ports()) {
        let values = PORT_FIELDS.iter().map(|(field, _, value)| (field, value(counters)));
        let shown: Vec<String> =
            values.filter(|(_, value)| *value > 0).map(|(field, value)| format!("{field} {value}")).collect();
        let _ = writeln!(text, "port {name}: {}", if shown.is_empty() { "nothing".into() } else { shown.join(", ") });
    }
    for ((name, queues), counters) in names.links.iter().zip(switch.fabric().counters()) {
        for (queue, counters) in queues.iter().zip(counters).filter(|(_, counters)| counters.admitted.packets > 0) {
            let _ = write!(
                text,
                "link {name}, queue {queue}: {} packets, {} bytes, {} marked, at most {} queued",
                counters.admitted.packets, counters.admitted.bytes, counters.marked_packets, counters.max_packets
            );
            for reason in DropReason::ALL {
                let dropped = counters.dropped[reason as usize].packets;
                if dropped > 0 {
                    let _ = write!(text, ", {dropped} dropped ({})", reason.name());
                }
            }
            text.push('\n');
        }
    }
    let late = switch.lateness();
    let _ = writeln!(
        text,
        "lateness: half of all frames below {}, 99 % below {}, at most {}; at most {} frames held",
        late.quantile(0.5),
        late.quantile(0.99),
        late.max,
        switch.most_frames()
    );
    let faults = switch.fault_counters();
    if faults != super::faults::FaultCounters::default() {
        let _ = writeln!(
            text,
            "faults: {} lost, {} in blackouts, {} duplicated, {} corrupted, {} held back",
            faults.lost, faults.blacked_out, faults.duplicated, faults.corrupted, faults.reordered
        );
    }
    text
}

/// Prometheus's text exposition format, version 0.0.4.
pub fn prometheus(names: &Names, switch: &Switch) -> String {
    let mut text = String::new();
    for (field, help, value) in PORT_FIELDS {
        family(&mut text, &format!("port_{field}"), help);
        for (name, counters) in names.ports.iter().zip(switch.ports()) {
            let _ = writeln!(text, "pliant_switch_port_{field}_total{{port=\"{}\"}} {}", escape(name), value(counters));
        }
    }
    let links: Vec<_> = names.links.iter().zip(switch.fabric().counters()).collect();
    let mut queue_family = |field: &str, help: &str, labels: &str, value: &dyn Fn(&QueueCounters) -> u64| {
        // The same family may have several values of a label.
        if !text.contains(&format!("# TYPE pliant_switch_queue_{field}_total ")) {
            family(&mut text, &format!("queue_{field}"), help);
        }
        for ((name, queues), counters) in &links {
            for (queue, counters) in queues.iter().zip(counters) {
                let (link, queue) = (escape(name), escape(queue));
                let value = value(counters);
                let _ = writeln!(
                    text,
                    "pliant_switch_queue_{field}_total{{link=\"{link}\",queue=\"{queue}\"{labels}}} {value}"
                );
            }
        }
    };
    queue_family("packets", "Packets admitted.", "", &|counters| counters.admitted.packets);
    queue_family("bytes", "Bytes admitted, on the wire.", "", &|counters| counters.admitted.bytes);
    queue_family("marked_packets", "Packets marked CE.", "", &|counters| counters.marked_packets);
    for reason in DropReason::ALL {
        let labels = format!(",reason=\"{}\"", reason.name());
        let value = |counters: &QueueCounters| counters.dropped[reason as usize].packets;
        queue_family("dropped_packets", "Packets refused, by reason.", &labels, &value);
    }
    text
}

fn family(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP pliant_switch_{name}_total {help}\n# TYPE pliant_switch_{name}_total counter");
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
