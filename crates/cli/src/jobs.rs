//! Work on several threads.

use crate::error::CliError;

/// Does `work` on so many threads.
pub fn with_jobs<T: Send>(jobs: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T, CliError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.unwrap_or(0)).build();
    let pool = pool.map_err(|error| CliError::Machine(format!("cannot start threads: {error}")))?;
    Ok(pool.install(work))
}
