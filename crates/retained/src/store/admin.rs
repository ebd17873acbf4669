//! What operators ask of a store.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use stentor_hub::{HistoryBounds, Kept, NotKept, Retained};
use stentor_session::Message;
use stentor_topic::Zone;

use super::history::HistoryFigures;
use super::{STRIPES, Store, Sync};
use crate::damage::{DamageReport, Outcome};
use crate::stripe::View;
use crate::usage::Quota;
use stentor_disk::Disk;

/// Commits that a compaction waits for: segments are emptied one after the other in each stripe,
/// and others may put in the meantime.
const COMMITS_MAX: usize = 32;

/// How a store is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Topics with a message, without those below `$SYS/`.
    pub messages: u64,
    /// Bytes of topics, properties and payloads, those of histories included.
    pub bytes: u64,
    /// Messages of the histories of topics.
    pub histories: HistoryFigures,
    /// Messages and bytes by zone, those of histories included.
    pub zones: Vec<(Zone, u64, u64)>,
    /// What the files hold.
    pub files: FileUse,
    /// Bytes of memory for finding topics; the page cache holds the rest.
    pub index_bytes: u64,
    /// Damaged places that were found since the start.
    pub damaged: u64,
    /// Those of them where a message was lost, or an older one stands.
    pub losses: u64,
    /// What is wrong with the disk now, in sentences.
    pub troubles: Vec<String>,
}

/// How the files of a store are used, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// How many files there are.
    pub files: u64,
    /// Their lengths.
    pub allocated: u64,
    /// The part that was ever given to messages and not taken back.
    pub used: u64,
    /// The part that messages lie in.
    pub live: u64,
}

/// What a verification found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Messages that are whole.
    pub whole: u64,
    /// Messages that are damaged.
    pub damaged: u64,
}

impl<D: Disk> Store<D> {
    /// How the store is doing. Takes each stripe's lock for a moment.
    #[must_use]
    pub fn status(&self) -> StoreStatus {
        let (messages, bytes) = self.env.accounts.total();
        let histories = self.histories();
        let mut status = StoreStatus {
            messages: messages.saturating_sub(histories.messages),
            bytes,
            histories,
            zones: self.env.accounts.by_zone(),
            damaged: self.env.damage.count(),
            losses: self.env.damage.losses(),
            troubles: self.troubles.texts(),
            ..StoreStatus::default()
        };
        for stripe in 0..STRIPES {
            let stripe = self.lock(stripe);
            let space = stripe.space();
            status.files.files += space.segments().count() as u64;
            status.files.allocated += space.file_bytes();
            status.files.used += space.run_bytes();
            status.files.live += space.bytes_in_use();
            status.index_bytes += stripe.memory() as u64;
        }
        status
    }

    /// Bytes of memory for finding topics: the names, and the index. Takes each stripe's lock for
    /// a moment; O(zones) below each.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        let stripes = 0..STRIPES;
        stripes.map(|at| self.lock(at).memory() as u64).sum()
    }

    /// How many messages were not kept since the start: because a bound was reached, and because
    /// the disk was full or failed.
    #[must_use]
    pub fn refused(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.refused.by_bound), count(&self.refused.by_disk))
    }

    /// What is wrong with the disk now, in sentences, and since when.
    #[must_use]
    pub fn troubles(&self) -> Vec<(String, SystemTime)> {
        self.troubles.since()
    }

    /// How many messages there are below `$SYS/`, which are in no file.
    #[must_use]
    pub fn volatile_count(&self) -> u64 {
        self.volatile.count()
    }

    /// Bytes of topics, properties and payloads, without those below `$SYS/`.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.env.accounts.total().1 + self.volatile.bytes()
    }

    /// What was found damaged since the start: how many places, and those that are kept of them.
    #[must_use]
    pub fn damage(&self) -> (u64, Vec<DamageReport>) {
        self.env.damage.page(0, usize::MAX)
    }

    /// The same in parts: this many at most from one on, in the order of files and offsets.
    #[must_use]
    pub fn damage_page(&self, from: usize, at_most: usize) -> (u64, Vec<DamageReport>) {
        self.env.damage.page(from, at_most)
    }

    /// At how many of these places a message was lost, or an older one stands.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.env.damage.losses()
    }

    /// Whether a loss is none any more: its topic holds a message, or one that came since the
    /// start where an older one stood.
    #[must_use]
    pub fn is_published_again(&self, report: &DamageReport) -> bool {
        let held_ms = || {
            let (zone, topic) = report.topic.as_ref()?;
            self.received_ms(*zone, topic)
        };
        match report.outcome {
            Outcome::Lost => held_ms().is_some(),
            // Without a start there is nothing since.
            Outcome::Previous if self.origin_ms == 0 => false,
            Outcome::Previous => held_ms().is_some_and(|at| at > self.origin_ms),
            Outcome::Mended | Outcome::Salvaged => false,
        }
    }

    /// Reads every message and checks it; what is damaged is reported and not read any more.
    #[must_use]
    pub fn verify(&self) -> Verified {
        let mut verified = Verified::default();
        for stripe in 0..STRIPES {
            self.verify_stripe(stripe, &mut verified);
        }
        verified
    }

    /// The same for one of the store's 32 parts; the number of the next one, if there is one.
    pub fn verify_stripe(&self, stripe: usize, verified: &mut Verified) -> Option<usize> {
        if stripe >= STRIPES {
            return None;
        }
        let mut from = 0;
        while let Some(next) = self.lock(stripe).verify(&self.env, from, verified) {
            from = next;
        }
        Some(stripe + 1).filter(|next| *next < STRIPES)
    }

    /// New quotas; what is held stays.
    pub fn set_quotas(&self, total: Quota, zone: Quota) {
        self.env.accounts.set_quotas(total, zone);
    }

    /// The first levels of a zone's topics that begin with `$`, which no filter covers that begins
    /// with a wildcard; without those that are not kept over a restart.
    #[must_use]
    pub fn trees(&self, zone: Zone) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for stripe in 0..STRIPES {
            self.lock(stripe).trees(zone, &mut found);
        }
        found
    }

    /// When the message of a topic was received, in milliseconds since 1970; also one from before
    /// the start. `None` for a topic without one, and below `$SYS/`.
    #[must_use]
    pub fn received_ms(&self, zone: Zone, topic: &str) -> Option<u64> {
        let (hash, stripe) = self.place_of(zone, topic);
        let view = View {
            after: 0,
            mark: u64::MAX,
            now_ms: 0,
        };
        self.lock(stripe)
            .get(&self.env, hash, zone, topic, view, |record| {
                record.received_ms
            })
    }

    /// Waits until the store's promise for a message holds. For threads that may wait, while the
    /// store's own threads run.
    ///
    /// # Errors
    /// [`NotKept::Failed`] when the disk failed, or took longer than 30 seconds.
    pub fn wait_for(&self, kept: Kept) -> Result<(), NotKept> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let Kept::Later(ticket) = kept else {
            return Ok(());
        };
        let lock = &self.rounds.ended;
        let ended = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // What a round did not bring to the disk, the next one does: either may be seen.
        let (ended, _) = self
            .rounds
            .has_ended
            .wait_timeout_while(ended, PATIENCE, |(number, _)| *number < ticket.0)
            .unwrap_or_else(PoisonError::into_inner);
        match *ended {
            (number, true) if number >= ticket.0 => Ok(()),
            _ => Err(NotKept::Failed),
        }
    }

    /// Gives unused files back to the disk; how many went. What is moved frees its place when the
    /// disk has the copy, so `commit` brings that there in between; whether it did.
    pub fn compact_by(&self, commit: impl Fn() -> bool) -> usize {
        let mut removed = self.compact();
        for _ in 0..COMMITS_MAX {
            let is_held = |stripe| self.lock(stripe).is_holding();
            if !(0..STRIPES).any(is_held) || !commit() {
                break;
            }
            removed += self.compact();
        }
        removed
    }

    /// Brings what was put until now to the disk; whether it is there. For threads that may wait,
    /// while the store's own threads run.
    #[must_use]
    pub fn commit_soon(&self) -> bool {
        self.sync != Sync::Never && self.wait_for(Kept::Later(self.want_round())).is_ok()
    }

    /// Keeps a message that was received at another time, in milliseconds since 1970: in the
    /// history of its topic too, if that has one.
    ///
    /// # Errors
    /// As [`Retained::put`](stentor_hub::Retained::put).
    pub fn restore(
        &self,
        message: &Message,
        received_ms: Option<u64>,
        history: Option<HistoryBounds>,
    ) -> Result<Kept, NotKept> {
        self.put_received(message, received_ms, history)
    }
}
