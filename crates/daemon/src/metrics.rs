//! Metrics for Prometheus: the status as OpenMetrics text, over HTTP on a loopback address.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::control::{BundleStatus, DoorStatus, DoorStatusKind, Status};
use crate::http::read_head;
use crate::shared::Shared;

/// Most scrapes at a time.
const MAX_CLIENTS: usize = 16;
/// How long a scrape may take.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers scrapes, for ever.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
    loop {
        // It is never closed.
        let Ok(client) = clients.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((tcp, _)) => {
                let shared = shared.clone();
                tokio::spawn(async move {
                    // Whoever breaks off or speaks no HTTP gets no answer.
                    let _ = timeout(SCRAPE_TIMEOUT, answer(tcp, &shared)).await;
                    drop(client);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn answer(tcp: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut client = BufReader::new(tcp);
    let request = read_head(&mut client).await?;
    let path = request.target.split('?').next().unwrap_or_default();
    let (status, content_type, body) = match (request.method.as_str(), path) {
        ("GET", "/metrics") => ("200 OK", CONTENT_TYPE, page(Status::of(shared))),
        ("GET", _) => ("404 Not Found", "text/plain", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is served\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await?;
    client.shutdown().await
}

/// A status as OpenMetrics text.
fn page(status: Status) -> String {
    let mut registry = Registry::with_prefix("pliant");
    registry.register_collector(Box::new(Metrics(status)));
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("writing to a string succeeds");
    page
}

/// What a bundle has counted.
type Count = fn(&BundleStatus) -> u64;

/// Counters of a bundle: name, help, value.
const BUNDLE_COUNTERS: [(&str, &str, Count); 7] = [
    ("bundle_opened_streams", "Streams that either side has opened", |bundle| bundle.opened_streams),
    ("bundle_refused_streams", "Streams that the peer was not allowed to open", |bundle| bundle.refused_streams),
    ("bundle_sent_bytes", "Bytes of streams that were sent, each once", |bundle| bundle.sent_bytes),
    ("bundle_received_bytes", "Bytes of streams that have arrived, each once", |bundle| bundle.received_bytes),
    ("bundle_packets", "Data packets sent", |bundle| bundle.packets),
    ("bundle_retransmissions", "Data packets sent again", |bundle| bundle.retransmissions),
    ("bundle_marks", "Acknowledgements that told of congestion marks", |bundle| bundle.marks),
];

/// Gauges of a bundle.
const BUNDLE_GAUGES: [(&str, &str, Count); 2] = [
    ("bundle_streams", "Streams that are open", |bundle| bundle.streams as u64),
    ("bundle_held_bytes", "Bytes of streams that this side holds", |bundle| bundle.held_bytes),
];

#[derive(Debug)]
struct Metrics(Status);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = &self.0;
        let mut gauge = |name: &str, help: &str, value: f64| {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        gauge("daemon_uptime_seconds", "Time since the daemon was started", status.uptime_seconds)?;
        gauge("daemon_draining", "1 while no connection is taken", f64::from(u8::from(status.draining)))?;
        gauge("daemon_connections", "Connections of programs and to services", status.connections as f64)?;

        let help = "1 while a bundle to or from the peer is open";
        let mut family = encoder.encode_descriptor("peer_open", help, None, MetricType::Gauge)?;
        for peer in &status.peers {
            let labels = [("peer", peer.name.as_str())];
            ConstGauge::new(f64::from(u8::from(peer.open))).encode(family.encode_family(&labels)?)?;
        }
        let help = "Connections that the door has taken";
        let mut family = encoder.encode_descriptor("door_accepted_connections", help, None, MetricType::Counter)?;
        for door in &status.doors {
            let DoorStatus { listen, accepted, kind } = door;
            let kind = match kind {
                DoorStatusKind::Forward { .. } => "forward",
                DoorStatusKind::Proxy => "proxy",
            };
            let labels = [("door", listen.as_str()), ("kind", kind)];
            ConstCounter::new(*accepted).encode(family.encode_family(&labels)?)?;
        }
        for (name, help, value) in BUNDLE_COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for bundle in &status.bundles {
                ConstCounter::new(value(bundle)).encode(family.encode_family(&labels(bundle).as_slice())?)?;
            }
        }
        for (name, help, value) in BUNDLE_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for bundle in &status.bundles {
                ConstGauge::new(value(bundle) as f64).encode(family.encode_family(&labels(bundle).as_slice())?)?;
            }
        }
        Ok(())
    }
}

/// Two bundles can have one peer and one class while a changed class goes out of use, so the number is among them.
fn labels(bundle: &BundleStatus) -> [(&'static str, String); 3] {
    let peer = bundle.name.as_ref().unwrap_or(&bundle.peer).clone();
    [("peer", peer), ("class", bundle.class.clone()), ("bundle", bundle.number.to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::PeerStatus;

    /// The text form of OpenMetrics 1.0: counters end in `_total`, label values are escaped, the end is marked.
    #[test]
    fn a_status_is_told_as_openmetrics() {
        let bundle = BundleStatus {
            number: 4,
            peer: "192.0.2.7:7411".to_owned(),
            name: None,
            class: "backup".to_owned(),
            state: "open".to_owned(),
            streams: 3,
            opened_streams: 9,
            refused_streams: 1,
            sent_bytes: 1 << 53,
            received_bytes: 7,
            sent_bytes_per_second: 0.0,
            received_bytes_per_second: 0.0,
            held_bytes: 5,
            packets: 6,
            retransmissions: 2,
            marks: 0,
        };
        let door = |listen: &str, kind| DoorStatus { listen: listen.to_owned(), accepted: 12, kind };
        let page = page(Status {
            version: "1".to_owned(),
            process: 1,
            configuration: String::new(),
            uptime_seconds: 1.5,
            listen: String::new(),
            draining: false,
            connections: 2,
            peers: vec![PeerStatus { name: "a\"b".to_owned(), address: String::new(), open: true }],
            classes: Vec::new(),
            doors: vec![door("127.0.0.1:1080", DoorStatusKind::Proxy)],
            bundles: vec![bundle.clone(), BundleStatus { number: 5, name: Some("far".to_owned()), ..bundle }],
        });
        for line in [
            "# TYPE pliant_daemon_uptime_seconds gauge",
            "pliant_daemon_uptime_seconds 1.5",
            "pliant_daemon_draining 0.0",
            "pliant_daemon_connections 2.0",
            r#"pliant_peer_open{peer="a\"b"} 1.0"#,
            r#"pliant_door_accepted_connections_total{door="127.0.0.1:1080",kind="proxy"} 12"#,
            "# TYPE pliant_bundle_sent_bytes counter",
            r#"pliant_bundle_sent_bytes_total{peer="192.0.2.7:7411",class="backup",bundle="4"} 9007199254740992"#,
            r#"pliant_bundle_sent_bytes_total{peer="far",class="backup",bundle="5"} 9007199254740992"#,
            r#"pliant_bundle_streams{peer="far",class="backup",bundle="5"} 3.0"#,
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
    }
}
