//! `pliant wrap`: a program whose connections go through the daemon.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use pliant_daemon::control::{Request, Status};

use crate::daemon::Target;
use crate::error::CliError;
use crate::exit_status::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  pliant wrap --class backup -- curl -O https://mirror.example/image.iso
  pliant wrap --class backup -- git clone https://git.example/project.git
  pliant wrap -- pip download numpy                    the class of the proxy's route

The daemon of this host needs a table `proxy`. The command gets the variables that curl, git, pip, wget, apt, Go's and Python's
libraries and many others take a proxy from: all_proxy, http_proxy and https_proxy, in both spellings, and no_proxy, which is
empty. A program that reads none of them connects as without this command. The exit code is the command's.";

/// Runs a command whose connections go through this host's daemon, in a class.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Class of its connections [default: that of the proxy's route]
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    #[command(flatten)]
    target: Target,
    /// The command, and what it takes
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let answer = arguments.target.ask(&Request::Status)?;
    let status: Status = serde_json::from_value(answer)
        .map_err(|error| CliError::User(format!("the daemon is of another version: {error}")))?;
    let proxy = status.doors.iter().find(|door| door.kind == "proxy").ok_or_else(|| {
        CliError::User(format!("{}: the daemon has no table `proxy`, which programs need", status.configuration))
    })?;
    let known = |name: &String| status.classes.iter().any(|class| &class.name == name);
    if let Some(class) = arguments.class.as_ref().filter(|name| !known(name)) {
        let names: Vec<&str> = status.classes.iter().map(|class| class.name.as_str()).collect();
        return Err(CliError::User(format!("--class {class}: the daemon's classes are {}", names.join(", "))));
    }
    // A door on all addresses is reached here.
    let address = proxy.listen.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:");
    let at = arguments.class.as_ref().map_or_else(|| address.clone(), |class| format!("{class}:@{address}"));
    let Some((program, rest)) = arguments.command.split_first() else { return Ok(ExitStatus::Done) };
    let mut command = Command::new(program);
    command.args(rest);
    for (name, value) in [
        ("all_proxy", format!("socks5h://{at}")),
        ("http_proxy", format!("http://{at}")),
        ("https_proxy", format!("http://{at}")),
        ("no_proxy", String::new()),
    ] {
        command.env(name, &value).env(name.to_uppercase(), &value);
    }
    // It takes this process's place: signals and the exit code are its own.
    let error = command.exec();
    Err(CliError::User(format!("{}: {error}", program.display())))
}
