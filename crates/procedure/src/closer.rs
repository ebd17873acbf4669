//! Closing files whose file systems may hang.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// Files that wait to be closed before no more are to be taken.
const BEHIND: usize = 256;

/// A thread that closes files, so that nobody else waits for a file system that has to ask
/// somebody, and does not answer. It ends with the last of these.
#[derive(Clone, Debug)]
pub struct Closer {
    files: Sender<OwnedFd>,
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start() -> io::Result<Self> {
        let (sender, files) = channel::<OwnedFd>();
        let closer = Self::to(sender);
        let waiting = Arc::clone(&closer.waiting);
        let close = move || {
            for file in files {
                drop(file);
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let name = "closer".to_owned();
        thread::Builder::new().name(name).spawn(close)?;
        Ok(closer)
    }

    /// One whose files go there.
    pub(crate) fn to(files: Sender<OwnedFd>) -> Self {
        let waiting = Arc::default();
        Self { files, waiting }
    }

    /// Has a file closed; does not wait.
    pub fn close(&self, file: OwnedFd) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread is there as long as this is. If it were not, the file would be closed here.
        let _ = self.files.send(file);
    }

    /// Whether so many files wait that no more should be taken: a file system does not answer.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= BEHIND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_that_wait_are_told_of() {
        let (sender, files) = channel();
        let closer = Closer::to(sender);
        for _ in 0..BEHIND {
            assert!(!closer.is_behind());
            closer.close(
                std::fs::File::open("/dev/null")
                    .expect("it is there")
                    .into(),
            );
        }
        assert!(closer.is_behind());
        drop(files);
        let closer = Closer::start().expect("a thread");
        for _ in 0..2 * BEHIND {
            closer.close(
                std::fs::File::open("/dev/null")
                    .expect("it is there")
                    .into(),
            );
        }
        while closer.waiting.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        assert!(!closer.is_behind());
    }
}
