//! Jain's fairness index (Jain, Chiu, Hawe, DEC-TR-301, 1984).

/// (Σx)² / (n Σx²): 1 when all rates are equal, 1/n when one flow has everything. Nothing to share is fair: 1.
pub fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (rates.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(jain(&[1.0, 1.0, 1.0, 0.0]), 0.75);
        assert_eq!(jain(&[3.0, 1.0]), 0.8);
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
        assert_eq!(jain(&[]), 1.0);
    }

    proptest! {
        /// The index lies between 1/n and 1 and does not depend on the unit of the rates.
        #[test]
        fn bounded_and_scale_free(rates in prop::collection::vec(1e-3..1e3f64, 1..20), scale in 1e-3..1e3f64) {
            let index = jain(&rates);
            prop_assert!(index <= 1.0 + 1e-12 && index >= 1.0 / rates.len() as f64 - 1e-12);
            let scaled: Vec<f64> = rates.iter().map(|rate| rate * scale).collect();
            prop_assert!((jain(&scaled) - index).abs() < 1e-12);
        }
    }
}
