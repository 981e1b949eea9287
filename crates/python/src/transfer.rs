//! Connections on the real runtime: streams and messages under a contract, for threads that wait and for asyncio.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pliant_net::api::{MessageReceiver, MessageSender, Node, Settings, Stream};
use pliant_net::connection::Keys;
use pliant_net::flow::{FlowSettings, SocketTransport};
use pliant_proto::contract::Contract;
use pliant_proto::units::Rate;
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::errors::classes;

/// How often signals are looked for while a thread waits.
const INTERVAL: Duration = Duration::from_millis(50);
/// Most bytes that one read gives.
const MOST_READ: usize = 1 << 20;

/// What an operation gives.
enum Given {
    Stream(Stream),
    Sender(MessageSender),
    Receiver(MessageReceiver),
    Bytes(Vec<u8>),
    Count(usize),
    Message(Option<(u32, Box<[u8]>)>),
    Messages(Vec<(u32, Box<[u8]>)>),
    Nothing,
}

impl Given {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::Stream(stream) => Py::new(py, NetStream(Arc::new(Mutex::new(Some(stream)))))?.into_any(),
            Self::Sender(sender) => Py::new(py, NetSender(Arc::new(sender)))?.into_any(),
            Self::Receiver(receiver) => Py::new(py, NetReceiver(Arc::new(receiver)))?.into_any(),
            Self::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
            Self::Count(count) => count.into_pyobject(py)?.into_any().unbind(),
            Self::Message(None) | Self::Nothing => py.None(),
            Self::Message(Some((number, bytes))) => {
                (number, PyBytes::new(py, &bytes)).into_pyobject(py)?.into_any().unbind()
            }
            Self::Messages(messages) => {
                let messages = messages.iter().map(|(number, bytes)| (number, PyBytes::new(py, bytes)));
                PyList::new(py, messages.collect::<Vec<_>>())?.into_any().unbind()
            }
        })
    }
}

type Operation = Pin<Box<dyn Future<Output = io::Result<Given>> + Send>>;

/// An operation that is under way. Either `wait` or `poll` gives what comes of it, once.
#[pyclass(module = "pliant._pliant", frozen)]
pub(crate) struct Pending(Mutex<Option<Operation>>);

impl Pending {
    fn new(future: impl Future<Output = io::Result<Given>> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::pin(future))))
    }

    fn operation(&self) -> MutexGuard<'_, Option<Operation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a function of Python from the thread that has news.
struct Call(Py<PyAny>);

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        // A loop that is closed takes no news, and nobody waits there.
        Python::attach(|py| _ = self.0.call0(py));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Raises what a signal's handler raises.
#[allow(clippy::redundant_closure_for_method_calls, reason = "the method itself is not general enough in its lifetime")]
fn attend() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

fn over() -> PyErr {
    classes::PliantError::new_err("the operation is over")
}

#[pymethods]
impl Pending {
    /// Waits and returns what comes of it. If it does not come within so many seconds, it may be waited for again. Other
    /// threads of Python go on; signals are heard.
    #[pyo3(signature = (seconds = None))]
    #[allow(clippy::disallowed_methods, reason = "a thread of Python's waits no longer than it wants")]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<Py<PyAny>> {
        let mut operation = self.operation().take().ok_or_else(over)?;
        let span = seconds.map(Duration::try_from_secs_f64).transpose();
        let span =
            span.map_err(|_| classes::PliantError::new_err("a time to wait is a number of seconds from 0 on"))?;
        // A time that the clock does not reach is no bound.
        let deadline = span.and_then(|span| Instant::now().checked_add(span));
        let given = py.detach(|| -> PyResult<Option<Given>> {
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let (mut operation, mut context) = (pin!(&mut operation), Context::from_waker(&waker));
            loop {
                if let Poll::Ready(given) = operation.as_mut().poll(&mut context) {
                    return Ok(Some(given?));
                }
                let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    return Ok(None);
                }
                thread::park_timeout(left.map_or(INTERVAL, |left| left.min(INTERVAL)));
                attend()?;
            }
        });
        if let Some(given) = given? {
            return given.into_python(py);
        }
        *self.operation() = Some(operation);
        Err(PyTimeoutError::new_err("it did not come in time"))
    }

    /// What comes of it as a tuple of one if it is over; else `None`, and `wake` is called when it is worth asking again.
    fn poll(&self, py: Python<'_>, wake: Py<PyAny>) -> PyResult<Option<(Py<PyAny>,)>> {
        let waker = Waker::from(Arc::new(Call(wake)));
        let mut operation = self.operation().take().ok_or_else(over)?;
        // Waking takes Python's lock, on a thread that may hold the connection's.
        let polled = py.detach(|| operation.as_mut().poll(&mut Context::from_waker(&waker)));
        match polled {
            Poll::Ready(given) => given?.into_python(py).map(|given| Some((given,))),
            Poll::Pending => {
                *self.operation() = Some(operation);
                Ok(None)
            }
        }
    }
}

fn address(text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| {
        classes::PliantError::new_err(format!("{text}: an address is IP:PORT, such as 192.0.2.7:7410 or [::1]:7410"))
    })
}

/// A socket that connects, and accepts if it listens.
#[pyclass(module = "pliant._pliant", frozen)]
pub(crate) struct NetNode(Mutex<Option<Arc<Node>>>);

impl NetNode {
    fn node(&self) -> PyResult<Arc<Node>> {
        let node = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        node.clone().ok_or_else(|| classes::PliantError::new_err("the node is closed"))
    }
}

#[pymethods]
impl NetNode {
    #[new]
    #[pyo3(signature = (bind, listen, key, transport, min_delivery, min_share, weight, line_rate = None))]
    #[allow(clippy::too_many_arguments, reason = "by name")]
    fn new(
        py: Python<'_>,
        bind: &str,
        listen: bool,
        key: Option<PathBuf>,
        transport: &str,
        min_delivery: f64,
        min_share: f64,
        weight: f64,
        line_rate: Option<&str>,
    ) -> PyResult<Self> {
        let refused = |why: String| classes::PliantError::new_err(why);
        let keys = match &key {
            Some(file) => Keys::read(file).map_err(|error| refused(error.to_string()))?,
            None => Keys::Plain,
        };
        let names: Vec<String> = SocketTransport::all().map(|known| known.name().to_owned()).collect();
        let known = SocketTransport::all().find(|known| known.name() == transport);
        let transport = known.ok_or_else(|| refused(pliant_sim::suggest::unknown("transport", transport, &names)))?;
        let line_rate = line_rate.map(str::parse::<Rate>).transpose().map_err(|error| refused(error.to_string()))?;
        let contract = Contract { min_delivery, min_share, weight, ..Contract::default() };
        let flow = FlowSettings { transport, contract, line_rate, ..FlowSettings::default() };
        let settings = Settings { keys, flow, min_delivery, ..Settings::default() };
        let bind = address(bind)?;
        let made = py.detach(|| if listen { Node::bind(bind, settings) } else { Node::client(bind, settings) });
        let made = made.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => refused(error.to_string()),
            _ => error.into(),
        })?;
        Ok(Self(Mutex::new(Some(Arc::new(made)))))
    }

    /// Where it is bound.
    #[getter]
    fn address(&self) -> PyResult<String> {
        Ok(self.node()?.local_address().to_string())
    }

    fn connect(&self, to: &str) -> PyResult<Pending> {
        let (node, to) = (self.node()?, address(to)?);
        Ok(Pending::new(async move { node.connect(to).await.map(Given::Stream) }))
    }

    fn accept(&self) -> PyResult<Pending> {
        let node = self.node()?;
        Ok(Pending::new(async move { node.accept().await.map(Given::Stream) }))
    }

    fn connect_messages(&self, to: &str) -> PyResult<Pending> {
        let (node, to) = (self.node()?, address(to)?);
        Ok(Pending::new(async move { node.connect_messages(to).await.map(Given::Sender) }))
    }

    fn accept_messages(&self) -> PyResult<Pending> {
        let node = self.node()?;
        Ok(Pending::new(async move { node.accept_messages().await.map(Given::Receiver) }))
    }

    /// Closes it once what is under way has ended. If nothing is, the peers of streams that were closed have been told.
    fn close(&self, py: Python<'_>) {
        let node = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| node.and_then(Arc::into_inner).map(Node::close));
    }
}

/// A stream: bytes both ways.
#[pyclass(module = "pliant._pliant", frozen)]
pub(crate) struct NetStream(Arc<Mutex<Option<Stream>>>);

impl NetStream {
    /// An operation that polls the stream; it is locked no longer than a poll takes.
    fn operation(
        &self,
        mut poll: impl FnMut(Pin<&mut Stream>, &mut Context<'_>) -> Poll<io::Result<Given>> + Send + 'static,
    ) -> Pending {
        let stream = Arc::clone(&self.0);
        Pending::new(std::future::poll_fn(move |context| {
            match stream.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                Some(stream) => poll(Pin::new(stream), context),
                None => Poll::Ready(Err(io::Error::new(io::ErrorKind::NotConnected, "the stream is closed"))),
            }
        }))
    }
}

#[pymethods]
impl NetStream {
    /// Up to so many bytes; none at the end.
    fn read(&self, most: usize) -> Pending {
        let most = most.min(MOST_READ);
        self.operation(move |stream, context| {
            let mut bytes = vec![0; most];
            let mut into = ReadBuf::new(&mut bytes);
            let read = stream.poll_read(context, &mut into);
            let count = into.filled().len();
            bytes.truncate(count);
            read.map_ok(|()| Given::Bytes(bytes))
        })
    }

    /// Some of the bytes, at least one; how many.
    fn write(&self, bytes: Vec<u8>) -> Pending {
        self.operation(move |stream, context| stream.poll_write(context, &bytes).map_ok(Given::Count))
    }

    /// Ends what goes out; over once the peer has all of it.
    fn finish(&self) -> Pending {
        self.operation(|stream, context| stream.poll_shutdown(context).map_ok(|()| Given::Nothing))
    }

    /// Changes the weight while it runs.
    fn set_weight(&self, weight: f64, min_share: f64) -> PyResult<()> {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let contract = Contract { weight, min_share, ..Contract::default() };
        let changed = stream.as_ref().map_or(Ok(()), |stream| stream.set_contract(&contract));
        changed.map_err(|error| classes::PliantError::new_err(error.to_string()))
    }

    /// Packets sent again, timeouts, and marks.
    fn counts(&self) -> Option<(u64, u64, u64)> {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = stream.as_ref()?.report().sender;
        Some((sender.retransmissions, sender.timeouts, sender.marks))
    }

    fn close(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The side that sends messages.
#[pyclass(module = "pliant._pliant", frozen)]
pub(crate) struct NetSender(Arc<MessageSender>);

#[pymethods]
impl NetSender {
    /// Says how many messages there will be, which the bound on what may be missing is of.
    fn announce(&self, messages: u32) {
        self.0.announce(messages);
    }

    /// Hands a message over; its number.
    fn send(&self, message: &[u8]) -> PyResult<u32> {
        Ok(self.0.send(message)?)
    }

    /// Hands over messages of `size` bytes that lie one behind the other; how many. The last one may be shorter.
    fn send_all(&self, messages: &[u8], size: usize) -> PyResult<usize> {
        if size == 0 {
            return Err(classes::PliantError::new_err("a message has at least one byte"));
        }
        messages.chunks(size).try_for_each(|message| self.0.send(message).map(drop))?;
        Ok(messages.len().div_ceil(size))
    }

    /// Over once the peer has as many as the contract asks for.
    fn finish(&self) -> Pending {
        let sender = Arc::clone(&self.0);
        Pending::new(async move { sender.finish().await.map(|()| Given::Nothing) })
    }
}

/// The side that receives messages.
#[pyclass(module = "pliant._pliant", frozen)]
pub(crate) struct NetReceiver(Arc<MessageReceiver>);

#[pymethods]
impl NetReceiver {
    /// The next message with its number, in the order of their arrival; nothing at the end.
    fn receive(&self) -> Pending {
        let receiver = Arc::clone(&self.0);
        Pending::new(async move { receiver.recv().await.map(Given::Message) })
    }

    /// All messages that still come, with their numbers; over at the end. Fails if they have more than `most` bytes together.
    fn collect(&self, most: usize) -> Pending {
        let receiver = Arc::clone(&self.0);
        Pending::new(async move {
            let (mut messages, mut left) = (Vec::new(), most);
            while let Some((number, bytes)) = receiver.recv().await? {
                let room = left.checked_sub(bytes.len());
                left = room.ok_or_else(|| io::Error::other(format!("more than {most} bytes of messages came")))?;
                messages.push((number, bytes));
            }
            Ok(Given::Messages(messages))
        })
    }

    /// At the end: messages, those that arrived, and the numbers of those that did not.
    fn delivery(&self) -> Option<(u32, u32, Vec<u32>)> {
        self.0.delivery().map(|delivery| (delivery.messages, delivery.delivered, delivery.missing))
    }
}
