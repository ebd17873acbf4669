//! Answers on `$reply/…`, which go to the calling session alone.

use alloc::sync::Arc;

use smallvec::SmallVec;
use stentor_session::{Message, Tick};
use stentor_topic::FilterId;

use crate::burst::Shipment;
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::options::Options;

impl Hub {
    /// Delivers a message to one session. Like everything, it is delivered only to what the session
    /// subscribes to.
    pub(crate) fn deliver_to_session(
        &mut self,
        now: Tick,
        key: SessionKey,
        message: &Arc<Message>,
    ) {
        // What it was sent before comes before.
        self.settle(now);
        if self.sessions.get(key).is_none() {
            return;
        }
        let (zone, topic) = (message.zone, message.topic());
        let hash = self.hasher.hash(zone, topic);
        let mut filters: SmallVec<[FilterId; 4]> = SmallVec::new();
        self.index
            .for_each_match(zone, topic, hash, |id, _| filters.push(id));
        let own = |id: &FilterId| self.index.options(*id, key.slot);
        let own: SmallVec<[Options; 4]> = filters
            .iter()
            .filter_map(own)
            .map(Options::from_bits)
            .collect();
        let shape = self.shape_and_epoch(message);
        let mut shipment = Shipment::new(core::slice::from_ref(message), shape);
        let shard = self.shard;
        self.counter(now)
            .serve(&mut shipment, message, shard, key.slot, &own);
        self.close_overrun(now);
    }
}
