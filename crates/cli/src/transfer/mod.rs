//! `pliant send` and `recv`: a file, a directory or a stream between two hosts, over UDP; `offer` and `fetch`: a file from
//! many hosts at once.

mod arguments;
mod done_by;
mod outcome;
mod progress;
mod push;

use pliant_net::transfer::{self, Receiver, Settings, TransferError};
use pliant_sim::one_line::OneLine;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::interrupt;
pub(crate) use arguments::{RecvArgs, SendArgs};
use arguments::{called, further};
use outcome::Outcome;
use progress::TransferProgress;
pub(crate) use push::{FetchArgs, OfferArgs, fetch, offer};

pub(crate) fn send(arguments: &SendArgs) -> Result<ExitStatus, CliError> {
    // Flags first: a large tree is not walked for a flag that is refused.
    let settings = arguments.settings()?;
    let (source, to) = arguments.source()?;
    let to = [to.callable_from(settings.bind)];
    let settings = Settings { called: called(&to), further: further(&to), ..settings };
    let to = to[0].address();
    for path in source.skipped() {
        say!("warning: {} is not sent: neither a file nor a directory nor a link", OneLine(&path.display()));
    }
    let display = TransferProgress::new(&arguments.output);
    let lost = |error: &TransferError| say!("retrying: {}", OneLine(error));
    let sent = transfer::send(source, to, &settings, interrupt::listen(""), |progress| display.show(progress), lost);
    drop(display);
    match sent {
        Err(TransferError::Interrupted) => Ok(ExitStatus::Interrupted),
        sent => {
            let sent = sent?;
            if let Some(why) = outcome::fallback(settings.flow.transport, sent.protocol) {
                say!("{why}");
            }
            if let Some(why) = outcome::unreported(&settings, &sent) {
                say!("{why}");
            }
            Outcome::sent(&arguments.name(), &settings, &sent).print(arguments.output.json)?;
            Ok(ExitStatus::Done)
        }
    }
}

pub(crate) fn recv(arguments: &RecvArgs) -> Result<ExitStatus, CliError> {
    let mut settings = arguments.settings()?;
    let reread = arguments.reread_keys(&mut settings);
    let target = arguments.target()?;
    let receiver = Receiver::bind(arguments.listen, settings.clone())?;
    let interrupt = interrupt::listen_and_on_hangup("", reread);
    if !arguments.output.quiet {
        say!("listening on {}", receiver.address());
    }
    let display = TransferProgress::new(&arguments.output);
    let mut first_failure = None;
    let served = receiver.serve(
        &target,
        arguments.count(),
        interrupt,
        |progress| display.show(progress),
        |received| {
            let printed = match received {
                Ok(received) => Outcome::received(&settings, &received).print(arguments.output.json),
                Err(error) => Err(CliError::from(error)),
            };
            let Err(error) = printed else { return };
            // One of several that failed does not end the others.
            if arguments.count() != Some(1) {
                say!("error: {}", OneLine(&error));
            }
            first_failure.get_or_insert(error);
        },
    );
    drop(display);
    match (served, first_failure) {
        (Err(TransferError::Interrupted), _) => Ok(ExitStatus::Interrupted),
        (Err(error), _) => Err(error.into()),
        (Ok(()), Some(error)) => Err(error),
        (Ok(()), None) => Ok(ExitStatus::Done),
    }
}
