//! A repeater: every frame of one interface leaves by the other, unread.
//!
//! It takes frames from the same rings and sends them by the same calls as the [switch](super::ethernet), and does nothing
//! beside: what it costs is the kernel's part of a switch, and what a switch costs more is its own. What is left
//! to be done to a frame, its checksum for one, is left to the next kernel.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::error::SwitchError;
use super::packet_ring::{PacketRing, RingShape, interface_index, sending_socket};
use crate::mmsg::{BATCH, BatchSender, Destination, Transmit};
use crate::poll::wait;

/// Two interfaces whose frames cross to each other.
pub struct Repeater {
    rings: [PacketRing; 2],
    interfaces: [u32; 2],
    sending: OwnedFd,
    sender: BatchSender,
    buffer: Box<[u8]>,
}

/// Room for a frame.
const FRAME_BYTES: usize = 2048;

impl Repeater {
    /// Joins two interfaces.
    pub fn open(names: [&str; 2]) -> Result<Self, SwitchError> {
        let open = |name: &str| {
            let index = interface_index(name)?;
            Ok((index, PacketRing::open(index, RingShape::FRAMES)?))
        };
        let [(a, from_a), (b, from_b)] = [
            open(names[0]).map_err(|error| SwitchError::of(names[0], error))?,
            open(names[1]).map_err(|error| SwitchError::of(names[1], error))?,
        ];
        let sending = sending_socket().map_err(|error| SwitchError::of(names[0], error))?;
        let buffer = vec![0; BATCH * FRAME_BYTES].into();
        Ok(Self { rings: [from_a, from_b], interfaces: [a, b], sending, sender: BatchSender::new(), buffer })
    }

    /// Passes on what has arrived, a batch each way, or sleeps until there is something, for `at_most` at the longest.
    /// Returns how many frames it passed on.
    pub fn run_once(&mut self, at_most: Duration) -> io::Result<usize> {
        let mut passed = 0;
        for from in 0..2 {
            let Self { rings, interfaces, sending, sender, buffer } = self;
            let ring = &mut rings[from];
            let mut lengths = [0; BATCH];
            let mut taken = 0;
            while taken < BATCH && ring.peek().is_some() {
                let slot = &mut buffer[taken * FRAME_BYTES..][..FRAME_BYTES];
                ring.take(|frame| {
                    lengths[taken] = frame.bytes.len();
                    slot[..frame.bytes.len()].copy_from_slice(frame.bytes);
                });
                taken += 1;
            }
            let to = Destination::Interface(interfaces[1 - from]);
            let frames = buffer.chunks(FRAME_BYTES).zip(&lengths[..taken]);
            let messages: Vec<_> = frames
                .map(|(slot, &bytes)| Transmit { bytes: &slot[..bytes], to, octet: None, joins: false })
                .collect();
            let mut refused = 0;
            sender.send(sending.as_fd(), &messages, |_| refused += 1)?;
            passed += taken - refused;
        }
        if passed == 0 {
            wait(&mut self.rings.each_ref().map(|ring| PollFd::new(ring, PollFlags::IN)), Some(at_most))?;
        }
        Ok(passed)
    }
}
