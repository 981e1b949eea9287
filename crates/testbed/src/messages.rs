//! What the processes of a testbed tell each other: lines on standard input and output.
//!
//! A child says [`ALIVE`] once it is in its namespace, and is told when that has its interfaces ([`SET_UP`]); it says
//! [`READY`] once its sockets are open. It is told the epoch of the common clock ([`start`]), says [`OVER`] when
//! its flows are, and after [`STOP`], or when its input ends, writes its report as one line of JSON. Between start and stop
//! there is mail to and from the controller of objects ([`mail`](crate::mail)).

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

use pliant_net::clock::SharedClock;
use pliant_net::poll::PollWaker;
use pliant_proto::transport::Statistics;
use pliant_sim::results::MessageCounts;
use serde::{Deserialize, Serialize};

use crate::mail::{self, ControllerMessage, HostMessage};

pub(crate) const ALIVE: &str = "alive";
pub(crate) const SET_UP: &str = "set up";
pub(crate) const READY: &str = "ready";
pub(crate) const OVER: &str = "over";
pub(crate) const STOP: &str = "stop";
const START: &str = "start ";

/// The line that starts a child.
pub(crate) fn start(clock: SharedClock) -> String {
    format!("{START}{}", clock.epoch_ns())
}

/// What a sender says of its flow at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SenderReport {
    pub(crate) flow: u64,
    pub(crate) finished: bool,
    #[serde(with = "statistics")]
    pub(crate) counted: Statistics,
}

/// What a receiver says of its flow at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReceiverReport {
    pub(crate) flow: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) received_ps: Option<u64>,
    pub(crate) wrong_bytes: u64,
    pub(crate) messages: Option<MessageCounts>,
    /// How far the mean of the records that arrived is off that of all, as a part of it.
    pub(crate) record_error: Option<f64>,
    #[serde(with = "statistics")]
    pub(crate) counted: Statistics,
}

/// Statistics of a transport as a list of numbers. All processes of a testbed are the same program, so the order of the
/// numbers is known.
mod statistics {
    use pliant_proto::transport::Statistics;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(statistics: &Statistics, serializer: S) -> Result<S::Ok, S::Error> {
        statistics.to_words().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Statistics, D::Error> {
        let words = Vec::<u64>::deserialize(deserializer)?;
        Statistics::from_words(&words).ok_or_else(|| D::Error::custom("these are not the statistics of a transport"))
    }
}

/// What a host says at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HostReport {
    pub(crate) senders: Vec<SenderReport>,
    pub(crate) receivers: Vec<ReceiverReport>,
    /// Time in picoseconds, group, bytes, bytes without a credit.
    pub(crate) throughput: Vec<(u64, u16, u64, u64)>,
    pub(crate) malformed: u64,
    pub(crate) stray: u64,
    pub(crate) failed_sends: u64,
    pub(crate) cpu_s: f64,
}

/// A queue at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueueReport {
    pub(crate) admitted: [u64; 2],
    pub(crate) dropped: Vec<[u64; 2]>,
    pub(crate) marked: u64,
    pub(crate) trimmed: u64,
    pub(crate) returned: u64,
    pub(crate) max_packets: u32,
    pub(crate) left_packets: u32,
    pub(crate) left_bytes: u64,
}

/// What the switch says at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SwitchReport {
    /// By link, then queue.
    pub(crate) queues: Vec<Vec<QueueReport>>,
    /// Time in picoseconds, link, queue, packets, bytes, red bytes among them.
    pub(crate) samples: Vec<(u64, u32, u8, u32, u64, u64)>,
    pub(crate) hops: u64,
    pub(crate) overrun: u64,
    pub(crate) refused: u64,
    pub(crate) send_failed: u64,
    pub(crate) late_median_ps: u64,
    pub(crate) late_p99_ps: u64,
    pub(crate) late_max_ps: u64,
    pub(crate) faults: [u64; 5],
    pub(crate) cpu_s: f64,
    pub(crate) counters: String,
}

/// A child's end of its parent's pipe.
pub(crate) struct Parent {
    stop: Arc<AtomicBool>,
    mail: Receiver<ControllerMessage>,
    waker: PollWaker,
}

/// Dies with the parent from now on, and waits until it has made the interfaces. False if it has gone or given up.
pub(crate) fn await_network() -> bool {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut line = String::new();
    say(ALIVE).is_some() && std::io::stdin().lock().read_line(&mut line).is_ok() && line.trim() == SET_UP
}

impl Parent {
    /// Says that all is set up and waits for the start. `None` if the parent has gone or given up.
    pub(crate) fn meet() -> Option<(Self, SharedClock)> {
        say(READY)?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).ok()?;
        let epoch = line.trim().strip_prefix(START)?.parse().ok()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (sender, mail) = channel();
        let waker = PollWaker::new().ok()?;
        let reader_waker = waker.clone();
        // Whatever is no mail means the end, also that nothing comes any more.
        std::thread::spawn(move || {
            let lines = std::io::stdin().lock().lines().map_while(Result::ok);
            for reply in lines.map_while(|line| mail::read(&line)) {
                let _ = sender.send(reply);
                reader_waker.wake();
            }
            flag.store(true, Ordering::Relaxed);
            reader_waker.wake();
        });
        Some((Self { stop, mail, waker }, SharedClock::from_epoch_ns(epoch)))
    }

    /// Rings when there is mail, and at the end.
    pub(crate) fn waker(&self) -> PollWaker {
        self.waker.clone()
    }

    /// The next reply of the controller's.
    pub(crate) fn next_reply(&self) -> Option<ControllerMessage> {
        self.mail.try_recv().ok()
    }

    /// Sends the controller a message. A parent that has gone needs none.
    pub(crate) fn post(message: &HostMessage) {
        let _ = say(&mail::line(message));
    }

    /// Whether it is over.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A flag for threads that end with this process.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

/// Hands the report of this process over.
pub(crate) fn report(report: &impl Serialize) {
    let text = serde_json::to_string(report).expect("a report is plain data");
    // A parent that has gone needs none.
    let _ = say(&text);
}

/// Writes a line to the parent; `None` if it has gone.
pub(crate) fn say(line: &str) -> Option<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").ok()?;
    out.flush().ok()
}

/// Processor time of this process in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}
