//! Numbers written as `START:STOP:STEP`.

/// Most values of a range: more is a slip of the step.
const MAX_VALUES: u64 = 100_000;

/// The values of `START:STOP:STEP`, both ends included and printed exactly; `None` if the text is no range of numbers.
pub fn number_range(text: &str) -> Option<Result<Vec<String>, &'static str>> {
    let mut numbers = text.split(':').map(Decimal::parse);
    let (start, stop, step) = (numbers.next()??, numbers.next()??, numbers.next()??);
    if numbers.next().is_some() {
        return None;
    }
    Some(spread(start, stop, step))
}

fn spread(start: Decimal, stop: Decimal, step: Decimal) -> Result<Vec<String>, &'static str> {
    // In units of the finest decimal given, so that 0.2 + 0.1 is 0.3.
    let places = start.places.max(stop.places).max(step.places);
    let units = |number: Decimal| number.in_units(places).ok_or("has too many digits");
    let (start, stop, step) = (units(start)?, units(stop)?, units(step)?);
    if step <= 0 {
        return Err("needs a step above 0");
    }
    if start > stop {
        return Err("begins above its end");
    }
    if ((stop - start) / step) as u64 >= MAX_VALUES {
        return Err("has more than 100000 values");
    }
    Ok((0..=(stop - start) / step).map(|i| print(start + i * step, places)).collect())
}

/// A decimal number, exact.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i64,
    places: u32,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let unsigned = whole.strip_prefix('-').unwrap_or(whole);
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if unsigned.is_empty() || !plain(unsigned) || !plain(fraction) || text.ends_with('.') {
            return None;
        }
        Some(Self { digits: format!("{whole}{fraction}").parse().ok()?, places: fraction.len() as u32 })
    }

    fn in_units(self, places: u32) -> Option<i64> {
        let number = self.digits.checked_mul(10i64.checked_pow(places - self.places)?)?;
        // Sums of two stay in range.
        (number.unsigned_abs() < 1 << 61).then_some(number)
    }
}

fn print(units: i64, places: u32) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let size = 10u64.pow(places);
    let (whole, fraction) = (units.unsigned_abs() / size, units.unsigned_abs() % size);
    let fraction = format!("{fraction:0width$}", width = places as usize);
    let fraction = fraction.trim_end_matches('0');
    if places == 0 || fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}
