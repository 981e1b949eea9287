//! A running daemon.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pliant_net::bundle::{BundleEnd, BundleNode, BundleReport};
use pliant_net::clock::time_of_day;
use pliant_net::transfer::Settings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::change::{bind, open};
use crate::config::{Config, ConfigError, LedgerFile};
use crate::control::{ControlSocket, Status};
use crate::doors::preload::PreloadDoor;
use crate::log::Told;
use crate::lossy::LossyExit;
use crate::lossy::journal::Ledgers;
use crate::objects::Objects;
use crate::shared::Shared;
use crate::{change, exit};

/// How often the counters of bundles are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the ledger of Kafka records is synced to the disk. This is what a loss of power can lose.
const LEDGER_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Lets this process open as many descriptors as it may: each connection takes one, and the usual limit is 1,024. Without the
/// right it stays so.
pub fn use_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A daemon whose sockets are open.
pub struct Daemon {
    shared: Arc<Shared>,
    /// They end with it.
    _tasks: JoinSet<()>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.shared.close_doors();
        self.shared.stop_objects();
    }
}

impl Daemon {
    /// Opens all sockets and begins to serve. When it is dropped, it ends, and all its connections with it.
    ///
    /// # Errors
    ///
    /// If something cannot listen where the configuration says; the error names the line.
    pub async fn start(config: Config) -> Result<Self, ConfigError> {
        let settings = Settings { keys: config.keys.clone(), called: config.called.clone(), ..Settings::default() };
        let (node, streams) = BundleNode::bind(config.listen.address, settings, config.classes_at(time_of_day()))
            .map_err(|error| config.cannot_listen(&config.listen, &error))?;
        let mut listeners = Vec::new();
        for door in &config.doors {
            listeners.push(bind(&config, door).await?);
        }
        let control = config.control.as_deref().map(|path| ControlSocket::bind(&config, path)).transpose()?;
        let preload = config.preload.as_ref().map(|preload| PreloadDoor::bind(&config, preload)).transpose()?;
        let objects = Objects::start(&config)?;
        let lossy = match &config.kafka_ledger {
            Some(LedgerFile { path, line }) => {
                let wrong = |error| config.wrong_line(*line, format!("{}: {error}", path.display()));
                Some(LossyExit::new(Ledgers::open(path).map_err(wrong)?))
            }
            None => None,
        };
        let (doors, ends) = (config.doors.clone(), node.follow_ends());
        let shared = Shared::new(node, config, objects, lossy);
        let mut tasks = JoinSet::new();
        for (door, listener) in doors.into_iter().zip(listeners) {
            let opened = open(door, listener, &shared);
            shared.doors().push(opened);
        }
        tasks.spawn(exit::serve(streams, shared.clone()));
        tasks.spawn(sample(shared.clone()));
        tasks.spawn(tell_ends(ends, shared.clone()));
        tasks.spawn(change::follow_schedules(shared.clone()));
        if shared.lossy.is_some() {
            tasks.spawn(sync_ledgers(shared.clone()));
        }
        if shared.objects.is_some() {
            tasks.spawn(watch_objects(shared.clone()));
        }
        if let Some(preload) = preload {
            shared.set_preload(tokio::spawn(preload.serve(shared.clone())).abort_handle());
        }
        if let Some(control) = control {
            tasks.spawn(control.serve(shared.clone()));
        }
        Ok(Self { shared, _tasks: tasks })
    }

    /// The UDP socket's address.
    pub fn address(&self) -> SocketAddr {
        self.shared.node.local_address()
    }

    /// Where it offers files, if it does.
    pub fn objects(&self) -> Option<SocketAddr> {
        self.shared.objects.as_ref().map(|objects| objects.address())
    }

    /// Addresses of its doors, in the order of the configuration: forwards, Kafka doors, the proxy, metrics, objects.
    pub fn doors(&self) -> Vec<SocketAddr> {
        self.shared.doors().iter().map(|door| door.local).collect()
    }

    /// The socket for programs with the preload library, if it has one.
    pub fn preload_socket(&self) -> Option<PathBuf> {
        self.shared.config().preload.as_ref().map(|preload| preload.socket.clone())
    }

    /// Its control socket, if it has one.
    pub fn control(&self) -> Option<PathBuf> {
        self.shared.config().control.clone()
    }

    /// The state of its bundles.
    pub fn reports(&self) -> Vec<BundleReport> {
        self.shared.node.reports()
    }

    /// The state of everything.
    pub fn status(&self) -> Status {
        Status::of(&self.shared)
    }

    /// Reads its file again and follows it from now on. No connection ends because of this.
    ///
    /// # Errors
    ///
    /// If the file has a mistake, or a change that needs a restart. Then nothing changes.
    pub async fn reload(&self) -> Result<(), ConfigError> {
        change::reload(&self.shared).await
    }

    /// The configured limit of a drain.
    pub fn drain_limit(&self) -> Duration {
        self.shared.config().drain
    }

    /// Takes no more connections and waits until the last has ended, at most `limit`. Returns how many are left.
    pub async fn drain(&self, limit: Duration) -> usize {
        self.shared.drain(limit).await
    }

    /// Serves until a request on its control socket has drained it.
    ///
    /// # Errors
    ///
    /// If it cannot go on: a UDP socket of it has failed, or a thread that drives one has panicked.
    pub async fn run(&self) -> io::Result<()> {
        self.shared.ended().await
    }
}

/// Says which bundles end while they carry connections, and not by their peers' word.
async fn tell_ends(mut ends: UnboundedReceiver<BundleEnd>, shared: Arc<Shared>) {
    let told = Told::default();
    while let Some(end) = ends.recv().await {
        let name = end.name.clone().or_else(|| shared.config().peer_at(end.peer));
        let (part, what) = line_of(&end, name);
        told.tell_each(&part, &what);
    }
}

fn line_of(end: &BundleEnd, name: Option<String>) -> (String, String) {
    let BundleEnd { address, class, streams, why, .. } = end;
    let connections = if *streams == 1 { "connection" } else { "connections" };
    let part = format!("bundle {} {class}", name.unwrap_or_else(|| address.to_string()));
    (part, format!("{why}; {streams} {connections} cut"))
}

/// Syncs the ledger of records that were left out to the disk, without end.
async fn sync_ledgers(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(LEDGER_SYNC_INTERVAL).await;
        let shared = shared.clone();
        // A disk may take long.
        let sync = move || shared.lossy.as_ref().map(LossyExit::sync_ledgers);
        let _ = tokio::task::spawn_blocking(sync).await;
    }
}

/// The daemon ends if it cannot offer files any more.
async fn watch_objects(shared: Arc<Shared>) {
    if let Some(objects) = &shared.objects {
        let why = objects.failed().await;
        shared.fail(&why);
    }
}

/// Samples the counters of bundles, without end.
async fn sample(shared: Arc<Shared>) {
    loop {
        shared.sample(Instant::now());
        tokio::time::sleep(SAMPLE_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use pliant_net::bundle::ChangeBytes;
    use pliant_net::connection::Closed;
    use pliant_proto::time::Span;

    use super::*;

    /// Names are those of the status: by the key, by the file, or else the address.
    #[test]
    fn a_cut_is_one_line() {
        let end = |streams, why| {
            let (peer, address) = ("192.0.2.1:7411".parse().unwrap(), "192.0.2.7:7411".parse().unwrap());
            BundleEnd { peer, address, name: None, class: "backup".to_owned(), streams, why }
        };
        let line = |end: &BundleEnd, name: Option<&str>| {
            let (part, what) = line_of(end, name.map(str::to_owned));
            format!("{part}: {what}")
        };
        let silent = end(1, Closed::Silent(Span::from_secs(30)));
        assert_eq!(line(&silent, Some("far")), "bundle far backup: nothing heard for 30s; 1 connection cut");
        let reset = line(&end(2, Closed::Reset), None);
        assert_eq!(reset, "bundle 192.0.2.7:7411 backup: the peer was restarted; 2 connections cut");
    }

    /// Panics at the first byte, and at the end.
    struct Panics;

    impl ChangeBytes for Panics {
        fn take_from_socket(&mut self, _: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
            panic!("this is a test")
        }

        fn take_from_stream(&mut self, _: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
            Ok(())
        }

        fn passing(&self) -> usize {
            0
        }

        fn pass(&mut self, _: usize) {}
    }

    async fn start(folder: &Path, more: &str) -> Daemon {
        let key = folder.join("key");
        std::fs::write(&key, format!("preshared {}", "07".repeat(32))).unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        let text = format!(
            "listen = \"127.0.0.1:0\"\nkey = \"key\"\n[classes.bulk]\ntransport = \"cubic\"\n\
             [exit]\nallow = [\"127.0.0.1:1\"]\n{more}"
        );
        Daemon::start(Config::parse(&text, &folder.join("daemon.toml")).unwrap()).await.unwrap()
    }

    /// What cannot offer files any more ends as well. A thread that was asked to end is no reason.
    #[tokio::test]
    async fn a_thread_that_offers_files_and_ends_ends_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let objects = "[objects]\nlisten = \"127.0.0.1:0\"\nclass = \"files\"\ncache = \"cache\"\n\
                       [classes.files]\ntransport = \"weighted-fair\"\n";
        let daemon = start(folder.path(), objects).await;
        daemon.shared.objects.as_ref().unwrap().begin_thread(|| panic!("this is a test"));
        let error = daemon.run().await.unwrap_err().to_string();
        assert_eq!(error, "a thread that offers files has ended: it has panicked");
    }

    /// A daemon without its thread carries nothing: it ends, so that it can be started again.
    #[tokio::test]
    async fn a_panic_of_the_nodes_thread_ends_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = start(folder.path(), "").await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let stream = daemon.shared.node.open(daemon.address(), "bulk", Vec::new()).unwrap();
        let carried = stream.carry_changed(listener.accept().unwrap().0.into(), Box::new(Panics));
        carried.await.unwrap_err();
        assert_eq!(daemon.run().await.unwrap_err().to_string(), "the node's thread has panicked");
    }
}
