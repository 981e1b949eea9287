//! Arbitrary text is refused or becomes a distribution whose draws stay within its table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pliant_sim::workload::Distribution;

fuzz_target!(|text: &str| {
    let Ok(sizes) = Distribution::parse("fuzz.csv", text) else { return };
    assert!(sizes.mean_bytes() >= 1.0 && sizes.mean_bytes() <= sizes.max_bytes() as f64 + 1e-3);
    let mut previous = 1;
    for step in 0..=64 {
        let size = sizes.quantile(f64::from(step) / 64.0);
        assert!(size >= previous && size <= sizes.max_bytes());
        previous = size;
    }
});
