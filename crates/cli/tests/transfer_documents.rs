//! The transfers that pages show bring files from host to host, word for word.

#[path = "common/page.rs"]
mod page;
#[path = "common/script.rs"]
mod script;

use std::fmt::Write;
use std::path::Path;

use page::commands;
use page::shell::words;
use script::run_script;

/// The sender's host reaches each of the others by a cable of its own, and knows their names.
const HOSTS: &str = "\
mkdir sender host1 host2 host3 fetched
ip netns add pliant-sender
mkdir -p /etc/netns/pliant-sender
for number in 1 2 3; do
    ip netns add pliant-doc$number
    ip link add wire$number netns pliant-sender type veth peer name wire netns pliant-doc$number
    ip -n pliant-sender address add 10.216.$number.1/24 dev wire$number
    ip -n pliant-sender link set wire$number up
    ip -n pliant-doc$number address add 10.216.$number.2/24 dev wire
    ip -n pliant-doc$number link set wire up
    echo 10.216.$number.2 host$number >> /etc/netns/pliant-sender/hosts
done
head -c 3000000 /dev/urandom > sender/model.bin
mkdir sender/backups
head -c 100000 /dev/urandom > sender/backups/monday
echo second > sender/backups/tuesday
trap 'end; rm -rf /etc/netns/pliant-sender' EXIT
";
const NAMESPACES: &str = "pliant-sender pliant-doc1 pliant-doc2 pliant-doc3";

/// The commands of a page's blocks that transfer or make a key, without their comments.
fn transfers(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)).unwrap();
    let wanted = |line: &String| ["keygen", "recv", "send", "offer", "fetch"].contains(&words(line)[1].as_str());
    commands(&text).into_iter().filter(wanted).collect()
}

/// A shell's commands that run each where its page says, and compare what has come.
fn script_of(commands: &[String]) -> String {
    let mut script = HOSTS.to_owned();
    for command in commands {
        let line = match words(command)[1].as_str() {
            "keygen" => {
                format!(
                    "(cd sender && {command})\nfor host in host1 host2 host3 fetched; do cp sender/lab.key $host; done"
                )
            }
            "recv" => format!("(cd host1 && exec ip netns exec pliant-doc1 {command}) &\nreceiver=$!"),
            "send" => {
                let what = command.split(' ').nth(2).unwrap().trim_end_matches('/');
                format!(
                    "(cd sender && ip netns exec pliant-sender {command})\ndiff -r sender/{what} host1/{what}\n\
                     rm -r host1/{what}"
                )
            }
            "offer" => format!(
                "kill -INT $receiver\nwait $receiver || test $? = 130\nfor number in 1 2 3; do\n\
                 cp sender/model.bin host$number\n\
                 (cd host$number && exec ip netns exec pliant-doc$number {command}) &\ndone"
            ),
            "fetch" => {
                format!("(cd fetched && ip netns exec pliant-sender {command})\ncmp sender/model.bin fetched/model.bin")
            }
            other => panic!("{other}"),
        };
        writeln!(script, "echo '{command}'\n{line}").unwrap();
    }
    script + "end || true\nrm -rf /etc/netns/pliant-sender\n"
}

#[test]
fn the_readme_and_the_pages_on_transfers_do_what_they_say() {
    let network = transfers("docs/network.md");
    // That page begins where a receiver listens.
    let listening: Vec<_> = network.iter().filter(|line| !line.contains(" send ")).take(2).cloned().collect();
    let bounded = [listening, transfers("docs/bounded.md")].concat();
    for (commands, sends) in [(transfers("README.md"), 2), (network, 2), (bounded, 4)] {
        assert_eq!(commands.iter().filter(|line| line.contains(" send ")).count(), sends, "{commands:?}");
        run_script(&script_of(&commands), &["ip", "diff", "cmp"], NAMESPACES);
    }
}
