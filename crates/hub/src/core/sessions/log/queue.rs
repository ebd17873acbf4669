//! Everything that a session is owed, as a part of its base.

use alloc::sync::Arc;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use stentor_mqtt::PacketId;
use stentor_session::backlog::spooled_but;
use stentor_session::{Delivery, Message, Outbound, Spooled};
use stentor_session_log::{
    Carry, Debt, Delivery as Place, Elsewhere, HeldBack, Identifier, List, Name, Owed, Part, Queue,
    Record, Share, Terms,
};

use super::owed::{Open, body};
use super::parts::Taken;
use super::ways::name_of;
use super::{Number, SessionLog, is_carried_first};
use crate::core::routing::share::{ShareName, Shares as AllShares};

/// A delivery with its number and packet id; without the message if the client has received that.
pub(super) type Numbered<'q> = (u64, Option<PacketId>, Option<&'q Delivery>);

/// A delivery as the base of its session has it.
pub(super) struct Kept<'q> {
    number: u64,
    packet_id: Option<PacketId>,
    message: Option<(Name, &'q Delivery)>,
    identifiers: Vec<Identifier>,
    /// Its place among [`Shares`].
    share: Option<u32>,
}

/// The shared subscriptions that chose a session, each once: their names may be long.
#[derive(Default)]
pub(super) struct Shares {
    names: Vec<Arc<ShareName>>,
    places: HashMap<u64, u32, FixedState>,
}

impl Shares {
    /// The place of the one with this number, which has this name.
    fn place(&mut self, number: u64, name: Arc<ShareName>) -> u32 {
        let names = &mut self.names;
        *self.places.entry(number).or_insert_with(|| {
            names.push(name);
            // No session has as many subscriptions.
            names.len() as u32 - 1
        })
    }

    fn in_order(&self) -> Vec<Share<'_>> {
        let all = self.names.iter().map(|name| Share {
            group: &name.group,
            filter: &name.filter,
        });
        all.collect()
    }
}

impl Kept<'_> {
    fn owed(&self) -> Owed<'_> {
        Owed {
            delivery: self.number - 1,
            packet_id: self.packet_id,
            debt: match self.message {
                None => Debt::Release,
                Some((name, delivery)) => {
                    let terms = terms(delivery, &self.identifiers);
                    Debt::Message(name, terms, self.share)
                }
            },
        }
    }
}

/// How a delivery is written, but for its shared subscription.
pub(crate) fn terms<'i>(delivery: &Delivery, identifiers: &'i [Identifier]) -> Terms<'i> {
    Terms {
        qos: delivery.qos,
        retain: delivery.retain,
        held: false,
        conflated: delivery.conflated,
        identifiers: List::new(identifiers),
        share: None,
    }
}

pub(crate) fn identifiers(delivery: &Delivery) -> Vec<Identifier> {
    let ids = delivery.subscription_ids.as_slice().iter();
    ids.map(|id| Identifier(*id)).collect()
}

/// What a session is owed, and which of it is in parts before its base.
pub(super) struct All<'q> {
    pub(super) owed: &'q Outbound,
    pub(super) parts: Option<Taken>,
}

impl SessionLog {
    /// Everything that a session is owed, and the messages themselves. `held` is what is held back.
    pub(super) fn queue<'q>(
        &mut self,
        number: Number,
        All { owed, parts }: &All<'q>,
        held: impl Iterator<Item = &'q Delivery>,
        shared: &AllShares,
    ) {
        self.close();
        let mut shares = Shares::default();
        let in_parts = parts.as_ref().map_or(0..0, |it| it.numbers.clone());
        let all = owed.numbered_but(in_parts.clone());
        let kept = keep(self, all, &mut shares, shared);
        let held = held.filter_map(|delivery| self::held(self, delivery));
        let held: Vec<Held<'_>> = held.collect();
        let progress = owed.progress();
        let shares = shares.in_order();
        let queue = Queue {
            number: number.get(),
            next: owed.next_number() - 1,
            sent: progress.sent.saturating_sub(1),
            shares: List::new(&shares),
            owed: List::default(),
            held: List::default(),
        };
        let all = kept.iter().map(Kept::owed);
        queue.encode_to(all, held.iter().map(held_back), self.batches.records());
        if let Some(parts) = parts {
            parts.write(number, self);
        }
        let received = received(owed);
        for it in spooled_but(owed, &in_parts) {
            write_spooled(self, number, &it, &received);
        }
    }

    /// Sees to it that the message itself is in this round of bases. Returns its name.
    fn carry(&mut self, delivery: &Delivery) -> Option<Name> {
        let message = &delivery.message;
        let Some((from, name)) = self.place_of(message) else {
            if !self.takes_body(message) {
                return None;
            }
            // What was written of it was dropped.
            return Some(self.write_message(&Open::new(message)));
        };
        if name.file > 0 && is_carried_first(self, from, name) {
            self.write_body(name, message);
        }
        Some(name)
    }

    fn write_body(&mut self, name: Name, message: &Message) {
        let carry = Record::Carry(Carry {
            name,
            body: body(self, message),
            elsewhere: Elsewhere::default(),
        });
        carry.encode(self.batches.records());
    }
}

/// Appends a part, with these deliveries, and those that are held back.
pub(super) fn put_part(
    log: &mut SessionLog,
    part: &Part<'_>,
    shares: &Shares,
    here: &[Kept<'_>],
    held: &[Held<'_>],
) {
    let shares = shares.in_order();
    let part = Part {
        shares: List::new(&shares),
        ..*part
    };
    let here = here.iter().map(Kept::owed);
    part.encode_to(here, held.iter().map(held_back), log.batches.records());
}

/// A message that is held back, with its name.
pub(super) type Held<'q> = (Name, &'q Delivery, Vec<Identifier>);

/// Such a message. Carries it. `None` if it is too large to be written down.
pub(super) fn held<'q>(log: &mut SessionLog, delivery: &'q Delivery) -> Option<Held<'q>> {
    let name = log.carry(delivery)?;
    Some((name, delivery, identifiers(delivery)))
}

fn held_back<'h>((name, delivery, identifiers): &'h Held<'_>) -> HeldBack<'h> {
    HeldBack {
        name: *name,
        terms: Terms {
            held: true,
            ..terms(delivery, identifiers)
        },
    }
}

/// Numbers of deliveries that the client has received at QoS 2, ascending. O(in flight).
pub(super) fn received(owed: &Outbound) -> Vec<u64> {
    let all = owed.numbered_but(0..u64::MAX);
    let all = all.filter(|(.., delivery)| delivery.is_none());
    let mut all: Vec<u64> = all.map(|(number, ..)| number).collect();
    all.sort_unstable();
    all
}

/// A delivery, and what has to be said of it. Carries the message itself. `None` if that is too
/// large to be written down.
pub(super) fn kept<'q>(
    log: &mut SessionLog,
    (number, packet_id, delivery): Numbered<'q>,
    shares: &mut Shares,
    shared: &AllShares,
) -> Option<Kept<'q>> {
    let message = match delivery {
        None => None,
        Some(delivery) => Some((log.carry(delivery)?, delivery)),
    };
    Some(Kept {
        number,
        packet_id,
        message,
        identifiers: delivery.map(identifiers).unwrap_or_default(),
        share: delivery.and_then(|it| {
            let slot = shared.by_number(it.share)?;
            Some(shares.place(it.share, shared.shared_name(slot)?))
        }),
    })
}

fn keep<'q>(
    log: &mut SessionLog,
    all: impl Iterator<Item = Numbered<'q>>,
    shares: &mut Shares,
    shared: &AllShares,
) -> Vec<Kept<'q>> {
    let all = all.filter_map(|one| kept(log, one, shares, shared));
    let mut all: Vec<Kept<'_>> = all.collect();
    if !all.is_sorted_by_key(|it| it.number) {
        // What was received at QoS 2 before the start precedes what was on the disk.
        all.sort_by_key(|it| it.number);
    }
    all
}

/// What a session is owed that lies elsewhere, after its queue: that says what the client has
/// received at QoS 2.
pub(super) fn write_spooled(log: &mut SessionLog, number: Number, it: &Spooled, received: &[u64]) {
    number.spooled(log, &it.chunk);
    let number = number.get();
    // Records count from 0 on.
    let is_done = |delivery: &&u64| received.binary_search(delivery).is_err();
    for delivery in it.gone.iter().filter(is_done) {
        let delivery = delivery - 1;
        log.write(&Record::Gone(Place { number, delivery }));
    }
    for (delivery, packet_id) in &it.odd {
        let delivery = delivery - 1;
        let (delivery, packet_id) = (Place { number, delivery }, *packet_id);
        log.write(&Record::Sent {
            delivery,
            packet_id,
        });
    }
}

/// Sees to it that the message itself is in this round of bases, before the base that names it.
/// Returns whether it has a name for that.
pub(super) fn carry_alone(log: &mut SessionLog, delivery: &Delivery) -> bool {
    let message = &delivery.message;
    log.close();
    match name_of(message) {
        Some((from, name)) if log.round.has(from == log.shard, name) => true,
        Some((from, name)) => {
            log.batches.part_for(message.body_bytes());
            if is_carried_first(log, from, name) {
                log.write_body(name, message);
            }
            true
        }
        None if !log.takes_body(message) => true,
        None => {
            // What was written of it was dropped.
            log.batches.part_for(message.body_bytes());
            if log.place_of(message).is_none() {
                log.write_message(&Open::new(message));
            }
            false
        }
    }
}
