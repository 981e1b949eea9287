//! Arbitrary text is refused or becomes a distribution whose draws stay within its table.

use pliant_sim::workload::Distribution;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(sizes) = Distribution::parse("fuzz.csv", text) else { return };
    let mean = sizes.mean_bytes();
    assert!(mean > 1.0 - 1e-9 && mean < sizes.max_bytes() as f64 * (1.0 + 1e-9));
    let mut previous = 1;
    for step in 0..=64 {
        let size = sizes.quantile(f64::from(step) / 64.0);
        assert!(size >= previous && size <= sizes.max_bytes());
        previous = size;
    }
}
