//! A folder from many sources, as two files: its [`listing`], and the concatenated [`contents`] of its files.
//!
//! Both are fetched like any file. Sources vote on the listing, which holds the hash of the contents. A receiver that
//! has some of the files compares them with the hashes of the contents' blocks ([`own`]). Matching blocks are not sent
//! again, whether whole files or only parts match. Contents go into one file beside the folder, with which an
//! interrupted fetch continues. Then each file is put into its place ([`place`]).

mod contents;
mod fetch;
mod filter;
mod index;
mod listing;
mod own;
mod place;
mod stamp;

pub use contents::state_of_folder;
pub(super) use contents::{FolderContents, KnownFolder, ReadFolder};
pub use fetch::{WantedFolder, fetch_folder};
pub use filter::FolderFilter;
pub use index::{FolderFile, FolderIndex, InFolder};
pub use stamp::FileStamp;

/// Last character of the name of a folder.
pub(super) const FOLDER_END: char = '/';
