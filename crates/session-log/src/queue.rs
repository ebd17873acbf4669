//! What a session is owed: in its base, or in parts before it.
//!
//! A base is one batch. What a session has may be too much for that, so earlier batches have most
//! of it. Between these are others, with changes of the same session.

use alloc::vec::Vec;

use stentor_mqtt::PacketId;

use crate::list::{Item, List, put_items};
use crate::message::{TERMS, TERMS_SHARE, Terms};
use crate::session::Share;
use crate::wire::{DELIVERY_MAX, Fault, Flags, Reader, Why, put_varint};
use crate::{Name, record};

/// Everything that a session is owed, in order; a part of its base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue<'a> {
    /// Which session.
    pub number: u32,
    /// The number that the next delivery gets.
    pub next: u64,
    /// All deliveries before this one may have been sent.
    pub sent: u64,
    /// The shared subscriptions that chose the session for some of these, each once.
    pub shares: List<'a, Share<'a>>,
    /// Deliveries with their numbers, ascending.
    pub owed: List<'a, Owed<'a>>,
    /// Messages that are held back, in order.
    pub held: List<'a, HeldBack<'a>>,
}

impl<'a> Queue<'a> {
    /// Appends the record, with these lists instead of those in the fields.
    pub fn encode_to<'b>(
        &self,
        owed: impl ExactSizeIterator<Item = Owed<'b>>,
        held: impl ExactSizeIterator<Item = HeldBack<'b>>,
        out: &mut Vec<u8>,
    ) {
        out.push(record::QUEUE);
        self.put_head(out);
        put_items(owed, out);
        put_items(held, out);
    }

    fn put_head(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        put_varint(out, self.next);
        put_varint(out, self.sent);
        self.shares.put(out);
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.put_head(out);
        self.owed.put(out);
        self.held.put(out);
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let number = reader.u32("number")?;
        let next = reader.varint("next", DELIVERY_MAX)?;
        let sent = reader.varint("sent", DELIVERY_MAX)?;
        let shares = List::take(reader, "shares")?;
        Ok(Self {
            number,
            next,
            sent,
            shares,
            owed: take_owed(reader, shares)?,
            held: List::take(reader, "held")?,
        })
    }
}

/// Deliveries that name these shared subscriptions alone.
fn take_owed<'a>(
    reader: &mut Reader<'a>,
    shares: List<'a, Share<'a>>,
) -> Result<List<'a, Owed<'a>>, Fault> {
    let owed = List::<Owed<'a>>::take(reader, "owed")?;
    let is_there = |place: u32| (place as usize) < shares.len();
    match owed.iter().filter_map(|it| it.share()).all(is_there) {
        true => Ok(owed),
        false => Err(Fault {
            field: "share",
            why: Why::TooLarge,
        }),
    }
}

/// One delivery that a session is owed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Owed<'a> {
    /// Its number.
    pub delivery: u64,
    /// Its packet id, if that does not follow from the number.
    pub packet_id: Option<PacketId>,
    /// What is owed.
    pub debt: Debt<'a>,
}

/// What a delivery waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Debt<'a> {
    /// The message is to be sent, or its acknowledgement is to come. The shared subscription is not
    /// in the terms: it is the one at this place of [`Queue::shares`].
    Message(Name, Terms<'a>, Option<u32>),
    /// The client has received it at QoS 2: PUBREL is to be sent, or PUBCOMP is to come.
    Release,
}

impl Owed<'_> {
    /// The place of its shared subscription in [`Queue::shares`].
    #[must_use]
    pub const fn share(&self) -> Option<u32> {
        match self.debt {
            Debt::Message(_, _, share) => share,
            Debt::Release => None,
        }
    }
}

const OWED_PACKET_ID: u8 = 1 << 6;
const OWED_RELEASE: u8 = 1 << 7;

impl<'a> Item<'a> for Owed<'a> {
    /// The least number that the next delivery can have.
    type Before = u64;

    fn put(&self, before: &mut u64, out: &mut Vec<u8>) {
        let terms = match &self.debt {
            Debt::Message(_, terms, share) => {
                debug_assert!(terms.share.is_none(), "it is named by its place");
                terms.flags().with(TERMS_SHARE, share.is_some())
            }
            Debt::Release => Flags(OWED_RELEASE),
        };
        out.push(terms.with(OWED_PACKET_ID, self.packet_id.is_some()).0);
        put_varint(out, self.delivery.saturating_sub(*before));
        *before = self.delivery + 1;
        if let Some(packet_id) = self.packet_id {
            put_varint(out, u64::from(packet_id.get()));
        }
        if let Debt::Message(name, terms, share) = &self.debt {
            Name::put(*name, out);
            terms.put_rest(out);
            if let Some(place) = share {
                put_varint(out, u64::from(*place));
            }
        }
    }

    fn take(reader: &mut Reader<'a>, before: &mut u64) -> Result<Self, Fault> {
        let flags = reader.flags("flags", u8::MAX)?;
        let most = DELIVERY_MAX.checked_sub(*before).ok_or(Fault {
            field: "delivery",
            why: Why::TooLarge,
        })?;
        let delivery = *before + reader.varint("delivery", most)?;
        *before = delivery + 1;
        let packet_id = match flags.has(OWED_PACKET_ID) {
            true => Some(reader.packet_id("packet_id")?),
            false => None,
        };
        let debt = match flags.has(OWED_RELEASE) {
            true if flags.0 & TERMS != 0 => {
                return Err(Fault {
                    field: "flags",
                    why: Why::Value,
                });
            }
            true => Debt::Release,
            false => {
                let name = Name::take(reader, "name")?;
                let plain = Flags(flags.0 & !TERMS_SHARE);
                let terms = Terms::take_rest(plain, reader)?;
                let share = match flags.has(TERMS_SHARE) {
                    true => Some(reader.u32("share")?),
                    false => None,
                };
                Debt::Message(name, terms, share)
            }
        };
        Ok(Self {
            delivery,
            packet_id,
            debt,
        })
    }
}

/// A message that is held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldBack<'a> {
    /// The message.
    pub name: Name,
    /// How it is delivered when its time has come.
    pub terms: Terms<'a>,
}

impl<'a> Item<'a> for HeldBack<'a> {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        out.push(self.terms.flags().0);
        self.name.put(out);
        self.terms.put_rest(out);
    }

    fn take(reader: &mut Reader<'a>, (): &mut ()) -> Result<Self, Fault> {
        let flags = reader.flags("flags", TERMS)?;
        Ok(Self {
            name: Name::take(reader, "name")?,
            terms: Terms::take_rest(flags, reader)?,
        })
    }
}

/// Some of what a session has. Chunks of this part follow as
/// [`Record::Spooled`](crate::Record::Spooled), and subscriptions as
/// [`Record::Sub`](crate::Record::Sub).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part<'a> {
    /// Which session.
    pub number: u32,
    /// Its place among the parts, from 0 on: the first one replaces all that were written before.
    pub place: u32,
    /// The shared subscriptions that chose the session for some of these, each once.
    pub shares: List<'a, Share<'a>>,
    /// Deliveries with their numbers, ascending.
    pub owed: List<'a, Owed<'a>>,
    /// Messages that are held back.
    pub held: List<'a, HeldBack<'a>>,
}

impl<'a> Part<'a> {
    /// Appends the record, with these lists instead of those in the fields.
    pub fn encode_to<'b>(
        &self,
        owed: impl ExactSizeIterator<Item = Owed<'b>>,
        held: impl ExactSizeIterator<Item = HeldBack<'b>>,
        out: &mut Vec<u8>,
    ) {
        out.push(record::PART);
        self.put_head(out);
        put_items(owed, out);
        put_items(held, out);
    }

    fn put_head(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        put_varint(out, u64::from(self.place));
        self.shares.put(out);
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.put_head(out);
        self.owed.put(out);
        self.held.put(out);
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let number = reader.u32("number")?;
        let place = reader.u32("place")?;
        let shares = List::take(reader, "shares")?;
        let owed = take_owed(reader, shares)?;
        Ok(Self {
            number,
            place,
            shares,
            owed,
            held: List::take(reader, "held")?,
        })
    }
}

/// The session has what the parts say as well: deliveries of these numbers that were not done
/// since, and what it still has of all else. After its [`Queue`](crate::Queue), in its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Which session.
    pub number: u32,
    /// How many parts there are.
    pub count: u32,
    /// The first number.
    pub from: u64,
    /// The number after the last one.
    pub to: u64,
}

impl Parts {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        put_varint(out, u64::from(self.count));
        put_varint(out, self.from);
        put_varint(out, self.to.saturating_sub(self.from));
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let number = reader.u32("number")?;
        let count = reader.u32("count")?;
        let from = reader.varint("from", DELIVERY_MAX)?;
        Ok(Self {
            number,
            count,
            from,
            to: from + reader.varint("to", DELIVERY_MAX - from)?,
        })
    }
}
