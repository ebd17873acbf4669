//! Answers on `$reply/…`, which go to the calling session alone.

use alloc::sync::Arc;

use smallvec::SmallVec;
use stentor_session::{Message, Tick};
use stentor_topic::FilterId;
use stentor_zone::Reach;

use crate::core::Core;
use crate::core::delivery::deliver::{DeliveryOptions, Matching};
use crate::core::ids::SessionKey;
use crate::core::routing::batch::EncodedBatch;
use crate::core::routing::options::Options;

impl Core {
    /// Delivers a message to one session, and says how far it has come. Like everything, it is
    /// delivered only to what the session subscribes to.
    pub(crate) fn deliver_to_session(
        &mut self,
        now: Tick,
        key: SessionKey,
        message: &Arc<Message>,
    ) -> Reach {
        // What it was sent before comes before.
        self.settle(now);
        let own = self.own_options(key, message);
        let shape = self.shape_and_epoch(message);
        let mut batch = EncodedBatch::new(core::slice::from_ref(message), shape);
        let mut fanout = self.fanout(now);
        fanout.serve(&mut batch, message, key.slot, &own);
        fanout.reach
    }

    /// Delivers something that was said before the session subscribed: with RETAIN, like what is
    /// stored.
    pub(crate) fn deliver_stored(&mut self, now: Tick, key: SessionKey, message: &Arc<Message>) {
        self.settle(now);
        let own = self.own_options(key, message);
        let Some((_, options)) = own.iter().copied().max_by_key(|(_, options)| options.qos())
        else {
            return;
        };
        let ids: SmallVec<[u32; 4]> = own.iter().map(|(_, options)| options.id()).collect();
        let ids: SmallVec<[u32; 4]> = ids.into_iter().filter(|id| *id != 0).collect();
        let mut terms = DeliveryOptions::new(message, options, &ids, 0);
        terms.retain = true;
        terms.stored = true;
        let mut variants = self.variants(message);
        self.fanout(now).deliver(&mut variants, key.slot, &terms);
    }

    /// The options of a session's own subscriptions that match a message.
    fn own_options(&self, key: SessionKey, message: &Message) -> SmallVec<[Matching; 4]> {
        if self.sessions.get(key).is_none() {
            return SmallVec::new();
        }
        let (zone, topic) = (message.zone, message.topic());
        let hash = self.place.hasher.hash(zone, topic);
        let mut filters: SmallVec<[FilterId; 4]> = SmallVec::new();
        self.routing
            .index
            .for_each_match(zone, topic, hash, |id, _| filters.push(id));
        let own = |id: &FilterId| Some((*id, self.routing.index.options(*id, key.slot)?));
        let own = filters.iter().filter_map(own);
        own.map(|(id, bits)| (id, Options::from_bits(bits)))
            .collect()
    }
}
