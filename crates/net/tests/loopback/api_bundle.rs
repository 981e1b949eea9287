//! Bundles as applications use them: many streams under one contract.

use std::io::{ErrorKind, Read, Write};
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;

use crate::common::{all_day, by, content, encrypted, loopback, settings};
use pliant_net::api::blocking::Node;
use pliant_net::api::{self, Bundle, Settings};
use pliant_net::flow::SocketTransport;
use pliant_proto::congestion::Algorithm;
use pliant_proto::contract::Contract;
use pliant_proto::contract::schedule::DaySchedule;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Two nodes and a bundle between them, as the caller has it and as the other side has it.
fn pair(settings: &Settings, contract: &Contract) -> (Node, Node, Bundle, Bundle) {
    let far = Node::bind(loopback(), settings.clone()).unwrap();
    let near = Node::client(loopback(), settings.clone()).unwrap();
    let (called, accepted) = thread::scope(|scope| {
        let accepted = scope.spawn(|| far.accept_bundle().unwrap());
        (near.connect_bundle(far.local_address(), contract).unwrap(), accepted.join().unwrap())
    });
    (near, far, called, accepted)
}

/// What stream `number` carries: none alike, from nothing to more than its window.
fn of_stream(number: usize) -> Vec<u8> {
    content(number * number * 50).into_iter().map(|byte| byte ^ number as u8).collect()
}

/// 64 streams at once, plain and encrypted: each side reads what the other wrote, byte for byte, then the end. All go by one
/// flow, and its report is of their sum.
#[test]
fn sixty_four_streams_carry_both_ways() {
    for settings in [settings(), encrypted(by(SocketTransport::Tcp(Algorithm::Bounded)))] {
        let (_near, _far, called, accepted) = pair(&settings, &Contract::default());
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..64 {
                    let mut stream = accepted.accept_blocking().unwrap();
                    scope.spawn(move || {
                        let mut number = [0];
                        stream.read_exact(&mut number).unwrap();
                        let mut got = Vec::new();
                        stream.read_to_end(&mut got).unwrap();
                        assert!(got == of_stream(number[0].into()), "{} bytes of stream {}", got.len(), number[0]);
                        let back: Vec<u8> = got.iter().map(|byte| byte ^ 0xff).collect();
                        stream.write_all(&back).unwrap();
                        stream.finish().unwrap();
                    });
                }
            });
            for number in 0..64u8 {
                let stream = called.open_blocking().unwrap();
                scope.spawn(move || {
                    let sent = of_stream(number.into());
                    (&stream).write_all(&[number]).unwrap();
                    (&stream).write_all(&sent).unwrap();
                    stream.finish().unwrap();
                    let mut got = Vec::new();
                    (&stream).read_to_end(&mut got).unwrap();
                    assert!(got.iter().map(|byte| byte ^ 0xff).eq(sent), "stream {number}");
                });
            }
        });
        let all: u64 = (0..64).map(|number| of_stream(number).len() as u64 + 1).sum();
        assert!(called.report().sender.bytes_sent >= all, "{:?}", called.report());
        assert_eq!(called.streams(), 0, "both sides have ended all");
    }
}

/// A reader that does not read holds up its own stream, whose window fills. Others carry many windows meanwhile.
#[test]
fn a_stalled_stream_does_not_stop_the_others() {
    let (_near, _far, called, accepted) = pair(&encrypted(settings()), &Contract::default());
    thread::scope(|scope| {
        let stalled = called.open_blocking().unwrap();
        let written = scope.spawn(move || (&stalled).write_all(&content(4 << 20)).and(stalled.finish()));
        let mut unread = accepted.accept_blocking().unwrap();
        for number in 0..8 {
            let mut stream = called.open_blocking().unwrap();
            let reader = scope.spawn(|| {
                let mut got = Vec::new();
                accepted.accept_blocking().unwrap().read_to_end(&mut got).map(|_| got)
            });
            stream.write_all(&content((1 << 20) + number)).unwrap();
            stream.finish().unwrap();
            assert!(reader.join().unwrap().unwrap() == content((1 << 20) + number), "stream {number}");
        }
        assert!(!written.is_finished(), "4 MiB do not fit a window that nobody reads from");
        let mut got = Vec::new();
        unread.read_to_end(&mut got).unwrap();
        assert!(got == content(4 << 20));
        written.join().unwrap().unwrap();
    });
}

/// A sender that has finished may let its stream go, and the whole bundle: what it sent is read to the end by a reader that
/// comes later.
#[test]
fn what_was_finished_is_read_after_the_bundle_is_dropped() {
    let (near, _far, called, accepted) = pair(&encrypted(settings()), &Contract::default());
    let sent = content(40_000);
    let mut stream = called.open_blocking().unwrap();
    stream.write_all(&sent).unwrap();
    stream.finish().unwrap();
    drop((stream, called, near));
    let mut taken = accepted.accept_blocking().unwrap();
    let mut got = Vec::new();
    taken.read_to_end(&mut got).unwrap();
    assert!(got == sent);
    // Nobody is there any more to hear of the next one.
    loop {
        match accepted.open_blocking() {
            Ok(mut stream) => drop(stream.write_all(b"?")),
            Err(error) => return assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

/// A stream that is dropped before it was finished is cut off, not ended: the peer hears an error, and other streams go on.
#[test]
fn a_stream_that_is_dropped_unfinished_is_reset() {
    let (_near, _far, called, accepted) = pair(&settings(), &Contract::default());
    let mut cut = called.open_blocking().unwrap();
    cut.write_all(b"half").unwrap();
    let mut taken = accepted.accept_blocking().unwrap();
    drop(cut);
    let error = taken.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let mut other = called.open_blocking().unwrap();
    other.write_all(b"whole").unwrap();
    other.finish().unwrap();
    let mut got = Vec::new();
    accepted.accept_blocking().unwrap().read_to_end(&mut got).unwrap();
    assert_eq!(got, b"whole");
}

/// Closing a bundle ends all its streams with an error, on both sides, whoever waits; and nothing is opened in it any more.
#[test]
fn a_closed_bundle_ends_all_its_streams() {
    let (_near, _far, called, accepted) = pair(&encrypted(settings()), &Contract::default());
    let near: Vec<_> = (0..8).map(|_| called.open_blocking().unwrap()).collect();
    for mut stream in &near {
        stream.write_all(b"x").unwrap();
    }
    let far: Vec<_> = (0..8).map(|_| accepted.accept_blocking().unwrap()).collect();
    thread::scope(|scope| {
        let waits = |mut stream: &pliant_net::api::blocking::Stream| {
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect_err("no end was sent").kind()
        };
        let readers: Vec<_> = near.iter().chain(&far).map(|stream| scope.spawn(move || waits(stream))).collect();
        let accepting = scope.spawn(|| accepted.accept_blocking().err().expect("the bundle has ended").kind());
        called.close();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), ErrorKind::ConnectionReset);
        }
        assert_eq!(accepting.join().unwrap(), ErrorKind::ConnectionReset);
    });
    for (bundle, streams) in [(&called, &near), (&accepted, &far)] {
        assert_eq!(bundle.open_blocking().err().expect("it has ended").kind(), ErrorKind::ConnectionReset);
        for mut stream in streams {
            assert_eq!(stream.write(b"y").unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
    }
}

/// A contract that changes while streams run is honoured: at a greatest rate of 8 kbit/s a megabyte would take a quarter of
/// an hour. What cannot change is refused, and so is a contract for one of the streams.
#[test]
fn the_contract_of_a_bundle_changes_where_it_can() {
    let slow = Contract { min_share: 0.0, max_rate: Some(Rate::from_bits_per_sec(8000)), ..Contract::default() };
    let (_near, _far, called, accepted) = pair(&by(SocketTransport::Tcp(Algorithm::Bounded)), &slow);
    let bytes = content(1 << 20);
    thread::scope(|scope| {
        let streams: Vec<_> = (0..4).map(|_| called.open_blocking().unwrap()).collect();
        let (of_one, bytes) = (streams[0].set_contract(&Contract::default()).unwrap_err(), &bytes);
        assert_eq!(of_one.to_string(), "the contract of a stream of a bundle is that of the bundle");
        let writers: Vec<_> = streams
            .into_iter()
            .map(|stream| scope.spawn(move || (&stream).write_all(bytes).and(stream.finish())))
            .collect();
        let fast = Contract { min_share: 0.5, min_rate: Rate::from_bits_per_sec(1_000_000), max_rate: None, ..slow };
        called.set_contract(&fast).unwrap();
        for _ in 0..4 {
            let mut got = Vec::new();
            accepted.accept_blocking().unwrap().read_to_end(&mut got).unwrap();
            assert!(got == *bytes);
        }
        for writer in writers {
            writer.join().unwrap().unwrap();
        }
        for refused in [Contract { min_delivery: 0.5, ..fast }, Contract { weight: 2.0, ..fast }] {
            assert_eq!(called.set_contract(&refused).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    });
}

/// A bundle has the node's schedule and a time for the sum of its streams: it is late if nobody writes what was announced, and
/// in time for what all streams together have written and announced.
#[test]
fn a_bundle_has_a_schedule_and_a_time() {
    let gives_way = Contract { min_share: 0.0, ..Contract::default() };
    let settings = Settings { schedule: all_day(), ..by(SocketTransport::Tcp(Algorithm::Bounded)) };
    let (near, _far, called, accepted) = pair(&settings, &gives_way);
    let mut streams = [(); 4].map(|()| called.open_blocking().unwrap());
    for stream in &mut streams {
        stream.write_all(&content(15_000)).unwrap();
    }
    called.set_done_by(1, Some(Span::from_ms(1))).unwrap();
    while called.report().late.is_none() {
        thread::yield_now();
    }
    near.set_schedule(DaySchedule::default()).unwrap();
    called.set_done_by(60_000, Some(Span::from_secs(3600))).unwrap();
    let of_one = streams[0].set_done_by(1, None).unwrap_err();
    assert_eq!(of_one.to_string(), "the time of a stream of a bundle is that of the bundle");
    for stream in &mut streams {
        stream.write_all(&content(15_000)).unwrap();
        stream.finish().unwrap();
        let mut got = Vec::new();
        accepted.accept_blocking().unwrap().read_to_end(&mut got).unwrap();
        assert_eq!(got, [content(15_000), content(15_000)].concat());
    }
    assert_eq!(called.report().late, None);
    let zero = called.set_done_by(1, Some(Span::ZERO)).unwrap_err();
    assert!(zero.to_string().contains("done_by has passed"), "{zero}");
}

/// Streams by themselves, messages and bundles of one node do not take each other's places: each is accepted as what it is.
#[test]
fn streams_and_bundles_share_a_node() {
    let settings = encrypted(settings());
    let far = api::Node::bind(loopback(), settings.clone()).unwrap();
    let near = api::Node::client(loopback(), settings).unwrap();
    let to = far.local_address();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let contract = Contract::default();
        let (bundle, stream) = tokio::join!(near.connect_bundle(to, &contract), near.connect(to));
        let (bundle, mut stream) = (bundle.unwrap(), stream.unwrap());
        let mut of_bundle = bundle.open().unwrap();
        of_bundle.write_all(b"of the bundle").await.unwrap();
        stream.write_all(b"alone").await.unwrap();
        let (far_stream, far_bundle) = tokio::join!(far.accept(), far.accept_bundle());
        let (mut far_stream, mut far_of_bundle) = (far_stream.unwrap(), far_bundle.unwrap().accept().await.unwrap());
        let (mut alone, mut bundled) = ([0; 5], [0; 13]);
        far_stream.read_exact(&mut alone).await.unwrap();
        far_of_bundle.read_exact(&mut bundled).await.unwrap();
        assert_eq!((&alone, &bundled), (b"alone", b"of the bundle"));
    });
}

/// What cannot be a bundle is refused before anybody is called: a transport of messages, a deadline, a window that is too
/// small. A node that does not listen accepts none.
#[test]
fn what_cannot_be_a_bundle_is_refused() {
    let small = settings();
    let small = Settings { flow: pliant_net::flow::FlowSettings { receive_buffer: 60_000, ..small.flow }, ..small };
    let refused = |settings: Settings, contract: Contract| {
        let near = Node::client(loopback(), settings).unwrap();
        let error = near.connect_bundle(([127, 0, 0, 1], 9).into(), &contract).err().expect("a refusal");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(refused(by(SocketTransport::Atp), Contract::default()).contains("a transport with a window"));
    let by_a_time =
        Contract { min_share: 0.0, done_by: Some(pliant_proto::time::Span::from_secs(9)), ..Contract::default() };
    assert!(refused(by(SocketTransport::Tcp(Algorithm::Bounded)), by_a_time).contains("done_by"));
    assert!(refused(small, Contract::default()).contains("too small for a bundle"));
    let near = api::Node::client(loopback(), settings()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let polled = pin!(near.accept_bundle()).poll(&mut context);
    assert!(matches!(polled, std::task::Poll::Ready(Err(_))));
}

/// A reader that has read to the end lets its stream go, and answers nothing: the writer hears that all is there. This is
/// so however the two threads come about, so it is tried often.
#[test]
fn a_stream_that_was_read_to_its_end_ends_when_it_is_dropped() {
    let (_near, _far, called, accepted) = pair(&settings(), &Contract::default());
    thread::scope(|scope| {
        let reads = || accepted.accept_blocking().and_then(|mut stream| stream.read_to_end(&mut Vec::new()));
        let reader = scope.spawn(move || (0..300).map(|_| reads()).collect::<Vec<_>>());
        for number in 0..300 {
            let mut stream = called.open_blocking().unwrap();
            stream.write_all(&content(number)).unwrap();
            stream.finish().unwrap();
            // The other side ends as well.
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        for (number, read) in reader.join().unwrap().into_iter().enumerate() {
            assert_eq!(read.unwrap(), number);
        }
    });
}
