//! What a session is owed that does not lie in the journals, but in files of its own.

use alloc::vec::Vec;

use crate::list::{Item, List, put_items};
use crate::message::{Body, TERMS, Terms};
use crate::wire::{DELIVERY_MAX, Fault, Flags, Reader, Why, put_bytes, put_varint};
use crate::{Name, message};

/// Deliveries that one chunk may have.
const COUNT_MAX: u8 = 64;

/// Where a chunk lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the file: not 0.
    pub file: u32,
    /// Where it begins there. Only the store of these files knows the unit.
    pub at: u16,
    /// How long it is, in the same unit.
    pub len: u16,
}

/// Deliveries of a session, with numbers that follow each other, lie elsewhere from now on: the
/// messages in the journals are of no account for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// Which session.
    pub number: u32,
    /// The number of the first delivery.
    pub first: u64,
    /// How many there are: 1 to 64.
    pub count: u8,
    /// Where they are.
    pub place: Place,
}

impl Spooled {
    /// The number after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        put_varint(out, self.first);
        out.push(self.count);
        put_varint(out, u64::from(self.place.file));
        put_varint(out, u64::from(self.place.at));
        put_varint(out, u64::from(self.place.len));
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let number = reader.u32("number")?;
        let first = reader.varint("first", DELIVERY_MAX - u64::from(COUNT_MAX))?;
        Ok(Self {
            number,
            first,
            count: take_count(reader)?,
            place: Place {
                file: match reader.u32("file")? {
                    0 => return Err(wrong("file")),
                    file => file,
                },
                at: reader.u16("at")?,
                len: reader.u16("len")?,
            },
        })
    }
}

const fn wrong(field: &'static str) -> Fault {
    Fault {
        field,
        why: Why::Value,
    }
}

fn take_count(reader: &mut Reader<'_>) -> Result<u8, Fault> {
    match reader.byte("count")? {
        count @ 1..=COUNT_MAX => Ok(count),
        _ => Err(wrong("count")),
    }
}

/// What lies at such a place. It says whose it is, so that nobody gets what is somebody else's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunk<'a> {
    /// The number of the zone of the session.
    pub zone: u32,
    /// Its client id.
    pub client_id: &'a str,
    /// The number of the first delivery.
    pub first: u64,
    /// The deliveries.
    pub deliveries: List<'a, SpooledDelivery<'a>>,
}

impl<'a> Chunk<'a> {
    /// Appends it, with these deliveries instead of those in the field: 1 to 64.
    pub fn encode_to<'b>(
        &self,
        deliveries: impl ExactSizeIterator<Item = SpooledDelivery<'b>>,
        out: &mut Vec<u8>,
    ) {
        put_varint(out, u64::from(self.zone));
        put_bytes(out, self.client_id.as_bytes());
        put_varint(out, self.first);
        put_items(deliveries, out);
    }

    /// Reads one. It takes all of the bytes.
    ///
    /// # Errors
    /// If it is none.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Fault> {
        let nowhere = Name { file: 1, offset: 0 };
        let mut reader = Reader::new(nowhere, bytes);
        let chunk = Self {
            zone: reader.u32("zone")?,
            client_id: reader.text("client_id")?,
            first: reader.varint("first", DELIVERY_MAX - u64::from(COUNT_MAX))?,
            deliveries: List::take(&mut reader, "deliveries")?,
        };
        let fits = (1..=usize::from(COUNT_MAX)).contains(&chunk.deliveries.len());
        match fits && reader.is_empty() {
            true => Ok(chunk),
            false => Err(wrong("deliveries")),
        }
    }
}

/// A message that a session is owed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpooledDelivery<'a> {
    /// How it is delivered. It is of no shared subscription.
    pub terms: Terms<'a>,
    /// The message.
    pub body: Body<'a>,
}

impl<'a> Item<'a> for SpooledDelivery<'a> {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        out.push(self.terms.flags().0);
        self.terms.put_rest(out);
        self.body.put(Flags::default(), out);
    }

    fn take(reader: &mut Reader<'a>, (): &mut ()) -> Result<Self, Fault> {
        let known = TERMS & !(message::TERMS_SHARE | message::TERMS_HELD);
        let flags = reader.flags("flags", known)?;
        let terms = Terms::take_rest(flags, reader)?;
        let (body, _) = Body::take(reader, 0)?;
        Ok(Self { terms, body })
    }
}
