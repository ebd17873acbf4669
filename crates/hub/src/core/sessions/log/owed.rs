//! Messages that are owed, as they are written down.
//!
//! A message is written once, by the shard that took it, with its recipients there and the other
//! shards that may have some. While it is handed out, it is open: the deliveries to sessions with
//! numbers are added to it. Any other record closes it, so that records keep their order.
//!
//! Another shard writes the message itself once more if it owes it to somebody, so that each can
//! give up its older files without asking others. It names the message as the first one did, which
//! also says what it has taken: see [`super::ways`].

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use stentor_mqtt::QoS;
use stentor_session::{Delivery, Message, Tick};
use stentor_session_log::{
    Again, Body, Carry, Elsewhere, Group, Held, Identifier, List, Member, Message as MessageRecord,
    Name, Owe, Record, Share, Terms,
};

use super::ways::name_of;
use super::{Number, SessionLog};
use crate::core::ids::ShardId;
use crate::core::routing::share::ShareName;
use crate::core::shard_set::ShardSet;

/// A name before all others.
const FIRST: Name = Name { file: 1, offset: 0 };

/// Bytes of topic, properties and payload: a message that has more is not written down. A file has
/// room for it and for very many recipients.
pub const WRITTEN_BYTES_MAX: usize = 700 << 10;

/// A message with deliveries that are not written yet.
#[derive(Debug)]
pub(super) struct Open {
    message: Arc<Message>,
    /// The shards that may owe it to more sessions.
    shards: ShardSet,
    /// Their topic, if it is not that of the message.
    route: Option<Box<str>>,
    /// Shared subscriptions that another shard chooses a member of.
    members: Vec<(u8, Arc<ShareName>)>,
    numbers: Vec<u32>,
    groups: Vec<Alike>,
    copy: JournalCopy,
}

/// Whether the journal of this shard has a message that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalCopy {
    /// Perhaps: the log knows.
    Usual,
    /// It has.
    There,
    /// Nobody knows, since it was written long ago.
    Unknown,
}

/// The shared subscription that chose the session, and whether the message is held back.
type How<'s> = (Option<&'s Arc<ShareName>>, bool);

/// Deliveries on the same terms.
#[derive(Debug)]
struct Alike {
    qos: QoS,
    retain: bool,
    conflated: u32,
    held: bool,
    identifiers: SmallVec<[Identifier; 1]>,
    share: Option<Arc<ShareName>>,
    range: Range<usize>,
}

impl Alike {
    fn is_like(&self, delivery: &Delivery, (share, held): How<'_>) -> bool {
        let identifiers = delivery.subscription_ids.as_slice();
        self.qos == delivery.qos
            && self.retain == delivery.retain
            && self.conflated == delivery.conflated
            && self.held == held
            && self.share.as_ref() == share
            && self
                .identifiers
                .iter()
                .map(|it| it.0)
                .eq(identifiers.iter().copied())
    }

    fn terms(&self) -> Terms<'_> {
        Terms {
            qos: self.qos,
            retain: self.retain,
            held: self.held,
            conflated: self.conflated,
            identifiers: List::new(&self.identifiers),
            share: self.share.as_deref().map(|name| Share {
                group: &name.group,
                filter: &name.filter,
            }),
        }
    }
}

impl Open {
    pub(super) fn new(message: &Arc<Message>) -> Self {
        Self {
            message: Arc::clone(message),
            shards: ShardSet::EMPTY,
            route: None,
            copy: JournalCopy::Usual,
            members: Vec::new(),
            numbers: Vec::new(),
            groups: Vec::new(),
        }
    }

    fn groups(&self) -> impl ExactSizeIterator<Item = Group<'_>> {
        self.groups.iter().map(|alike| Group {
            terms: alike.terms(),
            numbers: List::new(self.numbers.get(alike.range.clone()).unwrap_or_default()),
        })
    }
}

impl SessionLog {
    /// Whether messages of this QoS are written down: somebody may be owed one after a restart.
    #[inline]
    pub(crate) fn writes(&self, qos: QoS) -> bool {
        qos != QoS::AtMostOnce && self.is_on() && !self.ways.lasting().is_empty()
    }

    /// Of these shards, those where somebody may be owed a message after a restart.
    pub(crate) fn lasting(&self, shards: ShardSet) -> ShardSet {
        shards & self.ways.lasting()
    }

    /// Whether a message is small enough to be written down.
    #[allow(clippy::unused_self, reason = "a question to the log")]
    pub(crate) fn takes_body(&self, message: &Message) -> bool {
        message.body_bytes() <= WRITTEN_BYTES_MAX
    }

    /// A session owes a message from now on.
    pub(crate) fn owes(
        &mut self,
        number: Number,
        delivery: &Delivery,
        share: Option<&Arc<ShareName>>,
        copy: JournalCopy,
    ) {
        self.owes_as(number, delivery, (share, false), copy);
    }

    /// A message is held back for a session from now on.
    pub(crate) fn holds(&mut self, number: Number, delivery: &Delivery, copy: JournalCopy) {
        if self.takes_body(&delivery.message) {
            self.owes_as(number, delivery, (None, true), copy);
        }
    }

    /// A message that was held back for a session is not any more: it takes its place in the queue
    /// now, or is dropped.
    pub(crate) fn lets_go(&mut self, number: Number, message: &Arc<Message>) {
        self.close();
        match self.place_of(message) {
            Some((_, name)) => {
                let number = number.get();
                // A name in this batch is of no use in another one.
                self.write_beside(&Record::Dropped(Held { number, name }));
            }
            None if self.waits() => self.let_go.push((number, Arc::clone(message))),
            // It was dropped.
            None => {}
        }
    }

    fn owes_as(&mut self, number: Number, delivery: &Delivery, how: How<'_>, copy: JournalCopy) {
        let open = self.open(&delivery.message);
        if copy != JournalCopy::Usual {
            open.copy = copy;
        }
        open.numbers.push(number.get());
        let end = open.numbers.len();
        if let Some(last) = open.groups.last_mut()
            && last.is_like(delivery, how)
        {
            last.range.end = end;
            return;
        }
        let identifiers = delivery.subscription_ids.as_slice().iter();
        open.groups.push(Alike {
            qos: delivery.qos,
            retain: delivery.retain,
            conflated: delivery.conflated,
            held: how.1,
            identifiers: identifiers.map(|id| Identifier(*id)).collect(),
            share: how.0.cloned(),
            range: end - 1..end,
        });
    }

    fn open(&mut self, message: &Arc<Message>) -> &mut Open {
        let is_it = |open: &Open| Arc::ptr_eq(&open.message, message);
        if !self.open.as_ref().is_some_and(is_it) {
            self.close();
            // One that is written already is named.
            if self.place_of(message).is_none() {
                self.batches.part_for(message.body_bytes());
            }
        }
        self.open.get_or_insert_with(|| Open::new(message))
    }

    /// A message is about to be handed out here, and these other shards may owe it too: to who
    /// subscribes to its topic, or to this one.
    pub(crate) fn sends(&mut self, message: &Arc<Message>, shards: ShardSet, route: Option<&str>) {
        if !shards.is_empty() && self.takes_body(message) {
            let open = self.open(message);
            open.shards |= shards;
            open.route = route.map(Into::into);
        }
    }

    /// A message of a shared subscription goes to another shard. Returns the message to send there:
    /// each ring has a name once, since a shard says by the last name what it has taken.
    pub(crate) fn sends_to_member(
        &mut self,
        message: &Arc<Message>,
        shard: u8,
        name: &Arc<ShareName>,
    ) -> Arc<Message> {
        if !self.takes_body(message) {
            return Arc::clone(message);
        }
        let open = self.open.as_ref();
        let open = open.filter(|open| Arc::ptr_eq(&open.message, message));
        let is_named = open.is_some_and(|open| {
            let mut members = open.members.iter();
            open.shards.has(ShardId(shard)) || members.any(|(other, _)| *other == shard)
        });
        let message = match self.place_of(message) {
            None if !is_named => Arc::clone(message),
            _ => {
                let copy = Arc::new(message.copy());
                if names_again(self, message, &copy, shard, name) {
                    return copy;
                }
                copy
            }
        };
        let member = (shard, Arc::clone(name));
        self.open(&message).members.push(member);
        message
    }

    /// Where the record of a message is.
    pub(super) fn place_of(&self, message: &Arc<Message>) -> Option<(u8, Name)> {
        let in_batch = || {
            let offset = self.unnamed.offset(self.batches.present(), message)?;
            Some((self.shard, Name::in_this_batch(offset)))
        };
        name_of(message).or_else(in_batch)
    }

    /// Whether the journal has the body of a message that is open; `None` for another message.
    pub(super) fn opened_body(&self, message: &Arc<Message>) -> Option<bool> {
        let open = self.open.as_ref()?;
        let is_it = Arc::ptr_eq(&open.message, message);
        is_it.then(|| self.has_body(open))
    }

    fn has_body(&self, open: &Open) -> bool {
        let Some((from, name)) = name_of(&open.message) else {
            // It is in this batch.
            return true;
        };
        match open.copy {
            _ if self.round.has(from == self.shard, name) => true,
            JournalCopy::There => true,
            JournalCopy::Usual if self.bequests.are_there() => true,
            _ => self.ways.has_body(from, &open.message),
        }
    }

    /// Writes the open message down.
    pub(crate) fn close(&mut self) {
        self.close_with(None);
    }

    /// The same where it was asked before whether the journal has its body.
    pub(super) fn close_with(&mut self, has_body: Option<bool>) {
        let Some(open) = self.open.take() else {
            return;
        };
        let Some((from, name)) = self.place_of(&open.message) else {
            if !open.shards.is_empty() || !open.members.is_empty() || !open.numbers.is_empty() {
                self.write_message(&open);
            }
            return;
        };
        if open.numbers.is_empty() {
            return;
        }
        if !has_body.unwrap_or_else(|| self.has_body(&open)) {
            let carry = Record::Carry(Carry {
                name,
                body: body(self, &open.message),
                elsewhere: Elsewhere::default(),
            });
            carry.encode(self.batches.records());
            self.ways.way(from).got_body(&open.message);
            let batch = self.batches.present();
            self.round.carries(batch, from == self.shard, name);
        }
        let mark = self.ways.way(from).tell();
        self.ways.is_split |= mark < Some(name);
        let owe = Owe {
            name,
            from,
            sent_by: Some(mark.unwrap_or(FIRST)).filter(|mark| *mark != name),
            recipients: List::default(),
        };
        owe.encode_to(open.groups(), self.batches.records());
    }

    /// Writes a message that has no name. Returns how this batch names it.
    pub(super) fn write_message(&mut self, open: &Open) -> Name {
        let members: Vec<Member<'_>> = open
            .members
            .iter()
            .map(|(shard, name)| Member {
                shard: *shard,
                share: Share {
                    group: &name.group,
                    filter: &name.filter,
                },
            })
            .collect();
        let record = MessageRecord {
            body: body(self, &open.message),
            arrival: None,
            elsewhere: Elsewhere {
                shards: open.shards.bits(),
                route: open.route.as_deref(),
                members: List::new(&members),
            },
            recipients: List::default(),
        };
        let offset = self.batches.offset();
        record.encode_to(open.groups(), self.batches.records());
        let members: ShardSet = open
            .members
            .iter()
            .map(|(shard, _)| ShardId(*shard))
            .collect();
        self.unnamed.push(Unnamed {
            message: Arc::clone(&open.message),
            offset,
            to: open.shards | members,
            batch: self.batches.present(),
        });
        Name::in_this_batch(offset)
    }
}

/// A message whose record was not appended yet.
#[derive(Debug)]
pub(super) struct Unnamed {
    pub(super) message: Arc<Message>,
    /// Where its record is in the batch.
    pub(super) offset: u32,
    /// The shards that it is sent to.
    pub(super) to: ShardSet,
    /// Which batch.
    pub(super) batch: u32,
}

/// Messages of batches that are not appended, in order.
#[derive(Debug, Default)]
pub(super) struct Nameless {
    all: VecDeque<Unnamed>,
    /// Where those of one batch are in it, by their addresses.
    batch: u32,
    offsets: HashMap<usize, u32, FixedState>,
}

impl Nameless {
    fn push(&mut self, it: Unnamed) {
        if self.batch != it.batch {
            self.batch = it.batch;
            self.offsets.clear();
        }
        self.offsets
            .insert(Arc::as_ptr(&it.message).addr(), it.offset);
        self.all.push_back(it);
    }

    /// Where a message is in the present batch.
    fn offset(&self, batch: u32, message: &Arc<Message>) -> Option<u32> {
        let known = (self.batch == batch).then_some(&self.offsets)?;
        known.get(&Arc::as_ptr(message).addr()).copied()
    }

    /// The first one, if it is in this batch.
    pub(super) fn pop(&mut self, batch: u32) -> Option<Unnamed> {
        let first = self.all.pop_front_if(|it| it.batch == batch);
        if first.is_none() && self.batch == batch {
            self.offsets.clear();
        }
        first
    }
}

/// What is written of a message itself.
pub(crate) fn body<'m>(log: &SessionLog, message: &'m Message) -> Body<'m> {
    Body {
        zone: message.zone.0,
        publisher: message.publisher.to_bits(),
        qos: message.qos,
        retain: message.retain,
        topic: message.topic(),
        properties: message.properties(),
        payload: message.payload(),
        expires_at_ms: (message.expires_at != Tick::NEVER).then(|| log.ms(message.expires_at)),
        sequence: message.sequence(),
    }
}

/// Writes that a message of this batch goes to a member too, under another name. So it stands
/// there once, and nothing of it is in another batch. Returns whether it is of this batch.
fn names_again(
    log: &mut SessionLog,
    message: &Arc<Message>,
    copy: &Arc<Message>,
    shard: u8,
    name: &Arc<ShareName>,
) -> bool {
    log.close();
    let batch = log.batches.present();
    let Some(written) = log.unnamed.offset(batch, message) else {
        return false;
    };
    let offset = log.batches.offset();
    let names = [Name::in_this_batch(written)];
    let again = Record::Again(Again {
        member: Member {
            shard,
            share: Share {
                group: &name.group,
                filter: &name.filter,
            },
        },
        names: List::new(&names),
    });
    again.encode(log.batches.records());
    log.unnamed.push(Unnamed {
        message: Arc::clone(copy),
        offset,
        to: ShardSet::one(ShardId(shard)),
        batch,
    });
    true
}
