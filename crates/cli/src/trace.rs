//! `pliant trace`: flow logs of other tools as traces.

use std::path::PathBuf;

use clap::Args;
use pliant_sim::flow_log;
use pliant_sim::text_file;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::files::write_atomically;
use crate::stdout::print;

const AFTER_HELP: &str = "\
Examples:
  nfdump -r nfcapd.202603012215 -o csv > flows.csv
  pliant trace flows.csv --out replay  replay/trace.csv, replay/hosts.csv
  tshark -r capture.pcap -q -z conv,tcp > conversations.txt
  pliant trace conversations.txt --out replay

Hosts are numbered as they first appear; edit hosts.csv to put them where they are in your topology.";

/// Makes a trace of a flow log: CSV of nfdump, or conversations of a capture as tshark lists them.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The log
    file: PathBuf,
    /// Folder of trace.csv and hosts.csv
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let shown = arguments.file.display();
    let text = text_file::read_table(&arguments.file).map_err(|error| CliError::User(format!("{shown}: {error}")))?;
    let log = flow_log::read(&text).map_err(|why| CliError::User(format!("{shown}:{why}")))?;
    for (name, content) in [("trace.csv", &log.trace), ("hosts.csv", &log.hosts)] {
        write_atomically(&arguments.out.join(name), content)?;
    }
    if log.left_out > 0 {
        say!("left out: {} lines without bytes, or within one host", log.left_out);
    }
    let out = arguments.out.display();
    print(&format!(
        "# {} flows of {} hosts in {}\n[traffic.replay]\nkind = \"trace\"\npath = \"{out}/trace.csv\"\nhosts_file = \"{out}/hosts.csv\"\n",
        log.flows,
        log.host_count,
        log.length.rounded()
    ))?;
    Ok(ExitStatus::Done)
}
