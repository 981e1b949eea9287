//! What commands do, for other front ends: the Python package makes the same runs as the command line by it.

pub use crate::error::CliError;
pub use crate::grid::{Axis, Choice, choices, label, overrides};
pub use crate::jobs::with_jobs;
pub use crate::memory::refuse_too_little;
pub use crate::progress::RunProgress;
pub use crate::reproduce::{ReproduceRequest, verdicts_json, verdicts_text};
pub use crate::run::run_one;
pub use crate::scenarios::load;
pub use crate::sweep::{Point, Shard, SweepRequest, Writing, run_points, write_table};

/// Name and title of every figure of a paper, or of all papers.
pub fn figure_titles(paper: Option<&str>) -> Result<Vec<(String, String)>, CliError> {
    crate::experiments::titles(&crate::experiments::library()?, paper, None)
}
