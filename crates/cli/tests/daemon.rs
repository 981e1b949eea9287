//! `pliant daemon` and `pliant status` as users run them: two processes on loopback, and signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

const CLASS: &str = "[classes.bulk]\ntransport = \"cubic\"\n";

fn pliant() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pliant"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a key that daemons share.
fn folder_with_key() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = pliant().arg("keygen").arg(folder.path().join("key")).output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    folder
}

/// A daemon's file with these tables.
fn write_config(folder: &TempDir, name: &str, tables: &str) -> PathBuf {
    let path = folder.path().join(format!("{name}.toml"));
    let head = format!("listen = \"127.0.0.1:0\"\nkey = \"key\"\ncontrol = \"{name}.sock\"\n");
    std::fs::write(&path, head + tables).unwrap();
    path
}

/// A service that sends back what it gets.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let mut tcp = tcp.unwrap();
            std::thread::spawn(move || std::io::copy(&mut tcp.try_clone().unwrap(), &mut tcp));
        }
    });
    address
}

/// A daemon, whose lines on stderr are read as they come. It is killed when it is dropped.
struct Process {
    child: Child,
    lines: BufReader<ChildStderr>,
    listen: SocketAddr,
    doors: Vec<SocketAddr>,
    preload: Option<PathBuf>,
    control: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(file: &Path) -> Self {
        Self::start_by(&mut pliant(), file)
    }

    fn start_by(command: &mut Command, file: &Path) -> Self {
        let mut child = command.arg("daemon").arg(file).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (mut listen, mut doors, mut preload) = (None, Vec::new(), None);
        let control = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ends");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["listening", "on", address, ..] => listen = address.parse().ok(),
                ["door", "on", address] => doors.push(address.parse().unwrap()),
                ["preload", "socket", path] => preload = Some(PathBuf::from(path)),
                ["control", "socket", path] => break PathBuf::from(path),
                _ => panic!("{line}"),
            }
        };
        Self { child, lines, listen: listen.unwrap(), doors, preload, control }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        pliant().args(arguments).arg("--control").arg(&self.control).output().unwrap()
    }
}

fn ping(tcp: &mut TcpStream) {
    tcp.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    tcp.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping");
}

/// A door says in the log what became of connections that it could not make, once, and what its service says.
#[test]
fn a_forward_door_names_failures() {
    let folder = folder_with_key();
    let write = |name: &str, rest: &str| write_config(&folder, name, &format!("{CLASS}{rest}"));
    let far = Process::start(&write("far", "[exit]\nallow = [\"127.0.0.1:1\"]\n"));
    let door = |target: &str| {
        format!("[[forward]]\nlisten = \"127.0.0.1:0\"\nto = \"far\"\ntarget = \"{target}\"\nclass = \"bulk\"\n")
    };
    let targets = ["127.0.0.1:1", "127.0.0.1:2", "no.such.name.invalid:80"];
    let doors = targets.map(door).concat();
    let mut near = Process::start(&write("near", &format!("[peers]\nfar = \"{}\"\n{doors}", far.listen)));
    for (at, why) in ["connection refused", "the peer does not allow it", "host unreachable"].iter().enumerate() {
        // The second is no news.
        for _ in 0..2 {
            let mut tcp = TcpStream::connect(near.doors[at]).unwrap();
            assert!(tcp.read(&mut [0]).is_err());
        }
        assert_eq!(near.line(), format!("forward door {}: {}: {why}\n", near.doors[at], targets[at]));
    }
}

/// A Kafka door names a broker that takes a connection and says nothing, once its client has given up.
#[test]
fn a_kafka_door_names_a_silent_broker() {
    let folder = folder_with_key();
    let write = |name: &str, rest: &str| write_config(&folder, name, &format!("{CLASS}{rest}"));
    // The kernel takes connections for it.
    let broker = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = broker.local_addr().unwrap();
    let far = Process::start(&write("far", &format!("[exit]\nallow = [\"{address}\"]\n")));
    let door = format!(
        "[peers]\nfar = \"{}\"\n[[kafka]]\nlisten = \"127.0.0.1:0\"\nto = \"far\"\nbootstrap = \"{address}\"\n\
         class = \"bulk\"\n",
        far.listen
    );
    let mut near = Process::start(&write("near", &door));
    let mut client = TcpStream::connect(near.doors[0]).unwrap();
    // A Heartbeat: its length, key, version, correlation and no client's name.
    client.write_all(&[0, 0, 0, 10, 0, 12, 0, 0, 0, 0, 0, 99, 0xff, 0xff]).unwrap();
    drop(client);
    let expected = "takes connections but does not answer; a client has given up";
    assert_eq!(near.line(), format!("kafka door {}: {address} {expected}\n", near.doors[0]));
}

/// A daemon's life: check, start, status, a bad and a good reload, a contract, a drain by a signal and one by a request.
#[test]
fn a_daemon_is_run_by_commands_and_signals() {
    let folder = folder_with_key();
    let write = |name: &str, rest: &str| write_config(&folder, name, rest);
    let service = echo();
    let far_file = write("far", &format!("{CLASS}[exit]\nallow = [\"{service}\"]\n"));
    let mut far = Process::start(&far_file);
    let near_text = |class: &str| {
        format!(
            "[peers]\nfar = \"{}\"\n{class}[[forward]]\nlisten = \"127.0.0.1:0\"\nto = \"far\"\ntarget = \"{service}\"\n\
             class = \"bulk\"\n",
            far.listen
        )
    };
    let near_file = write("near", &near_text(CLASS));
    let checked = pliant().arg("daemon").arg(&near_file).arg("--check").output().unwrap();
    assert!(checked.status.success() && text(&checked.stdout).contains("is good"), "{}", text(&checked.stderr));
    let mut near = Process::start(&near_file);
    let mut tcp = TcpStream::connect(near.doors[0]).unwrap();
    ping(&mut tcp);

    let page = text(&near.ask(&["status"]).stdout);
    assert!(page.contains(", 1 connection\n") && page.contains("far   bulk   open"), "{page}");
    let json: serde_json::Value = serde_json::from_slice(&near.ask(&["status", "--json"]).stdout).unwrap();
    assert_eq!((&json["bundles"][0]["streams"], &json["peers"][0]["open"]), (&1.into(), &true.into()));

    let doctor = pliant().arg("doctor").arg(&near_file).output().unwrap();
    let findings = text(&doctor.stdout);
    assert!(doctor.status.success() && findings.contains("good    peer far, class bulk: "), "{findings}");

    write("near", &near_text(&CLASS.replace("cubic", "carrier pigeon")));
    near.signal("HUP");
    let line = near.line();
    assert!(line.contains("near.toml:7: ") && line.contains("what was in force stays"), "{line}");
    let refused = near.ask(&["daemon", "reload"]);
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("near.toml:7: "));
    write("near", &near_text(&format!("{CLASS}max_rate = \"1Gbit/s\"\n")));
    near.signal("HUP");
    let line = near.line();
    assert!(line.contains("near.toml is in force"), "{line}");
    assert!(text(&near.ask(&["status"]).stdout).contains("1.00 Gbit/s"));
    let set = near.ask(&["daemon", "set", "bulk", "max_rate=200Mbit/s"]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    assert!(text(&near.ask(&["status"]).stdout).contains("200.0 Mbit/s"));
    ping(&mut tcp);

    // A signal to terminate lets the connection go on to its end.
    near.signal("TERM");
    assert_eq!(near.line(), "draining for 30 s at most\n");
    ping(&mut tcp);
    drop(tcp);
    assert_eq!(near.child.wait().unwrap().code(), Some(0));
    assert!(!near.control.exists());

    let drained = far.ask(&["daemon", "drain"]);
    assert!(drained.status.success() && text(&drained.stderr).contains("every connection had ended"));
    assert_eq!(far.child.wait().unwrap().code(), Some(0));
    let nobody = far.ask(&["status"]);
    assert!(nobody.status.code() == Some(2) && text(&nobody.stderr).contains("no daemon at"));
}

/// A log that takes no more, as on a full disk, ends no daemon: it starts, is reloaded and drains as with one.
#[test]
fn a_full_log_ends_no_daemon() {
    let folder = folder_with_key();
    let file = folder.path().join("a.toml");
    let good = format!(
        "listen = \"127.0.0.1:0\"\nkey = \"key\"\ncontrol = \"a.sock\"\n{CLASS}[exit]\nallow = [\"127.0.0.1:1\"]\n"
    );
    std::fs::write(&file, &good).unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = pliant().arg("daemon").arg(&file).stderr(full).spawn().unwrap();
    let status = || pliant().args(["status", "--control"]).arg(folder.path().join("a.sock")).output().unwrap().status;
    let signal = |name: &str, id: u32| Command::new("kill").arg(name).arg(id.to_string()).status().unwrap();
    while !status().success() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A mistake is told as well.
    for text in ["no configuration", &good] {
        std::fs::write(&file, text).unwrap();
        assert!(signal("-HUP", child.id()).success());
        std::thread::sleep(Duration::from_millis(200));
        assert!(status().success(), "it is there after a reload");
    }
    assert!(signal("-TERM", child.id()).success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// An unmodified program goes through the daemon in the class that `wrap` names, by SOCKS5 and by HTTP; what is wrong is
/// told, and the exit code is the program's.
#[test]
fn programs_are_wrapped() {
    let folder = folder_with_key();
    let write = |name: &str, rest: &str| write_config(&folder, name, rest);
    let classes = format!("{CLASS}[classes.night]\ntransport = \"ledbat++\"\n");
    let web = http();
    let far = Process::start(&write("far", &format!("{classes}[exit]\nallow = [\"{web}\"]\n")));
    let proxy = "[proxy]\nlisten = \"127.0.0.1:0\"\n[[proxy.route]]\nhost = \"*\"\nto = \"far\"\nclass = \"bulk\"\n";
    let near = Process::start(&write(
        "near",
        &format!("metrics = \"127.0.0.1:0\"\n[peers]\nfar = \"{}\"\n{classes}{proxy}", far.listen),
    ));
    let wrap = |class: &[&str], command: &[&str]| {
        let mut words = vec!["wrap", "--control", near.control.to_str().unwrap()];
        words.extend(class);
        words.push("--");
        words.extend(command);
        pliant().args(words).output().unwrap()
    };
    let url = format!("http://{web}/");
    // Not every machine has curl; a shell it has.
    let shown = wrap(&["--class", "night"], &["sh", "-c", "echo $ALL_PROXY $https_proxy; exit 7"]);
    let proxy = near.doors[0];
    assert_eq!(
        text(&shown.stdout),
        format!("socks5h://night:@{proxy} http://night:@{proxy}\n"),
        "{}",
        text(&shown.stderr)
    );
    assert_eq!(shown.status.code(), Some(7));
    if Command::new("curl").arg("--version").output().is_ok() {
        for how in [&[][..], &["--proxytunnel"], &["--proxy", &format!("socks5h://night:@{proxy}")]] {
            let fetched = wrap(&["--class", "night"], &[&["curl", "-sS", &url], how].concat());
            assert_eq!((text(&fetched.stdout).as_str(), text(&fetched.stderr).as_str()), ("hello", ""), "{how:?}");
        }
        let json: serde_json::Value = serde_json::from_slice(&near.ask(&["status", "--json"]).stdout).unwrap();
        let bundles = json["bundles"].as_array().unwrap();
        assert!(bundles.len() == 1 && bundles[0]["class"] == "night" && bundles[0]["opened_streams"] == 3, "{json}");
        assert_eq!(text(&wrap(&[], &["curl", "-sS", "--proxytunnel", &url]).stdout), "hello");
    }
    let wrong = wrap(&["--class", "day"], &["true"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("--class day: the daemon's classes are bulk, night"),
        "{}",
        text(&wrong.stderr)
    );
    assert!(text(&wrap(&[], &["no-such-program"]).stderr).starts_with("error: no-such-program: "));

    // Its metrics: a line of each that Prometheus reads.
    let ask = |request: &str| {
        let mut tcp = TcpStream::connect(near.doors[1]).unwrap();
        tcp.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).unwrap();
        answer
    };
    let metrics = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    let (_, body) = metrics.split_once("\r\n\r\n").unwrap();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("pliant_") && value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(
        body.contains("\npliant_peer_open{peer=\"far\"} ")
            && body.contains("# TYPE pliant_bundle_sent_bytes_total counter")
    );
    assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

/// A web server that says hello.
fn http() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let mut tcp = tcp.unwrap();
            let mut line = String::new();
            let mut from = BufReader::new(tcp.try_clone().unwrap());
            while from.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello").unwrap();
        }
    });
    address
}

/// A service manager hears when a daemon serves and when it drains (sd_notify(3)).
#[test]
fn a_service_manager_is_told() {
    let folder = folder_with_key();
    let tables = "[exit]\nallow = [\"127.0.0.1:1\"]\n[preload]\nsocket = \"preload.sock\"\n";
    let file = write_config(&folder, "daemon", &format!("{CLASS}{tables}"));
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    // A daemon that tells nothing fails the test instead of holding it up.
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let told = || {
        let mut line = [0; 64];
        let count = manager.recv(&mut line).unwrap();
        text(&line[..count])
    };
    let mut daemon = Process::start_by(pliant().env("NOTIFY_SOCKET", &path), &file);
    assert_eq!(told(), "READY=1");
    assert_eq!(daemon.preload, Some(folder.path().join("preload.sock")));
    daemon.signal("TERM");
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
}

/// What docs/daemon.md says from nothing to curl: its files and its commands, line by line, but on free ports.
#[test]
fn the_first_steps_of_the_document_run() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/daemon.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (_, steps) = document.split_once("## From nothing to curl").unwrap();
    let (steps, _) = steps.split_once("\n## ").unwrap();
    let blocks: Vec<&str> = steps.split("```").skip(1).step_by(2).collect();
    let [keygen, far_text, near_text, commands] = blocks[..] else { panic!("{blocks:?}") };
    let folder = tempfile::tempdir().unwrap();
    let (web, curl) = (http(), Command::new("curl").arg("--version").output().is_ok());
    let write = |name: &str, block: &str, changes: &[(&str, String)]| {
        let text = block.strip_prefix("toml\n").unwrap();
        assert!(text.starts_with(&format!("# {name}.toml\n")), "{text}");
        // Two daemons of one user on one host need a control socket each.
        let text = changes.iter().fold(format!("control = \"{name}.sock\"\n{text}"), |text, (from, to)| {
            assert!(text.contains(from), "{from} in {text}");
            text.replace(from, to)
        });
        std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
    };
    let (any, service) = ("127.0.0.1:0".to_owned(), ("127.0.0.1:8000", web.to_string()));
    write("far", far_text, &[("0.0.0.0:7411", any.clone()), service.clone()]);
    let (mut far, mut near) = (None::<Process>, None::<Process>);
    let mut fetched = 0;
    for line in keygen.lines().chain(commands.lines()).filter(|line| !line.is_empty()) {
        let command = line.split('#').next().unwrap().trim_end();
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        if let Some(near) = &near {
            for word in &mut words {
                let doors =
                    [("127.0.0.1:8080", near.doors[0]), ("127.0.0.1:1080", near.doors[1]), ("127.0.0.1:8000", web)];
                for (from, to) in doors {
                    *word = word.replace(from, &to.to_string());
                }
            }
        }
        match command {
            "pliant daemon far.toml" => far = Some(Process::start(&folder.path().join("far.toml"))),
            "pliant daemon near.toml" => {
                let peer = far.as_ref().unwrap().listen.to_string();
                let doors =
                    [("0.0.0.0:7411", any.clone()), ("127.0.0.1:8080", any.clone()), ("127.0.0.1:1080", any.clone())];
                write("near", near_text, &[&doors[..], &[("192.0.2.7:7411", peer), service.clone()]].concat());
                near = Some(Process::start(&folder.path().join("near.toml")));
            }
            _ if command.contains("curl") && !curl => {}
            _ => {
                let mut run = if words[0] == "pliant" { pliant() } else { Command::new(&words[0]) };
                let mut rest = words[1..].to_vec();
                if let Some(near) = near.as_ref().filter(|_| ["wrap", "status"].contains(&rest[0].as_str())) {
                    rest.splice(1..1, ["--control".to_owned(), near.control.display().to_string()]);
                }
                let output = run.args(&rest).current_dir(folder.path()).output().unwrap();
                let shown = text(&output.stdout);
                assert!(output.status.success(), "{command}: {shown}{}", text(&output.stderr));
                if command.contains("curl") {
                    assert_eq!(shown, "hello", "{command}");
                    fetched += 1;
                }
                assert!(!command.starts_with("pliant status") || shown.contains("far   backup  open"), "{shown}");
            }
        }
    }
    assert!(fetched == 4 || !curl, "{fetched} of the document's commands fetch");
}

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// The document's table of programs is the record's, and so is the memory of an idle connection.
#[test]
fn the_table_of_programs_is_the_records() {
    let record: serde_json::Value = serde_json::from_str(&document("programs.json")).unwrap();
    let document = document("daemon.md");
    let programs = record["programs"].as_array().unwrap();
    assert!(!programs.is_empty());
    for row in programs {
        let [program, version, door] = ["program", "version", "door"].map(|key| row[key].as_str().unwrap());
        let works = if row["works"] == true { "yes" } else { "no: " };
        assert!(document.contains(&format!("| {program} | {version} | {door} | {works}")), "{row}");
    }
    for side in ["near", "far"] {
        let bytes = record["idle"]["bytes_per_connection"][side].as_f64().unwrap();
        assert!(document.contains(&format!(" {:.1} kB", bytes / 1000.0)), "{side}: {bytes} bytes");
    }
}
