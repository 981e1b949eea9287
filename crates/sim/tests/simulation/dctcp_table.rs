//! DCTCP's steady state against the sawtooth of Alizadeh et al. (SIGCOMM 2010, section 3.3) and a model of its packets.
//!
//! What is tested is the whole sender, the receiver's echo of marks and a switch's port. The tests of the controller
//! (`congestion/tests/dctcp.rs`) hold it alone against the same table.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use pliant_proto::congestion::EcnMode;
use pliant_proto::congestion::dctcp::{Dctcp, DctcpConfig};
use pliant_proto::packet::WireFormat;
use pliant_proto::switch::marker::MarkAt;
use pliant_proto::time::Span;
use pliant_proto::transport::tcp::TcpConfig;

use crate::common::{
    MSS, Seen, TestBed, Watch, Watched, across, at_ms, bottleneck, cable, dumbbell, fifo, mark_from, tcp,
};

const WARM_UP_MS: u64 = 300;
const END_MS: u64 = 1300;

/// The steady state of some flows.
struct Steady {
    alpha: f64,
    queue_p5: f64,
    queue_max: f64,
    utilisation: f64,
}

/// `flows` flows share 10 Gbit/s of 1500-byte packets over 100 us, marked from `threshold` packets on. Edges are ten
/// times faster, so the bottleneck alone queues.
fn steady_state(flows: u32, threshold: u32, mark_at: MarkAt) -> Steady {
    let ecn = EcnMode::Accurate;
    let config = Arc::new(TcpConfig { wire: WireFormat::IP, ack_every: 1, ecn, ..TcpConfig::default() });
    let plan = fifo(1000, mark_from(threshold, mark_at));
    let bed = TestBed::new(dumbbell(flows, cable(100, 10), cable(10, 30)), plan, &config);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let controller = || Watched::new(Dctcp::new(DctcpConfig::default(), MSS), at_ms(WARM_UP_MS), Dctcp::alpha, &seen);
    let watch = Watch::new(bottleneck(flows), at_ms(WARM_UP_MS), Span::from_ns(1700), flows as usize);
    let outcome = bed.run(&across(flows), |_| tcp(&config, controller()), watch, at_ms(END_MS));
    let goodput: f64 = outcome.recorder.goodputs(at_ms(END_MS)).iter().sum();
    let alpha = seen.borrow().mean_value();
    Steady {
        alpha,
        queue_p5: f64::from(outcome.recorder.percentile(0.05)),
        queue_max: f64::from(outcome.recorder.percentile(1.0)),
        utilisation: goodput / (10e9 * 1460.0 / 1500.0),
    }
}

fn assert_near(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let error = measured / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {measured} where {expected} is expected");
}

/// Alpha, the queue's 5th percentile and its maximum lie within 10 % of the packet model for one and two flows, and
/// alpha also of the paper's fluid model. Ten flows desynchronize: alpha is the model's 0.316, not theory's 0.401.
#[test]
fn alpha_and_queue_follow_the_model() {
    for (flows, threshold, theory, model, queue_p5, queue_max) in
        [(1, 65, 0.117, 0.122, 58.0, 66.0), (2, 40, 0.182, 0.174, 33.0, 42.0), (2, 65, 0.166, 0.161, 56.0, 67.0)]
    {
        let steady = steady_state(flows, threshold, MarkAt::Enqueue);
        let Steady { alpha, utilisation, .. } = steady;
        println!(
            "N {flows}, K {threshold}: alpha {alpha:.4}, queue {} to {}, utilisation {utilisation:.5}",
            steady.queue_p5, steady.queue_max
        );
        assert_near("alpha against the fluid model", alpha, theory, 0.1);
        assert_near("alpha", alpha, model, 0.1);
        assert_near("5th percentile of the queue", steady.queue_p5, queue_p5, 0.1);
        assert_near("longest queue", steady.queue_max, queue_max, 0.1);
        assert!((0.999..=1.0001).contains(&utilisation), "{utilisation}");
    }
    let ten = steady_state(10, 40, MarkAt::Enqueue);
    println!("N 10, K 40: alpha {:.4}, queue {} to {}", ten.alpha, ten.queue_p5, ten.queue_max);
    assert_near("alpha of ten flows", ten.alpha, 0.316, 0.1);
    assert_near("5th percentile of the queue of ten flows", ten.queue_p5, 23.0, 0.1);
    assert_near("longest queue of ten flows", ten.queue_max, 50.0, 0.1);
    assert!(ten.utilisation >= 0.999, "{}", ten.utilisation);
}

/// A mark made when a packet leaves is fresher by a queueing delay: alpha falls by a fifth to a quarter for one or two
/// flows, the queue hardly changes.
#[test]
fn marking_at_dequeue_lowers_alpha() {
    for (flows, threshold) in [(1, 65), (2, 65)] {
        let [enqueue, dequeue] = [MarkAt::Enqueue, MarkAt::Dequeue].map(|at| steady_state(flows, threshold, at));
        let fall = 1.0 - dequeue.alpha / enqueue.alpha;
        println!(
            "N {flows}: alpha {:.4} to {:.4}, queue {} to {}",
            enqueue.alpha, dequeue.alpha, dequeue.queue_p5, dequeue.queue_max
        );
        assert!((0.15..=0.3).contains(&fall), "alpha fell by {fall}");
        assert!((dequeue.queue_p5 - enqueue.queue_p5).abs() <= 4.0);
        assert!((dequeue.queue_max - enqueue.queue_max).abs() <= 4.0);
        assert!(dequeue.utilisation >= 0.999);
    }
}
