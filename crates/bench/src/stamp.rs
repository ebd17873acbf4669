//! Every payload: who published it, which one it is, and when it was meant to leave; and behind
//! that a filler that follows from these three, so that damage anywhere is seen.

/// Bytes that a stamp takes; the smallest payload that the generator sends.
pub(crate) const STAMP_LEN: usize = 24;

const MAGIC: u32 = 0x5b1e_57a3;

/// Bytes after which the filler's table begins again.
const PERIOD: usize = 1_024;
/// Each period begins this much further in the table than the one before, so that none can pass
/// for another.
const STEP: usize = 37;
/// 2^64 divided by the golden ratio: spreads every bit of a number over the upper ones.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Twice the same bytes, so that a whole period can begin anywhere in the first half. To compare
/// with it costs as little as comparing can: it is in the processor's nearest cache.
static FILLER: [u8; 2 * PERIOD] = {
    let mut table = [0; 2 * PERIOD];
    let mut state = SPREAD;
    let mut at = 0;
    while at < PERIOD {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        table[at] = (state >> 56) as u8;
        table[at + PERIOD] = table[at];
        at += 1;
    }
    table
};

/// What a payload says about itself.
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
    /// Writes the whole payload: the stamp, and its filler up to the end.
    pub(crate) fn write(self, payload: &mut [u8]) {
        let (head, rest) = payload.split_at_mut(STAMP_LEN);
        head[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        head[4..8].copy_from_slice(&self.publisher.to_le_bytes());
        head[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        head[16..24].copy_from_slice(&self.intended_ns.to_le_bytes());
        for (period, bytes) in rest.chunks_mut(PERIOD).enumerate() {
            bytes.copy_from_slice(self.filler(period, bytes.len()));
        }
    }

    /// This many bytes of a period of the filler.
    #[inline]
    fn filler(self, period: usize, len: usize) -> &'static [u8] {
        let key = self.sequence
            ^ self.intended_ns.rotate_left(32)
            ^ u64::from(self.publisher).rotate_left(16);
        // As many bits as a period has places.
        let first = (key.wrapping_mul(SPREAD) >> (64 - PERIOD.ilog2())) as usize;
        let at = (first + period * STEP) % PERIOD;
        &FILLER[at..at + len]
    }

    /// Whether a payload has that length, and everything behind the stamp is what was written.
    #[inline]
    pub(crate) fn fits(self, payload: &[u8], len: usize) -> bool {
        if payload.len() != len {
            return false;
        }
        let mut periods = payload[STAMP_LEN..].chunks(PERIOD).enumerate();
        periods.all(|(period, bytes)| bytes == self.filler(period, bytes.len()))
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
        for len in [24, 25, 30, 100, 1_048, 1_049, 5_000] {
            let mut payload = vec![b'x'; len];
            stamp.write(&mut payload);
            assert_eq!(Stamp::read(&payload), Some(stamp), "{len}");
            assert!(stamp.fits(&payload, len), "{len}");
        }
    }

    /// Read as a receiver would, from what may be damaged.
    fn is_intact(payload: &[u8], len: usize) -> bool {
        Stamp::read(payload).is_some_and(|stamp| stamp.fits(payload, len))
    }

    #[test]
    fn damage_is_seen_wherever_it_is() {
        let stamp = Stamp {
            publisher: 3,
            sequence: 77,
            intended_ns: 123_456_789_012,
        };
        for len in [40, 100, 3_000] {
            let mut payload = vec![0; len];
            stamp.write(&mut payload);
            for at in 0..len {
                for bit in 0..8 {
                    payload[at] ^= 1 << bit;
                    assert!(!is_intact(&payload, len), "byte {at} of {len}, bit {bit}");
                    payload[at] ^= 1 << bit;
                }
            }
            assert!(!is_intact(&payload[..len - 1], len), "cut {len}");
            payload.push(0);
            assert!(!is_intact(&payload, len), "longer than {len}");
            payload.pop();
            assert!(is_intact(&payload, len));
        }
    }

    /// No message's filler, and no period of it, is in the place of another.
    #[test]
    fn fillers_differ() {
        let stamp = |sequence| Stamp {
            publisher: 0,
            sequence,
            intended_ns: 1_000_000 * sequence,
        };
        let mut payload = vec![0; STAMP_LEN + 3 * PERIOD];
        stamp(1).write(&mut payload);
        let (first, rest) = payload[STAMP_LEN..].split_at(PERIOD);
        let (second, third) = rest.split_at(PERIOD);
        assert!(first != second && second != third && first != third);
        for other in 2..30 {
            assert!(!stamp(other).fits(&payload, payload.len()), "{other}");
        }
    }

    #[test]
    fn foreign_payloads_are_recognised() {
        assert_eq!(Stamp::read(b"short"), None);
        assert_eq!(Stamp::read(&[0; 100]), None);
    }
}
