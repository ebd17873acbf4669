//! What was said in a room.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Message, Tick};

use super::HistoryBounds;
use crate::effect::{Effect, SessionId};

/// Bytes that each message takes beside its topic, properties and payload: itself, its counters and
/// place in the list, and what the allocator puts around its three parts.
const OVERHEAD: usize = size_of::<Message>() + 6 * size_of::<usize>();

/// Bytes of what was said, as it counts for the room.
fn cost(said: &Message) -> usize {
    said.topic().len() + said.properties().len() + said.payload().len()
}

/// The newest of what was said, within bounds.
#[derive(Debug, Default)]
pub(super) struct History {
    said: VecDeque<Arc<Message>>,
    /// What it counts for the room.
    bytes: usize,
}

impl History {
    /// Keeps what was said. This many bytes more may be held than are now: its own oldest make room
    /// where those are too few.
    pub(super) fn keep(&mut self, bounds: &HistoryBounds, spare: usize, said: &Arc<Message>) {
        let held_max = self.bytes().saturating_add(spare);
        if bounds.count == 0 || cost(said) > bounds.bytes || cost(said) + OVERHEAD > held_max {
            return;
        }
        self.bytes += cost(said);
        self.said.push_back(Arc::clone(said));
        self.shrink(bounds);
        while self.bytes() > held_max {
            self.forget_oldest();
        }
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.said.len() * OVERHEAD
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the oldest until the rest is within bounds.
    pub(super) fn shrink(&mut self, bounds: &HistoryBounds) {
        while self.said.len() > bounds.count || self.bytes > bounds.bytes {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.said.pop_front() {
            self.bytes -= cost(&oldest);
        }
    }

    /// Sends a session what was said, is not too old and has not expired.
    pub(super) fn recall(
        &mut self,
        now: Tick,
        bounds: &HistoryBounds,
        session: SessionId,
        out: &mut Vec<Effect>,
    ) {
        while let (Some(oldest), Some(age)) = (self.said.front(), bounds.age) {
            if oldest.received_at.after(age) > now {
                break;
            }
            self.bytes -= cost(oldest);
            self.said.pop_front();
        }
        self.said.retain(|said| !said.is_expired(now));
        self.bytes = self.said.iter().map(|said| cost(said)).sum();
        out.extend(self.said.iter().map(|said| {
            let age = now.since(said.received_at).as_millis();
            Effect::Recall {
                session,
                message: Arc::clone(said),
                age_millis: u64::try_from(age).unwrap_or(u64::MAX),
            }
        }));
    }
}
