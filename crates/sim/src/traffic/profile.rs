//! A load that follows the time of day: a table of times and factors.

use super::context::Context;
use super::error::TrafficError;
use super::trace::parse_start;
use crate::text_file;

/// Most lines of a table.
const MAX_LINES: usize = 100_000;
/// Greatest factor.
const MAX_FACTOR: f64 = 1e6;

/// Factors by time. Each holds from its time to the next.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LoadProfile {
    /// From when on, in picoseconds, and by how much; the first from 0.
    steps: Vec<(u64, f64)>,
}

impl LoadProfile {
    /// Reads the file that the key `profile` names: the line `time,factor`, then one step a line.
    pub(super) fn read(file: &str, context: &Context<'_>) -> Result<Self, TrafficError> {
        let text = text_file::read(&context.environment.directory.join(file));
        let text = text.map_err(|error| context.error("profile", format!("{file}: {error}")))?;
        Self::parse(&text).map_err(|(line, why)| context.error("profile", format!("{file}:{line}: {why}")))
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut steps: Vec<(u64, f64)> = Vec::new();
        let mut has_columns = false;
        for (row, line) in text.lines().map(str::trim).zip(1..) {
            let refuse = |why: String| Err((line, why));
            if line > MAX_LINES {
                return refuse(format!("more than {MAX_LINES} lines"));
            }
            if row.is_empty() || row.starts_with('#') {
                continue;
            }
            if !std::mem::replace(&mut has_columns, true) {
                if !row.split(',').map(str::trim).eq(["time", "factor"]) {
                    return refuse("the first line must be \"time,factor\"".to_owned());
                }
                continue;
            }
            let Some((time, factor)) = row.split_once(',') else {
                return refuse("must be a time and a factor".to_owned());
            };
            let at = parse_start(time.trim()).map_err(|why| (line, why))?.as_ps();
            let factor = match factor.trim().parse::<f64>() {
                Ok(factor) if (0.0..=MAX_FACTOR).contains(&factor) => factor,
                _ => return refuse(format!("\"{}\" is not a factor from 0 to {MAX_FACTOR}", factor.trim())),
            };
            match steps.last() {
                None if at > 0 => return refuse("the first time must be 0".to_owned()),
                Some(&(before, _)) if at <= before => return refuse("is not after the time above it".to_owned()),
                _ => steps.push((at, factor)),
            }
        }
        if steps.iter().all(|(_, factor)| *factor == 0.0) {
            return Err((1, "no factor is above 0".to_owned()));
        }
        Ok(Self { steps })
    }

    /// The greatest factor.
    pub(super) fn peak(&self) -> f64 {
        self.steps.iter().map(|(_, factor)| *factor).fold(0.0, f64::max)
    }

    /// When as much has passed since `now_ps` as passes in `ps` picoseconds at a factor of 1; `u64::MAX` for never.
    ///
    /// Gaps drawn at a factor of 1 and stretched in this way are those of a Poisson process whose rate follows the factor.
    pub(super) fn after(&self, now_ps: u64, ps: f64) -> u64 {
        let mut step = self.steps.partition_point(|(at, _)| *at <= now_ps) - 1;
        let (mut now, mut left) = (now_ps, ps);
        loop {
            let factor = self.steps[step].1;
            let Some(&(next, _)) = self.steps.get(step + 1) else {
                return if factor > 0.0 { now.saturating_add((left / factor) as u64) } else { u64::MAX };
            };
            let here = (next - now) as f64 * factor;
            if here > left {
                return now + ((left / factor) as u64).min(next - now);
            }
            (now, left, step) = (next, left - here, step + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 10 at a factor of 1, then 5 at 0, then 20 at 2: what takes 30 at a factor of 1 ends at 10 + 5 + 10.
    #[test]
    fn time_is_stretched_by_the_factor() {
        let profile = LoadProfile::parse("time,factor\n0,1\n10ps,0\n15ps,2\n35ps,0\n").unwrap();
        for (now, ps, expected) in
            [(0, 5.0, 5), (0, 30.0, 25), (5, 5.0, 15), (12, 4.0, 17), (20, 29.0, 34), (20, 31.0, u64::MAX)]
        {
            assert_eq!(profile.after(now, ps), expected, "{now} {ps}");
        }
        assert_eq!(profile.peak(), 2.0);
    }

    #[test]
    fn mistakes_are_named_by_line() {
        for (text, line, why) in [
            ("0,1\n", 1, "the first line must be"),
            ("time,factor\n1s,1\n", 2, "the first time must be 0"),
            ("time,factor\n0,1\n# noon\n0s,2\n", 4, "not after"),
            ("time,factor\n0,many\n", 2, "\"many\" is not a factor"),
            ("time,factor\n0,-1\n", 2, "is not a factor"),
            ("time,factor\nnoon,1\n", 2, "is not a time"),
            ("time,factor\n0\n", 2, "must be a time and a factor"),
            ("time,factor\n0,0\n", 1, "no factor is above 0"),
            ("", 1, "no factor"),
        ] {
            let (at, told) = LoadProfile::parse(text).unwrap_err();
            assert!(at == line && told.contains(why), "{text:?}: {at} {told}");
        }
    }
}
