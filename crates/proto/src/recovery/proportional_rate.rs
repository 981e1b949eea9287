//! Proportional rate reduction (RFC 6937): how much a sender may send on each acknowledgement of a fast recovery.
//!
//! Without it a recovery sends what fits below the reduced window at once: nothing for half a round trip after a small
//! loss, and a burst after a great one, most of which the same full queue loses again.

/// One recovery. Counts bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProportionalRate {
    /// Bytes that were outstanding when it began (RecoverFS).
    outstanding: u64,
    /// Bytes that have arrived since (prr_delivered).
    delivered: u64,
    /// Bytes sent since, retransmissions included (prr_out).
    sent: u64,
    /// Bytes that may still be sent on the last acknowledgement.
    allowance: u64,
}

impl ProportionalRate {
    /// A recovery begins with so many bytes outstanding.
    pub const fn new(outstanding: u64) -> Self {
        Self { outstanding: if outstanding == 0 { 1 } else { outstanding }, delivered: 0, sent: 0, allowance: 0 }
    }

    /// An acknowledgement told of `delivered` bytes, `in_flight` are in the network, and the window is to become
    /// `ssthresh`. A `safe` acknowledgement is one that moved SND.UNA and showed no further loss: only then slow start
    /// fills up what is below ssthresh, as Linux does it; else one packet leaves for each that arrived.
    pub fn on_acknowledged(&mut self, delivered: u64, in_flight: u64, ssthresh: u64, safe: bool, mss: u64) {
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        self.allowance = if in_flight > ssthresh {
            let due = u128::from(self.delivered) * u128::from(ssthresh);
            let due = due.div_ceil(u128::from(self.outstanding));
            u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.sent)
        } else {
            let limit = self.delivered.saturating_sub(self.sent).max(delivered) + if safe { mss } else { 0 };
            limit.min(ssthresh - in_flight)
        };
    }

    /// So many bytes were sent.
    pub fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.allowance = self.allowance.saturating_sub(bytes);
    }

    /// Bytes that may be sent now.
    pub const fn allowance(&self) -> u64 {
        self.allowance
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Acknowledgements of one segment each for the rest of a window of `window`, of which `lost` are lost, with
    /// ssthresh at `ssthresh`: what goes out on each, in segments. A segment that is sent is in the network.
    fn run(window: u64, lost: u64, ssthresh: u64) -> Vec<u64> {
        let mut rate = ProportionalRate::new(window);
        let mut in_flight = window - lost;
        (0..window - lost)
            .map(|_| {
                in_flight -= 1;
                rate.on_acknowledged(1, in_flight, ssthresh, false, 1);
                let sent = rate.allowance();
                rate.on_sent(sent);
                in_flight += sent;
                sent
            })
            .collect()
    }

    /// RFC 6937, section 4, first example: one loss of 20 segments, ssthresh 10. From the second duplicate on one leaves
    /// for every two that arrive; the recovery ends with ssthresh in flight. (There three duplicates come first.)
    #[test]
    fn a_single_loss_halves_the_rate_evenly() {
        let sent = run(20, 1, 10);
        assert_eq!(sent[..8], [1, 0, 1, 0, 1, 0, 1, 0]);
        let out: u64 = sent.iter().sum();
        assert_eq!(out, 10);
    }

    /// RFC 6937, section 4, second example: 15 of 20 lost, ssthresh 10. What is in flight is below it at once, and no
    /// burst follows: one for each that arrived.
    #[test]
    fn heavy_loss_brings_no_burst() {
        assert_eq!(run(20, 15, 10), [1, 1, 1, 1, 1]);
    }

    /// A safe acknowledgement lets slow start fill up towards ssthresh: one more each; never beyond it.
    #[test]
    fn safe_acknowledgements_fill_up_to_ssthresh() {
        let mut rate = ProportionalRate::new(20);
        rate.on_acknowledged(1, 4, 10, true, 1);
        assert_eq!(rate.allowance(), 2);
        rate.on_sent(2);
        rate.on_acknowledged(1, 10, 10, true, 1);
        assert_eq!(rate.allowance(), 0);
    }

    /// Where what is in flight is just ssthresh there is nothing to fill up: nothing leaves, however much has arrived.
    #[test]
    fn nothing_leaves_at_ssthresh() {
        let mut rate = ProportionalRate::new(20);
        rate.on_acknowledged(4, 10, 10, true, 1);
        assert_eq!(rate.allowance(), 0);
        rate.on_acknowledged(4, 11, 10, true, 1);
        assert_eq!(rate.allowance(), 4, "above it: half of the eight that arrived");
    }

    /// An acknowledgement that brought nothing lets nothing out.
    #[test]
    fn nothing_delivered_nothing_sent() {
        let mut rate = ProportionalRate::new(20);
        rate.on_acknowledged(0, 0, 10, true, 1);
        assert_eq!(rate.allowance(), 0);
    }
}
