//! One change of what is kept, as a tag and its fields.

use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU64;

use stentor_mqtt::PacketId;
use thiserror::Error;

use crate::list::List;
use crate::message::{Again, Arrival, Carry, Delivery, Front, Held, Mark, Message, Owe};
use crate::name::Name;
use crate::queue::{Part, Parts, Queue};
use crate::room::{Room, RoomMember, RoomName, RoomProperty};
use crate::session::{Away, Filter, Origin, Session, Subscription, Will};
use crate::spooled::Spooled;
use crate::wire::{Fault, Reader, Why, put_varint};

/// One change of what is kept. A session is named by its number in the journal of its shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record<'a> {
    /// A session begins, or somebody else, or another expiry, holds for one that there is.
    Session(Session<'a>),
    /// A session from the beginning: it has what the rest of the batch says, and nothing else.
    Base(Session<'a>),
    /// A session has all that it had in an earlier generation, under this number from now on.
    Adopted {
        /// Its number.
        number: u32,
        /// Where it was.
        origin: Origin,
    },
    /// A session has ended, with all that it had.
    End {
        /// Its number.
        number: u32,
    },
    /// A client without a name has brought it, and this says from where: its address, by a number
    /// that only the server knows the meaning of.
    Owner {
        /// The session.
        number: u32,
        /// The address.
        mark: NonZeroU64,
    },
    /// Its client is connected.
    Here {
        /// Its number.
        number: u32,
    },
    /// Its client is not.
    Away(Away),
    /// A subscription, before its SUBACK.
    Sub(Subscription<'a>),
    /// It has ended, before UNSUBACK.
    Unsub {
        /// The session.
        number: u32,
        /// Which one.
        filter: Filter<'a>,
    },
    /// All retained messages of a subscription are sent or owed.
    Done {
        /// The session.
        number: u32,
        /// Which one.
        filter: Filter<'a>,
    },
    /// A message, with those who are owed it.
    Message(Message<'a>),
    /// The same once more, with its name.
    Carry(Carry<'a>),
    /// A message that has its record elsewhere, with those who are owed it.
    Owe(Owe<'a>),
    /// The last that has come from each other shard: the names of records there, in any order.
    Heard(List<'a, Mark>),
    /// A message goes to another member of a shared subscription, on another shard.
    Again(Again<'a>),
    /// Deliveries are done, up to a number.
    Acked(List<'a, Front>),
    /// One delivery is done, or withdrawn, expired or dropped.
    Gone(Delivery),
    /// The next number goes to a message that was held back.
    LetGo {
        /// Which one. If several of this session have the name, the first.
        held: Held,
        /// How many messages of its topic it stands for, besides itself.
        conflated: u32,
    },
    /// A message that was held back is owed no longer: a newer one has replaced it, for example.
    Dropped(Held),
    /// A delivery is sent with a packet id that does not follow from its number.
    Sent {
        /// Which one.
        delivery: Delivery,
        /// The packet id.
        packet_id: PacketId,
    },
    /// The client has a message at QoS 2, before PUBREL.
    Received(Delivery),
    /// A message at QoS 2 was taken from the client, and is written elsewhere or nowhere.
    Arrived(Arrival),
    /// The client has released its packet id, before PUBCOMP.
    Released(Arrival),
    /// The will of the connection.
    Will(Will<'a>),
    /// It is published, or is not to be.
    WillGone {
        /// The session.
        number: u32,
    },
    /// What a session is owed, after its base.
    Queue(Queue<'a>),
    /// A part of that lies elsewhere from now on; or still does, after a queue.
    Spooled(Spooled),
    /// Some of what a session is owed, before its base.
    Part(Part<'a>),
    /// These parts are of the queue as well, after that.
    Parts(Parts),
    /// A room that stays when it is empty begins, or is another than before.
    Room(Room<'a>),
    /// A property of such a room.
    RoomProperty(RoomProperty<'a>),
    /// A place in such a room.
    RoomMember(RoomMember<'a>),
    /// Such a room has ended, or does not stay any more.
    RoomGone(RoomName<'a>),
}

pub(crate) const SESSION: u8 = 1;
pub(crate) const BASE: u8 = 2;
pub(crate) const ADOPTED: u8 = 3;
pub(crate) const END: u8 = 4;
pub(crate) const HERE: u8 = 5;
pub(crate) const AWAY: u8 = 6;
pub(crate) const SUB: u8 = 7;
pub(crate) const UNSUB: u8 = 8;
pub(crate) const DONE: u8 = 9;
pub(crate) const MESSAGE: u8 = 10;
pub(crate) const CARRY: u8 = 11;
pub(crate) const OWE: u8 = 12;
pub(crate) const HEARD: u8 = 13;
pub(crate) const AGAIN: u8 = 14;
pub(crate) const ACKED: u8 = 15;
pub(crate) const GONE: u8 = 16;
pub(crate) const LET_GO: u8 = 17;
pub(crate) const DROPPED: u8 = 18;
pub(crate) const SENT: u8 = 19;
pub(crate) const RECEIVED: u8 = 20;
pub(crate) const ARRIVED: u8 = 21;
pub(crate) const RELEASED: u8 = 22;
pub(crate) const WILL: u8 = 23;
pub(crate) const WILL_GONE: u8 = 24;
pub(crate) const QUEUE: u8 = 25;
pub(crate) const SPOOLED: u8 = 26;
pub(crate) const OWNER: u8 = 27;
pub(crate) const PART: u8 = 28;
pub(crate) const PARTS: u8 = 29;
// A distance from those of sessions, which may become more.
pub(crate) const ROOM: u8 = 64;
pub(crate) const ROOM_PROPERTY: u8 = 65;
pub(crate) const ROOM_MEMBER: u8 = 66;
pub(crate) const ROOM_GONE: u8 = 67;

impl<'a> Record<'a> {
    /// Appends the record. Allocates nothing but room in `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.tag());
        let number = |number: u32, out: &mut Vec<u8>| put_varint(out, u64::from(number));
        match self {
            Self::Session(session) | Self::Base(session) => session.put(out),
            Self::Adopted { number: it, origin } => {
                number(*it, out);
                origin.put(out);
            }
            Self::End { number: it }
            | Self::Here { number: it }
            | Self::WillGone { number: it } => number(*it, out),
            Self::Owner { number: it, mark } => {
                number(*it, out);
                out.extend_from_slice(&mark.get().to_le_bytes());
            }
            Self::Away(away) => away.put(out),
            Self::Sub(subscription) => subscription.put(out),
            Self::Unsub { number: it, filter } | Self::Done { number: it, filter } => {
                number(*it, out);
                filter.put(out);
            }
            Self::Message(message) => message.put(out),
            Self::Carry(carry) => carry.put(out),
            Self::Owe(owe) => owe.put(out),
            Self::Heard(marks) => marks.put(out),
            Self::Again(again) => again.put(out),
            Self::Acked(fronts) => fronts.put(out),
            Self::Gone(delivery) | Self::Received(delivery) => delivery.put(out),
            Self::LetGo { held, conflated } => {
                held.put(out);
                number(*conflated, out);
            }
            Self::Dropped(held) => held.put(out),
            Self::Sent {
                delivery,
                packet_id,
            } => {
                delivery.put(out);
                number(u32::from(packet_id.get()), out);
            }
            Self::Arrived(arrival) | Self::Released(arrival) => arrival.put(out),
            Self::Will(will) => will.put(out),
            Self::Queue(queue) => queue.put(out),
            Self::Spooled(spooled) => spooled.put(out),
            Self::Part(part) => part.put(out),
            Self::Parts(parts) => parts.put(out),
            Self::Room(room) => room.put(out),
            Self::RoomProperty(property) => property.put(out),
            Self::RoomMember(member) => member.put(out),
            Self::RoomGone(name) => name.put(out),
        }
    }

    const fn tag(&self) -> u8 {
        match self {
            Self::Session(_) => SESSION,
            Self::Base(_) => BASE,
            Self::Adopted { .. } => ADOPTED,
            Self::End { .. } => END,
            Self::Owner { .. } => OWNER,
            Self::Here { .. } => HERE,
            Self::Away(_) => AWAY,
            Self::Sub(_) => SUB,
            Self::Unsub { .. } => UNSUB,
            Self::Done { .. } => DONE,
            Self::Message(_) => MESSAGE,
            Self::Carry(_) => CARRY,
            Self::Owe(_) => OWE,
            Self::Heard(_) => HEARD,
            Self::Again(_) => AGAIN,
            Self::Acked(_) => ACKED,
            Self::Gone(_) => GONE,
            Self::LetGo { .. } => LET_GO,
            Self::Dropped(_) => DROPPED,
            Self::Sent { .. } => SENT,
            Self::Received(_) => RECEIVED,
            Self::Arrived(_) => ARRIVED,
            Self::Released(_) => RELEASED,
            Self::Will(_) => WILL,
            Self::WillGone { .. } => WILL_GONE,
            Self::Queue(_) => QUEUE,
            Self::Spooled(_) => SPOOLED,
            Self::Part(_) => PART,
            Self::Parts(_) => PARTS,
            Self::Room(_) => ROOM,
            Self::RoomProperty(_) => ROOM_PROPERTY,
            Self::RoomMember(_) => ROOM_MEMBER,
            Self::RoomGone(_) => ROOM_GONE,
        }
    }

    fn take(tag: u8, reader: &mut Reader<'a>) -> Result<Option<Self>, Fault> {
        Ok(Some(match tag {
            SESSION => Self::Session(Session::take(reader)?),
            BASE => Self::Base(Session::take(reader)?),
            ADOPTED => Self::Adopted {
                number: reader.u32("number")?,
                origin: Origin::take(reader)?,
            },
            END | HERE | WILL_GONE => {
                let number = reader.u32("number")?;
                match tag {
                    END => Self::End { number },
                    HERE => Self::Here { number },
                    _ => Self::WillGone { number },
                }
            }
            OWNER => Self::Owner {
                number: reader.u32("number")?,
                mark: NonZeroU64::new(reader.word("mark")?).ok_or(Fault {
                    field: "mark",
                    why: Why::Value,
                })?,
            },
            AWAY => Self::Away(Away::take(reader)?),
            SUB => Self::Sub(Subscription::take(reader)?),
            UNSUB | DONE => {
                let (number, filter) = (reader.u32("number")?, Filter::take(reader)?);
                match tag {
                    UNSUB => Self::Unsub { number, filter },
                    _ => Self::Done { number, filter },
                }
            }
            MESSAGE => Self::Message(Message::take(reader)?),
            CARRY => Self::Carry(Carry::take(reader)?),
            OWE => Self::Owe(Owe::take(reader)?),
            HEARD => Self::Heard(List::take(reader, "marks")?),
            AGAIN => Self::Again(Again::take(reader)?),
            ACKED => Self::Acked(List::take(reader, "fronts")?),
            GONE => Self::Gone(Delivery::take(reader)?),
            LET_GO => Self::LetGo {
                held: Held::take(reader)?,
                conflated: reader.u32("conflated")?,
            },
            DROPPED => Self::Dropped(Held::take(reader)?),
            SENT => Self::Sent {
                delivery: Delivery::take(reader)?,
                packet_id: reader.packet_id("packet_id")?,
            },
            RECEIVED => Self::Received(Delivery::take(reader)?),
            ARRIVED => Self::Arrived(Arrival::take(reader)?),
            RELEASED => Self::Released(Arrival::take(reader)?),
            WILL => Self::Will(Will::take(reader)?),
            QUEUE => Self::Queue(Queue::take(reader)?),
            SPOOLED => Self::Spooled(Spooled::take(reader)?),
            PART => Self::Part(Part::take(reader)?),
            PARTS => Self::Parts(Parts::take(reader)?),
            ROOM => Self::Room(Room::take(reader)?),
            ROOM_PROPERTY => Self::RoomProperty(RoomProperty::take(reader)?),
            ROOM_MEMBER => Self::RoomMember(RoomMember::take(reader)?),
            ROOM_GONE => Self::RoomGone(RoomName::take(reader)?),
            _ => return Ok(None),
        }))
    }
}

/// A record that cannot be read, and with it the rest of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the record at byte {at} of the batch: {kind}")]
pub struct DecodeError {
    /// Bytes before it in the batch.
    pub at: usize,
    /// What is wrong.
    pub kind: DecodeErrorKind,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeErrorKind {
    /// This program knows no such record.
    #[error("unknown kind of record {0}")]
    Tag(u8),
    /// A field of it cannot be read.
    #[error("in a record of kind {tag}, {fault}")]
    Field {
        /// The kind of the record.
        tag: u8,
        /// Which field, and what is wrong with it.
        fault: Fault,
    },
}

/// The records of a batch, in order, each with its name. After an error there are no more.
#[derive(Clone)]
pub struct Records<'a> {
    reader: Reader<'a>,
    bytes: usize,
    is_over: bool,
}

impl<'a> Records<'a> {
    /// Reads a batch that was appended here.
    #[must_use]
    pub const fn new(batch: Name, bytes: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(batch, bytes),
            bytes: bytes.len(),
            is_over: false,
        }
    }

    fn read(&mut self) -> Result<Record<'a>, DecodeErrorKind> {
        let field = |tag| move |fault| DecodeErrorKind::Field { tag, fault };
        let tag = self.reader.byte("tag").map_err(field(0))?;
        let record = Record::take(tag, &mut self.reader).map_err(field(tag))?;
        record.ok_or(DecodeErrorKind::Tag(tag))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(Name, Record<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over || self.reader.is_empty() {
            return None;
        }
        let at = self.bytes - self.reader.rest().len();
        // A batch has less than 4 GiB.
        let name = self.reader.batch().within(at as u32);
        let record = self.read();
        self.is_over = record.is_err();
        Some(match record {
            Ok(record) => Ok((name, record)),
            Err(kind) => Err(DecodeError { at, kind }),
        })
    }
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.clone()).finish()
    }
}
