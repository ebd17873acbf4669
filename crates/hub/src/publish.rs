//! A PUBLISH from a client.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Ack, Packet, Properties, Publish, QoS, ReasonCode, forwardable};
use stentor_session::{
    Arrival, CloseReason, Limit, Message, MessageParts, Publisher, ReceivedAliases, Tick,
};
use stentor_topic::levels;

use crate::effects::Event;
use crate::hub::Hub;
use crate::key::{SessionKey, ShardId};
use crate::sessions::Link;

/// The publisher of a session's messages.
pub(crate) const fn publisher(shard: ShardId, generation: u32) -> Publisher {
    Publisher::session(shard.0, generation as u64)
}

impl Hub {
    pub(crate) fn on_publish(
        &mut self,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
    ) -> Result<(), CloseReason> {
        self.stats.publishes_received += 1;
        self.stats.publish_bytes_received += publish.payload.len() as u64;
        if let (QoS::ExactlyOnce, Some(packet_id)) = (publish.qos, publish.packet_id) {
            let Some(session) = self.sessions.get_mut(key) else {
                return Ok(());
            };
            // 3.x has no way to tell a client of a receive maximum.
            let receive_maximum = match session.live() {
                Some(live) if live.version.is_v5() => self.settings.receive_maximum,
                _ => u16::MAX,
            };
            let inbound = session.inbound.get_or_insert_default();
            match inbound.on_publish(packet_id, receive_maximum) {
                Arrival::New => {}
                Arrival::Repeated => {
                    // The alias still counts: packets after it may use it.
                    self.with_topic(key, publish, |_, _| ())?;
                    self.acknowledge(key, publish, ReasonCode::Success);
                    return Ok(());
                }
                Arrival::TooMany => return Err(CloseReason::Limit(Limit::ReceiveMaximum)),
            }
        }
        let taken = self.with_topic(key, publish, |hub, topic| {
            hub.take(now, key, publish, topic)
        });
        self.close_overrun(now);
        let answered = taken.and_then(|reason| self.answer(key, publish, reason));
        if answered.is_err() {
            self.forget_arrival(key, publish);
        }
        answered
    }

    /// A QoS 2 publish that closes the connection was not taken: it is new when it comes again.
    fn forget_arrival(&mut self, key: SessionKey, publish: &Publish<'_>) {
        if let (QoS::ExactlyOnce, Some(packet_id)) = (publish.qos, publish.packet_id)
            && let Some(session) = self.sessions.get_mut(key)
            && let Some(inbound) = &mut session.inbound
        {
            inbound.refuse(packet_id);
        }
    }

    /// Calls `f` with the topic of a publish: the one it carries, or the one of its alias.
    fn with_topic<R>(
        &mut self,
        key: SessionKey,
        publish: &Publish<'_>,
        f: impl FnOnce(&mut Self, &str) -> R,
    ) -> Result<R, CloseReason> {
        let Some(alias) = publish.properties.topic_alias() else {
            return Ok(f(self, publish.topic));
        };
        let maximum = self.settings.topic_alias_maximum;
        // The table leaves the session while the topic is borrowed from it.
        let mut aliases = self.take_aliases(key).unwrap_or_default();
        let result = aliases
            .resolve(alias, publish.topic, maximum)
            .map(|topic| f(self, topic));
        if let Some(Link::Live(live)) = self.sessions.get_mut(key).map(|s| &mut s.link) {
            live.extras().received_aliases = Some(aliases);
        }
        result
    }

    fn take_aliases(&mut self, key: SessionKey) -> Option<ReceivedAliases> {
        self.sessions
            .get_mut(key)?
            .live_mut()?
            .extras
            .as_mut()?
            .received_aliases
            .take()
    }

    /// Checks a publish, keeps it if it is retained, and routes it.
    fn take(
        &mut self,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        topic: &str,
    ) -> ReasonCode {
        let Some(session) = self.sessions.get(key) else {
            return ReasonCode::UnspecifiedError;
        };
        if !session.identity.rights.may_publish(topic) {
            self.deny_publish(key, topic);
            return ReasonCode::NotAuthorized;
        }
        if levels(topic) > self.settings.topic_levels_max {
            return ReasonCode::TopicNameInvalid;
        }
        let mut properties = Vec::new();
        if !publish.properties.is_empty() {
            forwardable(publish.properties, &mut properties);
        }
        let parts = MessageParts {
            topic,
            properties: &properties,
            payload: publish.payload,
            qos: publish.qos,
            retain: publish.retain,
            expiry_secs: publish.properties.message_expiry(),
        };
        let publisher = publisher(self.shard, session.generation);
        let message = Arc::new(Message::new(session.zone(), publisher, now, &parts));
        if publish.retain && self.retained.put(&message).is_err() {
            return ReasonCode::QuotaExceeded;
        }
        self.route(now, &message);
        ReasonCode::Success
    }

    fn deny_publish(&mut self, key: SessionKey, topic: &str) {
        self.stats.denied += 1;
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let zone = session.zone();
        let Link::Live(live) = &mut session.link else {
            return;
        };
        if live
            .extras()
            .remember_refusal(self.hasher.hash(zone, topic))
        {
            let client_id = session.client_id.clone();
            self.effects.events.push(Event::PublishDenied {
                client_id,
                topic: topic.into(),
            });
        }
    }

    /// Acknowledges a publish. What is not permitted is acknowledged to 3.x, which has no other
    /// way; what cannot be kept is never acknowledged.
    fn answer(
        &mut self,
        key: SessionKey,
        publish: &Publish<'_>,
        reason: ReasonCode,
    ) -> Result<(), CloseReason> {
        let is_v5 = self
            .sessions
            .get(key)
            .and_then(|session| session.live())
            .is_some_and(|live| live.version.is_v5());
        match reason {
            // There is no acknowledgement to withhold.
            ReasonCode::QuotaExceeded if publish.qos == QoS::AtMostOnce => {
                self.stats.publishes_dropped += 1;
                Ok(())
            }
            ReasonCode::QuotaExceeded if !is_v5 => Err(CloseReason::Limit(Limit::Retained)),
            _ => {
                self.acknowledge(
                    key,
                    publish,
                    if is_v5 { reason } else { ReasonCode::Success },
                );
                Ok(())
            }
        }
    }

    fn acknowledge(&mut self, key: SessionKey, publish: &Publish<'_>, reason: ReasonCode) {
        let (Some(packet_id), Some(session)) = (publish.packet_id, self.sessions.get_mut(key))
        else {
            return;
        };
        let Link::Live(live) = &mut session.link else {
            return;
        };
        let ack = Ack {
            packet_id,
            reason,
            properties: Properties::EMPTY,
        };
        match publish.qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => {
                self.outbox.packet(key, live, &Packet::PubAck(ack));
            }
            QoS::ExactlyOnce => {
                if let (true, Some(inbound)) = (reason.is_error(), &mut session.inbound) {
                    inbound.refuse(packet_id);
                }
                self.outbox.packet(key, live, &Packet::PubRec(ack));
            }
        }
    }
}
