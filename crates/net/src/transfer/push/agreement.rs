//! Which content is fetched, where sources may offer different ones.
//!
//! Without a hash from the user the sources vote: a content is taken when more than half of the sources that answered
//! offer it. One source that answers is its own majority. So a wrong file needs as many sources as the right one.

use pliant_proto::time::{Instant, Span};

use super::message::Offered;

/// How long the others may still answer once enough sources agree.
const GRACE: Span = Span::from_secs(1);

/// What one source has said so far.
#[derive(Clone, Copy, Debug)]
pub(super) enum SourceAnswer<'a> {
    /// It may still answer.
    Pending,
    /// It offers this.
    Offers(&'a Offered),
    /// It will not answer, is lost, or was refused.
    Out,
}

/// What follows from all answers.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Judgement {
    /// Other answers may change it.
    Wait,
    /// Fetch this. The name is the one that most of its sources give.
    Take(Offered),
    /// All have answered, and no content has more than half.
    Tie,
}

/// The vote of the sources.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    agreed_at: Option<Instant>,
}

impl Agreement {
    /// Judges the answers at `now`. With `chosen` only sources of the content that the user named are left, and the first
    /// of them is enough.
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
        if pending > 0 {
            let enough = if chosen { majority } else { 2 * count > called };
            if !enough {
                self.agreed_at = None;
                return Judgement::Wait;
            }
            if now < self.agreed_at.get_or_insert(now).after(GRACE) {
                return Judgement::Wait;
            }
        } else if !majority {
            return Judgement::Tie;
        }
        let namings =
            |name: &str| offers.iter().filter(|offered| offered.is_same(most) && offered.name == name).count();
        let of_content = offers.iter().filter(|offered| offered.is_same(most));
        let named = of_content.max_by_key(|offered| namings(&offered.name)).expect("it has votes");
        Judgement::Take((*named).clone())
    }
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
        let mut agreement = Agreement::default();
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

    /// A source that never answers holds nobody up for longer than a second once the majority of all called agrees. With a
    /// hash the first source of that content is enough.
    #[test]
    fn the_grace_is_a_second() {
        use SourceAnswer::{Offers, Pending};
        let right = offered(b"right", "a");
        for (chosen, answers) in
            [(false, &[Offers(&right), Offers(&right), Pending][..]), (true, &[Offers(&right), Pending, Pending])]
        {
            let mut agreement = Agreement::default();
            assert_eq!(judge(&mut agreement, 50, chosen, answers), Judgement::Wait);
            assert_eq!(judge(&mut agreement, 1049, chosen, answers), Judgement::Wait);
            assert_eq!(judge(&mut agreement, 1050, chosen, answers), Judgement::Take(right.clone()));
        }
        assert_eq!(judge(&mut Agreement::default(), 99_999, false, &[Offers(&right), Pending]), Judgement::Wait);
    }

    proptest! {
        /// What is taken has more than half of the answers once all are there, in whatever order they came.
        #[test]
        fn what_is_taken_has_more_than_half(contents in prop::collection::vec(0u16..4, 1..12)) {
            let offers: Vec<Offered> = contents.iter().map(|content| offered(&content.to_be_bytes(), "x")).collect();
            let judgement = Agreement::default().judge(Instant::ZERO, false, offers.iter().map(SourceAnswer::Offers));
            let winner = (0..4u16).find(|of| 2 * contents.iter().filter(|content| *content == of).count() > contents.len());
            prop_assert_eq!(judgement, winner.map_or(Judgement::Tie, |of| Judgement::Take(offered(&of.to_be_bytes(), "x"))));
        }
    }
}
