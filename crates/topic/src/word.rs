//! Sixteen bytes of text at a time, as a number; and stepping over levels.

/// Bytes per word.
pub(crate) const BLOCK: usize = 16;

/// The bytes of an unfinished block as a little-endian number, zeros above them.
///
/// Reads that overlap give each byte twice to the same place, which spares a loop.
#[inline]
pub(crate) fn rest_word(rest: &[u8]) -> u128 {
    debug_assert!(rest.len() < BLOCK);
    let len = rest.len();
    if let (Some(low), Some(high)) = (rest.first_chunk(), rest.last_chunk()) {
        let high = u128::from(u64::from_le_bytes(*high)) << (8 * (len - 8));
        return u128::from(u64::from_le_bytes(*low)) | high;
    }
    if let (Some(low), Some(high)) = (rest.first_chunk(), rest.last_chunk()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (len - 4));
        return u128::from(u64::from(u32::from_le_bytes(*low)) | high);
    }
    match *rest {
        [] => 0,
        [a] => u128::from(a),
        [a, b] => u128::from(u16::from_le_bytes([a, b])),
        [a, b, c, ..] => u128::from(u32::from_le_bytes([a, b, c, 0])),
    }
}

/// 0x80 in the place of each byte of `word` that equals `byte`.
#[inline]
pub(crate) const fn find_byte(word: u128, byte: u8) -> u128 {
    const ONES: u128 = u128::from_le_bytes([1; BLOCK]);
    const LOW: u128 = 0x7F * ONES;
    let zeros = word ^ (byte as u128 * ONES);
    // A byte is zero if neither its high bit is set nor adding 0x7F to its other bits sets it;
    // no byte carries into the next.
    !(((zeros & LOW) + LOW) | zeros | LOW)
}

/// How often `byte`, which is not zero, occurs in `text`.
#[inline]
pub(crate) fn count(text: &[u8], byte: u8) -> usize {
    debug_assert!(byte != 0, "a rest is filled up with zeros");
    let (blocks, rest) = text.as_chunks();
    let found = |word| find_byte(word, byte).count_ones() as usize;
    let blocks = blocks.iter().map(|block| u128::from_le_bytes(*block));
    blocks.chain([rest_word(rest)]).map(found).sum()
}

/// Where `byte`, which is not zero, occurs first in `text`, or the length of that.
#[inline]
pub(crate) fn find(text: &[u8], byte: u8) -> usize {
    debug_assert!(byte != 0, "a rest is filled up with zeros");
    let (blocks, rest) = text.as_chunks();
    let words = blocks.iter().map(|block| u128::from_le_bytes(*block));
    for (block, word) in words.chain([rest_word(rest)]).enumerate() {
        let found = find_byte(word, byte);
        if found != 0 {
            return block * BLOCK + found.trailing_zeros() as usize / 8;
        }
    }
    text.len()
}

/// Whether any of `bytes` occurs in `text`, without a branch per byte of it. No byte is 0xFF, which
/// UTF-8 does not have.
#[inline]
pub(crate) fn contains_any<const N: usize>(text: &[u8], bytes: [u8; N]) -> bool {
    // The compiler compares all bytes of a block at once.
    let is_one = |byte: u8| bytes.iter().fold(0, |is, one| is | u8::from(byte == *one));
    let found = |block: &[u8; BLOCK]| block.iter().fold(0, |is, byte| is | is_one(*byte)) != 0;
    let (blocks, rest) = text.as_chunks();
    if blocks.iter().any(found) {
        return true;
    }
    match text.last_chunk() {
        // Some bytes are looked at twice.
        Some(last) => !rest.is_empty() && found(last),
        // A short text is one word already; to take it apart again costs more than this.
        None => {
            let word = rest_word(rest) | u128::MAX << (8 * rest.len());
            bytes.iter().any(|byte| find_byte(word, *byte) != 0)
        }
    }
}

/// Whether `+` or `#` occurs in `text`. Asked several times for each subscription, mostly of texts
/// of one or two words: they are compared without a loop over their bytes.
#[inline]
pub(crate) fn contains_wildcard(text: &[u8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    const PLUS: u64 = u64::from_le_bytes([b'+'; 8]);
    /// The one bit that `+` has and `#` has not.
    const BIT: u64 = u64::from_le_bytes([b'+' ^ b'#'; 8]);
    const { assert!(BIT.count_ones() == 8 && PLUS & BIT == BIT) }
    let found = |word: u64| {
        let zeros = (word | BIT) ^ PLUS;
        zeros.wrapping_sub(ONES) & !zeros & HIGH
    };
    let (blocks, rest) = text.as_chunks::<8>();
    let all = blocks.iter().map(|block| found(u64::from_le_bytes(*block)));
    let in_blocks = all.fold(0, |all, one| all | one) != 0;
    let last = match text.last_chunk() {
        // Some bytes are looked at twice.
        Some(last) => u64::from_le_bytes(*last),
        // Zeros above the text do not matter.
        None => rest_word(rest) as u64,
    };
    in_blocks || found(last) != 0
}

/// How far it is from the start of a level to the level that comes `levels` after it: one more than
/// the text's length where it has just this many, `None` where it has fewer.
pub(crate) fn levels_after(text: &[u8], levels: u32) -> Option<usize> {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    let blocks = blocks.iter().map(|block| u128::from_le_bytes(*block));
    let mut left = levels;
    for (word, block) in blocks.chain([rest_word(rest)]).zip(0..) {
        let mut slashes = find_byte(word, b'/');
        let count = slashes.count_ones();
        if count < left {
            left -= count;
            continue;
        }
        for _ in 1..left {
            slashes &= slashes - 1;
        }
        return Some(block * BLOCK + slashes.trailing_zeros() as usize / 8 + 1);
    }
    (left == 1).then_some(text.len() + 1)
}

/// Where the level starts that comes `levels` before the one at `at`; `None` where there are fewer.
pub(crate) fn levels_before(text: &[u8], at: usize, levels: u32) -> Option<usize> {
    let before = text.get(..at.checked_sub(1)?)?;
    let mut left = levels;
    for (at, byte) in before.iter().enumerate().rev() {
        if *byte == b'/' {
            left -= 1;
            if left == 0 {
                return Some(at + 1);
            }
        }
    }
    (left == 1).then_some(0)
}

/// Where the level before the one at `at` starts, if it is `level`.
pub(crate) fn level_before(text: &[u8], at: usize, level: &[u8]) -> Option<usize> {
    let before = text.get(..at.checked_sub(1)?)?;
    let above = before.strip_suffix(level)?;
    above
        .last()
        .is_none_or(|byte| *byte == b'/')
        .then_some(above.len())
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn wildcards_are_found_anywhere() {
        for len in 0..70 {
            // Bytes that differ from a wildcard by a bit, or by one, are not wildcards.
            let text: Vec<u8> = b"\"*\x03\x0B\xABz"
                .iter()
                .copied()
                .cycle()
                .take(len)
                .collect();
            assert!(!contains_wildcard(&text), "{len}");
            for at in 0..len {
                for wildcard in [b'+', b'#'] {
                    let mut text = text.clone();
                    text[at] = wildcard;
                    assert!(contains_wildcard(&text), "{wildcard} at {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn levels_are_stepped_over_and_back() {
        let long = "a/bc//".repeat(20);
        for text in [
            "",
            "/",
            "a",
            "a/b",
            "//",
            "abc/def/ghi/jkl/mno/pqr/stu",
            &*long,
        ] {
            let mut starts: Vec<usize> = Vec::from([0]);
            let ends = text.bytes().zip(1..).filter(|(byte, _)| *byte == b'/');
            starts.extend(ends.map(|(_, at)| at));
            starts.push(text.len() + 1);
            let text = text.as_bytes();
            for (from, &at) in starts.iter().enumerate() {
                for levels in 1..=starts.len() {
                    let after = starts.get(from + levels).map(|to| to - at);
                    let rest = text.get(at..);
                    assert_eq!(
                        rest.and_then(|rest| levels_after(rest, levels as u32)),
                        after
                    );
                    let before = from.checked_sub(levels).map(|from| starts[from]);
                    assert_eq!(levels_before(text, at, levels as u32), before);
                }
                let above = from.checked_sub(1).map(|above| starts[above]);
                let level = above.map_or(&b"x"[..], |above| &text[above..at - 1]);
                assert_eq!(level_before(text, at, level), above);
                assert_eq!(level_before(text, at, b"xyz"), None);
            }
        }
        assert_eq!(level_before(b"ab/c", 3, b"b"), None);
    }
}
