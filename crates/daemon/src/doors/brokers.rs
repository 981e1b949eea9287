//! The brokers of a Kafka cluster that a door has learned of, each with a port of its own here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;

use crate::header::Service;
use crate::mutex::lock;

/// Most brokers of a cluster: each costs a listening socket.
const MAX_BROKERS: usize = 1000;

/// Where a port leads: a broker keeps its port when it moves.
pub(crate) type Target = Arc<Mutex<Service>>;

/// A port that is open for a broker, and what accepts its connections.
pub(crate) struct BrokerPort {
    pub(crate) port: u16,
    pub(crate) target: Target,
    pub(crate) task: AbortHandle,
}

/// All of a door's.
#[derive(Default)]
pub(crate) struct Brokers {
    by_number: Mutex<BTreeMap<i32, BrokerPort>>,
}

impl Brokers {
    /// The port of a broker. If it has none yet, `open` opens one.
    ///
    /// # Errors
    ///
    /// If there is no port for it; the error names the broker.
    pub(crate) fn port(
        &self,
        number: i32,
        service: Service,
        open: impl FnOnce(Target) -> Result<BrokerPort, String>,
    ) -> Result<u16, String> {
        let mut brokers = lock(&self.by_number);
        if let Some(known) = brokers.get(&number) {
            *lock(&known.target) = service;
            return Ok(known.port);
        }
        if brokers.len() == MAX_BROKERS {
            return Err(format!("broker {number} is one more than {MAX_BROKERS}"));
        }
        let opened = open(Arc::new(Mutex::new(service)))?;
        let port = opened.port;
        brokers.insert(number, opened);
        Ok(port)
    }

    /// Whether one of them is reached by this port.
    pub(crate) fn has_port(&self, port: u16) -> bool {
        lock(&self.by_number).values().any(|broker| broker.port == port)
    }

    /// Nobody is let in by their ports any more.
    pub(crate) fn close(&self) {
        for (_, broker) in std::mem::take(&mut *lock(&self.by_number)) {
            broker.task.abort();
        }
    }
}
