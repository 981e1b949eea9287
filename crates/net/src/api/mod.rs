//! Connections for applications: byte streams and messages, under a contract.
//!
//! A [`Node`] is a socket with a thread of its own. [`Stream`] is an async byte stream both ways (tokio's `AsyncRead` and
//! `AsyncWrite`; no tokio runtime is needed), [`MessageSender`] and [`MessageReceiver`] carry messages of which, by contract,
//! some may be missing. A [`Bundle`] has many streams under one contract. [`blocking`] waits instead.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use pliant_net::api::{Node, Settings};
//! use pliant_net::connection::Keys;
//! use tokio::io::AsyncWriteExt;
//!
//! let keys = Keys::read("lab.key".as_ref()).map_err(std::io::Error::other)?;
//! let settings = Settings { keys, ..Settings::default() };
//! let node = Node::client("0.0.0.0:0".parse().unwrap(), settings)?;
//! let mut stream = node.connect("192.0.2.7:7410".parse().unwrap()).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await
//! # }
//! ```

mod backlog;
pub mod blocking;
pub(crate) mod buffers;
mod bundle;
mod bundle_handle;
mod handle;
mod messages;
mod mistake;
mod node;
mod node_driver;
mod report;
mod shared_node;
mod stream;

pub use crate::transfer::Settings;
pub use bundle::Bundle;
pub use messages::{MessageReceiver, MessageSender};
pub use node::Node;
pub use pliant_proto::transport::atp::SizeClass;
pub use report::{Delivery, Report};
pub use stream::Stream;
