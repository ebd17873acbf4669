//! An ordered set of topic names in little memory.
//!
//! Names lie sorted in chunks; each is stored as the length that it shares with the name before it,
//! and the rest. Topics are much alike, so that one takes some ten bytes instead of a hundred.

use std::mem;

/// A chunk that grows beyond is split in two.
const CHUNK_BYTES_MAX: usize = 1_024;

/// An ordered set of names of at most 65,535 bytes.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// In order, and none is empty.
    chunks: Vec<Chunk>,
    len: usize,
}

/// Encoded names: shared length, length of the rest, the rest. The first shares nothing.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
}

/// One encoded name.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    shared: usize,
    rest: &'a [u8],
    /// Where the next one begins.
    end: usize,
}

impl Chunk {
    fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let (shared, at) = read_number(&self.bytes, at)?;
        let (rest_len, at) = read_number(&self.bytes, at)?;
        let end = at + rest_len;
        let rest = self.bytes.get(at..end)?;
        Some(Entry { shared, rest, end })
    }

    fn first(&self) -> &[u8] {
        self.entry(0).map_or(&[], |entry| entry.rest)
    }
}

/// Where a name is in a chunk, or would be.
struct Position {
    /// Where the entry begins that holds the name or the one after it; the end if there is none.
    at: usize,
    is_there: bool,
    /// The name before.
    before: Vec<u8>,
}

fn locate(chunk: &Chunk, name: &[u8]) -> Position {
    let (mut at, mut current, mut before) = (0, Vec::new(), Vec::new());
    while let Some(entry) = chunk.entry(at) {
        before.clone_from(&current);
        current.truncate(entry.shared);
        current.extend_from_slice(entry.rest);
        if current.as_slice() >= name {
            let is_there = current == name;
            return Position {
                at,
                is_there,
                before,
            };
        }
        at = entry.end;
    }
    Position {
        at,
        is_there: false,
        before: current,
    }
}

fn shared_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn push_entry(out: &mut Vec<u8>, before: &[u8], name: &[u8]) {
    let shared = shared_len(before, name);
    push_number(out, shared);
    push_number(out, name.len() - shared);
    out.extend_from_slice(&name[shared..]);
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

impl Names {
    /// How many names there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The chunk that holds a name, or would.
    fn chunk_of(&self, name: &[u8]) -> usize {
        self.chunks
            .partition_point(|chunk| chunk.first() <= name)
            .saturating_sub(1)
    }

    /// Adds a name; whether it was new.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        let name = name.as_bytes();
        let index = self.chunk_of(name);
        let Some(chunk) = self.chunks.get_mut(index) else {
            self.push(name);
            return true;
        };
        let position = locate(chunk, name);
        if position.is_there {
            return false;
        }
        let next = chunk.entry(position.at).map(|entry| {
            let mut next = position.before[..entry.shared].to_vec();
            next.extend_from_slice(entry.rest);
            (next, entry.end)
        });
        let mut middle = Vec::with_capacity(name.len() + 8);
        push_entry(&mut middle, &position.before, name);
        let mut end = position.at;
        if let Some((next, next_end)) = next {
            push_entry(&mut middle, name, &next);
            end = next_end;
        }
        chunk.bytes.splice(position.at..end, middle);
        self.len += 1;
        if chunk.bytes.len() > CHUNK_BYTES_MAX {
            self.split(index);
        }
        true
    }

    /// Adds a name that comes after all others.
    pub(crate) fn push_last(&mut self, name: &str, before: &str) {
        debug_assert!(self.len == 0 || before < name, "names are pushed in order");
        let name = name.as_bytes();
        match self.chunks.last_mut() {
            // Not full, so that later names do not split every chunk.
            Some(chunk) if chunk.bytes.len() < CHUNK_BYTES_MAX * 3 / 4 => {
                push_entry(&mut chunk.bytes, before.as_bytes(), name);
                self.len += 1;
            }
            last => {
                if let Some(last) = last {
                    last.bytes.shrink_to_fit();
                }
                self.push(name);
            }
        }
    }

    /// Adds a name in a chunk of its own at the end.
    fn push(&mut self, name: &[u8]) {
        let mut chunk = Chunk::default();
        push_entry(&mut chunk.bytes, &[], name);
        self.chunks.push(chunk);
        self.len += 1;
    }

    /// Splits a chunk near its middle, unless it is a single name.
    fn split(&mut self, index: usize) {
        let chunk = &self.chunks[index];
        let (mut at, mut current) = (0, Vec::new());
        while let Some(entry) = chunk.entry(at) {
            current.truncate(entry.shared);
            current.extend_from_slice(entry.rest);
            if at > 0 && (at >= chunk.bytes.len() / 2 || entry.end == chunk.bytes.len()) {
                let mut second = Chunk::default();
                push_entry(&mut second.bytes, &[], &current);
                second.bytes.extend_from_slice(&chunk.bytes[entry.end..]);
                let first = &mut self.chunks[index].bytes;
                first.truncate(at);
                first.shrink_to_fit();
                self.chunks.insert(index + 1, second);
                return;
            }
            at = entry.end;
        }
    }

    /// Removes a name; whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let index = self.chunk_of(name.as_bytes());
        let Some(chunk) = self.chunks.get_mut(index) else {
            return false;
        };
        let position = locate(chunk, name.as_bytes());
        if !position.is_there {
            return false;
        }
        let end = chunk
            .entry(position.at)
            .map_or(position.at, |entry| entry.end);
        let next = chunk.entry(end).map(|entry| {
            let mut next = name.as_bytes()[..entry.shared].to_vec();
            next.extend_from_slice(entry.rest);
            (next, entry.end)
        });
        let (mut middle, mut until) = (Vec::new(), end);
        if let Some((next, next_end)) = next {
            push_entry(&mut middle, &position.before, &next);
            until = next_end;
        }
        chunk.bytes.splice(position.at..until, middle);
        self.len -= 1;
        if chunk.bytes.is_empty() {
            self.chunks.remove(index);
        }
        true
    }

    /// The names from one on: that one included or not.
    pub(crate) fn range(&self, from: &str, included: bool) -> Range<'_> {
        let chunk = self.chunk_of(from.as_bytes());
        let mut range = Range {
            names: self,
            chunk,
            at: 0,
            current: Vec::new(),
            is_held: false,
        };
        while range.step() {
            let current = range.current.as_slice();
            if current > from.as_bytes() || (included && current == from.as_bytes()) {
                range.is_held = true;
                break;
            }
        }
        range
    }

    /// Bytes of memory that the names take.
    pub(crate) fn memory(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| chunk.bytes.capacity());
        chunks.sum::<usize>() + self.chunks.capacity() * size_of::<Chunk>()
    }
}

/// Names in order; each is lent until the next.
#[derive(Debug)]
pub(crate) struct Range<'a> {
    names: &'a Names,
    chunk: usize,
    at: usize,
    current: Vec<u8>,
    /// The current name was not handed out yet.
    is_held: bool,
}

impl Range<'_> {
    fn step(&mut self) -> bool {
        loop {
            let Some(chunk) = self.names.chunks.get(self.chunk) else {
                return false;
            };
            if let Some(entry) = chunk.entry(self.at) {
                self.current.truncate(entry.shared);
                self.current.extend_from_slice(entry.rest);
                self.at = entry.end;
                return true;
            }
            self.chunk += 1;
            self.at = 0;
            self.current.clear();
        }
    }

    /// The next name.
    pub(crate) fn next(&mut self) -> Option<&str> {
        if !mem::take(&mut self.is_held) && !self.step() {
            return None;
        }
        // Only names went in, and they come out whole.
        std::str::from_utf8(&self.current).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn all(names: &Names, from: &str, included: bool) -> Vec<String> {
        let mut range = names.range(from, included);
        let mut found = Vec::new();
        while let Some(name) = range.next() {
            found.push(name.to_owned());
        }
        found
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(String),
        Remove(String),
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ab]{1,3}(/[0-9ü]{1,2}){0,3}",
            "long/[ab]{100,300}/[0-9]{1,2}",
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => name().prop_map(Step::Insert),
            2 => name().prop_map(Step::Remove),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn names_are_an_ordered_set(steps in prop::collection::vec(step(), 1..400),
                                    from in name(), included: bool) {
            let (mut names, mut model) = (Names::default(), BTreeSet::new());
            for step in &steps {
                match step {
                    Step::Insert(name) => {
                        prop_assert_eq!(names.insert(name), model.insert(name.clone()));
                    }
                    Step::Remove(name) => {
                        prop_assert_eq!(names.remove(name), model.remove(name));
                    }
                }
                prop_assert_eq!(names.len(), model.len());
            }
            let expected: Vec<_> = model.iter().cloned().collect();
            prop_assert_eq!(all(&names, "", true), expected.clone());
            let later: Vec<_> = expected
                .iter()
                .filter(|name| **name > from || (included && **name == from))
                .cloned()
                .collect();
            prop_assert_eq!(all(&names, &from, included), later);
            let mut pushed = Names::default();
            let mut before = "";
            for name in &expected {
                pushed.push_last(name, before);
                before = name;
            }
            prop_assert_eq!(all(&pushed, "", true), expected);
        }
    }

    #[test]
    fn a_hundred_thousand_names_take_little_memory() {
        let mut names = Names::default();
        for i in 0..100_000 {
            names.insert(&format!("plant/{}/line/{}/sensor/{i}", i % 10, i % 100));
        }
        assert!(names.memory() < 2_000_000, "{}", names.memory());
    }
}
