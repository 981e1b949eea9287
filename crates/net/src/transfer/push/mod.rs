//! One file from many sources at once: [`Offer`] at each source of files, [`fetch`] at the receiver.
//!
//! The machines are those of [`pliant_proto::transport::push`]; here they get a payload, coded by RaptorQ (RFC 6330), and
//! a controller: the receiver's own, with one weight (theta) for all its flows. The receiver calls every source and
//! [asks](Request); each answers what it [offers](Offered); the controller's orders travel as notices of the connection,
//! which may be lost, for the machines say again what was not accepted.
//!
//! Sources may be wrong or lie. They [agree](agreement) on a content, or the user names it by its hash; each block is
//! verified by the content's [hash tree](hash_tree); and a block that is not right shows who has sent [false
//! symbols](coding::Dispute).
//!
//! Receivers of one file serve each other: each offers the blocks that it has verified, and takes from its peers what they
//! [have](message::HoldingNotice), standing in [a row](following).
//!
//! A [folder](folder) is two such files: what is in it, and what its files have.
//!
//! [Mirrors](mirror) of other kinds give whole blocks, or, where no source is left, [all of it](alone).
//!
//! A receiver holds as many blocks as the machine has open, of each at most as many symbols as it has source symbols and
//! a few more, and one block that is being decoded; of a block in dispute at most six times as many. A source holds the intermediate symbols of few blocks, for all its
//! receivers together.

mod agreement;
mod alone;
mod coding;
mod fetch;
mod fetched;
mod folder;
mod following;
pub(super) mod hash_tree;
mod inquiry;
mod message;
mod mirror;
mod object;
mod offer;
mod offered_files;
mod own_blocks;
mod pace;
mod read_ahead;

pub use fetch::{ask, fetch};
pub use fetched::{FetchNews, Fetched, FromSource, WantedFile};
pub use folder::{
    FileStamp, FolderFile, FolderFilter, FolderIndex, InFolder, WantedFolder, fetch_folder, state_of_folder,
};
pub use hash_tree::PageNumber;
pub use message::{FetchCall, FileSelector, HashNotice, HoldingNotice, Offered, PushNotice, Request};
pub use mirror::{FromMirror, Mirror, MirrorError, MirrorFile};
pub use offer::{Offer, Served};
pub use offered_files::{Coming, FolderReading, HeldFile, OfferedFiles};
pub use own_blocks::{OnlyBlocks, OwnBlocks};
