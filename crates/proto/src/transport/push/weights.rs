//! The weight of each push flow: the smallest remaining task first, decided by one controller for all.
//!
//! Algorithm 1 of Luo et al., "Efficient Multisource Data Delivery in Edge Cloud With Rateless Parallel Push". On every
//! link one task, the one with the least left to send among those that meet there, has the large weight. All others
//! have the small weight and use what it leaves. Beyond the paper a task may have a rank, which goes before its size.
//! Flows of one task share the large weight of a link that both cross.

use alloc::vec::Vec;
use core::cmp::Reverse;

/// θ⁻, the weight of flows that give way (the paper's value).
pub const LOW_WEIGHT: f64 = 0.5;

/// The least value of the large weight, however many flows share it.
const LEAST_HIGH_WEIGHT: f64 = 1.0;

/// A link, by any unique number.
pub type Link = u32;

/// θ⁺ of a link, (C·d + K)/2. With this sum of weights almost every packet is marked. `packets_in_flight` is C·d + K in
/// packets (equation 20).
pub fn high_weight(packets_in_flight: f64) -> f64 {
    packets_in_flight / 2.0
}

/// A delivery task: one object on its way to one receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Its number, which decides between tasks with the same remaining size.
    pub id: u64,
    /// Its rank: the greatest goes first. The paper's tasks all have the same.
    pub priority: u8,
    /// What is left to deliver, in any unit.
    pub remaining: u64,
    /// Links that each of its push flows crosses.
    pub paths: Vec<Vec<Link>>,
}

/// The flows that cross one link.
#[derive(Clone, Default)]
struct Crossing {
    /// Whether an earlier task holds the large weight.
    taken: bool,
    /// Whether the current task takes it. It stays free for the task's own other flows.
    takes: bool,
    flows: usize,
    /// Flows with the large weight: task and flow.
    high: Vec<(usize, usize)>,
}

/// The weight of each flow of each task. `high` is θ⁺ of a link; a flow's is the least on its path.
pub fn assign(tasks: &[Task], high: impl Fn(Link) -> f64) -> Vec<Vec<f64>> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&task| (Reverse(tasks[task].priority), tasks[task].remaining, tasks[task].id));
    let mut links: Vec<Link> = tasks.iter().flat_map(|task| task.paths.iter().flatten().copied()).collect();
    links.sort_unstable();
    links.dedup();
    let highs: Vec<f64> = links.iter().map(|&link| high(link)).collect();
    let mut crossings = alloc::vec![Crossing::default(); links.len()];
    let mut weights: Vec<Vec<f64>> = tasks.iter().map(|task| Vec::with_capacity(task.paths.len())).collect();
    let (mut path, mut taken) = (Vec::new(), Vec::new());
    for task in order {
        for (flow, own) in tasks[task].paths.iter().enumerate() {
            path.clear();
            path.extend(own.iter().map(|link| links.binary_search(link).expect("every link is listed")));
            // A path that names a link twice crosses it once.
            path.sort_unstable();
            path.dedup();
            let is_high = path.iter().all(|&link| !crossings[link].taken);
            for &link in &path {
                let crossing = &mut crossings[link];
                crossing.flows += 1;
                if is_high {
                    crossing.high.push((task, flow));
                    if !core::mem::replace(&mut crossing.takes, true) {
                        taken.push(link);
                    }
                }
            }
            let least = path.iter().map(|&link| highs[link]).fold(f64::INFINITY, f64::min);
            weights[task].push(if is_high { least } else { LOW_WEIGHT });
        }
        for link in taken.drain(..) {
            crossings[link].taken = true;
        }
    }
    for (crossing, high) in crossings.iter().zip(highs).filter(|(crossing, _)| !crossing.high.is_empty()) {
        let low = (crossing.flows - crossing.high.len()) as f64 * LOW_WEIGHT;
        let each = ((high - low) / crossing.high.len() as f64).max(LEAST_HIGH_WEIGHT);
        for &(task, flow) in &crossing.high {
            weights[task][flow] = weights[task][flow].min(each);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn on_one_link(sizes: &[(u64, usize)]) -> Vec<Task> {
        let task = |(id, &(remaining, flows)): (usize, &(u64, usize))| Task {
            id: id as u64,
            priority: 0,
            remaining,
            paths: vec![vec![0]; flows],
        };
        sizes.iter().enumerate().map(task).collect()
    }

    /// The paper's figure 7: θ⁺ is 55; of nine flows the smallest gets 55 − 8·0.5 = 51, of ten 50.5.
    #[test]
    fn the_smallest_of_nine_flows_gets_what_the_others_leave() {
        let mut tasks: Vec<Task> =
            (0..9).map(|id| Task { id, priority: 0, remaining: 100 + id, paths: vec![vec![0]] }).collect();
        let weights = assign(&tasks, |_| high_weight(110.0));
        assert_eq!(weights[0], [51.0]);
        assert!(weights[1..].iter().all(|flows| *flows == [0.5]));
        tasks.push(Task { id: 9, priority: 0, remaining: 5, paths: vec![vec![0]] });
        let weights = assign(&tasks, |_| 55.0);
        assert_eq!((&weights[9][..], &weights[0][..]), (&[50.5][..], &[0.5][..]));
    }

    /// Two flows of the smallest of four tasks on a link of five flows share (55 − 3·0.5)/2.
    #[test]
    fn flows_of_one_task_share_the_large_weight() {
        let weights = assign(&on_one_link(&[(9, 1), (1, 2), (9, 1), (9, 1)]), |_| 55.0);
        assert_eq!(weights, [vec![0.5], vec![26.75; 2], vec![0.5], vec![0.5]]);
    }

    /// The paper's incast count: 179 flows overflow 100 packets, because the large weight never falls below 1.
    #[test]
    fn the_large_weight_never_falls_below_one() {
        let weights = assign(&on_one_link(&[(1, 1); 179]), |_| 55.0);
        let sum: f64 = weights.iter().flatten().sum();
        assert_eq!((weights[0][0], sum), (1.0, 178.0 * 0.5 + 1.0));
    }

    /// A flow is bounded by the least weight along its path, and blocked by one link that is taken.
    #[test]
    fn a_flow_needs_every_link_of_its_path() {
        let task = |id, remaining, paths: &[&[Link]]| Task {
            id,
            priority: 0,
            remaining,
            paths: paths.iter().map(|path| path.to_vec()).collect(),
        };
        let tasks = [task(0, 1, &[&[1, 2]]), task(1, 2, &[&[2, 3], &[4, 3]]), task(2, 3, &[&[3], &[5]])];
        let high = |link| if link == 1 { 10.0 } else { 55.0 };
        assert_eq!(assign(&tasks, high), [vec![10.0], vec![0.5, 54.0], vec![0.5, 55.0]]);
        assert_eq!(assign(&[], high), Vec::<Vec<f64>>::new());
    }

    /// A rank goes before the remaining size; among equals the size decides.
    #[test]
    fn the_greatest_priority_goes_first() {
        let mut tasks = on_one_link(&[(9, 1), (1, 1), (5, 1)]);
        tasks[0].priority = 1;
        assert_eq!(assign(&tasks, |_| 55.0), [vec![54.0], vec![0.5], vec![0.5]]);
        tasks[2].priority = 1;
        assert_eq!(assign(&tasks, |_| 55.0), [vec![0.5], vec![0.5], vec![54.0]]);
    }

    proptest! {
        /// On every link flows of one task at most hold more than the small weight, the smallest task there never
        /// holds less than a larger one, and weights add up to θ⁺ at most (but for the floors).
        #[test]
        fn each_link_has_one_task_with_the_large_weight(
            sizes in prop::collection::vec((0u64..20, prop::collection::vec(prop::collection::vec(0u32..6, 1..4), 1..4)), 1..8),
        ) {
            let task = |(id, (remaining, paths)): (usize, (u64, Vec<Vec<Link>>))| Task { id: id as u64, priority: 0, remaining, paths };
            let tasks: Vec<Task> = sizes.into_iter().enumerate().map(task).collect();
            let weights = assign(&tasks, |_| 55.0);
            for link in 0..6 {
                let (mut holders, mut sum, mut floors) = (BTreeSet::new(), 0.0, 0.0);
                for (task, weights) in tasks.iter().zip(&weights) {
                    for (path, &weight) in task.paths.iter().zip(weights) {
                        prop_assert!((LOW_WEIGHT..=55.0).contains(&weight));
                        if path.contains(&link) {
                            sum += weight;
                            floors += LOW_WEIGHT.max(if weight > LOW_WEIGHT { LEAST_HIGH_WEIGHT } else { 0.0 });
                            if weight > LOW_WEIGHT {
                                holders.insert(task.id);
                            }
                        }
                    }
                }
                prop_assert!(holders.len() <= 1, "link {link}: {holders:?}");
                prop_assert!(sum <= floors.max(55.0) + 1e-9);
            }
            let smallest = tasks.iter().min_by_key(|task| (task.remaining, task.id)).expect("one at least").id as usize;
            prop_assert!(weights[smallest].iter().all(|weight| *weight >= LEAST_HIGH_WEIGHT));
        }
    }
}
