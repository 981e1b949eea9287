//! Network namespaces and the interfaces in them, by the commands of iproute2 and util-linux.
//!
//! A namespace belongs to one process and has no name, and interfaces are made inside of namespaces: all of it goes
//! when the processes do.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use pliant_net::switch::ethernet::Mode;

use crate::network::{address, station};

/// Room for a full packet of a scenario in UDP with Pliant's headers.
const MTU_BYTES: u32 = 2000;
/// Segment size that the operating system's TCP announces: full frames of Ethernet.
const KERNEL_MSS: u32 = 1460;

/// Whether this user may make network namespaces.
pub(crate) fn permitted() -> bool {
    let quiet =
        |command: &mut Command| command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet(Command::new("unshare").args(["--net", "true"])).is_ok_and(|status| status.success())
}

/// What runs a program in a new network namespace, as the same process, without IPv6: neighbours are set by hand, and nothing
/// else should be on the wire.
///
/// The setting belongs to the namespace of whoever writes it. So the command that makes the namespace writes it, and nothing
/// that also runs in the caller's.
pub(crate) const IN_NEW: [&str; 6] = [
    "unshare",
    "--net",
    "--",
    "sh",
    "-c",
    "echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/all/disable_ipv6; exec \"$0\" \"$@\"",
];

/// Name of the switch's interface to a host.
pub(crate) fn interface(host: u32) -> String {
    format!("h{host}")
}

/// Connects the namespace of every host with that of the switch.
pub(crate) fn connect(switch: u32, hosts: &[u32], mode: Mode) -> io::Result<()> {
    let mut cables = String::new();
    for (host, process) in (0..).zip(hosts) {
        let (name, station) = (interface(host), text_of(station(host)));
        let _ = writeln!(
            cables,
            "link add name {name} mtu {MTU_BYTES} type veth peer name eth0 mtu {MTU_BYTES} address {station} netns {process}\n\
             link set dev {name} up"
        );
    }
    ip(switch, &cables)?;
    for (host, process) in (0..).zip(hosts) {
        // One segment per frame: a superframe would be one entry of a queue, and 44 times as long.
        let segments = if mode == Mode::Fidelity { "link set dev eth0 gso_max_segs 1\n" } else { "" };
        let mut lines = format!(
            "link set dev lo up\n{segments}link set dev eth0 up\n\
             address add {address}/16 dev eth0\n\
             route change 10.77.0.0/16 dev eth0 src {address} advmss {KERNEL_MSS}\n",
            address = address(host)
        );
        for other in (0..hosts.len() as u32).filter(|&other| other != host) {
            let station = text_of(station(other));
            let _ = writeln!(lines, "neighbour add {} lladdr {station} dev eth0 nud permanent", address(other));
        }
        ip(*process, &lines)?;
    }
    Ok(())
}

fn text_of(station: [u8; 6]) -> String {
    station.map(|octet| format!("{octet:02x}")).join(":")
}

/// Gives `ip` these lines in the network namespace of a process.
fn ip(process: u32, lines: &str) -> io::Result<()> {
    let mut child = Command::new("nsenter")
        .args(["--target", &process.to_string(), "--net", "ip", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().expect("it is piped").write_all(lines.as_bytes())?;
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip: {}", said.lines().next().unwrap_or("failed"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv6 is off in the namespace that is made, and stays as it is here.
    #[test]
    fn ipv6_is_off_in_the_new_namespace_only() {
        const SETTING: &str = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
        let Ok(before) = std::fs::read_to_string(SETTING) else { return };
        if !permitted() {
            eprintln!("skipped: network namespaces need root");
            return;
        }
        let (first, rest) = IN_NEW.split_first().expect("it is a command");
        let inside = Command::new(first).args(rest).args(["cat", SETTING]).output().unwrap();
        assert_eq!(String::from_utf8(inside.stdout).unwrap().trim(), "1");
        assert_eq!(std::fs::read_to_string(SETTING).unwrap(), before);
    }
}
