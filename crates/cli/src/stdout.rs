//! What goes to stdout.

use std::io::Write;

use pliant_sim::one_line::OneLine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::error::CliError;
use crate::exit_status::ExitStatus;

/// Prints to stdout; a reader that has gone is an error like any other.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    write!(out, "{text}{end}")?;
    Ok(out.flush()?)
}

/// Prints a result as an object or as a line, which stays one whatever names a peer gave.
pub(crate) fn print_result(result: &impl Serialize, line: impl FnOnce() -> String, json: bool) -> Result<(), CliError> {
    if json {
        return print(&serde_json::to_string(result).expect("plain values"));
    }
    print(&OneLine(line()).to_string())
}

/// Whether whoever read our output has gone: a pipe without a reader.
pub(crate) fn is_closed() -> bool {
    let out = std::io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::ERR)
}

/// Names and what they are, one line each.
pub(crate) fn print_rows(rows: &[(String, String)]) -> Result<ExitStatus, CliError> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(name, description)| format!("{name:width$}  {description}\n"));
    print(&lines.collect::<String>())?;
    Ok(ExitStatus::Done)
}
