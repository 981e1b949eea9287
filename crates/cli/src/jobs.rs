//! Work on several threads.

use crate::error::CliError;

/// Most threads.
pub(crate) const MAX_JOBS: usize = 1024;

/// Does `work` on so many threads.
pub fn with_jobs<T: Send>(jobs: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T, CliError> {
    if let Some(jobs) = jobs.filter(|jobs| *jobs > MAX_JOBS) {
        return Err(CliError::User(format!("{jobs} jobs: at most {MAX_JOBS} are possible")));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.unwrap_or(0)).build();
    let pool = pool.map_err(|error| CliError::Machine(format!("cannot start threads: {error}")))?;
    Ok(pool.install(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs say how many, too: nobody starts a billion threads.
    #[test]
    fn jobs_are_bounded() {
        assert_eq!(with_jobs(Some(2), || 7).ok(), Some(7));
        let refused = with_jobs(Some(1_000_000_000), || 7).unwrap_err();
        assert_eq!(refused.to_string(), "1000000000 jobs: at most 1024 are possible");
    }
}
