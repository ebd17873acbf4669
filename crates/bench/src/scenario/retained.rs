//! Retained messages of a run on somebody else's server, which are cleared on every way out.

use crate::error::BenchError;
use crate::interrupt::{self, Kept};
use crate::progress::Progress;
use crate::target::Running;

/// What a run may have retained; nothing where the server was started here, since that ends with
/// its folder.
#[must_use = "it has to be cleared"]
pub(super) struct Retained(Option<Kept>);

impl Retained {
    /// From now on an interrupt prints the topics of the run.
    pub(super) fn keep(running: &Running, run: &str) -> Self {
        let below = || interrupt::keep_retained(format!("bench/{run}/"));
        Self((!running.was_started_here()).then(below))
    }

    /// Nothing is retained.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Removes what this run left on another person's server. If `clear` fails, the error names
    /// what stays.
    ///
    /// # Errors
    /// When `clear` fails.
    pub(super) fn clear(
        self,
        progress: &Progress,
        clear: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let Some(kept) = self.0 else {
            return Ok(());
        };
        clear().map_err(|error| {
            progress.clear();
            kept.leave(&format!("what was retained is not cleared: {error}"));
            error.midway()
        })
    }
}
