//! All files, and how many chunks of each are needed.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;

use stentor_disk::Disk;

use crate::file::{CHUNK_BYTES_MAX, Current, FILE_BYTES, Place, file_name, parse_file_name};

/// Files that are removed when nobody needs one of their chunks.
pub struct Folder<D: Disk> {
    disk: Arc<D>,
    /// Bytes that all files may have.
    bytes_max: u64,
    /// How many chunks of each are needed: also of the one that is written.
    files: BTreeMap<NonZeroU32, u32>,
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
    /// Opens a folder, which only this process uses. `needed` is how many chunks are needed in
    /// which file; all other files are removed. Also returns those that are needed and not there:
    /// their chunks were freed, or somebody has removed them.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn open(
        disk: D,
        needed: BTreeMap<NonZeroU32, u32>,
        bytes_max: u64,
    ) -> io::Result<(Self, Vec<NonZeroU32>)> {
        let names = disk.names()?;
        let present = names.iter().filter_map(|name| parse_file_name(name));
        let mut present: Vec<NonZeroU32> = present.collect();
        present.sort_unstable();
        let highest = { present.last() }.into_iter().chain(needed.keys().last());
        let next = highest.max().and_then(|it| it.checked_add(1));
        let is_there = |number: &NonZeroU32| present.binary_search(number).is_ok();
        let missing: Vec<_> = needed.keys().copied().filter(|it| !is_there(it)).collect();
        let files = needed.into_iter().filter(|(number, _)| is_there(number));
        let mut folder = Self {
            disk: Arc::new(disk),
            bytes_max,
            files: files.collect(),
            current: None,
            is_dirty: false,
            has_failed: false,
            next: next.unwrap_or(NonZeroU32::MIN),
            leftovers: Vec::new(),
        };
        for number in present {
            if !folder.files.contains_key(&number) {
                folder.remove(number);
            }
        }
        Ok((folder, missing))
    }

    pub(crate) fn disk(&self) -> Arc<D> {
        Arc::clone(&self.disk)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.len() as u64 * FILE_BYTES as u64
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
                    *self.files.entry(place.file).or_default() += 1;
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
        if self.bytes() + FILE_BYTES as u64 > self.bytes_max {
            return Err(NotKept::Full);
        }
        let made = Current::make(&*self.disk, self.next);
        let current = made.inspect_err(|_| {
            // The first error is the one to tell.
            let _ = self.disk.remove(&file_name(self.next));
        });
        let current = current.map_err(NotKept::Disk)?;
        self.files.insert(current.number, 0);
        self.current = Some(current);
        let next = self.next.checked_add(1);
        self.next = next.unwrap_or(NonZeroU32::MIN);
        Ok(())
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
        if let Some(current) = self.current.take()
            && self.files.get(&current.number) == Some(&0)
        {
            self.files.remove(&current.number);
            self.remove(current.number);
        }
    }

    /// Nobody needs a chunk any more. Returns whether a file has gone for that.
    pub fn free(&mut self, place: Place) -> bool {
        let Some(needed) = self.files.get_mut(&place.file) else {
            return false;
        };
        *needed = needed.saturating_sub(1);
        let is_current = |current: &Current<_>| current.number == place.file;
        if *needed > 0 || self.current.as_ref().is_some_and(is_current) {
            return false;
        }
        self.files.remove(&place.file);
        self.remove(place.file);
        true
    }

    fn remove(&mut self, number: NonZeroU32) {
        self.leftovers.push(number);
        let disk = &self.disk;
        self.leftovers
            .retain(|number| disk.remove(&file_name(*number)).is_err());
    }
}
