//! The brokers of a Kafka cluster that a door has learned of, each with a port of its own here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::header::Service;
use crate::mutex::lock;

/// Most brokers of a cluster: each costs a listening socket.
const MAX_BROKERS: usize = 1000;

/// Most that is told in a minute: any client can be refused for two reasons in turn, without end.
const MAX_TOLD: u32 = 32;
const MINUTE: Duration = Duration::from_secs(60);

/// Where a port leads: a broker keeps its port when it moves.
pub(crate) type Target = Arc<Mutex<Service>>;

/// A port that is open for a broker, and what accepts its connections.
pub(crate) struct BrokerPort {
    pub(crate) port: u16,
    pub(crate) target: Target,
    pub(crate) task: AbortHandle,
}

/// What was told.
#[derive(Default)]
struct Told {
    last: String,
    /// When a minute began, and how much was told in it.
    since: Option<Instant>,
    count: u32,
}

/// All of a door's.
#[derive(Default)]
pub(crate) struct Brokers {
    by_number: Mutex<BTreeMap<i32, BrokerPort>>,
    told: Mutex<Told>,
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

    /// Whether this is news. Clients try again, and the same reason is told once; of others so many are told in a minute.
    pub(crate) fn is_news(&self, now: Instant, why: &str) -> bool {
        let mut told = lock(&self.told);
        if told.last == why {
            return false;
        }
        if told.since.is_none_or(|since| now.duration_since(since) >= MINUTE) {
            (told.since, told.count) = (Some(now), 0);
        }
        let is_news = told.count < MAX_TOLD;
        if is_news {
            told.count += 1;
            why.clone_into(&mut told.last);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same reason is told once in a row; a client that is refused for others in turn fills no log.
    #[test]
    fn reasons_are_told_within_a_bound() {
        let (brokers, now) = (Brokers::default(), Instant::now());
        let told = |at: Instant| (0..1000).filter(|number| brokers.is_news(at, &(number % 2).to_string())).count();
        assert!(brokers.is_news(now, "a") && !brokers.is_news(now, "a"));
        assert_eq!(told(now), MAX_TOLD as usize - 1);
        assert_eq!(told(now + MINUTE / 2), 0);
        assert_eq!(told(now + MINUTE), MAX_TOLD as usize);
    }
}
