//! Messages, and the sessions that are owed them.

use alloc::vec::Vec;

use stentor_mqtt::{PacketId, QoS};

use crate::list::{Identifier, Item, List, put_items};
use crate::session::Share;
use crate::wire::{
    BODY_BYTES_MAX, DELIVERY_MAX, Fault, Flags, MILLIS_MAX, Reader, Why, put_bytes, put_varint,
};
use crate::{Name, record};

/// A message as it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'a> {
    /// The number of the zone whose subscribers may see it.
    pub zone: u32,
    /// Its publisher, as no-local knows it.
    pub publisher: u64,
    /// The QoS it was published with.
    pub qos: QoS,
    /// The RETAIN flag it was published with.
    pub retain: bool,
    /// The topic name.
    pub topic: &'a str,
    /// The forwarded properties, as on the wire.
    pub properties: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
    /// When it expires, in milliseconds since 1970; `None` for never.
    pub expires_at_ms: Option<u64>,
    /// Its place among the messages of its topic; 0 if the retained store did not number it.
    pub sequence: u64,
}

const RETAIN: u8 = 1 << 2;
const EXPIRES: u8 = 1 << 3;
const SEQUENCE: u8 = 1 << 4;
const PUBLISHER: u8 = 1 << 5;
/// In a message: its publisher's session lasts, and took it at QoS 2.
const ARRIVAL: u8 = 1 << 6;
/// Other shards may have somebody who is owed it.
const ELSEWHERE: u8 = 1 << 7;

impl<'a> Body<'a> {
    pub(crate) fn put(&self, more: Flags, out: &mut Vec<u8>) {
        let flags = Flags(self.qos as u8 | more.0)
            .with(RETAIN, self.retain)
            .with(EXPIRES, self.expires_at_ms.is_some())
            .with(SEQUENCE, self.sequence > 0)
            .with(PUBLISHER, self.publisher > 0);
        out.push(flags.0);
        put_varint(out, u64::from(self.zone));
        if self.publisher > 0 {
            out.extend_from_slice(&self.publisher.to_le_bytes());
        }
        if let Some(time) = self.expires_at_ms {
            put_varint(out, time);
        }
        if self.sequence > 0 {
            put_varint(out, self.sequence);
        }
        put_bytes(out, self.topic.as_bytes());
        put_bytes(out, self.properties);
        put_bytes(out, self.payload);
    }

    pub(crate) fn take(reader: &mut Reader<'a>, more: u8) -> Result<(Self, Flags), Fault> {
        let known = 3 | RETAIN | EXPIRES | SEQUENCE | PUBLISHER | more;
        let flags = reader.flags("flags", known)?;
        let zone = reader.u32("zone")?;
        let publisher = match flags.has(PUBLISHER) {
            true => above_zero("publisher", reader.word("publisher")?)?,
            false => 0,
        };
        let expires_at_ms = match flags.has(EXPIRES) {
            true => Some(reader.varint("expires_at_ms", MILLIS_MAX)?),
            false => None,
        };
        let sequence = match flags.has(SEQUENCE) {
            true => above_zero("sequence", reader.varint("sequence", u64::MAX)?)?,
            false => 0,
        };
        let body = Self {
            zone,
            publisher,
            qos: flags.qos("qos")?,
            retain: flags.has(RETAIN),
            topic: reader.text("topic")?,
            properties: reader.bytes("properties", BODY_BYTES_MAX)?,
            payload: reader.bytes("payload", BODY_BYTES_MAX)?,
            expires_at_ms,
            sequence,
        };
        Ok((body, flags))
    }
}

fn above_zero(field: &'static str, value: u64) -> Result<u64, Fault> {
    match value {
        0 => Err(Fault {
            field,
            why: Why::Value,
        }),
        value => Ok(value),
    }
}

/// Other shards whose sessions may be owed a message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Elsewhere<'a> {
    /// A bit for each shard that may have subscribers.
    pub shards: u64,
    /// The topic whose subscribers are meant, if that is not the one of the message.
    pub route: Option<&'a str>,
    /// Shared subscriptions of which a member on another shard is to get it.
    pub members: List<'a, Member<'a>>,
}

impl<'a> Elsewhere<'a> {
    pub(crate) fn is_nobody(&self) -> bool {
        self.shards == 0 && self.members.is_empty()
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.shards);
        // No topic is empty.
        put_bytes(out, self.route.unwrap_or_default().as_bytes());
        self.members.put(out);
    }

    fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let elsewhere = Self {
            shards: reader.varint("shards", u64::MAX)?,
            route: Some(reader.text("route")?).filter(|route| !route.is_empty()),
            members: List::take(reader, "members")?,
        };
        match elsewhere.is_nobody() {
            true => Err(Fault {
                field: "shards",
                why: Why::Value,
            }),
            false => Ok(elsewhere),
        }
    }
}

/// The highest number of a shard.
const SHARDS_MAX: u8 = 63;

fn take_shard(reader: &mut Reader<'_>) -> Result<u8, Fault> {
    let shard = reader.byte("shard")?;
    match shard <= SHARDS_MAX {
        true => Ok(shard),
        false => Err(Fault {
            field: "shard",
            why: Why::TooLarge,
        }),
    }
}

/// A member of a shared subscription on another shard, which that shard chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The shard.
    pub shard: u8,
    /// The shared subscription.
    pub share: Share<'a>,
}

impl<'a> Item<'a> for Member<'a> {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        out.push(self.shard);
        self.share.put(out);
    }

    fn take(reader: &mut Reader<'a>, (): &mut ()) -> Result<Self, Fault> {
        Ok(Self {
            shard: take_shard(reader)?,
            share: Share::take(reader)?,
        })
    }
}

/// A message at QoS 2 that a session which lasts has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The session.
    pub number: u32,
    /// The packet id, until the client releases it.
    pub packet_id: PacketId,
}

impl Arrival {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        put_varint(out, u64::from(self.packet_id.get()));
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self {
            number: reader.u32("number")?,
            packet_id: reader.packet_id("packet_id")?,
        })
    }
}

/// A message, written by the shard that took it. Its name is where this record stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    /// The message.
    pub body: Body<'a>,
    /// That it was taken, if its publisher's session lasts and sent it at QoS 2.
    pub arrival: Option<Arrival>,
    /// Sessions of other shards that may be owed it.
    pub elsewhere: Elsewhere<'a>,
    /// Sessions of this shard that are owed it. Each gives it the next number of its deliveries,
    /// in this order.
    pub recipients: List<'a, Group<'a>>,
}

impl<'a> Message<'a> {
    /// Appends the record, with these recipients instead of those in the field.
    pub fn encode_to<'b>(
        &self,
        recipients: impl ExactSizeIterator<Item = Group<'b>>,
        out: &mut Vec<u8>,
    ) {
        out.push(record::MESSAGE);
        self.put_head(out);
        put_items(recipients, out);
    }

    fn put_head(&self, out: &mut Vec<u8>) {
        let flags = Flags::default()
            .with(ARRIVAL, self.arrival.is_some())
            .with(ELSEWHERE, !self.elsewhere.is_nobody());
        self.body.put(flags, out);
        if let Some(arrival) = self.arrival {
            arrival.put(out);
        }
        if !self.elsewhere.is_nobody() {
            self.elsewhere.put(out);
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.put_head(out);
        self.recipients.put(out);
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let (body, flags) = Body::take(reader, ARRIVAL | ELSEWHERE)?;
        let arrival = match flags.has(ARRIVAL) {
            true => Some(Arrival::take(reader)?),
            false => None,
        };
        let elsewhere = match flags.has(ELSEWHERE) {
            true => Elsewhere::take(reader)?,
            false => Elsewhere::default(),
        };
        Ok(Self {
            body,
            arrival,
            elsewhere,
            recipients: List::take(reader, "recipients")?,
        })
    }
}

/// A message that is still owed, written again by the shard that took it, since the segment with
/// its record is about to go. It keeps its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carry<'a> {
    /// Its name.
    pub name: Name,
    /// The message.
    pub body: Body<'a>,
    /// Sessions of other shards that may be owed it, and have not had it yet.
    pub elsewhere: Elsewhere<'a>,
}

impl<'a> Carry<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        let flags = Flags::default().with(ELSEWHERE, !self.elsewhere.is_nobody());
        self.body.put(flags, out);
        if !self.elsewhere.is_nobody() {
            self.elsewhere.put(out);
        }
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let name = Name::take(reader, "name")?;
        let (body, flags) = Body::take(reader, ELSEWHERE)?;
        let elsewhere = match flags.has(ELSEWHERE) {
            true => Elsewhere::take(reader)?,
            false => Elsewhere::default(),
        };
        Ok(Self {
            name,
            body,
            elsewhere,
        })
    }
}

/// A message of another shard, or one that was written before, is owed to sessions of this shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Owe<'a> {
    /// The message.
    pub name: Name,
    /// The shard that has sent it here, below 64. By it, and not by the file of the name, it is
    /// known what has come: a message that was carried outlives the files around its name.
    pub from: u8,
    /// The record that has sent it here, if that is not the one that it is named after: see
    /// [`Again`].
    pub sent_by: Option<Name>,
    /// The sessions that are owed it.
    pub recipients: List<'a, Group<'a>>,
}

/// The shard stands above this flag.
const SENT_BY: u8 = 1;

impl<'a> Owe<'a> {
    /// The shard that has sent it, and the last of what came from there.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            shard: self.from,
            name: self.sent_by.unwrap_or(self.name),
        }
    }

    /// Appends the record, with these recipients instead of those in the field.
    pub fn encode_to<'b>(
        &self,
        recipients: impl ExactSizeIterator<Item = Group<'b>>,
        out: &mut Vec<u8>,
    ) {
        out.push(record::OWE);
        self.put_head(out);
        put_items(recipients, out);
    }

    fn put_head(&self, out: &mut Vec<u8>) {
        let shard = Flags(self.from << 1);
        out.push(shard.with(SENT_BY, self.sent_by.is_some()).0);
        self.name.put(out);
        if let Some(name) = self.sent_by {
            name.put(out);
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.put_head(out);
        self.recipients.put(out);
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = reader.flags("flags", SHARDS_MAX << 1 | SENT_BY)?;
        let name = Name::take(reader, "name")?;
        let sent_by = match flags.has(SENT_BY) {
            true => Some(Name::take(reader, "sent_by")?),
            false => None,
        };
        Ok(Self {
            name,
            from: flags.0 >> 1,
            sent_by,
            recipients: List::take(reader, "recipients")?,
        })
    }
}

/// Everything up to here has come from a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The shard, below 64.
    pub shard: u8,
    /// The last that has come.
    pub name: Name,
}

impl<'a> Item<'a> for Mark {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        out.push(self.shard);
        self.name.put(out);
    }

    fn take(reader: &mut Reader<'a>, (): &mut ()) -> Result<Self, Fault> {
        Ok(Self {
            shard: take_shard(reader)?,
            name: Name::take(reader, "name")?,
        })
    }
}

/// Messages go to another member of a shared subscription: the session that was owed them ends, or
/// may not have them. This precedes the end of that session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Again<'a> {
    /// Where to.
    pub member: Member<'a>,
    /// The messages. They have come when this record has.
    pub names: List<'a, Name>,
}

impl<'a> Again<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        Item::put(&self.member, &mut (), out);
        self.names.put(out);
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            member: Item::take(reader, &mut ())?,
            names: List::take(reader, "names")?,
        })
    }
}

/// How a message is delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms<'a> {
    /// The QoS: 1 or 2.
    pub qos: QoS,
    /// The RETAIN flag as the subscriber sees it.
    pub retain: bool,
    /// Whether it is held back by `conflate` or `max_rate`: then it has no number yet.
    pub held: bool,
    /// How many messages of its topic it stands for, besides itself.
    pub conflated: u32,
    /// The subscription identifiers to send.
    pub identifiers: List<'a, Identifier>,
    /// The shared subscription that chose this member.
    pub share: Option<Share<'a>>,
}

const TERMS_QOS_2: u8 = 1;
const TERMS_CONFLATED: u8 = 1 << 1;
const TERMS_RETAIN: u8 = 1 << 2;
pub(crate) const TERMS_HELD: u8 = 1 << 3;
const TERMS_IDENTIFIERS: u8 = 1 << 4;
pub(crate) const TERMS_SHARE: u8 = 1 << 5;
pub(crate) const TERMS: u8 =
    TERMS_QOS_2 | TERMS_CONFLATED | TERMS_RETAIN | TERMS_HELD | TERMS_IDENTIFIERS | TERMS_SHARE;

impl<'a> Terms<'a> {
    pub(crate) fn flags(&self) -> Flags {
        Flags::default()
            .with(TERMS_QOS_2, self.qos == QoS::ExactlyOnce)
            .with(TERMS_CONFLATED, self.conflated > 0)
            .with(TERMS_RETAIN, self.retain)
            .with(TERMS_HELD, self.held)
            .with(TERMS_IDENTIFIERS, !self.identifiers.is_empty())
            .with(TERMS_SHARE, self.share.is_some())
    }

    pub(crate) fn put_rest(&self, out: &mut Vec<u8>) {
        if self.conflated > 0 {
            put_varint(out, u64::from(self.conflated));
        }
        if !self.identifiers.is_empty() {
            self.identifiers.put(out);
        }
        if let Some(share) = &self.share {
            share.put(out);
        }
    }

    pub(crate) fn take_rest(flags: Flags, reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let conflated = match flags.has(TERMS_CONFLATED) {
            // The bound makes it fit.
            true => above_zero("conflated", u64::from(reader.u32("conflated")?))? as u32,
            false => 0,
        };
        let identifiers = match flags.has(TERMS_IDENTIFIERS) {
            true => List::take(reader, "identifiers")?,
            false => List::default(),
        };
        Ok(Self {
            qos: match flags.has(TERMS_QOS_2) {
                true => QoS::ExactlyOnce,
                false => QoS::AtLeastOnce,
            },
            retain: flags.has(TERMS_RETAIN),
            held: flags.has(TERMS_HELD),
            conflated,
            identifiers,
            share: match flags.has(TERMS_SHARE) {
                true => Some(Share::take(reader)?),
                false => None,
            },
        })
    }
}

/// Sessions that get a message on the same terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group<'a> {
    /// The terms.
    pub terms: Terms<'a>,
    /// The sessions: ascending numbers take the least room.
    pub numbers: List<'a, u32>,
}

impl<'a> Item<'a> for Group<'a> {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        out.push(self.terms.flags().0);
        self.terms.put_rest(out);
        self.numbers.put(out);
    }

    fn take(reader: &mut Reader<'a>, (): &mut ()) -> Result<Self, Fault> {
        let flags = reader.flags("flags", TERMS)?;
        Ok(Self {
            terms: Terms::take_rest(flags, reader)?,
            numbers: List::take(reader, "numbers")?,
        })
    }
}

/// How far a session's deliveries have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Which session.
    pub number: u32,
    /// All deliveries before this one are done.
    pub front: u64,
    /// All before this one may have been sent: not below `front`.
    pub sent: u64,
}

impl Item<'_> for Front {
    type Before = u32;

    fn put(&self, before: &mut u32, out: &mut Vec<u8>) {
        self.number.put(before, out);
        put_varint(out, self.front);
        put_varint(out, self.sent.saturating_sub(self.front));
    }

    fn take(reader: &mut Reader<'_>, before: &mut u32) -> Result<Self, Fault> {
        let number = u32::take(reader, before)?;
        let front = reader.varint("front", DELIVERY_MAX)?;
        Ok(Self {
            number,
            front,
            sent: front + reader.varint("sent", DELIVERY_MAX - front)?,
        })
    }
}

/// One delivery of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which session.
    pub number: u32,
    /// Its number among the deliveries of this session.
    pub delivery: u64,
}

impl Delivery {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        put_varint(out, self.delivery);
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self {
            number: reader.u32("number")?,
            delivery: reader.varint("delivery", DELIVERY_MAX)?,
        })
    }
}

/// One message that is held back for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which session.
    pub number: u32,
    /// The message.
    pub name: Name,
}

impl Held {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        self.name.put(out);
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self {
            number: reader.u32("number")?,
            name: Name::take(reader, "name")?,
        })
    }
}
