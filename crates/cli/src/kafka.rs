//! `pliant kafka`: what an exit has left out of Kafka's topics.

use std::fmt::Write;

use clap::{Args, Subcommand};
use pliant_daemon::control::{KafkaLedger, Request};

use crate::daemon::Target;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;

const EXAMPLES: &str = "\
Examples:
  # counts by partition, and offsets of what was left out
  pliant kafka ledger clicks
  pliant kafka ledger clicks --json
  pliant kafka ledger clicks --control /run/pliant/daemon.sock

docs/kafka.md says when records are left out, and of what a ledger can tell.";

/// Says what the daemon beside the brokers has left out of a topic.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Counts of records by partition, and the offsets of those that were left out
    #[command(after_help = EXAMPLES)]
    Ledger {
        /// The topic's name
        topic: String,
        /// As JSON, on one line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let Action::Ledger { topic, json, target } = &arguments.action;
    let answer = target.ask(&Request::KafkaLedger { topic: topic.clone() })?;
    if *json {
        print(&answer.to_string())?;
        return Ok(ExitStatus::Done);
    }
    let ledgers: Vec<KafkaLedger> = serde_json::from_value(answer)
        .map_err(|error| CliError::User(format!("the daemon is of another version: {error}")))?;
    print(&page(topic, &ledgers))?;
    Ok(ExitStatus::Done)
}

fn page(topic: &str, ledgers: &[KafkaLedger]) -> String {
    let mut page = String::new();
    for ledger in ledgers {
        let KafkaLedger { class, topic_id, partition, fetched, lost, unsettled, lost_offsets, truncated } = ledger;
        let share = if *fetched == 0 { 0.0 } else { 100.0 * *lost as f64 / *fetched as f64 };
        let id = if topic_id.is_empty() { String::new() } else { format!(" (id {topic_id})") };
        let range =
            |&(first, last): &(i64, i64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
        let offsets: Vec<String> = lost_offsets.iter().map(range).collect();
        let may = if *unsettled == 0 { String::new() } else { format!(", {unsettled} more may be") };
        let more = if *truncated { " and more" } else { "" };
        writeln!(
            page,
            "{topic}{id}, partition {partition}, class {class}: {lost} of {fetched} records lost ({share:.2} %){may}"
        )
        .expect("writing to a string succeeds");
        if !offsets.is_empty() {
            writeln!(page, "  {}{more}", offsets.join(" ")).expect("writing to a string succeeds");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_told_by_partition() {
        let ledger = KafkaLedger {
            class: "bulk".to_owned(),
            topic_id: String::new(),
            partition: 3,
            fetched: 200,
            lost: 5,
            unsettled: 9,
            lost_offsets: vec![(7, 7), (10, 13)],
            truncated: true,
        };
        let none = KafkaLedger {
            fetched: 0,
            lost: 0,
            unsettled: 0,
            lost_offsets: vec![],
            truncated: false,
            topic_id: "ab".into(),
            ..ledger.clone()
        };
        assert_eq!(
            page("clicks", &[ledger, none]),
            "clicks, partition 3, class bulk: 5 of 200 records lost (2.50 %), 9 more may be\n  7 10-13 and more\n\
             clicks (id ab), partition 3, class bulk: 0 of 0 records lost (0.00 %)\n"
        );
    }
}
