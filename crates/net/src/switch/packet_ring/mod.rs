//! Packet sockets: a ring that the kernel fills with the frames of one interface (packet(7), TPACKET_V2), and a socket
//! that sends to all.
//!
//! Of the ring's versions the second fits a switch: it hands over frame by frame. The third waits until a block is full
//! or a millisecond is over.

#![allow(unsafe_code, reason = "packet sockets have no safe interface; the ring is memory shared with the kernel")]

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a ring is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RingShape {
    /// Bytes of one slot: the kernel's header and the largest frame.
    slot_bytes: usize,
    slots: usize,
}

impl RingShape {
    /// For single frames: 40 ms of full ones at 1 Gbit/s, should the switch not run for so long.
    pub(super) const FRAMES: Self = Self { slot_bytes: 2048, slots: 4096 };
    /// For superframes, which hosts leave to be cut and summed.
    pub(super) const SUPERFRAMES: Self = Self { slot_bytes: 1 << 17, slots: 256 };

    fn bytes(self) -> usize {
        self.slot_bytes * self.slots
    }
}

/// Bytes before each frame that say what is left to be done to it (virtio_net_hdr).
pub(super) const OFFLOAD_BYTES: usize = 10;
/// Slots lie in blocks of whole pages.
const BLOCK_BYTES: usize = 1 << 17;

/// Number of an interface of this network namespace.
pub(super) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the name ends with zero and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// A frame in the ring.
pub(super) struct RingFrame<'a> {
    /// [`OFFLOAD_BYTES`], and its own bytes, or as many as fit a slot.
    pub(super) bytes: &'a mut [u8],
    /// It was longer.
    pub(super) truncated: bool,
    /// The kernel left its checksum to an interface that never sees it.
    pub(super) checksum_missing: bool,
    /// The kernel took a VLAN tag out of it.
    pub(super) tagged: bool,
}

/// The slots of a ring, shared with who fills them.
struct Slots {
    memory: *mut u8,
    shape: RingShape,
    next: usize,
}

// SAFETY: the memory belongs to this ring alone, on whichever thread it is.
unsafe impl Send for Slots {}

impl Slots {
    /// # Safety
    /// `memory` is aligned for `tpacket2_hdr`, as large as `shape` says and lives as long as the ring; slots that are not
    /// given to the user are only touched by the kernel, and the others only by this ring.
    unsafe fn new(memory: *mut u8, shape: RingShape) -> Self {
        Self { memory, shape, next: 0 }
    }

    /// The header of the slot that the kernel fills next or has just filled.
    fn header(&self) -> *mut libc::tpacket2_hdr {
        // SAFETY: `next` is below the number of slots, so the slot lies in the memory.
        unsafe { self.memory.add(self.next * self.shape.slot_bytes).cast() }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is the first field, aligned; both sides access it as one word. It lives as long as `self`.
        unsafe { AtomicU32::from_ptr(ptr::addr_of_mut!((*self.header()).tp_status)) }
    }

    /// When the next frame arrived, in nanoseconds of the system's clock; `None` if none waits.
    #[inline]
    fn peek(&self) -> Option<u64> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has given the slot to us: nothing else writes it until it is given back.
        let header = unsafe { &*self.header() };
        Some(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec))
    }

    /// Shows the frame that [`peek`](Self::peek) told of to `see`, then gives its slot back.
    #[inline]
    fn take(&mut self, see: impl FnOnce(RingFrame<'_>)) {
        let status = self.status().load(Ordering::Acquire);
        assert!(status & libc::TP_STATUS_USER != 0, "a frame waits");
        // SAFETY: as in `peek`.
        let header = unsafe { *self.header() };
        let start = usize::from(header.tp_mac).saturating_sub(OFFLOAD_BYTES);
        let length = header.tp_snaplen as usize + OFFLOAD_BYTES;
        let slot = size_of::<libc::tpacket2_hdr>()..=self.shape.slot_bytes;
        assert!(slot.contains(&start) && slot.contains(&(start + length)), "the kernel keeps to the slot");
        // SAFETY: the range was just checked to lie in the slot, behind its header; the slot is ours until it is given back
        // below.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(self.memory.add(self.next * self.shape.slot_bytes + start), length)
        };
        see(RingFrame {
            bytes,
            truncated: header.tp_len > header.tp_snaplen,
            checksum_missing: status & libc::TP_STATUS_CSUMNOTREADY != 0,
            tagged: status & libc::TP_STATUS_VLAN_VALID != 0,
        });
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.shape.slots;
    }
}

/// The frames that arrive on one interface.
pub(super) struct PacketRing {
    socket: OwnedFd,
    slots: Slots,
}

impl PacketRing {
    /// Takes every frame that arrives on the interface with this index from now on.
    pub(super) fn open(interface: u32, shape: RingShape) -> io::Result<Self> {
        // SAFETY: a plain system call; what it returns is checked.
        let raw =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as libc::c_uint,
            tp_block_nr: (shape.bytes() / BLOCK_BYTES) as libc::c_uint,
            tp_frame_size: shape.slot_bytes as libc::c_uint,
            tp_frame_nr: shape.slots as libc::c_uint,
        };
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice, of the size that was asked for above.
        let memory = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), shape.bytes(), access, libc::MAP_SHARED, socket.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is page-aligned and this ring's own; the kernel keeps to the statuses.
        let ring = Self { socket, slots: unsafe { Slots::new(memory.cast(), shape) } };
        // Frames for any station, where the interface filters.
        // SAFETY: zeroes are a value of this plain C struct.
        let mut membership: libc::packet_mreq = unsafe { mem::zeroed() };
        membership.mr_ifindex = interface as libc::c_int;
        membership.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
        set_option(&ring.socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        // SAFETY: as above; then the address is passed with its own size.
        let bound = unsafe {
            let mut address: libc::sockaddr_ll = mem::zeroed();
            address.sll_family = libc::AF_PACKET as libc::c_ushort;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = interface as libc::c_int;
            let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            libc::bind(ring.socket.as_raw_fd(), ptr::from_ref(&address).cast(), length)
        };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(ring) }
    }

    /// When the next frame arrived, in nanoseconds of the system's clock; `None` if none waits.
    #[inline]
    pub(super) fn peek(&self) -> Option<u64> {
        self.slots.peek()
    }

    /// Shows the frame that [`peek`](Self::peek) told of to `see`, then gives its slot back.
    #[inline]
    pub(super) fn take(&mut self, see: impl FnOnce(RingFrame<'_>)) {
        self.slots.take(see);
    }

    /// Frames that found no free slot since this was asked last.
    pub(super) fn overrun(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, the size of the struct.
        let result = unsafe {
            let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
            libc::getsockopt(
                self.socket.as_raw_fd(),
                level,
                option,
                ptr::from_mut(&mut statistics).cast(),
                &raw mut length,
            )
        };
        if result == 0 { u64::from(statistics.tp_drops) } else { 0 }
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's own, and no reference into it is left.
        unsafe { libc::munmap(self.slots.memory.cast(), self.slots.shape.bytes()) };
    }
}

/// A packet socket that sends, past the interface's queueing discipline, and receives nothing. Messages begin with
/// [`OFFLOAD_BYTES`].
pub(super) fn sending_socket() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; what it returns is checked.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &(8 << 20))?;
    Ok(socket)
}

fn set_option<T>(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has.
    let result = unsafe {
        let length = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, ptr::from_ref(value).cast(), length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
