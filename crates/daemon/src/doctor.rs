//! Examines a host and its paths to peers, and says what would improve them.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use pliant_net::bundle::BundleNode;
use pliant_net::socket::{SOCKET_BUFFER_BYTES, Socket};
use pliant_net::transfer::Settings;
use pliant_proto::time::Span;
use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
use rustix::process::{Resource, getrlimit};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::config::{Config, DoorKind, NextHop};
use crate::program::Program;
use crate::shared::OWN_DESCRIPTORS;

/// How long a peer may take to answer a call, and what is asked of it then.
const CALL_TIMEOUT: Span = Span::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Clocks that are read without a system call.
const FAST_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// The state of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, but could work better.
    Weak,
    /// It does not work.
    Broken,
}

/// A finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was examined.
    pub subject: String,
    /// Its state.
    pub verdict: Verdict,
    /// The observation.
    pub found: String,
    /// What to do about it; empty if it is good.
    pub advice: String,
}

impl Finding {
    fn good(subject: &str, found: impl Into<String>) -> Self {
        Self::new(subject, Verdict::Good, found, "")
    }

    fn weak(subject: &str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(subject, Verdict::Weak, found, advice)
    }

    fn broken(subject: &str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(subject, Verdict::Broken, found, advice)
    }

    fn new(subject: &str, verdict: Verdict, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { subject: subject.to_owned(), verdict, found: found.into(), advice: advice.into() }
    }
}

/// Examines this host, independent of the configuration.
///
/// # Errors
///
/// If no UDP socket can be opened on loopback.
pub fn examine_host() -> io::Result<Vec<Finding>> {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let socket = Socket::bind(([127, 0, 0, 1], 0).into())?;
    Ok(vec![
        clock(source.as_deref().map_or("unknown", str::trim)),
        receive_buffer(socket.receive_buffer_bytes()),
        offload(socket.max_segments() > 1, socket.coalesces()),
    ])
}

fn clock(source: &str) -> Finding {
    if FAST_CLOCKS.contains(&source) {
        return Finding::good("clock", source);
    }
    let advice = "each reading is a system call: if the processor's counter is sound, boot with clocksource=tsc";
    Finding::weak("clock", source, advice)
}

fn receive_buffer(bytes: usize) -> Finding {
    // The kernel doubles what it grants, for its own overhead (socket(7)).
    let granted = bytes / 2;
    let found = format!("{} of {} KiB", granted >> 10, SOCKET_BUFFER_BYTES >> 10);
    if granted >= SOCKET_BUFFER_BYTES {
        return Finding::good("UDP receive buffer", found);
    }
    let advice = format!(
        "bursts are lost: sysctl -w net.core.rmem_max={SOCKET_BUFFER_BYTES} net.core.wmem_max={SOCKET_BUFFER_BYTES}, \
         and in /etc/sysctl.d to stay"
    );
    Finding::weak("UDP receive buffer", found, advice)
}

fn offload(sends: bool, receives: bool) -> Finding {
    let word = |can: bool| if can { "yes" } else { "no" };
    let found = format!("GSO {}, GRO {}", word(sends), word(receives));
    if sends && receives {
        return Finding::good("UDP offload", found);
    }
    Finding::weak("UDP offload", found, "each packet is a system call: Linux 5.0 or newer has both")
}

/// Whether a program would load the preload library, by its path or its name in `PATH`.
pub fn examine_program(name: &OsStr) -> Finding {
    let subject = format!("program {}", name.display());
    match Program::examine(name) {
        Ok(Program { file, obstacle: None }) => {
            Finding::good(&subject, format!("{} loads the library", file.display()))
        }
        Ok(Program { file, obstacle: Some(obstacle) }) => Finding::weak(
            &subject,
            format!("{} does not load the preload library: {}", file.display(), obstacle.why()),
            "use a table `proxy` or `forward`",
        ),
        Err(error) => Finding::broken(&subject, error.to_string(), "name a program, by its path or as in PATH"),
    }
}

impl Config {
    /// Examines this host and its paths to peers for this configuration. Calls each peer that a door uses.
    ///
    /// # Errors
    ///
    /// If no UDP socket can be opened for the calls.
    pub async fn examine(&self) -> io::Result<Vec<Finding>> {
        self.examine_within(CALL_TIMEOUT).await
    }

    async fn examine_within(&self, connect_timeout: Span) -> io::Result<Vec<Finding>> {
        // What was read could be read by nobody else, or there would be no configuration.
        let mut findings = vec![
            Finding::good("key file", "nobody else can read it"),
            // A daemon raises its limit as far as it may.
            descriptors(getrlimit(Resource::Nofile).maximum, self.limits.user_connections),
        ];
        let (keys, called) = (self.keys.clone(), self.called.clone());
        let settings = Settings { keys, called, connect_timeout, ..Settings::default() };
        // The daemon itself may have its own port.
        let local = SocketAddr::new(self.listen.address.ip(), 0);
        let (node, _streams) = BundleNode::bind(local, settings, self.classes.clone())?;
        for next_hop in self.next_hops() {
            let subject = format!("peer {}, class {}", next_hop.to, next_hop.class);
            findings.push(call(&node, next_hop, &subject).await);
            let class = self.classes.iter().find(|class| class.name == next_hop.class);
            if let Some(class) = class {
                findings.push(mtu(&subject, route_mtu(local, next_hop.peer), class.flow.mtu));
            }
        }
        Ok(findings)
    }

    /// Peers and classes that doors use, each pair once.
    fn next_hops(&self) -> Vec<&NextHop> {
        let mut next_hops: Vec<&NextHop> = Vec::new();
        for door in &self.doors {
            let of_door: Vec<&NextHop> = match &door.kind {
                DoorKind::Forward { next_hop, .. } => vec![next_hop],
                DoorKind::Kafka(cluster) => vec![&cluster.next_hop],
                DoorKind::Metrics | DoorKind::Objects => Vec::new(),
                DoorKind::Proxy { routes, .. } => routes.iter().map(|(_, next_hop)| next_hop).collect(),
            };
            next_hops.extend(of_door);
        }
        next_hops.extend(self.preload.iter().flat_map(|preload| &preload.rules).map(|rule| &rule.next_hop));
        next_hops.sort_by_key(|next_hop| (&next_hop.to, &next_hop.class));
        next_hops.dedup();
        next_hops
    }
}

fn descriptors(limit: Option<u64>, connections: usize) -> Finding {
    // Whoever has so many leaves as many to all others.
    let wanted = (2 * connections + OWN_DESCRIPTORS) as u64;
    match limit {
        Some(limit) if limit < wanted => {
            let found = format!("{limit}, and `limits.user_connections` is {connections}");
            Finding::weak("descriptors", found, format!("ulimit -n {wanted}, or LimitNOFILE={wanted} in the unit"))
        }
        Some(limit) => Finding::good("descriptors", limit.to_string()),
        None => Finding::good("descriptors", "no limit"),
    }
}

/// Opens a stream to no service, which every exit denies. The denial shows that path, keys and class are right.
async fn call(node: &BundleNode, next_hop: &NextHop, subject: &str) -> Finding {
    let answer = async { node.open(next_hop.peer, &next_hop.class, Vec::new())?.read_u8().await };
    let at = next_hop.peer;
    match timeout(ANSWER_TIMEOUT, answer).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            Finding::good(subject, format!("{at} answers"))
        }
        Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => {
            let advice = format!("see that the daemon there has the class `{}`, and the same key", next_hop.class);
            Finding::broken(subject, format!("{at}: {error}"), advice)
        }
        Ok(Ok(_)) => Finding::broken(subject, format!("{at} serves what is no service"), "update the daemon there"),
        Ok(Err(_)) | Err(_) => {
            let advice = "see that a daemon runs there, that each side's key file has the other (one that does not know a \
                          key is silent), and that firewalls let UDP through both ways";
            Finding::broken(subject, format!("{at} does not answer"), advice)
        }
    }
}

/// The largest IP packet that the kernel sends to a peer, in bytes.
fn route_mtu(local: SocketAddr, peer: SocketAddr) -> io::Result<u32> {
    let socket = UdpSocket::bind(local)?;
    socket.connect(peer)?;
    Ok(if peer.is_ipv4() { ip_mtu(&socket)? } else { ipv6_mtu(&socket)? })
}

fn mtu(subject: &str, route: io::Result<u32>, class: u16) -> Finding {
    let subject = format!("{subject}, MTU");
    match route {
        Ok(route) if route < u32::from(class) => {
            let found = format!("the class sends {class} bytes, the route takes {route}");
            Finding::broken(&subject, found, format!("set `mtu = {route}` or less in the class, at both ends"))
        }
        Ok(route) => Finding::good(&subject, format!("{class} of the {route} bytes that the route takes")),
        Err(error) => Finding::broken(&subject, format!("no route: {error}"), "see `ip route get` with its address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each limit from both sides.
    #[test]
    fn findings_follow_from_what_is_measured() {
        for (finding, verdict) in [
            (clock("tsc"), Verdict::Good),
            (clock("hpet"), Verdict::Weak),
            (receive_buffer(2 * SOCKET_BUFFER_BYTES), Verdict::Good),
            // The default of Linux, 208 KiB.
            (receive_buffer(2 * 212_992), Verdict::Weak),
            (offload(true, true), Verdict::Good),
            (offload(true, false), Verdict::Weak),
            (descriptors(Some(20_064), 10_000), Verdict::Good),
            (descriptors(Some(20_063), 10_000), Verdict::Weak),
            (descriptors(None, 10_000), Verdict::Good),
            (mtu("", Ok(1200), 1200), Verdict::Good),
            (mtu("", Ok(1199), 1200), Verdict::Broken),
            (mtu("", Err(io::ErrorKind::NetworkUnreachable.into()), 1200), Verdict::Broken),
        ] {
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert_eq!(finding.advice.is_empty(), verdict == Verdict::Good, "{finding:?}");
        }
        assert!(descriptors(Some(1024), 10_000).advice.contains("ulimit -n 20064"));
        assert!(mtu("", Ok(1199), 1200).advice.contains("mtu = 1199"));
    }

    /// A peer with another key is not one that refuses, nor one that is not there.
    #[tokio::test]
    async fn a_peer_with_another_key_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str, digits: &str, rest: &str| {
            let key = folder.path().join(name);
            fs::write(&key, format!("preshared {}", digits.repeat(32))).unwrap();
            fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            let class = "[classes.bulk]\ntransport = \"cubic\"\n";
            let text = format!("listen = \"127.0.0.1:0\"\nkey = \"{name}\"\n{class}{rest}");
            Config::parse(&text, &folder.path().join("daemon.toml")).unwrap()
        };
        let far = read("far", "0a", "[exit]\nallow = [\"127.0.0.1:1\"]\n");
        let (far, _streams) =
            BundleNode::bind(far.listen.address, Settings { keys: far.keys, ..Settings::default() }, far.classes)
                .unwrap();
        let door = "[[forward]]\nlisten = \"127.0.0.1:0\"\nto = \"far\"\ntarget = \"127.0.0.1:1\"\nclass = \"bulk\"\n";
        let near = read("near", "0b", &format!("{door}[peers]\nfar = \"{}\"\n", far.local_address()));
        let findings = near.examine_within(Span::from_ms(300)).await.unwrap();
        let found = findings.iter().find(|finding| finding.subject == "peer far, class bulk").unwrap();
        assert_eq!(found.verdict, Verdict::Broken);
        assert!(found.found.contains("somebody answers, but not to this key"), "{found:?}");
    }

    /// The loopback interface's MTU, but no more than an IP packet can have.
    #[test]
    fn the_kernel_tells_a_routes_mtu() {
        let expected: u32 = fs::read_to_string("/sys/class/net/lo/mtu").unwrap().trim().parse().unwrap();
        let found = route_mtu(([127, 0, 0, 1], 0).into(), ([127, 0, 0, 1], 9).into()).unwrap();
        assert_eq!(found, expected.min(u16::MAX.into()));
    }
}
