//! Sixteen bytes of text at a time, as a number.

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

/// Whether any of `bytes` occurs in `text`, without a branch per byte of it.
#[inline]
pub(crate) fn contains_any<const N: usize>(text: &[u8], bytes: [u8; N]) -> bool {
    let found = |word| {
        bytes
            .iter()
            .fold(0, |found, &byte| found | find_byte(word, byte))
            != 0
    };
    let (blocks, rest) = text.as_chunks();
    if blocks
        .iter()
        .any(|block| found(u128::from_le_bytes(*block)))
    {
        return true;
    }
    // Filled up with bytes that UTF-8 does not have.
    let filler = u128::MAX << (8 * rest.len());
    !rest.is_empty() && found(rest_word(rest) | filler)
}
