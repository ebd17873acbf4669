//! A disk in memory that fails, is killed in the middle of a write, and loses power.
//!
//! Of each file it knows what a reader sees now and what would be there after a power loss. Sectors
//! go from the one to the other when they are flushed, and at any other time, as the kernel likes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Disk, Flusher, Region};

/// What reaches the disk in one piece.
const SECTOR_BYTES: usize = 512;

/// What the kernel writes again as a whole.
const PAGE_BYTES: usize = 4096;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Making room for a file.
    Grow,
    /// Mapping a file.
    Open,
    /// Reading a small file.
    Read,
    /// Writing a small file.
    Write,
    /// Writing over the beginning of one.
    Overwrite,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Syncing the folder.
    SyncNames,
    /// Flushing a file.
    Flush,
    /// Giving back a part of one.
    Punch,
}

/// A disk that follows orders. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDisk {
    world: Arc<Mutex<World>>,
}

#[derive(Debug, Default)]
struct World {
    names: BTreeMap<String, usize>,
    /// The names as they are after a power loss.
    lasting_names: BTreeMap<String, usize>,
    files: Vec<FileData>,
    /// Bytes that are still written before the process is killed.
    fuse: Option<usize>,
    /// One in this many operations fails; 0 for none.
    failing: u32,
    /// Fails always, and with which error.
    broken: Option<(Operation, ErrorKind)>,
    /// The sectors in memory, by file; `None` for all.
    warm: Option<BTreeSet<(usize, usize)>>,
    random: Random,
}

#[derive(Clone, Debug, Default)]
struct FileData {
    now: Vec<u8>,
    lasting: Vec<u8>,
    dirty: BTreeSet<usize>,
    /// Blocks that take nothing.
    punched: BTreeSet<usize>,
}

impl FileData {
    fn settle(&mut self, sector: usize) {
        let from = sector * SECTOR_BYTES;
        let to = self.now.len().min(from + SECTOR_BYTES);
        if self.lasting.len() < self.now.len() {
            self.lasting.resize(self.now.len(), 0);
        }
        self.lasting[from..to].copy_from_slice(&self.now[from..to]);
        self.dirty.remove(&sector);
    }
}

/// Numbers that depend on nothing but the seed in it. Tests of stores use it as well.
#[derive(Debug, Default)]
pub struct Random(pub u64);

impl Random {
    /// A number below the bound; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }

    /// Whether something happens that happens once in that many times.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

impl World {
    fn check(&mut self, operation: Operation) -> io::Result<()> {
        if let Some((broken, kind)) = self.broken
            && broken == operation
        {
            return Err(kind.into());
        }
        let fails = self.failing > 0 && self.random.below(self.failing as usize) == 0;
        if fails {
            return Err(io::Error::other("injected"));
        }
        Ok(())
    }

    fn is_dead(&self) -> bool {
        self.fuse == Some(0)
    }

    fn write(&mut self, file: usize, at: usize, bytes: &[u8]) {
        let written = match &mut self.fuse {
            None => bytes.len(),
            Some(left) => {
                let written = bytes.len().min(*left);
                *left -= written;
                let is_atomic = bytes.len() <= 8 && at.is_multiple_of(8);
                if is_atomic && written < bytes.len() {
                    0
                } else {
                    written
                }
            }
        };
        if written == 0 {
            return;
        }
        let data = &mut self.files[file];
        data.now[at..at + written].copy_from_slice(&bytes[..written]);
        // The kernel notes whole pages.
        let pages = at / PAGE_BYTES..(at + written).div_ceil(PAGE_BYTES);
        let per_page = PAGE_BYTES / SECTOR_BYTES;
        let end = data.now.len().div_ceil(SECTOR_BYTES);
        data.dirty
            .extend(pages.start * per_page..(pages.end * per_page).min(end));
        // Now and then the kernel writes something by itself.
        if self.random.below(8) == 0 {
            self.settle_some(file, 4);
        }
    }

    /// Brings each dirty sector to the disk with a probability of one in this many.
    fn settle_some(&mut self, file: usize, one_in: usize) {
        let dirty: Vec<usize> = self.files[file].dirty.iter().copied().collect();
        for sector in dirty {
            if self.random.below(one_in) == 0 {
                self.files[file].settle(sector);
            }
        }
    }
}

impl SimulatedDisk {
    /// An empty disk that never fails by itself.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.lock().random = Random(seed);
        disk
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one in this many operations fail; 0 for none.
    pub fn fail_one_in(&self, failing: u32) {
        self.lock().failing = failing;
    }

    /// Makes an operation fail always, until told otherwise.
    pub fn break_down(&self, broken: Option<(Operation, ErrorKind)>) {
        self.lock().broken = broken;
    }

    /// Kills the process after this many more bytes: what it writes later goes nowhere.
    pub fn kill_after(&self, bytes: usize) {
        self.lock().fuse = Some(bytes);
    }

    /// Whether the process was killed.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.lock().is_dead()
    }

    /// The disk as a new process finds it after a kill.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let mut world = self.lock();
        let seed = world.random.below(usize::MAX) as u64;
        let names = world.names.clone();
        let files = world.files.clone();
        let lasting_names = world.lasting_names.clone();
        drop(world);
        let disk = Self::new(seed);
        let mut world = disk.lock();
        (world.names, world.lasting_names, world.files) = (names, lasting_names, files);
        drop(world);
        disk
    }

    /// The kernel writes again what it has forgotten after a failed flush. It does not do so by
    /// itself: this is for tests that promise nothing about a failed flush, then a kill before the
    /// process could write again what the flush was about, and then a power loss.
    pub fn remember(&self) {
        for file in &mut self.lock().files {
            let sectors = 0..file.now.len().div_ceil(SECTOR_BYTES);
            file.dirty.extend(sectors);
        }
    }

    /// The disk as a new process finds it after a power loss.
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        let disk = self.after_kill();
        let mut world = disk.lock();
        // Each name that was not synced is as it was or as it is.
        let mut names = world.lasting_names.clone();
        for (name, file) in world.names.clone() {
            if world.lasting_names.get(&name) != Some(&file) && world.random.below(2) == 0 {
                names.insert(name, file);
            }
        }
        for file in 0..world.files.len() {
            world.settle_some(file, 2);
            let data = &mut world.files[file];
            data.lasting.resize(data.now.len(), 0);
            data.now.clone_from(&data.lasting);
            data.dirty.clear();
        }
        world.lasting_names.clone_from(&names);
        world.names = names;
        drop(world);
        disk
    }

    /// Changes a byte of a file: the disk has rotted. A mapping does not show that.
    pub fn damage(&self, name: &str, at: usize, change: u8) {
        let mut world = self.lock();
        if let Some(file) = world.names.get(name).copied()
            && let Some(byte) = world.files[file].now.get_mut(at)
        {
            *byte ^= change;
        }
    }

    /// The bytes of a file; none if there is none.
    #[must_use]
    pub fn content(&self, name: &str) -> Vec<u8> {
        let world = self.lock();
        let file = world.names.get(name).copied();
        file.map_or_else(Vec::new, |file| world.files[file].now.clone())
    }

    /// Puts a file there, whatever it holds.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut world = self.lock();
        let file = world.files.len();
        world.files.push(FileData {
            now: bytes.to_vec(),
            lasting: bytes.to_vec(),
            ..FileData::default()
        });
        world.names.insert(name.to_owned(), file);
        world.lasting_names.insert(name.to_owned(), file);
    }

    /// Forgets everything that was in memory: it has to be loaded again.
    pub fn evict(&self) {
        self.lock().warm = Some(BTreeSet::new());
    }

    /// The length of a file; 0 if there is none.
    #[must_use]
    pub fn len_of(&self, name: &str) -> usize {
        let world = self.lock();
        let file = world.names.get(name).copied();
        file.map_or(0, |file| world.files[file].now.len())
    }

    fn region(&self, file: usize) -> SimulatedRegion {
        let bytes = self.lock().files[file].now.clone();
        SimulatedRegion {
            bytes,
            file,
            disk: self.clone(),
        }
    }
}

impl Disk for SimulatedDisk {
    type Region = SimulatedRegion;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn grow(&self, name: &str, len: usize) -> io::Result<SimulatedRegion> {
        let mut world = self.lock();
        world.check(Operation::Grow)?;
        let file = world.files.len();
        world.files.push(FileData {
            now: vec![0; len],
            ..FileData::default()
        });
        if !world.is_dead() {
            world.names.insert(name.to_owned(), file);
        }
        drop(world);
        Ok(self.region(file))
    }

    fn open(&self, name: &str) -> io::Result<SimulatedRegion> {
        let mut world = self.lock();
        world.check(Operation::Open)?;
        let file = world.names.get(name).copied();
        let file = file.ok_or(ErrorKind::NotFound)?;
        drop(world);
        Ok(self.region(file))
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut world = self.lock();
        world.check(Operation::Read)?;
        let file = world.names.get(name).copied();
        Ok(file.map(|file| world.files[file].now.clone()))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.lock();
        world.check(Operation::Write)?;
        let file = world.files.len();
        world.files.push(FileData {
            now: vec![0; bytes.len()],
            ..FileData::default()
        });
        if !world.is_dead() {
            world.names.insert(name.to_owned(), file);
        }
        world.write(file, 0, bytes);
        world.settle_some(file, 1);
        Ok(())
    }

    fn fill(&self, name: &str, _: usize) -> io::Result<()> {
        let world = self.lock();
        let is_there = world.names.contains_key(name);
        match is_there {
            true => Ok(()),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    fn taken(&self, name: &str) -> io::Result<u64> {
        let world = self.lock();
        let file = world.names.get(name).ok_or(ErrorKind::NotFound)?;
        let data = &world.files[*file];
        Ok((data.now.len() - data.punched.len() * PAGE_BYTES) as u64)
    }

    fn punch(&self, name: &str, part: Range<usize>) -> io::Result<()> {
        let mut world = self.lock();
        world.check(Operation::Punch)?;
        let file = world.names.get(name).copied();
        let file = file.ok_or(ErrorKind::NotFound)?;
        world.write(file, part.start, &vec![0; part.len()]);
        if !world.is_dead() {
            let whole = part.start.div_ceil(PAGE_BYTES)..part.end / PAGE_BYTES;
            world.files[file].punched.extend(whole);
        }
        Ok(())
    }

    fn overwrite(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.lock();
        world.check(Operation::Overwrite)?;
        let file = world.names.get(name).copied();
        let file = file.ok_or(ErrorKind::NotFound)?;
        if let Some(left) = world.fuse.filter(|left| *left < bytes.len()) {
            // Killed before.
            world.fuse = Some(left.saturating_sub(bytes.len()));
            return Ok(());
        }
        world.write(file, 0, bytes);
        world.settle_some(file, 1);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.lock();
        world.check(Operation::Rename)?;
        if world.is_dead() {
            return Ok(());
        }
        let file = world.names.remove(from).ok_or(ErrorKind::NotFound)?;
        world.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.lock();
        world.check(Operation::Remove)?;
        if world.is_dead() {
            return Ok(());
        }
        world.names.remove(name).ok_or(ErrorKind::NotFound)?;
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut world = self.lock();
        world.check(Operation::SyncNames)?;
        if !world.is_dead() {
            world.lasting_names = world.names.clone();
        }
        Ok(())
    }
}

/// A file's bytes as its process sees them, even after it was killed.
#[derive(Debug)]
pub struct SimulatedRegion {
    bytes: Vec<u8>,
    file: usize,
    disk: SimulatedDisk,
}

impl Region for SimulatedRegion {
    type Flusher = SimulatedFlusher;

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.disk.lock().write(self.file, at, bytes);
    }

    fn flusher(&self) -> SimulatedFlusher {
        SimulatedFlusher {
            file: self.file,
            disk: self.disk.clone(),
        }
    }
}

/// The sectors of a part.
fn sectors(part: Range<usize>) -> Range<usize> {
    part.start / SECTOR_BYTES..part.end.div_ceil(SECTOR_BYTES)
}

/// Flushes a simulated file.
#[derive(Clone, Debug)]
pub struct SimulatedFlusher {
    file: usize,
    disk: SimulatedDisk,
}

impl Flusher for SimulatedFlusher {
    fn flush(&self) -> io::Result<()> {
        let mut world = self.disk.lock();
        let checked = world.check(Operation::Flush);
        if world.is_dead() {
            return checked;
        }
        if checked.is_err() {
            // Some of it got there, and the rest is forgotten: the kernel reports a failure once.
            world.settle_some(self.file, 2);
            world.files[self.file].dirty.clear();
            return checked;
        }
        world.settle_some(self.file, 1);
        Ok(())
    }

    fn load(&self, part: Range<usize>, _: bool) -> io::Result<()> {
        let mut world = self.disk.lock();
        if let Some(warm) = &mut world.warm {
            warm.extend(sectors(part).map(|sector| (self.file, sector)));
        }
        Ok(())
    }

    fn is_loaded(&self, part: Range<usize>) -> bool {
        let world = self.disk.lock();
        let Some(warm) = &world.warm else {
            return true;
        };
        sectors(part).all(|sector| warm.contains(&(self.file, sector)))
    }
}
