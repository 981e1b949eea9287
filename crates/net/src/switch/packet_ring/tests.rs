//! The ring over memory of the tests' own, filled as the kernel does (packet(7), TPACKET_V2); under Miri this checks the
//! pointers, and with a second thread the order of what both sides write.

use super::*;

const SHAPE: RingShape = RingShape { slot_bytes: 256, slots: 4 };
/// Where frames begin: behind the header, the address and the offload header, aligned to 16 (TPACKET_ALIGNMENT).
const MAC: usize = 80;

/// Memory of a ring, in words so that it is aligned.
struct Memory(Vec<u64>);

/// The kernel's side of it.
#[derive(Clone, Copy)]
struct Kernel {
    memory: *mut u8,
    next: usize,
}

// SAFETY: as for `Slots`: what it touches follows from the statuses.
unsafe impl Send for Kernel {}

impl Memory {
    fn new() -> Self {
        Self(vec![0; SHAPE.bytes() / 8])
    }

    fn sides(&mut self) -> (Kernel, Slots) {
        let memory: *mut u8 = self.0.as_mut_ptr().cast();
        // SAFETY: aligned, large enough, and borrowed for as long as a test uses both.
        (Kernel { memory, next: 0 }, unsafe { Slots::new(memory, SHAPE) })
    }
}

impl Kernel {
    fn header(&self) -> *mut libc::tpacket2_hdr {
        // SAFETY: in the memory.
        unsafe { self.memory.add(self.next * SHAPE.slot_bytes).cast() }
    }

    /// Puts a frame into the next slot, if it is free: its bytes behind an offload header of sevens, `status` beside
    /// TP_STATUS_USER.
    fn put(&mut self, frame: &[u8], length: usize, status: u32) -> bool {
        // SAFETY: the status is accessed as one word by both sides; the rest is the kernel's while the status says so.
        unsafe {
            let word = AtomicU32::from_ptr(ptr::addr_of_mut!((*self.header()).tp_status));
            if word.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0 {
                return false;
            }
            let header = self.header();
            (*header).tp_len = length as u32;
            (*header).tp_snaplen = frame.len() as u32;
            (*header).tp_mac = MAC as u16;
            ((*header).tp_sec, (*header).tp_nsec) = (2, length as u32);
            let slot = self.memory.add(self.next * SHAPE.slot_bytes);
            slot.add(MAC - OFFLOAD_BYTES).write_bytes(7, OFFLOAD_BYTES);
            ptr::copy_nonoverlapping(frame.as_ptr(), slot.add(MAC), frame.len());
            word.store(libc::TP_STATUS_USER | status, Ordering::Release);
        }
        self.next = (self.next + 1) % SHAPE.slots;
        true
    }
}

/// Frames come out as they were put in, in order, with what the kernel says of each, and their slots are free again: the
/// ring goes round three times. What is written into a frame stays inside it.
#[test]
fn frames_come_out_in_order_and_slots_go_back() {
    let mut memory = Memory::new();
    let (mut kernel, mut ring) = memory.sides();
    assert_eq!(ring.peek(), None);
    for round in 0..3u8 {
        for slot in 0..SHAPE.slots as u8 {
            let status = if slot == 1 { libc::TP_STATUS_CSUMNOTREADY } else { 0 };
            let status = status | if slot == 2 { libc::TP_STATUS_VLAN_VALID } else { 0 };
            let frame = vec![round << 4 | slot; 60 + usize::from(slot)];
            assert!(kernel.put(&frame, frame.len() + usize::from(slot == 3), status));
        }
        assert!(!kernel.put(&[], 0, 0), "the ring is full");
        for slot in 0..SHAPE.slots as u8 {
            let length = 60 + usize::from(slot);
            assert_eq!(ring.peek(), Some(2_000_000_000 + length as u64 + u64::from(slot == 3)));
            ring.take(|frame| {
                let (offload, bytes) = frame.bytes.split_at_mut(OFFLOAD_BYTES);
                assert_eq!(offload, [7; OFFLOAD_BYTES]);
                assert_eq!(bytes, vec![round << 4 | slot; length]);
                let says = (frame.checksum_missing, frame.tagged, frame.truncated);
                assert_eq!(says, (slot == 1, slot == 2, slot == 3));
                bytes.fill(0xff);
            });
        }
        assert_eq!(ring.peek(), None);
    }
}

/// The largest frame ends where its slot does.
#[test]
fn a_frame_may_fill_its_slot() {
    let mut memory = Memory::new();
    let (mut kernel, mut ring) = memory.sides();
    let frame = vec![1; SHAPE.slot_bytes - MAC];
    assert!(kernel.put(&frame, 9000, 0) && kernel.put(&[2], 1, 0));
    ring.take(|got| assert_eq!((&got.bytes[OFFLOAD_BYTES..], got.truncated), (&frame[..], true)));
    ring.take(|got| assert_eq!((&got.bytes[OFFLOAD_BYTES..], got.truncated), (&[2][..], false)));
}

/// A header that points outside of its slot, or into itself, is not followed.
#[test]
fn headers_that_leave_the_slot_are_not_followed() {
    for (mac, snaplen) in [(MAC, SHAPE.slot_bytes - MAC + 1), (0, 10), (MAC, usize::MAX >> 33), (40, 10), (300, 0)] {
        let mut memory = Memory::new();
        let (mut kernel, mut ring) = memory.sides();
        let header = kernel.header();
        assert!(kernel.put(&[1], 1, 0));
        // SAFETY: nobody else is there.
        unsafe { ((*header).tp_mac, (*header).tp_snaplen) = (mac as u16, snaplen as u32) };
        let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ring.take(|_| ())));
        assert!(taken.is_err(), "frame at {mac} of {snaplen} bytes");
    }
}

/// With the other side on a thread of its own, every frame is seen whole, once and in order.
#[test]
fn both_sides_may_run_at_once() {
    const FRAMES: u32 = 50;
    let mut memory = Memory::new();
    let (kernel, mut ring) = memory.sides();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut kernel = kernel;
            for number in 0..FRAMES {
                while !kernel.put(&number.to_ne_bytes(), 4, 0) {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..FRAMES {
            while ring.peek().is_none() {
                std::thread::yield_now();
            }
            ring.take(|frame| assert_eq!(frame.bytes[OFFLOAD_BYTES..], number.to_ne_bytes()));
        }
    });
}
