//! What connections may send while much waits for other shards, or for the journals of sessions.
//!
//! The mesh between the shards has a bound. When that is reached, a PUBLISH that other shards need
//! waits where it was read, and with it what its client sends after it. Everything else goes on:
//! messages whose subscribers are all on this shard, and all other packets.
//!
//! A topic tells whether other shards may want a message, but not whether a member of a shared
//! subscription over there gets it. So what a PUBLISH has left for other shards is looked at too:
//! one message of each connection at most is more than the room. If that comes to as much as the
//! room itself, every PUBLISH waits.
//!
//! While much waits for room in a journal, a PUBLISH waits in the same way if that journal would
//! have to keep it: it has a subscriber there whose session lasts. While far too much is on its way
//! to the disk, one waits that would add to it.

use stentor_mqtt::{Frame, Publish, QoS, Sender, Version, decode_publish};
use stentor_session::Tick;

use crate::core::Core;
use crate::core::delivery::spool::is_far_behind;
use crate::core::ids::{SessionKey, home_shard};
use crate::core::inbound::publish::with_topic;
use crate::core::inbound::receive::is_publish;
use crate::core::routing::batch;
use crate::core::sessions::log::{may_be_kept_by, may_be_spooled};
use crate::core::shard_set::ShardSet;

/// How much room is left for what other shards get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeshRoom {
    /// Enough.
    #[default]
    Free,
    /// None: what needs other shards waits.
    Full,
    /// Twice as much waits already as may: every PUBLISH waits.
    Overfull,
}

/// Whether the next packet of a connection has to wait for room in the mesh or in a journal. Then
/// it is left, and the connection goes on when there is some.
#[inline]
pub(crate) fn holds(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    version: Version,
    frame: Frame,
    packet: &[u8],
) -> bool {
    let is_short = core.turn.mesh_room() != MeshRoom::Free
        || !core.turn.laden_journals().is_empty()
        || is_far_behind(core);
    let holds =
        is_short && is_publish(frame.first) && has_to_wait(core, now, key, version, frame, packet);
    if holds {
        wait(core, now, key);
    }
    holds
}

/// What earlier packets have left for other shards is known afterwards.
#[cold]
fn has_to_wait(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    version: Version,
    frame: Frame,
    packet: &[u8],
) -> bool {
    batch::settle(core, now);
    let (room, laden) = (core.turn.mesh_room(), core.turn.laden_journals());
    let has_left_some = room != MeshRoom::Free && !core.effects.mesh.is_empty();
    if room == MeshRoom::Overfull || has_left_some {
        return true;
    }
    let body = packet.get(frame.header_len..).unwrap_or_default();
    // A packet that cannot be read closes the connection, and goes nowhere.
    let publish = decode_publish(version, Sender::Client, frame.first, body);
    publish.is_ok_and(|publish| needs_room(core, key, &publish, room, laden))
}

fn needs_room(
    core: &mut Core,
    key: SessionKey,
    publish: &Publish<'_>,
    room: MeshRoom,
    laden: ShardSet,
) -> bool {
    let qos = publish.qos;
    let needs = |core: &Core, topic: &str| {
        room != MeshRoom::Free && topic_needs_others(core, key, topic)
            || !laden.is_empty() && topic_needs_journals(core, key, qos, topic, laden)
            || is_far_behind(core) && topic_needs_disk(core, key, qos, topic)
    };
    if !publish.topic.is_empty() {
        return needs(core, publish.topic);
    }
    // An alias without a topic changes nothing in the table.
    let needs = with_topic(core, key, publish, |core, topic| needs(core, &topic));
    needs.unwrap_or(false)
}

/// Whether the journals of these shards may have to keep a message. What is for a service may be
/// owed to anybody.
fn topic_needs_journals(
    core: &Core,
    key: SessionKey,
    qos: QoS,
    topic: &str,
    shards: ShardSet,
) -> bool {
    core.sessions.get(key).is_some_and(|session| {
        let zone = session.state.zone();
        topic.starts_with('$') && qos != QoS::AtMostOnce
            || may_be_kept_by(core, shards, qos, zone, topic)
    })
}

/// Whether a message may have to go to the disk here.
fn topic_needs_disk(core: &Core, key: SessionKey, qos: QoS, topic: &str) -> bool {
    core.sessions.get(key).is_some_and(|session| {
        let zone = session.state.zone();
        topic.starts_with('$') && qos != QoS::AtMostOnce || may_be_spooled(core, qos, zone, topic)
    })
}

/// Whether another shard may have to know of a message: a subscriber, the shard that orders the
/// topic, or that of a service.
fn topic_needs_others(core: &Core, key: SessionKey, topic: &str) -> bool {
    let Some(session) = core.sessions.get(key) else {
        return false;
    };
    let (zone, place) = (session.state.zone(), &core.place);
    topic.starts_with('$')
        || !core.routing.interest.others(zone, topic).is_empty()
        || core.rules.keeps_last(topic)
            && home_shard(&place.hasher, zone, topic, place.shards) != place.shard
}

/// Leaves what a connection has sent until there is room.
#[cold]
fn wait(core: &mut Core, now: Tick, key: SessionKey) {
    let session = core.sessions.get_mut(key);
    if let Some(live) = session.and_then(|session| session.live_mut()) {
        // That it is alive is seen already.
        live.last_seen = now;
        core.effects.awaiting_room.push(live.link);
    }
}
