//! The thread that waits for the disk.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use stentor_disk::{Disk, Region, faults};
use stentor_journal::{Answer, Folder, Journal, OldJournal, Order, Synced};

use crate::channels::{Channels, Reply, Request};
use crate::open::Earlier;

/// How long the maintenance thread waits before it tries again what the disk has refused.
const RETRY: Duration = Duration::from_millis(500);
/// How many times that grows to twice as much, while the disk fails to sync.
const RETRY_DOUBLINGS: u32 = 6;
/// How long it waits if there is nothing to do. Then it looks whether files were cut off.
const LONG: Duration = Duration::from_secs(5);

/// What a power loss may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// What the system has not written by itself.
    Never,
    /// What was appended since the last commit, which begins this long after the one before.
    Interval(Duration),
    /// Nothing that [`Writer::is_committed`](crate::Writer::is_committed) has said was there:
    /// shards ask for commits.
    Always,
}

/// Hears of the maintenance thread, on its thread.
pub trait Watcher: Send + std::marker::Sync + 'static {
    /// A shard has to call [`Writer::tend`](crate::Writer::tend).
    fn wake(&self, shard: u16);

    /// Something has happened that people want to know.
    fn event(&self, event: StoreEvent);
}

/// What people want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// The disk refuses something; it is tried again.
    Trouble(String),
    /// It has done it.
    Recovered,
    /// Nothing of earlier starts is needed any more.
    Forgotten,
}

/// Does what waits for the disk. Without [`JournalMaintenance::start`] it does nothing.
pub struct JournalMaintenance<D: Disk> {
    channels: Arc<Channels<D::Region>>,
    state: State<D>,
}

enum State<D: Disk> {
    New(Folder<D>),
    Running(JoinHandle<io::Result<()>>),
}

impl<D: Disk> JournalMaintenance<D> {
    pub(crate) const fn new(folder: Folder<D>, channels: Arc<Channels<D::Region>>) -> Self {
        Self {
            channels,
            state: State::New(folder),
        }
    }

    /// Starts the thread. It removes the earlier generations when all shards have
    /// [taken over](crate::Writer::took_over) what is in them.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start(
        self,
        sync: Sync,
        earlier: Earlier<D::Region>,
        watcher: Arc<dyn Watcher>,
    ) -> io::Result<Self> {
        let State::New(folder) = self.state else {
            return Ok(self);
        };
        let shards = self.channels.shards();
        let mut work = Work {
            unfinished: shards,
            channels: Arc::clone(&self.channels),
            folder,
            watcher,
            sync,
            waiting: Vec::new(),
            failures: 0,
            held_back: Vec::new(),
            troubles: Troubles::default(),
            earlier: Inheritance::Kept(earlier.journals, (0..shards).collect()),
            finished: Vec::new(),
            is_ending: false,
            next: Instant::now(),
            faults: faults(),
        };
        let thread = thread::Builder::new().name("session-upkeep".into());
        let thread = thread.spawn(move || {
            while !work.is_ending {
                work.step();
            }
            work.close()
        })?;
        Ok(Self {
            channels: self.channels,
            state: State::Running(thread),
        })
    }

    /// Shows how it is doing, from any thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor(Arc::clone(&self.channels) as _)
    }

    /// Commits everything and closes the folder, after all shards have
    /// [finished](crate::Writer::finish), and waits for that.
    ///
    /// # Errors
    /// When the disk fails: then the next start takes it for a crash.
    pub fn end(self) -> io::Result<()> {
        let State::Running(thread) = self.state else {
            return Ok(());
        };
        self.channels.ask(Request::End);
        let broken = |_| io::Error::other("the thread has panicked");
        thread.join().map_err(broken)?
    }
}

/// How the journals are doing.
#[derive(Clone)]
pub struct Monitor(Arc<dyn Figures>);

trait Figures: Send + std::marker::Sync {
    fn bytes(&self) -> u64;
    fn written_bytes(&self) -> u64;
    fn behind(&self) -> usize;
    fn troubles(&self) -> Vec<String>;
}

impl<R: Region> Figures for Channels<R> {
    fn bytes(&self) -> u64 {
        Self::bytes(self)
    }

    fn written_bytes(&self) -> u64 {
        Self::written_bytes(self)
    }

    fn behind(&self) -> usize {
        Self::behind(self)
    }

    fn troubles(&self) -> Vec<String> {
        Self::troubles(self)
    }
}

impl Monitor {
    /// Bytes of all files that count.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Bytes that all shards have appended to their journals since the start.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.0.written_bytes()
    }

    /// How many shards have changes that are not written down.
    #[must_use]
    pub fn behind(&self) -> usize {
        self.0.behind()
    }

    /// What is wrong with the disk now, in sentences.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        self.0.troubles()
    }
}

/// What the disk refuses.
#[derive(Debug, Default)]
struct Troubles {
    making: Option<String>,
    syncing: Option<String>,
    forgetting: Option<String>,
}

impl Troubles {
    fn sentences(&self) -> Vec<String> {
        let all = [&self.making, &self.syncing, &self.forgetting];
        all.into_iter().flatten().cloned().collect()
    }
}

/// The earlier generations.
enum Inheritance<R> {
    /// With the shards that have not taken over what is theirs.
    Kept(Vec<OldJournal<R>>, BTreeSet<u16>),
    /// With the shards of which the disk does not have that yet.
    Leaving(Vec<OldJournal<R>>, BTreeSet<u16>),
    Gone,
}

struct Work<D: Disk> {
    channels: Arc<Channels<D::Region>>,
    folder: Folder<D>,
    watcher: Arc<dyn Watcher>,
    sync: Sync,
    /// Segments that could not be made.
    waiting: Vec<(u16, usize)>,
    /// How often the disk has failed to sync since it did.
    failures: u32,
    /// What shards are to hear later: they write everything again when they hear that the disk has
    /// failed, and would do so without end.
    held_back: Vec<(Instant, u16, Synced)>,
    troubles: Troubles,
    earlier: Inheritance<D::Region>,
    finished: Vec<Finished<D::Region>>,
    unfinished: u16,
    is_ending: bool,
    /// When something is to be done that nobody asks for.
    next: Instant,
    /// How often a file of this process could not be read or written, as far as was looked at.
    faults: u64,
}

impl<D: Disk> Work<D> {
    /// Does all that was asked, or what its time has come for.
    fn step(&mut self) {
        let timeout = self.next.saturating_duration_since(Instant::now());
        let requests = self.channels.wait(timeout);
        if self.next <= Instant::now() {
            self.try_again();
            self.tell_held_back();
            if matches!(self.sync, Sync::Interval(_)) {
                self.commit_news();
            }
            self.look_for_faults();
            self.next = Instant::now() + self.pause();
            let held_back = self.held_back.iter().map(|(at, ..)| *at);
            self.next = held_back.fold(self.next, Instant::min);
        }
        for request in requests {
            self.handle(request);
        }
    }

    fn pause(&self) -> Duration {
        let is_refused = !self.waiting.is_empty() || self.troubles.forgetting.is_some();
        match (is_refused, self.sync) {
            (true, Sync::Never | Sync::Always) => RETRY,
            (true, Sync::Interval(interval)) => interval.min(RETRY),
            (false, Sync::Interval(interval)) => interval,
            (false, Sync::Never | Sync::Always) => LONG,
        }
    }

    fn handle(&mut self, request: Request<D::Region>) {
        match request {
            Request::Order(shard, order) => self.fulfil(shard, order),
            Request::Commit(shard, round) => {
                let synced = round.sync();
                let error = synced.error().map(ToString::to_string);
                let is_synced = error.is_none();
                self.note(|troubles| troubles.syncing = error);
                if is_synced {
                    self.failures = 0;
                    self.reply(shard, Reply::Synced(synced));
                    self.committed(shard);
                } else {
                    self.hold_back(shard, synced);
                }
            }
            Request::Committed(shard) => self.committed(shard),
            Request::TookOver(shard) => self.took_over(shard),
            Request::Finished(mut finished) => {
                let shard = finished.journal.shard();
                let held_back = self
                    .held_back
                    .extract_if(.., |(_, whose, _)| *whose == shard);
                let held_back = held_back.map(|(.., synced)| Reply::Synced(synced));
                for reply in self.channels.replies(shard).into_iter().chain(held_back) {
                    if let Reply::Synced(synced) = reply {
                        // What the disk has refused shows at the last commit.
                        let _ = finished.journal.end_commit(synced);
                    }
                }
                self.finished.push(*finished);
                self.unfinished -= 1;
            }
            Request::End => self.is_ending = true,
        }
    }

    fn reply(&self, shard: u16, reply: Reply<D::Region>) {
        self.channels.reply(shard, reply);
        self.watcher.wake(shard);
    }

    /// A shard hears at once that the disk has failed it, and later if that goes on.
    fn hold_back(&mut self, shard: u16, synced: Synced) {
        let pause = match self.failures {
            0 => Duration::ZERO,
            more => RETRY * (1 << more.min(RETRY_DOUBLINGS)),
        };
        self.failures = self.failures.saturating_add(1);
        let at = Instant::now() + pause;
        self.held_back.push((at, shard, synced));
        self.next = self.next.min(at);
    }

    fn tell_held_back(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self
            .held_back
            .extract_if(.., |(at, ..)| *at <= now)
            .collect();
        for (_, shard, synced) in due {
            self.reply(shard, Reply::Synced(synced));
        }
    }

    fn commit_news(&self) {
        for shard in 0..self.channels.shards() {
            if self.channels.take_news(shard) {
                self.reply(shard, Reply::Commit);
            }
        }
    }

    /// A file that was cut off may be one of a journal. A commit of each journal shows which one it
    /// is: that journal writes everything again that was in the file.
    fn look_for_faults(&mut self) {
        let now = faults();
        if now == self.faults {
            return;
        }
        self.faults = now;
        for shard in 0..self.channels.shards() {
            self.reply(shard, Reply::Commit);
        }
    }

    fn fulfil(&mut self, shard: u16, order: Order<D::Region>) {
        match self.folder.fulfil(shard, order) {
            Answer::Made(segment) => {
                self.reply(shard, Reply::Made(segment));
                self.note(|troubles| troubles.making = None);
            }
            Answer::NotMade { bytes, error } => {
                self.waiting.push((shard, bytes));
                self.next = self.next.min(Instant::now() + RETRY);
                let what = format!("a file of {bytes} bytes cannot be made: {error}");
                self.note(|troubles| troubles.making = Some(what));
            }
            Answer::Done => {}
        }
    }

    /// Tells when troubles begin, and when the last of them has ended.
    fn note(&mut self, change: impl FnOnce(&mut Troubles)) {
        let before = self.troubles.sentences();
        change(&mut self.troubles);
        let now = self.troubles.sentences();
        if before == now {
            return;
        }
        let is_refused = self.troubles.making.is_some();
        self.channels.set_troubles(now.clone(), is_refused);
        match now.first() {
            Some(first) if before.is_empty() => {
                self.watcher.event(StoreEvent::Trouble(first.clone()));
            }
            Some(_) => {}
            None => self.watcher.event(StoreEvent::Recovered),
        }
    }

    fn try_again(&mut self) {
        for (shard, bytes) in std::mem::take(&mut self.waiting) {
            self.fulfil(shard, Order::Make(bytes));
        }
        if self.troubles.forgetting.is_some() {
            self.forget();
        }
    }

    /// A shard has appended what it goes on with. When all have, they bring that to the disk.
    fn took_over(&mut self, shard: u16) {
        let Inheritance::Kept(_, shards) = &mut self.earlier else {
            return;
        };
        shards.remove(&shard);
        if !shards.is_empty() {
            return;
        }
        let earlier = std::mem::replace(&mut self.earlier, Inheritance::Gone);
        if let Inheritance::Kept(journals, _) = earlier {
            let shards = (0..self.channels.shards()).collect();
            self.earlier = Inheritance::Leaving(journals, shards);
        }
        for shard in 0..self.channels.shards() {
            self.reply(shard, Reply::Commit);
        }
    }

    /// The disk has what a shard had appended when it was asked.
    fn committed(&mut self, shard: u16) {
        if let Inheritance::Leaving(_, shards) = &mut self.earlier
            && shards.remove(&shard)
            && shards.is_empty()
        {
            self.forget();
        }
    }

    /// Removes the earlier generations.
    fn forget(&mut self) {
        let Inheritance::Leaving(journals, _) = &mut self.earlier else {
            return;
        };
        match self.folder.forget(journals) {
            Ok(()) => {
                self.earlier = Inheritance::Gone;
                self.note(|troubles| troubles.forgetting = None);
                for shard in 0..self.channels.shards() {
                    self.reply(shard, Reply::Forgotten);
                }
                self.watcher.event(StoreEvent::Forgotten);
            }
            // They are read again at the next start.
            Err(error) => {
                self.next = self.next.min(Instant::now() + RETRY);
                let what = format!("the files of earlier starts cannot be given up: {error}");
                self.note(|troubles| troubles.forgetting = Some(what));
            }
        }
    }

    /// Commits what is left.
    fn close(mut self) -> io::Result<()> {
        if self.unfinished > 0 {
            return Err(io::Error::other("a shard has not finished"));
        }
        if let Inheritance::Leaving(journals, _) = &mut self.earlier {
            self.finished.iter_mut().try_for_each(Finished::commit)?;
            self.folder.forget(journals)?;
            self.earlier = Inheritance::Gone;
        }
        match &self.earlier {
            // What was killed has perhaps not come to the disk, and it still counts.
            Inheritance::Kept(journals, _) => journals.iter().try_for_each(OldJournal::sync)?,
            Inheritance::Leaving(..) | Inheritance::Gone => {
                self.finished.iter_mut().for_each(Finished::release);
            }
        }
        // One that fails keeps no other from the disk.
        let ended: Vec<io::Result<()>> = self.finished.drain(..).map(Finished::end).collect();
        ended.into_iter().collect::<io::Result<()>>()?;
        self.folder.close()
    }
}

/// A journal to which nothing is appended any more.
pub(crate) struct Finished<R: Region> {
    pub(crate) journal: Journal<R>,
    /// Nothing before this file is needed.
    pub(crate) needed_from: u32,
}

impl<R: Region> Finished<R> {
    fn refused() -> io::Error {
        io::Error::other("the disk has failed an earlier commit")
    }

    fn commit(&mut self) -> io::Result<()> {
        match self.journal.begin_commit() {
            Some(round) => {
                let ended = self.journal.end_commit(round.sync());
                ended.map(drop).map_err(|error| error.error)
            }
            None if self.journal.is_committed() => Ok(()),
            None => Err(Self::refused()),
        }
    }

    fn release(&mut self) {
        while self.journal.oldest() < Some(self.needed_from)
            && self.journal.release_oldest().is_some()
        {}
    }

    fn end(mut self) -> io::Result<()> {
        match self.journal.begin_last_commit() {
            Some(round) => {
                let ended = self.journal.end_last_commit(round.sync());
                ended.map(drop).map_err(|error| error.error)
            }
            None if self.journal.is_committed() => Ok(()),
            None => Err(Self::refused()),
        }
    }
}
