//! Bytes from a connected client, packet by packet.

use stentor_mqtt::{Frame, Packet, Sender, Version, decode, decode_publish, frame};
use stentor_session::{CloseReason, Tick, Violation, malformed};

use super::Hub;
use super::subscribe::take_subscribe;
use crate::core::delivery::{direct, stored};
use crate::core::ids::SessionKey;
use crate::core::inbound::receive::{
    Gate, LIST_BYTES, is_list, is_publish, is_subscribe, properties_of,
};
use crate::core::inbound::subscribe::{Decided, unsubscribe};
use crate::core::inbound::{flood, receive};
use crate::core::routing::batch;
use crate::core::sessions::{authenticate, lifecycle};
use crate::core::work::{self, Share, VISIT_BYTES};

impl Hub {
    /// Applies all whole packets at the front of `input`; returns how many bytes they were. What
    /// breaks the protocol closes the connection (see [`crate::Effects::closing`]) and the rest
    /// of the input is not looked at: then everything counts as consumed. Packets of a connection
    /// that publishes faster than it may are left for later (see [`crate::Effects::paused`]), and
    /// those of one that has used its share of the turn for the next (see
    /// [`crate::Effects::yielded`]). Those that other shards need may have to wait for these (see
    /// [`crate::Effects::awaiting_room`]).
    pub fn receive(&mut self, now: Tick, key: SessionKey, input: &[u8]) -> usize {
        let mut share = receive::begin_reading(&mut self.core, key);
        let consumed = receive_packets(self, now, key, input, &mut share);
        let before = self.core.turn().spent();
        receive::end_reading(&mut self.core, now);
        share.count(self.core.turn(), true, self.core.turn().spent() - before);
        work::charge_share(&mut self.core, now, key, &share);
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
        version: Version,
        frame: Frame,
        packet: &[u8],
    ) -> Result<(), CloseReason> {
        frame.check(version).map_err(malformed)?;
        let first = frame.first;
        let body = packet.get(frame.header_len..).unwrap_or_default();
        if is_publish(first) {
            let publish = decode_publish(version, Sender::Client, first, body);
            let publish = publish.map_err(malformed)?;
            receive::spend_on_properties(&mut self.core, publish.properties);
            let services = &mut self.services;
            if let Some(result) = services.consult_publish(&mut self.core, key, &publish, packet) {
                return result;
            }
            return self.on_publish(now, key, &publish, None);
        }
        // Everything but a publish meets a hub that has routed what came before.
        batch::settle(&mut self.core, now);
        if is_subscribe(first) {
            return take_subscribe(self, now, key, version, first, body, packet);
        }
        let packet = decode(version, Sender::Client, first, body).map_err(malformed)?;
        let properties = properties_of(&packet);
        let rest = body.len().saturating_sub(properties.raw().len());
        self.core.turn_mut().spend_each(rest / VISIT_BYTES, 1);
        receive::spend_on_properties(&mut self.core, properties);
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
        let framing = match receive::gate(&mut hub.core, now, key, share, has_more) {
            Gate::Open(framing) => framing,
            Gate::Shut => return consumed,
            Gate::Gone => return input.len(),
        };
        let rest = input.get(consumed..).unwrap_or_default();
        let frame = match frame(rest, framing.packet_bytes_max) {
            Ok(Some(frame)) => frame,
            Ok(None) => return consumed,
            Err(error) => {
                batch::settle(&mut hub.core, now);
                lifecycle::close(&mut hub.core, now, key, malformed(error));
                return input.len();
            }
        };
        let Some(whole) = rest.get(..frame.total_len) else {
            return consumed;
        };
        if is_list(frame.first)
            && frame.total_len > LIST_BYTES
            && receive::has_no_room_for_lists(&hub.core)
        {
            // There would be no room for its filters.
            receive::give_way(&mut hub.core, now, key);
            return consumed;
        }
        let version = framing.version;
        if flood::holds(&mut hub.core, now, key, version, frame, whole) {
            return consumed;
        }
        consumed += frame.total_len;
        receive::meter_packet(&mut hub.core, now, key, frame);

        if looked < consumed
            && rest.len() > frame.total_len
            && let Some(purpose) = hub.core.rules().asks_store(frame.first)
        {
            let at_most = share.packets_left(is_publish(frame.first));
            let ahead = stored::look_ahead(&hub.core, key, framing, purpose, at_most, rest);
            looked = consumed - whole.len() + ahead;
        }
        let before = hub.core.turn().spent();
        let result = hub.on_frame(now, key, version, frame, whole);
        share.count(
            hub.core.turn(),
            is_publish(frame.first),
            hub.core.turn().spent() - before,
        );
        if let Err(reason) = result {
            batch::settle(&mut hub.core, now);
            lifecycle::close(&mut hub.core, now, key, reason);
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
            receive::on_puback(&mut hub.core, now, key, ack.packet_id);
            Ok(())
        }
        Packet::PubRec(ack) => {
            receive::on_pubrec(&mut hub.core, now, key, ack);
            Ok(())
        }
        Packet::PubRel(ack) => {
            receive::on_pubrel(&mut hub.core, key, ack.packet_id);
            Ok(())
        }
        Packet::PubComp(ack) => {
            receive::on_pubcomp(&mut hub.core, now, key, ack.packet_id);
            Ok(())
        }
        Packet::Subscribe(subscribe) => {
            hub.on_subscribe(now, key, subscribe, &[], Decided::NOTHING)
        }
        Packet::Unsubscribe(unsubscribe) => {
            unsubscribe::begin(&mut hub.core, key, unsubscribe);
            Ok(())
        }
        Packet::PingReq => {
            direct::send(&mut hub.core, key, &Packet::PingResp);
            Ok(())
        }
        Packet::Disconnect(disconnect) => receive::on_disconnect(&mut hub.core, key, disconnect),
        Packet::Connect(_) => Err(CloseReason::Violation(Violation::SecondConnect)),
        Packet::Auth(auth) => authenticate::on_auth(&mut hub.core, key, auth),
        Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
            Err(CloseReason::Violation(Violation::ServerPacket))
        }
    }
}
