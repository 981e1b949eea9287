//! One buffer for all queues of a switch, with dynamic thresholds (Choudhury and Hahne 1998).
//!
//! A queue is admitted another packet while it holds no more than α times what is free. When the threshold falls
//! nothing is evicted: the queue only drains.

use crate::units::Bytes;

/// The buffer that the queues of one switch share.
#[derive(Clone, Debug)]
pub struct SharedBuffer {
    capacity: u64,
    used: u64,
}

/// α in units of 2⁻¹⁶, so that admission is integer arithmetic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alpha(u64);

impl Alpha {
    pub(super) fn new(alpha: f64) -> Self {
        Self(libm::round(alpha * 65536.0) as u64)
    }
}

impl SharedBuffer {
    /// An empty buffer.
    pub fn new(capacity: Bytes) -> Self {
        Self { capacity: capacity.0, used: 0 }
    }

    /// Bytes in use, those reserved outside the pool not counted.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Whether a packet of `bytes` fits beside the `queued` bytes of its queue, of which `reserved` are its own.
    #[inline]
    pub(super) fn fits(&self, bytes: u64, queued: u64, reserved: u64, alpha: Alpha) -> bool {
        let pooled = (queued + bytes).saturating_sub(reserved);
        let free = self.capacity - self.used;
        pooled == 0
            || pooled - queued.saturating_sub(reserved) <= free
                && (u128::from(pooled) << 16) <= u128::from(alpha.0) * u128::from(free)
    }

    /// Takes the room of a packet that fits.
    #[inline]
    pub(super) fn take(&mut self, bytes: u64, queued: u64, reserved: u64) {
        self.used += (queued + bytes).saturating_sub(reserved) - queued.saturating_sub(reserved);
        assert!(self.used <= self.capacity, "a shared buffer overflowed");
    }

    /// Gives back the room of a packet of `bytes` of a queue that held `queued` with it.
    #[inline]
    pub(super) fn release(&mut self, bytes: u64, queued: u64, reserved: u64) {
        let freed = queued.saturating_sub(reserved) - (queued - bytes).saturating_sub(reserved);
        assert!(self.used >= freed, "a shared buffer gave back more than it held");
        self.used -= freed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// S saturated queues hold αB/(1+αS) each: 0.9, 0.75, 0.5625, 0.375 MB for S = 1, 2, 4, 8 at B = 4.5 MB, α = 1/4.
    #[test]
    fn choudhury_hahne_shares() {
        for (queues, share) in [(1, 900_000), (2, 750_000), (4, 562_500), (8, 375_000)] {
            let mut buffer = SharedBuffer::new(Bytes(4_500_000));
            let mut held = vec![0u64; queues];
            let mut moved = true;
            while moved {
                moved = false;
                for queue in &mut held {
                    if buffer.fits(1, *queue, 0, Alpha::new(0.25)) {
                        buffer.take(1, *queue, 0);
                        *queue += 1;
                        moved = true;
                    }
                }
            }
            // The test is made before the packet is in the pool, so a queue may hold one byte more.
            assert!(held.iter().all(|&bytes| bytes.abs_diff(share) <= 1), "{held:?}");
            assert_eq!(buffer.used(), held.iter().sum::<u64>());
        }
    }

    #[test]
    fn reserved_bytes_lie_outside_the_pool() {
        let mut buffer = SharedBuffer::new(Bytes(100));
        assert!(buffer.fits(50, 0, 50, Alpha::new(0.001)), "its own bytes need no threshold");
        buffer.take(50, 0, 50);
        assert_eq!(buffer.used(), 0);
        assert!(!buffer.fits(1, 50, 50, Alpha::new(0.001)));
        assert!(buffer.fits(60, 50, 50, Alpha::new(1.0)));
        buffer.take(60, 50, 50);
        assert_eq!(buffer.used(), 60);
        buffer.release(60, 110, 50);
        assert_eq!(buffer.used(), 0);
    }
}
