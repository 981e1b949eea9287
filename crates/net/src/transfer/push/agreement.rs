//! The choice of the content, if sources offer different ones.
//!
//! Without a hash from the user the sources vote. A content is chosen when more than half of the sources that answered
//! offer it. A single answering source is its own majority. So a wrong file needs as many sources as the right one.
//!
//! Once more than half of all sources that were called agree, no other answer can change the vote: those who are silent count
//! as if they did not agree. Then the others have a few round trips to take part from the start. Otherwise a source that does
//! not answer delays the vote until it is given up, but not the fetch. If all that have answered
//! agree, their content is fetched before the vote is over, and gets its place afterwards.

use pliant_proto::time::{Instant, Span};

use super::message::Offered;
use crate::seam::{Mutant, is_mutant};

/// The others may still answer for this many times as long as the last answer took.
const ROUND_TRIPS: u64 = 4;
/// The limits of that once enough sources agree.
const LEAST_GRACE: Span = Span::from_ms(50);
const GRACE: Span = Span::from_secs(1);
/// Its least before a fetch begins whose vote is not over: a lost call is repeated within it.
const LEAST_WAIT: Span = Span::from_ms(250);

/// The answer of one source so far.
#[derive(Clone, Copy, Debug)]
pub(super) enum SourceAnswer<'a> {
    /// It may still answer.
    Pending,
    /// It offers this.
    Offers(&'a Offered),
    /// It will not answer, was lost, or was refused.
    Out,
}

/// The result of all answers.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Judgement {
    /// Other answers may change it.
    Wait,
    /// Fetch this. The name is the one that most of its sources give.
    Take(Offered),
    /// Fetch this, and keep it if it wins the vote. This many sources have answered.
    Begin(Offered, usize),
    /// All have answered, and no content has more than half.
    Tie,
}

/// The vote of the sources.
#[derive(Debug)]
pub(super) struct Agreement {
    called_at: Instant,
    /// Whether a fetch may begin before the vote is over.
    eager: bool,
    agreed_at: Option<Instant>,
    /// How many have answered, and when the last one did.
    answered: (usize, Instant),
}

/// The state of the vote on a content whose fetch began early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Sources may still answer.
    Open,
    /// More than half of all sources offer it, or nobody who may still answer can offer something else.
    Won,
    /// A source offers something else, so all must be heard.
    Disputed,
}

impl Agreement {
    /// The vote of sources that are called now. With `eager` a fetch may begin before its end.
    pub(super) fn new(now: Instant, eager: bool) -> Self {
        Self { called_at: now, eager, agreed_at: None, answered: (0, now) }
    }

    /// The state of the vote on `begun`.
    pub(super) fn standing<'a>(begun: &Offered, answers: impl Iterator<Item = SourceAnswer<'a>>) -> Standing {
        let (mut called, mut pending, mut votes) = (0, 0, 0);
        for answer in answers {
            called += 1;
            match answer {
                SourceAnswer::Pending => pending += 1,
                SourceAnswer::Offers(offered) if offered.is_same(begun) => votes += 1,
                SourceAnswer::Offers(_) => return Standing::Disputed,
                SourceAnswer::Out => {}
            }
        }
        if pending == 0 || 2 * votes > called { Standing::Won } else { Standing::Open }
    }

    /// Evaluates the answers at `now`. With `chosen` only sources of the content that the user named are left, and the
    /// first of them is enough.
    pub(super) fn judge<'a>(
        &mut self,
        now: Instant,
        chosen: bool,
        answers: impl Iterator<Item = SourceAnswer<'a>>,
    ) -> Judgement {
        let (mut called, mut pending, mut offers) = (0, 0, Vec::new());
        for answer in answers {
            called += 1;
            match answer {
                SourceAnswer::Pending => pending += 1,
                SourceAnswer::Offers(offered) => offers.push(offered),
                SourceAnswer::Out => {}
            }
        }
        let votes = |content: &Offered| offers.iter().filter(|offered| offered.is_same(content)).count();
        let Some(most) = offers.iter().max_by_key(|offered| votes(offered)) else { return Judgement::Wait };
        let count = votes(most);
        let majority = 2 * count > offers.len();
        if self.answered.0 != offers.len() {
            self.answered = (offers.len(), now);
        }
        if is_mutant(Mutant::FirstSourceIsBelieved) {
            return Judgement::Take(name_of(offers[0], &offers));
        }
        if pending > 0 {
            let (answers, last) = self.answered;
            let others = last.since(self.called_at).times(ROUND_TRIPS);
            let enough = if chosen { majority } else { 2 * count > called };
            if !enough {
                self.agreed_at = None;
                let begins = self.eager && count == answers && now >= last.after(others.max(LEAST_WAIT));
                return if begins { Judgement::Begin(name_of(most, &offers), answers) } else { Judgement::Wait };
            }
            if now < self.agreed_at.get_or_insert(now).after(others.clamp(LEAST_GRACE, GRACE)) {
                return Judgement::Wait;
            }
        } else if !majority {
            return Judgement::Tie;
        }
        Judgement::Take(name_of(most, &offers))
    }
}

/// The content with the name that most of its sources give.
fn name_of(content: &Offered, offers: &[&Offered]) -> Offered {
    let of_content = || offers.iter().filter(|offered| offered.is_same(content));
    let namings = |name: &str| of_content().filter(|offered| offered.name == name).count();
    let named = of_content().max_by_key(|offered| namings(&offered.name)).expect("it has votes");
    (*named).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offered(content: &[u8], name: &str) -> Offered {
        Offered { bytes: content.len() as u64, hash: blake3::hash(content), name: name.into() }
    }

    fn judge(agreement: &mut Agreement, ms: u64, chosen: bool, answers: &[SourceAnswer<'_>]) -> Judgement {
        agreement.judge(Instant::ZERO.after(Span::from_ms(ms)), chosen, answers.iter().copied())
    }

    /// Two right sources outvote a wrong one, whoever answers first; the name is that of most of them.
    #[test]
    fn the_majority_decides() {
        use SourceAnswer::{Offers, Out, Pending};
        let (right, renamed, wrong) = (offered(b"right", "a"), offered(b"right", "b"), offered(b"wrong", "a"));
        let mut agreement = Agreement::new(Instant::ZERO, false);
        assert_eq!(judge(&mut agreement, 0, false, &[Offers(&wrong), Pending, Pending]), Judgement::Wait);
        assert_eq!(judge(&mut agreement, 9000, false, &[Offers(&wrong), Pending, Offers(&right)]), Judgement::Wait);
        let all = [Offers(&wrong), Offers(&right), Offers(&right)];
        assert_eq!(judge(&mut agreement, 9001, false, &all), Judgement::Take(right.clone()));
        let names = [Offers(&renamed), Offers(&right), Offers(&right)];
        assert_eq!(judge(&mut agreement, 9002, false, &names), Judgement::Take(right.clone()));
        assert_eq!(judge(&mut agreement, 9003, false, &[Offers(&wrong), Offers(&right)]), Judgement::Tie);
        assert_eq!(judge(&mut agreement, 9004, false, &[Offers(&right), Out]), Judgement::Take(right));
        assert_eq!(judge(&mut agreement, 9005, false, &[Out, Out]), Judgement::Wait);
    }

    /// A source that never answers holds nobody up for longer than four times as long as the answers took once the majority of
    /// all called agrees, for 50 ms to a second. With a hash the first source of that content is enough.
    #[test]
    fn who_is_silent_is_outvoted_by_a_majority_of_all() {
        use SourceAnswer::{Offers, Pending};
        let (right, wrong) = (offered(b"right", "a"), offered(b"wrong", "a"));
        for (chosen, answers) in [
            (false, &[Offers(&right), Offers(&right), Pending][..]),
            (false, &[Offers(&right), Offers(&wrong), Offers(&right), Pending, Offers(&right)]),
            (true, &[Offers(&right), Pending, Pending]),
        ] {
            for (answered, taken) in [(1, 51), (50, 250), (2000, 3000)] {
                for eager in [false, true] {
                    let mut agreement = Agreement::new(Instant::ZERO, eager);
                    assert_eq!(judge(&mut agreement, answered, chosen, answers), Judgement::Wait);
                    assert_eq!(judge(&mut agreement, taken - 1, chosen, answers), Judgement::Wait);
                    assert_eq!(judge(&mut agreement, taken, chosen, answers), Judgement::Take(right.clone()));
                }
            }
        }
        assert_eq!(
            judge(&mut Agreement::new(Instant::ZERO, false), 99_999, false, &[Offers(&right), Pending]),
            Judgement::Wait
        );
    }

    /// Where nobody disagrees, a content is begun after four times as long as the last answer took, a quarter of a second at
    /// least. It has won when the others are out or agree, and is disputed by the first that does not.
    #[test]
    fn a_silent_source_holds_up_no_beginning() {
        use SourceAnswer::{Offers, Out, Pending};
        let (right, wrong) = (offered(b"right", "a"), offered(b"wrong", "a"));
        for (answered, begins) in [(1, 251), (100, 500), (2000, 10_000)] {
            let mut agreement = Agreement::new(Instant::ZERO, true);
            let answers = [Offers(&right), Pending];
            assert_eq!(judge(&mut agreement, answered, false, &answers), Judgement::Wait);
            assert_eq!(judge(&mut agreement, begins - 1, false, &answers), Judgement::Wait);
            assert_eq!(judge(&mut agreement, begins, false, &answers), Judgement::Begin(right.clone(), 1));
            let mut patient = Agreement::new(Instant::ZERO, false);
            assert_eq!(judge(&mut patient, answered, false, &answers), Judgement::Wait);
            assert_eq!(judge(&mut patient, 99_999, false, &answers), Judgement::Wait);
        }
        let split = [Offers(&right), Offers(&wrong), Pending];
        let mut agreement = Agreement::new(Instant::ZERO, true);
        assert_eq!(judge(&mut agreement, 1, false, &split), Judgement::Wait);
        assert_eq!(judge(&mut agreement, 99_999, false, &split), Judgement::Wait);
        for (answers, standing) in [
            (&[Offers(&right), Pending][..], Standing::Open),
            (&[Offers(&right), Out], Standing::Won),
            (&[Out, Out], Standing::Won),
            (&[Out, Pending], Standing::Open),
            (&[Offers(&right), Pending, Offers(&right)], Standing::Won),
            (&[Offers(&right), Pending, Offers(&wrong)], Standing::Disputed),
            (&[Offers(&right), Offers(&wrong), Offers(&right)], Standing::Disputed),
        ] {
            assert_eq!(Agreement::standing(&right, answers.iter().copied()), standing, "{answers:?}");
        }
    }

    proptest! {
        /// What is taken has more than half of the answers once all are there, in whatever order they came.
        #[test]
        fn what_is_taken_has_more_than_half(contents in prop::collection::vec(0u16..4, 1..12)) {
            let offers: Vec<Offered> = contents.iter().map(|content| offered(&content.to_be_bytes(), "x")).collect();
            let judgement = Agreement::new(Instant::ZERO, true).judge(Instant::ZERO, false, offers.iter().map(SourceAnswer::Offers));
            let winner = (0..4u16).find(|of| 2 * contents.iter().filter(|content| *content == of).count() > contents.len());
            prop_assert_eq!(judgement, winner.map_or(Judgement::Tie, |of| Judgement::Take(offered(&of.to_be_bytes(), "x"))));
        }
    }
}
