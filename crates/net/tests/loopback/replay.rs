//! What a machine did on a real socket can be done again without one.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Faults, Relay, loopback, settings};
use pliant_net::clock::Clock;
use pliant_net::connection::{Caller, Closed, Config, ConnectionId, Endpoint, Event as ConnectionEvent};
use pliant_net::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use pliant_net::flow::{Path, Protocol};
use pliant_net::input_log::{Input, Logged, Output, replay};
use pliant_net::socket::Socket;
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::{Command, Event, Transport};

const BYTES: u64 = 1 << 20;

/// Bytes without meaning; it hears when a side is done.
#[derive(Default)]
struct Zeros {
    done: bool,
}

impl Application for Zeros {
    fn read(&mut self, _: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        payload.fill(0);
        Ok(())
    }

    fn write(&mut self, _: PayloadLocation, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: Event<AnyRequest>) -> io::Result<()> {
        self.done |= matches!(event, Event::Received | Event::Finished);
        Ok(())
    }
}

const PATH: Path = Path { ipv6: false, sealing_bytes: 0 };

fn sender() -> AnyTransport {
    settings().flow.sender(Protocol::Tcp, PATH, None, 0).unwrap()
}

fn receiver() -> AnyTransport {
    settings().flow.receiver(Protocol::Tcp, PATH, 1500, 1)
}

/// Logs whatever it carries.
struct Logging;

impl ConnectionHandler<Logged<AnyTransport>, Zeros> for Logging {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }

    fn open(
        &mut self,
        now: Instant,
        _: ConnectionId,
        event: ConnectionEvent,
    ) -> Option<Session<Logged<AnyTransport>, Zeros>> {
        let session = Session::new(Zeros::default());
        if matches!(event, ConnectionEvent::Accepted { .. }) {
            return Some(session.receiving(Logged::new(receiver())));
        }
        let mut sender = Logged::new(sender());
        sender.handle_command(now, Command::Send { bytes: BYTES });
        sender.handle_command(now, Command::Finish);
        Some(session.sending(sender, None))
    }

    fn closed(&mut self, _: ConnectionId, _: Option<Session<Logged<AnyTransport>, Zeros>>, why: Closed) {
        panic!("{why}");
    }
}

/// The logs of a transfer over sockets with marks, losses and reordering, replayed into fresh machines, give the very
/// outputs of the first time: packets with their SACK blocks, and events.
#[test]
fn logs_of_real_sockets_replay_identically() {
    let (here, there) = (Socket::bind(loopback()).unwrap(), Socket::bind(loopback()).unwrap());
    let faults = Faults { mark: 5, drop: 89, duplicate: 41, reorder: 61, ..Faults::default() };
    let relay = Relay::new(faults, there.local_address().unwrap());
    let (way, stop) = (relay.address(), AtomicBool::new(false));
    let clock = Clock::start();
    let endpoint = |accepts| Endpoint::new(Config { accepts, ..Config::default() }, [u8::from(accepts); 32]);
    let mut initiator = Driver::new(here, endpoint(false), clock);
    let mut responder = Driver::new(there, endpoint(true), clock);
    let done = thread::scope(|scope| {
        let relaying = scope.spawn(|| relay.run(&stop));
        let connection = initiator.connect(way, b"").unwrap();
        let is_done = |driver: &Driver<_, Zeros>, connection| {
            driver.session(connection).is_some_and(|session| session.application.done)
        };
        loop {
            initiator.run_once(&mut Logging, Duration::from_millis(1)).unwrap();
            responder.run_once(&mut Logging, Duration::from_millis(1)).unwrap();
            let accepted = responder.connections().next();
            if is_done(&initiator, connection) && accepted.is_some_and(|accepted| is_done(&responder, accepted)) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        relaying.join().unwrap()
    });
    assert!(done.marked > 0 && done.dropped > 0 && done.duplicated > 0 && done.reordered > 0, "{done:?}");
    let (sending, receiving) = (initiator.connections().next().unwrap(), responder.connections().next().unwrap());
    let sent = initiator.session(sending).unwrap().sender().unwrap();
    let received = responder.session(receiving).unwrap().receiver().unwrap();
    assert!(
        sent.inputs.iter().any(|(_, input)| matches!(input, Input::Packet(_, sack) if !sack.as_slice().is_empty()))
    );
    assert!(sent.outputs.contains(&Output::Event(Event::Finished)));
    assert_eq!(replay(sender(), &sent.inputs), sent.outputs);
    assert_eq!(replay(receiver(), &received.inputs), received.outputs);
}
