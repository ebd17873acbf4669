//! The head of every payload: who published it, which one it is, and when it was meant to leave.

/// Bytes that a stamp takes; the smallest payload that the generator sends.
pub(crate) const STAMP_LEN: usize = 24;

const MAGIC: u32 = 0x5b1e_57a3;

/// What a payload says about itself. The rest of the payload is filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Index of the publisher.
    pub(crate) publisher: u32,
    /// Counts from 0 for each publisher.
    pub(crate) sequence: u64,
    /// When the message should have been sent, by [`now_ns`](crate::clock::now_ns): latency
    /// counts from here, so that a generator or server that falls behind cannot hide it.
    pub(crate) intended_ns: u64,
}

impl Stamp {
    /// Writes the stamp over the first [`STAMP_LEN`] bytes of `payload`.
    pub(crate) fn write(self, payload: &mut [u8]) {
        payload[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        payload[4..8].copy_from_slice(&self.publisher.to_le_bytes());
        payload[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        payload[16..24].copy_from_slice(&self.intended_ns.to_le_bytes());
    }

    /// Reads a stamp; `None` if `payload` is not one of ours.
    #[inline]
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let head: &[u8; STAMP_LEN] = payload.first_chunk()?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(0) != MAGIC {
            return None;
        }
        Some(Self {
            publisher: word(4),
            sequence: long(8),
            intended_ns: long(16),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_survives_the_wire() {
        let stamp = Stamp {
            publisher: 7,
            sequence: 1 << 40,
            intended_ns: u64::MAX - 3,
        };
        let mut payload = [b'x'; 30];
        stamp.write(&mut payload);
        assert_eq!(Stamp::read(&payload), Some(stamp));
        assert_eq!(&payload[24..], b"xxxxxx");
    }

    #[test]
    fn foreign_payloads_are_recognised() {
        assert_eq!(Stamp::read(b"short"), None);
        assert_eq!(Stamp::read(&[0; 100]), None);
    }
}
