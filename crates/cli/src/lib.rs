//! The `pliant` command, as a library: [`main`] is all of it.
//!
//! A program of one's own that knows more transports or congestion controllers registers them and calls [`main`]:
//!
//! ```no_run
//! use pliant_proto::congestion::dctcp::DctcpConfig;
//! use pliant_sim::families::{ForeignController, register_controller};
//!
//! fn main() -> std::process::ExitCode {
//!     register_controller(ForeignController {
//!         name: "my-dctcp",
//!         description: "DCTCP under another name",
//!         honours: &[],
//!         settings: &|| Box::new(DctcpConfig::default()),
//!     });
//!     pliant_cli::main()
//! }
//! ```
//!
//! Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 a failure of the machine (a disk, a
//! file that vanished), 2 a mistake of the user's (one line says which), 3 to 5 of transfers only, 130 interrupted
//! (what finished is written).

/// Prints a line to stderr. It ends nothing if that fails.
macro_rules! say {
    ($($line:tt)*) => {
        $crate::stderr::print_line(format_args!($($line)*))
    };
}

mod again;
mod agreement;
mod check;
mod compare;
mod counted;
mod daemon;
mod doctor;
mod error;
mod estimates;
mod exit_status;
mod experiments;
mod export;
mod files;
mod flags;
mod fluid;
mod goal;
mod grid;
mod interrupt;
mod jobs;
mod kafka;
mod keygen;
pub mod library;
mod list;
mod manual;
mod memory;
mod progress;
mod report;
mod reproduce;
mod run;
mod scenarios;
mod show;
mod status;
mod stderr;
mod stdout;
mod sweep;
mod switch;
mod testbed;
mod top;
mod trace;
mod transfer;
mod wrap;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use error::CliError;
use exit_status::ExitStatus;
use pliant_sim::one_line::OneLine;

const AFTER_HELP: &str = "\
Examples:
  # run the built-in scenario `demo`
  pliant run demo
  pliant run rack.toml --set load=0.7 --out results/rack
  # the scenario's variants side by side
  pliant compare demo
  pliant sweep demo --vary search.load=0.2:0.6:0.2 --seeds 3 \\
      --out results/sweep
  # a paper's figures: what it says, what comes out here
  pliant reproduce reflex
  # every setting, defaults filled in
  pliant check rack.toml
  pliant list transports
  pliant keygen lab.key
  pliant recv --key lab.key & pliant send model.bin 127.0.0.1:7410 \\
      --key lab.key

Exit codes: 0 done, 1 failure of the machine, 2 mistake in the command or a file, 130 interrupted.";

/// Simulates and runs datacenter transports for traffic that can give way.
#[derive(Parser)]
#[command(name = "pliant", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Compare(compare::Arguments),
    Sweep(sweep::Arguments),
    Reproduce(reproduce::Arguments),
    Check(check::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Report(report::Arguments),
    Fluid(fluid::Arguments),
    Export(export::ExportArgs),
    Import(export::ImportArgs),
    Trace(trace::Arguments),
    Send(transfer::SendArgs),
    Recv(transfer::RecvArgs),
    Offer(transfer::OfferArgs),
    Fetch(transfer::FetchArgs),
    Keygen(keygen::Arguments),
    Daemon(daemon::Arguments),
    Status(status::Arguments),
    Top(top::Arguments),
    Doctor(doctor::Arguments),
    Wrap(wrap::Arguments),
    Kafka(kafka::Arguments),
    Switch(switch::Arguments),
    Testbed(testbed::Arguments),
    Man(manual::ManArgs),
    Completions(manual::CompletionsArgs),
}

/// Runs the command that the process was started with. A program that [registers](pliant_sim::families) transports or
/// controllers of its own before it calls this is `pliant` with these.
pub fn main() -> ExitCode {
    let mut command = with_negative_numbers(Cli::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    let ending = match &cli.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Sweep(arguments) => sweep::run(arguments),
        Command::Reproduce(arguments) => reproduce::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::List(arguments) => list::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Fluid(arguments) => fluid::run(arguments),
        Command::Export(arguments) => export::run_export(arguments),
        Command::Import(arguments) => export::run_import(arguments),
        Command::Trace(arguments) => trace::run(arguments),
        Command::Send(arguments) => transfer::send(arguments),
        Command::Recv(arguments) => transfer::recv(arguments),
        Command::Offer(arguments) => transfer::offer(arguments),
        Command::Fetch(arguments) => transfer::fetch(arguments),
        Command::Keygen(arguments) => keygen::run(arguments),
        Command::Daemon(arguments) => daemon::run(arguments),
        Command::Status(arguments) => status::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Wrap(arguments) => wrap::run(arguments),
        Command::Kafka(arguments) => kafka::run(arguments),
        Command::Switch(arguments) => switch::run(arguments),
        Command::Testbed(arguments) => testbed::run(arguments),
        Command::Man(arguments) => manual::man(arguments, Cli::command()),
        Command::Completions(arguments) => manual::completions(arguments, Cli::command()),
    };
    exit_code(ending)
}

/// How the process ends, and what it says of an error.
fn exit_code(ending: Result<ExitStatus, CliError>) -> ExitCode {
    match ending {
        Ok(ExitStatus::Done) | Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Ok(ExitStatus::Interrupted) => ExitCode::from(130),
        Ok(ExitStatus::Overloaded) => ExitCode::FAILURE,
        Err(error) => {
            say!("error: {}", OneLine(&error));
            ExitCode::from(error.code())
        }
    }
}

/// No flag begins with a digit: `-1` is a value, and what takes it says what it wants instead.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes = |argument: clap::Arg| {
        let takes_values = argument.get_action().takes_values();
        if takes_values { argument.allow_negative_numbers(true) } else { argument }
    };
    command.mut_args(takes).mut_subcommands(with_negative_numbers)
}

/// What is wrong with a value such as `-5ms`, which is taken for a flag.
fn negative_value() -> Option<String> {
    let words: Vec<String> = std::env::args().collect();
    let is_negative =
        |word: &String| word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let at = words.iter().position(is_negative)?;
    let of = words[at - 1].strip_prefix("--").map_or(String::new(), |flag| format!(" for '--{flag}'"));
    Some(format!("error: invalid value '{}'{of}: it must not be negative", words[at]))
}

/// Help and version are printed whole; a mistake in one line, without the usage.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return exit_code(stdout::print(&error.to_string()).map(|()| ExitStatus::Done));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        say!("{}", error.to_string().trim_end());
        return ExitCode::from(2);
    }
    if let (ErrorKind::UnknownArgument, Some(why)) = (error.kind(), negative_value()) {
        say!("{why}");
        return ExitCode::from(2);
    }
    let text = error.to_string();
    let is_advice = |line: &str| line.starts_with("Usage:") || line.starts_with("For more information");
    // Nobody who mistakes a flag means it as a value.
    let is_tip = |line: &str| line.starts_with("tip: to pass");
    let mut one = String::new();
    for line in
        text.lines().take_while(|line| !is_advice(line)).map(str::trim).filter(|line| !line.is_empty() && !is_tip(line))
    {
        one.push_str(if one.is_empty() {
            ""
        } else if one.ends_with(':') {
            " "
        } else {
            "; "
        });
        one.push_str(line);
    }
    say!("{one}");
    ExitCode::from(2)
}

#[cfg(test)]
#[path = "../tests/common/shell.rs"]
mod shell;

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts with examples, of a command and those below it.
    fn helps(command: &clap::Command, texts: &mut Vec<(String, String)>) {
        if !command.is_hide_set() && command.get_name() != "help" {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            texts.push((command.get_name().to_owned(), text));
            command.get_subcommands().for_each(|below| helps(below, texts));
        }
    }

    /// Columns of a narrow terminal, within which clap breaks no line.
    const COLUMNS: usize = 80;

    /// What a line of examples runs of ours, as a shell splits it: without the comment behind two spaces.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let line = line.trim().split("  ").next().unwrap_or_default();
        let parts = line.split(['|', '&', '>']).map(str::trim).filter(|part| part.starts_with("pliant "));
        parts.map(shell::words).collect()
    }

    /// Every command has examples, and each is one that the command line takes.
    #[test]
    fn examples_of_every_help_are_accepted() {
        let mut texts = Vec::new();
        helps(&Cli::command(), &mut texts);
        assert!(texts.len() >= 15, "{} commands", texts.len());
        for (name, text) in texts {
            let text = shell::joined(&text);
            let examples: Vec<_> = text.lines().filter(|line| line.starts_with("  ")).flat_map(commands).collect();
            assert!(!examples.is_empty(), "{name} has no example");
            for words in examples {
                let parsed = Cli::try_parse_from(&words);
                assert!(parsed.is_ok(), "{words:?}: {}", parsed.err().unwrap());
            }
        }
    }

    /// A command that is broken by the terminal's width cannot be copied.
    #[test]
    fn examples_fit_a_narrow_terminal() {
        let mut texts = Vec::new();
        helps(&Cli::command(), &mut texts);
        for (name, text) in texts {
            let wide = text.lines().find(|line| line.starts_with("  ") && line.chars().count() > COLUMNS);
            assert!(wide.is_none(), "{name}: {wide:?}");
        }
    }

    /// The documents: the README, and what lies in docs.
    fn documents() -> Vec<(String, String)> {
        let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![repository.join("README.md")];
        for folder in ["docs", "docs/results"] {
            let entries = std::fs::read_dir(repository.join(folder)).unwrap().map(|entry| entry.unwrap().path());
            files.extend(entries.filter(|file| file.extension().is_some_and(|ending| ending == "md")));
        }
        files.into_iter().map(|file| (file.display().to_string(), std::fs::read_to_string(file).unwrap())).collect()
    }

    /// The long names of the flags of a command and those below it.
    fn flags(command: &clap::Command, names: &mut std::collections::BTreeSet<String>) {
        if !command.is_hide_set() {
            names.extend(
                command
                    .get_arguments()
                    .filter(|flag| !flag.is_hide_set())
                    .filter_map(|flag| flag.get_long())
                    .map(|name| format!("--{name}")),
            );
            command.get_subcommands().for_each(|below| flags(below, names));
        }
    }

    /// Every flag is in a document.
    #[test]
    fn flags_are_documented() {
        let mut names = std::collections::BTreeSet::new();
        flags(&Cli::command(), &mut names);
        assert!(names.len() > 80, "{} flags", names.len());
        let text: String = documents().into_iter().map(|(_, text)| text).collect();
        let words: std::collections::HashSet<&str> =
            text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').collect();
        let missing: Vec<_> = names.iter().filter(|name| !words.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "in no document: {missing:?}");
    }

    /// Every command in a block of a document is one that the command line takes. One within a sentence may leave arguments
    /// out; its flags and its name exist.
    #[test]
    fn commands_of_documents_are_accepted() {
        let (mut whole, mut named, mut refused) = (0, 0, Vec::new());
        for (file, text) in documents() {
            let mut in_block = false;
            let mut text = shell::joined(&text);
            // Names of hosts are looked up as the command is read; these have none.
            for host in 1..=9 {
                text = text.replace(&format!("host{host}:"), &format!("192.0.2.{host}:"));
            }
            text = text.replace("--hash HEX", &format!("--hash {}", "0".repeat(64)));
            for line in text.lines() {
                if line.starts_with("```") {
                    in_block = !in_block;
                } else if in_block {
                    let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
                    let line = line.split(" # ").next().unwrap_or_default();
                    for words in commands(line) {
                        let parsed = Cli::try_parse_from(&words);
                        refused.extend(parsed.err().map(|error| format!("{file}: {words:?}: {error}")));
                        whole += 1;
                    }
                } else {
                    let codes = line.split('`').skip(1).step_by(2);
                    for words in codes.flat_map(commands) {
                        use clap::error::ErrorKind;
                        // A name in capitals stands for any.
                        if words.get(1).is_none_or(|word| word.chars().all(|letter| letter.is_ascii_uppercase())) {
                            continue;
                        }
                        let kind = Cli::try_parse_from(&words).err().map(|error| error.kind());
                        let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
                        if kind.is_some_and(|kind| unknown.contains(&kind)) {
                            refused.push(format!("{file}: {words:?}"));
                        }
                        named += 1;
                    }
                }
            }
        }
        assert!(refused.is_empty(), "{}", refused.join("\n"));
        assert!(whole > 80 && named > 50, "{whole} in blocks, {named} in sentences");
    }
}
