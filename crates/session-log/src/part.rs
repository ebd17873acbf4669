//! A large session, written in parts before its base.
//!
//! A base is one batch. What a session has may be too much for that, so earlier batches have most
//! of it. Between these are others, with changes of the same session.

use alloc::vec::Vec;

use crate::list::{List, put_items};
use crate::message::{HeldBack, Owed, take_owed};
use crate::record;
use crate::session::Share;
use crate::wire::{DELIVERY_MAX, Fault, Reader, put_varint};

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
