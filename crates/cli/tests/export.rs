//! `export` and `import`, as users run them.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{pliant, pliant_in, stderr};

fn stdout(arguments: &[&str]) -> String {
    let output = pliant(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A plan goes to a switch's file and back into a scenario, which runs.
#[test]
fn a_switch_s_file_becomes_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config_db.json");
    let to_sonic = ["export", "demo", "--variant", "dwrr-9-1", "--to", "sonic", "--port", "Ethernet8"];
    fs::write(&config, stdout(&to_sonic)).unwrap();
    let queues = stdout(&["import", config.to_str().unwrap(), "--port", "Ethernet8"]);
    let scenario = format!(
        "duration = \"1ms\"\ntopology = {{ kind = \"star\", hosts = 4, link = {{ rate = \"10Gbit/s\", delay = \"1us\" }} }}\n\
         {queues}\n[traffic.web]\nkind = \"poisson\"\nsize = \"20kB\"\nload = 0.5\n"
    );
    fs::write(folder.path().join("from-switch.toml"), scenario).unwrap();
    let ran = pliant_in(folder.path(), &["run", "from-switch.toml"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
}

/// Where queues differ by port, a kind of port is exported at a time; its profiles have names of their own, and what is
/// left out is said.
#[test]
fn ports_that_differ_are_exported_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("racks.toml");
    let scenario = "duration = \"1ms\"\n[topology]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                    host_link = \"25Gbit/s\"\nfabric_link = \"100Gbit/s\"\n[queues]\nplan = \"strict\"\nlimit = \"600us\"\n\
                    [[queues.ports]]\nrate = \"100Gbit/s\"\nlimit = \"100us\"\n[traffic.web]\nkind = \"poisson\"\nsize = \"20kB\"\n\
                    load = 0.1\n";
    fs::write(&file, scenario).unwrap();
    let file = file.to_str().unwrap();
    let output = pliant(&["export", file, "--to", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let said = "--tier, --direction and --rate choose ports, whose queues differ here: of tier 1, down, 25Gbit/s; of tier 1 and \
                2, down and up, 100Gbit/s";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    for (flags, bytes, profile) in [
        (&["--rate", "25Gbit/s"][..], 1_875_000, "pliant.of_tier_1_down_25Gbit_s.regular"),
        (&["--tier", "1", "--direction", "up"], 1_250_000, "pliant.of_tier_1_up_100Gbit_s.regular"),
        (&["--tier", "2"], 1_250_000, "pliant.of_tier_2_down_100Gbit_s.regular"),
    ] {
        let output = pliant(&[&["export", file, "--to", "json"], flags].concat());
        let exported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(exported["queues"][0]["limit_bytes"], bytes, "{flags:?}");
        assert!(
            stderr(&output).contains("not expressed: these are the queues of ports of tier"),
            "{}",
            stderr(&output)
        );
        let sonic = stdout(&[&["export", file, "--to", "sonic"], flags].concat());
        let tables: serde_json::Value = serde_json::from_str(&sonic).unwrap();
        assert!(tables["SCHEDULER"].as_object().unwrap().contains_key(profile), "{sonic}");
        let script = stdout(&[&["export", file, "--to", "tc"], flags].concat());
        assert!(script.contains("# Not expressed: these are the queues of ports"), "{script}");
    }
    let none = pliant(&["export", file, "--to", "json", "--tier", "3"]);
    assert!(stderr(&none).contains("no port of a switch is such a one: tiers are 1 to 2"), "{}", stderr(&none));
    let hosts = stdout(&["export", file, "--to", "json", "--hosts"]);
    assert!(hosts.contains("1875000"), "{hosts}");
}

/// Mistakes end in one line that says what is wrong.
#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("c.json"), "{\"QUEUE\": {\"Ethernet0|9-1\": {}}}").unwrap();
    for (arguments, said) in [
        (&["export", "demo", "--to", "json"][..], "--rate is needed: the scenario's links have 10Gbit/s, 40Gbit/s"),
        (
            &["export", "demo", "--to", "tc", "--rate", "1Gbit/s", "--port", "a", "--port", "b"],
            "a script is for one interface",
        ),
        (&["export", "demo", "--to", "tc", "--rate", "1Gbit/s", "--port", "a;b"], "letters, digits, dots"),
        (
            &["export", "demo", "--to", "sonic", "--set", "queues.plan=dwrr-1-1-1-1-1-1-1-1-1"],
            "9 queues, and a SONiC port has 8",
        ),
        (
            &["import", "c.json", "--port", "Ethernet0"],
            "c.json: QUEUE|Ethernet0|9-1: a range of queues goes from the lower",
        ),
        (&["import", "none.json", "--port", "Ethernet0"], "none.json: "),
    ] {
        let output = pliant_in(folder.path(), arguments);
        let errors: Vec<String> =
            stderr(&output).lines().filter(|line| line.starts_with("error: ")).map(str::to_owned).collect();
        assert_eq!((output.status.code(), errors.len()), (Some(2), 1), "{arguments:?}: {}", stderr(&output));
        assert!(errors[0].contains(said), "{errors:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

/// Runs a command of the system; whether it went well.
fn run(words: &str) -> bool {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Two namespaces, linked, that vanish with the test.
struct Namespaces([String; 2]);

impl Namespaces {
    /// `None` where this process may not make any.
    fn new() -> Option<Self> {
        let names = ["a", "b"].map(|end| format!("pliant-export-{}-{end}", std::process::id()));
        let this = Self(names);
        let [a, b] = &this.0;
        let made = run(&format!("ip netns add {a}"))
            && run(&format!("ip netns add {b}"))
            && run(&format!("ip link add out netns {a} type veth peer name in netns {b}"));
        if !made {
            return None;
        }
        for (name, link, address) in [(a, "out", "10.91.0.1/24"), (b, "in", "10.91.0.2/24")] {
            assert!(run(&format!("ip -n {name} address add {address} dev {link}")));
            assert!(run(&format!("ip -n {name} link set {link} up")));
        }
        Some(this)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.0.iter().for_each(|name| _ = run(&format!("ip netns delete {name}")));
    }
}

/// The script for `htb` does as it says on a real interface: what has class 3 goes through the second queue. It needs the
/// right to make network namespaces and is left out without.
#[test]
fn a_script_puts_classes_into_their_queues() {
    let Some(namespaces) = Namespaces::new() else {
        eprintln!("left out: no right to make network namespaces here");
        return;
    };
    let [a, b] = &namespaces.0;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("queues.sh");
    let htb = ["export", "demo", "--variant", "dwrr-9-1", "--to", "htb", "--rate", "1Gbit/s"];
    fs::write(&script, stdout(&htb)).unwrap();
    let applied = Command::new("ip").args(["netns", "exec", a, "sh"]).arg(&script).arg("out").output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

    let program = env!("CARGO_BIN_EXE_pliant");
    let mut receiver = Command::new("ip")
        .args(["netns", "exec", b, program, "recv", "--plain", "--testbed", "--listen", "10.91.0.2:7410", "--discard"])
        .args(["--count", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for (class, bytes) in [("0", "1MB"), ("3", "4MB")] {
        let sent = Command::new("ip")
            .args(["netns", "exec", a, program, "send", "--bytes", bytes, "10.91.0.2:7410", "--plain", "--testbed"])
            .args(["--class", class])
            .output()
            .unwrap();
        assert!(sent.status.success(), "{}", stderr(&sent));
    }
    assert!(receiver.wait().unwrap().success());
    let [first, second] = sent_bytes(a);
    assert!((1_000_000..2_000_000).contains(&first) && (4_000_000..5_000_000).contains(&second), "{first} {second}");
}

/// Bytes that went through the queues of the first two classes.
fn sent_bytes(namespace: &str) -> [u64; 2] {
    let shown = Command::new("tc").args(["-n", namespace, "-s", "class", "show", "dev", "out"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    [1, 2].map(|class| {
        let of = shown.split(&format!("class htb 1:{class} ")).nth(1).unwrap_or_else(|| panic!("{shown}"));
        let sent = of.split("Sent ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
        sent.parse().unwrap()
    })
}
