//! What shards and the threads give each other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::file::Place;

/// The owner of a chunk. The spool hands it back as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Which session.
    pub slot: u32,
    /// Tells it from others that had the slot.
    pub generation: u32,
    /// The number of the first message.
    pub first: u64,
    /// How many there are.
    pub count: u8,
}

/// What a shard has asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// The disk has a chunk; without a place, it was refused.
    Sealed(Owner, Option<Place>),
    /// A chunk was read; without bytes, it is not there any more, or damaged.
    Fetched(Owner, Option<Vec<u8>>),
    /// After chunks were refused: others may be taken.
    GoesOn,
}

/// For the thread that writes.
pub(crate) enum Write {
    Seal(u16, Owner, Vec<u8>),
    Free(Place),
    End,
}

/// For the thread that reads.
pub(crate) enum Read {
    Fetch(u16, Owner, Place),
    End,
}

/// Requests for one thread.
pub(crate) struct Queue<T> {
    waiting: Mutex<VecDeque<T>>,
    not_empty: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Queue<T> {
    fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            not_empty: Condvar::new(),
        }
    }

    pub(crate) fn push(&self, request: T) {
        self.push_all(VecDeque::from([request]));
    }

    /// Wakes the thread once, if it may be waiting.
    fn push_all(&self, mut requests: VecDeque<T>) {
        if requests.is_empty() {
            return;
        }
        let mut waiting = lock(&self.waiting);
        let was_empty = waiting.is_empty();
        waiting.append(&mut requests);
        drop(waiting);
        if was_empty {
            self.not_empty.notify_one();
        }
    }

    /// All that was asked, as soon as there is something, or nothing after this long.
    pub(crate) fn wait(&self, timeout: Duration) -> VecDeque<T> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_empty() {
            let waited = self.not_empty.wait_timeout(waiting, timeout);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut *waiting)
    }
}

struct Inbox {
    replies: Mutex<VecDeque<Reply>>,
    is_filled: AtomicBool,
    /// Bytes of chunks that the disk does not have yet.
    under_way: AtomicUsize,
}

/// Nobody holds two of its locks at once, nor one for longer than a push takes.
pub(crate) struct Channels {
    pub(crate) writes: Queue<Write>,
    pub(crate) reads: Queue<Read>,
    inboxes: Vec<Inbox>,
    /// Bytes of all files.
    bytes: AtomicU64,
    /// Bytes that there may be more.
    free: AtomicU64,
    /// Whether chunks are refused.
    is_refused: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl Channels {
    pub(crate) fn new(shards: u16) -> Self {
        let inbox = |_| Inbox {
            replies: Mutex::default(),
            is_filled: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
        };
        Self {
            writes: Queue::new(),
            reads: Queue::new(),
            inboxes: (0..shards).map(inbox).collect(),
            bytes: AtomicU64::new(0),
            free: AtomicU64::new(0),
            is_refused: AtomicBool::new(false),
            trouble: Mutex::default(),
        }
    }

    pub(crate) fn shards(&self) -> u16 {
        // As many as were asked for.
        self.inboxes.len() as u16
    }

    pub(crate) fn reply(&self, shard: u16, reply: Reply) {
        if let Some(inbox) = self.inboxes.get(usize::from(shard)) {
            lock(&inbox.replies).push_back(reply);
            inbox.is_filled.store(true, Ordering::Release);
        }
    }

    /// A chunk is not under way any more.
    pub(crate) fn arrived(&self, shard: u16, bytes: usize) {
        if let Some(inbox) = self.inboxes.get(usize::from(shard)) {
            inbox.under_way.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Says how many bytes all files have, and how many more they may have.
    pub(crate) fn set_bytes(&self, bytes: u64, free: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.free.store(free, Ordering::Relaxed);
    }

    /// Returns whether that has changed.
    pub(crate) fn set_trouble(&self, trouble: Option<String>) -> bool {
        let before = self.is_refused.swap(trouble.is_some(), Ordering::Relaxed);
        let has_changed = before != trouble.is_some();
        *lock(&self.trouble) = trouble;
        has_changed
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}

/// A shard's side of the spool. No call waits for the disk.
#[derive(Clone)]
pub struct SpoolHandle {
    channels: Arc<Channels>,
    shard: u16,
}

impl SpoolHandle {
    pub(crate) const fn new(channels: Arc<Channels>, shard: u16) -> Self {
        Self { channels, shard }
    }

    /// Begins requests that are handed over together.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            handle: self,
            writes: VecDeque::new(),
            reads: VecDeque::new(),
        }
    }

    /// Whether there is something for the shard.
    #[must_use]
    pub fn has_replies(&self) -> bool {
        let inbox = self.channels.inboxes.get(usize::from(self.shard));
        inbox.is_some_and(|inbox| inbox.is_filled.load(Ordering::Acquire))
    }

    /// What there is for the shard. Costs one read of memory while there is nothing.
    #[must_use]
    pub fn replies(&self) -> VecDeque<Reply> {
        match self.channels.inboxes.get(usize::from(self.shard)) {
            Some(inbox) if inbox.is_filled.load(Ordering::Relaxed) => {
                inbox.is_filled.swap(false, Ordering::Acquire);
                std::mem::take(&mut *lock(&inbox.replies))
            }
            _ => VecDeque::new(),
        }
    }

    /// Bytes of chunks of the shard that the disk does not have yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        let inbox = self.channels.inboxes.get(usize::from(self.shard));
        inbox.map_or(0, |inbox| inbox.under_way.load(Ordering::Relaxed))
    }

    /// Bytes that files may have more than they have, and than is on its way there.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let all = self.channels.inboxes.iter();
        let under_way = all.map(|it| it.under_way.load(Ordering::Relaxed) as u64);
        let free = self.channels.free.load(Ordering::Relaxed);
        free.saturating_sub(under_way.sum())
    }

    /// Whether chunks are refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.channels.is_refused()
    }
}

/// Requests of a shard, which are handed over when this is dropped: each thread is woken once.
pub struct Batch<'l> {
    handle: &'l SpoolHandle,
    writes: VecDeque<Write>,
    reads: VecDeque<Read>,
}

impl Batch<'_> {
    /// Has a chunk kept: at most 1 MiB. [`Reply::Sealed`] follows.
    pub fn seal(&mut self, owner: Owner, chunk: Vec<u8>) {
        let shard = self.handle.shard;
        if let Some(inbox) = self.handle.channels.inboxes.get(usize::from(shard)) {
            inbox.under_way.fetch_add(chunk.len(), Ordering::Relaxed);
        }
        self.writes.push_back(Write::Seal(shard, owner, chunk));
    }

    /// Has a chunk read. [`Reply::Fetched`] follows.
    pub fn fetch(&mut self, owner: Owner, place: Place) {
        self.reads
            .push_back(Read::Fetch(self.handle.shard, owner, place));
    }

    /// Nobody needs a chunk any more.
    pub fn free(&mut self, place: Place) {
        self.writes.push_back(Write::Free(place));
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let channels = &self.handle.channels;
        channels.writes.push_all(std::mem::take(&mut self.writes));
        channels.reads.push_all(std::mem::take(&mut self.reads));
    }
}

/// How the spool is doing, from any thread.
#[derive(Clone)]
pub struct Monitor(pub(crate) Arc<Channels>);

impl Monitor {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Why chunks are refused now, in a sentence.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.0.trouble).clone()
    }
}
