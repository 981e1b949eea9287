//! Whether runs side by side fit in memory.

use std::fs;

use crate::error::CliError;

/// Refuses `runs` runs, of which `jobs` are under way at once, that need more memory than is free: `bytes` each.
pub fn refuse_too_little(bytes: u64, jobs: Option<usize>, runs: usize) -> Result<(), CliError> {
    let jobs = jobs.unwrap_or_else(rayon::current_num_threads).min(runs) as u64;
    let memory = bytes.saturating_mul(jobs);
    match available_memory().filter(|&available| memory > available) {
        Some(available) => {
            let (runs, way_out) = match jobs {
                1 => ("a run".to_owned(), "a smaller scenario"),
                _ => (format!("{jobs} runs at once"), "fewer --jobs or a smaller scenario"),
            };
            let [memory, available] = [memory, available].map(|bytes| bytes as f64 / 1e9);
            let why = format!("would need about {memory:.1} GB of memory, {available:.1} GB are free");
            Err(CliError::User(format!("{runs} {why}: choose {way_out}")))
        }
        None => Ok(()),
    }
}

/// Bytes of memory that are free, where the system tells (Linux).
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}
