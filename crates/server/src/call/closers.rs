//! The threads that close the files of local callers.

use std::collections::HashMap;

use stentor_procedure::Closer;

/// Closers by user. A file system of theirs that hangs is nobody else's trouble, and all that
/// they leave open counts together.
#[derive(Debug, Default)]
pub(super) struct Closers(HashMap<u32, Closer>);

impl Closers {
    /// The closer of a user.
    pub(super) fn of(&mut self, uid: u32) -> Closer {
        self.0.entry(uid).or_default().clone()
    }

    /// Forgets those with nothing to do. One that a connection has may get something to do: if it
    /// was forgotten, the next connection's would count from zero.
    pub(super) fn tidy(&mut self) {
        self.0.retain(|_, closer| !closer.is_done());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_closer_of_who_is_connected_is_not_forgotten() {
        let mut closers = Closers::default();
        let early = closers.of(1000);
        assert!(early.is_idle());
        closers.tidy();
        assert!(closers.0.contains_key(&1000), "the next one counts with it");
        early.close(File::open("/dev/null").expect("it is there").into());
        drop(early);
        // Nor is anybody remembered for ever.
        while !closers.0.is_empty() {
            closers.tidy();
            std::thread::yield_now();
        }
    }
}
