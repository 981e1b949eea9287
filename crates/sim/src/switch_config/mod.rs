//! A port's queues in the words of real switches and hosts, and back.
//!
//! | form | what it is for |
//! |---|---|
//! | [`Form::Sonic`] | tables of a SONiC switch's `config_db.json` |
//! | [`Form::Tc`] | a script for Linux with `ets` and `red` queueing disciplines |
//! | [`Form::Htb`] | a script for Linux with `htb` and `bfifo` alone |
//! | [`Form::Json`] | everything, for programs |
//!
//! What a form has no words for is [named](Exported::not_expressed), never left out silently.

mod form;
mod import;
mod json;
mod port;
mod sonic;
mod tc;

pub use form::{Exported, Form};
pub use import::{ImportError, from_sonic};
pub use port::Port;

/// A port's queues in the words of `form`. The error says what no part of it can be expressed without.
pub fn export(port: &Port<'_>, form: Form) -> Result<Exported, String> {
    match form {
        Form::Sonic => sonic::export(port),
        Form::Tc => tc::export(port, tc::RootDiscipline::Ets),
        Form::Htb => tc::export(port, tc::RootDiscipline::Htb),
        Form::Json => Ok(json::export(port)),
    }
}

#[cfg(test)]
mod tests;
