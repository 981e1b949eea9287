//! What shows that a file has changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The times of files are those of a clock that ticks each 1 to 10 ms, or, where they are whole, each second or two.
const TICK_NS: i128 = 20_000_000;
const COARSE_TICK_NS: i128 = 2_000_000_000;
const SECOND_NS: i128 = 1_000_000_000;

/// What a program sees of a change: the size of a file, and its modification time (ns).
pub(super) type FileState = (u64, i128);

/// What shows that a file is the one that was read: its state, when its inode was changed (ns), its device and its inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStamp {
    pub(super) state: FileState,
    pub(super) changed: i128,
    dev: u64,
    ino: u64,
}

impl FileStamp {
    /// The stamp of the file that has this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        let changed = i128::from(metadata.ctime()) * SECOND_NS + i128::from(metadata.ctime_nsec());
        Self { state: state(metadata), changed, dev: metadata.dev(), ino: metadata.ino() }
    }

    /// Whether every change of the file after `now`, in nanoseconds since 1970, has another stamp than this one, which was found
    /// after `now`. A file that was changed a moment before may be changed again within the same tick, and look the same.
    pub fn is_settled(&self, now: u64) -> bool {
        let tick = if self.changed % SECOND_NS == 0 { COARSE_TICK_NS } else { TICK_NS };
        (i128::from(now) - self.changed).abs() > tick
    }
}

pub(super) fn state(metadata: &Metadata) -> FileState {
    (metadata.len(), i128::from(metadata.mtime()) * SECOND_NS + i128::from(metadata.mtime_nsec()))
}
