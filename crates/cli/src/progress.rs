//! How far runs are, on stderr: a bar on a terminal; elsewhere a line now and then, and only of what takes long.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pliant_sim::run::Progress;

/// Where stderr is not a terminal: what is shorter than this needs no line.
const FIRST_LINE: Duration = Duration::from_secs(2);
/// Time between further lines.
const LINE_INTERVAL: Duration = Duration::from_secs(20);
/// Parts that the bar counts of a run like any other.
const PARTS: u64 = 1000;

/// The progress of one or more runs.
pub struct RunProgress {
    bar: ProgressBar,
    shows_lines: bool,
    started: Instant,
    next_line: Mutex<Instant>,
    runs: u64,
    all_parts: u64,
    /// Runs that are over.
    finished: AtomicU64,
    /// Sums over all runs, of parts done and of packet-hops.
    parts: AtomicU64,
    packet_hops: AtomicU64,
}

/// What one run has told so far.
pub struct RunPart {
    /// Parts of the whole that the run is.
    share: u64,
    parts: u64,
    packet_hops: u64,
}

impl RunPart {
    /// A run that is `weight` times as long as one like any other.
    pub(crate) fn weighing(weight: f64) -> Self {
        Self { share: (weight * PARTS as f64).ceil().max(1.0) as u64, parts: 0, packet_hops: 0 }
    }
}

impl Default for RunPart {
    fn default() -> Self {
        Self::weighing(1.0)
    }
}

impl RunProgress {
    /// A display of `runs` runs; silent if `quiet`.
    pub fn new(runs: usize, quiet: bool) -> Self {
        Self::weighing(&vec![1.0; runs], quiet)
    }

    /// A display of runs that differ in length: one weight each.
    #[allow(clippy::disallowed_methods, reason = "progress is about real time")]
    pub fn weighing(weights: &[f64], quiet: bool) -> Self {
        let all_parts = weights.iter().map(|&weight| RunPart::weighing(weight).share).sum();
        let on_terminal = std::io::stderr().is_terminal() && !quiet;
        let target = if on_terminal { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(all_parts), target);
        // It fits 80 columns: a bar that wraps leaves torn rows when it is drawn again.
        let style = ProgressStyle::with_template("{bar:20} {percent}%  {msg}  {eta} left");
        bar.set_style(style.expect("the template is fixed"));
        let now = Instant::now();
        Self {
            bar,
            shows_lines: !on_terminal && !quiet,
            started: now,
            next_line: Mutex::new(now + FIRST_LINE),
            runs: weights.len() as u64,
            all_parts,
            finished: AtomicU64::new(0),
            parts: AtomicU64::new(0),
            packet_hops: AtomicU64::new(0),
        }
    }

    /// Takes what a run tells; `part` is what it told before.
    pub fn update(&self, part: &mut RunPart, progress: &Progress) {
        let (now, duration) = (progress.now.as_ps(), progress.duration.as_ps().max(1));
        let parts =
            (u128::from(now) * u128::from(part.share) / u128::from(duration)).min(u128::from(part.share)) as u64;
        self.add(parts - part.parts, progress.packet_hops - part.packet_hops);
        (part.parts, part.packet_hops) = (parts, progress.packet_hops);
        let state = if now < duration {
            format!("{:.1} of {:.1} ms", now as f64 / 1e9, duration as f64 / 1e9)
        } else {
            format!("draining {} flows", progress.flows_started - progress.flows_over)
        };
        self.show(&state);
    }

    /// A run is over, or was not needed.
    pub fn finish(&self, part: &RunPart) {
        self.add(part.share - part.parts, 0);
        self.finished.fetch_add(1, Ordering::Relaxed);
        self.show("");
    }

    /// What is done of all, from 0 to 1.
    pub fn done(&self) -> f64 {
        self.parts.load(Ordering::Relaxed) as f64 / self.all_parts.max(1) as f64
    }

    /// Runs that are over, and all.
    pub fn runs(&self) -> (u64, u64) {
        (self.finished.load(Ordering::Relaxed), self.runs)
    }

    /// Packet-hops of all runs so far.
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops.load(Ordering::Relaxed)
    }

    fn add(&self, parts: u64, packet_hops: u64) {
        self.parts.fetch_add(parts, Ordering::Relaxed);
        self.packet_hops.fetch_add(packet_hops, Ordering::Relaxed);
    }

    fn show(&self, state: &str) {
        let elapsed = self.started.elapsed();
        let parts = self.parts.load(Ordering::Relaxed);
        let rate = self.packet_hops.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64().max(1e-9) / 1e6;
        let finished = self.finished.load(Ordering::Relaxed);
        let state = if self.runs == 1 { state.to_owned() } else { format!("{finished} of {} runs", self.runs) };
        self.bar.set_message(format!("{state}, {rate:.1} M hops/s"));
        self.bar.set_position(parts);
        if self.shows_lines && self.is_line_due() {
            let done = self.done();
            let left = elapsed.as_secs_f64() * (1.0 - done) / done.max(1e-3);
            say!("{:.0} %: {state}, {rate:.1} M hops/s, about {left:.0} s left", done * 100.0);
        }
    }

    #[allow(clippy::disallowed_methods, reason = "progress is about real time")]
    fn is_line_due(&self) -> bool {
        let Ok(mut next) = self.next_line.try_lock() else { return false };
        let now = Instant::now();
        let due = now >= *next;
        if due {
            *next = now + LINE_INTERVAL;
        }
        due
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
