//! Stores that panic.
//!
//! All that the directory does is done by one thread: if that ended, nobody would ever be answered
//! again, and who is connected would keep what was taken from them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use super::queue::Queue;
use crate::store::StoreError;

/// What a task answers; that the database does not answer now if it panics. A connection that it
/// used is gone with it.
pub(super) async fn caught<T, E: From<StoreError>>(
    task: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut task = pin!(task);
    std::future::poll_fn(|cx| {
        // After a panic nothing of the task is used again, except to be dropped.
        let step = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx)));
        step.unwrap_or_else(|_| {
            let panicked = "what asks it panicked, as the lines above say".to_owned();
            Poll::Ready(Err(StoreError::Unavailable(panicked).into()))
        })
    })
    .await
}

/// Drops the look-ups that will not be answered, however the directory's thread ends. Those that
/// wait for one receive an error.
pub(super) struct Ending<'q>(pub(super) &'q Queue);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_panics_does_not_answer() {
        let task = async |panics: bool| {
            tokio::task::yield_now().await;
            assert!(!panics, "this is expected");
            Ok::<_, StoreError>(1)
        };
        assert!(matches!(caught(task(false)).await, Ok(1)));
        let error = caught(task(true)).await.expect_err("it panics");
        assert!(error.is_unavailable());
    }
}
