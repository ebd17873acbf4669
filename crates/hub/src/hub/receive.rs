//! Bytes from a connected client, packet by packet.

use stentor_mqtt::{Frame, Packet, Sender, Version, decode, decode_publish, frame};
use stentor_session::{CloseReason, Tick, Violation, malformed};

use super::Hub;
use super::subscribe::take_subscribe;
use crate::core::ids::SessionKey;
use crate::core::inbound::flood;
use crate::core::inbound::receive::{
    Gate, LIST_BYTES, is_list, is_publish, is_subscribe, properties_of,
};
use crate::core::inbound::subscribe::Decided;
use crate::core::work::{Share, VISIT_BYTES};

impl Hub {
    /// Applies all whole packets at the front of `input`; returns how many bytes they were. What
    /// breaks the protocol closes the connection (see [`crate::Effects::closing`]) and the rest
    /// of the input is not looked at: then everything counts as consumed. Packets of a connection
    /// that publishes faster than it may are left for later (see [`crate::Effects::paused`]), and
    /// those of one that has used its share of the turn for the next (see
    /// [`crate::Effects::yielded`]). Those that other shards need may have to wait for these (see
    /// [`crate::Effects::awaiting_room`]).
    pub fn receive(&mut self, now: Tick, key: SessionKey, input: &[u8]) -> usize {
        let mut share = self.core.begin_reading(key);
        let consumed = receive_packets(self, now, key, input, &mut share);
        let before = self.core.turn().spent();
        self.core.end_reading(now);
        share.count(self.core.turn(), true, self.core.turn().spent() - before);
        self.core.charge_share(now, key, &share);
        self.finish(now);
        consumed
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
            self.core.spend_on_properties(publish.properties);
            let services = &mut self.services;
            if let Some(result) = services.consult_publish(&mut self.core, key, &publish, packet) {
                return result;
            }
            return self.on_publish(now, key, &publish, None);
        }
        // Everything but a publish meets a hub that has routed what came before.
        self.core.settle(now);
        if is_subscribe(first) {
            return take_subscribe(self, now, key, (version, first, body), packet);
        }
        let packet = decode(version, Sender::Client, first, body).map_err(malformed)?;
        let properties = properties_of(&packet);
        let rest = body.len().saturating_sub(properties.raw().len());
        self.core.turn_mut().spend_each(rest / VISIT_BYTES, 1);
        self.core.spend_on_properties(properties);
        on_packet(self, now, key, &packet)
    }
}

fn receive_packets(
    hub: &mut Hub,
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
        let (version, packet_bytes_max) = match hub.core.gate(now, key, share, has_more) {
            Gate::Open(version, packet_bytes_max) => (version, packet_bytes_max),
            Gate::Shut => return consumed,
            Gate::Gone => return input.len(),
        };
        let rest = input.get(consumed..).unwrap_or_default();
        let frame = match frame(rest, packet_bytes_max) {
            Ok(Some(frame)) => frame,
            Ok(None) => return consumed,
            Err(error) => {
                hub.core.settle(now);
                hub.core.close(now, key, malformed(error));
                return input.len();
            }
        };
        let Some(whole) = rest.get(..frame.total_len) else {
            return consumed;
        };
        if is_list(frame.first) && frame.total_len > LIST_BYTES && hub.core.has_no_room_for_lists()
        {
            // There would be no room for its filters.
            hub.core.give_way(now, key);
            return consumed;
        }
        if flood::holds(&mut hub.core, now, key, (version, frame), whole) {
            return consumed;
        }
        consumed += frame.total_len;
        hub.core.meter_packet(now, key, frame);

        if looked < consumed
            && rest.len() > frame.total_len
            && let Some(purpose) = hub.core.rules().asks_store(frame.first)
        {
            let layout = (version, packet_bytes_max);
            let at_most = share.packets_left(is_publish(frame.first));
            let ahead = hub.core.look_ahead(key, layout, (purpose, at_most), rest);
            looked = consumed - whole.len() + ahead;
        }
        let before = hub.core.turn().spent();
        let result = hub.on_frame(now, key, (version, frame), whole);
        share.count(
            hub.core.turn(),
            is_publish(frame.first),
            hub.core.turn().spent() - before,
        );
        if let Err(reason) = result {
            hub.core.settle(now);
            hub.core.close(now, key, reason);
            return input.len();
        }
        hub.hear(now);
    }
}

fn on_packet(
    hub: &mut Hub,
    now: Tick,
    key: SessionKey,
    packet: &Packet<'_>,
) -> Result<(), CloseReason> {
    match packet {
        Packet::Publish(publish) => hub.on_publish(now, key, publish, None),
        Packet::PubAck(ack) => {
            hub.core.on_puback(now, key, ack.packet_id);
            Ok(())
        }
        Packet::PubRec(ack) => {
            hub.core.on_pubrec(now, key, ack);
            Ok(())
        }
        Packet::PubRel(ack) => {
            hub.core.on_pubrel(key, ack.packet_id);
            Ok(())
        }
        Packet::PubComp(ack) => {
            hub.core.on_pubcomp(now, key, ack.packet_id);
            Ok(())
        }
        Packet::Subscribe(subscribe) => {
            hub.on_subscribe(now, key, subscribe, (&[], Decided::NOTHING))
        }
        Packet::Unsubscribe(unsubscribe) => {
            hub.core.on_unsubscribe(key, unsubscribe);
            Ok(())
        }
        Packet::PingReq => {
            hub.core.send(key, &Packet::PingResp);
            Ok(())
        }
        Packet::Disconnect(disconnect) => hub.core.on_disconnect(key, disconnect),
        Packet::Connect(_) => Err(CloseReason::Violation(Violation::SecondConnect)),
        Packet::Auth(auth) => hub.core.on_auth(key, auth),
        Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
            Err(CloseReason::Violation(Violation::ServerPacket))
        }
    }
}
