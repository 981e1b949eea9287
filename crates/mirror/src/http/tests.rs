use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::*;

const BYTES: u64 = 300_000;

fn content() -> Vec<u8> {
    (0..BYTES as u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// What a server does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Server {
    Right,
    IgnoresRanges,
    OtherPart,
    OtherSize,
    NoRange,
    TooMuch,
    EndsEarly,
    EndsEarlyOnce,
    Silent,
    SilentBody,
    Slow,
    RedirectsForever,
    RedirectsWithoutEnd,
    RedirectsTo(&'static str),
    Trailers,
    SlowSize,
    OnlyPromises,
    SlowRefusal,
    RedirectsOnce,
    Changed,
    NoHttp,
    LongHead,
    Status(&'static str),
    Refusal(&'static str),
    Empty,
}

/// Serves until its test is over, each connection in a thread of its own, one request each.
fn serve(server: Server) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            // Who asked may have gone.
            std::thread::spawn(move || drop(answer(&stream, server, number)));
        }
    });
    address
}

fn answer(mut stream: &TcpStream, server: Server, number: usize) -> std::io::Result<()> {
    if server == Server::NoHttp {
        stream.write_all(b"220 mail.example ESMTP\r\n")?;
        // Who closes with something unread takes back what it has sent.
        while stream.read(&mut [0; 1024])? > 0 {}
        return Ok(());
    }
    let (mut path, mut range) = (String::new(), None);
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if let Some(asked) = line.strip_prefix("GET ") {
            path = asked.split(' ').next().unwrap_or_default().to_owned();
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("range")
        {
            let (first, last) = value.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            range = Some((first.parse::<u64>().unwrap(), last.parse::<u64>().unwrap()));
        }
        if line.is_empty() {
            break;
        }
    }
    let (first, last) = range.expect("a mirror asks for ranges");
    let last = last.min(BYTES - 1);
    let all = content();
    let part = &all[first as usize..=last as usize];
    let mut head = |status: &str, headers: &str, length: usize| {
        stream.write_all(
            format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
    };
    let said = |first: u64, last: u64, all: u64| format!("Content-Range: bytes {first}-{last}/{all}\r\n");
    let partial = "206 Partial Content";
    match server {
        Server::RedirectsOnce if path == "/file" => return head("302 Found", "Location: /elsewhere\r\n", 0),
        Server::Right | Server::RedirectsOnce => head(partial, &said(first, last, BYTES), part.len())?,
        Server::IgnoresRanges => {
            head("200 OK", "", all.len())?;
            return stream.write_all(&all);
        }
        Server::OtherPart => head(partial, &said(first + 1, last, BYTES), part.len() - 1)?,
        Server::OtherSize => head(partial, &said(first, last, BYTES + 7), part.len())?,
        Server::NoRange => head(partial, "", part.len())?,
        Server::TooMuch => {
            stream.write_all(
                format!("HTTP/1.1 {partial}\r\n{}Connection: close\r\n\r\n", said(first, last, BYTES)).as_bytes(),
            )?;
            stream.write_all(part)?;
            // Until the other side has enough of it.
            loop {
                stream.write_all(&all)?;
            }
        }
        Server::EndsEarly | Server::EndsEarlyOnce => {
            let ends = part.len() > 1 && (server == Server::EndsEarly || number < 2);
            head(partial, &said(first, last, BYTES), part.len())?;
            return stream.write_all(&part[..part.len() / if ends { 2 } else { 1 }]);
        }
        Server::Silent => {
            let _ = stream.read(&mut [0; 8]);
            return Ok(());
        }
        Server::SilentBody => {
            head(partial, &said(first, last, BYTES), part.len())?;
            stream.write_all(&part[..part.len() / 2])?;
            let _ = stream.read(&mut [0; 8]);
            return Ok(());
        }
        Server::Slow => {
            head(partial, &said(first, last, BYTES), part.len())?;
            let pause = Duration::from_millis(if part.len() > 1 { 20 } else { 0 });
            for byte in part {
                stream.write_all(&[*byte])?;
                std::thread::sleep(pause);
            }
            return Ok(());
        }
        Server::RedirectsWithoutEnd => {
            stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&all)?;
            }
        }
        Server::RedirectsTo(place) => return head("302 Found", &format!("Location: {place}\r\n"), 0),
        Server::Trailers => {
            let head = format!("HTTP/1.1 {partial}\r\n{}", said(first, last, BYTES));
            stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", part.len()).as_bytes())?;
            stream.write_all(part)?;
            stream.write_all(b"\r\n0\r\n")?;
            loop {
                stream.write_all(b"X-More: trailers\r\n")?;
            }
        }
        Server::SlowSize => {
            let head = format!("HTTP/1.1 {partial}\r\n{}", said(first, last, BYTES));
            stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes())?;
            loop {
                stream.write_all(b"0")?;
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Server::OnlyPromises => loop {
            stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n")?;
        },
        Server::SlowRefusal => {
            head("403 Forbidden", "", 4096)?;
            loop {
                stream.write_all(b"x")?;
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Server::RedirectsForever => return head("302 Found", &format!("Location: {path}x\r\n"), 0),
        Server::Changed => {
            head(partial, &format!("ETag: \"{number}\"\r\n{}", said(first, last, BYTES)), part.len())?;
        }
        Server::NoHttp => unreachable!("it has answered"),
        Server::LongHead => {
            let long = "X-Long: ".to_owned() + &"x".repeat(40_000) + "\r\n";
            head(partial, &long, 0)?;
        }
        Server::Status(status) => head(status, "", 0)?,
        Server::Refusal(text) => {
            head("403 Forbidden", "", text.len())?;
            return stream.write_all(text.as_bytes());
        }
        Server::Empty => return head("416 Range Not Satisfiable", "Content-Range: bytes */0\r\n", 0),
    }
    stream.write_all(part)
}

fn file_at(url: &str, s3: S3Access) -> Box<dyn MirrorFile> {
    let url = MirrorUrl::of_file(url).unwrap();
    let mirror = HttpMirror::new(url, false, s3, Duration::from_secs(1));
    mirror.file("ignored")
}

fn file(server: Server) -> Box<dyn MirrorFile> {
    file_at(&format!("http://{}/file", serve(server)), S3Access::default())
}

/// What of a file is read, and why no more.
fn read(file: &mut dyn MirrorFile, range: Range<u64>) -> (Vec<u8>, Result<(), MirrorError>) {
    let mut read = Vec::new();
    let result = file.read(range, BYTES, &mut |piece| {
        read.extend_from_slice(piece);
        ControlFlow::Continue(())
    });
    (read, result)
}

/// What is asked for comes, whole or in part, and by a redirection; who has enough is left alone.
#[test]
fn parts_are_read() {
    for server in [Server::Right, Server::RedirectsOnce, Server::Status("206 Partial Content")] {
        let mut file = file(server);
        if let Server::Status(_) = server {
            assert_eq!(file.bytes().unwrap_err().why, "it does not say how large the file is");
            continue;
        }
        assert_eq!(file.bytes(), Ok(BYTES), "{server:?}");
        for range in [0..BYTES, 0..1, 5..100_005, BYTES - 1..BYTES] {
            let (content, result) = (content(), read(file.as_mut(), range.clone()));
            assert_eq!(result.1, Ok(()), "{server:?} {range:?}");
            assert!(result.0 == content[range.start as usize..range.end as usize]);
        }
        let mut pieces = 0;
        let broken_off = file.read(0..BYTES, BYTES, &mut |_| {
            pieces += 1;
            ControlFlow::Break(())
        });
        assert_eq!((broken_off, pieces), (Ok(()), 1));
    }
    assert_eq!(file(Server::Empty).bytes(), Ok(0));
    assert_eq!(file(Server::IgnoresRanges).bytes(), Ok(BYTES));
    assert_eq!(read(file(Server::IgnoresRanges).as_mut(), 0..BYTES), (content(), Ok(())));
}

/// Each fault is named in one line, gives no byte beyond what was asked for, and is tried again only where that may help.
#[test]
fn faults_are_named() {
    for (server, why, passes) in [
        (Server::IgnoresRanges, "it gives the whole file where a part is asked for", false),
        (Server::OtherPart, "it sends another part than was asked for", false),
        (Server::OtherSize, "its file has 300007 bytes, and not 300000", false),
        (Server::NoRange, "it does not say which part it sends", false),
        (Server::TooMuch, "it sends more than was asked for", false),
        (Server::EndsEarly, "it ended early", true),
        (Server::Silent, "it does not answer in time", false),
        (Server::SilentBody, "bytes in 1 s", false),
        (Server::Slow, "bytes in 1 s", false),
        (Server::SlowSize, "it has sent 0 bytes in 1 s", false),
        (Server::RedirectsForever, "it redirects more than five times", false),
        (Server::OnlyPromises, "the head of its answer is too long", false),
        (Server::RedirectsWithoutEnd, "it redirects more than five times", false),
        (Server::RedirectsTo("file:///etc/passwd"), "it redirects to a place that is none of HTTP", false),
        (
            Server::RedirectsTo("http://user:secret@127.0.0.1/x"),
            "it redirects to a URL with a name and a password",
            false,
        ),
        (Server::NoHttp, "it does not speak HTTP", false),
        (Server::LongHead, "the head of its answer is too long", false),
        (Server::Status("404 Not Found"), "404 Not Found: it has no such file", false),
        (Server::Status("403 Forbidden"), "403 Forbidden: it does not give it to who asks", false),
        (Server::Status("503 Service Unavailable"), "503 Service Unavailable: it does not give it", true),
        (Server::Status("429 Too Many Requests"), "429 Too Many Requests: it does not give it", true),
        (Server::Empty, "its file ends before byte 10: it has 0 bytes", false),
    ] {
        let (bytes, result) = read(file(server).as_mut(), 10..200_010);
        let error = result.expect_err(&format!("{server:?} has a fault"));
        assert!(error.why.contains(why) && !error.why.contains('\n'), "{server:?}: {}", error.why);
        assert_eq!(error.passes, passes, "{server:?}: {}", error.why);
        assert!(bytes == content()[10..10 + bytes.len()], "{server:?}");
    }
}

/// What is no content is not waited for: trailers without end after what was asked for. A refusal byte by byte takes no longer
/// than content may.
#[test]
fn what_is_no_content_ends() {
    assert_eq!(read(file(Server::Trailers).as_mut(), 0..1000), (content()[..1000].to_vec(), Ok(())));
    let keys = Some(("key".to_owned(), "secret".to_owned()));
    let s3 = S3Access { endpoint: Some(format!("http://{}", serve(Server::SlowRefusal))), keys, ..S3Access::default() };
    let why = file_at("s3://bucket/x", s3).bytes().unwrap_err().why;
    assert_eq!(why, "403 Forbidden: it does not give it to who asks");
}

/// A mirror elsewhere does not have this host asked for something.
#[test]
fn redirections_do_not_lead_here() {
    let here: &'static str = format!("http://localhost:{}/file", serve(Server::Right).port()).leak();
    let url = MirrorUrl::of_file(&format!("http://{}/file", serve(Server::RedirectsTo(here)))).unwrap();
    let (s3, patience) = (S3Access::default(), Duration::from_secs(1));
    let mirror = |own| HttpMirror::by(url.clone(), false, s3.clone(), patience, Proxies::default(), own);
    assert_eq!(mirror(None).file("ignored").bytes(), Ok(BYTES), "of this host itself it may");
    let Kind::Http(named) = &url.kind else { unreachable!() };
    let far = mirror(Some(OwnHost::elsewhere(named)));
    assert_eq!(far.file("ignored").bytes().unwrap_err().why, "it redirects to an address of this host or of its link");
}

/// A mirror without TLS that redirects to a place with it leads there: the certificate decides, and nothing panics.
#[test]
fn redirections_lead_to_tls() {
    let to: &'static str = format!("https://{}/file", serve(Server::NoHttp)).leak();
    let why = file(Server::RedirectsTo(to)).bytes().unwrap_err().why;
    assert!(why.starts_with("TLS: "), "{why}");
}

/// A file is the same from when its size was asked for to its end.
#[test]
fn a_change_is_seen() {
    let mut file = file(Server::Changed);
    assert_eq!(file.bytes(), Ok(BYTES));
    assert_eq!(read(file.as_mut(), 0..10).1.unwrap_err().why, "its file was changed while it was fetched");
}

/// Where nobody listens, where no TLS is spoken, and what S3 says of keys.
#[test]
fn places_that_do_not_answer_are_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let why = |url: &str, s3: S3Access| file_at(url, s3).bytes().unwrap_err().why;
    let none = S3Access::default;
    assert!(why(&format!("http://{free}/x"), none()).contains("connection refused"));
    let plain = serve(Server::NoHttp);
    let tls = why(&format!("https://{plain}/x"), none());
    assert!(tls.starts_with("TLS: "), "{tls}");
    let refusal = "<?xml version=\"1.0\"?><Error><Code>InvalidAccessKeyId</Code><Message>no</Message></Error>";
    let endpoint = |server| Some(format!("http://{}", serve(server)));
    let s3 = |server, keys| S3Access { endpoint: endpoint(server), keys, ..S3Access::default() };
    let keys = Some(("key".to_owned(), "secret".to_owned()));
    assert_eq!(
        why("s3://bucket/x", s3(Server::Refusal(refusal), keys.clone())),
        "403 Forbidden (InvalidAccessKeyId): it does not give it to who asks"
    );
    let anonymous = why("s3://bucket/x", s3(Server::Refusal("<Code>\u{1b}[31m</Code>"), None));
    assert!(anonymous.starts_with("403 Forbidden: ") && anonymous.contains("AWS_ACCESS_KEY_ID"), "{anonymous}");
    assert!(why("s3://bucket/x", s3(Server::RedirectsForever, keys.clone())).contains("AWS_REGION"));
    assert_eq!(file_at("s3://bucket/x", s3(Server::Right, keys)).bytes(), Ok(BYTES));
}

/// A proxy that is not there, or does not let who asks through, is named, and not the mirror behind it; its password is told to nobody.
#[test]
fn proxies_are_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asked = |proxy: &str, no_proxy: &str| {
        let proxies = Proxies::of(|name| match name {
            "http_proxy" => Some(proxy.to_owned()),
            "no_proxy" => Some(no_proxy.to_owned()),
            _ => None,
        });
        let url = MirrorUrl::of_file(&format!("http://127.0.0.1:{}/x", free.port())).unwrap();
        let mirror = HttpMirror::by(url, false, S3Access::default(), Duration::from_secs(1), proxies, None);
        mirror.file("ignored").bytes().unwrap_err().why
    };
    let why = |proxy: SocketAddr, no_proxy: &str| asked(&format!("http://user:secret@{proxy}"), no_proxy);
    assert_eq!(why(free, "none.example"), format!("nobody answers at the proxy {free}: connection refused"));
    let socks = asked(&format!("socks5h://user:secret@{free}"), "none.example");
    assert!(socks.starts_with(&format!("the proxy {free} is one of SOCKS: ")), "{socks}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let refuses = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            head.find(String::is_empty);
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let refused = why(refuses, "none.example");
    assert!(refused.starts_with(&format!("the proxy {refuses} refuses: ")) && refused.contains("403"), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
    assert_eq!(why(refuses, "127.0.0.1"), "nobody answers there: connection refused");
}

/// Names of files go to the folder's host; a mirror of one file has its own.
#[test]
fn a_folder_has_many_files() {
    let address = serve(Server::Right);
    let folder = MirrorUrl::of_folder(&format!("http://{address}/models/")).unwrap();
    let folder = HttpMirror::of_folder(folder, S3Access::default());
    assert_eq!((folder.only_file(), folder.name()), (None, &*format!("http://{address}/models/")));
    assert_eq!(folder.file("a b").bytes(), Ok(BYTES));
    let one = HttpMirror::of_file(MirrorUrl::of_file("https://host/a?key").unwrap(), S3Access::default());
    assert_eq!((one.only_file().as_deref(), one.name()), (Some("a"), "https://host/a"));
}

/// Who ended early gives the rest when it is asked again.
#[test]
fn the_rest_is_asked_for() {
    let mut file = file(Server::EndsEarlyOnce);
    let (mut all, mut asks) = (Vec::new(), 0);
    while all.len() < BYTES as usize {
        let (more, result) = read(file.as_mut(), all.len() as u64..BYTES);
        all.extend(more);
        asks += 1;
        assert_eq!(result.is_ok(), asks == 3);
    }
    assert!(all == content() && asks == 3);
}
