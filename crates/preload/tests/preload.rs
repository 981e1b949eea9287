//! Programs with the preload library, through two daemons on loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use pliant_daemon::{Config, Daemon, PRELOAD_CLASS_VARIABLE, PRELOAD_RULES_VARIABLE, PRELOAD_SOCKET_VARIABLE};
use rustix::net::sockopt::set_socket_linger;

/// The library, which cargo builds before its tests.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let file = folder.join("libpliant_preload.so");
    assert!(file.is_file(), "{} is missing", file.display());
    file
}

/// A service on loopback that does with each connection as `serve` says.
fn service(serve: fn(TcpStream) -> std::io::Result<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            std::thread::spawn(move || serve(tcp));
        }
    });
    address
}

/// Sends back what it gets, and `end` once its client has ended.
fn echo(mut tcp: TcpStream) -> std::io::Result<()> {
    std::io::copy(&mut tcp.try_clone()?, &mut tcp)?;
    tcp.write_all(b"end")?;
    tcp.shutdown(Shutdown::Write)
}

/// Resets its connection at the first byte.
fn reset(mut tcp: TcpStream) -> std::io::Result<()> {
    tcp.read_exact(&mut [0])?;
    set_socket_linger(&tcp, Some(Duration::ZERO))?;
    Ok(())
}

/// A port that nobody listens at, and stays taken.
fn closed() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}

/// Two daemons, and what a program needs to go by the first.
struct World {
    near: Daemon,
    _far: Daemon,
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    rules: String,
}

impl World {
    /// `services` go through the daemons; the exit allows `allowed`.
    fn new(services: &[&str], allowed: &[&str], limits: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, format!("preshared {}", "0a".repeat(32))).unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let start = |name: &str, text: &str| {
            let path = folder.path().join(format!("{name}.toml"));
            let head = "listen = \"127.0.0.1:0\"\nkey = \"key\"\n";
            std::fs::write(&path, format!("{head}{text}[classes.bulk]\ntransport = \"dctcp\"\n")).unwrap();
            runtime.block_on(Daemon::start(Config::read(&path).unwrap())).unwrap()
        };
        let far = start("far", &format!("[exit]\nallow = {allowed:?}\n"));
        let rule = |service: &_| format!("[[preload.rule]]\nservice = \"{service}\"\nto = \"far\"\nclass = \"bulk\"\n");
        let rules = services.iter().map(rule).collect::<Vec<_>>().concat();
        let preload = format!("[preload]\nsocket = \"preload.sock\"\n{rules}");
        let near = start("near", &format!("[peers]\nfar = \"{}\"\n{limits}{preload}", far.address()));
        Self { near, _far: far, runtime, folder, rules: services.join(" ") }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", library())
            .env(PRELOAD_SOCKET_VARIABLE, self.folder.path().join("preload.sock"))
            .env(PRELOAD_RULES_VARIABLE, &self.rules)
            .env(PRELOAD_CLASS_VARIABLE, "bulk");
        command
    }

    /// Streams that programs have opened so far.
    fn opened(&self) -> u64 {
        self.near.reports().iter().map(|report| report.counts.opened).sum()
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The C program of these tests.
fn semantics(folder: &Path) -> PathBuf {
    let program = folder.join("semantics");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/semantics.c");
    let built = Command::new("cc").args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source).output();
    let built = built.expect("a C compiler is there, or the dependencies would not be");
    assert!(built.status.success(), "{}", said(&built));
    program
}

/// What POSIX and Linux say of TCP sockets holds of those that the daemon hands over, and of all others: the same program runs
/// without the library, too.
#[test]
fn sockets_are_as_of_tcp() {
    let [echo_at, elsewhere] = [service(echo), service(echo)];
    let (reset_at, closed_at) = (service(reset), closed());
    let rule = |address: SocketAddr| address.to_string();
    let unreachable = "255.255.255.255:9".to_owned();
    let services = [rule(echo_at), rule(reset_at), rule(closed_at), unreachable];
    let services: Vec<&str> = services.iter().map(String::as_str).collect();
    let world = World::new(&services, &services, "");
    let program = semantics(world.folder.path());
    let ports = [echo_at, reset_at, closed_at, elsewhere].map(|address| address.port().to_string());
    let plain = Command::new(&program).args(&ports).output().unwrap();
    assert!(plain.status.success(), "{}", said(&plain));
    assert_eq!(world.opened(), 0);
    let preloaded = world.command(&program).args(&ports).output().unwrap();
    assert!(preloaded.status.success(), "{}", said(&preloaded));
    // 8 tests with the echo, 20 times of one, the resets and the failures.
    assert!(world.opened() >= 34, "{}", world.opened());
}

/// Where the exit does not allow a service, the daemon has no rule any more, has no room, or has gone, a program hears it
/// from `connect`, and nothing goes by another way.
#[test]
fn what_is_refused_goes_no_other_way() {
    let [denied, allowed] = [service(echo), service(echo)];
    let world = World::new(&["127.0.0.0/8:*"], &[&allowed.to_string()], "[limits]\nuser_connections = 1\n");
    let connect = |service: SocketAddr, connections: usize| {
        let script = format!(
            "import socket\nheld = []\nfor _ in range({connections}):\n try:\n  \
             held.append(socket.create_connection(('127.0.0.1', {})))\n  print('connected')\n \
             except OSError as error:\n  print(error.errno)\n",
            service.port()
        );
        world.command("python3").args(["-S", "-c", &script]).output()
    };
    let Ok(first) = connect(allowed, 2) else {
        eprintln!("left out: python3 is not here");
        return;
    };
    let lines = |output: &Output| said(output).lines().map(str::to_owned).collect::<Vec<_>>();
    // EAGAIN, as connect(2) says of a host that has no room left.
    assert_eq!(lines(&first), ["connected", "11"]);
    assert_eq!(lines(&connect(denied, 1).unwrap()), ["13"]);
    std::fs::remove_file(world.folder.path().join("preload.sock")).unwrap();
    assert_eq!(lines(&connect(allowed, 1).unwrap()), ["111"]);
}

/// Programs that come to the library's socket and ask for nothing take nobody's place.
#[test]
fn who_asks_for_nothing_is_not_waited_for() {
    let world = World::new(&["127.0.0.0/8:*"], &["127.0.0.1:1"], "");
    let connect = || UnixStream::connect(world.folder.path().join("preload.sock")).unwrap();
    let idle: Vec<UnixStream> = (0..300).map(|_| connect()).collect();
    let mut program = connect();
    // They are given up after ten.
    program.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    program.write_all(&[9; 30]).unwrap();
    let mut answer = [0];
    program.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [22], "EINVAL: it was no request");
    drop(idle);
}

/// A hundred connections at once of an event loop, each more than any buffer on the way holds; of Python and of node.
#[test]
fn event_loops_wait_for_connections() {
    let at = service(echo);
    let rule = at.to_string();
    let world = World::new(&[&rule], &[&rule], "");
    let python = format!(
        "import asyncio
async def one(number):
    reader, writer = await asyncio.open_connection('127.0.0.1', {0})
    assert writer.get_extra_info('peername') == ('127.0.0.1', {0})
    data = bytes([number]) * 300000
    async def send():
        writer.write(data)
        await writer.drain()
        writer.write_eof()
    _, back = await asyncio.gather(send(), reader.read())
    assert back == data + b'end', len(back)
async def main():
    await asyncio.gather(*map(one, range(100)))
asyncio.run(main())
print('good')",
        at.port()
    );
    let node = format!(
        "const net = require('net');
let left = 100;
for (let number = 0; number < 100; number++) {{
    const data = Buffer.alloc(300000, number), back = [];
    const socket = net.connect({{port: {}, host: '127.0.0.1', allowHalfOpen: true}}, () => socket.end(data));
    socket.on('data', piece => back.push(piece));
    socket.on('end', () => {{
        if (!Buffer.concat(back).equals(Buffer.concat([data, Buffer.from('end')]))) process.exit(3);
        if (--left === 0) console.log('good');
    }});
}}",
        at.port()
    );
    for (program, arguments) in [("python3", ["-c", &python]), ("node", ["-e", &node])] {
        let before = world.opened();
        match world.command(program).args(arguments).output() {
            Ok(output) => {
                assert!(output.status.success() && said(&output) == "good\n", "{program}: {}", said(&output));
                assert_eq!(world.opened() - before, 100, "{program}");
            }
            Err(_) => eprintln!("left out: {program} is not here"),
        }
    }
}

/// A program's connections end with it, and so do the daemon's.
#[test]
fn a_program_that_is_killed_leaves_nothing() {
    let at = service(echo);
    let rule = at.to_string();
    let world = World::new(&[&rule], &[&rule], "");
    let script = format!(
        "import socket, os, signal\nheld = [socket.create_connection(('127.0.0.1', {})) for _ in range(20)]\n\
         os.kill(os.getpid(), signal.SIGKILL)",
        at.port()
    );
    let Ok(output) = world.command("python3").args(["-c", &script]).output() else {
        eprintln!("left out: python3 is not here");
        return;
    };
    assert!(!output.status.success() && world.opened() == 20, "{}", said(&output));
    world.runtime.block_on(async {
        while world.near.status().connections > 0 {
            tokio::task::yield_now().await;
        }
    });
}
