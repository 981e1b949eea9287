//! Circles in a directed graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who points to whom.
pub type Graph<N> = BTreeMap<N, BTreeSet<N>>;

/// The shortest way from `start` to `end`, both included; from a node to itself a circle.
pub fn path<N: Ord + Clone>(graph: &Graph<N>, start: &N, end: &N) -> Option<Vec<N>> {
    let mut came_from: BTreeMap<&N, &N> = BTreeMap::new();
    let mut next: VecDeque<&N> = VecDeque::from([start]);
    while let Some(node) = next.pop_front() {
        for to in graph.get(node).into_iter().flatten() {
            if came_from.contains_key(to) {
                continue;
            }
            came_from.insert(to, node);
            if to == end {
                let mut way = vec![to.clone()];
                let mut at = came_from[to];
                while at != start {
                    way.push(at.clone());
                    at = came_from[at];
                }
                way.push(start.clone());
                way.reverse();
                return Some(way);
            }
            next.push_back(to);
        }
    }
    None
}

/// Circles until there is none: each is a shortest one, and its last edge, back to where it begins, is left out from then
/// on.
pub fn circles<N: Ord + Clone>(mut graph: Graph<N>) -> Vec<Vec<N>> {
    let mut found: Vec<Vec<N>> = Vec::new();
    loop {
        let shortest = graph.keys().filter_map(|node| path(&graph, node, node)).min_by_key(Vec::len);
        let Some(circle) = shortest else { return found };
        let [.., last, first] = &circle[..] else { unreachable!("a circle has an edge") };
        graph.get_mut(last).expect("it points to the first").remove(first);
        found.push(circle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u8, u8)]) -> Graph<u8> {
        let mut graph = Graph::new();
        for &(from, to) in edges {
            graph.entry(from).or_insert_with(BTreeSet::new).insert(to);
        }
        graph
    }

    #[test]
    fn a_tree_has_no_circle() {
        assert!(circles(graph(&[(1, 2), (1, 3), (3, 4), (2, 4)])).is_empty());
    }

    #[test]
    fn each_circle_is_found_once() {
        assert_eq!(circles(graph(&[(1, 2), (2, 1), (2, 3), (3, 4), (4, 2)])), [vec![1, 2, 1], vec![2, 3, 4, 2]]);
    }
}
