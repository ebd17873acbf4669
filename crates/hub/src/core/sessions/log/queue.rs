//! Everything that a session is owed, as a part of its base.

use alloc::sync::Arc;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use stentor_mqtt::PacketId;
use stentor_session::{Delivery, Message, Outbound, Spooled, backlog};
use stentor_session_log::{
    Carry, Debt, Delivery as Place, Elsewhere, HeldBack, Identifier, List, Name, Owed, Queue,
    Record, Share, Terms,
};

use super::owed::{Open, body};
use super::ways::name_of;
use super::{Number, SessionLog, is_carried_first};
use crate::core::routing::share::ShareName;

/// A delivery as the base of its session has it.
struct Kept<'q> {
    number: u64,
    packet_id: Option<PacketId>,
    message: Option<(Name, &'q Delivery)>,
    identifiers: Vec<Identifier>,
    /// Its place among [`Shares`].
    share: Option<u32>,
}

/// The shared subscriptions that chose a session, each once: their names may be long.
#[derive(Default)]
struct Shares {
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
    fn terms(&self, delivery: &Delivery) -> Terms<'_> {
        terms(delivery, &self.identifiers)
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

impl SessionLog {
    /// Everything that a session is owed, and the messages themselves. `held` is what is held back.
    pub(super) fn queue<'q>(
        &mut self,
        number: Number,
        owed: &'q Outbound,
        held: impl Iterator<Item = &'q Delivery>,
        share_of: impl Fn(u64) -> Option<Arc<ShareName>>,
    ) {
        self.close();
        let mut shares = Shares::default();
        let kept = keep(self, owed, &mut shares, share_of);
        let held = held.filter_map(|delivery| {
            Some(Kept {
                number: 0,
                packet_id: None,
                message: Some((self.carry(delivery)?, delivery)),
                identifiers: identifiers(delivery),
                share: None,
            })
        });
        let held: Vec<Kept<'_>> = held.collect();
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
        let spooled = backlog::spooled(owed);
        let owed = kept.iter().map(|it| Owed {
            delivery: it.number - 1,
            packet_id: it.packet_id,
            debt: match it.message {
                None => Debt::Release,
                Some((name, delivery)) => Debt::Message(name, it.terms(delivery), it.share),
            },
        });
        let held: Vec<HeldBack<'_>> = held
            .iter()
            .filter_map(|it| {
                let (name, delivery) = it.message?;
                let terms = Terms {
                    held: true,
                    ..it.terms(delivery)
                };
                Some(HeldBack { name, terms })
            })
            .collect();
        queue.encode_to(owed, held.into_iter(), self.batches.records());
        let received = kept.iter().filter(|it| it.message.is_none());
        let received: Vec<u64> = received.map(|it| it.number).collect();
        for it in spooled {
            write_spooled(self, number, (&it, &received));
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
        if name.file > 0 && is_carried_first(self, (from, name)) {
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

/// What a session is owed, and what has to be said of it. Carries the messages themselves.
fn keep<'q>(
    log: &mut SessionLog,
    owed: &'q Outbound,
    shares: &mut Shares,
    share_of: impl Fn(u64) -> Option<Arc<ShareName>>,
) -> Vec<Kept<'q>> {
    let mut kept = Vec::new();
    for (number, packet_id, delivery) in owed.numbered() {
        let message = match delivery {
            None => None,
            Some(delivery) => match log.carry(delivery) {
                Some(name) => Some((name, delivery)),
                None => continue,
            },
        };
        kept.push(Kept {
            number,
            packet_id,
            message,
            identifiers: delivery.map(identifiers).unwrap_or_default(),
            share: delivery.and_then(|it| Some(shares.place(it.share, share_of(it.share)?))),
        });
    }
    if !kept.is_sorted_by_key(|it| it.number) {
        // What was received at QoS 2 before the start precedes what was on the disk.
        kept.sort_by_key(|it| it.number);
    }
    kept
}

/// What a session is owed that lies elsewhere, after its queue: that says what the client has
/// received at QoS 2.
fn write_spooled(log: &mut SessionLog, number: Number, (it, received): (&Spooled, &[u64])) {
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
        Some(place) if log.round.has(place.0 == log.shard, place.1) => true,
        Some(place) => {
            log.batches.part_for(message.body_bytes());
            if is_carried_first(log, place) {
                log.write_body(place.1, message);
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
