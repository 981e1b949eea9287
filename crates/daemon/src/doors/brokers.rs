//! The brokers of a Kafka cluster that a door has learned of, each with a port of its own here.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::TcpSocket;
use tokio::task::AbortHandle;

use crate::header::Service;
use crate::mutex::lock;

/// Most brokers without ports that a line names.
const NAMED: usize = 8;
/// Most of them that are remembered, so that none is told of twice. A cluster may invent numbers without end.
const MAX_TOLD: usize = 1000;

/// Where a port leads: a broker keeps its port when it moves.
pub(crate) type Target = Arc<Mutex<Service>>;

/// A port that is open for a broker, and what accepts its connections.
pub(crate) struct BrokerPort {
    pub(crate) port: u16,
    pub(crate) target: Target,
    pub(crate) task: AbortHandle,
}

/// Where clients find the brokers that have no port of their own: a port that refuses connections. Their addresses must not
/// pass, and a response without them would be another one.
pub(crate) struct RefusingPort {
    port: u16,
    /// It does not listen, and keeps the port from others.
    _socket: TcpSocket,
}

impl RefusingPort {
    pub(crate) fn bind(ip: IpAddr) -> io::Result<Self> {
        let socket = tcp_socket(ip)?;
        socket.bind(SocketAddr::new(ip, 0))?;
        Ok(Self { port: socket.local_addr()?.port(), _socket: socket })
    }
}

pub(crate) fn tcp_socket(ip: IpAddr) -> io::Result<TcpSocket> {
    if ip.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }
}

/// All of a door's.
#[derive(Default)]
pub(crate) struct Brokers {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_number: BTreeMap<i32, BrokerPort>,
    refusing: Option<RefusingPort>,
    /// Brokers without ports.
    refused: BTreeSet<i32>,
    /// Those of them that are not told of yet.
    untold: Vec<(i32, String)>,
}

impl Brokers {
    /// The port of a broker. If it has none yet, `open` opens one, unless `most` brokers have ports: the others share one that
    /// `refuse` opens.
    ///
    /// # Errors
    ///
    /// If there is no port for it; the error names the broker.
    pub(crate) fn port(
        &self,
        number: i32,
        service: Service,
        most: usize,
        open: impl FnOnce(Target) -> Result<BrokerPort, String>,
        refuse: impl FnOnce() -> Result<RefusingPort, String>,
    ) -> Result<u16, String> {
        let mut known = lock(&self.known);
        if let Some(broker) = known.by_number.get(&number) {
            *lock(&broker.target) = service;
            return Ok(broker.port);
        }
        if known.by_number.len() >= most {
            return known.refuse(number, &service, refuse);
        }
        let opened = open(Arc::new(Mutex::new(service)))?;
        let port = opened.port;
        known.by_number.insert(number, opened);
        Ok(port)
    }

    /// Those that have no ports, by name, if there are some that nobody was told of.
    pub(crate) fn take_refused(&self) -> Option<String> {
        let untold = std::mem::take(&mut lock(&self.known).untold);
        let named: Vec<String> = untold.iter().take(NAMED).map(|(number, at)| format!("{number} (`{at}`)")).collect();
        let more = match untold.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!named.is_empty()).then(|| format!("no port for broker {}{more}", named.join(", ")))
    }

    /// Whether one of them is reached by this port.
    pub(crate) fn has_port(&self, port: u16) -> bool {
        lock(&self.known).by_number.values().any(|broker| broker.port == port)
    }

    /// Nobody is let in by their ports any more.
    pub(crate) fn close(&self) {
        for broker in std::mem::take(&mut *lock(&self.known)).by_number.into_values() {
            broker.task.abort();
        }
    }
}

impl Known {
    /// The port of brokers that have none of their own.
    fn refuse(
        &mut self,
        number: i32,
        service: &Service,
        open: impl FnOnce() -> Result<RefusingPort, String>,
    ) -> Result<u16, String> {
        let port = match &self.refusing {
            Some(refusing) => refusing.port,
            None => self.refusing.insert(open()?).port,
        };
        if self.refused.len() < MAX_TOLD && self.refused.insert(number) {
            self.untold.push((number, service.text()));
        }
        Ok(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Brokers without ports are told of once, by name, in a line for all of a response. How many are remembered is bounded.
    #[tokio::test]
    async fn refused_brokers_are_told_of_once() {
        let brokers = Brokers::default();
        let place = |numbers: std::ops::Range<i32>| {
            let port = |number: i32| {
                let service = Service::parse(&format!("b{number}.example:9092")).unwrap();
                let open = |target| {
                    let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
                    Ok(BrokerPort { port: number as u16, target, task })
                };
                let refuse = || Ok(RefusingPort::bind(std::net::Ipv4Addr::LOCALHOST.into()).unwrap());
                brokers.port(number, service, 100, open, refuse).unwrap()
            };
            (numbers.map(port).collect::<Vec<u16>>(), brokers.take_refused())
        };
        let own: Vec<u16> = (100..200).collect();
        assert_eq!(place(100..200), (own.clone(), None));
        let (refusing, line) = place(200..201);
        assert_eq!(line.as_deref(), Some("no port for broker 200 (`b200.example:9092`)"));
        let line = "no port for broker 201 (`b201.example:9092`), 202 (`b202.example:9092`)";
        assert_eq!(place(200..203), (refusing.repeat(3), Some(line.to_owned())));
        assert_eq!(place(100..203), ([own, refusing.repeat(3)].concat(), None));
        let (_, line) = place(100..100_000);
        assert!(line.as_ref().is_some_and(|line| line.ends_with(" and 989 more")), "{line:?}");
        assert_eq!(place(100..100_000).1, None);
    }
}
