//! Bytes from a connected client, packet by packet.

use stentor_mqtt::{Ack, Disconnect, Frame, Packet, PacketId, Properties, ReasonCode, Version};
use stentor_session::{Acked, CloseReason, Remote, Tick, Violation};

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::routing::share::ask_queues;
use crate::core::sessions::ending::set_expiry;
use crate::core::sessions::registry::Link;
use crate::core::work::{Share, VISIT_BYTES};

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

/// Whether the next packet of a connection is taken now.
pub(crate) enum Gate {
    /// It is: by this version, if it is not larger than that.
    Open(Version, u32),
    /// Not yet.
    Shut,
    /// The connection has been disconnected.
    Gone,
}

/// A SUBSCRIBE or UNSUBSCRIBE that is no longer has few filters.
pub(crate) const LIST_BYTES: usize = 1_024;

impl Core {
    /// Bytes of a connection are about to be read: what it may use of this turn.
    pub(crate) fn begin_reading(&mut self, key: SessionKey) -> Share {
        self.routing.routes.reading = Some(key);
        Share::of(&mut self.turn)
    }

    /// They have been. What was published by them is routed.
    pub(crate) fn end_reading(&mut self, now: Tick) {
        self.settle(now);
        self.routing.routes.reading = None;
    }

    /// Whether a long list of filters has to stay where it was read.
    pub(crate) const fn has_no_room_for_lists(&self) -> bool {
        self.inbound.slices.is_full()
    }

    /// Whether the next packet of a connection is taken now.
    #[inline]
    pub(crate) fn gate(
        &mut self,
        now: Tick,
        key: SessionKey,
        share: &Share,
        has_more: bool,
    ) -> Gate {
        let Some(live) = self
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
            self.effects.paused.push(paused);
            return Gate::Shut;
        }
        if let Some((until, cause)) = live.paused_until(now) {
            // It is not asked for anything in the meantime, not even for a sign of life.
            live.last_seen = until;
            live.tally().pause(now, cause);
            let paused = (live.link, until);
            self.effects.paused.push(paused);
            self.sessions.mark(key);
            return Gate::Shut;
        }
        // Answers that nobody reads are bounded like messages.
        if live.control_bytes() > self.rules.settings.queue_bytes_max {
            self.give_up(key);
            return Gate::Gone;
        }
        let is_later = share.is_used_up() || self.turn.left() == 0 && live.owes(now);
        let gate = Gate::Open(live.version, live.announced.packet_bytes_max);
        if has_more && (is_later || self.has_handed_over_enough(share)) {
            if !is_later {
                self.turn.cut();
            }
            self.give_way(now, key);
            return Gate::Shut;
        }
        gate
    }

    /// Leaves what a connection has sent for the next turn.
    #[cold]
    pub(crate) fn give_way(&mut self, now: Tick, key: SessionKey) {
        let session = self.sessions.unmarked_mut(key);
        if let Some(live) = session.and_then(|session| session.live_mut()) {
            // That it is alive is seen already.
            live.last_seen = now;
            self.effects.yielded.push(live.link);
        }
    }

    /// A whole packet is there: only those count [MQTT-3.1.2-22].
    #[inline]
    pub(crate) fn meter_packet(&mut self, now: Tick, key: SessionKey, frame: Frame) {
        self.counters.stats.packets_received += 1;
        let session = self.sessions.unmarked_mut(key);
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
    pub(crate) fn spend_on_properties(&mut self, properties: Properties<'_>) {
        let bytes = properties.raw().len();
        if bytes >= VISIT_BYTES {
            let visits = bytes / VISIT_BYTES + properties.count();
            self.turn.spend_each(visits, 1);
        }
    }

    /// Queues a packet for a connected client.
    pub(crate) fn send(&mut self, key: SessionKey, packet: &Packet<'_>) {
        if let Some(session) = self.sessions.get_mut(key)
            && let Link::Live(live) = &mut session.link
        {
            self.outbox.packet(key, live, packet);
        }
    }

    /// An acknowledgement of something unknown is not a violation: it may be a late repetition.
    pub(crate) fn on_puback(&mut self, now: Tick, key: SessionKey, packet_id: PacketId) {
        if let Some(session) = self.sessions.get_mut(key)
            && session.state.owed.acknowledged(packet_id) == Acked::Complete
        {
            self.go_on(now, key);
        }
    }

    pub(crate) fn on_pubcomp(&mut self, now: Tick, key: SessionKey, packet_id: PacketId) {
        if let Some(session) = self.sessions.get_mut(key)
            && session.state.owed.completed(packet_id) == Acked::Complete
        {
            self.go_on(now, key);
        }
    }

    /// A packet id is free: sends what waited for one.
    fn go_on(&mut self, now: Tick, key: SessionKey) {
        self.pump(now, key);
        self.release(now, key);
        self.continue_snapshots(now, key);
        ask_queues(self, now, key);
    }

    pub(crate) fn on_pubrec(&mut self, now: Tick, key: SessionKey, ack: &Ack<'_>) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let log = &mut self.pending.log;
        match session.state.received(ack.packet_id, ack.reason, log) {
            Acked::Complete => self.go_on(now, key),
            Acked::Release => self.send(key, &pubrel(ack.packet_id)),
            Acked::Unknown if ack.reason.is_error() => {}
            Acked::Unknown => {
                let reason = ReasonCode::PacketIdentifierNotFound;
                let properties = Properties::EMPTY;
                let answer = Ack {
                    packet_id: ack.packet_id,
                    reason,
                    properties,
                };
                self.send(key, &Packet::PubRel(answer));
            }
        }
    }

    pub(crate) fn on_pubrel(&mut self, key: SessionKey, packet_id: PacketId) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let reason = if session.state.released(packet_id, &mut self.pending.log) {
            ReasonCode::Success
        } else {
            ReasonCode::PacketIdentifierNotFound
        };
        let answer = Ack {
            packet_id,
            reason,
            properties: Properties::EMPTY,
        };
        self.send(key, &Packet::PubComp(answer));
    }

    pub(crate) fn on_disconnect(
        &mut self,
        key: SessionKey,
        disconnect: &Disconnect<'_>,
    ) -> Result<(), CloseReason> {
        let Some(session) = self.sessions.get(key) else {
            return Ok(());
        };
        if let Some(expiry_secs) = disconnect.properties.session_expiry() {
            // Where sessions never last, it may have asked for more in CONNECT.
            let max = self.rules.settings.session_expiry_max_secs;
            if !session.state.is_persistent() && expiry_secs != 0 && max != 0 {
                return Err(CloseReason::Violation(Violation::SessionExpiry));
            }
            set_expiry(self, key, expiry_secs.min(max));
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
}
