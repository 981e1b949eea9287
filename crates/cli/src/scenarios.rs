//! Scenarios on the command line: a file or a built-in name, and what is laid over it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_sim::one_line::OneLine;
use pliant_sim::scenario::{Override, Resolved, Scenario};
use pliant_sim::suggest::{nearest, unknown};

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

/// Which of the scenario's variants is meant.
#[derive(Args)]
pub(crate) struct VariantArgument {
    /// Takes a variant that the scenario names; --set and --seed are laid over it
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
}

impl VariantArgument {
    /// The name of the chosen variant; empty if none was chosen.
    pub(crate) fn name(&self) -> &str {
        self.variant.as_deref().unwrap_or_default()
    }

    /// Says on stderr that there are variants, if none was chosen.
    pub(crate) fn say_there_are(&self, scenario: &Scenario) -> Result<(), CliError> {
        let variants = scenario.variants()?;
        if self.variant.is_none() && !variants.is_empty() {
            let names: Vec<String> = variants.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            say!("variants are for `pliant compare`, or one of them with --variant: {}", names.join(", "));
        }
        Ok(())
    }
}

impl ScenarioArguments {
    /// The scenario with `--set` and `--seed` laid over it.
    pub(crate) fn load(&self) -> Result<Scenario, CliError> {
        self.load_from(&self.scenario)
    }

    /// The same, over one of its variants if one is chosen.
    pub(crate) fn load_variant(&self, chosen: &VariantArgument) -> Result<Scenario, CliError> {
        let Some(name) = &chosen.variant else { return self.load() };
        let scenario = load(&self.scenario)?;
        let variants = scenario.variants()?;
        let Some((_, overrides)) = variants.iter().find(|(variant, _)| variant == name) else {
            let names: Vec<String> = variants.into_iter().map(|(name, _)| name).collect();
            let none = if names.is_empty() { ": the scenario names none" } else { "" };
            return Err(CliError::User(format!("--variant: {}{none}", unknown("variant", name, &names))));
        };
        Ok(scenario.with(overrides)?.with(&self.changes()?)?)
    }

    /// Refuses a mistake in a variant that is not chosen: whoever names none means the file, and all that is in it.
    ///
    /// What is laid over the file need not suit every variant, and a file may need it: a variant may stand with it or without.
    pub(crate) fn check_variants(&self, chosen: &VariantArgument) -> Result<(), CliError> {
        if chosen.variant.is_some() {
            return Ok(());
        }
        let (scenario, changes) = (load(&self.scenario)?, self.changes()?);
        for (_, overrides) in scenario.variants()? {
            let stands = |changes: &[Override]| scenario.with(&overrides)?.with(changes)?.resolve();
            if let Err(error) = stands(&[])
                && (changes.is_empty() || stands(&changes).is_err())
            {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Another scenario with the same laid over it.
    pub(crate) fn load_from(&self, file: &Path) -> Result<Scenario, CliError> {
        Ok(load(file)?.with(&self.changes()?)?)
    }

    fn changes(&self) -> Result<Vec<Override>, CliError> {
        let mut changes =
            self.changes.iter().map(|text| Override::parse("--set", text)).collect::<Result<Vec<_>, _>>()?;
        if let Some(seed) = self.seed {
            changes.push(Override::parse("--seed", &format!("seed={seed}"))?);
        }
        Ok(changes)
    }
}

/// Resolves a scenario and says on stderr what is odd about it, unless it is `said` already.
pub(crate) fn resolve(scenario: &Scenario, said: &mut BTreeSet<String>) -> Result<Resolved, CliError> {
    let resolved = scenario.resolve()?;
    say_warnings(&resolved, said);
    Ok(resolved)
}

/// Says on stderr what is odd about a scenario, unless it is `said` already.
pub(crate) fn say_warnings(scenario: &Resolved, said: &mut BTreeSet<String>) {
    for warning in &scenario.warnings {
        if said.insert(warning.clone()) {
            say!("warning: {}", OneLine(warning));
        }
    }
}

/// A scenario file; if there is none, the built-in scenario of that name.
pub fn load(path: &Path) -> Result<Scenario, CliError> {
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
