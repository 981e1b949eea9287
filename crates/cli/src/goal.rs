//! `--goal` and `--cost`: what a variant must reach, and what that may cost.

use clap::Args;
use pliant_sim::results::decision::Wish;
use pliant_sim::scenario::Resolved;

use crate::error::CliError;

#[derive(Args)]
pub(crate) struct GoalArguments {
    /// Says what a variant must reach, such as `search.fct_p99 < 20ms`: GROUP.MEASURE, `<` or `>`, and a limit. Measures:
    /// fct_mean, fct_p50, fct_p95, fct_p99, slowdown_mean, slowdown_p50, slowdown_p99, goodput, share_kept, unfinished, drops,
    /// timeouts, retransmissions
    #[arg(long, value_name = "GOAL", requires = "cost")]
    goal: Option<String>,
    /// Of what reaches the goal, chooses the best in this, such as `copies.share_kept`
    #[arg(long, value_name = "GROUP.MEASURE", requires = "goal")]
    cost: Option<String>,
}

impl GoalArguments {
    /// What the user wishes, checked against the groups of a scenario.
    pub(crate) fn wish(&self, scenario: &Resolved) -> Result<Option<Wish>, CliError> {
        let Some((goal, cost)) = self.goal.as_ref().zip(self.cost.as_ref()) else { return Ok(None) };
        let wish = Wish::parse(goal, cost).map_err(CliError::User)?;
        wish.check(scenario.groups.iter().map(|group| group.name.as_str())).map_err(CliError::User)?;
        Ok(Some(wish))
    }
}
