//! Moves a file, a directory or a stream: `send` on one side, `recv` on the other; or a file from many sources at once:
//! `offer` at each, `fetch` at the receiver.
//!
//! What is sent is announced in the handshake ([`Announcement`]). Reliable transports carry the content and its BLAKE3
//! hash; what may arrive in part, under a contract that allows it, is reported with what is missing instead. The receiver
//! writes into a temporary file beside the target and puts it in its place at the end, so that a broken transfer is never
//! taken for a whole one.

mod announcement;
mod checkpoint;
mod close_code;
mod directory;
mod error;
mod hash;
mod missing;
mod names;
mod output;
mod partial;
mod placement;
mod progress;
mod push;
mod receive;
mod resume;
mod send;
mod sender_application;
mod settings;
mod source;
pub(crate) mod verdict;
mod whole;

pub use announcement::{Announcement, Kind};
pub use blake3::Hash;
pub use directory::Unchanged;
pub use error::TransferError;
pub use output::Target;
pub use progress::Progress;
pub use push::{
    Coming, FetchCall, FetchNews, Fetched, FileSelector, FolderFilter, FromMirror, FromSource, HashNotice, HeldFile,
    HoldingNotice, Mirror, MirrorError, MirrorFile, Offer, Offered, OfferedFiles, OwnBlock, OwnBlocks, PageNumber,
    PushNotice, Request, Served, WantedFile, WantedFolder, fetch, fetch_folder,
};
pub use receive::{Received, Receiver};
pub use send::{ClockOffset, Sent, send};
pub use settings::{ContractUpdates, Limits, Settings};
pub use source::Source;
