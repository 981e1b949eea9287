//! `pliant wrap`: a program whose connections go through the daemon.

use std::env::current_exe;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use pliant_daemon::control::{DoorStatusKind, PreloadRuleStatus, Request, Status};
use pliant_daemon::program::Program;
use pliant_daemon::{PRELOAD_CLASS_VARIABLE, PRELOAD_RULES_VARIABLE, PRELOAD_SOCKET_VARIABLE};

use crate::daemon::Target;
use crate::error::CliError;
use crate::exit_status::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  pliant wrap --class backup -- curl -O https://mirror.example/image.iso
  # by the preload library: it reads no proxy
  pliant wrap --class backup -- redis-cli -h 10.1.0.7
  # the class of the proxy's route
  pliant wrap -- pip download numpy

With a table `proxy` of this host's daemon the command gets the variables that curl, git, pip, wget, apt, Go's and \
Python's libraries and many others take a proxy from: all_proxy, http_proxy and https_proxy, in both spellings, and \
no_proxy, which is empty. With a table `preload` a library is loaded before the command (LD_PRELOAD): what it connects \
to goes through the daemon where a rule of the class says so, and as without this command elsewhere. Static, Go and \
setuid programs load no library; that is said. The exit code is the command's.";

/// The file of the library.
const LIBRARY: &str = "libpliant_preload.so";

/// Runs a command whose connections go through this host's daemon, in a class.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Class of its connections [default: that of the proxy's route, or of the preload library's rule]
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// The preload library [default: beside this program, or in ../lib/pliant]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
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
    let known = |name: &String| status.classes.iter().any(|class| &class.name == name);
    if let Some(class) = arguments.class.as_ref().filter(|name| !known(name)) {
        let names: Vec<&str> = status.classes.iter().map(|class| class.name.as_str()).collect();
        return Err(CliError::User(format!("--class {class}: the daemon's classes are {}", names.join(", "))));
    }
    let Some((program, rest)) = arguments.command.split_first() else { return Ok(ExitStatus::Done) };
    let mut command = Command::new(program);
    command.args(rest);
    let by_proxy = set_proxy(&mut command, &status, arguments.class.as_deref());
    let by_preload = set_preload(&mut command, &status, arguments, program, by_proxy)?;
    if !by_proxy && !by_preload {
        let why =
            format!("{}: the daemon has no table `proxy` or `preload`, which programs need", status.configuration);
        return Err(CliError::User(why));
    }
    // It takes this process's place: signals and the exit code are its own.
    let error = command.exec();
    Err(CliError::User(format!("{}: {error}", program.display())))
}

/// Names the daemon's proxy, if it has one.
fn set_proxy(command: &mut Command, status: &Status, class: Option<&str>) -> bool {
    let Some(proxy) = status.doors.iter().find(|door| door.kind == DoorStatusKind::Proxy) else { return false };
    // A door on all addresses is reached here.
    let address = proxy.listen.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:");
    let at = class.map_or_else(|| address.clone(), |class| format!("{class}:@{address}"));
    for (name, value) in [
        ("all_proxy", format!("socks5h://{at}")),
        ("http_proxy", format!("http://{at}")),
        ("https_proxy", format!("http://{at}")),
        ("no_proxy", String::new()),
    ] {
        command.env(name, &value).env(name.to_uppercase(), &value);
    }
    true
}

/// Loads the library before the command, if the daemon has a door for it and the class has rules. A program that would not
/// load it is told of, and runs by the proxy alone.
fn set_preload(
    command: &mut Command,
    status: &Status,
    arguments: &Arguments,
    program: &OsStr,
    by_proxy: bool,
) -> Result<bool, CliError> {
    let of_door = status.doors.iter().find_map(|door| match &door.kind {
        DoorStatusKind::Preload { rules } => Some((&door.listen, rules)),
        _ => None,
    });
    let Some((socket, rules)) = of_door else { return Ok(false) };
    let of_class = |rule: &&PreloadRuleStatus| arguments.class.as_ref().is_none_or(|class| *class == rule.class);
    let rules: Vec<&str> = rules.iter().filter(of_class).map(|rule| rule.service.as_str()).collect();
    if rules.is_empty() {
        return Ok(false);
    }
    let examined =
        Program::examine(program).map_err(|error| CliError::User(format!("{}: {error}", program.display())))?;
    if let Some(obstacle) = examined.obstacle {
        let why = format!("{} does not load the preload library: {}", examined.file.display(), obstacle.why());
        if !by_proxy {
            return Err(CliError::User(format!("{why}; a table `proxy` or `forward` of the daemon serves it")));
        }
        say!("warning: {why}; only what it connects to by a proxy goes through the daemon");
        return Ok(false);
    }
    let library = match &arguments.library {
        Some(file) => file.canonicalize().map_err(|error| CliError::User(format!("{}: {error}", file.display())))?,
        None => installed().ok_or_else(|| {
            CliError::User(format!(
                "there is no {LIBRARY} beside this program or in ../lib/pliant: --library names one"
            ))
        })?,
    };
    let mut preload = OsString::from(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let absolute = std::path::absolute(socket).map_err(CliError::from)?;
    command.env("LD_PRELOAD", preload).env(PRELOAD_SOCKET_VARIABLE, absolute);
    command.env(PRELOAD_RULES_VARIABLE, rules.join(" "));
    command.env(PRELOAD_CLASS_VARIABLE, arguments.class.as_deref().unwrap_or_default());
    Ok(true)
}

/// The library where `make install` or a build puts it.
fn installed() -> Option<PathBuf> {
    let folder = current_exe().ok()?.canonicalize().ok()?.parent()?.to_owned();
    [folder.join("../lib/pliant"), folder].into_iter().map(|folder| folder.join(LIBRARY)).find(|file| file.is_file())
}
