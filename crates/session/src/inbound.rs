//! The receiver's half of QoS 1 and 2.

use alloc::vec::Vec;

use stentor_mqtt::PacketId;

use crate::acks::{AckQueue, Outcome, Receipt, Ticket};

/// The packet ids of QoS 2 messages that were taken and not yet released, and the
/// acknowledgements that wait for something. Sorted; bounded by the receive maximum that the
/// server announces.
#[derive(Debug, Default)]
pub struct Inbound {
    received: Vec<PacketId>,
    /// Those that were taken before the start of the server. Their clients may have released them
    /// since: only a PUBLISH with DUP is the message that was taken.
    restored: Vec<PacketId>,
    acks: AckQueue,
}

/// What the DUP flag of a PUBLISH says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Without it: the client sends the message for the first time.
    First,
    /// With it: the client may have sent the message before.
    Again,
}

impl From<bool> for Attempt {
    /// By the DUP flag.
    #[inline]
    fn from(dup: bool) -> Self {
        match dup {
            true => Self::Again,
            false => Self::First,
        }
    }
}

/// What a PUBLISH above QoS 0 is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A new message: pass it on [MQTT-4.3.3-10].
    New,
    /// Passed on before: only acknowledge it again.
    Repeated,
    /// Passed on before, and not settled yet: the acknowledgement waits for the same.
    RepeatedWaiting(Ticket),
    /// More than the receive maximum allows [MQTT-3.3.4-9].
    TooMany,
}

impl Inbound {
    /// Bytes of memory on the heap. O(1).
    #[must_use]
    pub fn bytes(&self) -> usize {
        let ids = self.received.capacity() + self.restored.capacity();
        ids * size_of::<PacketId>() + self.acks.bytes()
    }

    /// Whether the client has as many messages under way as it may.
    #[must_use]
    pub fn is_full(&self, receive_maximum: u16) -> bool {
        self.received.len() + self.acks.pubacks() >= usize::from(receive_maximum)
    }

    /// Messages that were taken before the start of the server, in the order of their packet ids.
    #[must_use]
    pub fn restored(received: Vec<PacketId>) -> Self {
        Self {
            restored: received.clone(),
            received,
            acks: AckQueue::default(),
        }
    }

    /// The packet ids of messages that were taken and not released. One that was refused is not
    /// among them, though its PUBREC may wait for others. O(their number × waiting PUBRECs).
    pub fn received(&self) -> impl Iterator<Item = PacketId> {
        let all = self.received.iter().copied();
        all.filter(|packet_id| !self.acks.is_refused(*packet_id))
    }

    /// What the acknowledgement of a message that was taken waits for.
    #[must_use]
    pub fn ticket_of(&self, packet_id: PacketId) -> Option<Ticket> {
        self.acks.ticket_of(packet_id)
    }

    /// A QoS 2 PUBLISH arrived.
    pub fn on_publish(
        &mut self,
        packet_id: PacketId,
        attempt: Attempt,
        receive_maximum: u16,
    ) -> Arrival {
        if attempt == Attempt::First && self.forget_restored(packet_id) {
            self.forget(packet_id);
        }
        match self.received.binary_search(&packet_id) {
            // Nobody has to send one message so often that this many answers wait.
            Ok(_) if self.acks.len() >= usize::from(receive_maximum) => Arrival::TooMany,
            Ok(_) => self
                .acks
                .ticket_of(packet_id)
                .map_or(Arrival::Repeated, Arrival::RepeatedWaiting),
            Err(_) if self.is_full(receive_maximum) => Arrival::TooMany,
            Err(index) => {
                self.received.insert(index, packet_id);
                Arrival::New
            }
        }
    }

    /// An acknowledgement that could be sent now. `false` if another one has to be sent first:
    /// this one is queued behind it then.
    pub fn may_acknowledge(&mut self, receipt: Receipt, outcome: &Outcome) -> bool {
        if self.acks.is_empty() {
            return true;
        }
        self.acks.push_ready(receipt, outcome.clone());
        false
    }

    /// An acknowledgement that waits; returns its name for [`Inbound::settle`].
    pub fn defer(&mut self, receipt: Receipt, ticket: Ticket) -> u64 {
        self.acks.push_waiting(receipt, ticket)
    }

    /// What an acknowledgement waited for has happened. Then ask [`Inbound::next_ack`].
    pub fn settle(&mut self, name: u64, ticket: Ticket, outcome: Outcome) {
        if let Some(packet_id) = self.acks.settle(name, ticket, outcome) {
            self.refuse(packet_id);
        }
    }

    /// The next acknowledgement that can be sent, in the order of receipt.
    pub fn next_ack(&mut self) -> Option<(Receipt, Outcome)> {
        self.acks.pop()
    }

    /// The connection is gone: its client will send again what was not acknowledged.
    pub fn disconnected(&mut self) {
        let received = &mut self.received;
        self.acks.disconnected(|packet_id| {
            if let Ok(index) = received.binary_search(&packet_id) {
                received.remove(index);
            }
        });
    }

    /// Forgets a message that was refused with an error in its PUBREC: the exchange ends there.
    pub fn refuse(&mut self, packet_id: PacketId) {
        self.on_pubrel(packet_id);
    }

    /// Whether a packet id was restored.
    fn forget_restored(&mut self, packet_id: PacketId) -> bool {
        let found = self.restored.iter().position(|it| *it == packet_id);
        found.map(|at| self.restored.swap_remove(at)).is_some()
    }

    /// PUBREL arrived. Returns whether the packet id was known.
    pub fn on_pubrel(&mut self, packet_id: PacketId) -> bool {
        self.forget_restored(packet_id);
        self.forget(packet_id)
    }

    fn forget(&mut self, packet_id: PacketId) -> bool {
        match self.received.binary_search(&packet_id) {
            Ok(index) => {
                self.received.remove(index);
                true
            }
            Err(_) => false,
        }
    }

    /// Whether no message waits for its release, and no acknowledgement for its turn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.received.is_empty() && self.acks.is_unused()
    }
}
