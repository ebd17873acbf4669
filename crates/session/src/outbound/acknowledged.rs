//! What the acknowledgements of a client lead to.

use stentor_mqtt::{PacketId, ReasonCode};

use super::{Awaits, InFlight, Outbound, distance};

/// What an acknowledgement led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acked {
    /// The message is delivered; its packet id is free.
    Complete,
    /// Send PUBREL.
    Release,
    /// No message with this packet id waits for this.
    Unknown,
}

impl Outbound {
    /// PUBACK [MQTT-4.3.2].
    pub fn on_puback(&mut self, packet_id: PacketId) -> Acked {
        match self.find(packet_id) {
            Some((index, Awaits::Acknowledgement(_))) => self.complete(index),
            _ => Acked::Unknown,
        }
    }

    /// PUBREC [MQTT-4.3.3-4]. An error reason ends the delivery.
    pub fn on_pubrec(&mut self, packet_id: PacketId, reason: ReasonCode) -> Acked {
        match self.find(packet_id) {
            Some((index, Awaits::Receipt(_))) if reason.is_error() => self.complete(index),
            Some((index, Awaits::Receipt(_))) => {
                if let Some(entry) = self.in_flight.get_mut(index) {
                    let freed = entry.cost() - InFlight::COST;
                    entry.awaits = Awaits::Completion(entry.number());
                    self.uncount(index, freed);
                }
                Acked::Release
            }
            Some((_, Awaits::Completion(_))) if !reason.is_error() => Acked::Release,
            _ => Acked::Unknown,
        }
    }

    /// PUBCOMP [MQTT-4.3.3-7].
    pub fn on_pubcomp(&mut self, packet_id: PacketId) -> Acked {
        match self.find(packet_id) {
            Some((index, Awaits::Completion(_))) => self.complete(index),
            _ => Acked::Unknown,
        }
    }

    /// Takes back a message that turned out to be impossible to send; its packet id is free.
    pub fn discard(&mut self, packet_id: PacketId) {
        if let Some(index) = self.position(packet_id) {
            self.complete(index);
        }
    }

    fn find(&self, packet_id: PacketId) -> Option<(usize, &Awaits)> {
        let index = self.position(packet_id)?;
        Some((index, &self.in_flight.get(index)?.awaits))
    }

    pub(super) fn complete(&mut self, index: usize) -> Acked {
        if let Some(entry) = self.in_flight.remove(index) {
            self.uncount(index, entry.cost());
            self.is_done(entry.number(), index == 0);
        }
        if index < self.sent {
            self.sent -= 1;
        }
        // Only a new front can bring the order back.
        if !self.ordered && index == 0 {
            self.ordered = self.in_flight.front().is_none_or(|first| {
                self.in_flight
                    .iter()
                    .is_sorted_by_key(|entry| distance(first, entry.packet_id))
            });
        }
        Acked::Complete
    }

    /// What stands at this place of the window costs less from now on.
    const fn uncount(&mut self, index: usize, bytes: usize) {
        self.bytes -= bytes;
        if index < self.sent {
            self.sent_bytes -= bytes;
        }
    }
}
