//! How far a transfer is, on stderr.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pliant_net::transfer::Progress;

/// How far a transfer is, as a bar on stderr; nothing where stderr is no terminal.
pub(super) struct TransferProgress(ProgressBar);

impl TransferProgress {
    /// A bar; hidden if `quiet`.
    pub(super) fn new(quiet: bool) -> Self {
        let shown = io::stderr().is_terminal() && !quiet;
        let target = if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(
            ProgressStyle::with_template("{decimal_bytes}  {decimal_bytes_per_sec}{msg}").expect("it is fixed"),
        );
        Self(bar)
    }

    /// Moves the bar.
    pub(super) fn show(&self, progress: Progress) {
        if let Some(total) = progress.total_bytes
            && self.0.length() != Some(total)
        {
            let style = ProgressStyle::with_template(
                "{bar:30} {percent}%  {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left{msg}",
            );
            self.0.set_style(style.expect("the template is fixed"));
            self.0.set_length(total);
        }
        self.0.set_position(progress.done_bytes);
        self.0.set_message(if progress.placing { "  the receiver verifies and stores it" } else { "" });
    }
}

impl Drop for TransferProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
