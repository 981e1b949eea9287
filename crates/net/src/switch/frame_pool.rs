//! The frames that a switch holds, in one stretch of memory.

/// The bytes of all frames that a switch can hold, and which of them are free.
pub(super) struct FramePool {
    bytes: Box<[u8]>,
    lengths: Box<[u32]>,
    frame_bytes: usize,
    free: Vec<u32>,
}

impl FramePool {
    /// A pool of so many frames of at most so many bytes, all free.
    pub(super) fn new(frames: usize, frame_bytes: usize) -> Self {
        Self {
            bytes: vec![0; frames * frame_bytes].into(),
            lengths: vec![0; frames].into(),
            frame_bytes,
            free: (0..frames as u32).rev().collect(),
        }
    }

    /// The bytes of a frame.
    #[inline]
    pub(super) fn get(&self, frame: u32) -> &[u8] {
        &self.bytes[frame as usize * self.frame_bytes..][..self.lengths[frame as usize] as usize]
    }

    /// The bytes of a frame, to change them.
    #[inline]
    pub(super) fn get_mut(&mut self, frame: u32) -> &mut [u8] {
        &mut self.bytes[frame as usize * self.frame_bytes..][..self.lengths[frame as usize] as usize]
    }

    /// Stores a frame; `None` if none is free.
    pub(super) fn store(&mut self, content: &[u8]) -> Option<u32> {
        let frame = self.free.pop()?;
        self.lengths[frame as usize] = content.len() as u32;
        self.get_mut(frame).copy_from_slice(content);
        Some(frame)
    }

    /// Stores a copy of a frame; `None` if none is free.
    pub(super) fn copy(&mut self, frame: u32) -> Option<u32> {
        let copy = self.free.pop()?;
        let (from, length) = (frame as usize * self.frame_bytes, self.lengths[frame as usize] as usize);
        self.lengths[copy as usize] = length as u32;
        self.bytes.copy_within(from..from + length, copy as usize * self.frame_bytes);
        Some(copy)
    }

    /// Bytes of the largest frame.
    #[inline]
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Bytes of a stored frame.
    #[inline]
    pub(super) fn length(&self, frame: u32) -> u32 {
        self.lengths[frame as usize]
    }

    /// Gives a frame back.
    #[inline]
    pub(super) fn recycle(&mut self, frame: u32) {
        self.free.push(frame);
    }

    /// Frames that are free.
    #[inline]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Frames, free or not.
    #[inline]
    pub(super) fn frames(&self) -> usize {
        self.lengths.len()
    }
}
