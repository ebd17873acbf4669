//! Rooms, as the hub drives the state machines of [`stentor_zone`].
//!
//! The rooms of a zone live on one shard, its home ([`home`]). The shard of a session asks it and
//! goes on ([`join`], [`talk`]); what waits is the SUBACK of who joins and the PUBACK of who
//! speaks. What a room publishes goes out as the server's own messages, through the ordinary index
//! and the retained store. The home knows as well which users are there ([`presence`]).
//!
//! A session is in a room while it has a subscription below it. Such subscriptions are in the
//! index only while their session is connected: the place of who is away is the room's business,
//! and how it comes [`back`].

mod back;
mod home;
mod join;
mod presence;
mod purse;
mod review;
mod talk;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use stentor_session::{Message, Tick, Ticket};
use stentor_topic::Zone;
use stentor_zone::{Entry, Expelled, Refusal, Seat, join_ended};

use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::subscribe::SubscriptionRef;
use crate::core::routing::options::Options;
use crate::core::sessions::rights::Identity;
use crate::core::work::{FILTER_VISITS, PACKET_VISITS_FREE};
use crate::effects::Sender;
use crate::hub::Hub;
use crate::services::calls::{Answer, ReturnAddress};

pub(crate) use home::{Zones, server_message};
pub(crate) use join::{
    Cause, Element, Entered, JOINED_AT_ONCE_MAX, Joins, ROOMS_MAX, RoomsWanted, Verdicts, room_of,
};
pub(crate) use purse::Purse;
pub(crate) use talk::{ROOM, ROOMS};

/// What shards say to each other about rooms.
#[derive(Clone, Debug)]
pub enum RoomItem {
    /// To the home: a session asks to come in.
    Join {
        /// The room.
        room: Box<str>,
        /// Who.
        who: Who,
        /// As what.
        entry: Entry,
        /// The session that waits for a [`RoomItem::Joined`].
        answer: (ShardId, Ticket),
    },
    /// To the home: a session is about to subscribe to these rooms, or to speak there.
    Places {
        /// The rooms, in order.
        rooms: Vec<Box<str>>,
        /// What is asked about them.
        sought: Place,
        /// Who.
        who: Who,
        /// The session that waits for a [`RoomItem::Placed`].
        answer: (ShardId, Ticket),
    },
    /// To the home: a session is out.
    Leave {
        /// The room.
        room: Box<str>,
        /// Who.
        who: Who,
        /// On purpose or not.
        parting: Parting,
        /// The session's client id, by which its rights are renewed while it is away.
        client_id: Arc<str>,
    },
    /// To the home: somebody speaks.
    Say {
        /// The room.
        room: Box<str>,
        /// Who.
        who: Who,
        /// As it is heard.
        message: Arc<Message>,
        /// The connection that it came by, where it is there still.
        sender: Option<Sender>,
        /// The side that waits to acknowledge it, for a [`RoomItem::Said`].
        answer: Option<(ShardId, Ticket)>,
    },
    /// To the home: a command.
    Command {
        /// Which one.
        procedure: Box<str>,
        /// What it says.
        payload: Box<[u8]>,
        /// Who.
        who: Who,
        /// Where the answer goes.
        to: ReturnAddress,
    },
    /// To the home: a connection of a user has begun.
    Arrived {
        /// Who.
        who: Who,
    },
    /// To the home: a connection of a user has ended.
    Departed {
        /// Who.
        who: Who,
    },
    /// To the home: somebody looks at the list of rooms.
    Listed {
        /// Of which zone.
        zone: Zone,
    },
    /// From the home: what became of one join.
    Joined {
        /// Which SUBSCRIBE it belongs to.
        ticket: Ticket,
        /// The room.
        room: Box<str>,
        /// Why not.
        refusal: Option<Refusal>,
    },
    /// From the home: in which rooms the user has a place.
    Placed {
        /// What waits.
        ticket: Ticket,
        /// Those of the rooms that were asked about, in order.
        found: Vec<Box<str>>,
    },
    /// From the home: what became of something said.
    Said {
        /// What waits.
        ticket: Ticket,
        /// Why not.
        refusal: Option<Refusal>,
    },
    /// From the home: something that was said before the session came in.
    Recall {
        /// Which session.
        seat: Seat,
        /// As it was heard, marked as history.
        message: Arc<Message>,
    },
    /// From the home: the answer of a command. It comes after all that the home has sent before,
    /// such as what the caller said in the room first.
    Answer(Box<Answer>),
    /// From the home: a command of the session has been run.
    Charge {
        /// Which session.
        session: SessionKey,
        /// How long that kept the home busy, about.
        work: Duration,
    },
    /// From the home: the session is not in the room any more.
    Clear {
        /// Which session.
        seat: Seat,
        /// The room.
        room: Box<str>,
        /// Why.
        why: Expelled,
    },
}

impl RoomItem {
    /// The bytes of memory that the item holds, without those that are few in any case.
    pub(crate) fn bytes(&self) -> usize {
        let more = match self {
            Self::Say { message, .. } | Self::Recall { message, .. } => message.cost(),
            Self::Command {
                procedure,
                payload,
                to,
                ..
            } => procedure.len() + payload.len() + to.bytes(),
            Self::Answer(answer) => size_of::<Answer>() + answer.json.len() + answer.to.bytes(),
            Self::Places { rooms, .. } | Self::Placed { found: rooms, .. } => rooms
                .iter()
                .map(|room| room.len() + size_of::<Box<str>>())
                .sum(),
            Self::Join { .. }
            | Self::Leave { .. }
            | Self::Arrived { .. }
            | Self::Departed { .. }
            | Self::Listed { .. }
            | Self::Joined { .. }
            | Self::Said { .. }
            | Self::Charge { .. }
            | Self::Clear { .. } => 0,
        };
        size_of::<Self>() + more
    }
}

/// What a home is asked about a user and a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Whether its place is kept, though all its connections are lost.
    Kept,
    /// Whether what it says there is heard, be it that another session of it is in the room.
    Heard,
}

/// How a session goes out of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// It wanted to.
    Left,
    /// Its connection was lost.
    Lost,
    /// It has no right to be there any more.
    Revoked,
    /// It has no right to speak there any more, and goes on as an observer.
    Muted,
    /// It is away, and has no right to come back.
    Barred,
}

/// A session of a user, as the home of a zone knows it.
#[derive(Clone, Debug)]
pub struct Who {
    /// The session.
    pub seat: Seat,
    /// The user and its rights.
    pub identity: Arc<Identity>,
}

impl Who {
    /// The user's name; empty if it has none, and then it is not a member.
    fn user(&self) -> &str {
        self.identity.user.as_deref().unwrap_or_default()
    }
}

/// This many filters of a session are looked at by the time of one visit.
const SCANNED_PER_VISIT: usize = 2;

/// Bits of a seat for the slot of a session.
const SLOT_BITS: u32 = 24;

/// The session that a seat of this shard stands for.
const fn session_of(seat: Seat) -> SessionKey {
    SessionKey {
        slot: (seat.0 >> 32) as u32 & ((1 << SLOT_BITS) - 1),
        generation: seat.0 as u32,
    }
}

/// The shard of a seat.
const fn shard_of(seat: Seat) -> ShardId {
    ShardId((seat.0 >> (32 + SLOT_BITS)) as u8)
}

/// How the filters of a room begin.
fn below(room: &str) -> String {
    format!("$room/{room}/")
}

/// Everything below a room.
fn all_below(room: &str) -> String {
    format!("$room/{room}/#")
}

impl Hub {
    /// The shard where the rooms of a zone live.
    pub(crate) fn home_of(&self, zone: Zone) -> ShardId {
        // Less than the number of shards, which is a byte.
        ShardId((zone.get() % u32::from(self.shards)) as u8)
    }

    /// A session as rooms know it; `None` if no seat has room for its number.
    pub(crate) fn who(&self, key: SessionKey) -> Option<Who> {
        let session = self.sessions.get(key)?;
        if key.slot >> SLOT_BITS != 0 {
            return None;
        }
        let slot = u64::from(self.shard.0) << SLOT_BITS | u64::from(key.slot);
        Some(Who {
            seat: Seat(slot << 32 | u64::from(key.generation)),
            identity: Arc::clone(&session.identity),
        })
    }

    /// The identity of a session, and the home of its zone's rooms.
    fn who_and_home(&self, key: SessionKey) -> Option<(Who, ShardId)> {
        let who = self.who(key)?;
        let home = self.home_of(who.identity.zone);
        Some((who, home))
    }

    /// Somebody subscribes to the list of a zone's rooms.
    pub(crate) fn list_rooms(&mut self, now: Tick, zone: Zone) {
        let home = self.home_of(zone);
        self.send_room(now, home, RoomItem::Listed { zone });
    }

    /// Whether a session has a subscription below a room.
    pub(crate) fn is_in_room(&self, key: SessionKey, room: &str) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|session| session.is_in_room(room))
    }

    /// Sends something about rooms to a shard, which may be this one.
    pub(crate) fn send_room(&mut self, now: Tick, to: ShardId, item: RoomItem) {
        if to == self.shard {
            self.room_item(now, item);
        } else {
            let item = crate::effects::MeshItem::Room(Box::new(item));
            self.effects.mesh.push((to, item));
        }
    }

    /// Something about rooms, of this shard or of another one.
    pub(crate) fn room_item(&mut self, now: Tick, item: RoomItem) {
        self.settle(now);
        match item {
            RoomItem::Join {
                room,
                who,
                entry,
                answer,
            } => self.home_join(now, room, &who, entry, answer),
            RoomItem::Places {
                rooms,
                sought,
                who,
                answer,
            } => {
                let found = self.home_places(&who, rooms, sought);
                let (shard, ticket) = answer;
                self.send_room(now, shard, RoomItem::Placed { ticket, found });
            }
            RoomItem::Placed { ticket, found } => self.placed(now, ticket, &found),
            RoomItem::Leave {
                room,
                who,
                parting,
                client_id,
            } => {
                self.home_leave(now, &room, &who, parting);
                if parting == Parting::Lost {
                    self.note_absent(now, &room, &who, &client_id);
                }
            }
            RoomItem::Say {
                room,
                who,
                message,
                sender,
                answer,
            } => {
                let refusal = self.home_say(now, &room, &who, (message, sender));
                self.answer_say(now, answer, refusal);
            }
            RoomItem::Command {
                procedure,
                payload,
                who,
                to,
            } => self.home_command(now, (&procedure, &payload), &who, to),
            RoomItem::Listed { zone } => self.home_listed(now, zone),
            RoomItem::Arrived { who } => self.home_arrived(now, &who),
            RoomItem::Departed { who } => self.home_departed(now, &who),
            RoomItem::Joined {
                ticket,
                room,
                refusal,
            } => self.joined(now, ticket, &room, refusal),
            RoomItem::Said { ticket, refusal } => {
                self.resolve(now, ticket, &talk::outcome(refusal));
            }
            RoomItem::Recall { seat, message } => {
                self.deliver_recalled(now, session_of(seat), &message);
            }
            RoomItem::Answer(answer) => self.answered(now, &answer),
            RoomItem::Charge { session, work } => self.charged(now, session, work),
            RoomItem::Clear { seat, room, why } => {
                self.clear_room(now, session_of(seat), &room, why);
            }
        }
        self.close_overrun(now);
    }

    /// Takes a session's subscriptions below a room away, and tells it so.
    /// A session with many subscriptions pays for the look at them.
    fn clear_room(&mut self, now: Tick, key: SessionKey, room: &str, why: Expelled) {
        self.expel_returning(key, room, why);
        self.slices.expel(key, room);
        if !self.is_in_room(key, room) {
            return;
        }
        let before = self.turn.spent();
        let gone = self.drop_subscriptions_below(key, &below(room));
        let visits = self.turn.spent() - before;
        self.charge_visits(now, key, visits.saturating_sub(PACKET_VISITS_FREE));
        if !gone.is_empty() {
            self.say_about_join(now, key, join_ended(room, why));
        }
    }

    /// Takes a session's subscriptions whose filters begin so away; returns them.
    fn drop_subscriptions_below(&mut self, key: SessionKey, below: &str) -> Vec<Element> {
        self.drop_subscriptions(key, |filter| filter.starts_with(below))
    }

    /// Takes a session's subscriptions to such filters away; returns them.
    fn drop_subscriptions(
        &mut self,
        key: SessionKey,
        is_such: impl Fn(&str) -> bool,
    ) -> Vec<Element> {
        let Some(session) = self.sessions.get_mut(key) else {
            return Vec::new();
        };
        let mut subscriptions = core::mem::take(&mut session.subscriptions);
        self.turn
            .spend((subscriptions.len() / SCANNED_PER_VISIT) as u32);
        let mut gone = Vec::new();
        let mut elements = Vec::new();
        subscriptions.retain(|subscription| {
            let SubscriptionRef::Filter(id) = *subscription else {
                return true;
            };
            let filter = self.index.filter(id).1;
            if !is_such(filter) {
                return true;
            }
            let Some(options) = self.index.options(id, key.slot) else {
                return true;
            };
            let options = Options::from_bits(options);
            elements.push(Element::stored(filter, options));
            gone.push(id);
            false
        });
        if let Some(session) = self.sessions.get_mut(key) {
            session.subscriptions = subscriptions;
        }
        self.turn
            .spend((gone.len() as u32).saturating_mul(FILTER_VISITS));
        for (id, element) in gone.into_iter().zip(&elements) {
            if let Some(session) = self.sessions.get_mut(key) {
                session.forget_filtered(&element.filter);
                session.forget_snapshot(id);
            }
            self.drop_subscription(key, SubscriptionRef::Filter(id), true);
        }
        elements
    }
}
