//! What a run records beside its flows' rows: queue lengths and throughput over time.

use pliant_proto::contract::reflex::Standing;
use pliant_proto::switch::Link;
use pliant_proto::switch::queue::Occupancy;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::WindowState;

use crate::results::{QueueSample, ReflexSample, ThroughputSample, WindowSample};

/// Listens to a run. Recording changes no result: with the recorder on or off a run has the same digest.
pub trait Recorder {
    /// Whether it listens at all; if not, the calls compile away.
    const ON: bool;

    /// Looks at every link, which has caught up with `now`; returns when to look again.
    fn sample<'a>(&mut self, now: Instant, links: impl Iterator<Item = &'a Link>) -> Instant;

    /// A receiver of traffic group `group` delivered `bytes` to its application.
    fn delivered(&mut self, group: u16, bytes: u64);

    /// A packet with `bytes` of payload reached traffic group `group` without a credit, by a transport with credits.
    fn arrived_reactive(&mut self, _group: u16, _bytes: u64) {}

    /// An interval of a flow under REFLEX ended.
    fn reflex(&mut self, _flow: u64, _group: u16, _standing: &Standing) {}

    /// Whether it wants to know the windows of senders when it looks.
    fn wants_windows(&self) -> bool {
        false
    }

    /// How the window of a sender stands.
    fn window(&mut self, _now: Instant, _flow: u64, _group: u16, _window: WindowState) {}
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    const ON: bool = false;

    fn sample<'a>(&mut self, _: Instant, _: impl Iterator<Item = &'a Link>) -> Instant {
        Instant::MAX
    }

    fn delivered(&mut self, _: u16, _: u64) {}
}

/// Records queue lengths and delivered bytes at a fixed interval.
#[derive(Clone, Debug)]
pub struct SeriesRecorder {
    interval: Span,
    delivered: Vec<u64>,
    reactive: Vec<u64>,
    /// Queues that held something, at each look.
    pub queues: Vec<QueueSample>,
    /// Bytes delivered since the look before, per traffic group.
    pub throughput: Vec<ThroughputSample>,
    /// Standings of flows under REFLEX, whenever one of their intervals ended.
    pub reflex: Vec<ReflexSample>,
    /// Windows of senders, at each look, if they were asked for.
    pub windows: Vec<WindowSample>,
    wants_windows: bool,
}

impl SeriesRecorder {
    /// Looks every `interval` at a run with `groups` traffic groups, and at windows if `windows`.
    pub fn new(interval: Span, groups: usize, windows: bool) -> Self {
        assert!(interval > Span::ZERO, "an interval takes time");
        let (delivered, reactive) = (vec![0; groups], vec![0; groups]);
        Self {
            interval,
            delivered,
            reactive,
            queues: Vec::new(),
            throughput: Vec::new(),
            reflex: Vec::new(),
            windows: Vec::new(),
            wants_windows: windows,
        }
    }
}

impl Recorder for SeriesRecorder {
    const ON: bool = true;

    fn sample<'a>(&mut self, now: Instant, links: impl Iterator<Item = &'a Link>) -> Instant {
        for (port, link) in links.enumerate() {
            for (queue, held) in link.queues().enumerate().filter(|(_, queue)| queue.occupancy().packets > 0) {
                let (port, queue, red_bytes) = (port as u32, queue as u8, held.red_bytes());
                let Occupancy { packets, bytes } = held.occupancy();
                self.queues.push(QueueSample { at: now, port, queue, packets, bytes, red_bytes });
            }
        }
        if now > Instant::ZERO {
            for (group, (delivered, reactive)) in self.delivered.iter_mut().zip(&mut self.reactive).enumerate() {
                self.throughput.push(ThroughputSample {
                    at: now,
                    group: group as u16,
                    delivered_bytes: std::mem::take(delivered),
                    reactive_bytes: std::mem::take(reactive),
                });
            }
        }
        now.after(self.interval)
    }

    fn delivered(&mut self, group: u16, bytes: u64) {
        self.delivered[usize::from(group)] += bytes;
    }

    fn arrived_reactive(&mut self, group: u16, bytes: u64) {
        self.reactive[usize::from(group)] += bytes;
    }

    fn reflex(&mut self, flow: u64, group: u16, standing: &Standing) {
        self.reflex.push(ReflexSample { flow, group, standing: *standing });
    }

    fn wants_windows(&self) -> bool {
        self.wants_windows
    }

    fn window(&mut self, now: Instant, flow: u64, group: u16, window: WindowState) {
        self.windows.push(WindowSample { at: now, flow, group, window });
    }
}
