//! Long stored messages that wait for sessions, so that the next session that gets one of them
//! shares it.
//!
//! The store copies a message for each reader. Hundreds of clients that come back together would
//! have the server hold hundreds of copies of the same megabyte.

use alloc::sync::{Arc, Weak};

use hashbrown::HashMap;
use stentor_session::{Message, Wire};

/// A shorter message is cheaper to copy than to look for.
const BYTES_MIN: usize = 4 * Wire::SHARED_BYTES_MIN;

/// This many are known before it looks for those that nobody holds any more.
const KNOWN_MIN: usize = 64;

/// The messages, as long as somebody holds them.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    by_name: HashMap<u64, Weak<Message>, foldhash::fast::FixedState>,
    /// When this many are known, those that nobody holds are forgotten.
    sweep_at: usize,
}

/// Whether two are the same message of the store, which numbers those of a topic.
fn are_same(one: &Message, other: &Message) -> bool {
    let name = |it: &Message| (it.zone, it.sequence(), it.expires_at, it.body_bytes());
    name(one) == name(other) && one.topic() == other.topic()
}

impl Copies {
    /// A message that was read from the store, or the same one that somebody holds already. `hash`
    /// is that of its zone and topic.
    pub(crate) fn share(&mut self, hash: u64, message: &Arc<Message>) -> Arc<Message> {
        if message.body_bytes() < BYTES_MIN || message.sequence() == 0 {
            return Arc::clone(message);
        }
        // An odd number: messages of one topic have different names.
        let name = hash ^ message.sequence().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if let Some(known) = self.by_name.get(&name).and_then(Weak::upgrade)
            && are_same(&known, message)
        {
            return known;
        }
        if self.by_name.len() >= self.sweep_at {
            self.by_name.retain(|_, known| known.strong_count() > 0);
            self.sweep_at = (2 * self.by_name.len()).max(KNOWN_MIN);
            self.by_name.shrink_to(self.sweep_at);
        }
        self.by_name.insert(name, Arc::downgrade(message));
        Arc::clone(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use stentor_mqtt::QoS;
    use stentor_session::{MessageParts, Publisher, Tick};
    use stentor_topic::Zone;

    fn stored(topic: &str, len: usize, sequence: u64) -> Arc<Message> {
        let payload = vec![b'x'; len];
        let parts = MessageParts {
            topic,
            properties: &[],
            payload: &payload,
            qos: QoS::AtLeastOnce,
            retain: true,
            expiry_secs: None,
        };
        let message = Message::new(Zone::DEFAULT, Publisher::SERVER, Tick::ZERO, &parts);
        message.stamp(sequence);
        Arc::new(message)
    }

    #[test]
    fn the_same_message_exists_once_as_long_as_somebody_holds_it() {
        let mut copies = Copies::default();
        let first = copies.share(5, &stored("a", 20_000, 1));
        assert!(Arc::ptr_eq(
            &first,
            &copies.share(5, &stored("a", 20_000, 1))
        ));
        // Another message of the topic, another topic with the same hash, one that is short.
        for (topic, len, sequence) in [("a", 20_000, 2), ("b", 20_000, 1), ("a", 100, 1)] {
            let other = stored(topic, len, sequence);
            assert!(Arc::ptr_eq(&other, &copies.share(5, &other)));
        }
        // What nobody numbers is never the same.
        let other = stored("a", 20_000, 0);
        copies.share(5, &stored("a", 20_000, 0));
        assert!(Arc::ptr_eq(&other, &copies.share(5, &other)));
    }

    #[test]
    fn what_nobody_holds_is_forgotten() {
        let mut copies = Copies::default();
        let held: Vec<_> = (0..10)
            .map(|number| copies.share(number, &stored("a", 20_000, 1)))
            .collect();
        for sequence in 2..10_000 {
            copies.share(1, &stored("a", 20_000, sequence));
            assert!(copies.by_name.len() <= KNOWN_MIN);
        }
        assert!(Arc::ptr_eq(
            &held[9],
            &copies.share(9, &stored("a", 20_000, 1))
        ));
    }
}
