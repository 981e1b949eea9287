//! Streams and messages as applications use them.

use std::io::{ErrorKind, Read, Write};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::common::{all_day, by, content, encrypted, loopback, send_from_port_zero, settings};
use pliant_net::api::{Node, Settings, blocking};
use pliant_net::connection::Keys;
use pliant_net::flow::{FlowSettings, SocketTransport};
use pliant_proto::congestion::Algorithm;
use pliant_proto::contract::Contract;
use pliant_proto::contract::schedule::DaySchedule;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Megabytes go both ways at once over one stream, larger than all buffers; each side reads what the other wrote, then
/// the end.
#[test]
fn streams_carry_both_ways() {
    const BYTES: usize = 3 << 20;
    for settings in [settings(), encrypted(by(SocketTransport::Tcp(Algorithm::Cubic)))] {
        let called = Node::bind(loopback(), settings.clone()).unwrap();
        let caller = Node::client(loopback(), settings).unwrap();
        let there = content(BYTES);
        let back: Vec<u8> = there.iter().map(|byte| byte ^ 0xff).collect();
        runtime().block_on(async {
            let (stream, accepted) = tokio::join!(caller.connect(called.local_address()), called.accept());
            let (mut stream, mut accepted) = (stream.unwrap(), accepted.unwrap());
            assert_eq!(stream.report().peer, called.local_address());
            let (mut reader, mut writer) = tokio::io::split(&mut stream);
            let (mut far_reader, mut far_writer) = tokio::io::split(&mut accepted);
            let (mut got_there, mut got_back) = (Vec::new(), Vec::new());
            let results = tokio::join!(
                async { writer.write_all(&there).await.and(writer.shutdown().await) },
                async { far_writer.write_all(&back).await.and(far_writer.shutdown().await) },
                far_reader.read_to_end(&mut got_there),
                reader.read_to_end(&mut got_back),
            );
            assert!(matches!(results, (Ok(()), Ok(()), Ok(BYTES), Ok(BYTES))), "{results:?}");
            assert!(got_there == there && got_back == back);
            let report = accepted.report();
            assert!(report.receiver.duplicate_bytes < BYTES as u64 && report.sender.bytes_sent >= BYTES as u64);
        });
    }
}

/// A node that only calls others does not wait for a call that cannot come: `accept` fails at once and says why.
#[test]
fn a_node_that_does_not_listen_accepts_nothing() {
    let caller = Node::client(loopback(), settings()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for messages in [false, true] {
        let polled = if messages {
            pin!(caller.accept_messages()).poll(&mut context).map(|result| result.err().unwrap())
        } else {
            pin!(caller.accept()).poll(&mut context).map(|result| result.err().unwrap())
        };
        let Poll::Ready(error) = polled else { panic!("it waits for ever") };
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "this node only calls others: accept needs a node that listens");
    }
}

/// A reader that takes its time holds the writer back: no more than both buffers is ever under way.
#[test]
fn slow_readers_hold_writers_back() {
    let settings = encrypted(settings());
    let buffer = settings.flow.receive_buffer as usize;
    let called = blocking::Node::bind(loopback(), settings.clone()).unwrap();
    let caller = Node::client(loopback(), settings).unwrap();
    let to = called.local_address();
    runtime().block_on(async {
        let mut stream = caller.connect(to).await.unwrap();
        let mut accepted = called.accept().unwrap();
        // As much as is taken without a reader: the write after it would wait.
        let mut written = 0;
        let piece = vec![7; 10_000];
        let patience = || {
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                std::task::Poll::<()>::Ready(())
            })
        };
        for _ in 0..100_000 {
            let waits = std::future::poll_fn(|context| {
                let poll = tokio::io::AsyncWrite::poll_write(std::pin::Pin::new(&mut stream), context, &piece);
                std::task::Poll::Ready(match poll {
                    std::task::Poll::Ready(written) => written.unwrap(),
                    std::task::Poll::Pending => 0,
                })
            });
            written += waits.await;
            patience().await;
        }
        assert!(written >= buffer && written <= 3 * buffer, "{written} bytes");
        let mut read = 0;
        let reading = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while read < written {
                read += accepted.read(&mut bytes).unwrap();
            }
            accepted
        });
        let mut accepted = reading.join().unwrap();
        stream.write_all(b"more").await.unwrap();
        let mut more = [0; 4];
        accepted.read_exact(&mut more).unwrap();
        assert_eq!(&more, b"more");
    });
}

/// Calls that cannot succeed fail with their kind; so do reads when the other side goes away, and writes after the end.
#[test]
fn failures_have_their_kind() {
    let quick = |settings: Settings| Settings { connect_timeout: Span::from_ms(600), ..settings };
    let called = blocking::Node::bind(loopback(), encrypted(settings())).unwrap();
    let to = called.local_address();
    let call = |settings| blocking::Node::client(loopback(), quick(settings)).unwrap().connect(to).map(drop);
    let kind = |result: std::io::Result<()>| result.unwrap_err().kind();
    let other = Settings { keys: Keys::Preshared([1; 32]), ..settings() };
    assert_eq!(kind(call(other)), ErrorKind::ConnectionRefused);
    assert_eq!(kind(call(settings())), ErrorKind::ConnectionRefused);
    assert_eq!(kind(call(encrypted(by(SocketTransport::Atp)))), ErrorKind::InvalidInput);
    let nobody = std::net::UdpSocket::bind(loopback()).unwrap();
    let caller = blocking::Node::client(loopback(), quick(encrypted(settings()))).unwrap();
    assert_eq!(kind(caller.connect(nobody.local_addr().unwrap()).map(drop)), ErrorKind::TimedOut);

    let mut stream = caller.connect(to).unwrap();
    let accepted = called.accept().unwrap();
    drop(accepted);
    let mut byte = [0];
    assert_eq!(stream.read(&mut byte).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut stream = caller.connect(to).unwrap();
    let mut accepted = called.accept().unwrap();
    stream.write_all(b"x").unwrap();
    stream.finish().unwrap();
    assert_eq!(stream.write(b"y").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!((accepted.read(&mut byte).unwrap(), accepted.read(&mut byte).unwrap()), (1, 0));
}

/// The weight may change while a stream runs; bounds may not, and what the transport does not honour is refused.
#[test]
fn contracts_change_where_they_can() {
    let settings = encrypted(by(SocketTransport::Tcp(Algorithm::WeightedFair)));
    let called = blocking::Node::bind(loopback(), settings.clone()).unwrap();
    let stream = blocking::Node::client(loopback(), settings).unwrap().connect(called.local_address()).unwrap();
    let contract = Contract::default();
    assert!(stream.set_contract(&Contract { weight: 4.0, ..contract }).is_ok());
    for refused in [Contract { weight: -1.0, ..contract }, Contract { min_share: 0.5, ..contract }] {
        assert_eq!(stream.set_contract(&refused).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

/// A stream that is held to next to nothing is across at once when its greatest rate goes; under `bounded` the floors change,
/// too. No stream has a time to be done, as nobody knows its size.
#[test]
fn rates_change_under_a_stream() {
    let mut settings = encrypted(by(SocketTransport::Tcp(Algorithm::Bounded)));
    // At this rate it takes a minute.
    let slow = Contract { min_share: 0.0, max_rate: Some(Rate::from_bits_per_sec(8000)), ..Contract::default() };
    settings.flow.contract = slow;
    let called = blocking::Node::bind(loopback(), settings.clone()).unwrap();
    let mut stream =
        blocking::Node::client(loopback(), settings.clone()).unwrap().connect(called.local_address()).unwrap();
    let mut accepted = called.accept().unwrap();
    stream.write_all(&content(60_000)).unwrap();
    let fast = Contract { min_share: 0.5, min_rate: Rate::from_bits_per_sec(1_000_000), max_rate: None, ..slow };
    stream.set_contract(&fast).unwrap();
    let mut bytes = vec![0; 60_000];
    accepted.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, content(60_000));
    let by_a_time = Contract { done_by: Some(Span::from_secs(9)), ..fast };
    for (refused, why) in [
        (by_a_time, "done_by needs a flow of known size"),
        (Contract { min_delivery: 0.9, ..fast }, "does not honour min_delivery"),
        (Contract { max_rate: Some(Rate::from_bits_per_sec(8000)), ..fast }, "min_rate is above max_rate"),
    ] {
        let error = stream.set_contract(&refused).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains(why), "{error}");
    }
    settings.flow.contract = by_a_time;
    assert!(blocking::Node::bind(loopback(), settings).is_err());
}

/// A node's schedule holds for the streams that begin under it, and goes from those that run when it goes: 60 kB would take a
/// minute. A contract that a part contradicts is refused, at the start and later.
#[test]
fn a_schedule_changes_under_a_stream() {
    let mut settings = encrypted(by(SocketTransport::Tcp(Algorithm::Bounded)));
    settings.flow.contract.min_share = 0.5;
    let called = blocking::Node::bind(loopback(), settings.clone()).unwrap();
    let calling = blocking::Node::client(loopback(), Settings { schedule: all_day(), ..settings.clone() }).unwrap();
    let mut stream = calling.connect(called.local_address()).unwrap();
    let mut accepted = called.accept().unwrap();
    stream.write_all(&content(60_000)).unwrap();
    let floor = Contract { min_rate: Rate::from_bits_per_sec(8001), ..settings.flow.contract };
    let refused = stream.set_contract(&floor).unwrap_err();
    assert!(refused.to_string().contains("min_rate is above max_rate"), "{refused}");
    calling.set_schedule(DaySchedule::default()).unwrap();
    let mut bytes = vec![0; 60_000];
    accepted.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, content(60_000));
    stream.set_contract(&floor).unwrap();
    settings.flow.contract = floor;
    let refused = blocking::Node::client(loopback(), Settings { schedule: all_day(), ..settings }).err().unwrap();
    assert!(refused.to_string().contains("min_rate is above max_rate"), "{refused}");
}

/// A stream that announces what nobody writes says that it will be late, and not before; what is written then arrives. A time
/// that promises nothing, or that cannot be kept, is refused.
#[test]
fn a_stream_says_that_it_will_be_late() {
    let mut settings = encrypted(by(SocketTransport::Tcp(Algorithm::Bounded)));
    settings.flow.contract.min_share = 0.0;
    let called = blocking::Node::bind(loopback(), settings.clone()).unwrap();
    let calling = blocking::Node::client(loopback(), settings.clone()).unwrap();
    let mut stream = calling.connect(called.local_address()).unwrap();
    let mut accepted = called.accept().unwrap();
    stream.set_done_by(1000, Some(Span::from_ms(1))).unwrap();
    while stream.report().late.is_none() {
        thread::yield_now();
    }
    assert_eq!(stream.report().late, Some(Duration::MAX), "nothing moves");
    stream.set_done_by(1000, Some(Span::from_secs(3600))).unwrap();
    assert_eq!(stream.report().late, None);
    stream.write_all(&content(1000)).unwrap();
    stream.finish().unwrap();
    let mut bytes = Vec::new();
    accepted.read_to_end(&mut bytes).unwrap();
    assert_eq!((bytes, stream.report().late), (content(1000), None));
    stream.set_done_by(0, None).unwrap();
    let refused = |stream: &blocking::Stream, span| stream.set_done_by(1000, Some(span)).unwrap_err().to_string();
    assert!(refused(&stream, Span::ZERO).contains("done_by has passed"));
    stream.set_contract(&Contract { max_rate: Some(Rate::from_bits_per_sec(8000)), ..settings.flow.contract }).unwrap();
    assert!(refused(&stream, Span::from_ms(999)).contains("at max_rate the flow takes longer"));
    stream.set_contract(&Contract::default()).unwrap();
    assert!(refused(&stream, Span::from_secs(9)).contains("done_by has no effect while min_share is 1"));
    let mut other = settings.clone();
    other.flow = FlowSettings { transport: SocketTransport::Tcp(Algorithm::Cubic), ..FlowSettings::default() };
    let stream = blocking::Node::client(loopback(), other).unwrap().connect(called.local_address()).unwrap();
    assert!(refused(&stream, Span::from_secs(9)).contains("does not honour done_by"));
}

/// A program that ends as soon as it has dropped its node leaves nobody waiting: the peer hears that the stream is closed. The
/// test calls itself, as a thread would outlive the node.
#[test]
fn a_program_may_end_at_once() {
    const CALLED: &str = "PLIANT_TEST_CALLED";
    if let Ok(called) = std::env::var(CALLED) {
        let node = blocking::Node::client(loopback(), settings()).unwrap();
        let mut stream = node.connect(called.parse().unwrap()).unwrap();
        stream.write_all(b"all of it").unwrap();
        stream.finish().unwrap();
        drop((stream, node));
        std::process::exit(0);
    }
    // Who hears nothing waits for less than 30 seconds.
    let called = blocking::Node::bind(loopback(), Settings { idle_timeout: Span::from_secs(3), ..settings() }).unwrap();
    for _ in 0..10 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "api::a_program_may_end_at_once"]).env(CALLED, called.local_address().to_string());
        let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
        let mut stream = called.accept().unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"all of it");
        assert!(child.wait().unwrap().success());
        stream.finish().unwrap();
    }
}

/// Messages arrive whole, each once, and both sides agree on how many; by the contract some may be missing.
#[test]
fn messages_arrive_whole() {
    const MESSAGES: u32 = 2000;
    let base = encrypted(by(SocketTransport::Atp));
    for min_delivery in [1.0, 0.8] {
        let contract = Contract { min_delivery, ..Contract::default() };
        let settings = Settings { flow: FlowSettings { contract, ..base.flow.clone() }, ..base.clone() };
        let called = blocking::Node::bind(loopback(), settings.clone()).unwrap();
        let caller = blocking::Node::client(loopback(), settings).unwrap();
        let sender = caller.connect_messages(called.local_address()).unwrap();
        let receiver = called.accept_messages().unwrap();
        let message = |number: u32| number.to_be_bytes().repeat(1 + number as usize % 700);
        sender.announce(MESSAGES);
        for number in 0..MESSAGES {
            assert_eq!(sender.send(&message(number)).unwrap(), number);
        }
        assert_eq!(sender.send(b"").unwrap_err().kind(), ErrorKind::InvalidInput);
        let receiving = thread::spawn(move || {
            let mut numbers = Vec::new();
            while let Some((number, bytes)) = receiver.recv_blocking().unwrap() {
                assert_eq!(bytes[..], message(number));
                numbers.push(number);
            }
            (numbers, receiver.delivery().unwrap())
        });
        sender.finish_blocking().unwrap();
        let by_size = sender.by_size_blocking().unwrap();
        let (mut numbers, delivery) = receiving.join().unwrap();
        numbers.sort_unstable();
        let missing: Vec<u32> = (0..MESSAGES).filter(|number| numbers.binary_search(number).is_err()).collect();
        assert_eq!((delivery.messages, &delivery.missing), (MESSAGES, &missing));
        assert_eq!(delivery.delivered as usize, numbers.len());
        assert!(f64::from(delivery.delivered) >= min_delivery * f64::from(MESSAGES));
        // 4 to 2800 bytes are one packet or two of 1408 bytes of payload; an acknowledgement that was lost leaves one out.
        let sums = by_size.iter().fold((0, 0), |sums, class| (sums.0 + class.messages, sums.1 + class.delivered));
        assert!(sums.0 == MESSAGES && sums.1 <= delivery.delivered && sums.1 > 0, "{by_size:?}, {delivery:?}");
        assert!(
            by_size[..2].iter().all(|class| class.messages > 300 && class.delivered <= class.messages),
            "{by_size:?}"
        );
    }
}

/// A program that does not take its messages holds their sender back, and loses none: 64 receive buffers wait, and what
/// was refused then comes later.
#[test]
fn messages_wait_for_a_slow_program() {
    const MESSAGES: u32 = 1600;
    const BYTES: usize = 6000;
    let base = encrypted(by(SocketTransport::Atp));
    let settings = Settings { flow: FlowSettings { receive_buffer: 1 << 16, ..base.flow.clone() }, ..base };
    let called = blocking::Node::bind(loopback(), settings.clone()).unwrap();
    let caller = blocking::Node::client(loopback(), settings).unwrap();
    let sender = caller.connect_messages(called.local_address()).unwrap();
    let receiver = called.accept_messages().unwrap();
    for _ in 0..MESSAGES {
        sender.send(&[7; BYTES]).unwrap();
    }
    let full = (64 << 16) / BYTES as u32;
    while receiver.delivered() < full || sender.report().sender.timeouts == 0 {
        thread::yield_now();
    }
    assert!(receiver.delivered() <= full + 12, "{} messages wait", receiver.delivered());
    let receiving = thread::spawn(move || {
        let mut count = 0;
        while let Some((_, bytes)) = receiver.recv_blocking().unwrap() {
            assert_eq!(bytes[..], [7; BYTES]);
            count += 1;
        }
        count
    });
    sender.finish_blocking().unwrap();
    assert_eq!(receiving.join().unwrap(), MESSAGES);
}

/// A hello from port 0, to which nothing can be answered, does not end a node: who calls next is accepted.
#[test]
fn a_hello_from_port_zero_ends_no_node() {
    for settings in [settings(), encrypted(settings())] {
        let called = Node::bind(loopback(), settings.clone()).unwrap();
        let caller = Node::client(loopback(), settings).unwrap();
        let to = called.local_address();
        if !send_from_port_zero(to, &[&[0x51, 0x20, 1, 0, 0, 0, 0, 1][..], &[0; 56]].concat()) {
            return;
        }
        let (stream, accepted) = runtime().block_on(async { tokio::join!(caller.connect(to), called.accept()) });
        assert!(stream.is_ok() && accepted.is_ok());
    }
}

/// One address that opens messages which the program never accepts is refused from its 33rd on. Another address, and
/// streams of the same one, are accepted all the same.
#[test]
fn an_address_that_is_never_accepted_keeps_nobody_out() {
    let called = Node::bind(loopback(), encrypted(settings())).unwrap();
    let messages = encrypted(by(SocketTransport::Atp));
    let client = |address: &str, settings: &Settings| Node::client(address.parse().unwrap(), settings.clone()).unwrap();
    let greedy = client("127.0.0.1:0", &messages);
    let (other, streams) = (client("127.0.0.2:0", &messages), client("127.0.0.1:0", &encrypted(settings())));
    let to = called.local_address();
    runtime().block_on(async {
        let mut held = Vec::new();
        for _ in 0..32 {
            held.push(greedy.connect_messages(to).await.unwrap());
        }
        let refused = greedy.connect_messages(to).await.err().unwrap();
        assert!(refused.to_string().contains("too many wait to be accepted"), "{refused}");
        assert!(other.connect_messages(to).await.is_ok());
        let (stream, accepted) = tokio::join!(streams.connect(to), called.accept());
        assert!(stream.is_ok() && accepted.is_ok());
    });
}
