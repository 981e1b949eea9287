//! What a receiver does with a content that has arrived: verify it, put it into its place, and report the result.
//!
//! Hashing, waiting for the disk and unpacking take time in which other transfers must continue. So a separate thread
//! does them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use pliant_proto::packet::ByteRange;

use super::announcement::{Announcement, Kind};
use super::directory::Unchanged;
use super::error::{TransferError, copy};
use super::hash::check_hash;
use super::partial::Partial;
use super::settings::Limits;
use super::verdict::Verdict;
use super::whole::Whole;
use crate::seam::{Mutant, is_mutant};

/// A content that has arrived.
pub(super) enum Arrived {
    Whole(Box<Whole>),
    Partial(Partial),
    /// This many bytes of a measurement.
    Counted(u64),
}

impl Arrived {
    /// The place it is meant for.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Whole(whole) => whole.path(),
            Self::Partial(partial) => partial.path(),
            Self::Counted(_) => None,
        }
    }

    /// Its bytes that have arrived.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Whole(whole) => whole.bytes(),
            Self::Partial(partial) => partial.delivered(),
            Self::Counted(bytes) => *bytes,
        }
    }

    /// Removes all of it.
    pub(super) fn discard(self) {
        if let Self::Whole(whole) = self {
            whole.discard();
        }
    }

    /// Verifies it and puts it into its place. `cancelled` ends that and leaves nothing. Files for the comparison with
    /// a listing are read only as long as its sender is there (`wanted`).
    pub(super) fn place(
        self,
        announcement: &Announcement,
        limits: &Limits,
        cancelled: &AtomicBool,
        wanted: &Weak<()>,
    ) -> Result<Placed, PlacementError> {
        let Announcement { name, size, .. } = announcement;
        let bytes = self.bytes();
        match self {
            Self::Whole(whole) => {
                let ((got, expected), kept) = (whole.hashes(), whole.kept());
                if let Err(differs) = check_hash(name, got, expected) {
                    whole.discard();
                    return Err(differs.into());
                }
                if announcement.kind == Kind::Listing {
                    let is_wanted = || wanted.strong_count() > 0 && !cancelled.load(Ordering::Relaxed);
                    let held = whole.compare(is_wanted)?;
                    return Ok(Placed { held, bytes, hash: Some(got), ..Placed::default() });
                }
                let (path, unchanged) = whole.commit(limits, cancelled)?;
                Ok(Placed { path, bytes, kept, unchanged, hash: Some(got), ..Placed::default() })
            }
            Self::Partial(mut partial) => {
                if !partial.keeps_bound() {
                    let total = size.unwrap_or(bytes);
                    let missed = TransferError::BoundMissed { name: name.clone(), delivered: bytes, total };
                    return Err(PlacementError::Differs(missed));
                }
                let missing = partial.missing();
                let hashes = partial.hashes();
                let path = || partial.path().map(PathBuf::from).unwrap_or_default();
                let hashes = hashes.map_err(|error| (path(), error))?;
                if let Some((got, expected)) = hashes {
                    check_hash(name, got, expected)?;
                }
                let (hash, path) = (hashes.map(|(got, _)| got), partial.commit()?);
                Ok(Placed { path, bytes, missing, hash, ..Placed::default() })
            }
            Self::Counted(_) if size.is_some_and(|size| bytes < size) => Err(PlacementError::Short),
            Self::Counted(_) => Ok(Placed { bytes, ..Placed::default() }),
        }
    }
}

/// A content that is in its place.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// The place, unless it is not kept.
    pub(super) path: Option<PathBuf>,
    pub(super) bytes: u64,
    /// Bytes of it that were there from an interrupted transfer.
    pub(super) kept: u64,
    /// Files of a directory that did not travel, because they were there.
    pub(super) unchanged: Unchanged,
    /// For a listing: a bit for each file that is here.
    pub(super) held: Vec<u8>,
    pub(super) missing: Vec<ByteRange>,
    pub(super) hash: Option<blake3::Hash>,
}

/// Why a content is not in its place.
#[derive(Debug)]
pub(super) enum PlacementError {
    /// It differs from the sender's announcement.
    Differs(TransferError),
    /// The sender stopped before it had sent everything it announced.
    Short,
    /// The system refused it.
    File(PathBuf, io::Error),
}

impl From<TransferError> for PlacementError {
    fn from(error: TransferError) -> Self {
        Self::Differs(error)
    }
}

impl From<(PathBuf, io::Error)> for PlacementError {
    fn from((path, error): (PathBuf, io::Error)) -> Self {
        Self::File(path, error)
    }
}

/// It is shorter than its sender announced.
const SHORT: &str = "it is shorter than announced";

impl PlacementError {
    /// The error of a transfer from `address`.
    pub(super) fn into_transfer_error(self, address: std::net::SocketAddr) -> TransferError {
        match self {
            Self::Differs(error) => error,
            Self::Short => TransferError::NotATransfer { address, why: SHORT },
            Self::File(path, error) => TransferError::File { path, error },
        }
    }
}

/// What the sender is told: what happened, but not where.
pub(super) fn verdict(placed: &Result<Placed, PlacementError>) -> Verdict {
    if is_mutant(Mutant::EverythingIsPlaced) {
        return Verdict::Placed;
    }
    match placed {
        Ok(_) => Verdict::Placed,
        Err(PlacementError::Differs(error)) => Verdict::Differs(error.to_string()),
        Err(PlacementError::Short) => Verdict::Differs(SHORT.into()),
        Err(PlacementError::File(_, error)) => Verdict::NotPlaced(copy(error).to_string()),
    }
}
