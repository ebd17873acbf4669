//! Bytes from a connected client, packet by packet.

use stentor_mqtt::{
    Ack, Disconnect, Frame, Packet, PacketId, Properties, ReasonCode, Sender, Version, decode,
    decode_publish, decode_subscribe, frame,
};
use stentor_session::{Acked, CloseReason, Remote, Tick, Violation, malformed};

use crate::core::ids::SessionKey;
use crate::core::sessions::registry::Link;
use crate::core::work::{Share, VISIT_BYTES};
use crate::hub::Hub;

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
const fn is_publish(first: u8) -> bool {
    first >> 4 == 3
}

/// Whether a packet with this first byte is a SUBSCRIBE.
const fn is_subscribe(first: u8) -> bool {
    first >> 4 == 8
}

/// Whether a packet with this first byte is a SUBSCRIBE or an UNSUBSCRIBE.
const fn is_list(first: u8) -> bool {
    matches!(first >> 4, 8 | 10)
}

/// Whether the next packet of a connection is taken now.
enum Gate {
    /// It is: by this version, if it is not larger than that.
    Open(Version, u32),
    /// Not yet.
    Shut,
    /// The connection has been disconnected.
    Gone,
}

/// A SUBSCRIBE or UNSUBSCRIBE that is no longer has few filters.
const LIST_BYTES: usize = 1_024;

impl Hub {
    /// Applies all whole packets at the front of `input`; returns how many bytes they were. What
    /// breaks the protocol closes the connection (see [`crate::Effects::closing`]) and the rest
    /// of the input is not looked at: then everything counts as consumed. Packets of a connection
    /// that publishes faster than it may are left for later (see [`crate::Effects::paused`]), and
    /// those of one that has used its share of the turn for the next (see
    /// [`crate::Effects::yielded`]).
    pub fn receive(&mut self, now: Tick, key: SessionKey, input: &[u8]) -> usize {
        let mut share = Share::of(&mut self.turn);
        self.routes.reading = Some(key);
        let consumed = self.receive_packets(now, key, input, &mut share);
        let before = self.turn.spent();
        self.settle(now);
        self.routes.reading = None;
        share.count(true, self.turn.spent() - before);
        self.charge_share(now, key, &share);
        consumed
    }

    fn receive_packets(
        &mut self,
        now: Tick,
        key: SessionKey,
        input: &[u8],
        share: &mut Share,
    ) -> usize {
        let mut consumed = 0;
        // How far the store knows what comes.
        let mut looked = 0;
        loop {
            let has_more = consumed < input.len();
            let (version, packet_bytes_max) = match self.gate(now, key, share, has_more) {
                Gate::Open(version, packet_bytes_max) => (version, packet_bytes_max),
                Gate::Shut => return consumed,
                Gate::Gone => return input.len(),
            };
            let rest = input.get(consumed..).unwrap_or_default();
            let frame = match frame(rest, packet_bytes_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => return consumed,
                Err(error) => {
                    self.settle(now);
                    self.close(now, key, malformed(error));
                    return input.len();
                }
            };
            let Some(whole) = rest.get(..frame.total_len) else {
                return consumed;
            };
            if is_list(frame.first) && frame.total_len > LIST_BYTES && self.slices.is_full() {
                // There would be no room for its filters.
                self.give_way(now, key);
                return consumed;
            }
            consumed += frame.total_len;
            self.meter_packet(now, key, frame);
            self.stats.packets_received += 1;
            if looked < consumed
                && rest.len() > frame.total_len
                && let Some(purpose) = self.asks_store(frame.first)
            {
                let layout = (version, packet_bytes_max);
                let at_most = share.packets_left(is_publish(frame.first));
                let ahead = self.look_ahead(key, layout, (purpose, at_most), rest);
                looked = consumed - whole.len() + ahead;
            }
            let before = self.turn.spent();
            let result = self.on_frame(now, key, (version, frame), whole);
            share.count(is_publish(frame.first), self.turn.spent() - before);
            if let Err(reason) = result {
                self.settle(now);
                self.close(now, key, reason);
                return input.len();
            }
        }
    }

    /// Whether the next packet of a connection is taken now.
    #[inline]
    fn gate(&mut self, now: Tick, key: SessionKey, share: &Share, has_more: bool) -> Gate {
        let Some(live) = self
            .sessions
            .get_mut(key)
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
            return Gate::Shut;
        }
        // Answers that nobody reads are bounded like messages.
        if live.control_bytes() > self.settings.queue_bytes_max {
            self.settle(now);
            self.give_up(key);
            self.close_overrun(now);
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
    fn give_way(&mut self, now: Tick, key: SessionKey) {
        let session = self.sessions.get_mut(key);
        if let Some(live) = session.and_then(|session| session.live_mut()) {
            // That it is alive is seen already.
            live.last_seen = now;
            self.effects.yielded.push(live.link);
        }
    }

    /// A whole packet is there: only those count [MQTT-3.1.2-22].
    #[inline]
    fn meter_packet(&mut self, now: Tick, key: SessionKey, frame: Frame) {
        let session = self.sessions.get_mut(key);
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

    /// What comes by the thousand is decoded where it is used: a [`Packet`] of any kind would be
    /// written to memory and copied from there.
    #[inline]
    fn on_frame(
        &mut self,
        now: Tick,
        key: SessionKey,
        (version, frame): (Version, Frame),
        packet: &[u8],
    ) -> Result<(), CloseReason> {
        frame.check(version).map_err(malformed)?;
        let first = frame.first;
        let body = packet.get(frame.header_len..).unwrap_or_default();
        if is_publish(first) {
            let publish = decode_publish(version, Sender::Client, first, body);
            let publish = publish.map_err(malformed)?;
            self.spend_on_properties(publish.properties);
            if self.adaptors.is_some()
                && let Some(result) = self.consult_publish(now, key, &publish, packet)
            {
                return result;
            }
            return self.on_publish(now, key, &publish);
        }
        // Everything but a publish meets a hub that has routed what came before.
        self.settle(now);
        if is_subscribe(first) {
            let subscribe = decode_subscribe(version, first, body);
            let subscribe = subscribe.map_err(malformed)?;
            self.spend_on_properties(subscribe.properties);
            if self.adaptors.is_some()
                && let Some(result) = self.consult_subscribe(now, key, &subscribe, packet)
            {
                return result;
            }
            return self.on_subscribe(now, key, &subscribe);
        }
        let packet = decode(version, Sender::Client, first, body).map_err(malformed)?;
        self.turn.spend_each(body.len() / VISIT_BYTES, 1);
        self.on_packet(now, key, &packet)
    }

    /// Properties are checked, searched and copied.
    #[inline]
    fn spend_on_properties(&mut self, properties: Properties<'_>) {
        self.turn
            .spend_each(properties.raw().len() / VISIT_BYTES, 1);
    }

    fn on_packet(
        &mut self,
        now: Tick,
        key: SessionKey,
        packet: &Packet<'_>,
    ) -> Result<(), CloseReason> {
        match packet {
            Packet::Publish(publish) => self.on_publish(now, key, publish),
            Packet::PubAck(ack) => {
                self.on_ack(now, key, |outbound| outbound.on_puback(ack.packet_id));
                Ok(())
            }
            Packet::PubRec(ack) => {
                self.on_pubrec(now, key, ack);
                Ok(())
            }
            Packet::PubRel(ack) => {
                self.on_pubrel(key, ack.packet_id);
                Ok(())
            }
            Packet::PubComp(ack) => {
                self.on_ack(now, key, |outbound| outbound.on_pubcomp(ack.packet_id));
                Ok(())
            }
            Packet::Subscribe(subscribe) => self.on_subscribe(now, key, subscribe),
            Packet::Unsubscribe(unsubscribe) => {
                self.on_unsubscribe(now, key, unsubscribe);
                Ok(())
            }
            Packet::PingReq => {
                self.send(key, &Packet::PingResp);
                Ok(())
            }
            Packet::Disconnect(disconnect) => self.on_disconnect(key, disconnect),
            Packet::Connect(_) => Err(CloseReason::Violation(Violation::SecondConnect)),
            Packet::Auth(auth) => self.on_auth(key, auth),
            Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
                Err(CloseReason::Violation(Violation::ServerPacket))
            }
        }
    }

    /// Queues a packet for a connected client.
    fn send(&mut self, key: SessionKey, packet: &Packet<'_>) {
        if let Some(session) = self.sessions.get_mut(key)
            && let Link::Live(live) = &mut session.link
        {
            self.outbox.packet(key, live, packet);
        }
    }

    fn on_ack(
        &mut self,
        now: Tick,
        key: SessionKey,
        apply: impl FnOnce(&mut stentor_session::Outbound) -> Acked,
    ) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let Some(outbound) = &mut session.outbound else {
            return;
        };
        // An acknowledgement of something unknown is not a violation: it may be a late repetition.
        if apply(outbound) == Acked::Complete {
            self.pump(now, key);
            self.release(now, key);
            self.continue_snapshots(now, key);
        }
    }

    fn on_pubrec(&mut self, now: Tick, key: SessionKey, ack: &Ack<'_>) {
        let mut acked = Acked::Unknown;
        self.on_ack(now, key, |outbound| {
            acked = outbound.on_pubrec(ack.packet_id, ack.reason);
            acked
        });
        match acked {
            Acked::Complete => {}
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

    fn on_pubrel(&mut self, key: SessionKey, packet_id: PacketId) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let known = session
            .inbound
            .as_mut()
            .is_some_and(|inbound| inbound.on_pubrel(packet_id));
        if session
            .inbound
            .as_ref()
            .is_some_and(|inbound| inbound.is_empty())
        {
            session.inbound = None;
        }
        let reason = if known {
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

    fn on_disconnect(
        &mut self,
        key: SessionKey,
        disconnect: &Disconnect<'_>,
    ) -> Result<(), CloseReason> {
        let Some(session) = self.sessions.get(key) else {
            return Ok(());
        };
        if let Some(expiry_secs) = disconnect.properties.session_expiry() {
            // Where sessions never last, it may have asked for more in CONNECT.
            let max = self.settings.session_expiry_max_secs;
            if !session.is_persistent() && expiry_secs != 0 && max != 0 {
                return Err(CloseReason::Violation(Violation::SessionExpiry));
            }
            self.sessions.set_expiry(key, expiry_secs.min(max));
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
