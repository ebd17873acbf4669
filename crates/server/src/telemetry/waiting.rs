//! The entries that wait for the thread that writes the log: bounded in number and in bytes, since
//! clients choose how long their names are.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use stentor_hub::Event;

use super::journal::Entry;

/// Entries that wait at most: a storm of 5,000 connects with two events each, and room.
pub(super) const ENTRIES_MAX: usize = 16_384;

/// Bytes of their names and texts. Usual names take less than a tenth of that.
pub(super) const BYTES_MAX: usize = 8 << 20;

/// See the module. Shared by all shards.
#[derive(Debug)]
pub(super) struct Waiting {
    entries: ArrayQueue<Entry>,
    bytes: AtomicUsize,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            entries: ArrayQueue::new(ENTRIES_MAX),
            bytes: AtomicUsize::new(0),
        }
    }
}

impl Waiting {
    /// Leaves an entry. Returns whether there was room. Shards that leave long ones at the same
    /// time may have one more each than there is room for.
    pub(super) fn push(&self, entry: Entry) -> bool {
        let bytes = text_bytes(&entry);
        let waiting = self.bytes.load(Ordering::Relaxed);
        // What belongs into the audit log is not lost because others have long names.
        let is_audit = matches!(entry, Entry::Administered(..));
        if waiting + bytes > BYTES_MAX && !is_audit {
            return false;
        }
        // Before the entry is there: what takes it out subtracts afterwards.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let pushed = self.entries.push(entry);
        if pushed.is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        pushed.is_ok()
    }

    /// Takes out the oldest.
    pub(super) fn pop(&self) -> Option<Entry> {
        let entry = self.entries.pop()?;
        self.bytes.fetch_sub(text_bytes(&entry), Ordering::Relaxed);
        Some(entry)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.bytes.load(Ordering::Relaxed) == 0
    }
}

/// The bytes of an entry that a client chooses, and that nothing else holds.
fn text_bytes(entry: &Entry) -> usize {
    match entry {
        Entry::Session(event, _) => event_bytes(event),
        Entry::Refused {
            user, client_id, ..
        } => user.name().len() + client_id.len(),
        Entry::Administered(Event::Administered { target, .. }, _) => target.len(),
        Entry::ByHttp(request) => request.user.len() + request.text.len(),
        Entry::Administered(..) | Entry::Banned(_) | Entry::LongTurn(..) | Entry::Shed { .. } => 0,
    }
}

fn event_bytes(event: &Event) -> usize {
    match event {
        Event::Connected { client_id, .. }
        | Event::Disconnected { client_id, .. }
        | Event::AboveLimit { client_id, .. }
        | Event::Unreadable { client_id, .. }
        | Event::SessionExpired { client_id }
        | Event::SessionEvicted { client_id, .. } => client_id.len(),
        Event::PublishDenied {
            client_id,
            topic: name,
            ..
        }
        | Event::SubscribeDenied {
            client_id,
            filter: name,
            ..
        }
        | Event::NotKept {
            client_id,
            topic: name,
            ..
        }
        | Event::NotTaken {
            client_id,
            topic: name,
            ..
        }
        | Event::Losing {
            client_id,
            topic: name,
            ..
        } => client_id.len() + name.len(),
        Event::Administered { target, .. } => target.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expired(length: usize) -> Entry {
        let client_id = "x".repeat(length).into();
        Entry::Session(Event::SessionExpired { client_id }, None)
    }

    #[test]
    fn long_names_fill_it_by_their_bytes() {
        const LENGTH: usize = 65_535;
        let waiting = Waiting::default();
        let taken = (0..ENTRIES_MAX).take_while(|_| waiting.push(expired(LENGTH)));
        assert_eq!(taken.count(), BYTES_MAX / LENGTH);
        assert!(waiting.push(Entry::Shed { what: "test" }));
        assert!(waiting.pop().is_some());
        assert!(waiting.push(expired(LENGTH)), "there is room again");
        while waiting.pop().is_some() {}
        assert!(waiting.is_empty());
    }

    #[test]
    fn short_ones_fill_it_by_their_number() {
        let waiting = Waiting::default();
        let taken = (0..=ENTRIES_MAX).take_while(|_| waiting.push(expired(10)));
        assert_eq!(taken.count(), ENTRIES_MAX);
        while waiting.pop().is_some() {}
        assert!(waiting.is_empty());
    }
}
