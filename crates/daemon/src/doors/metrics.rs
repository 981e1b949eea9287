//! A door that serves the daemon's metrics in Prometheus's text format (version 0.0.4), at `/metrics`.

use std::fmt::Write;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::control::{BundleStatus, KafkaPartitionStatus, Status};
use crate::this_host::names_this_host;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of a request.
const MAX_REQUEST_BYTES: u64 = 16 << 10;

/// Answers one request and ends.
pub(super) async fn serve(tcp: TcpStream, status: impl FnOnce() -> Status) {
    // Whoever breaks off does not wait for an answer.
    let _ = timeout(REQUEST_TIMEOUT, answer(tcp, status)).await;
}

async fn answer(tcp: TcpStream, status: impl FnOnce() -> Status) -> io::Result<()> {
    let mut from = BufReader::new(tcp);
    let mut first = String::new();
    let mut request = (&mut from).take(MAX_REQUEST_BYTES);
    request.read_line(&mut first).await?;
    let (mut line, mut here) = (first.clone(), true);
    while !line.trim_end().is_empty() {
        line.clear();
        request.read_line(&mut line).await?;
        if let Some((name, host)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            here &= names_this_host(Some(host.as_bytes()));
        }
    }
    let words: Vec<&str> = first.split_whitespace().collect();
    let (code, body) = match words[..] {
        _ if !here => ("421 Misdirected Request", "ask it as localhost or by its address\n".to_owned()),
        ["GET", "/metrics", version] if version.starts_with("HTTP/1.") => ("200 OK", text(&status())),
        ["GET", _, version] if version.starts_with("HTTP/1.") => ("404 Not Found", "it is at /metrics\n".to_owned()),
        _ => ("400 Bad Request", "GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut tcp = from.into_inner();
    tcp.write_all(head.as_bytes()).await?;
    tcp.write_all(body.as_bytes()).await?;
    tcp.shutdown().await
}

/// A metric of every bundle: its name, its kind, its meaning and its value.
type OfBundle = (&'static str, &'static str, &'static str, fn(&BundleStatus) -> f64);

/// Bytes and packets are counters, as usual in Prometheus, which computes rates.
const OF_BUNDLES: &[OfBundle] = &[
    ("pliant_bundle_streams", "gauge", "Streams that are open", |bundle| bundle.streams as f64),
    ("pliant_bundle_streams_opened_total", "counter", "Streams that either side has opened", |bundle| {
        bundle.opened_streams as f64
    }),
    ("pliant_bundle_streams_refused_total", "counter", "Streams that the peer was not allowed to open", |bundle| {
        bundle.refused_streams as f64
    }),
    ("pliant_bundle_sent_bytes_total", "counter", "Bytes of streams that were sent, each once", |bundle| {
        bundle.sent_bytes as f64
    }),
    ("pliant_bundle_received_bytes_total", "counter", "Bytes of streams that arrived, each once", |bundle| {
        bundle.received_bytes as f64
    }),
    ("pliant_bundle_held_bytes", "gauge", "Bytes of streams that this side holds", |bundle| bundle.held_bytes as f64),
    ("pliant_bundle_packets_total", "counter", "Data packets sent", |bundle| bundle.packets as f64),
    ("pliant_bundle_retransmissions_total", "counter", "Data packets that were sent again", |bundle| {
        bundle.retransmissions as f64
    }),
    ("pliant_bundle_marks_total", "counter", "Acknowledgements that told of congestion marks", |bundle| {
        bundle.marks as f64
    }),
    ("pliant_bundle_round_trip_seconds", "gauge", "Smoothed round-trip time; 0 before the first sample", |bundle| {
        bundle.round_trip_seconds
    }),
    ("pliant_bundle_added_delay_seconds", "gauge", "Round-trip time above the least one of the bundle", |bundle| {
        bundle.added_delay_seconds
    }),
    ("pliant_bundle_floor_bytes_per_second", "gauge", "Least rate by the contract; 0 if none is known", |bundle| {
        bundle.floor_bits_per_second.unwrap_or_default() / 8.0
    }),
];

/// A metric of every partition of which records may be left out: its name, type, meaning and value.
type OfKafkaPartition = (&'static str, &'static str, &'static str, fn(&KafkaPartitionStatus) -> f64);

const OF_KAFKA_PARTITIONS: &[OfKafkaPartition] = &[
    ("pliant_kafka_records_total", "counter", "Records that were fetched, each once", |partition| {
        partition.fetched as f64
    }),
    ("pliant_kafka_records_lost_total", "counter", "Records that were lost, each once", |partition| {
        partition.lost as f64
    }),
    // It falls when a door says what has become of them.
    ("pliant_kafka_records_unsettled", "gauge", "Records that may be lost, and nobody has said", |partition| {
        partition.unsettled as f64
    }),
];

fn text(status: &Status) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, meaning: &str, samples: &[(String, f64)]| {
        writeln!(text, "# HELP {name} {meaning}.\n# TYPE {name} {kind}").expect("a string takes all");
        for (labels, value) in samples {
            writeln!(text, "{name}{labels} {value}").expect("a string takes all");
        }
    };
    let alone = |value: f64| vec![(String::new(), value)];
    metric("pliant_info", "gauge", "The daemon's version", &[(labels(&[("version", &status.version)]), 1.0)]);
    metric("pliant_uptime_seconds", "gauge", "Time since the start", &alone(status.uptime_seconds));
    metric("pliant_draining", "gauge", "1 while no connection is taken", &alone(f64::from(u8::from(status.draining))));
    metric("pliant_connections", "gauge", "Connections of programs and to services", &alone(status.connections as f64));
    let peers = status.peers.iter().map(|peer| (labels(&[("peer", &peer.name)]), f64::from(u8::from(peer.open))));
    metric("pliant_peer_open", "gauge", "1 where a bundle with the peer is open", &peers.collect::<Vec<_>>());
    let doors = status
        .doors
        .iter()
        .map(|door| (labels(&[("door", &door.listen), ("kind", door.kind.name())]), door.accepted as f64));
    metric("pliant_door_accepted_total", "counter", "Connections that a door has taken", &doors.collect::<Vec<_>>());
    if let Some(objects) = &status.objects {
        metric("pliant_objects_files", "gauge", "Files that are offered", &alone(objects.files as f64));
        metric("pliant_objects_fetches", "gauge", "Fetches of files under way", &alone(objects.fetches as f64));
    }
    for (name, kind, meaning, value) in OF_BUNDLES {
        let samples = status.bundles.iter().map(|bundle| {
            let peer = bundle.name.as_ref().unwrap_or(&bundle.peer);
            let number = bundle.number.to_string();
            (labels(&[("peer", peer), ("class", &bundle.class), ("bundle", &number)]), value(bundle))
        });
        metric(name, kind, meaning, &samples.collect::<Vec<_>>());
    }
    for (name, kind, meaning, value) in OF_KAFKA_PARTITIONS {
        let samples = status.kafka_partitions.iter().map(|of| {
            let partition = of.partition.to_string();
            let named: [(&str, &str); 4] =
                [("class", &of.class), ("topic", &of.topic), ("topic_id", &of.topic_id), ("partition", &partition)];
            (labels(&named), value(of))
        });
        metric(name, kind, meaning, &samples.collect::<Vec<_>>());
    }
    text
}

/// Labels with their values, in which the format's three special characters are escaped.
fn labels(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let each: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", each.join(","))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A foreign page whose name resolves to loopback hears nothing of peers and topics.
    #[tokio::test]
    async fn foreign_pages_get_no_metrics() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut browser = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        browser.write_all(b"GET /metrics HTTP/1.1\r\nAccept: */*\r\nhost: pages.example:9464\r\n\r\n").await.unwrap();
        serve(listener.accept().await.unwrap().0, || unreachable!("nobody asks for the state")).await;
        let mut answer = String::new();
        browser.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    }

    /// What falls is a gauge: Prometheus takes a counter that falls for one that began again.
    #[test]
    fn what_can_fall_is_a_gauge() {
        let status = serde_json::json!({
            "version": "0", "process": 1, "configuration": "", "uptime_seconds": 0.0, "listen": "", "draining": false,
            "connections": 0, "peers": [], "classes": [], "doors": [], "bundles": [],
        });
        let text = text(&serde_json::from_value(status).unwrap());
        assert!(text.contains("# TYPE pliant_kafka_records_unsettled gauge\n"), "{text}");
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            assert_eq!(line.ends_with(" counter"), line.contains("_total "), "{line}");
        }
    }

    #[test]
    fn values_of_labels_are_escaped() {
        assert_eq!(labels(&[("a", "b\"c\\d\ne"), ("f", "")]), r#"{a="b\"c\\d\ne",f=""}"#);
    }
}
