//! The receiver's half of QoS 2.

use alloc::vec::Vec;

use stentor_mqtt::PacketId;

/// The packet ids of QoS 2 messages that were taken and not yet released. Sorted; bounded by the
/// receive maximum that the server announces.
#[derive(Debug, Default)]
pub struct Inbound {
    received: Vec<PacketId>,
}

/// What a QoS 2 PUBLISH is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A new message: pass it on [MQTT-4.3.3-10].
    New,
    /// Passed on before: only acknowledge it again.
    Repeated,
    /// More than the receive maximum allows [MQTT-3.3.4-9].
    TooMany,
}

impl Inbound {
    /// A QoS 2 PUBLISH arrived.
    pub fn on_publish(&mut self, packet_id: PacketId, receive_maximum: u16) -> Arrival {
        match self.received.binary_search(&packet_id) {
            Ok(_) => Arrival::Repeated,
            Err(_) if self.received.len() >= usize::from(receive_maximum) => Arrival::TooMany,
            Err(index) => {
                self.received.insert(index, packet_id);
                Arrival::New
            }
        }
    }

    /// Forgets a message that was refused with an error in its PUBREC: the exchange ends there.
    pub fn refuse(&mut self, packet_id: PacketId) {
        self.on_pubrel(packet_id);
    }

    /// PUBREL arrived. Returns whether the packet id was known.
    pub fn on_pubrel(&mut self, packet_id: PacketId) -> bool {
        match self.received.binary_search(&packet_id) {
            Ok(index) => {
                self.received.remove(index);
                true
            }
            Err(_) => false,
        }
    }

    /// Whether no message waits for its release.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }
}
