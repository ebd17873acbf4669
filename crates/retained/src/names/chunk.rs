//! Some sorted names, each encoded by what it does not share with the one before.
//!
//! An entry is the length that it shares, the length of the rest, and the rest; the first shares
//! nothing. Shared lengths end between characters, so that a rest is text. Names are compared as
//! they are encoded: what an entry shares tells its order without its bytes, so that a search
//! reads the name once and the chunk once, however long the names are.

use std::cmp::Ordering;

use super::cost;

/// A chunk is split when it has more bytes behind its first name.
const REST_BYTES_MAX: usize = 1_024;

/// Room that a chunk asks for beyond what it needs.
const SLACK_BYTES: usize = 128;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
}

/// One encoded name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    /// Bytes that it shares with the name before.
    pub(super) shared: usize,
    pub(super) rest: &'a [u8],
    /// Where the next one begins.
    pub(super) end: usize,
}

/// Where a name is in a chunk, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Where the entry begins that holds the name or the one after it; the end if there is none.
    pub(super) at: usize,
    pub(super) is_there: bool,
    /// What the name shares with the one before, and with the entry.
    shared_before: usize,
    shared_after: usize,
}

impl Chunk {
    /// A chunk of one name.
    pub(super) fn new(name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(name.len() + 8);
        push_entry(&mut bytes, 0, name);
        Self { bytes }
    }

    pub(super) fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let (shared, at) = read_number(&self.bytes, at)?;
        let (rest_len, at) = read_number(&self.bytes, at)?;
        let end = at + rest_len;
        let rest = self.bytes.get(at..end)?;
        Some(Entry { shared, rest, end })
    }

    pub(super) fn first(&self) -> &[u8] {
        self.entry(0).map_or(&[], |entry| entry.rest)
    }

    /// Bytes behind the first name.
    fn rest_len(&self) -> usize {
        let first = self.entry(0).map_or(0, |entry| entry.end);
        self.bytes.len() - first
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the chunk has to be split.
    pub(super) fn is_full(&self) -> bool {
        self.rest_len() > REST_BYTES_MAX
    }

    /// Whether names in order go into the next chunk, so that later ones do not split each.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.rest_len() >= REST_BYTES_MAX * 3 / 4
    }

    /// Bytes of memory.
    pub(super) const fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Finds a name. Reads at most the name and the chunk.
    pub(super) fn locate(&self, name: &[u8]) -> Position {
        // What the name shares with the one before `at`, which is smaller.
        let (mut at, mut known) = (0, 0);
        while let Some(entry) = self.entry(at) {
            cost::count(1);
            let shared = known;
            match entry.shared.cmp(&shared) {
                // It differs from the name where the one before does.
                Ordering::Greater => {}
                // It is greater than the one before where that is still equal to the name.
                Ordering::Less => return Position::before(at, shared, entry.shared),
                Ordering::Equal => {
                    let same = shared_len(&name[shared..], entry.rest);
                    let (left, right) = (&name[shared + same..], &entry.rest[same..]);
                    match left.cmp(right) {
                        Ordering::Greater => known = shared + same,
                        Ordering::Less => return Position::before(at, shared, shared + same),
                        Ordering::Equal => {
                            return Position {
                                is_there: true,
                                ..Position::before(at, shared, shared + same)
                            };
                        }
                    }
                }
            }
            at = entry.end;
        }
        Position::before(at, known, 0)
    }

    /// Adds a name that is not there.
    pub(super) fn insert(&mut self, position: Position, name: &[u8]) {
        let Position {
            at,
            shared_before,
            shared_after,
            ..
        } = position;
        let mut middle = Vec::with_capacity(name.len() - shared_before + 16);
        push_entry(&mut middle, shared_before, &name[shared_before..]);
        let mut end = at;
        if let Some(next) = self.entry(at) {
            let rest = &next.rest[shared_after - next.shared..];
            // Its rest stays where it is; only the head is new.
            push_number(&mut middle, shared_after);
            push_number(&mut middle, rest.len());
            end = next.end - rest.len();
        }
        self.replace(at, end, &middle);
    }

    /// Removes the name at a position where it is.
    pub(super) fn remove(&mut self, position: Position) {
        let at = position.at;
        let Some(entry) = self.entry(at) else {
            return;
        };
        let mut middle = Vec::new();
        let mut until = entry.end;
        if let Some(next) = self.entry(entry.end) {
            // What it shared with the removed name alone is its own now.
            let shared = next.shared.min(entry.shared);
            let more = &entry.rest[..next.shared - shared];
            push_number(&mut middle, shared);
            push_number(&mut middle, more.len() + next.rest.len());
            middle.extend_from_slice(more);
            until = next.end - next.rest.len();
        }
        self.replace(at, until, &middle);
        if self.bytes.capacity() > 2 * (self.bytes.len() + SLACK_BYTES) {
            self.bytes.shrink_to(self.bytes.len() + SLACK_BYTES);
        }
    }

    /// Adds a name that comes after all others, of which the last is `before`.
    pub(super) fn push(&mut self, before: &[u8], name: &[u8]) {
        let shared = shared_len(before, name);
        self.reserve(name.len() - shared + 8);
        push_entry(&mut self.bytes, shared, &name[shared..]);
    }

    /// Moves the second half into a chunk of its own, unless there is one name only.
    pub(super) fn split(&mut self) -> Option<Self> {
        let (mut at, mut current) = (0, Vec::new());
        let half = self.bytes.len() - self.rest_len() / 2;
        while let Some(entry) = self.entry(at) {
            current.truncate(entry.shared);
            current.extend_from_slice(entry.rest);
            cost::count(entry.rest.len());
            if at > 0 && entry.end > half {
                let tail = &self.bytes[entry.end..];
                let mut second = Vec::with_capacity(current.len() + tail.len() + SLACK_BYTES);
                push_entry(&mut second, 0, &current);
                second.extend_from_slice(tail);
                cost::count(second.len());
                self.bytes.truncate(at);
                self.bytes.shrink_to(at + SLACK_BYTES);
                return Some(Self { bytes: second });
            }
            at = entry.end;
        }
        None
    }

    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Asks for a little more than is needed, since there are many chunks.
    fn reserve(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() < more {
            self.bytes.reserve_exact(more + SLACK_BYTES);
        }
    }

    fn replace(&mut self, at: usize, end: usize, middle: &[u8]) {
        self.reserve(middle.len().saturating_sub(end - at));
        cost::count(middle.len() + self.bytes.len() - at);
        self.bytes.splice(at..end, middle.iter().copied());
    }
}

impl Position {
    const fn before(at: usize, shared_before: usize, shared_after: usize) -> Self {
        Self {
            at,
            is_there: false,
            shared_before,
            shared_after,
        }
    }
}

/// How many bytes of whole characters two names share.
pub(super) fn shared_len(a: &[u8], b: &[u8]) -> usize {
    const WORD: usize = size_of::<u64>();
    let len = a.len().min(b.len());
    let words = a.chunks_exact(WORD).zip(b.chunks_exact(WORD));
    let mut at = WORD * words.take_while(|(a, b)| a == b).count();
    while at < len && a[at] == b[at] {
        at += 1;
    }
    cost::count(at + 1);
    // Both go on with a byte of a character that has begun: the names share its first bytes.
    while at < len && at > 0 && is_continuation(a[at]) {
        at -= 1;
    }
    at
}

/// Whether a byte of UTF-8 is not the first of its character.
const fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn push_entry(out: &mut Vec<u8>, shared: usize, rest: &[u8]) {
    push_number(out, shared);
    push_number(out, rest.len());
    cost::count(rest.len());
    out.extend_from_slice(rest);
}

/// Seven bits a byte, the lowest first.
fn push_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[inline]
fn read_number(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let (mut number, mut shift, mut at) = (0, 0, at);
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        number |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some((number, at));
        }
        shift += 7;
    }
}
