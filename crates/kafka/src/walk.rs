//! A walk through a message that copies it field by field and can write others in their place.

/// What a message can be wrong in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// It ends in the middle of a field.
    Truncated,
    /// A length is negative where none may be, or a varint is too long.
    Length,
    /// A name is not UTF-8.
    Text,
}

/// Reads from one buffer, writes to another. In flexible versions strings and arrays have compact lengths, and
/// structures end in tagged fields (KIP-482).
pub(crate) struct Walk<'a, 'o> {
    input: &'a [u8],
    output: &'o mut Vec<u8>,
    flexible: bool,
}

impl<'a, 'o> Walk<'a, 'o> {
    pub(crate) fn new(input: &'a [u8], output: &'o mut Vec<u8>, flexible: bool) -> Self {
        Self { input, output, flexible }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.input.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.input = rest;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("as many as were asked for"))
    }

    pub(crate) fn take_i16(&mut self) -> Result<i16, Malformed> {
        self.take_array().map(i16::from_be_bytes)
    }

    pub(crate) fn take_i64(&mut self) -> Result<i64, Malformed> {
        self.take_array().map(i64::from_be_bytes)
    }

    pub(crate) fn take_id(&mut self) -> Result<[u8; 16], Malformed> {
        self.take_array()
    }

    pub(crate) fn take_i32(&mut self) -> Result<i32, Malformed> {
        self.take_array().map(i32::from_be_bytes)
    }

    fn take_varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.take_array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value.try_into().map_err(|_| Malformed::Length);
            }
        }
        Err(Malformed::Length)
    }

    pub(crate) fn put_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.output.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.output.push(value as u8);
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Copies bytes as they are.
    pub(crate) fn copy(&mut self, count: usize) -> Result<(), Malformed> {
        let bytes = self.take(count)?;
        self.put(bytes);
        Ok(())
    }

    /// Copies all that is left.
    pub(crate) fn copy_rest(&mut self) {
        let rest = std::mem::take(&mut self.input);
        self.put(rest);
    }

    /// Passes over all that is left without writing it.
    pub(crate) fn skip_rest(&mut self) {
        self.input = &[];
    }

    /// A string, which may be null.
    pub(crate) fn take_string(&mut self) -> Result<Option<&'a str>, Malformed> {
        let length = if self.flexible { i64::from(self.take_varint()?) - 1 } else { i64::from(self.take_i16()?) };
        if length < 0 {
            return if length == -1 { Ok(None) } else { Err(Malformed::Length) };
        }
        let bytes = self.take(length as usize)?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| Malformed::Text)
    }

    pub(crate) fn put_string(&mut self, text: Option<&str>) {
        let length = text.map_or(-1, |text| text.len() as i64);
        if self.flexible {
            self.put_varint((length + 1) as u32);
        } else {
            self.put(&(length as i16).to_be_bytes());
        }
        self.put(text.unwrap_or("").as_bytes());
    }

    pub(crate) fn copy_string(&mut self) -> Result<(), Malformed> {
        let text = self.take_string()?;
        self.put_string(text);
        Ok(())
    }

    /// Bytes with a compact length, which may be null: the records of flexible versions.
    pub(crate) fn copy_compact_bytes(&mut self) -> Result<(), Malformed> {
        let length = self.take_varint()?;
        self.put_varint(length);
        self.copy(length.saturating_sub(1) as usize)
    }

    /// Bytes, which may be null.
    pub(crate) fn take_bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.take_count()? {
            None => Ok(None),
            Some(length) => self.take(length as usize).map(Some),
        }
    }

    pub(crate) fn put_bytes(&mut self, bytes: Option<&[u8]>) {
        self.put_count(bytes.map(|bytes| bytes.len() as u32));
        self.put(bytes.unwrap_or_default());
    }

    /// How many elements an array has; a null one has none, and is said to be null.
    pub(crate) fn take_count(&mut self) -> Result<Option<u32>, Malformed> {
        let count = if self.flexible { i64::from(self.take_varint()?) - 1 } else { i64::from(self.take_i32()?) };
        match count {
            -1 => Ok(None),
            0.. => Ok(Some(count as u32)),
            _ => Err(Malformed::Length),
        }
    }

    pub(crate) fn put_count(&mut self, count: Option<u32>) {
        if self.flexible {
            self.put_varint(count.map_or(0, |count| count + 1));
        } else {
            self.put(&count.map_or(-1, |count| count as i32).to_be_bytes());
        }
    }

    /// Walks through every element of an array. Nothing is allocated by its count: a false one ends at the input's end.
    pub(crate) fn array<E: From<Malformed>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = self.take_count()?;
        self.put_count(count);
        for _ in 0..count.unwrap_or(0) {
            element(self)?;
        }
        Ok(())
    }

    /// The tagged fields at a structure's end, if the version has them.
    pub(crate) fn tags(&mut self) -> Result<(), Malformed> {
        self.tags_with(u32::MAX, |walk| {
            walk.copy_rest();
            Ok(())
        })
    }

    /// Passes over tagged fields without writing them.
    pub(crate) fn skip_tags(&mut self) -> Result<(), Malformed> {
        let mut dropped = Vec::new();
        let mut walk = Walk::new(self.input, &mut dropped, self.flexible);
        walk.tags()?;
        self.input = walk.input;
        Ok(())
    }

    /// What is left to read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.input
    }

    /// Tagged fields, of which one is walked through.
    pub(crate) fn tags_with<E: From<Malformed>>(
        &mut self,
        known: u32,
        mut field: impl FnMut(&mut Walk<'_, '_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.flexible {
            return Ok(());
        }
        let count = self.take_varint()?;
        self.put_varint(count);
        for _ in 0..count {
            let tag = self.take_varint()?;
            let size = self.take_varint()?;
            let content = self.take(size as usize)?;
            self.put_varint(tag);
            if tag == known {
                let mut changed = Vec::with_capacity(content.len());
                let mut walk = Walk::new(content, &mut changed, true);
                field(&mut walk)?;
                walk.copy_rest();
                self.put_varint(changed.len() as u32);
                self.put(&changed);
            } else {
                self.put_varint(size);
                self.put(content);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Varints as the protocol guide's, which are those of protocol buffers: 300 is AC 02.
    #[test]
    fn varints_are_the_guides() {
        for (value, bytes) in [(0, &[0][..]), (127, &[0x7f]), (128, &[0x80, 1]), (300, &[0xac, 2])] {
            let mut output = Vec::new();
            Walk::new(&[], &mut output, true).put_varint(value);
            assert_eq!(output, bytes);
            let mut rest = Vec::new();
            assert_eq!(Walk::new(bytes, &mut rest, true).take_varint(), Ok(value));
        }
        let mut output = Vec::new();
        let long = [0xff; 6];
        assert_eq!(Walk::new(&long, &mut output, true).take_varint(), Err(Malformed::Length));
    }

    #[test]
    fn strings_may_be_null_and_are_never_longer_than_the_message() {
        for (flexible, bytes, text) in [
            (false, &[0, 2, b'h', b'i'][..], Ok(Some("hi"))),
            (false, &[0xff, 0xff], Ok(None)),
            (false, &[0xff, 0xfe], Err(Malformed::Length)),
            (false, &[0x7f, 0xff, b'h'], Err(Malformed::Truncated)),
            (true, &[3, b'h', b'i'], Ok(Some("hi"))),
            (true, &[0], Ok(None)),
            (true, &[2, 0xff], Err(Malformed::Text)),
        ] {
            let mut output = Vec::new();
            let mut walk = Walk::new(bytes, &mut output, flexible);
            let taken = walk.take_string();
            assert_eq!(taken, text);
            if let Ok(text) = text {
                walk.put_string(text);
                assert_eq!(output, bytes);
            }
        }
    }
}
