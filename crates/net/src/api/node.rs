//! A node, as applications see it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use pliant_proto::contract::Contract;
use pliant_proto::contract::schedule::DaySchedule;

use super::bundle::Bundle;
use super::bundle_handle::{BundleHandle, check};
use super::handle::Handle;
use super::messages::{MessageReceiver, MessageSender};
use super::mistake::invalid;
use super::node_driver::NodeDriver;
use super::shared_node::SharedNode;
use super::stream::Stream;
use crate::flow::{FlowSettings, Protocol};
use crate::transfer::Settings;

/// A socket with a thread of its own, which ends when the node and all its connections are dropped.
pub struct Node {
    shared: Arc<SharedNode>,
    address: SocketAddr,
    accepts: bool,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Node {
    /// A node that only calls others.
    pub fn client(address: SocketAddr, settings: Settings) -> io::Result<Self> {
        Self::start(address, settings, false)
    }

    /// A node that others may call.
    pub fn bind(address: SocketAddr, settings: Settings) -> io::Result<Self> {
        Self::start(address, settings, true)
    }

    fn start(address: SocketAddr, mut settings: Settings, accepts: bool) -> io::Result<Self> {
        settings.check(address).map_err(invalid)?;
        settings.flow.check_stream().map_err(invalid)?;
        settings.flow.auto_consume = false;
        let (report, made) = std::sync::mpsc::sync_channel(1);
        // The driver is made where it runs: transports may share what belongs to an object, and stay in their thread.
        let work = move || match NodeDriver::open(address, settings, accepts) {
            Ok((driver, address)) => {
                _ = report.send(Ok((driver.node(), address)));
                driver.run();
            }
            Err(error) => _ = report.send(Err(error)),
        };
        std::thread::Builder::new().name("pliant".into()).spawn(work)?;
        let (shared, address) = made.recv().map_err(io::Error::other)??;
        Ok(Self { shared, address, accepts })
    }

    /// The socket's address.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Gives what this node sends, by streams, bundles and messages, another schedule from now on: those that run change with
    /// it. Where a `min_rate` is above the `max_rate` of a part, the `max_rate` counts.
    ///
    /// # Errors
    ///
    /// If a part contradicts the node's contract, or the transport does not honour it.
    pub fn set_schedule(&self, schedule: DaySchedule) -> io::Result<()> {
        self.shared.set_schedule(schedule)
    }

    /// Ends the node, and waits until streams that were finished and dropped before have told their peers that they are closed:
    /// a program may end then.
    pub fn close(self) {
        self.part();
    }

    pub(super) fn part(&self) {
        self.shared.close();
        self.shared.wait_parted();
    }

    /// Calls `to` for a byte stream.
    pub async fn connect(&self, to: SocketAddr) -> io::Result<Stream> {
        let flow = self.shared.flow();
        if flow.transport.protocol() != Protocol::Tcp || flow.contract.min_delivery < 1.0 {
            return Err(invalid("a stream needs a transport with a window, and all of it must arrive"));
        }
        Ok(Stream::new(self.call(to, false).await?))
    }

    /// Calls `to` for messages, whose transport is `atp`.
    pub async fn connect_messages(&self, to: SocketAddr) -> io::Result<MessageSender> {
        if self.shared.flow().transport.protocol() != Protocol::Atp {
            return Err(invalid("messages need the transport atp"));
        }
        Ok(MessageSender::new(self.call(to, true).await?))
    }

    /// Calls `to` for a bundle of byte streams, of which this side sends under `contract`. The other settings are the node's.
    ///
    /// # Errors
    ///
    /// If the transport does not honour the contract, the window is below 64 kB, or the peer does not take it.
    pub async fn connect_bundle(&self, to: SocketAddr, contract: &Contract) -> io::Result<Bundle> {
        self.shared.settings().check(to).map_err(invalid)?;
        check(&FlowSettings { contract: *contract, ..self.shared.flow().clone() })?;
        let bundle = self.shared.new_bundle(to, contract, true)?;
        // Dropped before the peer answers, it tells the node that nobody waits any more.
        let handle = BundleHandle::new(self.shared.clone(), bundle.clone());
        self.shared.add_bundle(&bundle);
        poll_fn(|context| handle.poll_open(context)).await?;
        Ok(Bundle::new(handle))
    }

    /// The next bundle that somebody opens. Fails as [`Node::accept`] does. This side sends under the node's contract.
    pub async fn accept_bundle(&self) -> io::Result<Bundle> {
        self.check_accepts()?;
        let bundle = self.shared.accept_bundle().await?;
        Ok(Bundle::new(BundleHandle::new(self.shared.clone(), bundle)))
    }

    async fn call(&self, to: SocketAddr, messages: bool) -> io::Result<Handle> {
        self.shared.settings().check(to).map_err(invalid)?;
        let connection = Arc::new(self.shared.connection(to, messages));
        // Dropped before the peer answers, it tells the node that nobody waits any more.
        let handle = Handle::new(self.shared.clone(), connection);
        handle.queue();
        poll_fn(|context| handle.poll_open(context)).await?;
        Ok(handle)
    }

    /// The next byte stream that somebody opens. Fails when the socket has failed, as every call of the node then does, and at
    /// a node of [`Node::client`], which nobody can call.
    pub async fn accept(&self) -> io::Result<Stream> {
        Ok(Stream::new(self.next_handle(false).await?))
    }

    /// The next that somebody opens for messages. Fails as [`Node::accept`] does.
    pub async fn accept_messages(&self) -> io::Result<MessageReceiver> {
        Ok(MessageReceiver::new(self.next_handle(true).await?))
    }

    fn check_accepts(&self) -> io::Result<()> {
        if self.accepts {
            return Ok(());
        }
        Err(invalid("this node only calls others: accept needs a node that listens"))
    }

    async fn next_handle(&self, messages: bool) -> io::Result<Handle> {
        self.check_accepts()?;
        let connection = self.shared.accept(messages).await?;
        Ok(Handle::new(self.shared.clone(), connection))
    }
}
