//! Answers on `$reply/…`, which go to the calling session alone.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;
use stentor_mqtt::{Property, PropertyBuf, Publish, QoS, forwardable};
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::FilterId;
use stentor_zone::topic;

use crate::burst::Shipment;
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::options::Options;

/// A session that is to be answered on `$reply/<id>`.
#[derive(Debug)]
pub(crate) struct Caller {
    session: SessionKey,
    id: Box<str>,
    correlation: Option<Box<[u8]>>,
}

impl Caller {
    pub(crate) fn new(session: SessionKey, id: &str, publish: &Publish<'_>) -> Self {
        Self {
            session,
            id: id.into(),
            correlation: publish.properties.correlation_data().map(Into::into),
        }
    }
}

impl Hub {
    /// Answers a caller with JSON. Like everything, the answer is delivered only to what the
    /// session subscribes to.
    pub(crate) fn reply(&mut self, now: Tick, caller: &Caller, json: &[u8]) {
        let Some(session) = self.sessions.get(caller.session) else {
            return;
        };
        let mut properties = PropertyBuf::new();
        properties.push(Property::PayloadFormatIndicator(true));
        properties.push(Property::ContentType("application/json"));
        if let Some(data) = &caller.correlation {
            properties.push(Property::CorrelationData(data));
        }
        let mut raw = Vec::new();
        forwardable(properties.as_properties(), &mut raw);
        let parts = MessageParts {
            topic: &topic::reply(&caller.id),
            properties: &raw,
            payload: json,
            qos: QoS::AtLeastOnce,
            retain: false,
            expiry_secs: None,
        };
        let message = Message::new(session.zone(), Publisher::SERVER, now, &parts);
        self.deliver_to_session(now, caller.session, &Arc::new(message));
    }

    /// Delivers a message to one session, if it subscribes to it.
    fn deliver_to_session(&mut self, now: Tick, key: SessionKey, message: &Arc<Message>) {
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
