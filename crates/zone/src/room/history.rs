//! What was said in a room.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::Tick;

use super::HistoryBounds;
use crate::effect::{Effect, Seat};

#[derive(Debug)]
struct Said {
    at: Tick,
    topic: Arc<str>,
    payload: Arc<[u8]>,
}

impl Said {
    fn cost(&self) -> usize {
        self.topic.len() + self.payload.len()
    }
}

/// The newest of what was said, within bounds.
#[derive(Debug, Default)]
pub(super) struct History {
    said: VecDeque<Said>,
    bytes: usize,
}

impl History {
    /// Keeps what was said. So many bytes more may be held than are now: its own oldest make room
    /// where those are too few.
    pub(super) fn keep(
        &mut self,
        now: Tick,
        (bounds, spare): (&HistoryBounds, usize),
        topic: &str,
        payload: &[u8],
    ) {
        let bounds = HistoryBounds {
            bytes: bounds.bytes.min(self.bytes.saturating_add(spare)),
            ..*bounds
        };
        if bounds.count == 0 || topic.len() + payload.len() > bounds.bytes {
            return;
        }
        let said = Said {
            at: now,
            topic: topic.into(),
            payload: payload.into(),
        };
        self.bytes += said.cost();
        self.said.push_back(said);
        self.shrink(&bounds);
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the oldest until the rest is within bounds.
    pub(super) fn shrink(&mut self, bounds: &HistoryBounds) {
        while self.said.len() > bounds.count || self.bytes > bounds.bytes {
            let Some(oldest) = self.said.pop_front() else {
                return;
            };
            self.bytes -= oldest.cost();
        }
    }

    /// Sends a session what was said and is not too old.
    pub(super) fn recall(
        &mut self,
        now: Tick,
        bounds: &HistoryBounds,
        seat: Seat,
        out: &mut Vec<Effect>,
    ) {
        while let (Some(oldest), Some(age)) = (self.said.front(), bounds.age) {
            if oldest.at.after(age) > now {
                break;
            }
            self.bytes -= oldest.cost();
            self.said.pop_front();
        }
        out.extend(self.said.iter().map(|said| {
            let age = now.since(said.at).as_millis();
            Effect::Recall {
                seat,
                topic: Arc::clone(&said.topic),
                payload: Arc::clone(&said.payload),
                age_millis: u64::try_from(age).unwrap_or(u64::MAX),
            }
        }));
    }
}
