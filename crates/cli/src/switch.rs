//! `pliant switch`: a plan's queues between interfaces, or on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use pliant_net::clock::SharedClock;
use pliant_net::switch::counters::{Names, prometheus, text};
use pliant_net::switch::ethernet::EthernetSwitch;
use pliant_net::switch::relay::Relay;
use pliant_net::switch::{PortCounters, SwitchDriver};
use pliant_testbed::plan::Plan;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;
use crate::{flags, interrupt};

const AFTER_HELP: &str = "\
Examples:
  # runs until Ctrl-C, then prints the counters
  pliant switch plan.toml
  # writes counters for Prometheus's textfile collector, every second
  pliant switch plan.toml --metrics switch.prom
  # runs for ten seconds
  pliant switch plan.toml --for 10

A plan for interfaces:
  rate = \"500Mbit/s\"
  queues = { plan = \"dwrr-9-1\" }   # as in a scenario
  # traffic classes; without this the upper five bits of DSCP
  dscp = { 46 = 0, 0 = 1 }

  [faults]
  loss = 0.05
  duplicate = 0.01
  corrupt = 0.01
  reorder = 0.1
  reorder_delay = \"1ms\"
  blackouts = [{ from = \"1s\", length = \"2s\" }]

  [[port]]
  interface = \"veth0\"
  addresses = [\"10.0.0.1\", \"02:00:00:00:00:01\"]
  delay = \"1ms\"

  [[port]]
  interface = \"veth1\"
  addresses = [\"10.0.0.2\"]

A plan for loopback, without root, and without `dscp` and `corrupt`:
  rate = \"500Mbit/s\"
  queues = { plan = \"dwrr-9-1\" }
  faults = { loss = 0.05, reorder = 0.1 }

  [[port]]
  host = \"127.0.1.1:7000\"    # where a host's own socket is
  alias = \"127.0.2.1:7000\"   # where the others find it

  [[port]]
  host = \"127.0.1.2:7000\"
  alias = \"127.0.2.2:7000\"";

/// How soon Ctrl-C is heard.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Forwards between interfaces, or relays UDP on loopback, through the queues of a plan.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The plan
    plan: PathBuf,
    /// Ends after so many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = flags::whole::<u64>(0..=u64::MAX))]
    seconds: Option<u64>,
    /// Writes the counters into this file every second, in Prometheus's text form
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let plan = Plan::load(&arguments.plan)?;
    let names = Names::new(plan.switch());
    let interrupt = interrupt::listen("");
    let clock = SharedClock::start();
    let mut driver: SwitchDriver = match &plan {
        Plan::Ethernet(config) => EthernetSwitch::open(config, clock)?.into(),
        Plan::Relay(config) => Relay::open(config, clock)?.into(),
    };
    say!("forwarding between {} ports; Ctrl-C ends it", plan.switch().ports.len());
    let (mut next_look, mut interrupted) = (0, false);
    let mut unsaid = REFUSALS.to_vec();
    loop {
        driver.run_once(MAX_SLEEP)?;
        let seconds = clock.now().as_secs_f64();
        interrupted |= interrupt.load(Ordering::Relaxed);
        let ends = interrupted || arguments.seconds.is_some_and(|limit| seconds >= limit as f64);
        // Once a second, and at the end.
        if ends || seconds >= f64::from(next_look) {
            next_look += 1;
            unsaid.retain(|(refused, why)| {
                let port = names.ports().zip(driver.switch().ports()).find(|(_, counters)| refused(counters) > 0);
                port.inspect(|(name, _)| say!("warning: port {name}: {why}")).is_none()
            });
            if let Some(file) = &arguments.metrics {
                write_metrics(file, &prometheus(&names, driver.switch()))?;
            }
        }
        if ends {
            break;
        }
    }
    driver.switch().assert_conserved();
    print(&text(&names, driver.switch()))?;
    Ok(if interrupted { ExitStatus::Interrupted } else { ExitStatus::Done })
}

type Refusal = (fn(&PortCounters) -> u64, &'static str);

/// What a switch's user has to set right: said once.
const REFUSALS: [Refusal; 3] = [
    (
        |counters| counters.oversized,
        "frames are too long, as superframes are: `ip link set dev IF gso_max_segs 1` at the sender, or its --no-offload",
    ),
    (
        |counters| counters.strangers,
        "datagrams to its alias come from an address that is no port's `host`: see --bind of `send` and `fetch`",
    ),
    (|counters| counters.went_down, "the interface went down: frames to it are lost while it is"),
];

/// Replaces the file as a whole: a collector never sees half of it.
fn write_metrics(file: &Path, text: &str) -> Result<(), CliError> {
    let fresh = file.with_extension(format!("new-{}", std::process::id()));
    let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, file));
    written.map_err(|error| CliError::Machine(format!("cannot write {}: {error}", file.display())))
}
