use pliant_proto::time::Span;

use super::*;
use crate::results::samples;

fn exact(values: &[f64]) -> Vec<Estimate> {
    values.iter().map(|&value| Estimate { value, lower_bound: false }).collect()
}

#[test]
fn percentiles_by_nearest_rank() {
    // The textbook example: 15 20 35 40 50 has 20 at 30 %, 20 at 40 %, 35 at 50 %, 50 at 100 %.
    let values = exact(&[15.0, 20.0, 35.0, 40.0, 50.0]);
    let at = |percent| percentile(&values, percent).value;
    assert_eq!([at(5), at(30), at(40), at(50), at(100)], [15.0, 20.0, 20.0, 35.0, 50.0]);

    let hundred = exact(&(1..=100).map(f64::from).collect::<Vec<_>>());
    let of_hundred = Distribution::of(hundred).unwrap();
    assert_eq!((of_hundred.p50.value, of_hundred.p95.value, of_hundred.p99.value), (50.0, 95.0, 99.0));
    assert_eq!(of_hundred.mean, Estimate { value: 50.5, lower_bound: false });

    assert_eq!(Distribution::of(exact(&[7.0])).unwrap().p99.value, 7.0);
    assert_eq!(Distribution::of(Vec::new()), None);
}

#[test]
fn order_of_values_does_not_matter() {
    let forward = Distribution::of(exact(&[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(forward, Distribution::of(exact(&[3.0, 1.0, 4.0, 2.0])));
}

#[test]
fn a_lower_bound_taints_only_ranks_at_or_above_it() {
    let mut values = exact(&[1.0, 2.0, 3.0, 4.0]);
    values[2].lower_bound = true;
    sort(&mut values);
    let bounds: Vec<_> = [25, 50, 75, 100].map(|percent| percentile(&values, percent).lower_bound).to_vec();
    assert_eq!(bounds, [false, false, true, true]);
}

#[test]
fn flows_that_have_just_begun_leave_the_median_alone() {
    let mut values = exact(&(1..=1000).map(f64::from).collect::<Vec<_>>());
    values.push(Estimate { value: 0.5, lower_bound: true });
    let distribution = Distribution::of(values).unwrap();
    assert!(!distribution.p50.lower_bound && !distribution.p99.lower_bound, "they move by one rank, 0.2 % at most");
    assert!(distribution.mean.lower_bound, "one flow may raise a mean without bound");
}

#[test]
fn unfinished_flows_are_counted_and_bound_the_tail() {
    let mut result = samples::run();
    result.simulated = Span::from_ms(1);
    result.flows = (0..98).map(|id| samples::flow(id, 1000)).collect();
    result.flows.push(samples::unfinished(98, 1000));
    result.flows.push(samples::unfinished(99, 1000));
    let all = &by_group(&result)[0].all;
    assert_eq!((all.flows, all.completed, all.unfinished), (100, 98, 2));
    assert_eq!(all.delivered_bytes, 98 * 1000 + 2 * 500);
    let fct = all.fct_us.unwrap();
    assert_eq!(fct.p50, Estimate { value: 16.2, lower_bound: false }, "1.5 times (10 us + 0.8 us)");
    assert_eq!(fct.p99, Estimate { value: 901.0, lower_bound: true }, "started at 99 us, still there at 1 ms");
    assert!(fct.mean.lower_bound);
}

#[test]
fn an_unfinished_flow_is_never_faster_than_ideal() {
    let mut result = samples::run();
    result.flows = vec![samples::unfinished(0, 1000)];
    result.simulated = Span::from_ns(1);
    let slowdown = by_group(&result)[0].all.slowdown.unwrap();
    assert_eq!(slowdown.p50, Estimate { value: 1.0, lower_bound: true });
}

#[test]
fn a_flow_that_lost_bytes_for_good_has_no_completion_time() {
    let mut result = samples::run();
    let mut lossy = samples::unfinished(0, 1000);
    lossy.state = FlowState::SentWithLoss;
    result.flows = vec![lossy];
    let all = &by_group(&result)[0].all;
    assert_eq!((all.flows, all.sent_with_loss, all.delivered_bytes), (1, 1, 500));
    assert_eq!(all.fct_us, None);
}

#[test]
fn buckets_include_their_upper_end_and_cover_every_flow() {
    let mut result = samples::run();
    result.flows = [1, 10_000, 10_001, 100_000, 1_000_001, 10_000_001]
        .into_iter()
        .zip(0..)
        .map(|(bytes, id)| samples::flow(id, bytes))
        .collect();
    let buckets: Vec<_> =
        by_group(&result)[0].by_size.iter().map(|bucket| (bucket.up_to_bytes, bucket.statistics.flows)).collect();
    assert_eq!(buckets, [(Some(10_000), 2), (Some(100_000), 2), (Some(10_000_000), 1), (None, 1)]);
}

#[test]
fn shares_of_delivered_bytes_add_up() {
    let groups = by_group(&samples::run());
    let total: f64 = groups.iter().map(|group| group.share_of_delivered).sum();
    assert!((total - 1.0).abs() < 1e-12);
}

/// Two flows of 1 MB, one from 1 ms on, the other to 9 ms: 2 Gbit/s, however long others go on; while one of them is open,
/// over the whole rest of the run.
#[test]
fn goodput_is_over_the_time_of_the_flows() {
    let at = |ms| Instant::ZERO.after(Span::from_ms(ms));
    let mut result = samples::run();
    let flow = |id, start, end| FlowRow { start: at(start), completed: Some(at(end)), ..samples::flow(id, 1_000_000) };
    result.flows = vec![flow(0, 1, 3), flow(1, 2, 9)];
    let goodput = |result: &RunResult| by_group(result)[0].all.goodput_gbit_per_s;
    assert!((goodput(&result) - 2.0).abs() < 1e-12);
    result.simulated = Span::from_ms(500);
    assert!((goodput(&result) - 2.0).abs() < 1e-12);
    result.flows[1].completed = None;
    assert!((goodput(&result) - 16e-3 / 0.499).abs() < 1e-12);
}

#[test]
fn a_group_without_flows_has_statistics() {
    let mut result = samples::run();
    result.flows.clear();
    result.simulated = Span::ZERO;
    let group = &by_group(&result)[0];
    assert_eq!((group.all.flows, group.all.goodput_gbit_per_s, group.share_of_delivered), (0, 0.0, 0.0));
}

/// Shares 0.01, 0.02 ... 1 against a contract of 0.3: percentiles by nearest rank, 29 of 100 below; flows without a
/// share are left out, and without any there is nothing to tell.
#[test]
fn shares_are_held_against_the_contract() {
    let mut result = samples::run();
    let row = |id: u64| crate::results::FlowRow {
        group: 1,
        fair_share: crate::results::Share::new((id > 0).then_some(id as f64 / 100.0)),
        ..samples::flow(id, 1000)
    };
    result.flows = (0..=100).rev().map(row).collect();
    let groups = by_group(&result);
    let shares = groups[1].all.fair_share.unwrap();
    assert_eq!((shares.flows, shares.min, shares.p1, shares.p5), (100, 0.01, 0.01, 0.05));
    assert!((shares.mean - 0.505).abs() < 1e-12);
    assert_eq!((groups[1].min_share, shares.below_min_share), (0.3, 0.29));
    assert_eq!((groups[1].all.fluid_share, groups[0].all.fair_share), (None, None));
}

/// An object takes until its last flow is over, whatever the flows' number; one that is not complete bounds the tail.
#[test]
fn objects_take_as_long_as_their_last_flow() {
    let mut result = samples::run();
    result.simulated = Span::from_ms(1);
    let of = |object, mut flow: FlowRow| {
        (flow.object, flow.start) = (Some(object), pliant_proto::time::Instant::ZERO);
        flow
    };
    let ends = |us: u64, flow: FlowRow| FlowRow {
        completed: Some(pliant_proto::time::Instant::ZERO.after(Span::from_us(us))),
        ..flow
    };
    result.flows = vec![
        ends(10, of(0, samples::flow(0, 1000))),
        ends(30, of(0, samples::flow(1, 1000))),
        ends(20, of(1, samples::flow(2, 1000))),
        of(2, samples::unfinished(3, 1000)),
        ends(900, samples::flow(4, 1000)),
    ];
    let groups = by_group(&result);
    let objects = groups[0].objects.unwrap();
    assert_eq!((objects.objects, objects.completed), (3, 2));
    assert_eq!(objects.completion_us.p50, Estimate { value: 30.0, lower_bound: false });
    assert_eq!(objects.completion_us.p99, Estimate { value: 1000.0, lower_bound: true });
    assert_eq!(groups[1].objects, None);
}
