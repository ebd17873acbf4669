//! All files, and how many chunks of each are needed.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;

use stentor_disk::Disk;

use crate::extents::Extents;
use crate::file::{CHUNK_BYTES_MAX, Current, FILE_BYTES, Place, UNIT, file_name, parse_file_name};

/// Files that are removed when nobody needs one of their chunks.
pub struct Folder<D: Disk> {
    disk: Arc<D>,
    /// Bytes that all files may have.
    bytes_max: u64,
    /// What is needed of each: also of the one that is written.
    files: BTreeMap<NonZeroU32, Extents>,
    /// What they would take if their holes were given back, but for the one that is written.
    bytes: u64,
    /// What they take, as far as is known.
    taken: u64,
    /// Whether the disk does not take holes back, as far as is known.
    keeps_holes: bool,
    current: Option<Current<D::Region>>,
    /// Whether something in that was not flushed.
    is_dirty: bool,
    /// Whether a flush has failed since [`flush`](Self::flush) has returned.
    has_failed: bool,
    /// The number of the next one.
    next: NonZeroU32,
    /// Files that could not be removed.
    leftovers: Vec<NonZeroU32>,
}

/// Why a chunk is not kept.
#[derive(Debug)]
pub enum NotKept {
    /// The files have as many bytes as they may.
    Full,
    /// The disk has refused it.
    Disk(io::Error),
}

impl<D: Disk> Folder<D> {
    /// Opens a folder, which only this process uses. `needed` are the chunks that are needed; files
    /// without one are removed. Also returns the files that are needed and not there: their chunks
    /// were freed, or somebody has removed them.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn open(
        disk: D,
        needed: impl IntoIterator<Item = Place>,
        bytes_max: u64,
    ) -> io::Result<(Self, Vec<NonZeroU32>)> {
        let mut places: BTreeMap<NonZeroU32, Vec<Place>> = BTreeMap::new();
        for place in needed {
            places.entry(place.file).or_default().push(place);
        }
        let names = disk.names()?;
        let present = names.iter().filter_map(|name| parse_file_name(name));
        let mut present: Vec<NonZeroU32> = present.collect();
        present.sort_unstable();
        let highest = { present.last() }.into_iter().chain(places.keys().last());
        let next = highest.max().and_then(|it| it.checked_add(1));
        let is_there = |number: &NonZeroU32| present.binary_search(number).is_ok();
        let missing: Vec<_> = places.keys().copied().filter(|it| !is_there(it)).collect();
        let files = places.into_iter().filter(|(number, _)| is_there(number));
        let mut folder = Self {
            disk: Arc::new(disk),
            bytes_max,
            files: files.map(|(it, all)| (it, Extents::of(all))).collect(),
            bytes: 0,
            taken: 0,
            keeps_holes: false,
            current: None,
            is_dirty: false,
            has_failed: false,
            next: next.unwrap_or(NonZeroU32::MIN),
            leftovers: Vec::new(),
        };
        folder.bytes = folder.files.values().map(Extents::bytes).sum();
        for number in present {
            if folder.files.contains_key(&number) {
                folder.taken += folder.taken_by(number);
            } else {
                folder.remove(number);
            }
        }
        Ok((folder, missing))
    }

    /// What a file takes; where nobody can tell, as much as it may.
    fn taken_by(&self, number: NonZeroU32) -> u64 {
        let taken = self.disk.taken(&file_name(number));
        taken.unwrap_or(FILE_BYTES as u64)
    }

    pub(crate) fn disk(&self) -> Arc<D> {
        Arc::clone(&self.disk)
    }

    /// Bytes that all files take, without the parts that can be given back.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let current = self.current.as_ref();
        self.bytes + current.map_or(0, |current| (current.end() * UNIT) as u64)
    }

    /// Bytes that there may be more: what is left of the present file, and the files that may be
    /// begun when all holes are given back that the disk takes. Of all, a reserve is not free, for
    /// what is under way: a sixteenth, and 64 MiB at most.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        const WHOLE: u64 = FILE_BYTES as u64;
        let current = self.current.as_ref();
        let left = current.map_or(0, |it| WHOLE - (it.end() * UNIT) as u64);
        let closed = match (self.keeps_holes, current) {
            (true, Some(_)) => self.taken.saturating_sub(WHOLE),
            (true, None) => self.taken,
            (false, _) => self.bytes,
        };
        let used = closed + current.map_or(0, |_| WHOLE);
        let room = self.bytes_max.saturating_sub(used);
        let files = room / WHOLE * WHOLE;
        let reserve = (self.bytes_max / 16).min(64 << 20);
        (files + left).min((room + left).saturating_sub(reserve))
    }

    /// Writes a chunk. It counts when [`flush`](Self::flush) has returned.
    ///
    /// # Errors
    /// When there is no room for it.
    ///
    /// # Panics
    /// If it has more than 1 MiB.
    pub fn append(&mut self, chunk: &[u8]) -> Result<Place, NotKept> {
        assert!(chunk.len() <= CHUNK_BYTES_MAX, "no chunk is so large");
        loop {
            if let Some(current) = &mut self.current {
                if let Some(place) = current.append(chunk) {
                    self.files.entry(place.file).or_default().add(place);
                    self.is_dirty = true;
                    return Ok(place);
                }
                self.flush_current().map_err(NotKept::Disk)?;
                self.leave_current();
            }
            self.begin()?;
        }
    }

    /// Begins another file, if there may be one more.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(crate) fn begin(&mut self) -> Result<(), NotKept> {
        if self.current.is_some() {
            return Ok(());
        }
        if !self.may_grow() {
            self.give_back();
        }
        if !self.may_grow() {
            return Err(NotKept::Full);
        }
        let mut made = Current::make(&*self.disk, self.next);
        if made.is_err() && self.give_back() {
            made = Current::make(&*self.disk, self.next);
        }
        let current = made.inspect_err(|_| {
            // The first error is the one to tell.
            let _ = self.disk.remove(&file_name(self.next));
        });
        let current = current.map_err(NotKept::Disk)?;
        self.files.insert(current.number, Extents::default());
        self.taken += FILE_BYTES as u64;
        self.current = Some(current);
        let next = self.next.checked_add(1);
        self.next = next.unwrap_or(NonZeroU32::MIN);
        Ok(())
    }

    fn may_grow(&self) -> bool {
        self.taken + FILE_BYTES as u64 <= self.bytes_max
    }

    /// Gives the disk back what lies between the chunks of all files. Returns whether that was
    /// anything. O(holes).
    fn give_back(&mut self) -> bool {
        let mut has_given = false;
        self.keeps_holes = false;
        for (number, extents) in &mut self.files {
            let name = file_name(*number);
            for hole in extents.holes() {
                // What the disk does not take back now is tried again.
                if self.disk.punch(&name, hole.clone()).is_ok() {
                    extents.was_given(&hole);
                    has_given = true;
                } else {
                    self.keeps_holes = true;
                }
            }
        }
        if has_given {
            let taken = { self.files.keys() }.map(|number| self.taken_by(*number));
            self.taken = taken.sum();
        }
        has_given
    }

    /// Waits until the disk has all chunks.
    ///
    /// # Errors
    /// When the disk fails, or has failed since the last call: then it may never have those that
    /// were written since that.
    pub fn flush(&mut self) -> io::Result<()> {
        let flushed = self.flush_current();
        match std::mem::take(&mut self.has_failed) {
            true if flushed.is_ok() => Err(io::Error::other("the disk has failed to sync a file")),
            true | false => flushed,
        }
    }

    fn flush_current(&mut self) -> io::Result<()> {
        if let Some(current) = &self.current
            && self.is_dirty
        {
            let flushed = current.flush();
            self.is_dirty = false;
            if flushed.is_err() {
                self.has_failed = true;
                // What is written there later may not come to the disk either.
                self.leave_current();
            }
            return flushed;
        }
        Ok(())
    }

    /// Nothing more is written to the present file.
    fn leave_current(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        let Some(extents) = self.files.get_mut(&current.number) else {
            return;
        };
        extents.close(current.end());
        self.bytes += extents.bytes();
        if extents.is_empty() {
            self.drop_file(current.number);
        }
    }

    /// Nobody needs a chunk any more. Returns whether a file has gone for that.
    pub fn free(&mut self, place: Place) -> bool {
        let Some(extents) = self.files.get_mut(&place.file) else {
            return false;
        };
        let before = extents.bytes();
        extents.free(place);
        let is_current = |current: &Current<_>| current.number == place.file;
        if self.current.as_ref().is_some_and(is_current) {
            return false;
        }
        self.bytes = self.bytes - before + extents.bytes();
        let is_empty = extents.is_empty();
        if is_empty {
            self.drop_file(place.file);
        }
        is_empty
    }

    /// A file that is not written any more goes.
    fn drop_file(&mut self, number: NonZeroU32) {
        if let Some(extents) = self.files.remove(&number) {
            self.bytes -= extents.bytes();
            self.taken = self.taken.saturating_sub(self.taken_by(number));
            self.remove(number);
        }
    }

    fn remove(&mut self, number: NonZeroU32) {
        self.leftovers.push(number);
        let disk = &self.disk;
        self.leftovers
            .retain(|number| disk.remove(&file_name(*number)).is_err());
    }
}
