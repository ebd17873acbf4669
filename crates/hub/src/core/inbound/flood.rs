//! What connections may send while much waits for other shards.
//!
//! The mesh between the shards has room for so much. When that is used up, a PUBLISH that other
//! shards need waits where it was read, and with it what its client sends after it. Everything else
//! goes on: what has subscribers on this shard only, and packets that are no PUBLISH.
//!
//! A topic tells whether other shards may want a message, but not whether a member of a shared
//! subscription over there gets it. So what a PUBLISH has left for other shards is looked at too:
//! one message of each connection at most is more than the room. If that comes to as much as the
//! room itself, every PUBLISH waits.

use stentor_mqtt::{Frame, Publish, Sender, Version, decode_publish};
use stentor_session::Tick;

use crate::core::Core;
use crate::core::ids::{SessionKey, home_shard};
use crate::core::inbound::publish::with_topic;
use crate::core::inbound::receive::is_publish;

/// How much room is left for what other shards get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MeshRoom {
    /// Enough.
    #[default]
    Free,
    /// None: what needs other shards waits.
    Full,
    /// Twice as much waits already as may: every PUBLISH waits.
    Overfull,
}

impl Core {
    /// Whether a packet has to wait for room in the mesh. What earlier packets have left for other
    /// shards is known afterwards.
    #[cold]
    pub(crate) fn waits_for_mesh(
        &mut self,
        now: Tick,
        key: SessionKey,
        (version, frame): (Version, Frame),
        packet: &[u8],
    ) -> bool {
        if !is_publish(frame.first) {
            return false;
        }
        self.settle(now);
        if self.inbound.mesh_room == MeshRoom::Overfull || !self.effects.mesh.is_empty() {
            return true;
        }
        let body = packet.get(frame.header_len..).unwrap_or_default();
        // What cannot be read closes the connection, and goes nowhere.
        let publish = decode_publish(version, Sender::Client, frame.first, body);
        publish.is_ok_and(|publish| self.goes_to_other_shards(key, &publish))
    }

    fn goes_to_other_shards(&mut self, key: SessionKey, publish: &Publish<'_>) -> bool {
        if !publish.topic.is_empty() {
            return self.topic_needs_others(key, publish.topic);
        }
        // An alias without a topic changes nothing in the table.
        with_topic(self, key, publish, |core, topic| {
            core.topic_needs_others(key, &topic)
        })
        .unwrap_or(false)
    }

    /// Whether another shard may have to know of a message: a subscriber, the shard that orders
    /// the topic, or that of a service.
    fn topic_needs_others(&self, key: SessionKey, topic: &str) -> bool {
        let Some(session) = self.sessions.get(key) else {
            return false;
        };
        let (zone, shards) = (session.zone(), self.place.shards);
        topic.starts_with('$')
            || self.routing.interest.others(zone, topic) != 0
            || self.keeps_last(topic)
                && home_shard(&self.place.hasher, zone, topic, shards) != self.place.shard
    }

    /// Leaves what a connection has sent until the mesh has room.
    #[cold]
    pub(crate) fn wait_for_mesh(&mut self, now: Tick, key: SessionKey) {
        let session = self.sessions.get_mut(key);
        if let Some(live) = session.and_then(|session| session.live_mut()) {
            // That it is alive is seen already.
            live.last_seen = now;
            self.effects.awaiting_mesh.push(live.link);
        }
    }

    /// How much room is left for what other shards get, from now on.
    pub(crate) const fn set_mesh_room(&mut self, room: MeshRoom) {
        self.inbound.mesh_room = room;
    }

    /// Whether some packets wait for room in the mesh.
    #[inline]
    pub(crate) const fn mesh_is_full(&self) -> bool {
        !matches!(self.inbound.mesh_room, MeshRoom::Free)
    }
}
