//! A file from many sources, some of which are wrong, change what they offer, or are not there.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;

use super::disk::Lasting;
use super::scenario::{LONGEST, MS, PORT, content, faults_of_disk, host, read, settings};
use super::schedule::{Ending, HostConfig, World};
use crate::seam::Mutant;
use crate::transfer::{FetchNews, Fetched, Offer, Settings, Target, TransferError, fetch};

const NAME: &str = "object";
/// A fetch of six megabytes over the worst of the links that may succeed is done by then.
const LONGEST_HONEST_NS: u64 = 300_000 * MS;

/// What one of the sources does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It has the file.
    Honest,
    /// It has another file, as do all with this role.
    Other,
    /// Its file gets other bytes after it was offered.
    Changed,
    /// Nobody is there.
    Absent,
}

/// A fetch and its sources.
#[derive(Clone, Debug)]
pub(crate) struct Fetching {
    pub(crate) seed: u64,
    pub(crate) bytes: usize,
    pub(crate) sources: Vec<(Role, HostConfig)>,
    pub(crate) receiver: HostConfig,
    pub(crate) settings: Settings,
    /// The user names the file by its hash.
    pub(crate) by_hash: bool,
    /// The disk fails.
    pub(crate) faulty: bool,
    /// A mistake that is put back.
    pub(crate) mutant: Option<Mutant>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct FetchReport {
    pub(crate) ending: Ending,
    pub(crate) succeeded: bool,
    /// Sources that were left out for what they sent.
    pub(crate) liars: usize,
    /// Bytes of symbols from all sources, needed or not, if it has succeeded.
    pub(crate) came_bytes: u64,
}

impl Fetching {
    /// One to four sources behind links as those of transfers, with disks that fail in every fourth world.
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = Stream::named(seed, "fetching");
        let sources: Vec<_> = (0..=random.below(4))
            .map(|_| {
                let role = match random.below(8) {
                    0 | 1 => Role::Other,
                    2 => Role::Changed,
                    3 => Role::Absent,
                    _ => Role::Honest,
                };
                (role, host(&mut random))
            })
            .collect();
        let mut receiver = host(&mut random);
        let faulty = random.below(4) == 0;
        if faulty {
            receiver.disk = faults_of_disk(&mut random);
        }
        if random.below(4) == 0 {
            receiver.rebinds.push(random.below(3_000 * MS));
        }
        let by_hash = random.below(2) == 0;
        let mut settings = settings(&mut random);
        settings.flow = Settings::default().flow;
        settings.idle_timeout = Span::from_secs(20);
        let bytes = random.below(6_000_000) as usize;
        Self { seed, bytes, sources, receiver, settings, by_hash, faulty, mutant: None }
    }

    fn count(&self, roles: &[Role]) -> usize {
        self.sources.iter().filter(|(role, _)| roles.contains(role)).count()
    }

    /// Which file may be fetched: the right one, the wrong one. One that changes its file votes for the right one, but brings
    /// none of it.
    fn may_win(&self) -> (bool, bool) {
        let (right, wrong) = (self.count(&[Role::Honest, Role::Changed]), self.count(&[Role::Other]));
        (self.by_hash || right > wrong, !self.by_hash && wrong > right)
    }

    /// Runs it, and says what is wrong if anything is.
    pub(crate) fn run(&self) -> Result<FetchReport, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let target = directory.path().join("target");
        std::fs::create_dir(&target).map_err(|error| error.to_string())?;
        let (right, wrong) = (content(self.seed, self.bytes), content(self.seed + 1, self.bytes + 1));
        let world = World::new(self.seed, LONGEST, self.mutant);
        let mut addresses = Vec::new();
        for (number, (role, config)) in self.sources.iter().enumerate() {
            let host = world.add_host(config.clone());
            let address = World::address(host, PORT);
            addresses.push(address);
            let folder = directory.path().join(number.to_string());
            let path = folder.join(NAME);
            let first = if *role == Role::Other { &wrong } else { &right };
            std::fs::create_dir(&folder)
                .and_then(|()| std::fs::write(&path, first))
                .map_err(|error| error.to_string())?;
            let (role, settings) = (*role, self.settings.clone());
            if role != Role::Absent {
                world.spawn(host, "source", 0, false, move |_| offer(role, address, &path, settings));
            }
        }
        let receiver = world.add_host(self.receiver.clone());
        let hash = self.by_hash.then(|| blake3::hash(&right));
        let (settings, place) = (self.settings.clone(), target.join(NAME));
        let task = world.spawn(receiver, "fetch", MS, true, move |world| {
            let target = Target::Directory(target);
            let mut lost = Vec::new();
            let result = fetch(
                &addresses,
                hash,
                &target,
                &settings,
                &AtomicBool::new(false),
                |_| {},
                |news| {
                    if let FetchNews::Lost(error) = news {
                        lost.push(error.to_string());
                    }
                },
            );
            if let Err(TransferError::File { error, .. }) = &result
                && let Some(blamed) = lost.iter().find(|lost| lost.contains(&error.to_string()))
            {
                return Err(format!("a source is blamed for this host's file: {blamed}"));
            }
            Ok((result, world.lasting(receiver, &target_of(&target)), world.now_ns()))
        });
        let ending = world.run();
        let ended = task.join().ok().flatten();
        if let Some(failure) = &ending.failure {
            return Err(failure.clone());
        }
        let (result, lasting, done_ns) = ended.ok_or("it has no result")??;
        self.check(&result, lasting, done_ns, read(&place).as_deref(), [&right, &wrong])?;
        let sources = result.as_ref().map_or(&[][..], |fetched| &fetched.sources);
        let lies = |lost: &String| lost.contains("that are not of the file");
        let liars = sources.iter().filter(|source| source.lost.as_ref().is_some_and(lies)).count();
        let symbol_bytes = u64::from(self.settings.flow.mtu);
        let came_bytes = sources.iter().map(|source| source.symbols * symbol_bytes).sum();
        Ok(FetchReport { ending, succeeded: result.is_ok(), liars, came_bytes })
    }

    /// Success means that the file is in its place, for good, and is the one that was asked for, or that most sources offer.
    fn check(
        &self,
        result: &Result<Fetched, TransferError>,
        lasting: Option<Lasting>,
        done_ns: u64,
        found: Option<&[u8]>,
        [right, wrong]: [&Vec<u8>; 2],
    ) -> Result<(), String> {
        let is_right = found == Some(right);
        if found.is_some() && !is_right && found != Some(wrong) {
            return Err(format!("{} bytes that nobody has offered are in its place", found.map_or(0, <[u8]>::len)));
        }
        let (right_may_win, wrong_may_win) = self.may_win();
        if found.is_some() && !(if is_right { right_may_win } else { wrong_may_win }) {
            return Err("a file is in its place that was not asked for, and that too few of the sources offer".into());
        }
        let must_succeed = !self.faulty && right_may_win && self.count(&[Role::Honest]) > 0;
        match result {
            Ok(_) if found.is_none() => Err("success is said, and nothing is in its place".into()),
            Ok(fetched) if fetched.hash != blake3::hash(found.unwrap_or_default()) => {
                Err("the hash that is said is not the file's".into())
            }
            Ok(_) if lasting != Some(Lasting::Everything) => {
                Err(format!("success is said, and a power cut leaves {lasting:?}"))
            }
            Ok(_) if must_succeed && done_ns > LONGEST_HONEST_NS => Err(format!("it took until {} ms", done_ns / MS)),
            Err(error) if must_succeed => Err(error.to_string()),
            Err(error) if found.is_some() && !self.faulty => {
                Err(format!("it is in its place, and what is said is: {error}"))
            }
            _ => Ok(()),
        }
    }
}

/// Where what is fetched is to lie.
fn target_of(target: &Target) -> std::path::PathBuf {
    match target {
        Target::Directory(folder) => folder.join(NAME),
        _ => unreachable!("a fetch of a world is into a folder"),
    }
}

fn offer(role: Role, address: SocketAddr, path: &Path, settings: Settings) {
    let offer = Offer::bind(address, path, settings).expect("a source listens");
    if role == Role::Changed {
        let mut bytes = std::fs::read(path).expect("it was offered");
        bytes.iter_mut().step_by(100_000).for_each(|byte| *byte ^= 1);
        std::fs::write(path, bytes).expect("it was offered");
    }
    let _ = offer.serve(None, &AtomicBool::new(false), |_| {});
}
