//! Checks of the configuration that need this machine.

use std::net::{TcpListener, UdpSocket};

use crate::config::{Config, ConfigError, Door, LedgerFile, Listen, Preload};
use crate::control::{Request, Status, request};
use crate::local_socket::LocalSocket;
use crate::lossy::journal::Ledgers;

impl Config {
    /// Refuses sockets, listeners and a ledger that cannot be opened, except those that the daemon at its control socket already has.
    /// It leaves nothing behind.
    ///
    /// # Errors
    ///
    /// If something cannot listen where the file says, or the ledger cannot be kept there, with the line.
    pub fn check_start(&self) -> Result<(), ConfigError> {
        let running = self.control.as_deref().and_then(|control| request(control, &Request::Status).ok());
        let running: Option<Status> = running.and_then(|status| serde_json::from_value(status).ok());
        // The daemon that answers at the control socket has it.
        if let (Some(control), None) = (&self.control, &running)
            && let Err(error) = LocalSocket::check(control, "control")
        {
            return Err(self.wrong_line(self.control_line, format!("{}: {error}", control.display())));
        }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A control socket that cannot be made is refused with its line, and nothing is left of the attempt.
    #[test]
    fn control_sockets_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, format!("preshared {}", "07".repeat(32))).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        let count = || std::fs::read_dir(folder.path()).unwrap().count();
        let check = |control: &str| {
            let text = format!("listen = \"127.0.0.1:0\"\nkey = \"key\"\ncontrol = \"{control}\"\n");
            let config = Config::parse(&text, &folder.path().join("pliant.toml")).unwrap();
            config.check_start().map_err(|error| error.to_string())
        };
        for (control, why) in [
            ("key", "a file that is no socket is in the way"),
            ("folder", "a file that is no socket is in the way"),
            ("key/control.sock", "no socket can be made in "),
            ("/proc/none/control.sock", "no socket can be made in /proc: "),
            (&*format!("/tmp/{}", "s".repeat(94)), "at most 98 bytes, and this one has 99"),
        ] {
            let error = check(control).unwrap_err();
            assert!(error.contains("pliant.toml:3: ") && error.contains(why), "{error}");
        }
        for control in ["control.sock", "folder/new/control.sock"] {
            check(control).unwrap();
        }
        assert_eq!(count(), 2);
        assert_eq!(std::fs::read_dir(folder.path().join("folder")).unwrap().count(), 0);
    }
}
