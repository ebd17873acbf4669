//! The hash of topics, and of all prefixes of a name in one pass.

use core::fmt;
use core::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

use crate::word::{BLOCK, find_byte, rest_word};
use crate::{Zone, literal_prefix};

/// The keyed hash of (zone, topic text) that all shards of a server share.
///
/// Text enters the hash in blocks of 16 bytes from the left, and what remains of the last block
/// enters with its length. So the hash of every prefix of a text falls out of one pass over it: the
/// state after the prefix's full blocks, plus one step for the rest. (A plain string hash would
/// have to start again for each prefix, which a name of 65,535 slashes turns into seconds.)
///
/// The seed is a secret: who knows it can make topics collide. Servers draw it at random at start
/// and hand the same one to every shard.
#[derive(Clone)]
pub struct TopicHasher {
    /// Start of the state.
    start: u64,
    /// What a zone's number is multiplied with before it enters the state; odd.
    zone_factor: u64,
    /// Secret constants of the mixing steps.
    shared: SharedSeed,
}

impl fmt::Debug for TopicHasher {
    /// Leaves the seed out.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TopicHasher").finish_non_exhaustive()
    }
}

impl TopicHasher {
    /// A hasher with this seed; equal seeds give equal hashes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let shared = SharedSeed::from_u64(seed);
        let derive = |number: u64| {
            let mut hasher = FoldHasher::with_seed(seed, &shared);
            hasher.write_u64(number);
            hasher.finish()
        };
        let (start, zone_factor) = (derive(1), derive(2) | 1);
        Self {
            start,
            zone_factor,
            shared,
        }
    }

    /// The hash of a topic name, of a filter, or of a literal prefix.
    #[must_use]
    pub fn hash(&self, zone: Zone, text: &str) -> u64 {
        self.hash_bytes(zone, text.as_bytes())
    }

    /// [`TopicHasher::hash`] of bytes that may be no text.
    #[must_use]
    pub fn hash_bytes(&self, zone: Zone, text: &[u8]) -> u64 {
        absorb(self.state(zone), text)
    }

    /// The hash under which a filter's interest is announced: that of its [`literal_prefix`].
    #[must_use]
    pub fn interest(&self, zone: Zone, filter: &str) -> u64 {
        self.hash(zone, literal_prefix(filter))
    }

    /// Calls `visit` with the hash of each proper literal prefix of a name, shortest first, and
    /// returns the hash of the whole name.
    ///
    /// The visited prefixes are `""` and the text before each slash: every [`literal_prefix`] that
    /// a filter matching the name can have, except the whole name, which is the returned hash (an
    /// exact filter, or `a/b/#` for the name `a/b`). A name that begins with `$` is not looked up
    /// under `""`, since no filter that begins with a wildcard matches it [MQTT-4.7.2-1].
    ///
    /// Cost: one pass over the name and one step per slash.
    pub fn for_each_prefix_hash(&self, zone: Zone, name: &str, mut visit: impl FnMut(u64)) -> u64 {
        let mut state = self.state(zone);
        let bytes = name.as_bytes();
        match bytes.first() {
            Some(b'$') => {}
            // The empty prefix before a leading slash is the same text as that before any wildcard.
            _ => visit(finish(state.clone(), 0, 0)),
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let mut is_first = true;
        for block in blocks {
            let word = u128::from_le_bytes(*block);
            let slashes = find_byte(word, b'/');
            self.visit_slashes(&state, word, forget_leading(slashes, is_first), &mut visit);
            state.write_u128(word);
            is_first = false;
        }
        let word = rest_word(rest);
        // Bytes above the rest are zero, never a slash.
        let slashes = find_byte(word, b'/');
        self.visit_slashes(&state, word, forget_leading(slashes, is_first), &mut visit);
        finish(state, word, rest.len())
    }

    /// Visits the prefixes that end before the marked bytes of `word`.
    #[inline]
    fn visit_slashes(
        &self,
        state: &FoldHasher<'_>,
        word: u128,
        mut slashes: u128,
        visit: &mut impl FnMut(u64),
    ) {
        while slashes != 0 {
            let at = slashes.trailing_zeros() / 8;
            let below = word & ((1 << (8 * at)) - 1);
            visit(finish(state.clone(), below, at as usize));
            slashes &= slashes - 1;
        }
    }

    /// The hash of one level below a node, for the trie's child table.
    pub(crate) fn level(&self, level: &[u8]) -> u64 {
        absorb(FoldHasher::with_seed(self.zone_factor, &self.shared), level)
    }

    #[inline]
    fn state(&self, zone: Zone) -> FoldHasher<'_> {
        let zone = u64::from(zone.get()).wrapping_mul(self.zone_factor);
        FoldHasher::with_seed(self.start.wrapping_add(zone), &self.shared)
    }
}

/// The hash of a whole text.
#[inline]
fn absorb(mut state: FoldHasher<'_>, text: &[u8]) -> u64 {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    for block in blocks {
        state.write_u128(u128::from_le_bytes(*block));
    }
    finish(state, rest_word(rest), rest.len())
}

/// Ends a hash with the bytes of an unfinished block.
#[inline]
fn finish(mut state: FoldHasher<'_>, word: u128, len: usize) -> u64 {
    debug_assert!(len < BLOCK);
    // The last byte is free since the rest is shorter than a block. With it no ending equals a full
    // block, so that no text's blocks begin another's: a block that ends in 0xF0 | len has len <= 4
    // (UTF-8 goes up to 0xF4), and the bytes before it are not the NULs that such an ending has.
    let mark = 0xF0 | len as u128;
    state.write_u128(word | (mark << (8 * (BLOCK - 1))));
    state.finish()
}

/// Leaves out a slash that is the first byte of the name: its prefix is `""`, visited already.
#[inline]
fn forget_leading(slashes: u128, is_first: bool) -> u128 {
    if is_first { slashes & !0x80 } else { slashes }
}
