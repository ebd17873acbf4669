//! The sender's half of QoS 1 and 2: packet ids, the in-flight window and what waits for it.

mod acknowledged;
pub mod backlog;
pub mod owed;
mod remains;
mod restored;
mod spool;
pub mod waiting;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use stentor_mqtt::{PacketId, QoS};

use crate::Tick;
use crate::blocks::Blocks;
use crate::message::Message;

pub use self::acknowledged::Acked;
pub use self::remains::Remains;
use self::remains::for_each_shared;
use self::spool::Spool;
pub use self::spool::{CHUNK_BYTES, CHUNK_LEN, Chunk, ChunkPlace, Sealing, Spooled};

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
    /// Its place among all deliveries of its session, from 1 on, if these are written down; 0 if
    /// not. See [`Outbound::next_number`].
    pub number: u64,
}

impl Delivery {
    /// What it costs a session that owes it, in bytes: the message as if nobody shared it, and its
    /// place here.
    #[must_use]
    pub fn cost(&self) -> usize {
        self.message_cost() + InFlight::COST
    }

    /// The same without a place.
    pub(crate) fn message_cost(&self) -> usize {
        let ids = self.subscription_ids.as_slice();
        self.message.shared_bytes() + size_of_val(ids)
    }
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
    /// PUBREL sent: the message itself is gone. It was the delivery with this number.
    Completion(u64),
}

#[derive(Debug)]
struct InFlight {
    packet_id: PacketId,
    /// When it was sent last, in whole seconds of [`Tick`].
    sent_secs: u32,
    awaits: Awaits,
}

impl InFlight {
    /// A queue has room for twice as many.
    const COST: usize = 2 * size_of::<Self>();

    fn cost(&self) -> usize {
        match &self.awaits {
            Awaits::Acknowledgement(delivery) | Awaits::Receipt(delivery) => delivery.cost(),
            Awaits::Completion(_) => Self::COST,
        }
    }

    const fn number(&self) -> u64 {
        match &self.awaits {
            Awaits::Acknowledgement(delivery) | Awaits::Receipt(delivery) => delivery.number,
            Awaits::Completion(number) => *number,
        }
    }
}

/// What has become of deliveries that are written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// All deliveries with lower numbers are done.
    pub front: u64,
    /// All deliveries with lower numbers may have been sent.
    pub sent: u64,
    /// Deliveries that are done, besides those.
    pub gone: Vec<u64>,
    /// Deliveries with packet ids that do not follow from their numbers.
    pub odd: Vec<(u64, PacketId)>,
}

/// A delivery that was written down, and is owed still.
#[derive(Clone, Debug)]
pub struct PriorDelivery {
    /// Its number.
    pub number: u64,
    /// The packet id that it was sent with, or that it is to be sent with.
    pub packet_id: PacketId,
    /// The message, or `None` if the client has received it at QoS 2, and PUBREL is to be sent.
    pub delivery: Option<Delivery>,
}

/// The packet id of a delivery with a number: it follows from that, unless it is taken.
fn natural_id(number: u64) -> Option<PacketId> {
    // The rest is below 65,535.
    PacketId::new((number.wrapping_sub(1) % 65_535) as u16 + 1)
}

/// How much may be on its way to a client, sent on the present connection and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Messages.
    pub messages: u16,
    /// What they cost, in bytes. The window closes when they cost as much, so the last one may
    /// exceed it; and one is always let through, so that a message larger than this gets on.
    pub bytes: usize,
}

impl Window {
    const fn is_open(self, sent: usize, sent_bytes: usize) -> bool {
        sent < self.messages as usize && (sent == 0 || sent_bytes < self.bytes)
    }
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

/// A message that has left the queue for the window.
#[derive(Clone, Debug)]
pub struct Advanced {
    /// Its packet id.
    pub packet_id: PacketId,
    /// The message.
    pub delivery: Delivery,
    /// Whether it may have been sent before, in an earlier run of the server.
    pub dup: bool,
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
    /// What those cost.
    sent_bytes: usize,
    /// Messages that wait in memory, behind those on the disk.
    waiting: Blocks<Delivery>,
    /// Messages that wait before those, mostly on the disk.
    spool: Option<Box<Spool>>,
    /// Whether some of what waits in memory is to go to the disk.
    is_due: bool,
    /// Whether the owner of the session may have no more on the disk.
    is_barred: bool,
    /// What was to be sent at the start, and had a lower number, may have been sent before.
    sent_before: u64,
    /// What everything costs that is in memory.
    bytes: usize,
    /// No waiting message expires before this.
    earliest_expiry: Tick,
    /// The same for those that the present sweep has looked at. See
    /// [`Outbound::drop_expired_waiting`].
    swept_expiry: Tick,
    next_id: u16,
    /// The time, as [`owed::note_time`] was told last, in whole seconds.
    now_secs: u32,
    /// Whether the window is ordered by distance from its front.
    ordered: bool,
    /// Whether the numbers in the window ascend: what the client has received at QoS 2 is put there
    /// at the start, before what is fetched from the disk.
    ascends: bool,
    /// The highest of them since the window was empty.
    highest: u64,
    /// How many deliveries have got a number.
    numbers: u64,
    /// Deliveries with numbers that are done out of order, and not reported yet.
    gone: Vec<u64>,
    /// Deliveries with packet ids that do not follow from their numbers, and not reported yet.
    odd: Vec<(u64, PacketId)>,
    /// Whether there is something to report of deliveries with numbers.
    has_progress: bool,
    /// Whether a shared subscription may have chosen the session for some of it.
    has_shared: bool,
}

impl Default for Outbound {
    fn default() -> Self {
        Self {
            in_flight: VecDeque::new(),
            sent: 0,
            sent_bytes: 0,
            waiting: Blocks::new(),
            spool: None,
            is_due: false,
            is_barred: false,
            sent_before: 0,
            bytes: 0,
            earliest_expiry: Tick::NEVER,
            swept_expiry: Tick::NEVER,
            next_id: 1,
            now_secs: 0,
            ordered: true,
            ascends: true,
            highest: 0,
            numbers: 0,
            gone: Vec::new(),
            odd: Vec::new(),
            has_progress: false,
            has_shared: false,
        }
    }
}

impl Outbound {
    /// Nothing is owed; the first packet id is this one, or the next that can be one.
    ///
    /// A session that owes nothing need not keep its `Outbound`: what [`Outbound::next_id`] said at
    /// the end is where the next one goes on, so that packet ids go round. A late acknowledgement
    /// of an old message then frees no new one.
    #[must_use]
    pub fn starting_at(next_id: u16) -> Self {
        Self {
            next_id,
            ..Self::default()
        }
    }

    /// What a session owed that was written down: all deliveries in the order of their numbers,
    /// and what is on the disk. Of numbers, `numbers` have been given, and what is below `sent` may
    /// have been sent.
    #[must_use]
    pub fn restored(
        numbers: u64,
        sent: u64,
        deliveries: impl IntoIterator<Item = PriorDelivery>,
        spooled: Vec<Spooled>,
    ) -> Self {
        restored::restored(numbers, sent, deliveries, spooled)
    }

    fn push_in_flight(&mut self, entry: InFlight) {
        if let (Some(first), Some(last)) = (self.in_flight.front(), self.in_flight.back()) {
            self.ordered &= distance(first, last.packet_id) < distance(first, entry.packet_id);
            self.ascends &= entry.number() == 0 || self.highest < entry.number();
        } else {
            (self.ascends, self.highest) = (true, 0);
        }
        self.highest = self.highest.max(entry.number());
        self.in_flight.push_back(entry);
    }

    /// How many messages [`Outbound::for_each_shared`] and [`Outbound::own_len`] look at, about.
    #[must_use]
    pub fn looked_at_by_end(&self) -> usize {
        let waiting = match self.has_shared {
            true => self.waiting_len() - self.spool.as_ref().map_or(0, |spool| spool.chunk_len()),
            false => 0,
        };
        self.in_flight.len() + waiting
    }

    /// Visits the messages that other members of shared subscriptions should get if the session
    /// ends. O(messages), but for a session that none of these has ever chosen.
    pub fn for_each_shared(&self, visit: impl FnMut(&Delivery)) {
        if !self.has_shared {
            return;
        }
        for_each_shared(&self.in_flight, self.waiting_here(), visit);
    }

    /// The messages that wait in memory, in order.
    fn waiting_here(&self) -> impl Iterator<Item = &Delivery> {
        let spool = self.spool.iter();
        spool
            .flat_map(|spool| spool.held())
            .chain(self.waiting.iter())
    }

    /// The number of the next delivery that is written down. [`Outbound::send`] and
    /// [`Outbound::wait`] give it away when they take a delivery with it.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.numbers + 1
    }

    /// Whether deliveries of this session have numbers.
    #[must_use]
    pub const fn is_numbered(&self) -> bool {
        self.numbers > 0
    }

    /// How far the deliveries with numbers have come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let numbered = |number: &u64| *number > 0;
        let waiting = self.waiting.iter().map(|delivery| delivery.number);
        let next = self.next_number();
        let spooled = self.spool.as_ref().and_then(|spool| spool.first(next));
        let waits = spooled
            .or_else(|| { waiting }.find(numbered))
            .unwrap_or(next);
        let in_flight = self.in_flight.iter().map(InFlight::number);
        let mut in_flight = in_flight.filter(numbered);
        let (first, last) = match self.ascends {
            true => (in_flight.clone().next(), in_flight.next_back()),
            false => (in_flight.clone().min(), in_flight.max()),
        };
        // What was received at QoS 2 may be in the window before what is fetched.
        let front = first.map_or(waits, |first| first.min(waits));
        let sent = last.map_or(front, |last| last + 1);
        let mut gone = self.gone.clone();
        gone.retain(|number| *number >= front);
        Progress {
            front,
            sent: sent.max(self.sent_before.min(next)),
            gone,
            odd: self.odd.clone(),
        }
    }

    /// Whether a delivery was given a packet id that does not follow from its number, and that was
    /// not reported.
    #[must_use]
    pub const fn has_odd(&self) -> bool {
        !self.odd.is_empty()
    }

    /// What there is to report since it was last asked for; `None` for nothing.
    pub fn take_progress(&mut self) -> Option<Progress> {
        if !core::mem::take(&mut self.has_progress) {
            return None;
        }
        let progress = self.progress();
        self.gone = Vec::new();
        self.odd = Vec::new();
        Some(progress)
    }

    /// A delivery is done.
    fn is_done(&mut self, number: u64, is_first: bool) {
        if number > 0 {
            self.has_progress = true;
            if let Some(spool) = &mut self.spool {
                spool.is_done(number);
            }
            if !is_first || self.spool.is_some() || !self.ascends {
                self.gone.push(number);
            }
        }
    }

    /// All that is owed and written down, in order, with the packet ids of what was sent: `None` in
    /// the place of a message that the client has received. What is in chunks is not among it, but
    /// for such messages: see [`backlog::spooled_but`]. Neither is what waits in memory and has one
    /// of these numbers.
    pub fn numbered_but(
        &self,
        parts: Range<u64>,
    ) -> impl Iterator<Item = (u64, Option<PacketId>, Option<&Delivery>)> {
        let sent = self.in_flight.iter().map(|entry| {
            let delivery = match &entry.awaits {
                Awaits::Acknowledgement(delivery) | Awaits::Receipt(delivery) => Some(delivery),
                Awaits::Completion(_) => None,
            };
            (entry.number(), Some(entry.packet_id), delivery)
        });
        let spool = self.spool.as_deref();
        let fetched = spool.into_iter().flat_map(|spool| spool.front.iter());
        let runs = spool.into_iter().flat_map(Spool::runs);
        let waiting = runs.chain(self.waiting.iter());
        let waiting = waiting.filter(move |it| !parts.contains(&it.number));
        let waiting = fetched.chain(waiting).map(move |delivery| {
            let odd = spool.and_then(|spool| spool.odd.get(&delivery.number));
            (delivery.number, odd.copied(), Some(delivery))
        });
        let is_spooled = move |number: u64| spool.is_some_and(|spool| spool.is_open(number));
        sent.chain(waiting).filter(move |(number, _, delivery)| {
            *number > 0 && !(delivery.is_some() && is_spooled(*number))
        })
    }

    /// The number of what was sent with a packet id; 0 for none.
    #[must_use]
    pub fn number_of(&self, packet_id: PacketId) -> u64 {
        let entry = self
            .position(packet_id)
            .and_then(|at| self.in_flight.get(at));
        entry.map_or(0, InFlight::number)
    }

    /// Where the search for the next packet id begins.
    #[must_use]
    pub const fn next_id(&self) -> u16 {
        self.next_id
    }

    /// Messages in flight.
    #[must_use]
    pub fn in_flight_len(&self) -> usize {
        self.in_flight.len()
    }

    /// Messages that wait for a place in the window, or for the client to come back.
    #[must_use]
    pub fn waiting_len(&self) -> usize {
        self.waiting.len() + self.spool.as_ref().map_or(0, |spool| spool.len())
    }

    /// Those of them that are in memory, and are not about to go to the disk.
    #[must_use]
    pub fn held_len(&self) -> usize {
        self.waiting.len() + self.spool.as_ref().map_or(0, |spool| spool.held_len())
    }

    /// Messages that are owed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_flight.len() + self.waiting_len()
    }

    /// What the messages cost that are in memory, waiting or in flight, in bytes. O(1).
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same without those that the disk is about to have. O(1).
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let under_way = self
            .spool
            .as_ref()
            .map_or(0, |spool| spool.under_way_bytes());
        self.bytes - under_way
    }

    /// Whether nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && !self.waits()
    }

    /// Whether anything waits.
    fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.spool.as_ref().is_some_and(|spool| !spool.is_empty())
    }

    /// Puts a message into the window.
    ///
    /// Returns `None`, and the message is not taken, when the window is closed or others wait
    /// already: order is kept [MQTT-4.6.0-5].
    pub fn send(&mut self, window: Window, delivery: &Delivery) -> Option<PacketId> {
        if !self.may_send(window) {
            return None;
        }
        self.bytes += delivery.cost();
        self.has_shared |= delivery.share != 0;
        self.numbers = self.numbers.max(delivery.number);
        Some(self.launch(delivery.clone()))
    }

    /// Whether [`Outbound::send`] would take a message now.
    #[must_use]
    pub fn may_send(&self, window: Window) -> bool {
        !self.waits() && self.has_room(window)
    }

    /// Whether something has to be sent again, or waits.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.sent < self.in_flight.len() || self.waits()
    }

    fn has_room(&self, window: Window) -> bool {
        self.sent == self.in_flight.len() && window.is_open(self.sent, self.sent_bytes)
    }

    /// Puts a message that is counted already into the window.
    fn launch(&mut self, delivery: Delivery) -> PacketId {
        let packet_id = self.identify(&delivery);
        self.sent_bytes += delivery.cost();
        let awaits = match delivery.qos {
            QoS::ExactlyOnce => Awaits::Receipt(delivery),
            QoS::AtMostOnce | QoS::AtLeastOnce => Awaits::Acknowledgement(delivery),
        };
        self.push_in_flight(InFlight {
            packet_id,
            sent_secs: self.now_secs,
            awaits,
        });
        self.sent += 1;
        packet_id
    }

    /// The packet id of a delivery.
    fn identify(&mut self, delivery: &Delivery) -> PacketId {
        if delivery.number == 0 {
            return self.allocate();
        }
        self.has_progress = true;
        let before = self
            .spool
            .as_ref()
            .and_then(|it| it.odd.get(&delivery.number));
        let natural = before.copied().or_else(|| natural_id(delivery.number));
        let natural = natural.filter(|packet_id| self.position(*packet_id).is_none());
        let packet_id = natural.unwrap_or_else(|| {
            let other = self.allocate();
            self.odd.push((delivery.number, other));
            other
        });
        self.next_id = packet_id.get().wrapping_add(1);
        packet_id
    }

    /// The next free packet id in the circle. The window is far smaller than the circle, but a
    /// slow acknowledgement can stay behind for a whole turn.
    ///
    /// O(log window) for one that is free, else O(window).
    fn allocate(&mut self) -> PacketId {
        let mut taken: Option<Vec<u64>> = None;
        loop {
            let candidate = PacketId::new(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            let Some(packet_id) = candidate else {
                continue;
            };
            let is_free = match &taken {
                Some(taken) => !has_bit(taken, packet_id),
                None => self.position(packet_id).is_none(),
            };
            if is_free {
                return packet_id;
            }
            // Thousands in a row may be taken.
            taken.get_or_insert_with(|| self.taken_ids());
        }
    }

    /// The packet ids in the window, as bits.
    fn taken_ids(&self) -> Vec<u64> {
        let mut taken = alloc::vec![0_u64; 1 << 10];
        for entry in &self.in_flight {
            let id = entry.packet_id.get();
            if let Some(word) = taken.get_mut(usize::from(id / 64)) {
                *word |= 1 << (id % 64);
            }
        }
        taken
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
        self.bytes += delivery.cost();
        self.has_shared |= delivery.share != 0;
        let expires_at = delivery.message.expires_at;
        self.earliest_expiry = self.earliest_expiry.min(expires_at);
        self.swept_expiry = self.swept_expiry.min(expires_at);
        self.numbers = self.numbers.max(delivery.number);
        self.waiting.push_back(delivery);
    }

    /// Drops some of the waiting messages that have expired, and tells their topics
    /// [MQTT-3.3.2-5]. Where one of them may have expired, a call looks at the next 256 of them at
    /// most, and later calls go on from there; else it does nothing. Returns how many it looked at.
    pub fn drop_expired_waiting(&mut self, now: Tick, mut tell: impl FnMut(&str)) -> usize {
        if now < self.earliest_expiry {
            return 0;
        }
        let (bytes, swept) = (&mut self.bytes, &mut self.swept_expiry);
        let (gone, has_progress) = (&mut self.gone, &mut self.has_progress);
        let (looked, is_last) = self.waiting.retain_next(|delivery| {
            let message = &delivery.message;
            if message.is_expired(now) {
                *bytes -= delivery.cost();
                if delivery.number > 0 {
                    gone.push(delivery.number);
                    *has_progress = true;
                }
                tell(message.topic());
                return false;
            }
            *swept = (*swept).min(message.expires_at);
            true
        });
        if is_last {
            self.earliest_expiry = core::mem::replace(&mut self.swept_expiry, Tick::NEVER);
        }
        looked
    }

    /// The oldest waiting message.
    #[must_use]
    pub fn oldest_waiting(&self) -> Option<&Delivery> {
        self.waiting.front()
    }

    /// Takes the oldest waiting message out, to drop it.
    pub fn drop_oldest_waiting(&mut self) -> Option<Delivery> {
        let delivery = self.waiting.pop_front()?;
        self.bytes -= delivery.cost();
        self.is_done(delivery.number, self.in_flight.is_empty());
        Some(delivery)
    }

    /// Moves the oldest waiting message into the window, if there is room, and it is in memory.
    pub fn advance(&mut self, window: Window) -> Option<Advanced> {
        if !self.has_room(window) {
            return None;
        }
        let delivery = match &mut self.spool {
            Some(spool) if !spool.is_empty() => spool.pop_front()?,
            _ => self.waiting.pop_front()?,
        };
        let dup = (1..self.sent_before).contains(&delivery.number);
        Some(Advanced {
            packet_id: self.launch(delivery.clone()),
            delivery,
            dup,
        })
    }

    /// The connection is gone: everything in flight is to be sent again on the next one.
    pub const fn disconnected(&mut self) {
        self.sent = 0;
        self.sent_bytes = 0;
    }

    /// What to send again next, if the window has room; with its original packet id, in the
    /// original order [MQTT-4.4.0-1] [MQTT-4.6.0-1].
    pub fn resend(&mut self, window: Window) -> Option<Resend<'_>> {
        let entry = self.in_flight.get_mut(self.sent)?;
        if !window.is_open(self.sent, self.sent_bytes) {
            return None;
        }
        entry.sent_secs = self.now_secs;
        self.sent += 1;
        self.sent_bytes += entry.cost();
        Some(match &entry.awaits {
            Awaits::Acknowledgement(delivery) | Awaits::Receipt(delivery) => {
                Resend::Publish(entry.packet_id, delivery)
            }
            Awaits::Completion(_) => Resend::PubRel(entry.packet_id),
        })
    }

    /// Takes out what the session must not have any more: of the messages that wait, and of those
    /// that are to be sent again. What was sent on this connection stays until it is acknowledged.
    pub fn withdraw(&mut self, mut may_have: impl FnMut(&Message) -> bool) -> Remains {
        let mut withdrawn = Remains::default();
        let mut index = self.sent;
        while let Some(entry) = self.in_flight.get(index) {
            match &entry.awaits {
                Awaits::Acknowledgement(delivery) | Awaits::Receipt(delivery)
                    if !may_have(&delivery.message) =>
                {
                    withdrawn.push(delivery.clone());
                    self.complete(index);
                }
                Awaits::Acknowledgement(_) | Awaits::Receipt(_) | Awaits::Completion(_) => {
                    index += 1
                }
            }
        }
        let spool = self.spool.as_mut();
        let spooled = spool.map(|spool| spool.withdraw(|it| may_have(&it.message)));
        for delivery in spooled.into_iter().flatten() {
            self.bytes -= delivery.cost();
            self.is_done(delivery.number, false);
            withdrawn.push(delivery);
        }
        for delivery in self.waiting.take() {
            if may_have(&delivery.message) {
                self.waiting.push_back(delivery);
            } else {
                self.bytes -= delivery.cost();
                self.is_done(delivery.number, false);
                withdrawn.push(delivery);
            }
        }
        withdrawn
    }

    /// How many messages are lost if the session ends: all that the client has not received,
    /// without those that other members of its shared subscriptions get. O(window), or O(messages)
    /// if these have chosen the session.
    #[must_use]
    pub fn own_len(&self) -> usize {
        let is_lost = |entry: &&InFlight| match &entry.awaits {
            Awaits::Acknowledgement(delivery) => delivery.share == 0,
            Awaits::Receipt(_) => true,
            Awaits::Completion(_) => false,
        };
        let in_flight = self.in_flight.iter().filter(is_lost).count();
        if !self.has_shared {
            return in_flight + self.waiting_len();
        }
        let waiting = self.waiting_here().filter(|delivery| delivery.share == 0);
        in_flight + waiting.count() + self.spool.as_ref().map_or(0, |spool| spool.chunk_len())
    }

    /// Ends the session's debt. O(1): the rest is done where the remains are walked.
    #[must_use]
    pub fn abandon(self) -> Remains {
        Remains {
            next: self.next_number(),
            in_flight: self.in_flight,
            spool: self.spool,
            waiting: self.waiting,
            bytes: self.bytes,
            chunks: Vec::new(),
        }
    }
}

/// Whether a packet id is among these: see [`Outbound::taken_ids`].
fn has_bit(taken: &[u64], packet_id: PacketId) -> bool {
    let id = packet_id.get();
    let word = taken.get(usize::from(id / 64));
    word.is_some_and(|word| word >> (id % 64) & 1 == 1)
}

#[cfg(test)]
mod tests;
