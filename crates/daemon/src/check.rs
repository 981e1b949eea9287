//! Checks of the configuration that need this machine.

use std::net::{TcpListener, UdpSocket};

use crate::config::{Config, ConfigError, Door, LedgerFile, Listen, Preload};
use crate::control::{Request, Status, request};
use crate::local_socket::LocalSocket;
use crate::lossy::journal::Ledgers;

impl Config {
    /// Refuses listeners and a ledger that cannot be opened, except those that the daemon at its control socket already has.
    /// It leaves nothing behind.
    ///
    /// # Errors
    ///
    /// If something cannot listen where the file says, or the ledger cannot be kept there, with the line.
    pub fn check_start(&self) -> Result<(), ConfigError> {
        let running = self.control.as_deref().and_then(|control| request(control, &Request::Status).ok());
        let running: Option<Status> = running.and_then(|status| serde_json::from_value(status).ok());
        let has = |listen: &Listen, found: &str| listen.address.port() != 0 && found == listen.address.to_string();
        if !running.as_ref().is_some_and(|status| has(&self.listen, &status.listen)) {
            let bound = UdpSocket::bind(self.listen.address);
            bound.map_err(|error| self.cannot_listen(&self.listen, &error))?;
        }
        if let Some(objects) = &self.objects {
            let offering = running.as_ref().and_then(|status| status.objects.as_ref());
            if !offering.is_some_and(|running| has(&objects.listen, &running.listen)) {
                let bound = UdpSocket::bind(objects.listen.address);
                bound.map_err(|error| self.cannot_listen(&objects.listen, &error))?;
            }
        }
        for Door { listen, .. } in &self.doors {
            if !running.iter().flat_map(|status| &status.doors).any(|door| has(listen, &door.listen)) {
                TcpListener::bind(listen.address).map_err(|error| self.cannot_listen(listen, &error))?;
            }
        }
        if let Some(Preload { socket, line, .. }) = &self.preload {
            let name = socket.display().to_string();
            let own = running.iter().flat_map(|status| &status.doors).any(|door| door.listen == name);
            if !own && let Err(error) = LocalSocket::check(socket, "preload.socket") {
                return Err(self.wrong_line(*line, format!("{name}: {error}")));
            }
        }
        if let Some(LedgerFile { path, line }) = &self.kafka_ledger {
            let name = path.display().to_string();
            let own = running.as_ref().and_then(|status| status.kafka_ledger.as_ref()) == Some(&name);
            if !own && let Err(error) = Ledgers::check(path) {
                return Err(self.wrong_line(*line, format!("{name}: {error}")));
            }
        }
        Ok(())
    }
}
