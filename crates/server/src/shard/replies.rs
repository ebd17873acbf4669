//! Answers of procedures to calls of clients of a shard.
//!
//! An answer may have as much as 256 KiB, and the journal keeps it for a session that lasts. So a
//! turn takes one of those, or some small ones, and none while far too much waits for the journal.
//! The number of replies that wait is bounded where calls are handed over: see
//! [`crate::call::Answers`].

use stentor_hub::{ControlItem, ServiceCommand};

use super::Shard;

/// Bytes of answers after which the next ones wait for another turn.
const BYTES_PER_TURN: usize = 64 << 10;

impl Shard {
    /// Whether answers wait that can be delivered.
    pub(super) fn has_replies(&self) -> bool {
        !self.replies.is_empty() && !self.is_overladen()
    }

    /// Delivers what waits, as far as a turn takes it.
    pub(super) fn deliver_replies(&mut self) {
        let mut delivered = 0;
        while delivered < BYTES_PER_TURN && self.has_replies() {
            delivered += self.deliver_reply();
        }
    }

    /// Delivers all that waits: the shard stops, and nothing comes after it.
    pub(super) fn deliver_last_replies(&mut self) {
        while !self.replies.is_empty() {
            self.deliver_reply();
        }
    }

    /// Delivers the first one. Returns its bytes.
    fn deliver_reply(&mut self) -> usize {
        let Some(reply) = self.replies.pop_front() else {
            return 0;
        };
        let item = ControlItem::from(ServiceCommand::Answer(reply.answer()));
        self.hub.control(self.now, item);
        self.forward();
        reply.bytes()
    }
}
