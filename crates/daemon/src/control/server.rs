//! The daemon's end of its control socket.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use super::ledger::KafkaLedger;
use super::message::{Answer, MAX_LINE_BYTES, Request};
use super::status::Status;
use crate::change::{reload, set_class};
use crate::config::{Config, ConfigError};
use crate::local_socket::LocalSocket;
use crate::shared::Shared;

/// Only the owner can connect.
const MODE: u32 = 0o600;
/// Most users of the socket at a time.
const MAX_CLIENTS: usize = 64;

/// A control socket.
pub(crate) struct ControlSocket(LocalSocket);

impl ControlSocket {
    /// Creates the socket.
    pub(crate) fn bind(config: &Config, path: &Path) -> Result<Self, ConfigError> {
        let bound = LocalSocket::bind(path, MODE, "control");
        bound.map(Self).map_err(|error| config.wrong_line(config.control_line, format!("{}: {error}", path.display())))
    }

    /// Answers requests without end.
    pub(crate) async fn serve(self, shared: Arc<Shared>) {
        let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
        let user = rustix::process::geteuid().as_raw();
        loop {
            // It is never closed.
            let Ok(client) = clients.clone().acquire_owned().await else { return };
            match self.0.accept().await {
                // A mode can be changed; who a user is cannot.
                Ok(stream) if stream.peer_cred().is_ok_and(|who| who.uid() == user || who.uid() == 0) => {
                    let shared = shared.clone();
                    tokio::spawn(async move {
                        // Whoever breaks off does not wait for an answer.
                        let _ = serve_client(stream, &shared).await;
                        drop(client);
                    });
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

async fn serve_client(stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        (&mut from).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(());
        }
        let request = serde_json::from_slice::<Request>(&line);
        let ends = matches!(request, Ok(Request::Drain { .. }));
        let done = match request {
            Ok(request) => answer(request, shared).await,
            Err(error) => Err(format!("this is no request: {error}")),
        };
        let mut answer = serde_json::to_vec(&done.map_or_else(Answer::Error, Answer::Ok))?;
        answer.push(b'\n');
        let sent = to.write_all(&answer).await;
        if ends {
            shared.end();
        }
        // The rest of a line that is too long would be no request either.
        if !line.ends_with(b"\n") {
            return Ok(());
        }
        sent?;
    }
}

async fn answer(request: Request, shared: &Arc<Shared>) -> Result<Value, String> {
    match request {
        Request::Status => serde_json::to_value(Status::of(shared)).map_err(|error| error.to_string()),
        Request::Reload => reload(shared).await.map(|()| Value::Null).map_err(|error| error.to_string()),
        Request::Set { class, settings } => set_class(shared, &class, &settings).await.map(|()| Value::Null),
        Request::KafkaLedger { topic } => {
            let ledgers = KafkaLedger::of(shared, &topic)?;
            serde_json::to_value(ledgers).map_err(|error| error.to_string())
        }
        Request::Drain { limit_seconds } => {
            let limit = limit_seconds.map_or_else(|| shared.config().drain, Duration::from_secs);
            Ok(json!({ "cut": shared.drain(limit).await }))
        }
    }
}
