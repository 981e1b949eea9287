//! Scenarios on the command line: a file or a built-in name, and what is laid over it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_sim::scenario::{Override, Resolved, Scenario, nearest};

use crate::error::CliError;
use crate::flags;

/// Scenarios that are part of the program: name and text.
pub(crate) const BUILT_IN: &[(&str, &str)] = &[("demo", include_str!("../../../experiments/demo.toml"))];

/// Arguments that name a scenario.
#[derive(Args)]
pub(crate) struct ScenarioArguments {
    /// A scenario file, or the name of a built-in scenario (`pliant list scenarios`)
    scenario: PathBuf,
    /// Sets a key of the scenario, such as `queues.plan=strict` or `load=0.7`; the last part of a key is enough where
    /// only one key ends so. Relative paths start from the scenario's folder
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Sets the seed
    #[arg(long, value_name = "N", value_parser = flags::whole::<u64>(0..=i64::MAX as u64))]
    seed: Option<u64>,
}

impl ScenarioArguments {
    /// The scenario with `--set` and `--seed` laid over it.
    pub(crate) fn load(&self) -> Result<Scenario, CliError> {
        self.load_from(&self.scenario)
    }

    /// Another scenario with the same laid over it.
    pub(crate) fn load_from(&self, file: &Path) -> Result<Scenario, CliError> {
        let mut changes =
            self.changes.iter().map(|text| Override::parse("--set", text)).collect::<Result<Vec<_>, _>>()?;
        if let Some(seed) = self.seed {
            changes.push(Override::parse("--seed", &format!("seed={seed}"))?);
        }
        Ok(load(file)?.with(&changes)?)
    }
}

/// Resolves a scenario and says on stderr what is odd about it, unless it is `said` already.
pub(crate) fn resolve(scenario: &Scenario, said: &mut BTreeSet<String>) -> Result<Resolved, CliError> {
    let resolved = scenario.resolve()?;
    for warning in &resolved.warnings {
        if said.insert(warning.clone()) {
            eprintln!("warning: {warning}");
        }
    }
    Ok(resolved)
}

/// A scenario file; if there is none, the built-in scenario of that name.
pub(crate) fn load(path: &Path) -> Result<Scenario, CliError> {
    let name = path.to_string_lossy();
    if path.exists() || path.components().count() > 1 || path.extension().is_some() {
        return Ok(Scenario::load(path)?);
    }
    if let Some((name, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        return Ok(Scenario::parse(text, Path::new(&format!("{name}.toml")))?);
    }
    let hint = match nearest(&name, BUILT_IN.iter().map(|(name, _)| *name)) {
        Some(near) => format!(", did you mean `{near}`?"),
        None => String::new(),
    };
    Err(CliError::User(format!("{name}: no such file, and no built-in scenario of that name{hint}")))
}
