//! The retained message of one topic, on the shortest way to who has subscribed to it.
//!
//! A client that comes back subscribes to a thousand topics by a thousand SUBSCRIBE packets, and
//! wants a thousand messages that nobody else gets. Most of them are copied from where they lie
//! right into the output queue. What needs more than that takes the way of all messages.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{
    Frame, PublishParts, QoS, Version, append_publish, first_byte, frame, peek_topic,
};
use stentor_session::Tick;

use crate::core::delivery::snapshot::{self, Wanted};
use crate::core::ids::SessionKey;
use crate::core::inbound::receive::Framing;
use crate::core::retained::{Purpose, Stored};
use crate::core::sessions::registry::Live;
use crate::core::settings::{Settings, Uses};
use crate::core::work::VISIT_BYTES;
use crate::core::{Core, Rules};

/// A longer message is shared with the write instead of being copied once more.
const COPIED_BYTES_MAX: usize = 4096;
/// Packets of one read that the store learns of at once: enough that there are several for each
/// of its parts, and few enough that what is fetched stays in the cache.
const AHEAD: usize = 1024;

/// What a look into the store costs here: little, so that a thousand SUBSCRIBE packets of one read
/// stay in one piece.
const LOOK_VISITS: u32 = 2;

/// What a PUBLISH is made of besides the stored message.
struct Direct<'h> {
    wanted: &'h Wanted<'h>,
    uses: Uses,
    settings: &'h Settings,
    live: &'h Live,
}

impl Direct<'_> {
    /// Whether a message goes out as the bytes it is, and nothing but them.
    fn is_plain(&self, stored: &Stored<'_>) -> bool {
        let options = self.wanted.options;
        let has_policy = self.uses.shapes || self.uses.sequences;
        let policy = || self.settings.policy(stored.topic);
        stored.qos.min(options.qos()) == QoS::AtMostOnce
            && stored.expires_at == Tick::NEVER
            && stored.properties.len() + stored.payload.len() <= COPIED_BYTES_MAX
            && !options.no_local()
            && (options.id() == 0 || !self.live.version.is_v5())
            && !(has_policy && policy().is_some_and(|p| p.has_numbers() || p.shape().is_some()))
    }

    /// Writes the packet; `false` if the message has to take the usual way.
    fn write(&self, stored: &Stored<'_>, packet: &mut Vec<u8>) -> bool {
        if !self.is_plain(stored) {
            return false;
        }
        let parts = PublishParts {
            topic: stored.topic,
            payload: stored.payload,
            properties: stored.properties,
            added_properties: &[],
            subscription_ids: &[],
            has_expiry: false,
        };
        // Sent because of a subscription: RETAIN is set [MQTT-3.3.1-8].
        let first = first_byte(QoS::AtMostOnce, true, false);
        // What the client does not take is counted as lost on the usual way.
        append_publish(self.live.version, first, &parts, packet).is_ok()
            && packet.len() <= self.live.packet_bytes_max as usize
    }
}

impl Rules {
    /// What a packet with this first byte asks the retained store for.
    #[inline]
    pub(crate) const fn asks_store(&self, first: u8) -> Option<Purpose> {
        match first >> 4 {
            3 if first & 1 != 0 || self.uses.keeps_last => Some(Purpose::Put),
            8 => Some(Purpose::Get),
            _ => None,
        }
    }
}

/// Sends the message of one topic, if it holds one.
pub(in crate::core) fn send(core: &mut Core, now: Tick, key: SessionKey, wanted: &Wanted<'_>) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let zone = session.state.zone();
    let needs_nothing = !session.is_special() && !session.state.subscriptions.are_filtered();
    let Some(live) = session.live_mut() else {
        return;
    };
    let direct = needs_nothing.then_some(Direct {
        wanted,
        uses: core.rules.uses,
        settings: &core.rules.settings,
        live,
    });
    let (mut usual, mut payload_len) = (None, None);
    let packet = core.outbox.scratch();
    let mut found = |stored: &Stored<'_>| {
        if direct
            .as_ref()
            .is_some_and(|direct| direct.write(stored, packet))
        {
            payload_len = Some(stored.payload.len());
        } else {
            usual = Some(Arc::new(stored.to_message()));
        }
    };
    core.store
        .retained
        .look(zone, wanted.filter, wanted.mark, now, &mut found);
    let usual_len = usual.as_ref().map(|message| message.payload().len());
    let bytes = wanted.filter.len() + payload_len.or(usual_len).unwrap_or(0);
    core.turn.spend(LOOK_VISITS + (bytes / VISIT_BYTES) as u32);
    if let Some(len) = payload_len {
        core.counters.stats.publishes_sent += 1;
        core.counters.stats.publish_bytes_sent += len as u64;
        core.outbox.stored(key, live);
    }
    if let Some(message) = usual {
        snapshot::send_retained(core, now, key, wanted.options, &message);
    }
}

/// Tells the retained store what the packets at the front of `input` ask it for, as far as
/// they are of one kind, and `at_most` this many. Returns how many bytes were looked at.
#[inline(never)]
pub(crate) fn look_ahead(
    core: &Core,
    key: SessionKey,
    framing: Framing,
    purpose: Purpose,
    at_most: usize,
    input: &[u8],
) -> usize {
    let (mut looked, mut packets) = (0, 0);
    let mut topics: Vec<&[u8]> = Vec::new();
    while topics.len() < AHEAD
        && packets < at_most
        && let Some(rest) = input.get(looked..)
        && let Ok(Some(next)) = frame(rest, framing.packet_bytes_max)
        && core.rules.asks_store(next.first) == Some(purpose)
    {
        let topic = topic_of(framing.version, next, rest);
        // A burst to one topic finds it in the cache.
        topics.extend(topic.filter(|topic| topics.last() != Some(topic)));
        looked += next.total_len;
        packets += 1;
    }
    if topics.len() > 1
        && let Some(session) = core.sessions.get(key)
    {
        core.store
            .retained
            .expect(session.state.zone(), &topics, purpose);
    }
    looked
}

fn topic_of(version: Version, frame: Frame, packet: &[u8]) -> Option<&[u8]> {
    let body = packet.get(frame.header_len..frame.total_len)?;
    peek_topic(version, frame.first, body)
}
