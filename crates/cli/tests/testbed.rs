//! Scenarios on a real network: bytes arrive whole through a bad one, nothing is left behind, mistakes get one line.
//!
//! What needs network namespaces says so and is skipped where there are none.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{pliant, ran, stderr};
use serde_json::Value;

/// One flow of each transport that repairs what is lost, one after the other from host 0 to host 1.
fn every_transport(folder: &Path) -> PathBuf {
    let mut text = String::from(
        r#"
        duration = "2s"
        drain = "60s"
        topology = { kind = "star", hosts = 2, link = { rate = "100Mbit/s", delay = "500us" } }
        transport = { min_rto = "20ms" }

        [queues]
        shared_buffer = "4.5MB"

        [[queues.queue]]
        name = "credit"
        classes = [31]
        limit = "10 packets"
        shaper = { share = 0.05179, depth = "168B" }

        [[queues.queue]]
        name = "data"
        classes = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
        limit = "1000 packets"
        ecn = "100kB"

        [[queues.queue]]
        name = "low"
        classes = [2]
        limit = "1000 packets"
        ecn = "100kB"
        "#,
    );
    let mut group = |name: &str, keys: &str| {
        let start = 100 * text.matches("[traffic.").count();
        let _ = write!(
            text,
            "\n[traffic.{name}]\nkind = \"flows\"\n{keys}\n\
             flows = [{{ source = 0, destination = 1, start = \"{start}ms\", size = \"300kB\" }}]\n"
        );
    };
    for transport in ["reno", "newreno", "cubic", "dctcp", "weighted-fair", "tcp-lp", "ledbat", "ledbat++", "bounded"] {
        group(&transport.replace("++", "pp"), &format!("transport = \"{transport}\""));
    }
    for transport in ["expresspass", "expresspass-layered", "flexpass"] {
        group(transport, &format!("transport = \"{transport}\""));
    }
    group("reflex", "transport = \"dctcp\"\nclass = 1\ncontract = { min_share = 0.9 }\nreflex = { low_class = 2 }");
    group("two-class", "transport = \"bounded-two-class\"\nclass = 2\ncontract = { min_share = 0.5 }");
    group("messages", "transport = \"dctcp\"\nmessages = { size = \"1000B\" }");
    group("atp", "transport = \"atp\"\nclass = 8\nack_class = 0\ncontract = { min_delivery = 0.9 }");
    group("homa", "transport = \"homa\"\nclass = 8\nhoma = { resend_interval = \"50ms\" }");
    group("push", "transport = \"push\"\npush = { block = \"100kB\", min_rto = \"20ms\", initial_rto = \"50ms\" }");
    let file = folder.join("transports.toml");
    fs::write(&file, text).unwrap();
    file
}

/// Runs on a testbed and returns the rows of `flows.csv`, by name of the column.
fn flows(scenario: &Path, more: &[&str]) -> (Vec<Vec<(String, String)>>, String) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let fixed = ["testbed", "run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let output = pliant(&[&fixed[..], more].concat());
    let said = stderr(&output);
    assert!(ran(&output), "{said}");
    let text = fs::read_to_string(out.join("flows.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    (lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect(), said)
}

fn cell<'a>(row: &'a [(String, String)], name: &str) -> &'a str {
    &row.iter().find(|(column, _)| column == name).unwrap().1
}

/// Every flow completed. That each byte was the right one is checked where it arrives; a wrong one fails the run.
fn assert_all_completed(rows: &[Vec<(String, String)>], flows: usize) {
    assert_eq!(rows.len(), flows);
    for row in rows {
        let group = cell(row, "group");
        assert_eq!(cell(row, "state"), "completed", "{group}");
        let delivered: u64 = cell(row, "delivered_bytes").parse().unwrap();
        let needed = if group == "atp" { 270_000 } else { 300_000 };
        assert!(delivered >= needed, "{group}: {delivered}");
        if group == "messages" {
            assert_eq!((cell(row, "messages"), cell(row, "delivered_messages")), ("300", "300"));
        }
    }
}

const TRANSPORTS: usize = 18;

/// 5 % loss, duplication and reordering: every transport delivers every byte.
#[test]
fn a_bad_network_loses_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let faults = "loss = 0.05, duplicate = 0.05, reorder = 0.05, reorder_delay = \"3ms\"";
    let (rows, said) = flows(&every_transport(folder.path()), &["--relay", "--faults", faults]);
    assert_all_completed(&rows, TRANSPORTS);
    assert!(said.contains("sent twice"), "{said}");
}

/// An object that three hosts hold reaches a fourth through loss: each source brings a part, the controller's mail takes the
/// pipes, and no byte is wrong.
#[test]
fn an_object_comes_from_three_sources() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("object.toml");
    let text = r#"
        duration = "100ms"
        drain = "30s"
        topology = { kind = "star", hosts = 4, link = { rate = "20Mbit/s", delay = "500us" } }
        [traffic.images]
        kind = "objects"
        transport = "push"
        fanout = 3
        holders = "0..3"
        receivers = "3..4"
        size = "600kB"
        period = "0s"
        objects = 1
        push = { block = "200kB", control_delay = "1ms", min_rto = "20ms", initial_rto = "50ms" }
        "#;
    fs::write(&file, text).unwrap();
    let (rows, said) = flows(&file, &["--relay", "--faults", "loss = 0.02"]);
    assert_eq!(rows.len(), 3);
    let sum = |name: &str| rows.iter().map(|row| cell(row, name).parse::<u64>().unwrap()).sum::<u64>();
    for row in &rows {
        assert_eq!(cell(row, "state"), "completed");
        assert!(cell(row, "symbols").parse::<u64>().unwrap() > 0, "a source brought nothing");
    }
    // A block has 136 symbols of 1460 bytes.
    assert_eq!(sum("decoded_blocks") + sum("whole_blocks"), 600_000u64.div_ceil(136 * 1460));
    assert!(sum("symbols") - sum("excess_symbols") >= 600_000 / 1460, "{said}");
}

/// Two seconds in which nothing arrives, in the middle of all flows.
#[test]
fn a_blackout_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let faults = "blackouts = [{ from = \"150ms\", length = \"2s\" }]";
    let (rows, said) = flows(&every_transport(folder.path()), &["--relay", "--faults", faults]);
    assert_all_completed(&rows, TRANSPORTS);
    assert!(said.contains("in blackouts"), "{said}");
}

/// Whether there are network namespaces; says why a test is skipped where there are none.
fn has_namespaces() -> bool {
    let made = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    let has = made.is_ok_and(|status| status.success());
    if !has {
        eprintln!("skipped: network namespaces need root");
    }
    has
}

/// On interfaces, with bits flipped as well: checksums find them, also those that the switch completed.
#[test]
fn corruption_on_interfaces_loses_no_byte() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let faults = "loss = 0.05, duplicate = 0.05, corrupt = 0.05, reorder = 0.05";
    let (rows, said) = flows(&every_transport(folder.path()), &["--faults", faults, "--counters"]);
    assert_all_completed(&rows, TRANSPORTS);
    assert!(!said.contains(" 0 corrupted") && said.contains("checksums_completed"), "{said}");
}

/// The same two seconds of darkness on interfaces, where nothing but the switch stands between the hosts' kernels.
#[test]
fn a_blackout_on_interfaces_is_survived() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let faults = "loss = 0.01, blackouts = [{ from = \"150ms\", length = \"2s\" }]";
    let (rows, said) = flows(&every_transport(folder.path()), &["--faults", faults]);
    assert_all_completed(&rows, TRANSPORTS);
    assert!(said.contains("in blackouts") && !said.contains(" 0 in blackouts"), "{said}");
}

/// The operating system's TCP, whose segments would be superframes with checksums left to nobody, crosses the switch.
#[test]
fn the_systems_own_tcp_crosses_the_switch() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernel.toml");
    let text = r#"
        duration = "1s"
        drain = "20s"
        topology = { kind = "star", hosts = 2, link = { rate = "100Mbit/s", delay = "500us" } }
        [traffic.kernel]
        kind = "flows"
        transport = "kernel"
        flows = [{ source = 0, destination = 1, size = "300kB" }, { source = 1, destination = 0, size = "300kB" }]
    "#;
    fs::write(&file, text).unwrap();
    let (rows, said) = flows(&file, &["--counters", "--faults", "loss = 0.01"]);
    assert_all_completed(&rows, 2);
    assert!(!said.contains("oversized"), "{said}");
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for congestion in ["reno", "bbr"].into_iter().filter(|name| known.split_whitespace().any(|known| known == *name)) {
        let change = format!("traffic.kernel.kernel.congestion={congestion}");
        assert_all_completed(&flows(&file, &["--set", &change]).0, 2);
    }
    // The same with superframes, which the switch passes on as they are.
    let (rows, said) = flows(&file, &["--counters", "--mode", "speed", "--set", "topology.link.rate=10Gbit/s"]);
    assert_all_completed(&rows, 2);
    assert!(!said.contains("oversized") && !said.contains("checksums_completed"), "{said}");
}

/// Scenarios for testbeds that come with the program resolve, and a testbed can run them.
#[test]
fn the_scenarios_that_come_along_are_suitable() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/testbed");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let output = pliant(&["check", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}", stderr(&output));
        let scenario = pliant_sim::scenario::Scenario::load(&file).unwrap().resolve().unwrap();
        let mode = pliant_net::switch::ethernet::Mode::Fidelity;
        pliant_testbed::network::check(&scenario, false, mode).unwrap();
        files += 1;
    }
    assert!(files >= 6, "{files}");
}

/// The relay's processes are in the caller's network namespace: IPv6 there stays as it is, setting and address.
#[test]
fn the_relay_leaves_ipv6_alone() {
    const LOOK: &str = "cat /proc/sys/net/ipv6/conf/all/disable_ipv6; ip -6 -oneline address show";
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("short.toml"), folder.path().join("out"));
    let text = r#"
        duration = "1ms"
        topology = { kind = "star", hosts = 2, link = { rate = "100Mbit/s", delay = "500us" } }
        [traffic.one]
        kind = "flows"
        flows = [{ source = 0, destination = 1, size = "10kB" }]
    "#;
    fs::write(&file, text).unwrap();
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-c"]).arg(format!("ip link set lo up; {script}"));
        command.arg(env!("CARGO_BIN_EXE_pliant")).args(["testbed", "run", "--relay", "--out"]);
        command.arg(&out).arg(&file).output()
    };
    let Some(before) = inside(LOOK).ok().filter(|before| before.stdout.starts_with(b"0\n")) else {
        eprintln!("skipped: no user namespaces, or no IPv6");
        return;
    };
    let after = inside(&format!("\"$0\" \"$@\" >/dev/null; {LOOK}")).unwrap();
    let said = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    assert!(said(&before).contains("::1/128"), "{}", said(&before));
    assert_eq!(said(&after), said(&before), "{}", stderr(&after));
    assert!(out.join("flows.csv").exists(), "{}", stderr(&after));
}

/// Processes of a parent.
fn children(parent: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: not within half a minute");
}

/// A run of three hosts that would last a minute, and its processes: hosts, then the switch.
fn start_long_run(folder: &Path, more: &[&str]) -> (Child, Vec<u32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pliant"));
    command.args(["testbed", "run", "--set", "duration=60s", "--set", "topology.hosts=3"]).arg(every_transport(folder));
    let faults = ["--faults", "blackouts = [{ from = \"0s\", length = \"60s\" }]"];
    let run = command.args(faults).args(more).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut started = Vec::new();
    wait_for("three hosts and a switch", || {
        started = children(run.id());
        started.len() == 4
    });
    started.sort_unstable();
    (run, started)
}

fn assert_gone(started: &[u32]) {
    let gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    wait_for("all of them gone", || started.iter().all(gone));
}

/// Kills a run without warning: all its processes go, and with them namespaces and interfaces, which belong to nobody
/// else.
#[test]
fn a_killed_run_leaves_nothing() {
    let media: &[&[&str]] = if has_namespaces() { &[&["--relay"], &[]] } else { &[&["--relay"]] };
    for medium in media {
        let folder = tempfile::tempdir().unwrap();
        let (mut run, started) = start_long_run(folder.path(), medium);
        run.kill().unwrap();
        run.wait().unwrap();
        assert_gone(&started);
    }
}

/// Ctrl-C ends a run and its processes in order, and is told by the exit code.
#[test]
fn an_interrupted_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (run, started) = start_long_run(folder.path(), &["--relay"]);
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_gone(&started);
}

/// Kills one process of a run, a host or the switch: the run names it and ends, and takes the others with it.
#[test]
fn a_killed_process_ends_the_run() {
    for (victim, name) in [(1, "host 1"), (3, "switch")] {
        let folder = tempfile::tempdir().unwrap();
        let (run, started) = start_long_run(folder.path(), &["--relay"]);
        let killed = Command::new("kill").args(["-KILL", &started[victim].to_string()]).status().unwrap();
        assert!(killed.success());
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let wanted = format!("error: the testbed's {name} ended before it should");
        assert!(stderr(&output).lines().any(|line| line == wanted), "{}", stderr(&output));
        assert_gone(&started);
    }
}

fn error_of(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", stderr(output));
    let said = stderr(output);
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    errors[0].to_owned()
}

/// Without permission: what is needed, and the way without.
#[test]
fn missing_permission_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pliant"));
    // Where there is no `unshare`, nobody may use it.
    command.env("PATH", folder.path()).args(["testbed", "run"]).arg(every_transport(folder.path()));
    let error = error_of(&command.output().unwrap());
    assert!(error.contains("CAP_NET_ADMIN") && error.contains("--relay"), "{error}");
}

/// The same of the switch alone, on an interface that every machine has.
#[test]
fn a_switch_without_permission_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let text = "rate = \"10Mbit/s\"\n[[port]]\ninterface = \"lo\"\n[[port]]\ninterface = \"pliant-none\"\n";
    fs::write(&plan, text).unwrap();
    // In a user namespace without a mapping even root has no capability over the network.
    let made = Command::new("unshare").args(["--user", "true"]).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there are no user namespaces");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", env!("CARGO_BIN_EXE_pliant"), "switch"]).arg(&plan);
    let error = error_of(&command.output().unwrap());
    assert!(error.contains("interface lo") && error.contains("CAP_NET_RAW") && error.contains("relay"), "{error}");
}

/// A switch whose interfaces are removed says so and ends. It needs the right to make network namespaces and is left out without.
#[test]
fn a_switch_without_interfaces_ends() {
    let namespace = format!("pliant-switch-{}", std::process::id());
    let ip = |words: &str| Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status();
    if !ip(&format!("netns add {namespace}")).is_ok_and(|status| status.success()) {
        eprintln!("left out: no right to make network namespaces here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let text = "rate = \"10Mbit/s\"\n[[port]]\ninterface = \"first\"\n[[port]]\ninterface = \"second\"\n";
    fs::write(&plan, text).unwrap();
    for name in ["first", "second"] {
        ip(&format!("-n {namespace} link add {name} type veth peer name {name}-end")).unwrap();
        ip(&format!("-n {namespace} link set {name} up")).unwrap();
    }
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace, env!("CARGO_BIN_EXE_pliant"), "switch"]).arg(&plan);
    let mut running = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("2 ports"));
    // One that goes down may come back.
    ip(&format!("-n {namespace} link set first down")).unwrap();
    assert!(said.next().unwrap().unwrap().contains("port first: the interface went down"));
    for name in ["first", "second"] {
        ip(&format!("-n {namespace} link delete {name}")).unwrap();
    }
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    assert!(rest.last().is_some_and(|last| last.contains("every interface was removed: first, second")), "{rest:?}");
    assert!(!running.wait().unwrap().success());
    ip(&format!("netns delete {namespace}")).unwrap();
}

/// Claims of a testbed: a measure, a figure or a scenario that is none is named before anything runs, or with it.
#[test]
fn mistakes_in_claims_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (file, records) = (folder.path().join("claims.toml"), folder.path().join("records.json"));
    let claim = "runs = 1\ntolerance = 0.1\n[[claims]]\nscenario = \"x\"\nclaim = \"c\"\nmeasure = \"m\"\n";
    for (text, why) in [
        (claim.replace("measure", "mesure"), "claims.toml, line 6"),
        (claim.replace("runs = 1", "runs = 0"), "above 0"),
        (format!("{claim}figures = [\"reflex fig99\"]\n"), "no figure `reflex fig99`"),
        (claim.to_owned(), "x.toml"),
    ] {
        fs::write(&file, &text).unwrap();
        let arguments = ["testbed", "record", file.to_str().unwrap(), "--records", records.to_str().unwrap()];
        let error = error_of(&pliant(&arguments));
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn what_a_testbed_cannot_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = every_transport(folder.path());
    for (change, key) in [
        ("topology.link.rate=10Gbit/s", "topology: host 0 -> "),
        ("traffic.dctcp.transport=near-opt", "traffic.dctcp.transport: near-opt"),
        ("traffic.dctcp.transport=kernel", "traffic.dctcp.transport: kernel needs network namespaces"),
        ("traffic.dctcp.transport=dctcp-sd", "traffic.dctcp.transport: "),
        ("routing=spray-permutation", "`routing`"),
        ("topology.hosts=65", "topology: 65 hosts"),
    ] {
        let output = pliant(&["testbed", "run", "--relay", file.to_str().unwrap(), "--set", change]);
        let error = error_of(&output);
        assert!(error.contains(key), "{change}: {error}");
    }
    for (faults, why) in [("loss = 2.0", "loss"), ("lost = 0.1", "lost"), ("corrupt = 0.1", "corrupt")] {
        let output = pliant(&["testbed", "run", "--relay", file.to_str().unwrap(), "--faults", faults]);
        let error = error_of(&output);
        assert!(error.contains("--faults") && error.contains(why), "{error}");
    }
}

/// The simulator has no BBR, and says so.
#[test]
fn bbr_is_for_testbeds() {
    let folder = tempfile::tempdir().unwrap();
    let file = every_transport(folder.path());
    let bbr = ["--set", "traffic.dctcp.transport=kernel", "--set", "traffic.dctcp.kernel.congestion=bbr"];
    let output = pliant(&[&["run", file.to_str().unwrap()][..], &bbr].concat());
    assert!(!output.status.success());
    assert!(stderr(&output).contains("only a testbed runs it"), "{}", stderr(&output));
}

#[test]
fn mistakes_in_a_plan_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let two = |first: &str| {
        format!("rate = \"10Mbit/s\"\n[[port]]\ninterface = \"{first}\"\n[[port]]\ninterface = \"pliant-none\"\n")
    };
    for (text, why) in [
        (two("pliant-nil"), "interface pliant-nil"),
        (two("pliant-nil").replace("rate", "rat"), "plan.toml, line 1"),
        (two("pliant-none"), "port.1: pliant-none is a port already"),
        ("[[port]]\nhost = \"127.0.0.1:1\"\n".repeat(2), "port.0: needs an interface, or host and alias"),
    ] {
        fs::write(&plan, &text).unwrap();
        let error = error_of(&pliant(&["switch", plan.to_str().unwrap()]));
        assert!(error.contains(why), "{error}");
    }
}

/// A relay between two sockets of this test: datagrams arrive with their bytes and DSCP, seen from the other's alias;
/// the counters tell of them.
#[test]
fn a_relay_forwards() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, metrics) = (folder.path().join("plan.toml"), folder.path().join("switch.prom"));
    let octet = (std::process::id() % 200) as u8 + 20;
    let [a, b] = [1, 2].map(|host| UdpSocket::bind(format!("127.{octet}.1.{host}:0")).unwrap());
    let alias = |socket: &UdpSocket| {
        let address = socket.local_addr().unwrap().to_string();
        address.replacen(&format!("127.{octet}.1."), &format!("127.{octet}.2."), 1)
    };
    let port = |socket: &UdpSocket| {
        format!("[[port]]\nhost = \"{}\"\nalias = \"{}\"\n", socket.local_addr().unwrap(), alias(socket))
    };
    let text = format!("rate = \"100Mbit/s\"\nqueues = {{ plan = \"strict\" }}\n{}{}", port(&a), port(&b));
    fs::write(&plan, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pliant"));
    command.args(["switch", plan.to_str().unwrap(), "--for", "3", "--metrics", metrics.to_str().unwrap()]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    b.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut buffer, mut sent) = ([0; 100], 0);
    // Until the switch is there nobody hears.
    let (bytes, from) = loop {
        a.send_to(b"through the switch", alias(&b)).unwrap();
        sent += 1;
        assert!(sent < 100, "nothing arrives");
        if let Ok(received) = b.recv_from(&mut buffer) {
            break received;
        }
    };
    assert_eq!(&buffer[..bytes], b"through the switch");
    assert_eq!(from.to_string(), alias(&a));
    let output = running.wait_with_output().unwrap();
    let counters = String::from_utf8(output.stdout).unwrap();
    assert!(counters.contains("received_frames") && counters.contains("queue regular"), "{counters}");
    let metrics = fs::read_to_string(metrics).unwrap();
    let name = a.local_addr().unwrap();
    assert!(metrics.contains(&format!("pliant_switch_port_received_frames_total{{port=\"{name}\"}}")), "{metrics}");
}

/// Simulator and testbed in one table, with their ratio.
#[test]
fn compare_shows_both() {
    let folder = tempfile::tempdir().unwrap();
    let file = every_transport(folder.path());
    let out = folder.path().join("both");
    let fixed = ["compare", file.to_str().unwrap(), "--on", "sim,testbed", "--relay", "--quiet"];
    let output = pliant(&[&fixed[..], &["--out", out.to_str().unwrap()]].concat());
    assert!(ran(&output), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("testbed against simulator") && text.contains("ratio"), "{text}");
    let comparison: Value = serde_json::from_str(&fs::read_to_string(out.join("comparison.json")).unwrap()).unwrap();
    assert_eq!(comparison["variants"], serde_json::json!(["sim", "testbed"]));
    assert!(out.join("testbed/flows.parquet").is_file());
}
