//! Many streams under one contract.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use pliant_proto::contract::Contract;
use pliant_proto::time::Span;

use super::bundle_handle::{BundleHandle, StreamOfBundle};
use super::report::Report;
use super::stream::Stream;
use crate::connection::Closed;
use crate::flow::FlowSettings;

/// Many byte streams to one peer that share one flow: one congestion window, and one contract, which is a promise to their
/// sum. 64 streams of a bundle take what one [`Stream`] takes.
///
/// Streams do not wait for each other. A lost packet holds up the streams whose bytes it carries, and a reader that does not
/// read holds up its own stream. Each side opens streams as it likes, and sends under the contract of its own.
///
/// The bundle ends once it and all its streams are dropped and the peer has what was finished, or by [`close`](Self::close).
///
/// ```
/// use pliant_net::api::{Node, Settings};
/// use pliant_net::flow::{FlowSettings, SocketTransport};
/// use pliant_proto::congestion::Algorithm;
/// use pliant_proto::contract::Contract;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # fn main() -> std::io::Result<()> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // Without keys, which loopback allows.
/// let flow = FlowSettings { transport: SocketTransport::Tcp(Algorithm::Bounded), ..FlowSettings::default() };
/// let settings = Settings { flow, ..Settings::default() };
/// let far = Node::bind("127.0.0.1:0".parse().unwrap(), settings.clone())?;
/// let near = Node::client("127.0.0.1:0".parse().unwrap(), settings)?;
///
/// // Together the streams keep half of what one flow would have.
/// let half = Contract { min_share: 0.5, ..Contract::default() };
/// let (called, accepted) = tokio::join!(near.connect_bundle(far.local_address(), &half), far.accept_bundle());
/// let (called, accepted) = (called?, accepted?);
///
/// for piece in [b"one", b"two"] {
///     let mut stream = called.open()?;
///     stream.write_all(piece).await?;
///     let (ended, taken) = tokio::join!(stream.shutdown(), accepted.accept());
///     ended?;
///     let mut got = Vec::new();
///     taken?.read_to_end(&mut got).await?;
///     assert_eq!(got, piece);
/// }
/// assert!(called.report().sender.bytes_sent > 6);
/// # Ok(())
/// # })
/// # }
/// ```
pub struct Bundle {
    handle: Arc<BundleHandle>,
}

impl Bundle {
    pub(super) fn new(handle: BundleHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Opens a stream, which can be written at once. A peer that takes no more streams resets it: it takes 1024 at a time.
    ///
    /// # Errors
    ///
    /// If the bundle has ended.
    pub fn open(&self) -> io::Result<Stream> {
        let mut state = self.handle.bundle.lock();
        if let Some(error) = state.failure() {
            return Err(error);
        }
        let stream = state.multiplexer.open(Vec::new());
        drop(state);
        self.handle.queue();
        Ok(self.stream(stream))
    }

    /// The next stream that the peer opens.
    ///
    /// # Errors
    ///
    /// If the bundle has ended.
    pub async fn accept(&self) -> io::Result<Stream> {
        let stream = poll_fn(|context| self.handle.bundle.lock().poll_accept(context)).await?;
        Ok(self.stream(stream))
    }

    fn stream(&self, stream: u32) -> Stream {
        Stream::of_bundle(StreamOfBundle::new(&self.handle, stream))
    }

    /// Changes the contract of what this side sends while the streams run: weight, `min_rate` and `max_rate`, and of `bounded`
    /// `min_share`.
    ///
    /// # Errors
    ///
    /// If the transport does not honour it, or it cannot change so.
    pub fn set_contract(&self, contract: &Contract) -> io::Result<()> {
        let mut state = self.handle.bundle.lock();
        let flow = FlowSettings { contract: state.contract, ..self.handle.node.flow().clone() };
        self.handle.node.check_change(&flow, contract)?;
        (state.contract, state.changed) = (*contract, true);
        drop(state);
        self.handle.queue();
        Ok(())
    }

    /// Announces `bytes` beyond those written so far to all streams of this side together, as [`Stream::set_done_by`] does for
    /// one stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_done_by(&self, bytes: u64, span: Option<Span>) -> io::Result<()> {
        let mut state = self.handle.bundle.lock();
        self.handle.node.check_done_by(state.contract, bytes, span)?;
        state.announced = Some(state.multiplexer.written_bytes().saturating_add(bytes));
        state.deadline.set(span);
        drop(state);
        self.handle.queue();
        Ok(())
    }

    /// How the flow of all its streams stands.
    pub fn report(&self) -> Report {
        self.handle.report()
    }

    /// Streams that are open, of both sides.
    pub fn streams(&self) -> usize {
        self.handle.bundle.lock().multiplexer.streams()
    }

    /// Ends the bundle at once. All its streams, of both sides, end with an error, but for what has already come.
    pub fn close(&self) {
        self.handle.bundle.lock().closing = true;
        self.handle.bundle.close(Closed::Failed("the bundle was closed".into()), self.handle.node.bundles());
        self.handle.queue();
    }
}
