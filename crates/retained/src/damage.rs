//! What was found damaged: counted, and told by topic.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stentor_topic::Zone;

use crate::history::{base_of, topic_of};

/// Reports that are kept; more are only counted.
const REPORTS_MAX: usize = 100_000;

/// Something in a file that is not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageReport {
    /// The file's name in the store's folder.
    pub file: String,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The zone and name of the record, as far as that can be told: see [`DamageReport::place`].
    pub topic: Option<(Zone, String)>,
    /// What came of it.
    pub outcome: Outcome,
}

impl DamageReport {
    /// The zone and topic of the message, which may be one of the topic's history.
    #[must_use]
    pub fn place(&self) -> Option<(Zone, &str)> {
        let (zone, name) = self.topic.as_ref()?;
        Some((base_of(*zone), topic_of(*zone, name)))
    }
}

/// What damage did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The last update was cut short by a power loss, or was damaged since: an older message of the
    /// topic stands. (A killed process damages nothing.)
    Previous,
    /// What lay there is lost.
    Lost,
    /// Nothing was lost: of the topic a newer message is there, all of it was found elsewhere, or
    /// nothing lay there.
    Mended,
    /// The message is whole, and was put elsewhere: nothing says any more how its file is divided.
    Salvaged,
}

impl Outcome {
    /// A word for programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Previous => "previous",
            Self::Lost => "lost",
            Self::Mended => "mended",
            Self::Salvaged => "salvaged",
        }
    }

    /// Whether somebody has to publish something again.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        match self {
            Self::Previous | Self::Lost => true,
            Self::Mended | Self::Salvaged => false,
        }
    }
}

/// The damage that was found since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct DamageList {
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    count: u64,
    /// Those of them that are losses.
    losses: u64,
    /// By file and offset: what is read again is the same damage.
    reports: BTreeMap<(String, u64), DamageReport>,
}

impl DamageList {
    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, report: DamageReport) {
        let mut found = self.lock();
        let found = &mut *found;
        let is_loss = report.outcome.is_loss();
        let is_full = found.reports.len() >= REPORTS_MAX;
        match found.reports.entry((report.file.clone(), report.offset)) {
            Entry::Occupied(mut known) => {
                // What was repaired before may be lost now.
                if is_loss && !known.get().outcome.is_loss() {
                    known.insert(report);
                    found.losses += 1;
                }
                return;
            }
            Entry::Vacant(entry) if !is_full => {
                entry.insert(report);
            }
            Entry::Vacant(_) => {}
        }
        found.count += 1;
        found.losses += u64::from(is_loss);
    }

    /// What is damaged lies elsewhere now: it is the same damage, if it is known.
    pub(crate) fn moved(&self, file: String, offset: u64, to: DamageReport) {
        {
            let mut found = self.lock();
            if let Some(mut report) = found.reports.remove(&(file, offset)) {
                (report.file, report.offset) = (to.file, to.offset);
                let place = (report.file.clone(), report.offset);
                found.reports.insert(place, report);
                return;
            }
            if found.reports.len() >= REPORTS_MAX {
                // It may be one of those that were counted and not kept.
                return;
            }
        }
        self.push(to);
    }

    /// How many, and those that are kept from one on, by file and offset; this many at most.
    pub(crate) fn page(&self, from: usize, at_most: usize) -> (u64, Vec<DamageReport>) {
        let found = self.lock();
        let page = found.reports.values().skip(from).take(at_most).cloned();
        (found.count, page.collect())
    }

    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    /// How many of them are losses.
    pub(crate) fn losses(&self) -> u64 {
        self.lock().losses
    }
}
