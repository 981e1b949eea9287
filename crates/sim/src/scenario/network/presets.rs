//! Queue plans with a name.

use pliant_proto::packet::CLASSES;
use pliant_proto::switch::marker::Level;
use pliant_proto::transport::express_pass::credit_share;
use pliant_proto::units::Bytes;

use super::disciplines::DisciplineName;
use super::limit::{Length, Limit};
use super::marking::{At, EcnSpec, NotEct, Of, RedSpec, ThresholdSpec};
use super::queues::{DEFAULT_QUANTUM, QueueSpec, QueuesSpec, Scheduler, ShaperSpec, TrimSpec};
use crate::families::{CREDIT_BYTES, CREDIT_CLASS};
use crate::suggest;

/// Names of queue plans and what they are. `W-W` stands for any weights, one queue each, such as `dwrr-9-1`.
pub const PRESETS: &[(&str, &str)] = &[
    ("drop-tail", "one queue of 466 packets for all classes, without marking"),
    ("shared", "one queue of 466 packets for all classes, marking at 65 packets (DCTCP at 10 Gbit/s)"),
    ("strict", "class 0 before all others by strict priority, each queue as in `shared`"),
    ("strict-8", "eight queues by strict priority, class 0 first, each as in `shared`"),
    ("dwrr-W-W", "deficit weighted round robin over two or more queues with these weights, each as in `shared`"),
    ("wfq-W-W", "self-clocked fair queueing over two or more queues with these weights, each as in `shared`"),
    ("reflex", "REFLEX: 9:1 deficit round robin, marking at 65 packets, behind it a device FIFO of 20 packets"),
    (
        "atp",
        "ATP: class 0 as in `shared` with 1000 packets, against six queues of 5 packets and a backup queue by priority",
    ),
    ("pfabric", "pFabric: one queue of 24 packets that keeps and sends the most urgent (SIGCOMM 2013, at 10 Gbit/s)"),
    (
        "ndp",
        "NDP: 8 packets, whatever else comes loses its payload; headers (class 31) ten to one before data (SIGCOMM 2017)",
    ),
    ("scdp", "SCDP: as `ndp` with five queues of data by strict priority, classes 0 to 4 (arXiv 1909.08928)"),
    ("ndp-host", "hosts beside `ndp` and `scdp`: class 31, then classes 0 to 4, by strict priority, without trimming"),
    ("homa", "Homa: eight queues of 1000 packets by strict priority, class 0 first, marking at 65 what can be marked"),
    ("low-priority", "low-priority TCP: strict, 128 kB before 64 kB, no marking, a device FIFO of 100 packets"),
    ("expresspass", "a shaped queue for credits (class 31) and one for all other classes (ExpressPass beside others)"),
    (
        "flexpass",
        "FlexPass: credits (class 31), class 0 with selective dropping, and the others, by shares (40 Gbit/s)",
    ),
    ("flexpass-artifact", "the same as FlexPass's published simulator has it"),
];

/// Bytes of a full packet on the wire.
const FULL_BYTES: u16 = 1538;
/// Share that FlexPass reserves for itself (EuroSys 2023, section 6.2).
const RESERVE: f64 = 0.5;

/// Packets a queue holds (REFLEX).
const LIMIT: Limit = Limit::in_packets(466);
/// Where it marks (DCTCP, SIGCOMM 2010, at 10 Gbit/s).
const MARKING: EcnSpec = EcnSpec::threshold(Length(Level::Packets(65)));

/// The named plan written out.
pub(super) fn queues(name: &str) -> Result<QueuesSpec, String> {
    queues_with(name, None)
}

/// Whether a plan of this name reserves a share of each link for credits.
pub(super) fn reserves(name: &str) -> bool {
    matches!(name, "flexpass" | "flexpass-artifact")
}

/// The named plan written out, with `reserve` of each link for credits where the plan reserves a part.
pub(super) fn queues_with(name: &str, reserve: Option<f64>) -> Result<QueuesSpec, String> {
    let two = || vec![queue("regular", 1), queue("flexible", 1)];
    let plan = match name {
        "drop-tail" => plan(Scheduler::Strict, vec![QueueSpec { ecn: EcnSpec::Off, ..queue("shared", 1) }]),
        "shared" => plan(Scheduler::Strict, vec![queue("shared", 1)]),
        "strict" => plan(Scheduler::Strict, two()),
        "strict-8" => plan(Scheduler::Strict, numbered(&[1; 8])),
        "reflex" => {
            let queues = vec![queue("regular", 9), queue("flexible", 1)];
            QueuesSpec { device_fifo_packets: Some(20), ..plan(Scheduler::Dwrr, queues) }
        }
        "atp" => atp(),
        "pfabric" => {
            let limit = Limit::in_packets(24);
            let discipline = DisciplineName::PFabric;
            plan(Scheduler::Strict, vec![QueueSpec { limit, ecn: EcnSpec::Off, discipline, ..queue("pfabric", 1) }])
        }
        "ndp" => trimming(1),
        "homa" => {
            let ecn = ThresholdSpec {
                threshold: Length(Level::Packets(65)),
                at: At::Enqueue,
                scope: Of::Queue,
                not_ect: NotEct::Pass,
                drain: None,
            };
            let deep = |queue| QueueSpec { limit: Limit::in_packets(1000), ecn: EcnSpec::On(ecn), ..queue };
            plan(Scheduler::Strict, numbered(&[1; 8]).into_iter().map(deep).collect())
        }
        "scdp" => trimming(LEVELS),
        HOST_PLAN => {
            let deep = |queue| QueueSpec { limit: Limit::in_packets(HOST_PACKETS), ecn: EcnSpec::Off, ..queue };
            let headers = QueueSpec { classes: vec![HEADER_CLASS], ..deep(queue("headers", 1)) };
            let queues = std::iter::once(headers).chain(levels(LEVELS).map(deep)).collect();
            QueuesSpec { queue: queues, ..plan(Scheduler::Strict, vec![queue("headers", 1)]) }
        }
        "low-priority" => {
            let mut queues = two();
            for (queue, bytes) in queues.iter_mut().zip([128_000, 64_000]) {
                (queue.limit, queue.ecn) = (Limit::in_bytes(bytes), EcnSpec::Off);
            }
            QueuesSpec { device_fifo_packets: Some(100), ..plan(Scheduler::Strict, queues) }
        }
        "expresspass" => {
            let data = QueueSpec { classes: (0..CREDIT_CLASS).collect(), weight: 1538, ..marked("data", 100_000) };
            with_shared_buffer(credit_plan(1.0, vec![data]))
        }
        "flexpass" => {
            let share = reserve.unwrap_or(RESERVE);
            let plan = credit_plan(share, flexpass_queues(share, 65_000, 100_000));
            with_shared_buffer(plan)
        }
        "flexpass-artifact" => {
            let share = reserve.unwrap_or(RESERVE);
            // Leaves room for the credits themselves; thresholds of 25 and 65 full packets; no dynamic threshold.
            let credits = share * f64::from(FULL_BYTES - CREDIT_BYTES) / f64::from(FULL_BYTES);
            credit_plan(credits, flexpass_queues(share, 38_450, 99_970))
        }
        _ => match weighted(name)? {
            Some(plan) => plan,
            None => return Err(unknown(name)),
        },
    };
    Ok(plan)
}

/// Queues of hosts where those of switches trim.
pub(super) const HOST_PLAN: &str = "ndp-host";
/// Class of headers and control packets where switches trim.
const HEADER_CLASS: u8 = CREDIT_CLASS;
/// Bytes on the wire that are left of a trimmed packet: the smallest frame.
const HEADER_BYTES: u16 = 84;
/// Headers that take the room of 8 packets of 1500 bytes: 8 * 1500 / 64, rounded up.
const HEADERS: u32 = 188;
/// Levels of data in SCDP.
const LEVELS: u8 = 5;
/// Packets that wait at most at a host; its flows' windows are all that it holds.
const HOST_PACKETS: u32 = 10_000;

/// Whether a plan of this name trims.
pub(super) fn trims(name: &str) -> bool {
    matches!(name, "ndp" | "scdp")
}

/// Queues of data by level, the first of class 0, the last of all classes up to that of headers.
fn levels(count: u8) -> impl Iterator<Item = QueueSpec> {
    (0..count).map(move |level| {
        let classes = if level + 1 == count { level..HEADER_CLASS } else { level..level + 1 };
        let name = if count == 1 { "data".to_owned() } else { format!("level {level}") };
        QueueSpec { classes: classes.collect(), ..queue(&name, 1) }
    })
}

/// NDP's port: headers, of which ten go for each packet of data while both wait, and so many levels of data.
fn trimming(count: u8) -> QueuesSpec {
    let headers = QueueSpec {
        classes: vec![HEADER_CLASS],
        weight: 10 * u32::from(HEADER_BYTES),
        limit: Limit::in_packets(HEADERS),
        ecn: EcnSpec::Off,
        discipline: DisciplineName::ReturnToSender,
        ..queue("headers", 1)
    };
    let data = levels(count).map(|queue| QueueSpec {
        weight: u32::from(FULL_BYTES),
        limit: Limit::in_packets(8),
        ecn: EcnSpec::Off,
        trim: Some(TrimSpec { size: Bytes(HEADER_BYTES.into()), class: HEADER_CLASS }),
        lane: (count > 1).then_some(1),
        ..queue
    });
    QueuesSpec {
        quantum: Some(Bytes(1)),
        queue: std::iter::once(headers).chain(data).collect(),
        ..plan(Scheduler::Dwrr, vec![queue("headers", 1)])
    }
}

/// ATP's eight queues (section 6.2): 0 for accurate traffic; 1 to 6 by priority, dropping from 1 to 5 packets; 7 for
/// backups, dropping unless it is empty. Round robin between accurate and approximate.
fn atp() -> QueuesSpec {
    let accurate = QueueSpec { limit: Limit::in_packets(1000), lane: Some(0), ..queue("accurate", 1) };
    let tiny = |name: &str, max: f64| QueueSpec {
        limit: Limit::in_packets(5),
        ecn: EcnSpec::Off,
        red: Some(RedSpec::instantaneous(1.0, max)),
        lane: Some(1),
        ..queue(name, 1)
    };
    let primary = (1..=6).map(|number| tiny(&format!("primary {number}"), 5.0));
    let queues = std::iter::once(accurate).chain(primary).chain([tiny("backup", 1.0)]);
    plan(Scheduler::Dwrr, queues.collect())
}

/// The plan of a name such as `dwrr-9-1`; `None` if it is no such name.
fn weighted(name: &str) -> Result<Option<QueuesSpec>, String> {
    let Some((scheduler, weights)) = name.split_once('-') else { return Ok(None) };
    let Some(scheduler) = Scheduler::weighted(scheduler) else { return Ok(None) };
    let weights: Result<Vec<u32>, _> = weights.split('-').map(str::parse).collect();
    let weights = weights.map_err(|_| format!("\"{name}\" needs whole weights, such as \"dwrr-9-1\""))?;
    if weights.len() < 2 || weights.len() > CLASSES {
        return Err(format!("\"{name}\" needs 2 to {CLASSES} weights, such as \"dwrr-9-1\""));
    }
    let queues = match weights[..] {
        [regular, flexible] => vec![queue("regular", regular), queue("flexible", flexible)],
        _ => numbered(&weights),
    };
    Ok(Some(plan(scheduler, queues)))
}

fn unknown(name: &str) -> String {
    let names: Vec<String> = PRESETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    suggest::unknown("queue plan", name, &names)
}

fn numbered(weights: &[u32]) -> Vec<QueueSpec> {
    weights.iter().enumerate().map(|(number, &weight)| queue(&format!("class {number}"), weight)).collect()
}

fn queue(name: &str, weight: u32) -> QueueSpec {
    QueueSpec {
        name: name.to_owned(),
        classes: Vec::new(),
        weight,
        limit: LIMIT,
        ecn: MARKING,
        red: None,
        colour_limit: None,
        buffer_alpha: 1.0,
        reserved: Bytes(0),
        shaper: None,
        discipline: DisciplineName::Fifo,
        trim: None,
        lane: None,
    }
}

/// A queue that marks above so many bytes, and lets pass what cannot be marked.
fn marked(name: &str, bytes: u64) -> QueueSpec {
    let ecn = ThresholdSpec {
        threshold: Length(Level::Bytes(bytes)),
        at: At::Enqueue,
        scope: Of::Queue,
        not_ect: NotEct::Pass,
        drain: None,
    };
    QueueSpec { limit: Limit::in_bytes(SHARED_BUFFER), ecn: EcnSpec::On(ecn), ..queue(name, 1) }
}

/// Buffer of a switch, and each queue's share of what is free of it (FlexPass, section 6.2).
const SHARED_BUFFER: u64 = 4_500_000;
const BUFFER_ALPHA: f64 = 0.25;

fn with_shared_buffer(mut plan: QueuesSpec) -> QueuesSpec {
    plan.shared_buffer = Some(Bytes(SHARED_BUFFER));
    for queue in plan.queue.iter_mut().filter(|queue| queue.shaper.is_none()) {
        queue.buffer_alpha = BUFFER_ALPHA;
    }
    plan
}

/// The queues of data: `share` of the link for what has credits, with red packets limited, the rest for all others.
fn flexpass_queues(share: f64, threshold: u64, legacy_threshold: u64) -> Vec<QueueSpec> {
    // A quantum is two full packets' share (published simulator).
    let quantum = |share: f64| ((2.0 * f64::from(FULL_BYTES) * share).round() as u32).max(1);
    let (first, red) = (marked("flexpass", threshold), Some(Bytes(150_000)));
    let others = (1..CREDIT_CLASS).collect();
    vec![
        QueueSpec { classes: vec![0], weight: quantum(share), colour_limit: red, ..first },
        QueueSpec { classes: others, weight: quantum(1.0 - share), ..marked("legacy", legacy_threshold) },
    ]
}

/// A queue of ten credits, of which `share` of what fills a link may leave, by strict priority before `data`.
fn credit_plan(share: f64, data: Vec<QueueSpec>) -> QueuesSpec {
    let credits = share * credit_share(CREDIT_BYTES, FULL_BYTES);
    let bytes = 10 * u64::from(CREDIT_BYTES);
    let credit = QueueSpec {
        classes: vec![CREDIT_CLASS],
        limit: Limit::in_bytes(bytes),
        ecn: EcnSpec::Off,
        reserved: Bytes(bytes),
        shaper: Some(ShaperSpec { rate: None, share: Some(credits), depth: Bytes(2 * u64::from(CREDIT_BYTES)) }),
        ..queue("credit", 1)
    };
    QueuesSpec {
        scheduler: Some(Scheduler::Dwrr),
        strict: Some(1),
        quantum: Some(Bytes(1)),
        device_fifo_packets: Some(0),
        queue: std::iter::once(credit).chain(data).collect(),
        ..QueuesSpec::default()
    }
}

/// One queue per class; the last takes all further classes.
fn plan(scheduler: Scheduler, mut queue: Vec<QueueSpec>) -> QueuesSpec {
    let last = queue.len() - 1;
    for class in 0..CLASSES {
        queue[class.min(last)].classes.push(class as u8);
    }
    QueuesSpec {
        scheduler: Some(scheduler),
        strict: (scheduler != Scheduler::Strict).then_some(0),
        quantum: (scheduler == Scheduler::Dwrr).then_some(DEFAULT_QUANTUM),
        device_fifo_packets: Some(0),
        queue,
        ..QueuesSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name in the list is a plan that can be built, written out or not.
    #[test]
    fn every_listed_plan_builds() {
        for (name, _) in PRESETS {
            let name = name.replace("W-W", "9-1");
            let spec = queues(&name).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(spec.build().is_ok(), "{name}");
            assert_eq!(spec.expanded().as_ref(), Ok(&spec), "{name}");
        }
    }

    #[test]
    fn weights_come_from_the_name() {
        let weights = |name| queues(name).unwrap().queue.iter().map(|queue| queue.weight).collect::<Vec<_>>();
        assert_eq!(
            (weights("dwrr-9-1"), weights("wfq-99-1"), weights("dwrr-4-2-1")),
            (vec![9, 1], vec![99, 1], vec![4, 2, 1])
        );
        assert!(queues("dwrr-9").unwrap_err().contains("2 to 32 weights"));
        assert!(queues("dwrr-9-x").unwrap_err().contains("whole weights"));
        assert!(queues("dwwr-9-1").unwrap_err().contains("did you mean"));
    }
}
