//! The mask that clients put over their payload.

/// Takes a client's mask off a payload, or puts it on; both are the same.
///
/// `data` starts at the payload's first byte. Returns the mask to go on with after these bytes.
///
/// Cost: eight bytes and more per step.
pub fn apply_mask(data: &mut [u8], mask: [u8; 4]) -> [u8; 4] {
    let rotated = rotate(mask, data.len());
    if mask == [0; 4] {
        return rotated;
    }
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    // Unrolled by the compiler into the widest registers it may use.
    let (words, rest) = data.as_chunks_mut();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
    rotated
}

/// The mask as seen from the byte after `count` others.
fn rotate(mut mask: [u8; 4], count: usize) -> [u8; 4] {
    mask.rotate_left(count % 4);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Any length, in any two parts, equals the definition: byte i is masked with byte i mod 4.
    #[test]
    fn masks_byte_by_byte() {
        let mask = [0x12, 0x34, 0x56, 0x78];
        for len in 0..70usize {
            let expected: Vec<u8> = (0..len).map(|at| at as u8 ^ mask[at % 4]).collect();
            for split in 0..=len {
                let mut data: Vec<u8> = (0..len as u8).collect();
                let (one, two) = data.split_at_mut(split);
                let next = apply_mask(one, mask);
                apply_mask(two, next);
                assert_eq!(data, expected);
            }
        }
    }

    #[test]
    fn a_zero_mask_changes_nothing() {
        let mut data = [1, 2, 3];
        assert_eq!(apply_mask(&mut data, [0; 4]), [0; 4]);
        assert_eq!(data, [1, 2, 3]);
    }
}
