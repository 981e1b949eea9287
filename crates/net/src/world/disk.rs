//! The simulated disk: real files, whose operations fail or take time, and which tell what a power cut would lose.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::seam::DiskOperation;

/// What goes wrong with a host's disk.
#[derive(Clone, Debug)]
pub(crate) struct DiskFaults {
    /// Bytes until it is full.
    pub(crate) free_bytes: u64,
    /// The operation of this kind with this number, from 0, fails.
    pub(crate) fails: Option<(DiskKind, u64)>,
    /// Every operation takes so long, in nanoseconds.
    pub(crate) delay_ns: u64,
    /// Making a content last takes so much longer.
    pub(crate) sync_ns: u64,
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self { free_bytes: u64::MAX, fails: None, delay_ns: 0, sync_ns: 0 }
    }
}

/// Operations without their sizes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum DiskKind {
    Create,
    Write,
    Sync,
    Rename,
    SyncFolder,
}

impl DiskKind {
    pub(crate) const ALL: [Self; 5] = [Self::Create, Self::Write, Self::Sync, Self::Rename, Self::SyncFolder];

    fn of(operation: DiskOperation) -> Self {
        match operation {
            DiskOperation::Create => Self::Create,
            DiskOperation::Write(_) => Self::Write,
            DiskOperation::Sync => Self::Sync,
            DiskOperation::Rename => Self::Rename,
            DiskOperation::SyncFolder => Self::SyncFolder,
        }
    }
}

/// How much of a file a power cut would leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lasting {
    /// Content that was not synced.
    Nothing,
    /// The content, under a temporary name.
    Content,
    /// The content is under its name, which a power cut may take back.
    Named,
    /// All of it.
    Everything,
}

/// A disk at work.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) faults: DiskFaults,
    done: BTreeMap<DiskKind, u64>,
    lasting: BTreeMap<PathBuf, Lasting>,
    /// How often an operation has failed.
    pub(super) failures: u64,
}

impl Disk {
    pub(super) fn new(faults: DiskFaults) -> Self {
        Self { faults, ..Self::default() }
    }

    /// Does it, or fails.
    pub(super) fn touch(&mut self, operation: DiskOperation, path: &Path) -> io::Result<()> {
        let kind = DiskKind::of(operation);
        let done = self.done.entry(kind).or_default();
        let number = *done;
        *done += 1;
        if self.faults.fails == Some((kind, number)) {
            self.failures += 1;
            return Err(Errno::IO.into());
        }
        if let DiskOperation::Write(bytes) = operation {
            let Some(left) = self.faults.free_bytes.checked_sub(bytes as u64) else {
                self.failures += 1;
                return Err(Errno::NOSPC.into());
            };
            self.faults.free_bytes = left;
        }
        let before = self.lasting.get(path).copied().unwrap_or(Lasting::Nothing);
        let after = match (kind, before) {
            (DiskKind::Create | DiskKind::Write, _) => Lasting::Nothing,
            (DiskKind::Sync, Lasting::Nothing) => Lasting::Content,
            // A name given to content that is not on the disk may outlive it.
            (DiskKind::Rename, Lasting::Content) => Lasting::Named,
            (DiskKind::SyncFolder, Lasting::Named) => Lasting::Everything,
            (_, before) => before,
        };
        self.lasting.insert(path.to_owned(), after);
        Ok(())
    }

    /// How much of the file that is to lie at `path` a power cut would leave.
    pub(super) fn lasting(&self, path: &Path) -> Option<Lasting> {
        self.lasting.get(path).copied()
    }
}
