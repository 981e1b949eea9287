//! A folder from many sources, as two files: what is in it ([`listing`]), and the contents of all its files one after the
//! other ([`contents`]).
//!
//! Both are fetched as any file is: sources vote on the listing, which says the hash of the contents. A receiver that has
//! some of the files holds what it has against the hashes of the contents' blocks ([`own`]): what is right is not sent again,
//! whether files are the same or only parts of them. Contents come into one file beside the folder, which a fetch that was
//! cut off goes on with; then each file is put into its place ([`place`]).

mod contents;
mod fetch;
mod filter;
mod listing;
mod own;
mod place;

pub(super) use contents::{FolderContents, ReadFolder};
pub use fetch::{WantedFolder, fetch_folder};
pub use filter::FolderFilter;

/// What the name of a folder ends with.
pub(super) const FOLDER_END: char = '/';
