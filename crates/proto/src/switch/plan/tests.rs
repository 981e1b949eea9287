//! Every rule of [`QueuePlan::check`], on both sides of its edge.

use super::*;
use crate::switch::marker::{Level, MarkAt, Scope, Threshold};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

type Change = fn(&mut QueuePlan);

/// Three queues: one strict with a shaper, two under DWRR, of which one trims into the other.
fn plan() -> QueuePlan {
    let shaper = ShaperConfig { rate: ShaperRate::Share(0.05), depth_bytes: 1 };
    let credits = QueueConfig { shaper: Some(shaper), ..QueueConfig::tail_drop("credits", 1) };
    let headers = QueueConfig { discipline: Discipline::ReturnToSender, ..QueueConfig::tail_drop("headers", 1) };
    let trim = Discipline::Trim { header_bytes: 1, header_class: 1 };
    let data = QueueConfig { discipline: trim, ..QueueConfig::tail_drop("data", 1) };
    QueuePlan::per_class(vec![credits, headers, data], SchedulerConfig::Dwrr { strict: 1, quantum_bytes: 1 })
}

fn marker() -> MarkerConfig {
    let (at, scope) = (MarkAt::Enqueue, Scope::Queue);
    MarkerConfig::Threshold(Threshold { level: Level::Packets(1), at, scope, pass_not_ect: false })
}

/// The queues of a plan stop trimming.
fn fifo(plan: &mut QueuePlan) {
    plan.queues.iter_mut().for_each(|queue| queue.discipline = Discipline::Fifo);
}

fn pfabric(plan: &mut QueuePlan) {
    fifo(plan);
    plan.queues[1].discipline = Discipline::PFabric;
}

#[test]
fn values_inside_their_ranges_are_taken() {
    let changes: [Change; 17] = [
        |_| {},
        |plan| plan.queues[0].shaper = None,
        |plan| plan.queues[0].shaper.as_mut().unwrap().rate = ShaperRate::Share(1.0),
        |plan| plan.queues[0].shaper.as_mut().unwrap().rate = ShaperRate::Fixed(Rate::from_bits_per_sec(1)),
        |plan| plan.queues[0].buffer_alpha = 1024.0,
        |plan| plan.queues[0].buffer_alpha = 1e-9,
        |plan| plan.queues[0].limit_bytes = 1,
        |plan| (plan.queues[1].lane, plan.queues[2].lane) = (Some(31), Some(31)),
        |plan| plan.queues[0].marker = marker(),
        |plan| plan.queues[0].red_limit_bytes = 0,
        |plan| {
            fifo(plan);
            plan.shared_buffer = Some(Bytes(1));
        },
        |plan| {
            fifo(plan);
            plan.device_fifo_packets = 1;
        },
        |plan| {
            fifo(plan);
            plan.scheduler = SchedulerConfig::Wfq { strict: 3 };
        },
        |plan| {
            fifo(plan);
            plan.scheduler = SchedulerConfig::Wfq { strict: 1 };
        },
        pfabric,
        |plan| {
            pfabric(plan);
            plan.scheduler = SchedulerConfig::Wfq { strict: 2 };
        },
        |plan| {
            let queue = |number: usize| QueueConfig::tail_drop(&format!("{number}"), 1);
            *plan = QueuePlan::per_class((0..32).map(queue).collect(), SchedulerConfig::Strict);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut plan = plan();
        change(&mut plan);
        assert_eq!(plan.check(), Ok(()), "change {number}");
    }
}

/// What is refused says which queue, and why.
#[test]
fn values_beyond_their_ranges_are_refused() {
    let changes: [(&str, Change); 34] = [
        ("a plan needs 1 to 32 queues", |plan| plan.queues.clear()),
        ("a plan needs 1 to 32 queues", |plan| {
            let queue = |number: usize| QueueConfig::tail_drop(&format!("{number}"), 1);
            plan.queues = (0..33).map(queue).collect();
        }),
        ("a class is mapped", |plan| plan.queue_of_class[31] = 3),
        ("more strict queues", |plan| plan.scheduler = SchedulerConfig::Wfq { strict: 4 }),
        ("the quantum must", |plan| plan.scheduler = SchedulerConfig::Dwrr { strict: 1, quantum_bytes: 0 }),
        ("a shared buffer needs bytes", |plan| plan.shared_buffer = Some(Bytes(0))),
        ("queue \"credits\": two queues", |plan| plan.queues[2].name = "credits".into()),
        ("queue \"credits\": its limit", |plan| plan.queues[0].limit_packets = 0),
        ("queue \"credits\": its limit", |plan| plan.queues[0].limit_bytes = 0),
        ("queue \"credits\": its weight", |plan| plan.queues[0].weight = 0),
        ("queue \"credits\": its buffer alpha", |plan| plan.queues[0].buffer_alpha = 0.0),
        ("queue \"credits\": its buffer alpha", |plan| plan.queues[0].buffer_alpha = 1025.0),
        ("queue \"credits\": its buffer alpha", |plan| plan.queues[0].buffer_alpha = f64::NAN),
        ("queue \"data\": only a strict", |plan| plan.queues[2].shaper = plan.queues[0].shaper),
        ("queue \"headers\": only a strict", |plan| plan.queues[1].shaper = plan.queues[0].shaper),
        ("queue \"credits\": a shaper needs", |plan| plan.queues[0].shaper.as_mut().unwrap().depth_bytes = 0),
        ("queue \"credits\": a shaper needs", |plan| {
            plan.queues[0].shaper.as_mut().unwrap().rate = ShaperRate::Fixed(Rate::default());
        }),
        ("queue \"credits\": a shaper's share", |plan| {
            plan.queues[0].shaper.as_mut().unwrap().rate = ShaperRate::Share(0.0);
        }),
        ("queue \"credits\": a shaper's share", |plan| {
            plan.queues[0].shaper.as_mut().unwrap().rate = ShaperRate::Share(1.01);
        }),
        ("queue \"headers\": a pFabric queue cannot", |plan| {
            pfabric(plan);
            plan.shared_buffer = Some(Bytes(1));
        }),
        ("queue \"headers\": a pFabric queue neither", |plan| {
            pfabric(plan);
            plan.queues[1].marker = marker();
        }),
        ("queue \"headers\": a pFabric queue neither", |plan| {
            pfabric(plan);
            plan.scheduler = SchedulerConfig::Wfq { strict: 1 };
        }),
        ("queue \"data\": a queue that trims needs", |plan| {
            plan.queues[2].discipline = Discipline::Trim { header_bytes: 0, header_class: 1 };
        }),
        ("queue \"data\": a queue that trims needs", |plan| {
            plan.queues[2].discipline = Discipline::Trim { header_bytes: 64, header_class: 0 };
        }),
        ("queue \"data\": a queue that trims needs", |plan| {
            plan.queues[2].discipline = Discipline::Trim { header_bytes: 64, header_class: 32 };
        }),
        ("queue \"headers\": a queue that trims neither", |plan| plan.queues[1].marker = marker()),
        ("queue \"data\": a queue that trims neither", |plan| plan.queues[2].marker = marker()),
        ("queue \"headers\": a queue that trims neither", |plan| plan.shared_buffer = Some(Bytes(1))),
        ("queue \"headers\": a queue that trims neither", |plan| plan.scheduler = SchedulerConfig::Wfq { strict: 1 }),
        ("queue \"data\": a queue that trims does not", |plan| plan.queues[2].red_limit_bytes = 1),
        ("queue \"headers\": a queue that trims cannot", |plan| plan.device_fifo_packets = 1),
        ("queue \"credits\": only queues under DWRR", |plan| plan.queues[0].lane = Some(0)),
        ("queue \"data\": lanes are", |plan| plan.queues[2].lane = Some(32)),
        ("queue \"credits\": a marking threshold", |plan| {
            plan.queues[0].marker = marker();
            let MarkerConfig::Threshold(threshold) = &mut plan.queues[0].marker else { unreachable!() };
            threshold.level = Level::Packets(0);
        }),
    ];
    for (begins, change) in changes {
        let mut plan = plan();
        change(&mut plan);
        let error = plan.check().expect_err(begins).to_string();
        assert!(error.starts_with(begins), "{error}, not {begins}");
    }
    let mut wfq = plan();
    fifo(&mut wfq);
    (wfq.scheduler, wfq.queues[2].lane) = (SchedulerConfig::Wfq { strict: 1 }, Some(0));
    assert!(wfq.check().unwrap_err().to_string().contains("lanes"), "nor do those under WFQ have any");
}

#[test]
fn the_queue_that_trims_is_found() {
    assert_eq!((plan().trims(), QueuePlan::single(QueueConfig::tail_drop("a", 1)).trims()), (Some(2), None));
}
