//! Bytes from a connected client, packet by packet.

use stentor_mqtt::{Ack, Disconnect, Frame, Packet, PacketId, Properties, ReasonCode, Version};
use stentor_session::{Acked, CloseReason, Remote, Tick, Violation};

use crate::core::delivery::conflate::release;
use crate::core::delivery::{direct, pump, snapshot};
use crate::core::ids::SessionKey;
use crate::core::routing::batch;
use crate::core::routing::share::ask_queues;
use crate::core::sessions::ending::set_expiry;
use crate::core::sessions::lifecycle;
use crate::core::work::{Share, VISIT_BYTES};
use crate::core::{Core, work};

/// A PUBREL without a complaint.
pub(crate) const fn pubrel(packet_id: PacketId) -> Packet<'static> {
    let properties = Properties::EMPTY;
    Packet::PubRel(Ack {
        packet_id,
        reason: ReasonCode::Success,
        properties,
    })
}

/// Whether a packet with this first byte is a PUBLISH.
pub(crate) const fn is_publish(first: u8) -> bool {
    first >> 4 == 3
}

/// Whether a packet with this first byte is a SUBSCRIBE.
pub(crate) const fn is_subscribe(first: u8) -> bool {
    first >> 4 == 8
}

/// Whether a packet with this first byte is a SUBSCRIBE or an UNSUBSCRIBE.
pub(crate) const fn is_list(first: u8) -> bool {
    matches!(first >> 4, 8 | 10)
}

/// The properties of a packet that a client sends after its CONNECT.
pub(crate) const fn properties_of<'a>(packet: &Packet<'a>) -> Properties<'a> {
    match packet {
        Packet::Publish(publish) => publish.properties,
        Packet::PubAck(ack) | Packet::PubRec(ack) => ack.properties,
        Packet::PubRel(ack) | Packet::PubComp(ack) => ack.properties,
        Packet::Subscribe(subscribe) => subscribe.properties,
        Packet::Unsubscribe(unsubscribe) => unsubscribe.properties,
        Packet::Disconnect(disconnect) => disconnect.properties,
        Packet::Auth(auth) => auth.properties,
        Packet::Connect(_) | Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) => {
            Properties::EMPTY
        }
        Packet::PingReq | Packet::PingResp => Properties::EMPTY,
    }
}

/// What the packets of a connection have to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    pub(crate) version: Version,
    /// The length of the longest one.
    pub(crate) packet_bytes_max: u32,
}

/// Whether the next packet of a connection is taken now.
pub(crate) enum Gate {
    /// It is, if it is as it has to be.
    Open(Framing),
    /// Not yet.
    Shut,
    /// The connection has been disconnected.
    Gone,
}

/// A SUBSCRIBE or UNSUBSCRIBE that is no longer has few filters.
pub(crate) const LIST_BYTES: usize = 1_024;

/// Bytes of a connection are about to be read: what it may use of this turn.
pub(crate) fn begin_reading(core: &mut Core, key: SessionKey) -> Share {
    core.routing.routes.reading = Some(key);
    Share::of(&mut core.turn)
}

/// They have been. What was published by them is routed.
pub(crate) fn end_reading(core: &mut Core, now: Tick) {
    batch::settle(core, now);
    core.routing.routes.reading = None;
}

/// Whether a long list of filters has to stay where it was read.
pub(crate) const fn has_no_room_for_lists(core: &Core) -> bool {
    core.inbound.slices.is_full()
}

/// Whether the next packet of a connection is taken now.
#[inline]
pub(crate) fn gate(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    share: &Share,
    has_more: bool,
) -> Gate {
    let Some(live) = core
        .sessions
        .unmarked_mut(key)
        .and_then(|session| session.live_mut())
    else {
        return Gate::Gone;
    };
    if live.is_given_up() {
        return Gate::Gone;
    }
    if live.is_held() {
        let paused = (live.link, Tick::NEVER);
        core.effects.paused.push(paused);
        return Gate::Shut;
    }
    if let Some((until, cause)) = live.paused_until(now) {
        // It is not asked for anything in the meantime, not even for a sign of life.
        live.last_seen = until;
        live.tally().pause(now, cause);
        let paused = (live.link, until);
        core.effects.paused.push(paused);
        core.sessions.mark(key);
        return Gate::Shut;
    }
    // Answers that nobody reads are bounded like messages.
    if live.control_bytes() > core.rules.settings.queue_bytes_max {
        lifecycle::give_up(core, key);
        return Gate::Gone;
    }
    let is_later = share.is_used_up() || core.turn.left() == 0 && live.owes(now);
    let gate = Gate::Open(Framing {
        version: live.version,
        packet_bytes_max: live.announced.packet_bytes_max,
    });
    if has_more && (is_later || work::has_handed_over_enough(core, share)) {
        if !is_later {
            core.turn.cut();
        }
        give_way(core, now, key);
        return Gate::Shut;
    }
    gate
}

/// Leaves what a connection has sent for the next turn.
#[cold]
pub(crate) fn give_way(core: &mut Core, now: Tick, key: SessionKey) {
    let session = core.sessions.unmarked_mut(key);
    if let Some(live) = session.and_then(|session| session.live_mut()) {
        // That it is alive is seen already.
        live.last_seen = now;
        core.effects.yielded.push(live.link);
    }
}

/// A whole packet is there: only those count [MQTT-3.1.2-22].
#[inline]
pub(crate) fn meter_packet(core: &mut Core, now: Tick, key: SessionKey, frame: Frame) {
    core.counters.stats.packets_received += 1;
    let session = core.sessions.unmarked_mut(key);
    let Some(live) = session.and_then(|session| session.live_mut()) else {
        return;
    };
    live.last_seen = now;
    if let Some(extras) = &mut live.extras
        && let Some(meter) = &mut extras.meter
        && is_publish(frame.first)
    {
        meter.count(now, frame.total_len);
    }
}

/// Properties are checked, searched and copied. They are counted where they may be many.
#[inline]
pub(crate) fn spend_on_properties(core: &mut Core, properties: Properties<'_>) {
    let bytes = properties.raw().len();
    if bytes >= VISIT_BYTES {
        let visits = bytes / VISIT_BYTES + properties.count();
        core.turn.spend_each(visits, 1);
    }
}

/// An acknowledgement of something unknown is not a violation: it may be a late repetition.
pub(crate) fn on_puback(core: &mut Core, now: Tick, key: SessionKey, packet_id: PacketId) {
    if let Some(session) = core.sessions.get_mut(key)
        && session.state.owed.acknowledged(packet_id) == Acked::Complete
    {
        go_on(core, now, key);
    }
}

pub(crate) fn on_pubcomp(core: &mut Core, now: Tick, key: SessionKey, packet_id: PacketId) {
    if let Some(session) = core.sessions.get_mut(key)
        && session.state.owed.completed(packet_id) == Acked::Complete
    {
        go_on(core, now, key);
    }
}

/// A packet id is free: sends what waited for one.
fn go_on(core: &mut Core, now: Tick, key: SessionKey) {
    pump::begin(core, now, key);
    release::begin(core, now, key);
    snapshot::go_on(core, now, key);
    ask_queues(core, now, key);
}

pub(crate) fn on_pubrec(core: &mut Core, now: Tick, key: SessionKey, ack: &Ack<'_>) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let log = &mut core.pending.log;
    match session.state.received(ack.packet_id, ack.reason, log) {
        Acked::Complete => go_on(core, now, key),
        Acked::Release => direct::send(core, key, &pubrel(ack.packet_id)),
        Acked::Unknown if ack.reason.is_error() => {}
        Acked::Unknown => {
            let reason = ReasonCode::PacketIdentifierNotFound;
            let properties = Properties::EMPTY;
            let answer = Ack {
                packet_id: ack.packet_id,
                reason,
                properties,
            };
            direct::send(core, key, &Packet::PubRel(answer));
        }
    }
}

pub(crate) fn on_pubrel(core: &mut Core, key: SessionKey, packet_id: PacketId) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let reason = if session.state.released(packet_id, &mut core.pending.log) {
        ReasonCode::Success
    } else {
        ReasonCode::PacketIdentifierNotFound
    };
    let answer = Ack {
        packet_id,
        reason,
        properties: Properties::EMPTY,
    };
    direct::send(core, key, &Packet::PubComp(answer));
}

pub(crate) fn on_disconnect(
    core: &mut Core,
    key: SessionKey,
    disconnect: &Disconnect<'_>,
) -> Result<(), CloseReason> {
    let Some(session) = core.sessions.get(key) else {
        return Ok(());
    };
    if let Some(expiry_secs) = disconnect.properties.session_expiry() {
        // Where sessions never last, it may have asked for more in CONNECT.
        let max = core.rules.settings.session_expiry_max_secs;
        if !session.state.is_persistent() && expiry_secs != 0 && max != 0 {
            return Err(CloseReason::Violation(Violation::SessionExpiry));
        }
        set_expiry(core, key, expiry_secs.min(max));
    }
    // The caller closes; a reason other than 0 keeps the will.
    Err(CloseReason::Remote(
        if disconnect.reason == ReasonCode::Success {
            Remote::Disconnect
        } else {
            Remote::DisconnectWithWill
        },
    ))
}
