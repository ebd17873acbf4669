//! A shard's side of its journal.

use std::sync::Arc;

use stentor_disk::Region;
use stentor_journal::{Full, Journal, Position, Room, Usage};
use stentor_session_log::Name;

use crate::channels::{Channels, Reply, Request, State};
use crate::maintenance::Finished;

/// The journal of one shard. It neither waits for the disk nor calls the system, but to ring for
/// the maintenance thread.
pub struct Writer<R: Region> {
    journal: Journal<R>,
    channels: Arc<Channels<R>>,
    commit: Commit,
    earlier: Earlier,
    /// Nothing before this file is needed.
    needed_from: u32,
    /// What is before this is to come to the disk as soon as it can.
    wanted: Position,
}

/// Whether the maintenance thread waits for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    Idle,
    Running,
    /// One is running, and another one was asked for.
    Wanted,
    /// One was asked for, and begins when the journal has room to say what was lost.
    Blocked,
    /// The disk has failed one.
    Failed,
}

/// Whether earlier generations count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Earlier {
    Counts,
    Gone,
}

/// What a journal needs of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// The disk has failed. All that counts is to be appended again, then
    /// [`Writer::rewritten`] is to be called.
    Rewriting,
}

impl<R: Region> Writer<R> {
    pub(crate) const fn new(journal: Journal<R>, channels: Arc<Channels<R>>) -> Self {
        Self {
            journal,
            channels,
            commit: Commit::Idle,
            earlier: Earlier::Counts,
            needed_from: 0,
            wanted: Position::ORIGIN,
        }
    }

    /// Appends a batch, which a kill of the process leaves from now on. Returns where its first
    /// record is.
    ///
    /// # Errors
    /// If there is no room. It was asked for: when the maintenance thread wakes the shard, there
    /// may be.
    pub fn append(&mut self, records: &[u8]) -> Result<Name, Full> {
        let appended = self.journal.append(records);
        let at = appended.inspect_err(|_| self.ask(records.len()))?;
        self.channels.note_news(self.journal.shard());
        self.order();
        Ok(Name {
            file: at.file,
            offset: at.offset,
        })
    }

    fn ask(&mut self, records: usize) {
        self.journal.ask(records);
        self.order();
    }

    /// The number of the shard.
    #[must_use]
    pub fn shard(&self) -> u16 {
        self.journal.shard()
    }

    /// Whether the disk refuses to make files.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.channels.is_refused()
    }

    /// Whether debts may be taken on.
    #[must_use]
    pub fn room(&self) -> Room {
        self.journal.room()
    }

    /// How full the ring is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.journal.usage()
    }

    /// Bytes for which there is room in the files that there are, about.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.journal.free_bytes() as u64
    }

    /// Goes on in another file, so that all files before it can be given up.
    ///
    /// # Errors
    /// If there is none. When the maintenance thread wakes the shard, there may be.
    pub fn begin_file(&mut self) -> Result<(), Full> {
        self.journal.begin_segment()?;
        self.order();
        Ok(())
    }

    /// The file that the last batch went to.
    #[must_use]
    pub fn newest(&self) -> u32 {
        self.journal.end().file
    }

    /// Has everything that was appended brought to the disk as soon as possible: now, or when the
    /// commit has ended that is under way. Returns a place for [`Writer::is_committed`].
    pub fn commit(&mut self) -> Position {
        self.wanted = self.journal.batches_end();
        self.begin_wanted();
        self.wanted
    }

    fn begin_wanted(&mut self) {
        if self.commit == Commit::Idle && self.wanted > self.journal.committed() {
            self.begin_commit();
        }
    }

    /// Whether the disk has everything before a place.
    #[must_use]
    pub fn is_committed(&self, place: Position) -> bool {
        self.journal.committed() >= place
    }

    /// All that the shard has restored is appended. When the disk has that of all shards, the
    /// earlier generations go.
    pub fn took_over(&self) {
        self.channels.ask(Request::TookOver(self.journal.shard()));
    }

    /// All that counts was appended to this file or to later ones. So the files before it are
    /// given up, as soon as earlier generations are gone: until then, one of this generation may
    /// have the only record of the end of a session.
    pub fn release_before(&mut self, file: u32) {
        self.needed_from = self.needed_from.max(file);
        self.release();
    }

    fn release(&mut self) {
        let mut has_released = false;
        while self.earlier == Earlier::Gone
            && self.journal.oldest() < Some(self.needed_from)
            && self.journal.release_oldest().is_some()
        {
            has_released = true;
        }
        if has_released {
            self.channels.note_news(self.journal.shard());
            // They are used again after a commit.
            if self.commit == Commit::Idle {
                self.begin_commit();
            }
        }
    }

    /// Whether the maintenance thread has left something for [`Writer::tend`].
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.channels.has_replies(self.journal.shard())
    }

    /// Takes what the maintenance thread has done, and tells it what there is to do. To be called
    /// in each turn in which something was appended, and after the maintenance thread has woken the
    /// shard.
    pub fn tend(&mut self) -> Needs {
        for reply in self.channels.replies(self.journal.shard()) {
            match reply {
                Reply::Made(segment) => self.journal.supply(segment),
                Reply::Commit if self.commit == Commit::Running => self.commit = Commit::Wanted,
                Reply::Commit if self.commit == Commit::Idle => self.begin_commit(),
                Reply::Commit => {}
                Reply::Forgotten => {
                    self.earlier = Earlier::Gone;
                    self.release();
                }
                Reply::Synced(synced) => {
                    let was_wanted = self.commit == Commit::Wanted;
                    self.commit = match self.journal.end_commit(synced) {
                        Ok(_) => Commit::Idle,
                        Err(_) => Commit::Failed,
                    };
                    if was_wanted && self.commit == Commit::Idle {
                        self.begin_commit();
                    }
                }
            }
        }
        if self.commit == Commit::Blocked {
            self.begin_commit();
        }
        self.begin_wanted();
        self.order();
        match self.commit {
            Commit::Failed => Needs::Rewriting,
            Commit::Idle | Commit::Running | Commit::Wanted | Commit::Blocked => Needs::Nothing,
        }
    }

    /// All that counts was appended again after the disk had failed.
    pub fn rewritten(&mut self) {
        if self.commit == Commit::Failed {
            self.journal.rewritten();
            self.begin_commit();
            self.order();
        }
    }

    /// Tells others how large the journal is, and whether it lacks something: see
    /// [`Monitor`](crate::Monitor).
    pub fn note(&self, is_behind: bool) {
        let state = State {
            bytes: self.usage().used_bytes as u64,
            written_bytes: self.journal.written_bytes(),
            is_behind,
        };
        self.channels.note_state(self.journal.shard(), state);
    }

    fn begin_commit(&mut self) {
        let shard = self.journal.shard();
        self.commit = match self.journal.begin_commit() {
            Some(round) => {
                self.channels.ask(Request::Commit(shard, round));
                Commit::Running
            }
            None if self.journal.is_committed() => {
                self.channels.ask(Request::Committed(shard));
                Commit::Idle
            }
            None => Commit::Blocked,
        }
    }

    fn order(&mut self) {
        while let Some(order) = self.journal.next_order() {
            self.channels
                .ask(Request::Order(self.journal.shard(), order));
        }
    }

    /// Nothing is appended any more.
    pub fn finish(self) {
        self.channels.ask(Request::Finished(Box::new(Finished {
            journal: self.journal,
            needed_from: self.needed_from,
        })));
    }
}
