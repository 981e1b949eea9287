//! `pliant daemon`: connections of unmodified programs under a contract.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use pliant_daemon::control::{ControlError, Request, default_path, request};
use pliant_daemon::{Config, ConfigError, Daemon, PRELOAD_SOCKET_VARIABLE, ServiceState, notify, use_all_descriptors};
use pliant_net::allocator::{return_free_pages, return_large_blocks};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::counted::counted;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;

/// Between two times at which memory that was freed goes back to the operating system.
const RETURN_EVERY: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  # the first mistake, with its line; nothing is served
  pliant daemon /etc/pliant/daemon.toml --check
  pliant daemon daemon.toml
  # the file as it is now; no connection ends
  pliant daemon reload
  # a class's contract, until the file is read again
  pliant daemon set backup max_rate=200Mbit/s
  # ends with the last connection
  pliant daemon drain

A daemon runs at both ends. docs/daemon.md has a configuration for each and says what every key means. A hangup signal \
has it reload, SIGTERM has it drain; a second SIGTERM, or an interrupt, ends it at once.

Exit codes: 0 the configuration is good (--check), or the daemon was drained, 1 failure of the machine, 2 mistake in \
the command or the file, 130 interrupted.";

/// Carries connections of unmodified programs to another host's daemon, under a contract.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// The configuration
    #[arg(required = true)]
    config: Option<PathBuf>,
    /// Checks the configuration, the key file and that everything can listen, and ends
    #[arg(long)]
    check: bool,
}

/// What a daemon that runs is asked for.
#[derive(Subcommand)]
enum Action {
    /// Has the daemon read its file again; no connection ends by it
    #[command(
        after_help = "Examples:\n  pliant daemon reload\n  pliant daemon reload --control /run/pliant/daemon.sock"
    )]
    Reload(Target),
    /// Has the daemon take no connection any more and end with the last one
    #[command(after_help = "Examples:\n  pliant daemon drain\n  pliant daemon drain --limit 60")]
    Drain {
        /// It ends after so many seconds at the latest; default: as its file says
        #[arg(long, value_name = "SECONDS")]
        limit: Option<u64>,
        #[command(flatten)]
        target: Target,
    },
    /// Sets keys of a class anew, until the file is read again
    #[command(
        after_help = "Examples:\n  pliant daemon set backup max_rate=200Mbit/s\n  pliant daemon set backup max_rate=none"
    )]
    Set {
        /// Name of the class
        class: String,
        /// KEY=VALUE, as in the file; the value `none` takes a key away
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
        settings: Vec<(String, String)>,
        #[command(flatten)]
        target: Target,
    },
}

/// Which daemon.
#[derive(Args)]
pub(crate) struct Target {
    /// Its control socket
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is wanted")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl Target {
    /// Asks it, and waits for its answer.
    pub(crate) fn ask(&self, asked: &Request) -> Result<serde_json::Value, CliError> {
        let path = self.control.clone().or_else(default_path).ok_or_else(|| {
            CliError::User("there is no folder for a control socket here: say --control SOCKET".to_owned())
        })?;
        request(&path, asked).map_err(|error: ControlError| CliError::User(error.to_string()))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    match &arguments.action {
        None => serve(arguments),
        Some(Action::Reload(target)) => target.ask(&Request::Reload).map(|_| ExitStatus::Done),
        Some(Action::Drain { limit, target }) => {
            let answer = target.ask(&Request::Drain { limit_seconds: *limit })?;
            match answer["cut"].as_u64() {
                Some(cut) if cut > 0 => say_cut(cut),
                _ => say!("every connection had ended"),
            }
            Ok(ExitStatus::Done)
        }
        Some(Action::Set { class, settings, target }) => {
            let settings: BTreeMap<String, String> = settings.iter().cloned().collect();
            target.ask(&Request::Set { class: class.clone(), settings }).map(|_| ExitStatus::Done)
        }
    }
}

fn serve(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let user = |error: ConfigError| CliError::User(error.to_string());
    if std::env::var_os(PRELOAD_SOCKET_VARIABLE).is_some() {
        // Its own connections would go round through a daemon.
        return Err(CliError::User(format!(
            "a daemon cannot run under `pliant wrap`: unset {PRELOAD_SOCKET_VARIABLE}"
        )));
    }
    let path = arguments.config.as_ref().expect("it is required without an action");
    let mut config = Config::read(path).map_err(user)?;
    if let Some(path) = default_path() {
        config.set_default_control(path);
    }
    for warning in config.warnings() {
        say!("warning: {warning}");
    }
    if arguments.check {
        config.check_start().map_err(user)?;
        print(&format!("{} is good", path.display()))?;
        return Ok(ExitStatus::Done);
    }
    use_all_descriptors();
    return_large_blocks();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ending = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let daemon = Daemon::start(config).await.map_err(user)?;
        say!("listening on {} for daemons", daemon.address());
        for door in daemon.doors() {
            say!("door on {door}");
        }
        if let Some(preload) = daemon.preload_socket() {
            say!("preload socket {}", preload.display());
        }
        if let Some(control) = daemon.control() {
            say!("control socket {}", control.display());
        }
        tell(ServiceState::Ready);
        tokio::spawn(return_free_memory());
        loop {
            tokio::select! {
                ran = daemon.run() => {
                    return match ran {
                        Ok(()) => Ok(ExitStatus::Done),
                        Err(error) => Err(CliError::Machine(format!("the daemon cannot go on: {error}"))),
                    };
                }
                _ = signals.interrupt.recv() => return Ok(ExitStatus::Interrupted),
                _ = signals.hangup.recv() => match daemon.reload().await {
                    Ok(()) => say!("{} is in force", path.display()),
                    Err(error) => say!("{error}; what was in force stays"),
                },
                _ = signals.terminate.recv() => return Ok(drain(&daemon, &mut signals).await),
            }
        }
    });
    // Connections that are left do not hold the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ending
}

/// Else glibc keeps pages between blocks that stay.
async fn return_free_memory() {
    let mut due = tokio::time::interval(RETURN_EVERY);
    loop {
        due.tick().await;
        // It waits for locks.
        let _ = tokio::task::spawn_blocking(return_free_pages).await;
    }
}

fn say_cut(cut: u64) {
    say!("{} {} cut", counted(cut, "connection"), if cut == 1 { "was" } else { "were" });
}

/// Tells the service manager. A daemon serves without one too.
fn tell(state: ServiceState) {
    if let Err(error) = notify(state) {
        say!("warning: the service manager is not told: {error}");
    }
}

/// Waits for the last connection, but no longer than the file says, or another signal to end.
async fn drain(daemon: &Daemon, signals: &mut Signals) -> ExitStatus {
    let limit = daemon.drain_limit();
    tell(ServiceState::Stopping);
    say!("draining for {} s at most", limit.as_secs_f64());
    tokio::select! {
        cut = daemon.drain(limit) => {
            if cut > 0 {
                say_cut(cut as u64);
            }
            ExitStatus::Done
        }
        _ = signals.terminate.recv() => ExitStatus::Interrupted,
        _ = signals.interrupt.recv() => ExitStatus::Interrupted,
    }
}

/// The signals that a daemon hears.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}
