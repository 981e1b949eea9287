//! Sealing and opening datagrams: AES-128-GCM under keys that change with use.
//!
//! Each direction has a secret, from which follow the key, the nonce mask and the next secret. So a secret does not
//! reveal earlier ones (as in RFC 9001 section 6). The nonce is the packet number under the mask. The header is
//! authenticated with the rest.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::datagram::{SEALED_HEADER_BYTES, TAG_BYTES, sealed_header};
use super::replay::ReplayWindow;

/// Packets sealed under one key; RFC 9001 section 6.6 allows 2^23.
pub const PACKETS_PER_KEY: u64 = 1 << 22;

/// The key of one secret.
struct Key {
    aead: LessSafeKey,
    mask: [u8; NONCE_LEN],
}

impl Key {
    fn of(secret: &[u8; 32]) -> Self {
        let mut output = blake3::Hasher::new_derive_key("pliant 1 traffic key").update(secret).finalize_xof();
        let (mut key, mut mask) = ([0; 16], [0; NONCE_LEN]);
        output.fill(&mut key);
        output.fill(&mut mask);
        let aead = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).expect("the key has the cipher's length"));
        Self { aead, mask }
    }

    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.mask;
        nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        Nonce::assume_unique_for_key(nonce)
    }

    fn open(&self, number: u64, datagram: &mut [u8]) -> bool {
        let (header, sealed) = datagram.split_at_mut(SEALED_HEADER_BYTES);
        self.aead.open_in_place(self.nonce(number), Aad::from(header), sealed).is_ok()
    }
}

fn next_secret(secret: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key("pliant 1 next secret", secret)
}

/// Keys for sealing.
pub(super) struct SealingKeys {
    secret: [u8; 32],
    key: Key,
    epoch: u8,
    number: u64,
    /// The key is changed at this number.
    change_at: u64,
    packets_per_key: u64,
}

impl SealingKeys {
    pub(super) fn new(secret: [u8; 32], packets_per_key: u64) -> Self {
        Self { secret, key: Key::of(&secret), epoch: 0, number: 0, change_at: packets_per_key, packets_per_key }
    }

    /// Seals `datagram` in place. It has room for the header, then the content, then room for the tag.
    pub(super) fn seal(&mut self, connection: u32, datagram: &mut [u8]) {
        if self.number == self.change_at {
            self.secret = next_secret(&self.secret);
            self.key = Key::of(&self.secret);
            self.epoch = self.epoch.wrapping_add(1);
            self.change_at += self.packets_per_key;
        }
        let header = sealed_header(self.epoch, connection, self.number);
        let (head, rest) = datagram.split_at_mut(SEALED_HEADER_BYTES);
        head.copy_from_slice(&header);
        let (content, room) = rest.split_at_mut(rest.len() - TAG_BYTES);
        let tag = self.key.aead.seal_in_place_separate_tag(self.key.nonce(self.number), Aad::from(header), content);
        room.copy_from_slice(tag.expect("a datagram is far below the cipher's limit").as_ref());
        self.number += 1;
    }
}

/// Why a sealed datagram was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpenError {
    /// It was not sealed by the peer, or not for this connection, or too long ago.
    Forged,
    /// It arrived before, or is older than the window.
    Replayed,
}

/// Keys for opening.
pub(super) struct OpeningKeys {
    secret: [u8; 32],
    epoch: u8,
    current: Key,
    /// For datagrams that the network delayed across a change of keys.
    previous: Option<Key>,
    next: Key,
    window: ReplayWindow,
}

impl OpeningKeys {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        let (current, next) = (Key::of(&secret), Key::of(&next_secret(&secret)));
        Self { secret, epoch: 0, current, previous: None, next, window: ReplayWindow::default() }
    }

    /// Opens `datagram` in place. The sealed content is between header and tag.
    pub(super) fn open(&mut self, epoch: u8, number: u64, datagram: &mut [u8]) -> Result<(), OpenError> {
        if !self.window.is_new(number) {
            return Err(OpenError::Replayed);
        }
        let ahead = epoch.wrapping_sub(self.epoch);
        let key = match ahead {
            0 => &self.current,
            1 => &self.next,
            u8::MAX => self.previous.as_ref().ok_or(OpenError::Forged)?,
            _ => return Err(OpenError::Forged),
        };
        if !key.open(number, datagram) {
            return Err(OpenError::Forged);
        }
        if ahead == 1 {
            self.advance();
        }
        self.window.take(number);
        Ok(())
    }

    /// Whether no later datagram than `number` was opened yet.
    pub(super) fn is_newest(&self, number: u64) -> bool {
        self.window.is_newest(number)
    }

    fn advance(&mut self) {
        self.secret = next_secret(&self.secret);
        let next = Key::of(&next_secret(&self.secret));
        let current = std::mem::replace(&mut self.next, next);
        self.previous = Some(std::mem::replace(&mut self.current, current));
        self.epoch = self.epoch.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(sealer: &mut SealingKeys, content: &[u8]) -> Vec<u8> {
        let mut datagram = [&[0; SEALED_HEADER_BYTES], content, &[0; TAG_BYTES]].concat();
        sealer.seal(9, &mut datagram);
        datagram
    }

    fn open(opener: &mut OpeningKeys, datagram: &[u8]) -> Result<Vec<u8>, OpenError> {
        let mut datagram = datagram.to_vec();
        let (epoch, number) = (datagram[2], u64::from_be_bytes(datagram[8..16].try_into().unwrap()));
        opener.open(epoch, number, &mut datagram)?;
        Ok(datagram[SEALED_HEADER_BYTES..datagram.len() - TAG_BYTES].to_vec())
    }

    /// Keys change every third packet: what was sealed before a change and arrives after it is still opened, over three
    /// turns of the epoch's octet; what is two changes old is not.
    #[test]
    fn keys_change_on_both_sides() {
        let (mut sealer, mut opener) = (SealingKeys::new([1; 32], 3), OpeningKeys::new([1; 32]));
        let mut late: Option<Vec<u8>> = None;
        for round in 0..3 * 256 * 3_u32 {
            let datagram = sealed(&mut sealer, &round.to_be_bytes());
            assert_eq!(datagram[2], (round / 3) as u8);
            if round % 3 == 1 {
                late = Some(datagram);
                continue;
            }
            assert_eq!(open(&mut opener, &datagram), Ok(round.to_be_bytes().to_vec()));
            if round % 3 == 0
                && let Some(late) = late.take()
            {
                assert_eq!(open(&mut opener, &late), Ok((round - 2).to_be_bytes().to_vec()));
            }
        }
        let (mut sealer, mut opener) = (SealingKeys::new([1; 32], 1), OpeningKeys::new([1; 32]));
        let old = sealed(&mut sealer, b"old");
        for _ in 0..2 {
            open(&mut opener, &sealed(&mut sealer, b"new")).unwrap();
        }
        assert_eq!(open(&mut opener, &old), Err(OpenError::Forged));
    }

    /// No bit of a sealed datagram can be changed, nothing can be cut or added, nothing opens twice, and nothing opens
    /// under the other direction's secret.
    #[test]
    fn every_change_is_noticed() {
        let (mut sealer, mut opener) = (SealingKeys::new([1; 32], 8), OpeningKeys::new([1; 32]));
        let datagram = sealed(&mut sealer, b"content");
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&mut opener, &changed).is_err(), "bit {bit}");
        }
        for length in SEALED_HEADER_BYTES + TAG_BYTES..datagram.len() {
            assert_eq!(open(&mut opener, &datagram[..length]), Err(OpenError::Forged), "{length} bytes");
        }
        assert_eq!(open(&mut opener, &[&datagram[..], &[0]].concat()), Err(OpenError::Forged));
        assert_eq!(open(&mut OpeningKeys::new([2; 32]), &datagram), Err(OpenError::Forged));
        assert_eq!(open(&mut opener, &datagram), Ok(b"content".to_vec()));
        assert_eq!(open(&mut opener, &datagram), Err(OpenError::Replayed));
    }
}
