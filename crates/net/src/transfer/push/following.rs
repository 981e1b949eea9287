//! From whom a receiver takes blocks if others fetch the same file at the same time.
//!
//! If all took from the sources, each would get its share of their rate, all would have the same blocks at any time,
//! and nobody could help anybody. So they form a chain, ordered by how many blocks they have, with a random number for
//! ties. The first takes from the sources. Each other receiver takes from the nearest one ahead, which has the block
//! that it needs, or will have it sooner. The sources send each block about once. Blocks are large: a receiver that
//! catches up with the one ahead waits for its next block and does not change places.
//!
//! Obstacles do not stay. A peer without progress is not waited for, and a peer that does not send an announced block
//! is ignored for a while. A receiver without progress, or one that falls behind the peer it takes from, takes from the
//! sources too. Peers with the whole file are sources.

use std::collections::BTreeMap;

use pliant_proto::time::{Instant, Span};

/// After this long without another block, nobody waits for a peer any more, and a receiver takes from the sources too.
/// The time counts for each peer ahead with the same blocks, because blocks reach them one after the other. If the
/// receiver's own blocks take longer, it is four times as long as the last one took, up to the longest.
const PATIENCE: Span = Span::from_secs(3);
const PATIENCE_MAX: Span = Span::from_secs(30);
/// How long a peer is ignored that did not send an announced block.
const PASSED_OVER: Span = Span::from_secs(30);
/// Most blocks by which a receiver may fall further behind the peer that it takes from.
const MOST_BEHIND: u32 = 8;

/// The progress of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PeerProgress {
    /// Its connection.
    pub(super) source: usize,
    /// Its number in the chain.
    pub(super) who: u64,
    /// Number of its blocks.
    pub(super) blocks: u32,
}

/// From whom a receiver takes now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TakesFrom {
    pub(super) peers: Vec<usize>,
    pub(super) sources: bool,
}

/// Whether a source rests, by its number, whether it is a peer, and whether it is slow. Without a choice all are used.
pub(super) fn rests((source, is_peer, is_slow): (usize, bool, bool), takes: Option<&TakesFrom>) -> bool {
    match takes {
        Some(takes) if is_peer => !takes.peers.contains(&source),
        Some(takes) => is_slow || !takes.sources,
        None => is_slow && !is_peer,
    }
}

/// Since when a progress has not changed.
#[derive(Clone, Copy, Debug)]
struct Since {
    blocks: u32,
    at: Instant,
    /// How long the last block took.
    took: Span,
}

impl Since {
    /// Whether it has progressed within this time.
    fn advances(&mut self, now: Instant, blocks: u32, patience: Span) -> bool {
        if blocks > self.blocks {
            *self = Self { blocks, at: now, took: now.since(self.at) };
        }
        now.since(self.at) < patience
    }
}

/// A receiver's place in the chain.
#[derive(Debug)]
pub(super) struct Following {
    who: u64,
    own: Option<Since>,
    peers: BTreeMap<usize, Since>,
    /// Whether peers that are equal now were ahead before. They keep their places.
    were_before: BTreeMap<usize, bool>,
    /// The peer that it takes from, and how far that was ahead at its nearest.
    ahead: Option<(usize, u32)>,
    /// The peer that announced a block, which block, and since when it is used.
    promised: Option<(usize, u32, Instant)>,
    /// Until when peers are ignored.
    passed_over: BTreeMap<usize, Instant>,
}

impl Following {
    /// A receiver with this number.
    pub(super) fn new(who: u64) -> Self {
        let (peers, were_before, passed_over) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { who, own: None, peers, were_before, ahead: None, promised: None, passed_over }
    }

    /// Whether this receiver is behind a peer with the same blocks.
    fn stands_behind(&self, peer: &PeerProgress) -> bool {
        self.were_before.get(&peer.source).copied().unwrap_or(peer.who < self.who)
    }

    /// From whom a receiver with the first `first` of `blocks` blocks takes.
    pub(super) fn choose(&mut self, now: Instant, first: u32, blocks: u32, peers: &[PeerProgress]) -> TakesFrom {
        self.were_before.retain(|source, _| peers.iter().any(|peer| peer.source == *source));
        for peer in peers.iter().filter(|peer| peer.blocks != first) {
            self.were_before.insert(peer.source, peer.blocks > first);
        }
        let before = peers.iter().filter(|peer| peer.blocks == first && self.stands_behind(peer)).count();
        let begun = |blocks| Since { blocks, at: now, took: Span::ZERO };
        let own = self.own.get_or_insert(begun(first));
        let patience = own.took.times(4).max(PATIENCE).min(PATIENCE_MAX).times(before.max(1) as u64);
        let advances = own.advances(now, first, patience);
        self.peers.retain(|source, _| peers.iter().any(|peer| peer.source == *source));
        if let Some((source, block, since)) = self.promised
            && block == first
            && now.since(since) >= patience
        {
            self.passed_over.insert(source, now.after(PASSED_OVER));
        }
        self.passed_over.retain(|_, until| *until > now);
        let mut next: Option<&PeerProgress> = None;
        let in_the_row = |peer: &&PeerProgress| peer.blocks < blocks && !self.passed_over.contains_key(&peer.source);
        for peer in peers.iter().filter(in_the_row) {
            let since = self.peers.entry(peer.source).or_insert(begun(peer.blocks));
            let gets_on = since.advances(now, peer.blocks, patience);
            let waited_for = gets_on && self.stands_behind(peer);
            let is_before = peer.blocks > first || waited_for && peer.blocks == first;
            // Of those with the same blocks the one whose number is next: they stand by their numbers, or have since they met.
            let nearer = |next: &PeerProgress| (peer.blocks, next.who) < (next.blocks, peer.who);
            if is_before && next.is_none_or(nearer) {
                next = Some(peer);
            }
        }
        let whole = || peers.iter().filter(|peer| peer.blocks >= blocks).map(|peer| peer.source);
        let promising = next.filter(|next| next.blocks > first).map(|next| next.source);
        let before = self.promised.filter(|(source, block, _)| Some(*source) == promising && *block == first);
        self.promised = before.or_else(|| Some((promising?, first, now)));
        let Some(next) = next else {
            self.ahead = None;
            return TakesFrom { peers: whole().collect(), sources: true };
        };
        let distance = next.blocks - first;
        let least = match self.ahead {
            Some((source, least)) if source == next.source => least.min(distance),
            _ => distance,
        };
        self.ahead = Some((next.source, least));
        let sources = !advances || distance > least + MOST_BEHIND;
        let others = whole().filter(|_| sources);
        TakesFrom { peers: [next.source].into_iter().chain(others).collect(), sources }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO.after(Span::from_ms(ms))
    }

    fn peer(source: usize, who: u64, blocks: u32) -> PeerProgress {
        PeerProgress { source, who, blocks }
    }

    fn choose(following: &mut Following, ms: u64, first: u32, peers: &[PeerProgress]) -> (Vec<usize>, bool) {
        let TakesFrom { peers, sources } = following.choose(at(ms), first, 100, peers);
        (peers, sources)
    }

    /// The first takes from the sources, every other from the next before it; equals stand by their numbers; who has all
    /// of it is a source.
    #[test]
    fn receivers_stand_in_a_row() {
        for (peers, expected) in [
            (&[][..], (vec![], true)),
            (&[peer(1, 4, 2), peer(2, 6, 3)], (vec![], true)),
            (&[peer(1, 4, 3), peer(2, 3, 3)], (vec![1], false)),
            (&[peer(1, 4, 9), peer(2, 9, 4), peer(3, 1, 100)], (vec![2], false)),
            (&[peer(1, 4, 2), peer(3, 1, 100)], (vec![3], true)),
        ] {
            assert_eq!(choose(&mut Following::new(5), 0, 3, peers), expected, "{peers:?}");
        }
    }

    /// Who catches up with the one before it stays behind it, whatever their numbers; who is caught up with stays the first.
    #[test]
    fn equals_keep_their_places() {
        let (mut first, mut second) = (Following::new(9), Following::new(5));
        for (ms, ahead, behind) in [(0, 4, 3), (100, 4, 4), (200, 5, 4), (300, 5, 5)] {
            assert_eq!(choose(&mut first, ms, ahead, &[peer(2, 5, behind)]), (vec![], true));
            assert_eq!(choose(&mut second, ms, behind, &[peer(1, 9, ahead)]), (vec![1], false));
        }
    }

    /// A peer that gets no further is passed over, and who gets no further itself takes from the sources, too, until it
    /// does.
    #[test]
    fn nobody_waits_for_long() {
        let mut following = Following::new(5);
        assert_eq!(choose(&mut following, 0, 0, &[peer(1, 4, 0)]), (vec![1], false));
        assert_eq!(choose(&mut following, 2999, 0, &[peer(1, 4, 0)]), (vec![1], false));
        assert_eq!(choose(&mut following, 3000, 0, &[peer(1, 4, 0)]), (vec![], true));
        assert_eq!(choose(&mut following, 3100, 0, &[peer(1, 4, 1)]), (vec![1], true));
        assert_eq!(choose(&mut following, 3200, 1, &[peer(1, 4, 2)]), (vec![1], false));
    }

    /// Where blocks reach a long row one after the other, the last waits for as long as that may take; once those before it
    /// have gone on, no longer than anybody.
    #[test]
    fn the_last_of_a_row_waits() {
        let mut following = Following::new(9);
        let row = |blocks: [u32; 3]| [peer(1, 1, blocks[0]), peer(2, 2, blocks[1]), peer(3, 3, blocks[2])];
        assert_eq!(choose(&mut following, 0, 0, &row([0, 0, 0])), (vec![3], false));
        assert_eq!(choose(&mut following, 5000, 0, &row([1, 0, 0])), (vec![3], false));
        assert_eq!(choose(&mut following, 7000, 0, &row([2, 1, 0])).0, [2], "the third is not waited for any more");
    }

    /// Where blocks take long, four times as long as the last one took is waited for the next.
    #[test]
    fn slow_links_are_waited_for() {
        let mut following = Following::new(5);
        for (ms, first, sources) in [
            (0, 0, false),
            (2000, 1, false),
            (9999, 1, false),
            (10_000, 1, true),
            (10_001, 2, true),
            (40_000, 2, false),
        ] {
            assert_eq!(choose(&mut following, ms, first, &[peer(1, 4, 3)]).1, sources, "{ms}");
        }
    }

    /// A peer that says it has a block, and does not send it, is passed over for half a minute.
    #[test]
    fn empty_promises_are_passed_over() {
        let mut following = Following::new(5);
        let liar = peer(1, 4, 50);
        for (ms, first, expected) in [
            (0, 0, (vec![1], false)),
            (2999, 0, (vec![1], false)),
            (3000, 0, (vec![], true)),
            (4000, 1, (vec![], true)),
            (32_999, 9, (vec![], true)),
            (33_000, 10, (vec![1], false)),
        ] {
            assert_eq!(choose(&mut following, ms, first, &[liar]), expected, "{ms}");
        }
    }

    /// Who falls behind takes from the sources as well: the peer before it has more than it can give.
    #[test]
    fn who_falls_behind_takes_more() {
        let mut following = Following::new(5);
        for (first, blocks, sources) in [(0, 10, false), (5, 10, false), (6, 19, false), (7, 21, true), (20, 25, false)]
        {
            assert_eq!(choose(&mut following, 0, first, &[peer(1, 4, blocks)]), (vec![1], sources), "{first} {blocks}");
        }
    }

    /// A source that is not slow any more rests on while blocks come from a peer; a peer is never too slow.
    #[test]
    fn only_those_are_used_that_are_chosen() {
        let from_peer = TakesFrom { peers: vec![2], sources: false };
        let from_all = TakesFrom { peers: vec![2], sources: true };
        for (call, takes, expected) in [
            ((0, false, false), None, false),
            ((0, false, true), None, true),
            ((2, true, true), None, false),
            ((0, false, false), Some(&from_peer), true),
            ((0, false, true), Some(&from_all), true),
            ((0, false, false), Some(&from_all), false),
            ((2, true, true), Some(&from_peer), false),
            ((3, true, false), Some(&from_all), true),
        ] {
            assert_eq!(rests(call, takes), expected, "{call:?} {takes:?}");
        }
    }

    proptest! {
        /// Of any receivers that all get on, exactly one takes from the sources, and nobody is in a circle.
        #[test]
        fn one_takes_from_the_sources(blocks in prop::collection::vec(0u32..100, 1..10)) {
            let all: Vec<PeerProgress> = blocks.iter().enumerate().map(|(at, blocks)| peer(at, at as u64, *blocks)).collect();
            let mut first = 0;
            for own in &all {
                let others: Vec<PeerProgress> = all.iter().copied().filter(|other| other.source != own.source).collect();
                let TakesFrom { peers, sources } = Following::new(own.who).choose(at(0), own.blocks, 100, &others);
                first += usize::from(sources);
                prop_assert_eq!(peers.len(), usize::from(!sources));
                for from in peers {
                    let from = all[from];
                    prop_assert!((from.blocks, own.who) > (own.blocks, from.who));
                }
            }
            prop_assert_eq!(first, 1);
        }
    }
}
