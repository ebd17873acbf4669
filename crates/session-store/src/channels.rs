//! What shards and the maintenance thread give each other, and what both tell others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stentor_disk::Region;
use stentor_journal::{Order, Round, Segment, Synced};

use crate::maintenance::Finished;

/// For the maintenance thread.
pub(crate) enum Request<R: Region> {
    Order(u16, Order<R>),
    /// A commit that was asked for, or that the shard needs.
    Commit(u16, Round<R::Flusher>),
    /// A commit was asked for, and the disk has everything.
    Committed(u16),
    /// The shard has appended all that it goes on with.
    TookOver(u16),
    /// The shard appends nothing more.
    Finished(Box<Finished<R>>),
    End,
}

/// For a shard.
pub(crate) enum Reply<R> {
    Made(Segment<R>),
    Synced(Synced),
    Commit,
    /// The earlier generations are gone.
    Forgotten,
}

/// Both directions. Nobody holds two of its locks at once, nor one for longer than a push takes.
pub(crate) struct Channels<R: Region> {
    requests: Mutex<VecDeque<Request<R>>>,
    not_empty: Condvar,
    shards: Vec<Outbox<R>>,
    troubles: Mutex<Vec<String>>,
    /// Whether the disk refuses to make files.
    is_refused: AtomicBool,
}

struct Outbox<R> {
    replies: Mutex<VecDeque<Reply<R>>>,
    /// Whether there are any.
    is_filled: AtomicBool,
    /// Whether something was appended since the last commit was asked for.
    has_news: AtomicBool,
    /// Bytes of the files that count.
    bytes: AtomicU64,
    /// Bytes that were appended since the start.
    written_bytes: AtomicU64,
    /// Whether something is not written down that should be.
    is_behind: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of a shard's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Bytes of the files that count.
    pub(crate) bytes: u64,
    /// Bytes that were appended since the start.
    pub(crate) written_bytes: u64,
    /// Whether something is not written down that should be.
    pub(crate) is_behind: bool,
}

impl<R: Region> Channels<R> {
    pub(crate) fn new(shards: u16) -> Self {
        let outbox = |_| Outbox {
            replies: Mutex::default(),
            is_filled: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            is_behind: AtomicBool::new(false),
        };
        Self {
            requests: Mutex::default(),
            not_empty: Condvar::new(),
            shards: (0..shards).map(outbox).collect(),
            troubles: Mutex::default(),
            is_refused: AtomicBool::new(false),
        }
    }

    pub(crate) fn shards(&self) -> u16 {
        // As many as were asked for.
        self.shards.len() as u16
    }

    pub(crate) fn ask(&self, request: Request<R>) {
        lock(&self.requests).push_back(request);
        self.not_empty.notify_one();
    }

    /// All that was asked, as soon as there is something, or nothing after this long.
    pub(crate) fn wait(&self, timeout: Duration) -> VecDeque<Request<R>> {
        let mut requests = lock(&self.requests);
        if requests.is_empty() {
            let waited = self.not_empty.wait_timeout(requests, timeout);
            requests = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut *requests)
    }

    pub(crate) fn reply(&self, shard: u16, reply: Reply<R>) {
        if let Some(outbox) = self.shards.get(usize::from(shard)) {
            lock(&outbox.replies).push_back(reply);
            outbox.is_filled.store(true, Ordering::Release);
        }
    }

    /// Whether there is something for a shard.
    pub(crate) fn has_replies(&self, shard: u16) -> bool {
        let outbox = self.shards.get(usize::from(shard));
        outbox.is_some_and(|outbox| outbox.is_filled.load(Ordering::Acquire))
    }

    /// What there is for a shard. Costs one read of memory while there is nothing.
    pub(crate) fn replies(&self, shard: u16) -> VecDeque<Reply<R>> {
        match self.shards.get(usize::from(shard)) {
            Some(outbox) if outbox.is_filled.load(Ordering::Relaxed) => {
                outbox.is_filled.swap(false, Ordering::Acquire);
                std::mem::take(&mut *lock(&outbox.replies))
            }
            _ => VecDeque::new(),
        }
    }

    /// A shard has appended something.
    pub(crate) fn note_news(&self, shard: u16) {
        if let Some(outbox) = self.shards.get(usize::from(shard))
            && !outbox.has_news.load(Ordering::Relaxed)
        {
            outbox.has_news.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn take_news(&self, shard: u16) -> bool {
        let outbox = self.shards.get(usize::from(shard));
        outbox.is_some_and(|outbox| outbox.has_news.swap(false, Ordering::Relaxed))
    }

    /// A shard says how large its journal is, and whether it is complete.
    pub(crate) fn note_state(&self, shard: u16, state: State) {
        if let Some(outbox) = self.shards.get(usize::from(shard)) {
            outbox.bytes.store(state.bytes, Ordering::Relaxed);
            let written_bytes = state.written_bytes;
            outbox.written_bytes.store(written_bytes, Ordering::Relaxed);
            outbox.is_behind.store(state.is_behind, Ordering::Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |outbox: &Outbox<R>| outbox.bytes.load(Ordering::Relaxed);
        self.shards.iter().map(bytes).sum()
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        let bytes = |outbox: &Outbox<R>| outbox.written_bytes.load(Ordering::Relaxed);
        self.shards.iter().map(bytes).sum()
    }

    pub(crate) fn behind(&self) -> usize {
        let is_behind = |outbox: &&Outbox<R>| outbox.is_behind.load(Ordering::Relaxed);
        self.shards.iter().filter(is_behind).count()
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    pub(crate) fn set_troubles(&self, troubles: Vec<String>, is_refused: bool) {
        self.is_refused.store(is_refused, Ordering::Relaxed);
        *lock(&self.troubles) = troubles;
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        lock(&self.troubles).clone()
    }
}
