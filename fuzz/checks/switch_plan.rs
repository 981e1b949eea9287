//! Arbitrary text is refused in one line or is a switch, which gives on or holds all that it took, whatever then arrives.
//!
//! What follows the first NUL octet are frames: seven octets each for the pause before one, its ports, class, size and flow.

use std::path::Path;

use pliant_net::switch::fabric::{Arrival, Fabric, Output};
use pliant_net::switch::faults::Faults;
use pliant_proto::packet::TrafficClass;
use pliant_proto::time::{Instant, Span};
use pliant_testbed::plan::Plan;

/// Frames that a switch holds here.
const FRAMES: usize = 256;

/// A minimal Ethernet frame on the wire.
const LEAST_WIRE_BYTES: u16 = 84;

pub(crate) fn check(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let Ok(text) = str::from_utf8(&bytes[..end]) else { return };
    match Plan::parse(text, Path::new("fuzz.toml")) {
        Ok(plan) => forward(&plan, bytes.get(end + 1..).unwrap_or_default()),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Sends frames through the plan's engine, and what leaves it through its faults.
fn forward(plan: &Plan, arrivals: &[u8]) {
    let config = plan.switch();
    let ports = config.ports.len() as u16;
    let mut fabric = Fabric::new(&config.fabric, FRAMES);
    let mut faults = Faults::<u32>::new(config.faults.clone(), config.fabric.seed);
    let mut now = Instant::ZERO;
    let (mut taken, mut left) = (0, 0);
    let mut free: Vec<u32> = (0..FRAMES as u32).collect();
    for octets in arrivals.as_chunks::<7>().0 {
        let [pause, source, destination, class, low, high, flow] = *octets;
        now = now.after(Span::from_ns(1 << (pause % 40)));
        if let Some(frame) = free.pop() {
            let (traffic_class, flow) = (TrafficClass::from_octet(class), u32::from(flow));
            let wire_bytes = u16::from_be_bytes([high, low]).max(LEAST_WIRE_BYTES);
            let destination = u16::from(destination) % ports;
            let arrival = Arrival { frame, destination, wire_bytes, traffic_class, flow };
            fabric.arrive(now, u16::from(source) % ports, &arrival);
            taken += 1;
        }
        fabric.advance(now);
        while let Some(output) = fabric.poll_output() {
            let (Output::Depart { frame, .. } | Output::Drop { frame }) = output;
            if let Output::Depart { port, due, .. } = output {
                assert!(port < ports && due <= now);
                if let Some(held) = faults.judge(due).held {
                    faults.hold(due.after(held), frame);
                }
            }
            assert!(!free.contains(&frame), "a frame leaves once");
            free.push(frame);
            left += 1;
        }
        while faults.release(now).is_some() {}
        assert!(fabric.next_departure().is_none_or(|at| at >= now));
    }
    assert_eq!(taken, left + fabric.inside());
    fabric.assert_conserved();
}
