//! What goes to stderr.

use std::fmt::Arguments;
use std::io::Write;

/// Prints a line to stderr, as `eprintln!` does, which panics if nobody reads it any more or its disk is full. A daemon or a
/// receiver would end because of a line that another host has caused.
pub(crate) fn print_line(line: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
