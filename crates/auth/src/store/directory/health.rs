//! Whether the database answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{info, warn};

/// The pause before the first new attempt, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Whether the database answers. The log has one line when it stops, and one when it answers
/// again.
#[derive(Debug, Default)]
pub struct Health {
    up: AtomicBool,
    gone: Notify,
}

impl Health {
    /// Whether the database answered the last time.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    /// The first answer.
    pub(super) fn begin(&self) {
        self.up.store(true, Ordering::Release);
    }

    /// It does not answer.
    pub(super) fn lose(&self, shown: &str, reason: &str) {
        if self.up.swap(false, Ordering::AcqRel) {
            warn!(
                "the user database {shown} is gone ({reason}); clients stay connected, new \
                 logins are refused as unavailable until it answers again"
            );
        }
        self.gone.notify_one();
    }

    /// It answers again.
    fn regain(&self, shown: &str, since: Instant) {
        self.up.store(true, Ordering::Release);
        let secs = since.elapsed().as_secs();
        info!("the user database {shown} answers again, after {secs} s");
    }

    /// Tries with growing pauses to bring back whatever is lost, for ever.
    pub(super) async fn keep_trying(&self, shown: &str, attempt: impl AsyncFn() -> bool) {
        loop {
            while self.is_up() {
                self.gone.notified().await;
            }
            let since = Instant::now();
            let mut pause = PAUSES.0;
            loop {
                tokio::time::sleep(pause).await;
                if attempt().await {
                    break;
                }
                pause = (pause * 2).min(PAUSES.1);
            }
            self.regain(shown, since);
        }
    }
}
