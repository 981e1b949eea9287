//! Two daemons on loopback, and services.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(unreachable_pub, reason = "each test is a crate")]

use std::future::pending;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pliant_daemon::{Config, Daemon};
use pliant_net::bundle::BundleClass;
use pliant_net::connection::Keys;
use pliant_net::flow::FlowSettings;
use pliant_proto::contract::schedule::DaySchedule;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::{mpsc, oneshot};

/// A class without a contract, for a node of a few lines.
pub fn bundle_class(max_streams: usize) -> BundleClass {
    BundleClass {
        name: "bulk".to_owned(),
        flow: FlowSettings::default(),
        message_class: 0,
        message_line_rate: None,
        schedule: DaySchedule::default(),
        max_streams,
        window_budget: 16 << 20,
        max_unread: 64 << 20,
    }
}

/// Two daemons: programs connect to the doors of the first, services are at the second.
pub struct Pair {
    pub near: Daemon,
    pub far: Daemon,
    folder: tempfile::TempDir,
}

/// A way to a daemon that a test joins, cuts, and joins again under another address.
pub struct Way {
    /// Whoever is called here is reached by it.
    pub address: SocketAddr,
    changes: mpsc::UnboundedSender<(Option<UdpSocket>, oneshot::Sender<()>)>,
}

impl Way {
    /// A way that leads nowhere yet.
    pub async fn new() -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = front.local_addr().unwrap();
        let (changes, mut changed) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let (mut caller, mut back) = (None, None::<UdpSocket>);
            let (mut forth, mut answer) = (vec![0; 1 << 16], vec![0; 1 << 16]);
            loop {
                let answered = async {
                    match &back {
                        Some(back) => back.recv(&mut answer).await,
                        None => pending().await,
                    }
                };
                // What the kernel refuses is lost, as on any way.
                tokio::select! {
                    change = changed.recv() => {
                        let Some((joined, told)): Option<(_, oneshot::Sender<()>)> = change else { return };
                        back = joined;
                        let _ = told.send(());
                    }
                    received = front.recv_from(&mut forth) => {
                        let Ok((bytes, from)) = received else { continue };
                        caller = Some(from);
                        if let Some(back) = &back {
                            let _ = back.send(&forth[..bytes]).await;
                        }
                    }
                    received = answered => {
                        if let (Ok(bytes), Some(caller)) = (received, caller) {
                            let _ = front.send_to(&answer[..bytes], caller).await;
                        }
                    }
                }
            }
        });
        Self { address, changes }
    }

    /// Leads there from now on, from an address that it has not had. Returns that.
    pub async fn join(&self, to: SocketAddr) -> SocketAddr {
        self.join_from(([127, 0, 0, 1], 0).into(), to).await
    }

    /// The same from an address that it has had before it was cut.
    pub async fn join_from(&self, from: SocketAddr, to: SocketAddr) -> SocketAddr {
        let back = UdpSocket::bind(from).await.unwrap();
        back.connect(to).await.unwrap();
        let address = back.local_addr().unwrap();
        self.change(Some(back)).await;
        address
    }

    /// Nothing gets through from now on, nor what is under way.
    pub async fn cut(&self) {
        self.change(None).await;
    }

    async fn change(&self, back: Option<UdpSocket>) {
        let (told, done) = oneshot::channel();
        self.changes.send((back, told)).unwrap();
        done.await.unwrap();
    }
}

/// The class that both have.
pub const CLASS: &str = "[classes.bulk]\ntransport = \"dctcp\"\n";

impl Pair {
    /// `doors` are tables of the near side's file; the far side, `hostb`, allows `allow`.
    pub async fn new(doors: &str, allow: &str) -> Self {
        Self::with(&format!("{CLASS}{doors}"), &format!("{CLASS}[exit]\nallow = [{allow}]\n")).await
    }

    /// Both sides' files but for what every file has.
    pub async fn with(near: &str, far: &str) -> Self {
        Self::with_way(near, far, None).await
    }

    /// The same, where the near side calls the far one at another address than its own, if there is one.
    pub async fn with_way(near: &str, far: &str, way: Option<SocketAddr>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, format!("preshared {}", "0a".repeat(32))).unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        let far = start(folder.path(), "far", far).await;
        let peers = format!("[peers]\nhostb = \"{}\"\n", way.unwrap_or(far.address()));
        let near = start(folder.path(), "near", &format!("{peers}{near}")).await;
        Self { near, far, folder }
    }

    /// Starts the far side anew where it was.
    pub async fn restart_far(self, text: &str) -> Self {
        let Self { near, far, folder } = self;
        let listen = far.address().to_string();
        drop(far);
        let config = Config::read(&write_at(folder.path(), "far", &listen, text)).unwrap();
        // The one before lets its sockets go in its own time.
        let far = loop {
            match Daemon::start(config.clone()).await {
                Ok(far) => break far,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        Self { near, far, folder }
    }

    /// The near side's file is another from now on; it is not read yet.
    pub fn write_near(&self, text: &str) {
        let peers = format!("[peers]\nhostb = \"{}\"\n", self.far.address());
        write(self.folder.path(), "near", &format!("{peers}{text}"));
    }

    /// The near side's file as it is now.
    pub fn near_config(&self) -> Config {
        Config::read(&self.folder.path().join("near.toml")).unwrap()
    }

    pub fn write_far(&self, text: &str) {
        write(self.folder.path(), "far", text);
    }

    /// Another daemon like the near one. The text follows the table `peers`, so it begins with a table of its own.
    pub async fn another(&self, text: &str) -> Daemon {
        let peers = format!("[peers]\nhostb = \"{}\"\n", self.far.address());
        start(self.folder.path(), "another", &format!("{peers}{text}")).await
    }

    /// The same, which listens elsewhere.
    pub async fn another_at(&self, listen: &str, text: &str) -> Daemon {
        let peers = format!("[peers]\nhostb = \"{}\"\n", self.far.address());
        start_at(self.folder.path(), "another", listen, &format!("{peers}{text}")).await
    }

    /// The near side's control socket.
    pub fn control(&self) -> PathBuf {
        self.folder.path().join("run").join("near.sock")
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    write_at(folder, name, "127.0.0.1:0", text)
}

fn write_at(folder: &Path, name: &str, listen: &str, text: &str) -> PathBuf {
    let path = folder.join(format!("{name}.toml"));
    let head = format!("listen = \"{listen}\"\nkey = \"key\"\ncontrol = \"run/{name}.sock\"\n");
    std::fs::write(&path, head + text).unwrap();
    path
}

async fn start(folder: &Path, name: &str, text: &str) -> Daemon {
    start_at(folder, name, "127.0.0.1:0", text).await
}

async fn start_at(folder: &Path, name: &str, listen: &str, text: &str) -> Daemon {
    Daemon::start(Config::read(&write_at(folder, name, listen, text)).unwrap()).await.unwrap()
}

/// Runs it to its end.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// The private and the public key of a pair, in hexadecimal digits.
pub fn key_pair(seed: u8) -> (String, String) {
    let text = Keys::new_static([seed; 32]);
    let after = |word: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(word)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    (after("private "), after("public "))
}

/// A service that sends back what it gets, until the other side ends.
pub async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = tcp.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    address
}

/// A service that nobody serves. The port stays taken, or a door could get it.
pub fn closed() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}

/// A door to a service.
pub fn forward(target: SocketAddr) -> String {
    format!("[[forward]]\nlisten = \"127.0.0.1:0\"\nto = \"hostb\"\ntarget = \"{target}\"\nclass = \"bulk\"\n")
}

/// A proxy's door to all of loopback.
pub const PROXY: &str =
    "[proxy]\nlisten = \"127.0.0.1:0\"\n[[proxy.route]]\nhost = \"127.0.0.0/8\"\nto = \"hostb\"\nclass = \"bulk\"\n";

/// Sends all, ends, and reads what comes back until the end.
pub async fn exchange(mut tcp: TcpStream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let (mut from, mut to) = tcp.split();
    let mut back = Vec::new();
    let sending = async {
        to.write_all(bytes).await?;
        to.shutdown().await
    };
    tokio::try_join!(sending, from.read_to_end(&mut back))?;
    Ok(back)
}
