//! Bundles between two nodes on real sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use pliant_net::bundle::{
    AcceptedStream, AcceptedStreams, BundleClass, BundleNode, ChangeBytes, IncomingMessages, SendMessages, reset_code,
};
use pliant_net::connection::{Closed, Keys};
use pliant_net::flow::FlowSettings;
use pliant_net::transfer::Settings;
use pliant_proto::contract::schedule::DaySchedule;
use pliant_proto::time::Span;
use pliant_proto::transport::atp::LossBound;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

fn class(name: &str) -> BundleClass {
    BundleClass {
        name: name.into(),
        message_class: 0,
        message_line_rate: None,
        schedule: DaySchedule::default(),
        flow: FlowSettings::default(),
        max_streams: 64,
        window_budget: 16 << 20,
        max_unread: 64 << 20,
    }
}

fn settings() -> Settings {
    let keys = Keys::Preshared([7; 32]);
    Settings { keys, connect_timeout: Span::from_ms(600), ..Settings::default() }
}

fn node(classes: &[&str]) -> (BundleNode, AcceptedStreams, SocketAddr) {
    let classes = classes.iter().map(|name| class(name)).collect();
    let (node, streams) = BundleNode::bind(LOOPBACK.into(), settings(), classes).unwrap();
    let address = node.local_address();
    (node, streams, address)
}

fn content(bytes: usize, of: u8) -> Vec<u8> {
    (0..bytes).map(|byte| ((byte * 31) >> 3) as u8 ^ of).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Streams of one class share one bundle, end each way by itself, and carry what was written; the other side opens streams
/// on the same bundle.
#[test]
fn streams_share_a_bundle_and_carry_both_ways() {
    block_on(async {
        let (here, mut to_here, here_address) = node(&["bulk"]);
        let (that_node, mut accepted, there) = node(&["bulk"]);
        let mut opened = Vec::new();
        for number in 0..8u8 {
            let mut stream = here.open(there, "bulk", vec![number]).unwrap();
            stream.write_all(&content(100_000, number)).await.unwrap();
            opened.push(stream);
        }
        for _ in 0..8 {
            let AcceptedStream { peer, class, header, mut stream, .. } = accepted.next().await.unwrap();
            assert_eq!((peer, class.as_str()), (here_address, "bulk"));
            let mut bytes = vec![0; 100_000];
            stream.read_exact(&mut bytes).await.unwrap();
            assert_eq!(bytes, content(100_000, header[0]));
            stream.write_all(&header).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut stream_here = opened.remove(opened.iter().position(|_| true).unwrap());
            stream_here.shutdown().await.unwrap();
            let mut answer = Vec::new();
            stream_here.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, header);
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            assert!(rest.is_empty());
        }
        let reports = here.reports();
        assert_eq!((reports.len(), reports[0].open, reports[0].class.as_str()), (1, true, "bulk"));
        // And back, on the bundle that stands.
        let mut back = that_node.open(here_address, "bulk", b"back".to_vec()).unwrap();
        back.write_all(b"hello").await.unwrap();
        let AcceptedStream { header, mut stream, .. } = to_here.next().await.unwrap();
        assert_eq!(header, b"back");
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!((&bytes, here.reports().len()), (b"hello", 1));
    });
}

async fn all_messages(flow: &IncomingMessages) -> std::io::Result<Vec<(u32, Box<[u8]>)>> {
    let mut got = Vec::new();
    while let Some(message) = flow.recv().await? {
        got.push(message);
    }
    got.sort_unstable();
    Ok(got)
}

/// Messages beside streams: whoever knows the token calls, before there is something to send, and gets what is sent. A flow
/// of which as many may be missing as there are but one ends with what has arrived, or with all, as its sender wants.
#[test]
fn messages_are_called_for_and_come() {
    block_on(async {
        let (here, _streams, here_address) = node(&["bulk"]);
        let (that_node, _accepted, there) = node(&["bulk"]);
        let expected = that_node.expect_messages("bulk").unwrap();
        assert!(expected.take().is_none() && that_node.expect_messages("none").is_err());
        let messages: Vec<Vec<u8>> = (0..200u8).map(|number| content(1 + usize::from(number) * 40, number)).collect();
        let payload = that_node.message_payload(here_address, "bulk").unwrap();
        assert!((1000..1200).contains(&payload), "{payload}");
        for (number, all) in [(0, true), (1, false)] {
            let incoming = here.call_for_messages(there, "bulk", expected.token(), number).unwrap();
            let outgoing = loop {
                if let Some(outgoing) = expected.take() {
                    break outgoing;
                }
                tokio::task::yield_now().await;
            };
            assert_eq!((outgoing.number(), incoming.number()), (number, number));
            let max_loss = LossBound::from_millionths(if all { 0 } else { 995_000 }).unwrap();
            outgoing.send(messages.iter().map(|message| &message[..]), SendMessages { max_loss, all }).unwrap();
            let got = all_messages(&incoming).await.unwrap();
            assert!(if all { got.len() == 200 } else { !got.is_empty() }, "{}", got.len());
            assert!(got.iter().all(|(number, bytes)| **bytes == messages[*number as usize]));
            assert!(outgoing.statistics().packets_sent > 0 || !all);
        }
        // Nobody is expected with another token, with one that is gone, or twice with one number.
        let waits = here.call_for_messages(there, "bulk", expected.token(), 7).unwrap();
        let outgoing = loop {
            if let Some(outgoing) = expected.take() {
                break outgoing;
            }
            tokio::task::yield_now().await;
        };
        let token = expected.token();
        drop(expected);
        for token in [token, [9; 16]] {
            let refused = here.call_for_messages(there, "bulk", token, 0).unwrap();
            assert_eq!(refused.recv().await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
        // What is empty is no message; a flow that its sender lets go is an error, as is one whose node ends.
        assert!(outgoing.send([&[][..]], SendMessages { max_loss: LossBound::RELIABLE, all: true }).is_err());
        drop(outgoing);
        assert_eq!(waits.recv().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        let last = here.call_for_messages(there, "bulk", token, 0).unwrap();
        drop(here);
        assert!(last.recv().await.is_err());
    });
}

/// What cannot be opened is an error of its stream, with the kind that a program knows.
#[test]
fn what_cannot_be_opened_is_told() {
    block_on(async {
        let (here, _streams, _) = node(&["bulk", "other"]);
        let (that_node, mut accepted, there) = node(&["bulk"]);
        assert_eq!(here.open(there, "none", Vec::new()).err().unwrap().kind(), ErrorKind::InvalidInput);
        let mut refused = here.open(there, "other", Vec::new()).unwrap();
        let error = refused.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains("no class other"), "{error}");
        // What the peer's node says can be told from what is said of the stream.
        assert!(matches!(error.downcast(), Ok(Closed::Refused(_))));
        let nobody = std::net::UdpSocket::bind(SocketAddr::from(LOOPBACK)).unwrap().local_addr().unwrap();
        let mut silent = here.open(nobody, "bulk", Vec::new()).unwrap();
        assert_eq!(silent.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::TimedOut);
        for (code, kind) in [
            (reset_code::REFUSED, ErrorKind::ConnectionRefused),
            (reset_code::DENIED, ErrorKind::PermissionDenied),
            (reset_code::ABORTED, ErrorKind::ConnectionReset),
        ] {
            let mut stream = here.open(there, "bulk", Vec::new()).unwrap();
            accepted.next().await.unwrap().stream.reset(code);
            assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), kind);
        }
        // A node that ends takes its streams with it.
        let mut stream = here.open(there, "bulk", Vec::new()).unwrap();
        let taken = accepted.next().await.unwrap();
        drop(that_node);
        assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(taken);
    });
}

/// A reader that has stopped holds up its stream, not its bundle.
#[test]
fn a_stalled_stream_holds_up_no_other() {
    block_on(async {
        let (here, _streams, _) = node(&["bulk"]);
        let (_there, mut accepted, there) = node(&["bulk"]);
        let mut stalled = here.open(there, "bulk", b"stalled".to_vec()).unwrap();
        let filling = async {
            let piece = [1; 10_000];
            while tokio::time::timeout(std::time::Duration::from_millis(100), stalled.write_all(&piece)).await.is_ok() {
            }
        };
        filling.await;
        let _unread = accepted.next().await.unwrap();
        let mut live = here.open(there, "bulk", b"live".to_vec()).unwrap();
        let AcceptedStream { mut stream, .. } = accepted.next().await.unwrap();
        let sending = async {
            live.write_all(&content(5_000_000, 3)).await.unwrap();
            live.shutdown().await.unwrap();
        };
        let mut bytes = Vec::new();
        let ((), read) = tokio::join!(sending, stream.read_to_end(&mut bytes));
        read.unwrap();
        assert!(bytes == content(5_000_000, 3));
    });
}

/// All bundles with a peer have one bound for what nobody reads, whoever called and in whatever order they fill: the fullest
/// gives way. A stream of the same peer that is read goes on.
#[test]
fn bundles_of_a_peer_have_one_bound() {
    block_on(async {
        let most = 8 << 20;
        let few = BundleClass { max_unread: most, max_streams: 256, ..class("bulk") };
        let (far, mut accepted) = BundleNode::bind(LOOPBACK.into(), settings(), vec![few]).unwrap();
        let there = far.local_address();
        let (good, _streams, _) = node(&["bulk"]);
        let mut live = good.open(there, "bulk", Vec::new()).unwrap();
        live.write_all(b"x").await.unwrap();
        let mut read = accepted.next().await.unwrap().stream;
        read.read_exact(&mut [0]).await.unwrap();
        let mut filled = Vec::new();
        for number in 0..4 {
            let (near, mut to_near, near_address) = node(&["bulk"]);
            let mut called = None;
            if number == 3 {
                let mut stream = far.open(near_address, "bulk", Vec::new()).unwrap();
                stream.write_all(b"x").await.unwrap();
                let mut accepted = to_near.next().await.unwrap();
                accepted.stream.read_exact(&mut [0]).await.unwrap();
                called = Some((stream, accepted));
            }
            let mut streams = Vec::new();
            for _ in 0..160 {
                let mut stream = near.open(there, "bulk", Vec::new()).unwrap();
                stream.write_all(&content(64 << 10, 7)).await.unwrap();
                streams.push(stream);
            }
            // The far side has got all of it, or has reset its stream.
            while near.reports()[0].held_bytes > 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(near.reports().len(), 1, "it goes by the bundle that stands");
            filled.push((near, to_near, streams, called));
            let held: u64 = far.reports().iter().map(|report| report.held_bytes).sum();
            // What a bundle holds besides is the resets that its peer has not acknowledged yet.
            assert!((most / 2..most + (64 << 10)).contains(&held), "{held} after {number}");
            live.write_all(&content(64 << 10, number)).await.unwrap();
            let mut bytes = vec![0; 64 << 10];
            read.read_exact(&mut bytes).await.unwrap();
            assert_eq!(bytes, content(64 << 10, number));
        }
    });
}

/// A TCP connection: the program's end, and the other.
fn connection() -> (TcpStream, OwnedFd) {
    let listener = TcpListener::bind(SocketAddr::from(LOOPBACK)).unwrap();
    let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (program, listener.accept().unwrap().0.into())
}

/// A stream that both nodes carry from a connection to another; what became of it at either end, and what `programs` saw.
async fn carried<T: Send + 'static>(
    programs: impl FnOnce(TcpStream, TcpStream) -> T + Send + 'static,
) -> ([std::io::Result<()>; 2], T) {
    let (here, _streams, _) = node(&["bulk"]);
    let (_there, mut accepted, there) = node(&["bulk"]);
    let ((program, near), (service, far)) = (connection(), connection());
    let outgoing = here.open(there, "bulk", Vec::new()).unwrap();
    let incoming = accepted.next().await.unwrap().stream;
    let seen = std::thread::spawn(move || programs(program, service));
    let (near, far) = tokio::join!(outgoing.carry(near), incoming.carry(far));
    ([near, far], seen.join().unwrap())
}

fn read_all(mut from: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Sockets that the node's thread carries: all bytes go both ways, and each side ends by itself.
#[test]
fn carried_sockets_end_each_way_by_itself() {
    let ([near, far], ()) = block_on(carried(|mut program, mut service| {
        let taking = std::thread::spawn(move || {
            assert!(read_all(&service) == content(20_000_000, 5));
            // The other half still goes.
            service.write_all(&content(3_000_000, 6)).unwrap();
        });
        program.write_all(&content(20_000_000, 5)).unwrap();
        program.shutdown(Shutdown::Write).unwrap();
        assert!(read_all(&program) == content(3_000_000, 6));
        taking.join().unwrap();
    }));
    near.unwrap();
    far.unwrap();
}

/// A program that goes while bytes for it are under way resets the service's connection.
#[test]
fn a_reset_goes_from_a_carried_socket_to_the_other() {
    let (ends, kind) = block_on(carried(|mut program, mut service| {
        service.write_all(&content(100_000, 1)).unwrap();
        program.read_exact(&mut [0]).unwrap();
        // With bytes that it has not read.
        drop(program);
        loop {
            if let Err(error) = service.read(&mut [0]).and_then(|_| service.write(&[0; 1000])) {
                return error.kind();
            }
        }
    }));
    assert!(ends.iter().all(Result::is_err), "{ends:?}");
    assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind}");
}

/// Whoever stops waiting for a carried socket, or whose node ends, has reset it at both ends.
#[test]
fn a_carried_socket_is_reset_by_who_lets_it_go() {
    for node_ends in [false, true] {
        block_on(async {
            let (here, _streams, _) = node(&["bulk"]);
            let (_there, mut accepted, there) = node(&["bulk"]);
            let ((program, near), (service, far)) = (connection(), connection());
            let outgoing = here.open(there, "bulk", Vec::new()).unwrap();
            let incoming = accepted.next().await.unwrap().stream;
            let mut near = Box::pin(outgoing.carry(near));
            let mut far = Box::pin(incoming.carry(far));
            assert!(is_pending(&mut near).await && is_pending(&mut far).await);
            if node_ends {
                drop(here);
                assert!(near.await.is_err());
            } else {
                drop(near);
            }
            assert!(far.await.is_err());
            for mut end in [program, service] {
                assert_eq!(end.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            }
        });
    }
}

/// Panics at the first byte.
struct Panics;

impl ChangeBytes for Panics {
    fn take_from_socket(&mut self, _: &[u8], _: &mut Vec<u8>) -> std::io::Result<()> {
        panic!("this is a test")
    }

    fn take_from_stream(&mut self, _: &[u8], _: &mut Vec<u8>) -> std::io::Result<()> {
        panic!("this is a test")
    }

    fn passing(&self) -> usize {
        0
    }

    fn pass(&mut self, _: usize) {}
}

/// A panic of a node's thread ends all that it carries, at both ends, and whoever wants more hears why.
#[test]
fn a_panic_of_a_nodes_thread_is_told() {
    block_on(async {
        let (here, mut to_here, _) = node(&["bulk"]);
        let (that_node, mut accepted, there) = node(&["bulk"]);
        let mut other = here.open(there, "bulk", Vec::new()).unwrap();
        let mut far = accepted.next().await.unwrap().stream;
        // Nobody sends any, but who expects the call does not refuse it.
        let expected = that_node.expect_messages("bulk").unwrap();
        let called = here.call_for_messages(there, "bulk", expected.token(), 0).unwrap();
        let (mut program, near) = connection();
        program.write_all(b"x").unwrap();
        let carried = here.open(there, "bulk", Vec::new()).unwrap().carry_changed(near, Box::new(Panics));
        assert_eq!(carried.await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        let errors = [
            other.read(&mut [0]).await.unwrap_err(),
            to_here.next().await.map(drop).unwrap_err(),
            here.open(there, "bulk", Vec::new()).map(drop).unwrap_err(),
            called.recv().await.unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("the node's thread has panicked"), "{error}");
        }
        assert_eq!(far.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

/// Polls a future once.
async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending()))
        .await
}

/// A carried socket whose program does not read holds up no other.
#[test]
fn a_stalled_carried_socket_holds_up_no_other() {
    block_on(async {
        let (here, _streams, _) = node(&["bulk"]);
        let (_there, mut accepted, there) = node(&["bulk"]);
        let mut carrying = tokio::task::JoinSet::new();
        let mut ends = Vec::new();
        for _ in 0..2 {
            let ((program, near), (service, far)) = (connection(), connection());
            carrying.spawn(here.open(there, "bulk", Vec::new()).unwrap().carry(near));
            carrying.spawn(accepted.next().await.unwrap().stream.carry(far));
            ends.push((program, service));
        }
        let work = std::thread::spawn(move || {
            let (mut live, to_live) = ends.pop().unwrap();
            let (stalled, _unread) = ends.pop().unwrap();
            stalled.set_write_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
            // Until it takes no more.
            while (&stalled).write(&[1; 10_000]).is_ok() {}
            let sending = std::thread::spawn(move || {
                live.write_all(&content(5_000_000, 3)).unwrap();
                live.shutdown(Shutdown::Write).unwrap();
                live
            });
            assert!(read_all(&to_live) == content(5_000_000, 3));
            drop(to_live);
            sending.join().unwrap()
        });
        carrying.join_next().await.unwrap().unwrap().unwrap();
        work.join().unwrap();
    });
}
