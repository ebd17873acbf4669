//! The sender's half of QoS 1 and 2: packet ids, the in-flight window and what waits for it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{PacketId, QoS, ReasonCode};

use crate::Tick;
use crate::message::Message;

/// One message for one subscriber above QoS 0, as long as the session owes it.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message.
    pub message: Arc<Message>,
    /// The QoS granted: 1 or 2.
    pub qos: QoS,
    /// The RETAIN flag as this subscriber sees it.
    pub retain: bool,
    /// The subscription identifiers to send, if any.
    pub subscription_ids: SubscriptionIds,
    /// The shared subscription that chose this member; the owner's number, 0 for none.
    pub share: u64,
    /// How many messages of its topic this one stands for, besides itself.
    pub conflated: u32,
}

/// Subscription identifiers of one delivery: nearly always none or one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionIds(Option<Box<[u32]>>);

impl SubscriptionIds {
    /// From a list; zeroes are "no identifier" and left out.
    #[must_use]
    pub fn new(ids: &[u32]) -> Self {
        if ids.iter().all(|id| *id == 0) {
            return Self(None);
        }
        Self(Some(ids.iter().copied().filter(|id| *id != 0).collect()))
    }

    /// The list.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// What the peer has to send next for one packet id.
#[derive(Debug)]
enum Awaits {
    /// Sent at QoS 1.
    Acknowledgement(Delivery),
    /// Sent at QoS 2.
    Receipt(Delivery),
    /// PUBREL sent: the message itself is gone.
    Completion,
}

#[derive(Debug)]
struct InFlight {
    packet_id: PacketId,
    awaits: Awaits,
}

/// How far a packet id lies after that of the window's front, in the circle.
const fn distance(front: &InFlight, packet_id: PacketId) -> u16 {
    packet_id.get().wrapping_sub(front.packet_id.get())
}

/// What to send again after a reconnect, in the original order [MQTT-4.4.0-1].
#[derive(Debug)]
pub enum Resend<'a> {
    /// The PUBLISH, with DUP set.
    Publish(PacketId, &'a Delivery),
    /// The PUBREL.
    PubRel(PacketId),
}

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

/// The messages above QoS 0 that a session owes its client: in flight, then waiting.
///
/// Packet ids are given in a circle, so the window is ordered by distance from its front and an
/// acknowledgement is found by binary search. An acknowledgement in order costs O(1); one out of
/// order O(window). While one message stays unacknowledged for a whole turn of the circle, and
/// others too, there is no such order, and each search costs O(window).
#[derive(Debug)]
pub struct Outbound {
    in_flight: VecDeque<InFlight>,
    /// How many of them, from the front, were sent on the present connection. The rest waits to
    /// be sent again after a reconnect, as the client's window allows.
    sent: usize,
    waiting: VecDeque<Delivery>,
    waiting_bytes: usize,
    /// No waiting message expires before this.
    earliest_expiry: Tick,
    next_id: u16,
    /// Whether the window is ordered by distance from its front.
    ordered: bool,
}

impl Default for Outbound {
    fn default() -> Self {
        Self {
            in_flight: VecDeque::new(),
            sent: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            earliest_expiry: Tick::NEVER,
            next_id: 1,
            ordered: true,
        }
    }
}

impl Outbound {
    /// Messages in flight.
    #[must_use]
    pub fn in_flight_len(&self) -> usize {
        self.in_flight.len()
    }

    /// Messages that wait for a place in the window, or for the client to come back.
    #[must_use]
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// What the waiting messages cost, in bytes.
    #[must_use]
    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.waiting.is_empty()
    }

    /// Puts a message into the window.
    ///
    /// Returns `None`, and the message is not taken, when the window holds `window` messages or
    /// others wait already: order is kept [MQTT-4.6.0-5].
    pub fn send(&mut self, window: u16, delivery: &Delivery) -> Option<PacketId> {
        if !self.may_send(window) {
            return None;
        }
        Some(self.launch(delivery.clone()))
    }

    /// Whether [`Outbound::send`] would take a message now.
    #[must_use]
    pub fn may_send(&self, window: u16) -> bool {
        self.waiting.is_empty() && self.has_room(window)
    }

    fn has_room(&self, window: u16) -> bool {
        self.sent == self.in_flight.len() && self.sent < usize::from(window)
    }

    fn launch(&mut self, delivery: Delivery) -> PacketId {
        let packet_id = self.allocate();
        let awaits = match delivery.qos {
            QoS::ExactlyOnce => Awaits::Receipt(delivery),
            QoS::AtMostOnce | QoS::AtLeastOnce => Awaits::Acknowledgement(delivery),
        };
        if let (Some(first), Some(last)) = (self.in_flight.front(), self.in_flight.back()) {
            self.ordered &= distance(first, last.packet_id) < distance(first, packet_id);
        }
        self.in_flight.push_back(InFlight { packet_id, awaits });
        self.sent += 1;
        packet_id
    }

    /// The next free packet id in the circle. The window is far smaller than the circle, but a
    /// slow acknowledgement can stay behind for a whole turn.
    fn allocate(&mut self) -> PacketId {
        loop {
            let candidate = PacketId::new(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            if let Some(packet_id) = candidate
                && self.position(packet_id).is_none()
            {
                return packet_id;
            }
        }
    }

    fn position(&self, packet_id: PacketId) -> Option<usize> {
        if !self.ordered {
            return self
                .in_flight
                .iter()
                .position(|entry| entry.packet_id == packet_id);
        }
        let first = self.in_flight.front()?;
        self.in_flight
            .binary_search_by_key(&distance(first, packet_id), |entry| {
                distance(first, entry.packet_id)
            })
            .ok()
    }

    /// Adds a message to the waiting ones.
    pub fn wait(&mut self, delivery: Delivery) {
        self.waiting_bytes += delivery.message.cost();
        self.earliest_expiry = self.earliest_expiry.min(delivery.message.expires_at);
        self.waiting.push_back(delivery);
    }

    /// Drops the waiting messages that have expired, and tells their topics [MQTT-3.3.2-5]. Costs
    /// a look at each when one of them may have expired, else nothing.
    pub fn drop_expired_waiting(&mut self, now: Tick, mut tell: impl FnMut(&str)) {
        if now < self.earliest_expiry {
            return;
        }
        self.earliest_expiry = Tick::NEVER;
        self.waiting.retain(|delivery| {
            let message = &delivery.message;
            if message.is_expired(now) {
                self.waiting_bytes -= message.cost();
                tell(message.topic());
                return false;
            }
            self.earliest_expiry = self.earliest_expiry.min(message.expires_at);
            true
        });
    }

    /// Takes the oldest waiting message out, to drop it.
    pub fn drop_oldest_waiting(&mut self) -> Option<Delivery> {
        let delivery = self.waiting.pop_front()?;
        self.waiting_bytes -= delivery.message.cost();
        Some(delivery)
    }

    /// Moves the oldest waiting message into the window, if there is room.
    pub fn advance(&mut self, window: u16) -> Option<(PacketId, Delivery)> {
        if !self.has_room(window) {
            return None;
        }
        let delivery = self.drop_oldest_waiting()?;
        Some((self.launch(delivery.clone()), delivery))
    }

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
                    entry.awaits = Awaits::Completion;
                }
                Acked::Release
            }
            Some((_, Awaits::Completion)) if !reason.is_error() => Acked::Release,
            _ => Acked::Unknown,
        }
    }

    /// PUBCOMP [MQTT-4.3.3-7].
    pub fn on_pubcomp(&mut self, packet_id: PacketId) -> Acked {
        match self.find(packet_id) {
            Some((index, Awaits::Completion)) => self.complete(index),
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

    fn complete(&mut self, index: usize) -> Acked {
        self.in_flight.remove(index);
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

    /// The connection is gone: everything in flight is to be sent again on the next one.
    pub const fn disconnected(&mut self) {
        self.sent = 0;
    }

    /// What to send again next, if the window has room; with its original packet id, in the
    /// original order [MQTT-4.4.0-1] [MQTT-4.6.0-1].
    pub fn resend(&mut self, window: u16) -> Option<Resend<'_>> {
        let entry = self.in_flight.get(self.sent)?;
        if self.sent >= usize::from(window) {
            return None;
        }
        self.sent += 1;
        Some(match &entry.awaits {
            Awaits::Acknowledgement(delivery) | Awaits::Receipt(delivery) => {
                Resend::Publish(entry.packet_id, delivery)
            }
            Awaits::Completion => Resend::PubRel(entry.packet_id),
        })
    }

    /// Takes out what the session must not have any more: of the messages that wait, and of those
    /// that are to be sent again. What was sent on this connection stays until it is acknowledged.
    /// Returns what was taken out.
    pub fn withdraw(&mut self, mut may_have: impl FnMut(&Message) -> bool) -> Vec<Delivery> {
        let mut withdrawn = Vec::new();
        let mut index = self.sent;
        while let Some(entry) = self.in_flight.get(index) {
            match &entry.awaits {
                Awaits::Acknowledgement(delivery) | Awaits::Receipt(delivery)
                    if !may_have(&delivery.message) =>
                {
                    withdrawn.push(delivery.clone());
                    self.complete(index);
                }
                Awaits::Acknowledgement(_) | Awaits::Receipt(_) | Awaits::Completion => index += 1,
            }
        }
        for delivery in core::mem::take(&mut self.waiting) {
            if may_have(&delivery.message) {
                self.waiting.push_back(delivery);
            } else {
                self.waiting_bytes -= delivery.message.cost();
                withdrawn.push(delivery);
            }
        }
        withdrawn
    }

    /// Ends the session's debt. Returns the messages of shared subscriptions that another member
    /// should get: unacknowledged ones of QoS 1, and all that were not sent yet
    /// [MQTT-4.8.2-5].
    #[must_use]
    pub fn abandon(self) -> Vec<Delivery> {
        let sent = self
            .in_flight
            .into_iter()
            .filter_map(|entry| match entry.awaits {
                Awaits::Acknowledgement(delivery) => Some(delivery),
                Awaits::Receipt(_) | Awaits::Completion => None,
            });
        sent.chain(self.waiting)
            .filter(|delivery| delivery.share != 0)
            .collect()
    }
}
