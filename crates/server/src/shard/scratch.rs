//! The buffers that all connections of a shard read into.

/// What one read takes at most: a connection's share of a turn.
const READ_BYTES: usize = 64 * 1024;

/// Room in front of what is read, where the beginning of an unfinished packet is put so that it
/// lies in one piece with its end.
pub(super) const HEADROOM: usize = 8 * 1024;

/// One read's worth of bytes with headroom, and room for what a transport unwraps from it.
pub(super) struct Scratch {
    bytes: Box<[u8]>,
    /// MQTT bytes out of a transport.
    pub(super) unwrapped: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; HEADROOM + READ_BYTES].into(),
            unwrapped: Vec::new(),
        }
    }

    /// Where to read to.
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADROOM..]
    }

    /// The first `len` bytes that were read, to be changed in place.
    pub(super) fn read_mut(&mut self, len: usize) -> (&mut [u8], &mut Vec<u8>) {
        (
            &mut self.bytes[HEADROOM..HEADROOM + len],
            &mut self.unwrapped,
        )
    }

    /// The first `len` bytes that were read, with `before` in front, which fits the headroom.
    #[inline]
    pub(super) fn joined(&mut self, before: &[u8], len: usize) -> &[u8] {
        debug_assert!(before.len() <= HEADROOM);
        let start = HEADROOM - before.len();
        self.bytes[start..HEADROOM].copy_from_slice(before);
        &self.bytes[start..HEADROOM + len]
    }

    /// The first `len` bytes that were read.
    pub(super) fn read(&self, len: usize) -> &[u8] {
        &self.bytes[HEADROOM..HEADROOM + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_lies_in_front_of_what_came_now() {
        let mut scratch = Scratch::new();
        scratch.space()[..3].copy_from_slice(b"def");
        assert_eq!(scratch.joined(b"abc", 3), b"abcdef");
        assert_eq!(scratch.joined(b"", 2), b"de");
        assert_eq!(scratch.read(3), b"def");
    }
}
