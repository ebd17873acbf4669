//! Reading and writing numbers. All are little-endian.

/// What is left of some bytes to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next bytes; `None` when there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A finite number.
    pub(crate) fn f32(&mut self) -> Option<f32> {
        let value = f32::from_le_bytes(self.array()?);
        value.is_finite().then_some(value)
    }

    /// A number in groups of seven bits, the lowest first.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            value |= bits.checked_shl(shift).filter(|it| it >> shift == bits)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// The other way round.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_written_and_long_ones_are_refused() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Reader(&out).varint(), Some(value));
            assert_eq!(Reader(&out[..out.len() - 1]).varint(), None);
        }
        assert_eq!(Reader(&[0xFF; 9]).varint(), None);
        assert_eq!(Reader(&[0xFF; 11]).varint(), None);
    }
}
