//! Transfers of a file, a directory or a stream: `send` on one side and `recv` on the other. Or of a file from many
//! sources: `offer` at each of them and `fetch` at the receiver.
//!
//! The handshake carries an [`Announcement`]. Reliable transports carry the content and its BLAKE3 hash. If a contract
//! allows a content to arrive in part, the missing parts are reported instead. The receiver writes into a temporary
//! file beside the target and moves it into its place at the end, so an interrupted transfer is never mistaken for a
//! complete one.

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
pub use checkpoint::{is_left_part, remove_part};
pub use directory::Unchanged;
pub use error::{MirrorFault, TransferError};
pub use output::Target;
pub use progress::Progress;
pub use push::{
    Coming, FetchCall, FetchNews, Fetched, FileSelector, FileStamp, FolderFile, FolderFilter, FolderIndex,
    FolderReading, FromMirror, FromSource, HashNotice, HeldFile, HoldingNotice, InFolder, Mirror, MirrorError,
    MirrorFile, Offer, Offered, OfferedFiles, OnlyBlocks, OwnBlocks, PageNumber, PushNotice, Request, Served,
    WantedFile, WantedFolder, ask, fetch, fetch_folder, state_of_folder,
};
pub use receive::{Received, Receiver};
pub use send::{ClockOffset, Sent, send};
pub use settings::{ContractUpdates, Limits, Settings};
pub use source::Source;
