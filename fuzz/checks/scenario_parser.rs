//! Arbitrary text is refused in one line or becomes a scenario that reads back as itself.

use std::path::Path;

use pliant_sim::scenario::Scenario;

/// Larger networks say nothing new and take long to build.
const MAX_HOSTS: u32 = 1_000;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    // Files of the machine that fuzzes are none of its business.
    if text.contains("path") || text.contains("file") || text.contains("workload") {
        return;
    }
    let resolved = Scenario::parse(text, Path::new("fuzz.toml")).and_then(|scenario| scenario.resolve());
    match resolved {
        Ok(resolved) if resolved.topology.hosts() <= MAX_HOSTS => {
            let again = Scenario::parse(&resolved.to_toml(), Path::new("again.toml")).and_then(|s| s.resolve());
            assert_eq!(again.expect("what was written can be read").spec, resolved.spec);
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}
