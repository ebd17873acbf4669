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
mod ending;
mod home;
mod join;
mod kept;
mod look;
mod review;
mod talk;
mod zones;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use stentor_session::{Message, Tick, Ticket};
use stentor_topic::Zone;
use stentor_zone::{Entry, Expelled, Refusal, SessionId, closed_event, join_ended, topic};

use crate::core::delivery::direct;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::subscribe::Element;
use crate::core::inbound::{acknowledge, subscribe};
use crate::core::routing::batch;
use crate::core::sessions::command_rate;
use crate::core::transitions::Transition;
use crate::core::work::PACKET_VISITS_FREE;
use crate::core::{Core, work};
use crate::items::Sender;
use crate::services::Item;
use crate::services::interface::answer::{Answer, ReturnAddress, ShardTicket};
use crate::services::interface::hooks::HookEvent;
use crate::services::interface::message::{server_message, server_parts};
use crate::services::interface::places::{Placed, PlacesAsked, Sought};
use crate::services::interface::who::{Who, session_of};
use crate::services::rooms::talk::{explain, say_about_join};

use ending::Waiting;
pub(crate) use join::{Cause, Joins};
pub(crate) use zones::Zones;

/// What shards say to each other about rooms.
#[derive(Clone, Debug)]
pub(crate) enum RoomItem {
    /// To the home: a session asks to come in.
    Join {
        /// The room.
        room: Box<str>,
        /// The user.
        who: Who,
        /// How the session comes in.
        entry: Entry,
        /// The session that waits for a [`RoomItem::Joined`].
        answer: ShardTicket,
    },
    /// To the home: a session is about to subscribe to these rooms, or to speak there.
    Places {
        /// The rooms, in order.
        rooms: Vec<Box<str>>,
        /// What is asked about them.
        sought: Sought,
        /// The user.
        who: Who,
        /// The session that waits for a [`RoomItem::Placed`].
        answer: ShardTicket,
    },
    /// To the home: a session is out.
    Leave {
        /// The room.
        room: Box<str>,
        /// The user.
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
        /// The user.
        who: Who,
        /// The message in the form in which members receive it.
        message: Arc<Message>,
        /// The connection that it came by, where it is there still.
        sender: Option<Sender>,
        /// The side that waits to acknowledge it, for a [`RoomItem::Said`].
        answer: Option<ShardTicket>,
    },
    /// To the home: a command.
    Command(HomeCommand),
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
    Placed(Placed),
    /// From the home: what became of something said.
    Said {
        /// The ticket of the request that waits.
        ticket: Ticket,
        /// Why not.
        refusal: Option<Refusal>,
    },
    /// From the home: something that was said before the session came in.
    Recall {
        /// Which session.
        session: SessionId,
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
        session: SessionId,
        /// The room.
        room: Box<str>,
        /// Why.
        why: Expelled,
    },
}

/// A command of a client, on its way to the home of its zone's rooms.
#[derive(Clone, Debug)]
pub(crate) struct HomeCommand {
    pub(crate) procedure: Box<str>,
    pub(crate) payload: Box<[u8]>,
    /// The client.
    pub(crate) who: Who,
    /// Where the answer goes.
    pub(crate) to: ReturnAddress,
    /// What it has cost before it had to wait.
    pub(crate) spent: Duration,
}

impl HomeCommand {
    /// Bytes that it takes beside itself.
    fn bytes(&self) -> usize {
        self.procedure.len() + self.payload.len() + self.to.bytes()
    }
}

impl RoomItem {
    /// The bytes of memory that the item holds, without those that are few in any case.
    pub(crate) fn bytes(&self) -> usize {
        let more = match self {
            Self::Say { message, .. } | Self::Recall { message, .. } => message.shared_bytes(),
            Self::Command(command) => command.bytes(),
            Self::Answer(answer) => size_of::<Answer>() + answer.json.len() + answer.to.bytes(),
            Self::Places { rooms, .. } | Self::Placed(Placed { rooms, .. }) => rooms
                .iter()
                .map(|room| room.len() + size_of::<Box<str>>())
                .sum(),
            // Clients make it up, and it waits if its room is ending.
            Self::Leave { client_id, .. } => client_id.len(),
            Self::Join { .. }
            | Self::Listed { .. }
            | Self::Joined { .. }
            | Self::Said { .. }
            | Self::Charge { .. }
            | Self::Clear { .. } => 0,
        };
        size_of::<Self>() + more
    }
}

/// How a session goes out of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
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

/// How the filters of a room begin.
fn below(room: &str) -> String {
    format!("$room/{room}/")
}

/// Everything below a room.
fn all_below(room: &str) -> String {
    format!("$room/{room}/#")
}

/// What rooms want of other services.
#[derive(Debug)]
pub(crate) enum RoomRequest {
    /// The answer of a command is to go to its caller.
    Answer(Box<Answer>),
    /// The home has said in which rooms the user of a packet that waits has a place.
    Placed(Placed),
    /// A session comes back to rooms where it has no place any more: adaptors may be asked.
    Return(SessionKey, Vec<Element>),
    /// A session is out of a room to which it may be about to come back.
    Expel(SessionKey, Box<str>, Expelled),
    /// Adaptors may want to hear of this.
    Tell(Zone, HookEvent),
}

/// What rooms want of other services, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct RoomRequests {
    waiting: VecDeque<RoomRequest>,
    /// Whether there may be adaptors that want to hear of rooms.
    is_watched: bool,
}

impl RoomRequests {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn next(&mut self) -> Option<RoomRequest> {
        self.waiting.pop_front()
    }

    fn push(&mut self, request: RoomRequest) {
        self.waiting.push_back(request);
    }

    const fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Whether there may be adaptors that want to hear of rooms.
    pub(crate) const fn set_watched(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
    }
}

/// The rooms of the zones whose home is this shard, and the sessions of this shard that ask the
/// homes of theirs.
#[derive(Debug, Default)]
pub(crate) struct RoomService {
    zones: Zones,
    joins: Joins,
    waiting: Waiting,
    requests: RoomRequests,
}

/// When rooms have something to do next.
pub(crate) fn deadline(rooms: &RoomService) -> Tick {
    match ending::goes_on(rooms) {
        true => Tick::ZERO,
        false => rooms.zones.deadline(),
    }
}

/// Bytes of memory that rooms take, and what waits for them. O(1).
pub(crate) const fn bytes(rooms: &RoomService) -> u64 {
    rooms.zones.bytes() + rooms.waiting.bytes()
}

impl RoomService {
    /// The zones whose home is this shard.
    #[inline]
    pub(crate) const fn zones(&self) -> &Zones {
        &self.zones
    }

    /// The same, to be changed.
    pub(crate) const fn zones_mut(&mut self) -> &mut Zones {
        &mut self.zones
    }

    /// What is wanted of other services.
    #[inline]
    pub(crate) const fn requests(&self) -> &RoomRequests {
        &self.requests
    }

    /// The same, to be taken.
    pub(crate) const fn requests_mut(&mut self) -> &mut RoomRequests {
        &mut self.requests
    }

    /// Something that concerns rooms has happened to a session.
    pub(crate) fn hear(&mut self, core: &mut Core, now: Tick, transition: Transition) {
        match transition {
            Transition::RightsChanged { session, before } => {
                self.review_rooms(core, now, session, &before);
            }
            Transition::LeftRooms(session, filters) => {
                let filters = filters.iter().map(|filter| &**filter);
                self.unsubscribed_rooms(core, now, session, filters);
            }
            Transition::WantsRooms(zone) => {
                let home = core.home_of(zone);
                self.send_room(core, now, home, RoomItem::Listed { zone });
            }
            Transition::Unexplained(session, unexplained) => {
                explain(core, now, session, &unexplained);
            }
            Transition::Entered(session, ticket, is_same) => {
                self.entered(core, now, ticket, is_same.then_some(session));
            }
            Transition::Detached(_) | Transition::WillDue(_) => {}
        }
    }

    /// Asks the home of a zone in which rooms a user has a place.
    pub(crate) fn seek_places(&mut self, core: &mut Core, now: Tick, asked: PlacesAsked) {
        let home = core.home_of(asked.who.identity.zone);
        let item = RoomItem::Places {
            rooms: asked.rooms,
            sought: asked.sought,
            who: asked.who,
            answer: ShardTicket {
                shard: core.shard(),
                ticket: asked.ticket,
            },
        };
        self.send_room(core, now, home, item);
    }

    /// Sends something about rooms to a shard, which may be this one.
    pub(crate) fn send_room(&mut self, core: &mut Core, now: Tick, to: ShardId, item: RoomItem) {
        if to == core.shard() {
            self.room_item(core, now, item);
        } else {
            core.send_to_shard(to, Item::Room(Box::new(item)));
        }
    }

    /// Something about rooms, of this shard or of another one.
    pub(crate) fn room_item(&mut self, core: &mut Core, now: Tick, item: RoomItem) {
        batch::settle(core, now);
        if let Some(item) = ending::put_off(self, item) {
            self.serve(core, now, item);
        }
    }

    /// The same for what need not wait any more.
    fn serve(&mut self, core: &mut Core, now: Tick, item: RoomItem) {
        match item {
            RoomItem::Join {
                room,
                who,
                entry,
                answer,
            } => self.home_join(core, now, room, &who, entry, answer),
            RoomItem::Places {
                rooms,
                sought,
                who,
                answer,
            } => {
                let rooms = self.zones.places(&who, rooms, sought);
                let ShardTicket { shard, ticket } = answer;
                self.send_room(core, now, shard, RoomItem::Placed(Placed { ticket, rooms }));
            }
            RoomItem::Placed(placed) => self.requests.push(RoomRequest::Placed(placed)),
            RoomItem::Leave {
                room,
                who,
                parting,
                client_id,
            } => {
                self.home_leave(core, now, &room, &who, parting);
                if parting == Parting::Lost {
                    self.zones.note_absent(now, &room, &who, &client_id);
                }
            }
            RoomItem::Say {
                room,
                who,
                message,
                sender,
                answer,
            } => {
                let refusal = self.home_say(core, now, &room, &who, message, sender);
                // The side that waits to acknowledge it learns what became of it.
                if let Some(ShardTicket { shard, ticket }) = answer {
                    self.send_room(core, now, shard, RoomItem::Said { ticket, refusal });
                }
            }
            RoomItem::Command(command) => self.home_command(core, now, command),
            RoomItem::Listed { zone } => self.home_listed(core, now, zone),
            RoomItem::Joined {
                ticket,
                room,
                refusal,
            } => self.joined(core, now, ticket, &room, refusal),
            RoomItem::Said { ticket, refusal } => {
                acknowledge::resolve(core, now, ticket, &talk::outcome(refusal));
            }
            RoomItem::Recall { session, message } => {
                // With RETAIN, as nothing live has.
                direct::deliver_stored(core, now, session_of(session), &message);
            }
            RoomItem::Answer(answer) => self.requests.push(RoomRequest::Answer(answer)),
            RoomItem::Charge { session, work } => command_rate::charge(core, now, session, work),
            RoomItem::Clear { session, room, why } => {
                self.clear_room(core, now, session_of(session), &room, why);
            }
        }
    }

    /// Takes a session's subscriptions below a room away, and tells it so. If nobody was told that
    /// the room ends, it hears that first, as all would have heard it.
    /// A session with many subscriptions pays for the look at them.
    fn clear_room(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        room: &str,
        why: Expelled,
    ) {
        self.expel_returning(core, key, room, why);
        core.expel_subscribing(key, room);
        self.joins.expel(key, room);
        if !core.is_in_room(key, room) {
            return;
        }
        if why == Expelled::Ended
            && let Some(session) = core.session(key)
        {
            let (zone, topic) = (session.state.zone(), topic::event(room));
            let event = server_message(now, zone, &server_parts(&topic, &closed_event()));
            direct::deliver(core, now, key, &event);
        }
        let before = core.turn().spent();
        let gone = subscribe::drop_below(core, key, &below(room));
        let visits = core.turn().spent() - before;
        work::charge_visits(core, now, key, visits.saturating_sub(PACKET_VISITS_FREE));
        if !gone.is_empty() {
            say_about_join(core, now, key, join_ended(room, why));
        }
    }
}
