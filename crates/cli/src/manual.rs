//! `pliant man` and `pliant completions`: what packages install beside the program, from the definitions of its flags.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::Shell;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;

const MAN_EXAMPLES: &str = "\
Examples:
  # the page of the program itself
  pliant man > pliant.1
  # a page for it and for each of its commands into the folder man1
  pliant man man1";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  pliant completions bash > ~/.local/share/bash-completion/completions/pliant
  pliant completions zsh > ~/.zfunc/_pliant
  pliant completions fish > ~/.config/fish/completions/pliant.fish";

/// Prints the manual page of the program, or writes those of all its commands into a folder.
#[derive(Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// The folder, which is made if it is not there. Default: one page on stdout
    folder: Option<PathBuf>,
}

/// Prints what a shell needs to complete commands and flags.
#[derive(Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn man(arguments: &ManArgs, mut command: clap::Command) -> Result<ExitStatus, CliError> {
    command.build();
    let Some(folder) = &arguments.folder else {
        let page = page(&command).expect("memory takes what is written");
        print(&String::from_utf8_lossy(&page))?;
        return Ok(ExitStatus::Done);
    };
    let written = fs::create_dir_all(folder).and_then(|()| write_pages(&command, folder));
    let count = written.map_err(|error| CliError::User(format!("{}: {error}", folder.display())))?;
    print(&format!("{count} pages written to {}", folder.display()))?;
    Ok(ExitStatus::Done)
}

/// Writes the page of a command and of those below it. How many that are.
fn write_pages(command: &clap::Command, folder: &Path) -> io::Result<usize> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below.map(|below| write_pages(below, folder)).sum::<io::Result<usize>>().map(|count| count + 1)
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

pub(crate) fn completions(arguments: &CompletionsArgs, mut command: clap::Command) -> Result<ExitStatus, CliError> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Done)
}
