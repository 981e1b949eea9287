//! What happens in a world, drawn from a seed, and what must be true of it in the end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_proto::congestion::Algorithm;
use pliant_proto::contract::Contract;
use pliant_proto::rng::Stream;
use pliant_proto::time::Span;

use super::attackers::{Gains, Idler, Liar, Observer};
use super::disk::{DiskFaults, DiskKind, Lasting};
use super::network::Link;
use super::schedule::{Ending, HostConfig, World};
use crate::connection::Keys;
use crate::flow::{FlowSettings, Opening, Protocol, SocketTransport};
use crate::seam::Mutant;
use crate::transfer::{Announcement, Kind, Received, Receiver, Sent, Settings, Source, Target, TransferError, send};

/// Where the receiver listens.
pub(super) const PORT: u16 = 7410;
pub(super) const MS: u64 = 1_000_000;
/// What a file has in it that was there before.
const OCCUPANT: &[u8] = b"of somebody else";
/// A world in which nothing lasts so long is stuck.
pub(super) const LONGEST: Duration = Duration::from_secs(900);
/// A transfer of at most a megabyte over the worst of the links that may succeed is done by then.
const LONGEST_HONEST_NS: u64 = 180_000 * MS;

/// What one sender does.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    /// It is a directory with so many files of these bytes, if any.
    pub(crate) files: usize,
    pub(crate) begins_ns: u64,
    pub(crate) host: HostConfig,
    pub(crate) settings: Settings,
    /// Another file has its name already.
    pub(crate) occupied: bool,
}

/// What happens in a world.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) receiver: HostConfig,
    pub(crate) receiver_settings: Settings,
    pub(crate) senders: Vec<Sending>,
    /// Nothing in it keeps a transfer from success.
    pub(crate) must_succeed: bool,
    /// Somebody without the key sees everything, and writes from every address.
    pub(crate) observed: bool,
    /// So many connections are idle, of somebody with the key.
    pub(crate) idle_connections: usize,
    /// A mistake that is put back.
    pub(crate) mutant: Option<Mutant>,
}

/// What came of a scenario.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) ending: Ending,
    pub(crate) succeeded: usize,
    /// When each sender that has succeeded knew it.
    pub(crate) done_ns: BTreeMap<usize, u64>,
    pub(crate) disk_failures: u64,
}

pub(super) fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Stream::named(seed, "content");
    std::iter::repeat_with(|| random.next_u64().to_le_bytes()).flatten().take(bytes).collect()
}

pub(super) fn settings(random: &mut Stream) -> Settings {
    let transport = match random.below(4) {
        0 => SocketTransport::Tcp(Algorithm::Cubic),
        1 => SocketTransport::Tcp(Algorithm::Reno),
        2 => SocketTransport::Atp,
        _ => SocketTransport::Tcp(Algorithm::Dctcp),
    };
    let mut contract = Contract::default();
    if random.below(4) == 0 && transport != SocketTransport::Atp {
        contract.min_share = 0.5 + random.unit() / 2.0;
    }
    let flow = FlowSettings { transport, contract, ..FlowSettings::default() };
    let keys = Keys::Preshared([7; 32]);
    let idle_timeout = Span::from_secs(20);
    Settings { flow, keys, idle_timeout, connect_timeout: Span::from_secs(20), ..Settings::default() }
}

fn link(random: &mut Stream) -> Link {
    let mut link = Link {
        delay_ns: 100_000 + random.below(30 * MS),
        rate: 5_000_000 << random.below(6),
        queue_ns: (5 + random.below(50)) * MS,
        ..Link::default()
    };
    if random.below(2) == 0 {
        link.loss = random.unit() * 0.04;
        link.duplicates = random.unit() * 0.05;
        link.corrupt = random.unit() * 0.02;
        link.jitter_ns = random.below(5 * MS);
    }
    if random.below(3) == 0 {
        let mut at = random.below(500 * MS);
        for _ in 0..random.below(4) {
            let until = at + random.below(2_000 * MS);
            link.down.push((at, until));
            at = until + random.below(3_000 * MS);
        }
    }
    link
}

pub(super) fn host(random: &mut Stream) -> HostConfig {
    let mut host = HostConfig { link: link(random), ..HostConfig::default() };
    if random.below(4) == 0 {
        let time_of_day = (random.below(7_200_000) as i64 - 3_600_000) * MS as i64;
        host.jumps.push((random.below(2_000 * MS), random.below(3_000 * MS), time_of_day));
    }
    host
}

/// A disk that fills, that fails once, or that fails once and is slow.
pub(super) fn faults_of_disk(random: &mut Stream) -> DiskFaults {
    let fails = (DiskKind::ALL[random.below(5) as usize], random.below(4));
    match random.below(3) {
        0 => DiskFaults { free_bytes: random.below(800_000), ..DiskFaults::default() },
        1 => DiskFaults { delay_ns: random.below(50 * MS), fails: Some(fails), ..DiskFaults::default() },
        _ => DiskFaults { fails: Some(fails), ..DiskFaults::default() },
    }
}

impl Scenario {
    /// Links that lose, delay, repeat and flap, addresses and clocks that change, and disks that fail in every second world.
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = Stream::named(seed, "scenario");
        let mut receiver = host(&mut random);
        let faulty = random.below(2) == 0;
        if faulty {
            receiver.disk = faults_of_disk(&mut random);
        } else {
            receiver.disk.delay_ns = random.below(20 * MS);
            if random.below(4) == 0 {
                receiver.disk.sync_ns = random.below(40_000 * MS);
            }
        }
        let count = 1 + random.below(3);
        let senders = (0..count).map(|number| {
            let mut host = host(&mut random);
            if random.below(4) == 0 {
                host.rebinds.push(random.below(3_000 * MS));
            }
            let largest = 1 << (10 + random.below(11));
            let mut sending = Sending {
                name: format!("file-{number}"),
                bytes: random.below(largest) as usize,
                files: 0,
                begins_ns: random.below(1_000 * MS),
                host,
                settings: settings(&mut random),
                occupied: random.below(8) == 0,
            };
            let mut directories = Stream::named(seed + number, "directories");
            if directories.below(6) == 0 && sending.settings.flow.transport != SocketTransport::Atp {
                (sending.files, sending.bytes) = (1 + directories.below(8) as usize, sending.bytes / 8);
            }
            sending
        });
        let senders = senders.collect();
        let observed = random.below(3) == 0;
        let idle_connections = if random.below(6) == 0 { random.below(128) as usize } else { 0 };
        let receiver_settings = settings(&mut random);
        // Who calls after that finds nobody.
        let mut moves = Stream::named(seed, "moves of the receiver");
        let moved = moves.below(8) == 0;
        if moved {
            receiver.rebinds.push(moves.below(4_000 * MS));
        }
        Self {
            seed,
            receiver,
            receiver_settings,
            senders,
            observed,
            idle_connections,
            must_succeed: !faulty && !moved,
            mutant: None,
        }
    }

    /// Runs it, and says what is wrong if anything is.
    pub(crate) fn run(&self) -> Result<Report, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let target = directory.path().join("target");
        std::fs::create_dir(&target).map_err(|error| error.to_string())?;
        let world = World::new(self.seed, LONGEST, self.mutant);
        let receiver = world.add_host(self.receiver.clone());
        let received = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let to = World::address(receiver, PORT);
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        {
            let (received, target, stop, settings) =
                (received.clone(), target.clone(), stop.clone(), self.receiver_settings.clone());
            tasks.push(world.spawn(receiver, "receiver", 0, true, move |_| {
                let receiver = Receiver::bind(to, settings).unwrap();
                let each = |result| received.lock().unwrap().push(result);
                let _ = receiver.serve(&Target::Directory(target), None, &stop, |_| {}, each);
            }));
        }
        let gains = self.attack(&world, &directory.path().join("other"), to);
        let left = Arc::new(Mutex::new(self.senders.len()));
        for (number, sending) in self.senders.iter().enumerate() {
            let host = world.add_host(sending.host.clone());
            let path = directory.path().join(&sending.name);
            self.write(number, &path).map_err(|error| error.to_string())?;
            if sending.occupied {
                std::fs::write(target.join(&sending.name), OCCUPANT).map_err(|error| error.to_string())?;
            }
            let (sent, settings, left, stop) = (sent.clone(), sending.settings.clone(), left.clone(), stop.clone());
            tasks.push(world.spawn(host, &sending.name, sending.begins_ns, true, move |world| {
                let result = send_file(&path, to, &settings);
                // What a power cut would leave at this moment is what the sender was promised.
                let lasting = world.lasting(receiver, &target_of(&path));
                sent.lock().unwrap().push(SentFile { number, result, lasting, done_ns: world.now_ns() });
                let mut left = left.lock().unwrap();
                *left -= 1;
                stop.store(*left == 0, Ordering::Relaxed);
            }));
        }
        let ending = world.run();
        for task in tasks {
            // What it had to say it has said.
            let _ = task.join();
        }
        if let Some(failure) = &ending.failure {
            return Err(failure.clone());
        }
        let (sent, received) = (sent.lock().unwrap(), received.lock().unwrap());
        for file in sent.iter() {
            self.check(file, &received, &target)?;
        }
        if let Some(gain) = gains.lock().unwrap().first() {
            return Err(gain.clone());
        }
        Ok(Report {
            ending,
            succeeded: sent.iter().filter(|file| file.result.is_ok()).count(),
            done_ns: sent.iter().filter(|file| file.result.is_ok()).map(|file| (file.number, file.done_ns)).collect(),
            disk_failures: world.disk_failures(receiver),
        })
    }

    /// Makes what a sender sends.
    fn write(&self, number: usize, path: &Path) -> std::io::Result<()> {
        let (sending, content) =
            (&self.senders[number], content(self.seed + number as u64, self.senders[number].bytes));
        if sending.files == 0 {
            return std::fs::write(path, content);
        }
        std::fs::create_dir(path)?;
        (0..sending.files).try_for_each(|file| std::fs::write(path.join(file.to_string()), &content))
    }

    /// Lets its attackers loose, and notes what they gain.
    fn attack(&self, world: &Arc<World>, other_target: &Path, receiver: SocketAddr) -> Gains {
        let gains = Gains::default();
        if self.observed {
            let other = world.add_host(HostConfig::default());
            let address = World::address(other, PORT);
            let (settings, target) = (self.receiver_settings.clone(), Target::Directory(other_target.into()));
            world.spawn(other, "other receiver", 0, false, move |_| {
                let receiver = Receiver::bind(address, settings).unwrap();
                let _ = receiver.serve(&target, None, &AtomicBool::new(false), |_| {}, |_| {});
            });
            let host = world.add_host(HostConfig::default());
            let random = Stream::named(self.seed, "observer");
            let observer = Observer { random, receiver, other: address, gains: gains.clone() };
            world.spawn(host, "observer", 0, false, move |world| observer.run(world));
        }
        if self.idle_connections > 0 {
            let host = world.add_host(HostConfig::default());
            let keys = self.receiver_settings.keys.clone();
            let content = Announcement {
                kind: Kind::Test,
                name: "idle".into(),
                size: Some(1 << 60),
                partial: false,
                hashed: false,
                min_delivery: 1.0,
                message_bytes: None,
                identity: None,
            };
            let opening = Opening { offers: vec![Protocol::Tcp], mtu: 1200, content: content.encode() }.encode();
            let idler = Idler { receiver, keys, opening, connections: self.idle_connections };
            world.spawn(host, "idler", 0, false, move |_| idler.run());
        }
        gains
    }

    /// Success means success: who says so has its file in its place, with its bytes, for good. Who does not, has a receiver
    /// that does not either, or knows that it cannot know.
    fn check(
        &self,
        file: &SentFile,
        received: &[Result<Received, TransferError>],
        target: &Path,
    ) -> Result<(), String> {
        let sending = &self.senders[file.number];
        let expected = content(self.seed + file.number as u64, sending.bytes);
        let name = &sending.name;
        let placed = received.iter().flatten().find(|received| received.name == *name);
        let found = read(&target.join(name));
        if sending.occupied {
            let untouched = found.as_deref() == Some(OCCUPANT) && file.result.is_err();
            return if untouched { Ok(()) } else { Err(format!("{name}: it took another file's place")) };
        }
        let expected = expected.repeat(sending.files.max(1));
        if found.as_ref().is_some_and(|found| *found != expected) {
            return Err(format!("{name}: other bytes are in its place"));
        }
        if placed.is_some() && found.is_none() {
            return Err(format!("{name}: the receiver says it is in its place, and it is not"));
        }
        match &file.result {
            Ok(_) if found.is_none() => Err(format!("{name}: the sender says success, and nothing is in its place")),
            Ok(_) if file.lasting != Some(Lasting::Everything) => {
                Err(format!("{name}: the sender says success, and a power cut leaves {:?}", file.lasting))
            }
            Ok(_) if placed.is_none() => Err(format!("{name}: the sender says success, the receiver does not")),
            Ok(_) if self.must_succeed && file.done_ns > sending.begins_ns + LONGEST_HONEST_NS => {
                Err(format!("{name}: it took until {} ms", file.done_ns / MS))
            }
            Err(error) if self.must_succeed => Err(format!("{name}: {error}")),
            // A sender that has heard nothing of a content that is across cannot know; and two that have both moved before
            // either was heard do not find each other.
            Err(error)
                if placed.is_some()
                    && !matches!(error, TransferError::Unconfirmed { .. })
                    && (sending.host.rebinds.is_empty() || self.receiver.rebinds.is_empty()) =>
            {
                Err(format!("{name}: it is in its place, and its sender says: {error}"))
            }
            _ => Ok(()),
        }
    }
}

/// Sends `bytes` to a receiver that acknowledges what it has not got. Wrong is whatever does not name the lie, or says it
/// late: until then the sender goes faster than the network bears.
pub(crate) fn send_to_a_liar(seed: u64, bytes: usize, mutant: Option<Mutant>) -> Result<Ending, String> {
    let (ending, error) = send_in_vain(seed, bytes, 0, Lies { ahead: 3000, ..Lies::default() }, mutant)?;
    let noticed = error.contains("acknowledges what it has not got");
    if noticed { Ok(ending) } else { Err(format!("the sender does not notice: {error}")) }
}

/// How a receiver lies: it acknowledges so many more bytes, says that it has so much already, and that it is at work for ever.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lies {
    pub(crate) ahead: u64,
    pub(crate) note: u64,
    pub(crate) at_work: bool,
}

/// Sends a file of `bytes`, or a directory of so many files of these bytes, if any, to a receiver that lies, and never says
/// a word of what it has got. What the sender ends with.
pub(crate) fn send_in_vain(
    seed: u64,
    bytes: usize,
    files: usize,
    lies: Lies,
    mutant: Option<Mutant>,
) -> Result<(Ending, String), String> {
    let mut random = Stream::named(seed, "liar");
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = directory.path().join("sent");
    let written = if files == 0 {
        std::fs::write(&path, content(seed, bytes))
    } else {
        let file = |number| std::fs::write(path.join(format!("{number}")), content(seed, bytes));
        std::fs::create_dir(&path).and_then(|()| (0..files).try_for_each(file))
    };
    written.map_err(|error| error.to_string())?;
    let world = World::new(seed, LONGEST, mutant);
    let liar = world.add_host(HostConfig { link: link(&mut random), ..HostConfig::default() });
    let honest = world.add_host(HostConfig::default());
    let address = World::address(liar, PORT);
    let mut settings = settings(&mut random);
    settings.flow = FlowSettings { transport: SocketTransport::Tcp(Algorithm::Cubic), ..FlowSettings::default() };
    let Lies { ahead, note, at_work } = lies;
    let lying = Liar { address, settings: settings.clone(), ahead, note, at_work };
    world.spawn(liar, "liar", 0, false, move |_| lying.run());
    let sending = world.spawn(honest, "sender", 0, true, move |_| send_file(&path, address, &settings));
    let ending = world.run();
    let sent = sending.join().ok().flatten();
    match (&ending.failure, sent) {
        (Some(failure), _) => Err(failure.clone()),
        (None, Some(Err(error))) => Ok((ending, error.to_string())),
        (None, _) => Err("the sender says success".into()),
    }
}

struct SentFile {
    number: usize,
    result: Result<Sent, TransferError>,
    lasting: Option<Lasting>,
    done_ns: u64,
}

/// The bytes of a file, or of all files of a directory.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(path) else { return std::fs::read(path).ok() };
    entries.map(|entry| std::fs::read(entry.ok()?.path()).ok()).collect::<Option<Vec<_>>>().map(|files| files.concat())
}

fn target_of(path: &Path) -> PathBuf {
    path.with_file_name("target").join(path.file_name().unwrap_or_default())
}

fn send_file(path: &Path, to: SocketAddr, settings: &Settings) -> Result<Sent, TransferError> {
    send(Source::open(path)?, to, settings, &AtomicBool::new(false), |_| {}, |_| {})
}
