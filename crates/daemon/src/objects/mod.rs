//! Files that this host offers, and files that its programs fetch from all sources at once.
//!
//! Offered folders are checked every few seconds, also those with [everything in them](folders). A file that a program
//! requests at the [door](door) on loopback comes from a folder or the cache, or is fetched into the cache from all
//! sources. It is served block by block, each once it is verified. Everything in the cache, complete or not, is offered
//! to the other sources in turn. The cache has a limit, and the least recently requested files are removed first. Images
//! of containers are pulled at the same door, as from a [registry].

mod absent;
mod ahead;
mod asker;
mod cache;
pub(crate) mod door;
mod folders;
mod image;
pub(crate) mod name;
mod no_file;
pub(crate) mod range;
mod registry;
mod response;
mod walks;
mod watch;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_mirror::{HttpMirror, MirrorUrl, S3Access};
use pliant_net::connection::{KeyUpdates, Keys};
use pliant_net::flow::{FlowSettings, SocketTransport};
use pliant_net::transfer::{
    self, FileSelector, FolderFile, FolderIndex, Hash, HeldFile, Limits, Mirror, Offer, Offered, OfferedFiles,
    Settings, Target, TransferError, WantedFile,
};
use pliant_proto::congestion::Algorithm;
use pliant_proto::time::Span;
use tokio::sync::{Semaphore, watch as channel};
use tokio::time::Instant;

use self::absent::AbsentSources;
use self::asker::{Asker, LastTable};
use self::cache::Cache;
use self::folders::{FolderState, Listings, MAX_LISTING_BYTES, OfferedFolder, listing_name};
use self::image::layout::Descriptor;
use self::image::tags::{self, MAX_TAG_FILE_BYTES, Tags};
use self::image::{Verifications, Verified};
pub(crate) use self::no_file::NoFile;
use self::walks::Walks;
use crate::config::{Config, ConfigError, FolderConfig, ObjectsConfig};
use crate::log::Told;
use crate::mutex::lock;
use crate::places::{Place, Places};

/// Most fetches at a time, which the users of this host share.
const MAX_FETCHES: usize = 16;
/// Most parts of files that are fetched ahead of the rest at a time.
const MAX_PARTS_AHEAD: usize = 4;
/// Most blobs of images that are read at a time to verify them.
const MAX_HASHED: usize = 4;
/// Folder in the cache for the descriptors of images.
const TAGS: &str = ".tags";
/// How long a source may take to answer while a program waits.
const CONNECT_TIMEOUT: Span = Span::from_secs(5);

/// The result of a fetch.
type Outcome = Option<Result<(), NoFile>>;

/// A running fetch.
#[derive(Clone)]
struct Fetch {
    outcome: channel::Receiver<Outcome>,
}

/// The files of a daemon.
pub(crate) struct Objects {
    files: OfferedFiles,
    cache: Cache,
    config: ObjectsConfig,
    mirrors: Vec<Arc<dyn Mirror>>,
    address: SocketAddr,
    /// Settings of fetches that begin from now on.
    settings: Mutex<Settings>,
    key_updates: Arc<KeyUpdates>,
    fetches: Mutex<HashMap<String, Fetch>>,
    /// Limits fetches.
    fetching: Arc<Places>,
    /// Whose programs ask.
    askers: LastTable,
    verified: Verified,
    /// Verifications of blobs that are under way, and how many are read for them at a time.
    verifying: Verifications,
    hashing: Semaphore,
    absent: AbsentSources,
    /// Offered folders, and listings of folders that programs ask for.
    folders: Mutex<Vec<OfferedFolder>>,
    listings: Listings,
    /// Limits parts that are fetched ahead, and which files of folders were asked for last.
    ahead: Arc<Places>,
    walks: Walks,
    /// Limits requests for the descriptors of images and for listings, and manifests that are read.
    asking: Arc<Places>,
    reading: Semaphore,
    /// What was said of fetches.
    told: Told,
    /// Ends all threads.
    stop: AtomicBool,
    /// Why a thread has ended before that.
    failure: channel::Sender<Option<String>>,
}

impl Objects {
    /// Binds the socket for offered files, and begins to offer.
    pub(crate) fn start(config: &Config) -> Result<Option<Arc<Self>>, ConfigError> {
        let Some(objects) = config.objects.clone() else { return Ok(None) };
        let settings = settings(config, &objects);
        let key_updates = Arc::new(KeyUpdates::new(config.keys.clone()));
        let wrong = |why: String| config.wrong_line(objects.listen.line, why);
        let cache = Cache::open(&objects.cache, objects.cache_limit.0)
            .map_err(|error| ConfigError::File { path: objects.cache.clone(), error })?;
        let files = OfferedFiles::new();
        let offering = Settings { key_updates: Some(key_updates.clone()), ..settings.clone() };
        let offer =
            Offer::of(objects.listen.address, files.clone(), offering).map_err(|error| wrong(error.to_string()))?;
        let folder = |(name, folder): (&String, &FolderConfig)| {
            let filter = folder.filter().map_err(wrong);
            filter.map(|filter| OfferedFolder::new(name.clone(), folder.path.clone(), filter))
        };
        let folders = objects.folders.iter().map(folder).collect::<Result<_, ConfigError>>()?;
        let s3 = S3Access::from_environment();
        let mirror = |url: &MirrorUrl| Arc::new(HttpMirror::of_folder(url.clone(), s3.clone())) as Arc<dyn Mirror>;
        let this = Arc::new(Self {
            mirrors: objects.mirrors.iter().map(mirror).collect(),
            address: offer.address(),
            files,
            cache,
            config: objects,
            settings: Mutex::new(settings),
            key_updates,
            fetches: Mutex::default(),
            fetching: Places::new(MAX_FETCHES),
            askers: LastTable::default(),
            verified: Verified::default(),
            verifying: Verifications::default(),
            hashing: Semaphore::new(MAX_HASHED),
            absent: AbsentSources::default(),
            folders: Mutex::new(folders),
            listings: Listings::default(),
            ahead: Places::new(MAX_PARTS_AHEAD),
            walks: Walks::default(),
            asking: Places::new(MAX_FETCHES),
            reading: Semaphore::new(MAX_FETCHES),
            told: Told::default(),
            stop: AtomicBool::new(false),
            failure: channel::Sender::new(None),
        });
        let (serving, watching) = (this.clone(), this.clone());
        // It serves until it is stopped; that one receiver fails is that receiver's business.
        this.begin_thread(move || offer.serve(None, &serving.stop, |_| {}).map_err(|error| error.to_string()));
        this.begin_thread(move || {
            watching.watch();
            Ok(())
        });
        Ok(Some(this))
    }

    /// Begins a thread that ends when it is stopped.
    pub(crate) fn begin_thread(self: &Arc<Self>, work: impl FnOnce() -> Result<(), String> + Send + 'static) {
        let this = self.clone();
        std::thread::spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("it has panicked".to_owned()));
            if !this.stop.load(Ordering::Relaxed) {
                let why = ended.err().unwrap_or_default();
                this.failure.send_replace(Some(format!("a thread that offers files has ended: {why}")));
            }
        });
    }

    /// Waits until it cannot go on, and says why.
    pub(crate) async fn failed(&self) -> io::Error {
        let mut failure = self.failure.subscribe();
        // It fails only if the sender is gone, which is here.
        let why = failure.wait_for(Option::is_some).await.map_or(None, |why| why.clone());
        io::Error::other(why.unwrap_or_default())
    }

    /// Uses these keys and this class for new fetches and new callers.
    pub(crate) fn change(&self, config: &Config) {
        *lock(&self.settings) = settings(config, &self.config);
        // They were held against the first ones by the daemon's own socket.
        let _ = self.key_updates.put(config.keys.clone());
    }

    /// Ends everything.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Where files are offered.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many files are offered, and how many are being fetched.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.files.list().len(), lock(&self.fetches).len())
    }

    /// The state of its offered folders.
    pub(crate) fn folders(&self) -> Vec<FolderState> {
        lock(&self.folders).iter().map(|folder| folder.state(&self.files)).collect()
    }

    fn watch(&self) {
        let mut folders = watch::Folders::default();
        let mut tags = Tags::new(self.cache.folder().join(TAGS));
        while !self.stop.load(Ordering::Relaxed) {
            folders.look(&self.config.offer, &self.files);
            tags.look(&self.config.offer, &self.files);
            folders.look_at_cache(&self.cache, &self.files);
            for number in 0..self.config.folders.len() {
                self.look_at_folder(number);
            }
            for _ in 0..watch::INTERVAL_TICKS {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(watch::TICK);
            }
        }
    }

    /// Checks an offered folder. The others can be asked about meanwhile, because one may take long to read.
    fn look_at_folder(&self, number: usize) {
        let mut folder = lock(&self.folders)[number].clone();
        folder.look(Instant::now(), &self.files);
        lock(&self.folders)[number] = folder;
    }

    /// What is in a folder, here or at the sources.
    async fn folder(self: &Arc<Self>, name: &str, asker: &Asker) -> Result<Arc<FolderIndex>, NoFile> {
        let ask = || async {
            let place = self.place(&self.asking, asker).await?;
            let (this, name) = (self.clone(), listing_name(name));
            let asked = tokio::task::spawn_blocking(move || {
                let _place = place;
                let here = this.files.find(&FileSelector::Name(name.clone())).ok();
                this.small_file(here, name.clone(), MAX_LISTING_BYTES).inspect_err(|why| this.tell(&name, why))
            });
            asked.await.unwrap_or_else(|error| Err(NoFile::Failed(error.to_string())))
        };
        self.listings.find(Instant::now(), name, ask).await
    }

    /// A place among these for the user who asks.
    async fn place(&self, places: &Arc<Places>, asker: &Asker) -> Result<Place, NoFile> {
        places.take(asker.origin(&self.askers).await).ok_or(NoFile::Busy)
    }

    /// The requested file, by its hash if the configuration gives that.
    fn said(&self, file: &FileSelector) -> FileSelector {
        match file {
            FileSelector::Name(name) => self.config.hashes.get(name).copied().map(FileSelector::Hash),
            FileSelector::Hash(_) | FileSelector::Only => None,
        }
        .unwrap_or_else(|| file.clone())
    }

    /// What the requested file is, from here or as its sources say. Nothing of it is fetched.
    async fn describe(self: &Arc<Self>, file: &FileSelector, asker: &Asker) -> Result<Offered, NoFile> {
        let file = self.said(file);
        if let Ok(here) = self.files.find(&file) {
            return Ok(here.offered().clone());
        }
        self.require_someone_to_ask(&file)?;
        let place = self.place(&self.asking, asker).await?;
        let this = self.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let _place = place;
            this.ask_now(&file).inspect_err(|why| this.tell(&text_of(&file), why))
        });
        asked.await.unwrap_or_else(|error| Err(NoFile::Failed(error.to_string())))
    }

    /// What a file of a folder is, as the folder's listing says.
    fn describe_listed(&self, file: &FolderFile) -> Result<Offered, NoFile> {
        if let Ok(here) = self.files.find(&FileSelector::Hash(file.hash)) {
            return Ok(here.offered().clone());
        }
        if file.bytes > self.cache.limit() {
            return Err(NoFile::TooLarge(format!("it has {} bytes", file.bytes)));
        }
        Ok(Offered { bytes: file.bytes, hash: file.hash, name: String::new() })
    }

    /// The requested file, begun at least. Fetches it if it is not here.
    async fn open(self: &Arc<Self>, file: &FileSelector, asker: &Asker) -> Result<Arc<HeldFile>, NoFile> {
        let file = &self.said(file);
        loop {
            if let Ok(here) = self.files.find(file) {
                self.cache.note_use(here.path());
                return Ok(here);
            }
            let mut outcome = self.fetch(file, asker).await?.outcome;
            // It may be there before it is whole: it is looked for whenever something is.
            loop {
                if self.files.find(file).is_ok() {
                    break;
                }
                if let Some(outcome) = outcome.borrow_and_update().clone() {
                    outcome?;
                    break;
                }
                let _ = tokio::time::timeout(Duration::from_millis(20), outcome.changed()).await;
            }
        }
    }

    /// The file from the sources, as what is here of it cannot be read.
    async fn open_again(self: &Arc<Self>, unreadable: &HeldFile, asker: &Asker) -> Option<Arc<HeldFile>> {
        let hash = unreadable.offered().hash;
        let mut outcome = self.fetch(&FileSelector::Hash(hash), asker).await.ok()?.outcome;
        outcome.wait_for(Option::is_some).await.ok()?.clone()?.ok()?;
        let fetched =
            |file: &Arc<HeldFile>| file.offered().hash == hash && file.path().parent() == Some(self.cache.folder());
        self.files.list().into_iter().find(fetched)
    }

    /// The descriptor of an image's name, from here or from the sources. It may change, so it is requested each time.
    async fn tag(self: &Arc<Self>, image: &str, asker: &Asker) -> Result<Descriptor, NoFile> {
        let name = tags::file_name(image);
        let place = self.place(&self.asking, asker).await?;
        let this = self.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let _place = place;
            this.tag_now(name.clone()).inspect_err(|why| this.tell(&name, why))
        });
        asked.await.unwrap_or_else(|error| Err(NoFile::Failed(error.to_string())))
    }

    fn tag_now(&self, name: String) -> Result<Descriptor, NoFile> {
        // Those of the layouts here: another one would never change.
        let tags = self.cache.folder().join(TAGS);
        let is_it = |file: &Arc<HeldFile>| file.offered().name == name && file.path().parent() == Some(&tags);
        let here = self.files.list().into_iter().find(is_it);
        let (_, text) = self.small_file(here, name, MAX_TAG_FILE_BYTES)?;
        tags::read(&text).ok_or_else(|| NoFile::Failed("what the sources agree on is no descriptor".to_owned()))
    }

    /// The addresses of all sources.
    fn sources(&self) -> Vec<SocketAddr> {
        self.config.sources.values().copied().collect()
    }

    /// The hash and the content of a file of at most this many bytes: of the one here, or from the sources. It is not kept.
    fn small_file(&self, here: Option<Arc<HeldFile>>, name: String, most: u64) -> Result<(Hash, Vec<u8>), NoFile> {
        let failed = |error: std::io::Error| NoFile::Failed(error.to_string());
        if let Some(here) = here {
            let offered = here.offered();
            if offered.bytes > most {
                return Err(NoFile::Failed(format!("it has {} bytes, at most {most} are read", offered.bytes)));
            }
            let mut content = vec![0; offered.bytes as usize];
            let read = here.read_at(0, &mut content).map_err(failed)?;
            content.truncate(read);
            return Ok((offered.hash, content));
        }
        let sources = self.sources();
        if sources.is_empty() {
            return Err(NoFile::Unknown("it is not here, and there are no sources".to_owned()));
        }
        let mut settings = lock(&self.settings).clone();
        settings.limits = Limits { max_bytes: most, ..Limits::default() };
        let folder = self.cache.temporary().map_err(failed)?;
        let path = folder.path().join("content");
        let wanted = WantedFile { name: Some(name), ..WantedFile::default() };
        let asked = self.absent.without(Instant::now(), &sources);
        let target = Target::File(path.clone());
        let fetched = transfer::fetch(&asked, wanted, &target, &settings, &self.stop, |_| {}, |_| {});
        let fetched = fetched.map_err(|error| match error {
            // The cache is not what it does not fit into.
            TransferError::TooLarge { .. } => NoFile::Failed(error.to_string()),
            error => self.no_file(error),
        })?;
        self.absent.note(Instant::now(), fetched.elapsed, &fetched.sources);
        Ok((fetched.hash, std::fs::read(&path).map_err(failed)?))
    }

    /// Withdraws a file and removes it from the cache, because it is not what its name says.
    fn forget(&self, file: &HeldFile) {
        self.files.retain(|other| other.path() != file.path());
        self.cache.remove(file.path());
    }

    /// Begins to fetch a file, unless a fetch is running.
    async fn fetch(self: &Arc<Self>, file: &FileSelector, asker: &Asker) -> Result<Fetch, NoFile> {
        let key = key_of(file).ok_or_else(|| NoFile::Unknown("which file is not said".to_owned()))?;
        self.require_someone_to_ask(file)?;
        if let Some(fetch) = lock(&self.fetches).get(&key) {
            return Ok(fetch.clone());
        }
        let place = self.place(&self.fetching, asker).await?;
        Ok(self.begin(key, file, place))
    }

    /// Refuses a file that is not here, if there is no source, and no mirror that has a name for it.
    fn require_someone_to_ask(&self, file: &FileSelector) -> Result<(), NoFile> {
        let by_mirrors = matches!(file, FileSelector::Hash(hash) if self.name_of(*hash).is_some());
        if self.config.sources.is_empty() && (self.mirrors.is_empty() || !by_mirrors) {
            let why = "it is not here, and there are no sources that could say what it is";
            return Err(NoFile::Unknown(why.to_owned()));
        }
        Ok(())
    }

    /// Begins to fetch a file in this place, unless somebody has begun it meanwhile.
    fn begin(self: &Arc<Self>, key: String, file: &FileSelector, place: Place) -> Fetch {
        let mut fetches = lock(&self.fetches);
        if let Some(fetch) = fetches.get(&key) {
            return fetch.clone();
        }
        let (tell, outcome) = channel::channel(None);
        let fetch = Fetch { outcome };
        fetches.insert(key.clone(), fetch.clone());
        let (this, file) = (self.clone(), file.clone());
        std::thread::spawn(move || {
            // A panic would keep the place, and whoever waits, for ever.
            let fetched = catch_unwind(AssertUnwindSafe(|| this.fetch_now(&file)));
            let fetched = fetched.unwrap_or_else(|_| Err(NoFile::Failed("its fetch has panicked".to_owned())));
            let outcome = fetched.inspect_err(|why| this.tell(&text_of(&file), why));
            lock(&this.fetches).remove(&key);
            drop(place);
            tell.send_replace(Some(outcome));
        });
        fetch
    }

    /// The fetch by which a file comes that is not whole, if it is known by the file's hash or name.
    fn fetch_of(&self, file: &HeldFile) -> Option<Fetch> {
        let Offered { hash, name, .. } = file.offered();
        let fetches = lock(&self.fetches);
        let keys = [FileSelector::Hash(*hash), FileSelector::Name(name.clone())];
        keys.iter().filter_map(key_of).find_map(|key| fetches.get(&key).cloned())
    }

    /// Says why a file cannot be had, which a program may not hear any more. What nobody has is no failure.
    fn tell(&self, file: &str, why: &NoFile) {
        let (NoFile::Failed(why) | NoFile::TooLarge(why)) = why else { return };
        if !self.stop.load(Ordering::Relaxed) {
            self.told.tell("objects", &format!("{file}: {why}"));
        }
    }

    /// Why a file is not had. That no source answers names them all.
    fn no_file(&self, error: TransferError) -> NoFile {
        let TransferError::NoAnswer { timeout, .. } = error else { return error.into() };
        let asked = self.config.sources.iter().map(|(name, address)| format!("{name} at {address}"));
        let asked = asked.collect::<Vec<_>>().join(", ");
        NoFile::Failed(format!("no source answers within {timeout}; asked were {asked}"))
    }

    /// The name of the file with this hash, if the configuration gives it.
    fn name_of(&self, hash: Hash) -> Option<String> {
        self.config.hashes.iter().find(|(_, said)| **said == hash).map(|(name, _)| name.clone())
    }

    /// A file as sources and mirrors are asked for it.
    fn wanted(&self, file: &FileSelector) -> WantedFile {
        let (hash, name) = match file {
            FileSelector::Hash(hash) => (Some(*hash), self.name_of(*hash)),
            FileSelector::Name(name) => (None, Some(name.clone())),
            FileSelector::Only => (None, None),
        };
        WantedFile { hash, name, mirrors: self.mirrors.clone(), ..WantedFile::default() }
    }

    fn ask_now(&self, file: &FileSelector) -> Result<Offered, NoFile> {
        let sources = self.sources();
        let mut settings = lock(&self.settings).clone();
        settings.limits = Limits { max_bytes: self.cache.limit(), ..Limits::default() };
        let asked = self.absent.without(Instant::now(), &sources);
        let asked = transfer::ask(&asked, self.wanted(file), &settings, &self.stop);
        let asked = asked.map_err(|error| self.no_file(error))?;
        self.absent.note(Instant::now(), asked.elapsed, &asked.sources);
        Ok(Offered { bytes: asked.bytes, hash: asked.hash, name: asked.name })
    }

    fn fetch_now(&self, file: &FileSelector) -> Result<(), NoFile> {
        let (sources, wanted) = (self.sources(), self.wanted(file));
        let (peers, offered_in) = (sources.clone(), Some(self.files.clone()));
        // Else its sources would choose which name it has here, and who asks for that name next would get it without a vote.
        let kept_as = wanted.hash.map(|hash| wanted.name.clone().unwrap_or_else(|| hash.to_string()));
        let wanted = WantedFile { kept_as, peers, offered_in, ..wanted };
        let target = Target::Directory(self.cache.folder().to_owned());
        let room = self.cache.make_room(0, &self.files);
        let mut settings = lock(&self.settings).clone();
        settings.limits = Limits { max_bytes: room, ..Limits::default() };
        let fetched = loop {
            let asked = self.absent.without(Instant::now(), &sources);
            let fetched = transfer::fetch(&asked, wanted.clone(), &target, &settings, &self.stop, |_| {}, |_| {});
            match fetched {
                // Somebody fetches the same content under another name, and offers it in a moment.
                Err(TransferError::CannotBeOffered) if !self.stop.load(Ordering::Relaxed) => {
                    std::thread::sleep(watch::TICK);
                }
                fetched => break fetched.map_err(|error| self.no_file(error))?,
            }
            if self.files.find(file).is_ok() {
                return Ok(());
            }
        };
        self.absent.note(Instant::now(), fetched.elapsed, &fetched.sources);
        if let Some(path) = &fetched.path {
            self.cache.note_use(path);
        }
        self.cache.make_room(0, &self.files);
        Ok(())
    }
}

/// Under what a fetch of this file is known.
fn key_of(file: &FileSelector) -> Option<String> {
    match file {
        FileSelector::Hash(hash) => Some(hash.to_string()),
        FileSelector::Name(name) => Some(format!("/{name}")),
        FileSelector::Only => None,
    }
}

/// What a program has asked for.
fn text_of(file: &FileSelector) -> String {
    match file {
        FileSelector::Hash(hash) => hash.to_string(),
        FileSelector::Name(name) => name.clone(),
        FileSelector::Only => String::new(),
    }
}

/// Waits for the end of the fetch by which a file came, and says why it does not.
async fn why(fetch: Option<Fetch>, error: &io::Error) -> NoFile {
    if let Some(mut fetch) = fetch
        && let Ok(outcome) = fetch.outcome.wait_for(Option::is_some).await
        && let Some(Err(why)) = outcome.as_ref()
    {
        return why.clone();
    }
    NoFile::Failed(error.to_string())
}

/// The settings for fetching and offering files: under the configured class.
fn settings(config: &Config, objects: &ObjectsConfig) -> Settings {
    let class = config.classes.iter().find(|class| class.name == objects.class);
    let flow = class.map(|class| class.flow.clone()).unwrap_or_default();
    let transport = SocketTransport::Tcp(Algorithm::WeightedFair);
    let keys: Keys = config.keys.clone();
    Settings {
        flow: FlowSettings { transport, ..flow },
        keys,
        called: objects.called.clone(),
        overwrite: true,
        connect_timeout: CONNECT_TIMEOUT,
        ..Settings::default()
    }
}
