//! Datagrams and streams that no honest peer sends.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{content, files, loopback, settings, stranger, write_file};
use pliant_net::driver::{Application, Clock, Driver};
use pliant_net::socket::Socket;
use pliant_net::transfer::{Receiver, Source, Target, TransferError, send};
use pliant_proto::packet::{EndpointId, Side};
use pliant_proto::transport::tcp::TcpSender;
use pliant_proto::transport::{Command, Event};

/// During a transfer through a relay the receiver is sent noise, cut packets, its own acknowledgements and packets of
/// another flow, and the sender its own data: each is counted and dropped, and the file arrives.
#[test]
fn hostile_datagrams_are_counted_and_dropped() {
    const EACH: u64 = 8;
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 1 << 20);
    let copy = directory.path().join("copy");
    let receiver = Receiver::bind(loopback(), settings()).unwrap();
    let mut relay = crate::common::Relay::new(crate::common::Faults::default(), receiver.address());
    relay.hostility = EACH;
    let (way, stop) = (relay.address(), AtomicBool::new(false));
    let (sent, received) = thread::scope(|scope| {
        let relaying = scope.spawn(|| relay.run(&stop));
        let target = Target::File(copy.clone());
        let receiving = scope.spawn(move || receiver.receive(&target, &crate::common::NEVER, |_| {}));
        let sent = send(Source::open(&path).unwrap(), way, &settings(), &crate::common::NEVER, |_| {}).unwrap();
        stop.store(true, Ordering::Relaxed);
        relaying.join().unwrap();
        (sent, receiving.join().unwrap().unwrap())
    });
    assert_eq!(std::fs::read(copy).unwrap(), content(1 << 20));
    assert_eq!(sent.hash, received.hash);
    // Noise and a cut packet; another flow and another port; an acknowledgement of its own.
    let refused = received.refused;
    assert_eq!((refused.malformed, refused.stray, refused.reflected), (2 * EACH, 2 * EACH, EACH));
    assert_eq!(sent.refused.reflected, EACH);
}

/// A stream of any bytes, for those who lie about files.
struct Forged(Vec<u8>);

impl Application for Forged {
    fn read(&mut self, offset: u64, payload: &mut [u8]) -> io::Result<()> {
        payload.copy_from_slice(&self.0[offset as usize..][..payload.len()]);
        Ok(())
    }

    fn write(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, _: Event) -> io::Result<()> {
        Ok(())
    }
}

/// Sends `stream` to `to` until `stop`.
fn send_forged(stream: Vec<u8>, to: SocketAddr, stop: &AtomicBool) {
    let transport = TcpSender::new(settings().tcp(), settings().controller());
    let socket = Socket::bind(loopback()).unwrap();
    let mut driver = Driver::new(transport, socket, Clock::start(), EndpointId::new(7, Side::Initiator), to);
    let bytes = stream.len() as u64;
    let mut stream = Forged(stream);
    driver.command(Command::Send { bytes }, &mut stream).unwrap();
    driver.command(Command::Finish, &mut stream).unwrap();
    while !stop.load(Ordering::Relaxed) {
        driver.turn(&mut stream, Duration::from_millis(10)).unwrap();
    }
}

/// A stream as an honest sender makes it.
fn stream(name: &str, announced: u64, body: &[u8], hash: [u8; 32]) -> Vec<u8> {
    let mut stream = [b"PLNT".as_slice(), &[1, name.len() as u8], &announced.to_be_bytes(), name.as_bytes()].concat();
    stream.resize(512, 0);
    [&stream[..], body, &hash].concat()
}

/// Every lie ends in one clear error; no file appears, and one that was there stays as it was.
#[test]
fn lying_streams_are_refused_and_leave_nothing() {
    let body = content(300_000);
    let size = body.len() as u64;
    let hash = *blake3::hash(&body).as_bytes();
    let honest = stream("old", size, &body, hash);
    let mut wrong_magic = honest.clone();
    wrong_magic[0] ^= 1;
    let mut wrong_version = honest.clone();
    wrong_version[4] = 9;
    for (forged, why) in [
        (stream("old", size, &body, [7; 32]), "content of old differs from what was sent"),
        (stream("old", size, &body[..299_999], hash), "it is shorter than announced"),
        (stream("old", size + 1_000_000, &body, hash), "it is shorter than announced"),
        (stream("old", u64::MAX, &body, hash), "it announces an absurd size"),
        (stream("old", size - 1, &body, hash), "it is longer than announced"),
        (stream("../old", size, &body, hash), "the name it gives is not a plain file name"),
        (stream("/etc/passwd", size, &body, hash), "the name it gives is not a plain file name"),
        (stream("", size, &body, hash), "the name it gives is not a plain file name"),
        (wrong_magic, "the stream does not start as a transfer does"),
        (wrong_version, "it speaks another version"),
        (honest[..100].to_vec(), "it is shorter than announced"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let into = directory.path().join("into");
        std::fs::create_dir(&into).unwrap();
        std::fs::write(into.join("old"), "what was there").unwrap();
        let receiver = Receiver::bind(loopback(), settings()).unwrap();
        let (to, stop) = (receiver.address(), AtomicBool::new(false));
        let error = thread::scope(|scope| {
            scope.spawn(|| send_forged(forged, to, &stop));
            let result = receiver.receive(&Target::Directory(into.clone()), &crate::common::NEVER, |_| {});
            stop.store(true, Ordering::Relaxed);
            result.map(|received| received.bytes).unwrap_err()
        });
        let message = error.to_string();
        assert!(message.contains(why), "{message} instead of {why}");
        assert!(!message.contains('\n'), "{message}");
        assert_eq!(files(&into), ["old"], "{why}");
        assert_eq!(files(directory.path()), ["into"], "{why}");
        assert_eq!(std::fs::read(into.join("old")).unwrap(), b"what was there", "{why}");
    }
}

/// A receiver that nobody speaks to sensibly keeps waiting, and can be stopped.
#[test]
fn noise_opens_no_transfer() {
    let receiver = Receiver::bind(loopback(), settings()).unwrap();
    let to = receiver.address();
    for noise in [&b""[..], b"P", &[0x50; 8], &[0xff; 1400]] {
        stranger().send_to(noise, to).unwrap();
    }
    let stop = AtomicBool::new(true);
    assert!(matches!(receiver.receive(&Target::Discard, &stop, |_| {}), Err(TransferError::Interrupted)));
}
