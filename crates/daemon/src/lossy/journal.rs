//! Ledgers of all topics, kept in a file: a line for each fetch, and what they come to in fewer lines now and then.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use pliant_kafka::ledger::{Entry, Ledger};
use rustix::fs::{Access, AtFlags, CWD, FlockOperation, accessat, flock};
use serde::{Deserialize, Serialize};

use crate::log::say;
use crate::mutex::lock;

/// What the first line says.
const FORMAT: &str = "pliant kafka ledger 1";
/// Longest line: an entry of a fetch of a hundred megabytes in which every second record of ten bytes is left out.
const MAX_LINE_BYTES: u64 = 256 << 20;
/// A file that has grown by so much is written anew.
const MAX_GROWTH: u64 = 64 << 20;
/// Most partitions with a ledger. Of others nothing is left out.
const MAX_PARTITIONS: usize = 10_000;

/// Whose ledger it is. Each class is a contract of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct LedgerKey {
    pub(crate) class: String,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// The topic's number in hexadecimal digits: a topic that is made anew under its old name has another. Empty if it was
    /// not known when the topic was fetched first.
    pub(crate) id: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: LedgerKey,
    #[serde(flatten)]
    entry: Entry,
}

/// The file at its end.
struct Journal {
    file: File,
    bytes: u64,
    /// Its size when it is to be written anew.
    limit: u64,
    /// Something was written that is not known to be on the disk.
    unsynced: bool,
    /// An entry could not be written: none is from then on, as nobody knows what is in the file.
    failed: bool,
}

impl Journal {
    fn new(file: File, bytes: u64, limit: u64) -> Self {
        Self { file, bytes, limit, unsynced: false, failed: false }
    }
}

/// All ledgers of a daemon.
pub(crate) struct Ledgers {
    path: PathBuf,
    by_key: Mutex<BTreeMap<LedgerKey, Arc<Mutex<Ledger>>>>,
    journal: Mutex<Journal>,
    /// Whoever changes a ledger and notes it reads this; whoever writes the file anew waits for all of them.
    changing: RwLock<()>,
}

impl Ledgers {
    /// Reads the file, or makes it. What a crash has left of a last line is dropped: its fetch did not reach anybody. So is
    /// what follows zeros, which a file system leaves where the power failed before it had written.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let by_key = read_alone(&file)?;
        file.seek(io::SeekFrom::Start(0))?;
        let ledgers = Self {
            path: path.to_owned(),
            by_key: Mutex::new(by_key),
            journal: Mutex::new(Journal::new(file, 0, 0)),
            changing: RwLock::default(),
        };
        ledgers.write_anew()?;
        Ok(ledgers)
    }

    /// Refuses what [`open`](Self::open) would refuse, and changes nothing.
    pub(crate) fn check(path: &Path) -> io::Result<()> {
        match OpenOptions::new().read(true).append(true).open(path) {
            Ok(file) => drop(read_alone(&file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // It is written anew beside itself.
        Ok(accessat(CWD, folder_of(path), Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
    }

    /// The ledger of a partition, and its key; `None` if there are too many, or what would be noted cannot be.
    ///
    /// Old clients fetch by the topic's name and new ones by its number. They share a ledger: `wanted` without a number
    /// gets the only one that there is, and with a number the one without, if that was there first.
    pub(crate) fn of(&self, wanted: &LedgerKey) -> Option<(LedgerKey, Arc<Mutex<Ledger>>)> {
        if lock(&self.journal).failed {
            return None;
        }
        let mut by_key = lock(&self.by_key);
        let first = LedgerKey { id: String::new(), ..wanted.clone() };
        let is_same = |(key, _): &(&LedgerKey, _)| {
            (&key.class, &key.topic, key.partition) == (&wanted.class, &wanted.topic, wanted.partition)
        };
        let mut same = by_key.range(&first..).take_while(is_same);
        let known = match (same.next(), same.next()) {
            (Some(only), None) if wanted.id.is_empty() || only.0.id.is_empty() => Some(only),
            _ => by_key.get_key_value(wanted),
        };
        if let Some((key, ledger)) = known {
            return Some((key.clone(), ledger.clone()));
        }
        (by_key.len() < MAX_PARTITIONS).then(|| (wanted.clone(), by_key.entry(wanted.clone()).or_default().clone()))
    }

    /// Held while a ledger is changed and the entry noted.
    pub(crate) fn changing(&self) -> RwLockReadGuard<'_, ()> {
        self.changing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was added to a ledger. If it fails, nothing may be left out by it.
    pub(crate) fn note(&self, key: &LedgerKey, entry: Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { key: key.clone(), entry })?;
        line.push(b'\n');
        let mut journal = lock(&self.journal);
        let written = journal.file.write_all(&line);
        journal.failed |= written.is_err();
        journal.bytes += line.len() as u64;
        journal.unsynced = true;
        written
    }

    /// Forces to the disk what was noted since the last time; whether there was anything. If it fails, nothing is left out
    /// from then on.
    pub(crate) fn sync(&self) -> io::Result<bool> {
        let file = {
            let mut journal = lock(&self.journal);
            if !std::mem::take(&mut journal.unsynced) {
                return Ok(false);
            }
            journal.file.try_clone()
        };
        // Whoever notes something meanwhile does not wait. If the file is written anew meanwhile, that is on the disk first.
        let synced = file.and_then(|file| file.sync_data());
        lock(&self.journal).failed |= synced.is_err();
        synced.map(|()| true)
    }

    /// Writes the file anew if it has grown.
    pub(crate) fn compact(&self) {
        let is_large = {
            let journal = lock(&self.journal);
            journal.bytes > journal.limit && !journal.failed
        };
        if is_large && let Err(error) = self.write_anew() {
            say("kafka ledger", &format!("{}: {error}; it goes on growing", self.path.display()));
            lock(&self.journal).limit *= 2;
        }
    }

    fn write_anew(&self) -> io::Result<()> {
        let _alone = self.changing.write().unwrap_or_else(PoisonError::into_inner);
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let file = File::create(&name)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut output = BufWriter::new(file);
        writeln!(output, "{FORMAT}")?;
        for (key, ledger) in lock(&self.by_key).iter() {
            for entry in lock(ledger).entries() {
                serde_json::to_writer(&mut output, &Line { key: key.clone(), entry })?;
                output.write_all(b"\n")?;
            }
        }
        let mut file = output.into_inner()?;
        file.sync_data()?;
        std::fs::rename(&name, &self.path)?;
        // The name is in the folder, and has to outlive the power too before anything is noted under it.
        File::open(folder_of(&self.path))?.sync_all()?;
        let bytes = file.stream_position()?;
        *lock(&self.journal) = Journal::new(file, bytes, bytes * 2 + MAX_GROWTH);
        Ok(())
    }

    /// Every ledger with its key, in order.
    pub(crate) fn all(&self) -> Vec<(LedgerKey, Arc<Mutex<Ledger>>)> {
        lock(&self.by_key).iter().map(|(key, ledger)| (key.clone(), ledger.clone())).collect()
    }
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The ledgers that a file tells of, which no other daemon has. None has it while the file is open.
fn read_alone(file: &File) -> io::Result<BTreeMap<LedgerKey, Arc<Mutex<Ledger>>>> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| io::Error::other("another daemon has this ledger"))?;
    read(file)
}

/// The ledgers that a file tells of.
fn read(file: &File) -> io::Result<BTreeMap<LedgerKey, Arc<Mutex<Ledger>>>> {
    let mut by_key: BTreeMap<LedgerKey, Ledger> = BTreeMap::new();
    let mut from = BufReader::new(file);
    let (mut number, mut line) = (0, Vec::new());
    loop {
        line.clear();
        number += 1;
        (&mut from).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        // The end, or the beginning of a line that was not written out.
        let Some(text) = line.strip_suffix(b"\n") else { break };
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {why}"));
        if number == 1 {
            if text != FORMAT.as_bytes() {
                return Err(wrong("this is no ledger"));
            }
            continue;
        }
        // No line of JSON has a zero.
        if text.contains(&0) {
            let what = format!("line {number} is zeros, as after a loss of power; it and what follows is dropped");
            say("kafka ledger", &what);
            break;
        }
        let Line { key, entry } = serde_json::from_slice(text).map_err(|error| wrong(&error.to_string()))?;
        if by_key.len() == MAX_PARTITIONS && !by_key.contains_key(&key) {
            return Err(wrong("too many partitions"));
        }
        if !by_key.entry(key).or_default().take(&entry) {
            return Err(wrong("these are no ranges of offsets"));
        }
    }
    if number == 1 && !line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "line 1: this is no ledger"));
    }
    Ok(by_key.into_iter().map(|(key, ledger)| (key, Arc::new(Mutex::new(ledger)))).collect())
}

#[cfg(test)]
mod tests {
    use pliant_kafka::ledger::RecordCounts;

    use super::*;

    fn key(partition: i32) -> LedgerKey {
        LedgerKey { class: "bulk".to_owned(), topic: "clicks".to_owned(), partition, id: String::new() }
    }

    fn note(ledgers: &Ledgers, partition: i32, first: i64) {
        let entry = Entry {
            decided: vec![(first, first + 9)],
            lost: vec![(first, first)],
            plain: RecordCounts { fetched: 10, lost: 1 },
            ..Entry::default()
        };
        let (_, ledger) = ledgers.of(&key(partition)).unwrap();
        let _changing = ledgers.changing();
        assert!(lock(&ledger).take(&entry));
        ledgers.note(&key(partition), entry).unwrap();
    }

    fn counts(ledgers: &Ledgers) -> Vec<(i32, RecordCounts)> {
        ledgers.all().into_iter().map(|(key, ledger)| (key.partition, lock(&ledger).counts())).collect()
    }

    /// What was noted is there after a start, also after the file was written anew; a last line that a crash has cut off
    /// is not.
    #[test]
    fn ledgers_outlive_their_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledgers = Ledgers::open(&path).unwrap();
        note(&ledgers, 0, 0);
        note(&ledgers, 1, 50);
        assert!(Ledgers::open(&path).is_err(), "another daemon has it");
        ledgers.write_anew().unwrap();
        note(&ledgers, 0, 10);
        let before = counts(&ledgers);
        assert_eq!(before[0], (0, RecordCounts { fetched: 20, lost: 2 }));
        drop(ledgers);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"class\":\"bulk\",\"top").unwrap();
        let ledgers = Ledgers::open(&path).unwrap();
        assert_eq!(counts(&ledgers), before);
        note(&ledgers, 0, 20);
        drop(ledgers);
        let ledgers = Ledgers::open(&path).unwrap();
        assert_eq!(counts(&ledgers)[0].1, RecordCounts { fetched: 30, lost: 3 });
        assert_eq!(lock(&ledgers.of(&key(0)).unwrap().1).lost().collect::<Vec<_>>(), [(0, 0), (10, 10), (20, 20)]);
    }

    /// Power fails at any time after lines were forced to the disk: of those that were not, the file has what it has, and
    /// zeros. The ledger is one that was, and not older than when it was forced.
    #[test]
    fn what_was_forced_to_the_disk_outlives_the_power() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledgers = Ledgers::open(&path).unwrap();
        let mut states = vec![counts(&ledgers)];
        let mut forced = 0;
        for number in 0..6 {
            note(&ledgers, number % 2, i64::from(number) * 10);
            states.push(counts(&ledgers));
            if number < 3 {
                assert!(ledgers.sync().unwrap() && !ledgers.sync().unwrap(), "each line once");
                forced = std::fs::metadata(&path).unwrap().len() as usize;
            }
        }
        drop(ledgers);
        let whole = std::fs::read(&path).unwrap();
        for cut in forced..=whole.len() {
            // What follows is not there, or is zeros, or is zeros with a line's end behind them.
            let zeros = vec![0; whole.len() - cut];
            for rest in [Vec::new(), zeros.clone(), [zeros, whole[forced..].to_vec()].concat()] {
                if cut == whole.len() && !rest.is_empty() {
                    continue;
                }
                std::fs::write(&path, [&whole[..cut], &rest].concat()).unwrap();
                let found = counts(&Ledgers::open(&path).unwrap());
                let state = states.iter().position(|state| *state == found);
                assert!(state.is_some_and(|state| state >= 3), "cut at {cut}: {found:?}");
            }
        }
    }

    /// Clients that fetch by name share the ledger of those that fetch by number, whoever is first; two topics of one name
    /// are told apart by their numbers.
    #[test]
    fn names_and_numbers_share_a_ledger() {
        let folder = tempfile::tempdir().unwrap();
        let id = |partition, id: &str| LedgerKey { id: id.to_owned(), ..key(partition) };
        let ledgers = Ledgers::open(&folder.path().join("ledger")).unwrap();
        let found = |wanted: LedgerKey| ledgers.of(&wanted).unwrap().0.id;
        assert_eq!([found(id(0, "aa")), found(key(0)), found(id(0, "aa"))], ["aa"; 3]);
        assert_eq!([found(key(1)), found(id(1, "aa"))], [""; 2]);
        assert_eq!([found(id(0, "bb")), found(id(0, "aa")), found(key(0)), found(id(2, "bb"))], ["bb", "aa", "", "bb"]);
    }

    #[test]
    fn a_file_that_is_no_ledger_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        for (text, why) in [
            ("important".to_owned(), "line 1: this is no ledger"),
            ("important\n".to_owned(), "line 1: this is no ledger"),
            (format!("{FORMAT}\nnonsense\n"), "line 2: "),
            (
                format!(
                    "{FORMAT}\n{{\"class\":\"a\",\"topic\":\"b\",\"id\":\"\",\"partition\":0,\"decided\":[[3,1]],\"lost\":[],\
                      \"plain\":{{\"fetched\":0,\"lost\":0}},\"transactional\":{{\"fetched\":0,\"lost\":0}}}}\n"
                ),
                "no ranges",
            ),
        ] {
            std::fs::write(&path, &text).unwrap();
            for refused in [Ledgers::open(&path).err(), Ledgers::check(&path).err()] {
                let error = refused.unwrap().to_string();
                assert!(error.contains(why), "{error}");
                assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            }
        }
    }
}
