//! The service contract: how far an application's traffic may bend, and the policies that bend it.

pub mod policy;
pub mod reflex;

pub mod cross_queue_notification;
pub mod deadline;
pub mod schedule;

use core::fmt;

use self::schedule::{DayPart, DaySchedule, TimeOfDay};
use crate::time::Span;
use crate::units::Rate;

/// What an application accepts. Each field is a bound that the transport never exceeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Contract {
    /// Least fraction of the bytes that must arrive, in [0, 1] (REFLEX r, ATP 1 − MLR).
    pub min_delivery: f64,
    /// Least share of the flow's fair rate that it keeps, in [0, 1] (REFLEX alpha).
    pub min_share: f64,
    /// Least rate of payload that it keeps, as far as the path carries it; 0 promises none.
    pub min_rate: Rate,
    /// Greatest rate on the wire, above 0.
    pub max_rate: Option<Rate>,
    /// How long after its start a flow of known size must be done, longer than 0.
    pub done_by: Option<Span>,
    /// Relative weight against other flows, above 0 (PPUSH theta).
    pub weight: f64,
    /// Rank among tasks that a controller weighs: the greatest goes first, whatever is left of others (PPUSH, which has
    /// the remaining sizes alone).
    pub priority: u8,
}

impl Default for Contract {
    /// Traffic that does not bend.
    fn default() -> Self {
        Self {
            min_delivery: 1.0,
            min_share: 1.0,
            min_rate: Rate::default(),
            max_rate: None,
            done_by: None,
            weight: 1.0,
            priority: 0,
        }
    }
}

/// A field of the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// [`Contract::min_delivery`].
    MinDelivery,
    /// [`Contract::min_share`].
    MinShare,
    /// [`Contract::min_rate`].
    MinRate,
    /// [`Contract::max_rate`].
    MaxRate,
    /// [`Contract::done_by`].
    DoneBy,
    /// [`Contract::weight`].
    Weight,
    /// [`Contract::priority`].
    Priority,
}

/// Why a contract was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContractError {
    /// The field's value lies outside its range.
    OutOfRange(Field),
    /// The transport does not honour the field.
    NotHonoured(Field),
    /// The field promises nothing beside the others.
    NoEffect(Field),
    /// The first field promises what the second one forbids.
    Contradiction(Field, Field),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MinDelivery => "min_delivery",
            Self::MinShare => "min_share",
            Self::MinRate => "min_rate",
            Self::MaxRate => "max_rate",
            Self::DoneBy => "done_by",
            Self::Weight => "weight",
            Self::Priority => "priority",
        })
    }
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(Field::Weight) => f.write_str("weight must be a number above 0"),
            Self::OutOfRange(field @ Field::MaxRate) => {
                write!(f, "{field} must be above 0: at no rate nothing is sent")
            }
            Self::OutOfRange(field @ Field::DoneBy) => write!(f, "{field} has passed: it must be later than the start"),
            Self::OutOfRange(field) => write!(f, "{field} must lie in [0, 1]"),
            Self::NotHonoured(field) => write!(f, "this transport does not honour {field}"),
            Self::NoEffect(field) => {
                write!(f, "{field} has no effect while min_share is 1: give a min_share below 1, such as 0")
            }
            Self::Contradiction(field @ Field::DoneBy, bound) => {
                write!(f, "{field} cannot be kept: at {bound} the flow takes longer")
            }
            Self::Contradiction(field, bound) => write!(f, "{field} is above {bound}"),
        }
    }
}

impl core::error::Error for ContractError {}

impl Contract {
    /// Bytes that must arrive of `bytes`, rounded up.
    pub fn needed_bytes(&self, bytes: u64) -> u64 {
        if self.min_delivery >= 1.0 { bytes } else { (libm::ceil(self.min_delivery * bytes as f64) as u64).min(bytes) }
    }

    /// The same at a time of day, under a schedule.
    pub fn at(&self, at: TimeOfDay, schedule: &DaySchedule) -> Self {
        schedule.part(at).map_or(*self, |part| self.within(part))
    }

    /// The same in a part of the day. What keeps all of its share there needs no least rate.
    pub fn within(&self, part: &DayPart) -> Self {
        let min_share = part.min_share.unwrap_or(self.min_share);
        let min_rate = if part.min_share == Some(1.0) { Rate::default() } else { self.min_rate };
        Self { max_rate: part.max_rate, min_share, min_rate, ..*self }
    }

    /// Refuses a flow of `bytes` whose greatest rate alone makes it late.
    pub fn check_size(&self, bytes: u64) -> Result<(), ContractError> {
        match (self.done_by, self.max_rate) {
            (Some(span), Some(most)) if most.time_for(bytes) > span => {
                Err(ContractError::Contradiction(Field::DoneBy, Field::MaxRate))
            }
            _ => Ok(()),
        }
    }

    /// Checks ranges, that each field that asks for something is among those the transport `honours`, that none is in vain (a
    /// flow that keeps all of its share does not give way, so that a rate or a time promises it nothing), and that none contradicts
    /// another.
    pub fn check(&self, honours: &[Field]) -> Result<(), ContractError> {
        let unit = |value: f64| (0.0..=1.0).contains(&value);
        let fields = [
            (Field::MinDelivery, unit(self.min_delivery), self.min_delivery != 1.0),
            (Field::MinShare, unit(self.min_share), self.min_share != 1.0),
            (Field::MinRate, true, self.min_rate != Rate::default()),
            (Field::MaxRate, self.max_rate != Some(Rate::default()), self.max_rate.is_some()),
            (Field::DoneBy, self.done_by != Some(Span::ZERO), self.done_by.is_some()),
            (Field::Weight, self.weight > 0.0 && self.weight.is_finite(), self.weight != 1.0),
            (Field::Priority, true, self.priority != 0),
        ];
        for (field, in_range, asks) in fields {
            if !in_range {
                return Err(ContractError::OutOfRange(field));
            }
            if asks && !honours.contains(&field) {
                return Err(ContractError::NotHonoured(field));
            }
        }
        for (field, _, asks) in fields {
            if asks && self.min_share == 1.0 && matches!(field, Field::MinRate | Field::DoneBy) {
                return Err(ContractError::NoEffect(field));
            }
        }
        if self.max_rate.is_some_and(|most| self.min_rate > most) {
            return Err(ContractError::Contradiction(Field::MinRate, Field::MaxRate));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn asking_for_what_is_not_honoured_is_refused_by_name() {
        let bend = Contract { min_delivery: 0.9, ..Contract::default() };
        assert_eq!(bend.check(&[Field::Weight]), Err(ContractError::NotHonoured(Field::MinDelivery)));
        assert_eq!(bend.check(&[Field::MinDelivery]), Ok(()));
        assert_eq!(Contract::default().check(&[]), Ok(()));
    }

    #[test]
    fn a_rate_beside_the_whole_share_is_refused() {
        let rate = Contract { min_rate: Rate::from_bits_per_sec(1), ..Contract::default() };
        let honours = [Field::MinShare, Field::MinRate];
        assert_eq!(rate.check(&honours), Err(ContractError::NoEffect(Field::MinRate)));
        assert_eq!(Contract { min_share: 0.5, ..rate }.check(&honours), Ok(()));
    }

    /// A greatest rate of nothing, or below the least, is refused; one that equals the least is kept.
    #[test]
    fn rates_that_contradict_are_refused() {
        let honours = [Field::MinShare, Field::MinRate, Field::MaxRate];
        let rates = |least, most| Contract {
            min_share: 0.0,
            min_rate: Rate::from_bits_per_sec(least),
            max_rate: Some(Rate::from_bits_per_sec(most)),
            ..Contract::default()
        };
        assert_eq!(rates(5, 5).check(&honours), Ok(()));
        assert_eq!(rates(6, 5).check(&honours), Err(ContractError::Contradiction(Field::MinRate, Field::MaxRate)));
        assert_eq!(rates(0, 0).check(&honours), Err(ContractError::OutOfRange(Field::MaxRate)));
        assert_eq!(rates(6, 5).check(&honours).unwrap_err().to_string(), "min_rate is above max_rate");
        assert_eq!(rates(0, 5).check(&[Field::MinShare]), Err(ContractError::NotHonoured(Field::MaxRate)));
    }

    /// A time that has passed, one that promises nothing, and one that the greatest rate makes impossible: 4 MB at 8 Mbit/s
    /// take 4 s.
    #[test]
    fn times_that_cannot_be_kept_are_refused() {
        let honours = [Field::MinShare, Field::MaxRate, Field::DoneBy];
        let by = |span| Contract { min_share: 0.0, done_by: Some(span), ..Contract::default() };
        assert_eq!(by(Span::from_secs(4)).check(&honours), Ok(()));
        assert_eq!(by(Span::ZERO).check(&honours), Err(ContractError::OutOfRange(Field::DoneBy)));
        let vain = Contract { min_share: 1.0, ..by(Span::from_secs(4)) };
        assert_eq!(vain.check(&honours), Err(ContractError::NoEffect(Field::DoneBy)));
        let capped =
            |seconds| Contract { max_rate: Some(Rate::from_bits_per_sec(8_000_000)), ..by(Span::from_secs(seconds)) };
        assert_eq!(capped(4).check_size(4_000_000), Ok(()));
        let error = capped(3).check_size(4_000_000).unwrap_err();
        assert_eq!(error, ContractError::Contradiction(Field::DoneBy, Field::MaxRate));
        assert_eq!(error.to_string(), "done_by cannot be kept: at max_rate the flow takes longer");
    }

    /// The texts that users see name the field.
    #[test]
    fn refusals_name_the_field() {
        let of = |contract: Contract| contract.check(&[]).unwrap_err().to_string();
        let base = Contract::default();
        let texts = [
            of(Contract { min_delivery: 1.5, ..base }),
            of(Contract { min_share: f64::NAN, ..base }),
            of(Contract { weight: 0.0, ..base }),
            of(Contract { min_rate: Rate::from_bits_per_sec(1), ..base }),
            of(Contract { priority: 1, ..base }),
            of(Contract { weight: 2.0, ..base }),
        ];
        let expected = [
            "min_delivery must lie in [0, 1]",
            "min_share must lie in [0, 1]",
            "weight must be a number above 0",
            "this transport does not honour min_rate",
            "this transport does not honour priority",
            "this transport does not honour weight",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn ranges_are_checked() {
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let contract = Contract { weight, ..Contract::default() };
            assert_eq!(contract.check(&[Field::Weight]), Err(ContractError::OutOfRange(Field::Weight)));
        }
    }
}
