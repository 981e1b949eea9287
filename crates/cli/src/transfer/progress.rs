//! How far a transfer is, on stderr.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pliant_net::transfer::Progress;
use serde::Serialize;

use super::arguments::{OutputArgs, ProgressFormat};

/// Between lines of JSON.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// How far a transfer is: a bar, where stderr is a terminal, or lines of JSON.
pub(super) struct TransferProgress {
    kind: Kind,
    /// It was said that it will be late.
    said_late: Cell<bool>,
}

enum Kind {
    Bar(ProgressBar),
    Lines { started: Instant, last: Cell<Option<Instant>> },
}

/// One line.
#[derive(Serialize)]
struct Line {
    elapsed_s: f64,
    done_bytes: u64,
    /// Null while nobody knows.
    total_bytes: Option<u64>,
    /// All bytes are across; the receiver verifies and stores them.
    placing: bool,
}

impl TransferProgress {
    /// What the user wants to see.
    #[allow(clippy::disallowed_methods, reason = "progress is about real time")]
    pub(super) fn new(output: &OutputArgs) -> Self {
        if output.progress == ProgressFormat::Json {
            return Self::of(Kind::Lines { started: Instant::now(), last: Cell::new(None) });
        }
        let shown = io::stderr().is_terminal() && !output.quiet;
        let target = if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(
            ProgressStyle::with_template("{decimal_bytes}  {decimal_bytes_per_sec}{msg}").expect("it is fixed"),
        );
        Self::of(Kind::Bar(bar))
    }

    const fn of(kind: Kind) -> Self {
        Self { kind, said_late: Cell::new(false) }
    }

    /// Says once that it will be late, also to who wants to see no progress.
    fn say_late(&self, late: Duration) {
        if self.said_late.replace(true) {
            return;
        }
        let line = if late == Duration::MAX {
            "warning: it will not be done in time: nothing moves".to_owned()
        } else {
            format!(
                "warning: it will not be done in time, but about {:.0} s later: it goes on as fast as others",
                late.as_secs_f64().ceil()
            )
        };
        match &self.kind {
            Kind::Bar(bar) => bar.suspend(|| say!("{line}")),
            Kind::Lines { .. } => say!("{line}"),
        }
    }

    /// Shows it.
    #[allow(clippy::disallowed_methods, reason = "progress is about real time")]
    pub(super) fn show(&self, progress: Progress) {
        if let Some(late) = progress.late {
            self.say_late(late);
        }
        match &self.kind {
            Kind::Bar(bar) => show_bar(bar, progress),
            Kind::Lines { started, last } => {
                let now = Instant::now();
                if last.get().is_none_or(|last| now.duration_since(last) >= LINE_INTERVAL) {
                    last.set(Some(now));
                    let Progress { done_bytes, total_bytes, placing, .. } = progress;
                    let elapsed_s = now.duration_since(*started).as_secs_f64();
                    let line = Line { elapsed_s, done_bytes, total_bytes, placing };
                    say!("{}", serde_json::to_string(&line).expect("numbers are JSON"));
                }
            }
        }
    }
}

fn show_bar(bar: &ProgressBar, progress: Progress) {
    if let Some(total) = progress.total_bytes
        && bar.length() != Some(total)
    {
        let style = ProgressStyle::with_template(
            "{bar:20} {percent}%  {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left{msg}",
        );
        bar.set_style(style.expect("the template is fixed"));
        bar.set_length(total);
    }
    bar.set_position(progress.done_bytes);
    bar.set_message(if progress.placing { "  the receiver verifies and stores it" } else { "" });
}

impl Drop for TransferProgress {
    fn drop(&mut self) {
        if let Kind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}
