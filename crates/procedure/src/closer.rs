//! Closing files whose file systems may hang.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// A thread that closes files, so that nobody else waits for a file system that has to ask
/// somebody, and does not answer. It ends with the last of these.
#[derive(Clone, Debug)]
pub struct Closer(Sender<OwnedFd>);

impl Closer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start() -> io::Result<Self> {
        let (sender, files) = channel::<OwnedFd>();
        let close = move || files.into_iter().for_each(drop);
        thread::Builder::new()
            .name("closer".to_owned())
            .spawn(close)?;
        Ok(Self(sender))
    }

    /// One whose files go to somebody else.
    #[cfg(test)]
    pub(crate) const fn to(sender: Sender<OwnedFd>) -> Self {
        Self(sender)
    }

    /// Has a file closed; does not wait.
    pub fn close(&self, file: OwnedFd) {
        // The thread is there as long as this is. If it were not, the file would be closed here.
        let _ = self.0.send(file);
    }
}
