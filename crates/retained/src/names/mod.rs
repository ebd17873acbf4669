//! An ordered set of topic names in little memory.
//!
//! Names lie sorted in chunks; each is stored as the length that it shares with the name before it,
//! and the rest. Topics are much alike, so that one takes some ten bytes instead of a hundred. What
//! is done with a name costs about its length and a chunk's, whatever other names there are.

mod chunk;
mod cost;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use chunk::{Chunk, Position, shared_len};

/// Names from this length on are searched for by what they share with those around them. Shorter
/// ones are compared faster than that.
const LONG_BYTES: usize = 256;

/// An ordered set of names of at most 65,535 bytes.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// In order, and none is empty.
    chunks: Vec<Chunk>,
    len: usize,
    /// Bytes of memory that the chunks' entries take.
    held: usize,
}

impl Names {
    /// How many names there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the names take. O(1).
    pub(crate) const fn memory(&self) -> usize {
        self.held + self.chunks.capacity() * size_of::<Chunk>()
    }

    /// The chunk that holds a name, or would.
    fn chunk_of(&self, name: &[u8]) -> usize {
        let after = if name.len() < LONG_BYTES {
            cost::count(name.len());
            self.chunks.partition_point(|chunk| chunk.first() <= name)
        } else {
            self.after_long(name)
        };
        after.saturating_sub(1)
    }

    /// How many chunks begin with a name or one before it. What the chunks on both sides share
    /// with the name, those in between share too.
    fn after_long(&self, name: &[u8]) -> usize {
        let order = |index: usize, known: usize| {
            let first = self.chunks[index].first();
            let shared = known + shared_len(&first[known..], &name[known..]);
            (first[shared..].cmp(&name[shared..]), shared)
        };
        let (mut low, mut high) = (0, self.chunks.len());
        let (mut low_shared, mut high_shared) = (0, 0);
        // The ends first, so that both sides are known where most names have one beginning.
        for index in [0, high.saturating_sub(1)] {
            if low < high {
                let (ordering, shared) = order(index, low_shared.min(high_shared));
                if ordering == Ordering::Greater {
                    (high, high_shared) = (index, shared);
                } else {
                    (low, low_shared) = (index + 1, shared);
                }
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let (ordering, shared) = order(middle, low_shared.min(high_shared));
            if ordering == Ordering::Greater {
                (high, high_shared) = (middle, shared);
            } else {
                (low, low_shared) = (middle + 1, shared);
            }
        }
        low
    }

    /// Changes a chunk, and counts what it takes then.
    fn change<T>(&mut self, index: usize, change: impl FnOnce(&mut Chunk) -> T) -> T {
        let chunk = &mut self.chunks[index];
        let before = chunk.memory();
        let result = change(chunk);
        self.held = self.held - before + chunk.memory();
        result
    }

    fn add_chunk(&mut self, index: usize, chunk: Chunk) {
        self.held += chunk.memory();
        self.chunks.insert(index, chunk);
    }

    /// Adds a name; whether it was new.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        let name = name.as_bytes();
        let index = self.chunk_of(name);
        let Some(chunk) = self.chunks.get(index) else {
            self.add_chunk(0, Chunk::new(name));
            self.len += 1;
            return true;
        };
        let position = chunk.locate(name);
        if position.is_there {
            return false;
        }
        self.change(index, |chunk| chunk.insert(position, name));
        self.len += 1;
        let mut index = index;
        while self.chunks[index].is_full() {
            let Some(second) = self.change(index, Chunk::split) else {
                break;
            };
            // A half with a long name may have to be split again.
            let is_first_full = self.chunks[index].is_full();
            self.add_chunk(index + 1, second);
            index += usize::from(!is_first_full);
        }
        true
    }

    /// Adds a name that comes after all others.
    pub(crate) fn push_last(&mut self, name: &str, before: &str) {
        debug_assert!(self.len == 0 || before < name, "names are pushed in order");
        let (name, before) = (name.as_bytes(), before.as_bytes());
        let last = self.chunks.len().saturating_sub(1);
        match self.chunks.last() {
            Some(chunk) if !chunk.is_nearly_full() => {
                self.change(last, |chunk| chunk.push(before, name));
            }
            chunk => {
                if chunk.is_some() {
                    self.change(last, Chunk::shrink);
                }
                self.add_chunk(self.chunks.len(), Chunk::new(name));
            }
        }
        self.len += 1;
    }

    /// Removes a name; whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let index = self.chunk_of(name.as_bytes());
        let Some(chunk) = self.chunks.get(index) else {
            return false;
        };
        let position = chunk.locate(name.as_bytes());
        if !position.is_there {
            return false;
        }
        self.change(index, |chunk| chunk.remove(position));
        self.len -= 1;
        if self.chunks[index].is_empty() {
            self.held -= self.chunks.remove(index).memory();
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
            current: String::new(),
        };
        if let Some(chunk) = self.chunks.get(chunk) {
            let position = chunk.locate(from.as_bytes());
            range.seek(from, position, included);
        }
        range
    }
}

/// Names in order; each is lent until the next.
#[derive(Debug)]
pub(crate) struct Range<'a> {
    names: &'a Names,
    chunk: usize,
    /// Where the next entry begins.
    at: usize,
    /// The name before it, or as much of it as the next entry needs.
    current: String,
}

impl Range<'_> {
    /// Begins at a position of the first chunk, or behind the name that is there.
    fn seek(&mut self, from: &str, position: Position, included: bool) {
        self.at = position.at;
        let Some(entry) = self.names.chunks[self.chunk].entry(position.at) else {
            return;
        };
        if position.is_there && !included {
            self.at = entry.end;
            self.current.push_str(from);
        } else {
            // What the entry shares with the name before it, `from` shares too.
            self.current.push_str(&from[..entry.shared]);
        }
        cost::count(self.current.len());
    }

    /// The next name. Costs what it does not share with the one before.
    pub(crate) fn next(&mut self) -> Option<&str> {
        loop {
            let chunk = self.names.chunks.get(self.chunk)?;
            if let Some(entry) = chunk.entry(self.at) {
                self.current.truncate(entry.shared);
                // Only names went in, and they are cut between characters.
                self.current.push_str(std::str::from_utf8(entry.rest).ok()?);
                self.at = entry.end;
                cost::count(entry.rest.len() + 1);
                return Some(&self.current);
            }
            self.chunk += 1;
            self.at = 0;
            self.current.clear();
        }
    }
}
