//! What a machine did on a real socket can be done again without one.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Faults, Relay, loopback, settings};
use pliant_net::driver::{Application, Clock, Driver};
use pliant_net::input_log::{Input, Logged, Output, replay};
use pliant_net::socket::Socket;
use pliant_proto::packet::{EndpointId, Side};
use pliant_proto::transport::tcp::{TcpReceiver, TcpSender};
use pliant_proto::transport::{Command, Event};

/// Bytes without meaning; it hears when a side is done.
#[derive(Default)]
struct Zeros {
    done: bool,
}

impl Application for Zeros {
    fn read(&mut self, _: u64, payload: &mut [u8]) -> io::Result<()> {
        payload.fill(0);
        Ok(())
    }

    fn write(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: Event) -> io::Result<()> {
        self.done |= matches!(event, Event::Received | Event::Finished);
        Ok(())
    }
}

/// The logs of a transfer over sockets with marks, losses and reordering, replayed into fresh machines, give the very
/// outputs of the first time: packets with their SACK blocks, and events.
#[test]
fn logs_of_real_sockets_replay_identically() {
    const BYTES: u64 = 1 << 20;
    let config = settings().tcp();
    let sender = || TcpSender::new(config.clone(), settings().controller());
    let (here, there) = (Socket::bind(loopback()).unwrap(), Socket::bind(loopback()).unwrap());
    let faults = Faults { mark: 5, drop: 89, duplicate: 41, reorder: 61 };
    let relay = Relay::new(faults, there.local_address().unwrap());
    let (way, stop) = (relay.address(), AtomicBool::new(false));
    let clock = Clock::start();
    let mut initiator = Driver::new(Logged::new(sender()), here, clock, EndpointId::new(1, Side::Initiator), way);
    let receiver = Logged::new(TcpReceiver::new(config.clone()));
    let mut responder = Driver::new(receiver, there, clock, EndpointId::new(1, Side::Responder), way);
    let (mut sending, mut receiving) = (Zeros::default(), Zeros::default());
    let done = thread::scope(|scope| {
        let relaying = scope.spawn(|| relay.run(&stop));
        initiator.command(Command::Send { bytes: BYTES }, &mut sending).unwrap();
        initiator.command(Command::Finish, &mut sending).unwrap();
        while !(sending.done && receiving.done) {
            initiator.turn(&mut sending, Duration::from_millis(1)).unwrap();
            responder.turn(&mut receiving, Duration::from_millis(1)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        relaying.join().unwrap()
    });
    assert!(done.marked > 0 && done.dropped > 0 && done.duplicated > 0 && done.reordered > 0, "{done:?}");
    let (sent, received) = (initiator.transport(), responder.transport());
    assert!(
        sent.inputs.iter().any(|(_, input)| matches!(input, Input::Packet(_, sack) if !sack.as_slice().is_empty()))
    );
    assert!(sent.outputs.contains(&Output::Event(Event::Finished)));
    assert_eq!(replay(sender(), &sent.inputs), sent.outputs);
    assert_eq!(replay(TcpReceiver::new(config.clone()), &received.inputs), received.outputs);
}
