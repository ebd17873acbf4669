//! The two threads that wait for the disk: one writes, one reads.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use stentor_disk::Disk;

use crate::channels::{Channels, Monitor, Owner, Read, Reply, SpoolHandle, Write};
use crate::file::{Place, file_name, read};
use crate::folder::{Folder, NotKept};
use crate::reader::Looker;

/// How long the writer waits before it tries again what the disk has refused.
const RETRY: Duration = Duration::from_millis(500);
/// How long a thread waits if there is nothing to do.
const LONG: Duration = Duration::from_secs(3600);
/// Files that the reader keeps open.
const OPEN_MAX: usize = 4;

/// Hears of the spool, on its threads.
pub trait Watcher: Send + Sync + 'static {
    /// A shard has to call [`SpoolHandle::replies`].
    fn wake(&self, shard: u16);

    /// Something has happened that people want to know.
    fn event(&self, event: SpoolEvent);
}

/// What people want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolEvent {
    /// Chunks are refused.
    Refused(String),
    /// They are taken again.
    Recovered,
    /// A file cannot be read.
    Unreadable {
        /// Its name.
        file: String,
        /// Why not.
        error: String,
    },
}

/// The threads. They end with it, when all that was asked before is done.
pub struct Spool {
    channels: Arc<Channels>,
    looker: Looker,
    threads: Vec<JoinHandle<()>>,
}

impl Spool {
    /// Starts the threads, for this many shards.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start<D: Disk>(
        folder: Folder<D>,
        shards: u16,
        watcher: Arc<dyn Watcher>,
    ) -> io::Result<Self> {
        let channels = Arc::new(Channels::new(shards));
        channels.set_bytes(folder.bytes(), folder.free_bytes());
        let looker = Looker::new(folder.disk());
        let mut reader = Reader {
            disk: folder.disk(),
            channels: Arc::clone(&channels),
            watcher: Arc::clone(&watcher),
            open: VecDeque::new(),
        };
        let mut writer = Writer {
            folder,
            channels: Arc::clone(&channels),
            watcher,
            written: Vec::new(),
            answered: BTreeSet::new(),
        };
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let mut spool = Self {
            channels,
            looker,
            threads: Vec::new(),
        };
        let writes = named("spool-writer").spawn(move || while writer.step() {})?;
        spool.threads.push(writes);
        let reads = named("spool-reader").spawn(move || while reader.step() {})?;
        spool.threads.push(reads);
        Ok(spool)
    }

    /// The side of one shard.
    #[must_use]
    pub fn handle(&self, shard: u16) -> SpoolHandle {
        SpoolHandle::new(Arc::clone(&self.channels), shard)
    }

    /// Reads chunks for people who look at them.
    #[must_use]
    pub fn looker(&self) -> Looker {
        self.looker.clone()
    }

    /// Shows how it is doing.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor(Arc::clone(&self.channels))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.channels.writes.push(Write::End);
        self.channels.reads.push(Read::End);
        for thread in self.threads.drain(..) {
            // One that has panicked has told that.
            let _ = thread.join();
        }
    }
}

struct Writer<D: Disk> {
    folder: Folder<D>,
    channels: Arc<Channels>,
    watcher: Arc<dyn Watcher>,
    /// Chunks that were not flushed: whose, and how many bytes.
    written: Vec<(u16, Owner, Place, usize)>,
    /// Shards that were answered and not woken yet.
    answered: BTreeSet<u16>,
}

impl<D: Disk> Writer<D> {
    /// Does all that was asked. One flush covers it. Returns whether there will be more.
    fn step(&mut self) -> bool {
        let timeout = if self.channels.is_refused() {
            RETRY
        } else {
            LONG
        };
        let requests = self.channels.writes.wait(timeout);
        let mut goes_on = true;
        if self.channels.is_refused() {
            self.try_again();
        }
        for request in requests {
            match request {
                Write::Seal(shard, owner, chunk) => self.seal(shard, owner, &chunk),
                Write::Free(place) => {
                    self.folder.free(place);
                }
                Write::End => goes_on = false,
            }
        }
        self.flush();
        let (bytes, free) = (self.folder.bytes(), self.folder.free_bytes());
        self.channels.set_bytes(bytes, free);
        for shard in std::mem::take(&mut self.answered) {
            self.watcher.wake(shard);
        }
        goes_on
    }

    fn seal(&mut self, shard: u16, owner: Owner, chunk: &[u8]) {
        // What follows waits until there is room for what came before.
        let appended = match self.channels.is_refused() {
            true => None,
            false => match self.folder.append(chunk) {
                Ok(place) => Some(place),
                Err(why) => {
                    self.refuse(&why);
                    None
                }
            },
        };
        match appended {
            Some(place) => self.written.push((shard, owner, place, chunk.len())),
            None => self.answer(shard, Reply::Sealed(owner, None), chunk.len()),
        }
    }

    fn answer(&mut self, shard: u16, reply: Reply, bytes: usize) {
        self.channels.arrived(shard, bytes);
        self.channels.reply(shard, reply);
        self.answered.insert(shard);
    }

    fn flush(&mut self) {
        let flushed = self.folder.flush();
        let is_there = flushed.is_ok();
        if let Err(error) = flushed {
            self.refuse(&NotKept::Disk(error));
        }
        for (shard, owner, place, bytes) in std::mem::take(&mut self.written) {
            if !is_there {
                self.folder.free(place);
            }
            let place = Some(place).filter(|_| is_there);
            self.answer(shard, Reply::Sealed(owner, place), bytes);
        }
    }

    fn refuse(&self, why: &NotKept) {
        let what = match why {
            NotKept::Full => "there are as many bytes as `sessions.bytes` allows".to_owned(),
            NotKept::Disk(error) => error.to_string(),
        };
        if self.channels.set_trouble(Some(what.clone())) {
            self.watcher.event(SpoolEvent::Refused(what));
        }
    }

    /// Looks whether there is room again.
    fn try_again(&mut self) {
        match self.folder.begin() {
            Ok(()) => {
                self.channels.set_trouble(None);
                for shard in 0..self.channels.shards() {
                    self.channels.reply(shard, Reply::GoesOn);
                    self.watcher.wake(shard);
                }
                self.watcher.event(SpoolEvent::Recovered);
            }
            Err(why) => self.refuse(&why),
        }
    }
}

struct Reader<D: Disk> {
    disk: Arc<D>,
    channels: Arc<Channels>,
    watcher: Arc<dyn Watcher>,
    /// The files that were read last.
    open: VecDeque<(NonZeroU32, D::Region)>,
}

impl<D: Disk> Reader<D> {
    fn step(&mut self) -> bool {
        for request in self.channels.reads.wait(LONG) {
            match request {
                Read::Fetch(shard, owner, place) => {
                    let chunk = self.fetch(place);
                    self.channels.reply(shard, Reply::Fetched(owner, chunk));
                    self.watcher.wake(shard);
                }
                Read::End => return false,
            }
        }
        true
    }

    fn fetch(&mut self, place: Place) -> Option<Vec<u8>> {
        let read = self.region(place.file).and_then(|it| read(it, place));
        let damaged = || io::Error::other("a checksum is wrong");
        match read.and_then(|chunk| chunk.ok_or_else(damaged)) {
            Ok(chunk) => Some(chunk),
            Err(error) => {
                self.open.retain(|(number, _)| *number != place.file);
                self.watcher.event(SpoolEvent::Unreadable {
                    file: file_name(place.file),
                    error: error.to_string(),
                });
                None
            }
        }
    }

    fn region(&mut self, number: NonZeroU32) -> io::Result<&D::Region> {
        let known = self.open.iter().position(|(known, _)| *known == number);
        let region = match known.and_then(|index| self.open.remove(index)) {
            Some((_, region)) => region,
            None => self.disk.open(&file_name(number))?,
        };
        self.open.truncate(OPEN_MAX - 1);
        self.open.push_front((number, region));
        let first = self.open.front().map(|(_, region)| region);
        first.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
