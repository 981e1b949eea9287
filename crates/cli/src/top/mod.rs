//! `pliant top`: how a daemon stands, on a terminal, again and again.

mod view;

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use clap::Args;
use pliant_daemon::control::{Request, Status};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};

use self::view::View;
use crate::daemon::Target;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;

const EXAMPLES: &str = "\
Examples:
  pliant top
  pliant top --interval 5 --control /run/pliant/daemon.sock
  pliant top --once --width 120  one screen as text, for scripts

Keys: q, Escape or Ctrl-C ends; s sorts bundles by another column; up and down, or k and j, go through them; p stops \
the screen, and goes on.

Rates are those of the last second. A class's floor is what its contract promises: a share of a fair rate, or a rate. \
A bundle's floor is that as a rate, where the transport estimates what is fair (bounded). It is missed if data waited \
and less than nine tenths of it were sent, and kept otherwise. Marks, and packets sent again, tell how crowded the way \
is.";

/// Shows how this host's daemon stands, again and again: classes, peers, bundles and their rates, doors.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// One screen as text
    #[arg(long)]
    once: bool,
    /// Columns of that text
    #[arg(long, value_name = "COLUMNS", default_value_t = 100, requires = "once", value_parser = clap::value_parser!(u16).range(40..=500))]
    width: u16,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let mut view = View::new(status(arguments)?);
    if arguments.once {
        print(&view.text(arguments.width))?;
        return Ok(ExitStatus::Done);
    }
    if !stdout().is_terminal() {
        return Err(CliError::User("top: this is no terminal: --once writes one screen as text".to_owned()));
    }
    // It puts the terminal back as it was, after a panic too.
    let mut terminal = ratatui::try_init()?;
    let ending = show(arguments, &mut view, &mut terminal);
    ratatui::restore();
    ending.map(|()| ExitStatus::Done)
}

fn status(arguments: &Arguments) -> Result<Status, CliError> {
    let answer = arguments.target.ask(&Request::Status)?;
    serde_json::from_value(answer).map_err(|error| CliError::User(format!("the daemon is of another version: {error}")))
}

/// Until a key ends it, or the daemon is gone.
#[allow(clippy::disallowed_methods, reason = "it looks at the daemon again after a time of the user's")]
fn show(arguments: &Arguments, view: &mut View, terminal: &mut ratatui::DefaultTerminal) -> Result<(), CliError> {
    let interval = Duration::from_secs(arguments.interval);
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| view.draw(frame.area(), frame.buffer_mut()))?;
        if poll(next.saturating_duration_since(Instant::now()))? {
            match read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release && pressed(view, key) => return Ok(()),
                _ => {}
            }
        } else {
            next = Instant::now() + interval;
            if !view.stopped {
                view.status = status(arguments)?;
            }
        }
    }
}

/// Does what a key says; whether it ends.
fn pressed(view: &mut View, key: KeyEvent) -> bool {
    match (key.code, key.modifiers) {
        (KeyCode::Char('q') | KeyCode::Esc, _) | (KeyCode::Char('c'), KeyModifiers::CONTROL) => return true,
        (KeyCode::Char('s'), _) => view.order = view.order.next(),
        (KeyCode::Char('p'), _) => view.stopped = !view.stopped,
        (KeyCode::Down | KeyCode::Char('j'), _) => view.skip(1),
        (KeyCode::Up | KeyCode::Char('k'), _) => view.skip(-1),
        _ => {}
    }
    false
}
