//! When each room of a zone has something to do.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use stentor_session::Tick;

/// The rooms that have something to do at some time, the earliest first. So nobody has to look at
/// all rooms, of which clients make as many as a zone allows.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(BTreeSet<(Tick, Arc<str>)>);

impl Deadlines {
    /// The time of a room is another than before; `None` if it has nothing to do. O(log rooms).
    pub(crate) fn change(&mut self, room: &Arc<str>, before: Option<Tick>, now: Option<Tick>) {
        if before == now {
            return;
        }
        if let Some(before) = before {
            self.0.remove(&(before, Arc::clone(room)));
        }
        if let Some(now) = now {
            self.0.insert((now, Arc::clone(room)));
        }
    }

    /// The earliest time.
    pub(crate) fn next(&self) -> Option<Tick> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The room with the earliest time, if that has come.
    pub(crate) fn due(&self, now: Tick) -> Option<Arc<str>> {
        let (at, room) = self.0.first()?;
        (*at <= now).then(|| Arc::clone(room))
    }
}
