//! A comparison's answer in one sentence, made from its numbers.

use super::measures::{Format, number, print};
use super::roles::roles;
use super::shown::told;
use crate::results::comparison::ComparisonRow;
use crate::results::repetition::{Change, Repeated};
use crate::results::statistics::Estimate;

/// What the variants do to the group that is to gain, and what that costs the one that may give way; `None` of a single
/// variant or group, or seed.
pub fn answer(repeated: &Repeated) -> Option<String> {
    let rows = repeated.rows();
    if repeated.seeds().len() < 2 {
        return None;
    }
    let (gives, gains) = roles(rows)?;
    let p99 = |row: &ComparisonRow| row.group.all.fct_us.map(|fct| fct.p99);
    let exact = |row: &ComparisonRow| p99(row).filter(|p99| !p99.lower_bound).map(|p99| p99.value);
    let of_group = |name: &str| -> Vec<usize> { (0..rows.len()).filter(|&at| rows[at].group.name == name).collect() };
    let gaining = of_group(gains);
    let reference = *gaining.first().filter(|&&at| rows[at].variant_index == 0)?;
    let before = repeated.mean(reference, exact)?;
    let first = &rows[reference].variant;
    let better = |&at: &usize| {
        let change = repeated.change(at, exact)?;
        (change.high < 0.0).then_some((at, change))
    };
    let best = gaining.iter().filter_map(better).min_by(|(_, a), (_, b)| a.change.total_cmp(&b.change));
    let Some((best, change)) = best else {
        let worse = gaining.iter().filter_map(|&at| repeated.change(at, exact)).any(|change| change.low > 0.0);
        return Some(if worse {
            format!("No variant has a lower FCT p99 of {gains} than {first}.")
        } else {
            format!("No difference is seen in the FCT p99 of {gains} between {first} and the other variants.")
        });
    };
    let time = |value: f64| print(Some(Estimate { value, lower_bound: false }), Format::Time);
    let after = repeated.mean(best, exact)?;
    let cost = of_group(gives)
        .into_iter()
        .find(|&at| rows[at].variant_index == rows[best].variant_index)
        .and_then(|at| Some((at, repeated.mean(at, |row| row.share_kept)?)))
        .map(|(at, kept)| cost(gives, kept, repeated.change(at, |row| row.share_kept)));
    Some(format!(
        "{} takes the FCT p99 of {gains} from {} to {} ({}){}.",
        rows[best].variant,
        time(before),
        time(after),
        told(change),
        cost.unwrap_or_default()
    ))
}

fn cost(gives: &str, kept: f64, change: Option<Change>) -> String {
    match change {
        Some(change) if !change.is_seen() => format!(", and leaves {gives} its rate"),
        Some(change) => {
            format!(
                ", and leaves {gives} {} % of its rate (±{})",
                number(100.0 * kept),
                number(100.0 * change.half_width())
            )
        }
        None => format!(", and leaves {gives} {} % of its rate", number(100.0 * kept)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::repetition::SeedRuns;
    use crate::results::samples;
    use crate::results::statistics::by_group;

    /// Three seeds; in the second variant `search` takes a part of its time, which differs a little from seed to seed, and
    /// `training` keeps half of its rate.
    fn repeated(parts: [f64; 3]) -> Repeated {
        let labels = ["shared".to_owned(), "strict".to_owned()];
        let mut repeated = Repeated::default();
        for (seed, part) in (1..).zip(parts) {
            let mut first = by_group(&samples::run());
            let mut second = first.clone();
            for (groups, us) in [(&mut first, 1000.0), (&mut second, part * 1000.0)] {
                groups[0].all.fct_us.as_mut().unwrap().p99 = Estimate { value: us, lower_bound: false };
            }
            second[1].all.flow_rate_gbit_per_s /= 2.0;
            repeated.add(seed, &SeedRuns::new(&labels, vec![first, second]));
        }
        repeated
    }

    #[test]
    fn the_sentence_follows_the_intervals() {
        let told = answer(&repeated([0.5, 0.5, 0.5])).unwrap();
        let expected = "strict takes the FCT p99 of search from 1.00 ms to 500 µs (−50 ±0.0 %), and leaves training 50.0 % of its \
                        rate (±0).";
        assert_eq!(told, expected);
        let none = "No difference is seen in the FCT p99 of search between shared and the other variants.";
        assert_eq!(answer(&repeated([0.5, 1.0, 1.6])).unwrap(), none);
        assert_eq!(
            answer(&repeated([1.5, 1.6, 1.7])).unwrap(),
            "No variant has a lower FCT p99 of search than shared."
        );
        assert_eq!(answer(&Repeated::default()), None);
    }
}
