//! Settings of a transfer, and the driver that follows from them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use pliant_proto::contract::Contract;
use pliant_proto::contract::schedule::DaySchedule;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyTransport, Member};

use super::error::TransferError;
use crate::clock::Clock;
use crate::connection::{Config, Endpoint, KeyUpdates, Keys, SEALED_HEADER_BYTES, Security, TAG_BYTES};
use crate::driver::{Application, Driver};
use crate::entropy;
use crate::flow::{FlowError, FlowSettings, Path};
use crate::socket::Socket;

/// Most transfers at a time, and with one peer. Each holds its receive buffer and a little more.
const MAX_CONNECTIONS: usize = 256;
const MAX_PER_PEER: usize = 64;

/// How much a receiver accepts from one sender at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a content, and of the files of a directory together. Default 1 TiB.
    pub max_bytes: u64,
    /// Files and folders of a directory. Default 1,000,000.
    pub max_files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 1 << 40, max_files: 1_000_000 }
    }
}

/// Where a running transfer gets another contract.
#[derive(Debug)]
pub struct ContractUpdates {
    flow: FlowSettings,
    wanted: Mutex<Option<Contract>>,
}

impl ContractUpdates {
    /// For transfers with the settings `flow`.
    pub fn new(flow: FlowSettings) -> Self {
        Self { flow, wanted: Mutex::new(None) }
    }

    /// Gives the transfer `contract` from now on. A `done_by` counts from now.
    ///
    /// # Errors
    ///
    /// If the transport does not honour it, or if a bound cannot change while a flow runs.
    pub fn put(&self, contract: Contract) -> Result<(), FlowError> {
        self.flow.changed_to(contract)?;
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(contract);
        Ok(())
    }
}

/// Settings of a transfer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the flow is carried.
    pub flow: FlowSettings,
    /// Keys; plain transfers are for loopback and testbeds. Default: plain.
    pub keys: Keys,
    /// The name in the key file of the peer at an address. Without an entry it is the only peer of the key file.
    pub called: Vec<(SocketAddr, String)>,
    /// Further addresses of a peer, beside its first. One that does not answer is called at the next. Default: none.
    pub further: Vec<(SocketAddr, Vec<SocketAddr>)>,
    /// Keys that a running receiver or source takes. Default: none.
    pub key_updates: Option<Arc<KeyUpdates>>,
    /// Another contract for a running sender, with a `done_by` that counts from then. Default: none.
    pub contract_updates: Option<Arc<ContractUpdates>>,
    /// Greatest rates and least shares of what this side sends by time of day. Default: the contract's, always.
    pub schedule: DaySchedule,
    /// Allows plain transfers beyond loopback. Default false.
    pub testbed: bool,
    /// Least fraction of a content that a receiver accepts, if its sender promises no more. Default 1: only whole
    /// contents.
    pub min_delivery: f64,
    /// The limits above which a receiver refuses.
    pub limits: Limits,
    /// Whether a receiver replaces existing files whose names the sender has chosen. Default false.
    pub overwrite: bool,
    /// Where a sender or a fetching receiver binds its socket. Default: any free port.
    pub bind: Option<SocketAddr>,
    /// Uses segmentation offload. Default true.
    pub offload: bool,
    /// How long a sender waits for an answer to its request. Default 10 s.
    pub connect_timeout: Span,
    /// How long a sender calls a restarted receiver, to which it then sends everything again. Default 60 s.
    pub retry_for: Span,
    /// Silence after which the peer counts as gone. Default 30 s.
    pub idle_timeout: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flow: FlowSettings::default(),
            keys: Keys::Plain,
            called: Vec::new(),
            further: Vec::new(),
            key_updates: None,
            contract_updates: None,
            schedule: DaySchedule::default(),
            testbed: false,
            min_delivery: 1.0,
            limits: Limits::default(),
            overwrite: false,
            bind: None,
            offload: true,
            connect_timeout: Span::from_secs(10),
            retry_for: Span::from_secs(60),
            idle_timeout: Span::from_secs(30),
        }
    }
}

impl Settings {
    /// Refuses settings that cannot work with, or at, `address`.
    pub fn check(&self, address: SocketAddr) -> Result<(), TransferError> {
        if self.keys == Keys::Plain && !self.testbed {
            require_loopback(address)?;
        }
        self.flow.check().and_then(|()| self.flow.check_live_schedule(&self.schedule)).map_err(TransferError::Flow)
    }

    /// Where else a peer may be called, of those addresses that may be called at all.
    pub(super) fn further_of(&self, first: SocketAddr) -> Vec<SocketAddr> {
        let further = self.further.iter().filter(|(of, _)| *of == first).flat_map(|(_, further)| further);
        further.copied().filter(|address| *address != first && self.check(*address).is_ok()).collect()
    }

    /// A driver on a socket bound to `address`.
    pub(crate) fn driver<T: Member, A: Application>(
        &self,
        address: SocketAddr,
        accepts: bool,
    ) -> io::Result<(Driver<T, A>, usize)> {
        let socket = Socket::bind(address)?;
        let socket = if self.offload { socket } else { socket.without_offload() };
        let buffer = socket.receive_buffer_bytes();
        let clock = Clock::start();
        let config = Config {
            host: entropy::host(socket.local_address()?),
            unix_ns: clock.unix_ns(),
            keys: self.keys.clone(),
            called: self.called.clone(),
            accepts,
            connect_timeout: self.connect_timeout,
            idle_timeout: self.idle_timeout,
            max_connections: MAX_CONNECTIONS,
            max_per_peer: MAX_PER_PEER,
            ..Config::default()
        };
        // Timers at the scheduler's default slack of 50 us would make pacing coarse; without the right it stays so.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut driver = Driver::new(socket, Endpoint::new(config, entropy::seed()?), clock);
        if self.flow.contract.max_rate.is_some() && !self.flow.reads_delays() {
            driver.be_patient();
        }
        if let Some((interval, line)) = self.flow.host_reports.zip(self.flow.line_rate) {
            driver.report_host(line, interval)?;
        }
        Ok((driver, buffer))
    }

    /// A driver that can call `peer`.
    pub(super) fn driver_to<A: Application>(&self, peer: SocketAddr) -> Result<Driver<AnyTransport, A>, TransferError> {
        let address = self.bind.unwrap_or_else(|| local_to(peer));
        if address.is_ipv4() != peer.is_ipv4() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, format!("from here {peer} cannot be called"));
            return Err(TransferError::Socket { address, error });
        }
        let driver = self.driver(address, false).map_err(|error| TransferError::Socket { address, error })?;
        Ok(driver.0)
    }

    /// The same for an attempt that begins this long after the transfer, with less time left.
    pub(super) fn started(&self, elapsed: Instant) -> Self {
        let mut settings = self.clone();
        let left = |span: Span| span.minus(elapsed.since(Instant::ZERO)).max(Span::from_ns(1));
        settings.flow.contract.done_by = settings.flow.contract.done_by.map(left);
        settings
    }

    /// The contract that the user has given since the last call.
    pub(super) fn take_contract(&self) -> Option<Contract> {
        self.contract_updates.as_ref()?.wanted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives a driver the keys that its user has given.
    pub(super) fn update_keys<T: Member, A: Application>(&self, driver: &mut Driver<T, A>) {
        let Some(keys) = self.key_updates.as_ref().and_then(|updates| updates.take()) else { return };
        // They were held against the first ones when they were put.
        let _ = driver.set_keys(keys);
    }

    /// The path between this host and `peer`.
    pub(crate) fn path_to(&self, peer: SocketAddr) -> Path {
        let sealed = self.keys.security() != Security::Plain;
        Path::to(peer, if sealed { SEALED_HEADER_BYTES + TAG_BYTES } else { 0 })
    }
}

/// Any free port that can reach `peer`.
fn local_to(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(ip) if ip.ip().is_loopback() => ([127, 0, 0, 1], 0).into(),
        SocketAddr::V6(ip) if ip.ip().is_loopback() => ([0u16, 0, 0, 0, 0, 0, 0, 1], 0).into(),
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    }
}

/// Refuses every address that is not loopback.
fn require_loopback(address: SocketAddr) -> Result<(), TransferError> {
    let loopback = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback(),
    };
    if loopback { Ok(()) } else { Err(TransferError::NotLoopback(address)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_allowed_without_keys() {
        let of = |keys, testbed| Settings { keys, testbed, ..Settings::default() };
        for (address, loopback) in
            [("127.0.0.1:1", true), ("[::1]:1", true), ("10.0.0.1:1", false), ("0.0.0.0:1", false), ("[::]:1", false)]
        {
            let address = address.parse().unwrap();
            assert_eq!(of(Keys::Plain, false).check(address).is_ok(), loopback, "{address}");
            assert!(of(Keys::Plain, true).check(address).is_ok(), "{address}");
            assert!(of(Keys::Preshared([1; 32]), false).check(address).is_ok(), "{address}");
        }
    }
}
