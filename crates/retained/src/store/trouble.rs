//! What is wrong with the disk, and when to try again.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use stentor_hub::NotKept;

/// How long a failure is believed before the disk is asked again.
const PATIENCE: Duration = Duration::from_secs(1);

/// The last failure of everything that fails, until it succeeds.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    is_any: AtomicBool,
    by_doing: Mutex<BTreeMap<&'static str, Trouble>>,
}

#[derive(Clone, Debug)]
struct Trouble {
    at: Instant,
    /// When it failed for the first time since it last succeeded.
    since: SystemTime,
    text: String,
    is_full: bool,
}

impl Trouble {
    fn refusal(&self) -> NotKept {
        if self.is_full {
            NotKept::DiskFull
        } else {
            NotKept::Failed
        }
    }
}

impl Troubles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Trouble>> {
        self.by_doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why not even to try, if the last try has just failed.
    pub(crate) fn recent(&self, doing: &str) -> Option<NotKept> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        let troubles = self.lock();
        let trouble = troubles.get(doing)?;
        (trouble.at.elapsed() < PATIENCE).then(|| trouble.refusal())
    }

    /// Remembers a failure: the answer to publishers, and its text if it is news.
    pub(crate) fn failed(
        &self,
        doing: &'static str,
        error: &io::Error,
    ) -> (NotKept, Option<String>) {
        let is_full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let text = format!("{doing}: {error}");
        let mut troubles = self.lock();
        let known = troubles.remove(doing);
        let trouble = Trouble {
            at: Instant::now(),
            since: known
                .as_ref()
                .map_or_else(SystemTime::now, |known| known.since),
            text: text.clone(),
            is_full,
        };
        let refusal = trouble.refusal();
        self.is_any.store(true, Ordering::Relaxed);
        troubles.insert(doing, trouble);
        drop(troubles);
        let is_news = known.is_none_or(|known| known.text != text);
        (refusal, is_news.then_some(text))
    }

    /// Whether something fails.
    pub(crate) fn has(&self, doing: &str) -> bool {
        self.is_any.load(Ordering::Relaxed) && self.lock().contains_key(doing)
    }

    /// Something has succeeded; whether it was the last thing that had failed.
    pub(crate) fn succeeded(&self, doing: &str) -> bool {
        if !self.is_any.load(Ordering::Relaxed) {
            return false;
        }
        let mut troubles = self.lock();
        let was_there = troubles.remove(doing).is_some();
        let is_well = troubles.is_empty();
        self.is_any.store(!is_well, Ordering::Relaxed);
        was_there && is_well
    }

    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.lock().clear();
        self.is_any.store(false, Ordering::Relaxed);
    }

    /// One of the things that are wrong now, if anything is.
    pub(crate) fn first(&self) -> Option<Box<str>> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        let troubles = self.lock();
        troubles
            .values()
            .next()
            .map(|trouble| trouble.text.as_str().into())
    }

    /// What is wrong now, and since when.
    pub(crate) fn since(&self) -> Vec<(String, SystemTime)> {
        let troubles = self.lock();
        let told = troubles
            .values()
            .map(|trouble| (trouble.text.clone(), trouble.since));
        told.collect()
    }

    /// What is wrong now.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.lock()
            .values()
            .map(|trouble| trouble.text.clone())
            .collect()
    }
}
