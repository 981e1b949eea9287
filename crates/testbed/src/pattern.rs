//! Payload that tells where it belongs, so that a receiver sees every byte that is wrong or in the wrong place.

/// Bytes after which the pattern repeats: a prime, so that no packet size divides it.
const PERIOD: usize = 65_521;

/// The bytes of all flows: each begins elsewhere.
pub struct Pattern(Box<[u8]>);

impl Default for Pattern {
    fn default() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut byte = || {
            // xorshift64*, whose high bits are good.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
        };
        let mut bytes: Vec<u8> = (0..PERIOD).map(|_| byte()).collect();
        // Behind the end once more, so that a packet is one stretch.
        bytes.extend_from_within(..);
        Self(bytes.into())
    }
}

impl Pattern {
    fn at(&self, flow: u64, offset: u64, bytes: usize) -> &[u8] {
        let start = (flow.wrapping_mul(7919).wrapping_add(offset) % PERIOD as u64) as usize;
        &self.0[start..start + bytes]
    }

    /// Writes what belongs at `offset` of `flow`.
    pub fn fill(&self, flow: u64, offset: u64, payload: &mut [u8]) {
        for (index, piece) in payload.chunks_mut(PERIOD).enumerate() {
            piece.copy_from_slice(self.at(flow, offset + (index * PERIOD) as u64, piece.len()));
        }
    }

    /// How many bytes are not what belongs at `offset` of `flow`.
    pub fn wrong(&self, flow: u64, offset: u64, payload: &[u8]) -> u64 {
        let wrong = |(index, piece): (usize, &[u8])| {
            let right = self.at(flow, offset + (index * PERIOD) as u64, piece.len());
            if piece == right { 0 } else { piece.iter().zip(right).filter(|(a, b)| a != b).count() as u64 }
        };
        payload.chunks(PERIOD).enumerate().map(wrong).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was filled is right where it belongs, and wrong one byte off, in another flow, or with a bit flipped.
    #[test]
    fn misplaced_bytes_are_seen() {
        let pattern = Pattern::default();
        let mut payload = vec![0; 200_000];
        pattern.fill(3, 65_000, &mut payload);
        assert_eq!(pattern.wrong(3, 65_000, &payload), 0);
        assert_eq!(pattern.wrong(3, 65_100, &payload[100..1560]), 0);
        assert!(pattern.wrong(3, 65_001, &payload) > 190_000);
        assert!(pattern.wrong(4, 65_000, &payload) > 190_000);
        payload[70_000] ^= 1;
        assert_eq!(pattern.wrong(3, 65_000, &payload), 1);
    }
}
