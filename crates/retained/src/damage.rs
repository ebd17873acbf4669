//! What was found damaged: counted, and told by topic.

use std::sync::{Mutex, MutexGuard, PoisonError};

use stentor_topic::Zone;

/// Reports that are kept; more are only counted.
const REPORTS_MAX: usize = 1_000;

/// Something in a file that is not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageReport {
    /// The file's name in the store's folder.
    pub file: String,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The topic whose record it was, as far as that can be told.
    pub topic: Option<(Zone, String)>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What damage did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The last update was cut short by a power loss, or was damaged since: the message before it
    /// stands. (A killed process damages nothing.)
    Previous,
    /// What lay there is lost.
    Lost,
    /// Nothing was lost.
    Mended,
}

impl Outcome {
    /// A word for programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Previous => "previous",
            Self::Lost => "lost",
            Self::Mended => "mended",
        }
    }
}

/// The damage that was found since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct DamageList {
    list: Mutex<(u64, Vec<DamageReport>)>,
}

impl DamageList {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<DamageReport>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, report: DamageReport) {
        let mut list = self.lock();
        // What is read again is the same damage.
        if list
            .1
            .iter()
            .any(|known| (&known.file, known.offset) == (&report.file, report.offset))
        {
            return;
        }
        list.0 += 1;
        if list.1.len() < REPORTS_MAX {
            list.1.push(report);
        }
    }

    /// How many, and the first of them.
    pub(crate) fn get(&self) -> (u64, Vec<DamageReport>) {
        self.lock().clone()
    }

    pub(crate) fn count(&self) -> u64 {
        self.lock().0
    }
}
