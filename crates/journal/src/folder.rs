//! The files of all journals: who makes, recycles and removes them may wait.

use std::collections::BTreeMap;
use std::io;

use stentor_disk::{Disk, Flusher, Region};

use crate::head::{Head, Id, file_name, parse_file_name};
use crate::journal::{Bounds, Journal, Order};
use crate::manifest::{Manifest, NEW_SUFFIX, State};
use crate::old::OldJournal;
use crate::segment::{Segment, WARM_BYTES};

/// Bytes of a segment that a full disk may have room for.
const SHORT_BYTES: usize = 256 << 10;
/// What the files of segments that hold nothing are called.
pub(crate) const SPARE_SUFFIX: &str = ".spare";
/// Numbers of files that are reserved at a time.
pub(crate) const NUMBERS_AT_ONCE: u32 = 64;
/// Bytes that are written at a time.
const STEP_BYTES: usize = 64 << 10;

/// What the maintenance thread answers to an order.
#[derive(Debug)]
#[must_use = "the journal has to know"]
pub enum Answer<R> {
    /// For [`Journal::supply`].
    Made(Segment<R>),
    /// For [`Journal::not_made`].
    NotMade {
        /// Bytes of the segment.
        bytes: usize,
        /// Why there is none.
        error: io::Error,
    },
    /// The order needs no answer.
    Done,
}

/// The folder of all journals of a server. It belongs to one thread, the maintenance thread.
///
/// [`open`](Self::open) begins a generation: new journals, beside the old ones, which are read. The
/// maintenance thread [fulfils](Self::fulfil) the orders of the journals. When nothing in the old
/// ones is needed any longer, it [forgets](Self::forget) them. After the last commit of all
/// journals, it [closes](Self::close) the folder.
#[derive(Debug)]
pub struct Folder<D: Disk> {
    pub(crate) disk: D,
    pub(crate) manifest: Manifest,
    /// The number of the next file.
    pub(crate) next: u32,
    /// Files that are whole and hold nothing, and their bytes.
    pub(crate) spares: Vec<(String, usize)>,
    /// Beyond this many, they are removed.
    pub(crate) spares_max: usize,
    /// Longer files are removed: they were made for one batch.
    pub(crate) spare_bytes: Option<usize>,
    /// Files that count no longer, and could not be removed or go with the old generations.
    pub(crate) leftovers: Vec<String>,
    /// The last file that was made, by shard.
    pub(crate) made: BTreeMap<u16, u32>,
}

impl<D: Disk> Folder<D> {
    /// The number of this start of the server.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.manifest.generation
    }

    /// An empty journal of this generation, once for each shard; and its first segments, as far
    /// as the disk has room: without them, it begins in [`Room::Low`](crate::Room::Low).
    ///
    /// # Panics
    /// If the bounds contradict each other.
    pub fn journal(&mut self, shard: u16, bounds: Bounds) -> Journal<D::Region> {
        let generation = self.manifest.generation;
        self.bound_spares(bounds.segment_bytes);
        let mut journal = Journal::new(Id { generation, shard }, bounds);
        let _ = self.serve(&mut journal);
        journal
    }

    /// The same for all shards. On a disk that is soon full, each gets as many segments as the
    /// others: one without any could not go on with what it finds.
    ///
    /// # Panics
    /// If the bounds contradict each other.
    pub fn journals(&mut self, shards: u16, bounds: Bounds) -> Vec<Journal<D::Region>> {
        let generation = self.manifest.generation;
        self.bound_spares(bounds.segment_bytes);
        let journal = |shard| Journal::new(Id { generation, shard }, bounds);
        let mut journals: Vec<_> = (0..shards).map(journal).collect();
        for _ in 0..bounds.ahead {
            for journal in &mut journals {
                let _ = self.serve_once(journal);
            }
        }
        for journal in journals.iter_mut().filter(|it| it.usage().ready == 0) {
            self.make_short(journal, bounds);
        }
        journals
    }

    /// Makes a short segment, for which a disk may have room that has none for a usual one: without
    /// any, the journal could not say what becomes of earlier ones.
    fn make_short(&mut self, journal: &mut Journal<D::Region>, bounds: Bounds) {
        let bytes = SHORT_BYTES.min(bounds.segment_bytes);
        if let Ok(segment) = self.make(journal.shard(), bytes) {
            journal.supply(segment);
        }
    }

    /// Fulfils one order of a journal that is at hand. Returns whether there was one.
    fn serve_once(&mut self, journal: &mut Journal<D::Region>) -> io::Result<bool> {
        let Some(order) = journal.next_order() else {
            return Ok(false);
        };
        match self.fulfil(journal.shard(), order) {
            Answer::Made(segment) => journal.supply(segment),
            Answer::NotMade { bytes, error } => {
                journal.not_made(bytes);
                return Err(error);
            }
            Answer::Done => {}
        }
        Ok(true)
    }

    /// Fulfils all orders of a journal that is at hand.
    ///
    /// # Errors
    /// When a segment could not be made. It is ordered again the next time.
    pub fn serve(&mut self, journal: &mut Journal<D::Region>) -> io::Result<()> {
        while self.serve_once(journal)? {}
        Ok(())
    }

    /// Does what the journal of a shard has ordered. It waits for the disk.
    pub fn fulfil(&mut self, shard: u16, order: Order<D::Region>) -> Answer<D::Region> {
        match order {
            Order::Make(bytes) => {
                return match self.make(shard, bytes) {
                    Ok(segment) => Answer::Made(segment),
                    Err(error) => Answer::NotMade { bytes, error },
                };
            }
            Order::Recycle(segment) => {
                let (number, bytes) = (segment.number(), segment.bytes());
                drop(segment.into_region());
                self.put_aside(file_name(number), bytes);
            }
            Order::Remove(segment) => self.remove(file_name(segment.number())),
            Order::Warm(warm) => {
                // It only saves waiting.
                let _ = warm.load();
            }
        }
        Answer::Done
    }

    /// Makes a segment, of a spare file if there is one of the length. Everything is on the disk
    /// before the file gets its name.
    fn make(&mut self, shard: u16, bytes: usize) -> io::Result<Segment<D::Region>> {
        if u32::try_from(bytes).is_err() {
            // Positions have four bytes for an offset.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let number = self.take_number()?;
        let head = Head {
            secret: self.manifest.secret,
            number,
            id: Id {
                generation: self.manifest.generation,
                shard,
            },
            bytes: bytes as u64,
            before: self.made.get(&shard).copied().unwrap_or(0),
        };
        let name = file_name(number);
        let (temporary, segment) = match self.take_spare(bytes) {
            Some((spare, region)) => {
                // On the disk it may have the name of a segment still, which needs a whole head.
                if let Err(error) = self.disk.sync_names() {
                    self.spares.push((spare, bytes));
                    return Err(error);
                }
                (spare, Segment::begin(region, &head))
            }
            None => {
                let temporary = format!("{name}{NEW_SUFFIX}");
                let region = written(self.disk.grow(&temporary, bytes)?);
                (temporary, Segment::begin(region, &head))
            }
        };
        let flushed = segment.flusher().flush();
        let named = flushed.and_then(|()| self.disk.rename(&temporary, &name));
        if let Err(error) = named {
            self.remove(temporary);
            return Err(error);
        }
        if let Err(error) = self.disk.sync_names() {
            // Nobody uses the number.
            self.remove(name);
            return Err(error);
        }
        self.made.insert(shard, number);
        // It only saves waiting.
        let _ = segment.flusher().load(0..bytes.min(WARM_BYTES), true);
        Ok(segment)
    }

    fn take_number(&mut self) -> io::Result<u32> {
        if self.next >= self.manifest.numbers_below {
            let below = self.next.checked_add(NUMBERS_AT_ONCE);
            let numbers_below = below.ok_or(io::ErrorKind::QuotaExceeded)?;
            self.save(Manifest {
                numbers_below,
                ..self.manifest
            })?;
        }
        let number = self.next;
        self.next += 1;
        Ok(number)
    }

    /// A spare file of this many bytes, and its name, which it keeps for now.
    fn take_spare(&mut self, bytes: usize) -> Option<(String, D::Region)> {
        loop {
            let index = self.spares.iter().position(|(_, len)| *len == bytes)?;
            let (name, _) = self.spares.swap_remove(index);
            let filled = self.disk.fill(&name, bytes);
            match filled.and_then(|()| self.disk.open(&name)) {
                Ok(region) if region.bytes().len() == bytes => return Some((name, region)),
                _ => self.remove(name),
            }
        }
    }

    /// Keeps no spare file of another length than this.
    fn bound_spares(&mut self, bytes: usize) {
        self.spare_bytes = Some(bytes);
        let (kept, removed): (Vec<_>, Vec<_>) = std::mem::take(&mut self.spares)
            .into_iter()
            .partition(|(_, len)| *len == bytes);
        self.spares = kept;
        for (name, _) in removed {
            self.remove(name);
        }
    }

    /// Makes a file a spare one, unless there are enough or it has another length than those.
    pub(crate) fn put_aside(&mut self, name: String, bytes: usize) {
        let spare = format!("{name}{SPARE_SUFFIX}");
        let is_usual = self.spare_bytes.is_none_or(|usual| usual == bytes);
        let is_kept = self.spares.len() < self.spares_max && is_usual;
        if is_kept && self.disk.rename(&name, &spare).is_ok() {
            self.spares.push((spare, bytes));
        } else {
            self.remove(name);
        }
    }

    /// Removes a file; what cannot be removed now goes later.
    pub(crate) fn remove(&mut self, name: String) {
        if self.disk.remove(&name).is_err() {
            self.leftovers.push(name);
        }
    }

    /// Forgets all earlier generations: everything in them that still counts was appended to
    /// journals of this one and committed. Their files are used again or removed.
    ///
    /// # Errors
    /// When that could not be written. Then they are read again at the next start, and the call
    /// can be repeated.
    pub fn forget(&mut self, old: &mut Vec<OldJournal<D::Region>>) -> io::Result<()> {
        self.save(Manifest {
            oldest: self.manifest.generation,
            ..self.manifest
        })?;
        for segment in old.drain(..).flat_map(OldJournal::into_segments) {
            let (number, bytes) = (segment.number, segment.bytes().len());
            drop(segment);
            self.put_aside(file_name(number), bytes);
        }
        for name in std::mem::take(&mut self.leftovers) {
            self.remove(name);
        }
        self.disk.sync_names()
    }

    /// Says that the [last commits](Journal::end_last_commit) of all journals are complete.
    ///
    /// # Errors
    /// When that could not be written: then the next start sees a crash.
    pub fn close(mut self) -> io::Result<()> {
        self.save(Manifest {
            state: State::Closed,
            files: self.disk.names().ok().map(|names| journal_files(&names)),
            ..self.manifest
        })
    }

    pub(crate) fn save(&mut self, manifest: Manifest) -> io::Result<()> {
        manifest.save(&self.disk)?;
        self.manifest = manifest;
        Ok(())
    }
}

/// How many of these are files of journals.
pub(crate) fn journal_files(names: &[String]) -> u32 {
    // Each has a number.
    names.iter().filter_map(|it| parse_file_name(it)).count() as u32
}

/// Writes a new file once, all of it: a sync of what was only allocated changes the file system
/// too.
fn written<R: Region>(mut region: R) -> R {
    let zeros = vec![0; STEP_BYTES];
    let bytes = region.bytes().len();
    for at in (0..bytes).step_by(STEP_BYTES) {
        region.write(at, &zeros[..STEP_BYTES.min(bytes - at)]);
    }
    region
}
