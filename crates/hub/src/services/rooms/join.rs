//! Coming into rooms and going out of them: SUBSCRIBE, UNSUBSCRIBE, and connections that end.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_mqtt::{RetainHandling, SubscribeOptions};
use stentor_session::{CloseReason, Remote, Tick, Ticket};
use stentor_topic::Subscription;
use stentor_zone::{Entry, Expelled, Interest, Refusal};

use super::{Parting, ROOMS, RoomItem, Who, all_below};
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Asked, Awaited};
use crate::core::routing::options::Options;
use crate::core::sessions::registry::Session;
use crate::core::sessions::rights::Identity;
use crate::hub::Hub;
use crate::services::hooks::{Denial, Refused};

/// One subscription of a SUBSCRIBE that outlives the packet's bytes.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) filter: Box<str>,
    pub(crate) options: SubscribeOptions,
    /// The subscription identifier.
    pub(crate) id: Option<u32>,
    /// What an adaptor has against it.
    pub(crate) denial: Option<Denial>,
    /// Why it was refused before adaptors were asked.
    pub(crate) refused: Option<Refused>,
    /// Of a session that comes back: why it is out of the room in the meantime.
    pub(crate) expelled: Option<Expelled>,
}

impl Element {
    /// One that a session had before its connection ended.
    pub(super) fn stored(filter: &str, options: Options) -> Self {
        Self {
            filter: filter.into(),
            options: SubscribeOptions {
                qos: options.qos(),
                no_local: options.no_local(),
                retain_as_published: options.retain_as_published(),
                retain_handling: RetainHandling::Send,
            },
            id: Some(options.id()).filter(|id| *id != 0),
            denial: None,
            refused: None,
            expelled: None,
        }
    }
}

/// What was said about the rooms of a SUBSCRIBE: of each why not, if it is refused.
pub(crate) type Verdicts = BTreeMap<Box<str>, Option<Refusal>>;

/// The rooms of a SUBSCRIBE.
#[derive(Debug, Default)]
pub(crate) struct RoomsWanted {
    /// Those that the home of the zone is asked for, each with how the session comes in.
    pub(crate) to_ask: Vec<(Box<str>, Entry)>,
    /// Those that are refused without asking.
    pub(crate) verdicts: Verdicts,
}

/// Texts of one packet, each once.
type Texts<'t> = BTreeSet<&'t str>;

/// Why a session asks for rooms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It subscribes, by this packet.
    Subscribe(Awaited),
    /// It is connected again, and its places may be kept.
    Back,
    /// It is connected again, and has no places any more.
    Anew,
}

/// What a session that has come into rooms does when it has subscribed.
#[derive(Debug)]
pub(crate) struct Entered {
    who: Who,
    /// The rooms that it has asked for.
    pub(crate) rooms: Vec<Box<str>>,
}

/// The sessions that wait for the homes of their zones.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    pub(super) waiting: HashMap<Ticket, Joining, foldhash::fast::FixedState>,
}

/// One of them. Nothing is read from its connection in the meantime.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) session: SessionKey,
    who: Who,
    /// Of the connection that asks.
    epoch: u32,
    pub(super) cause: Cause,
    pub(super) elements: Vec<Element>,
    rooms: Vec<Box<str>>,
    asked: Asked,
    verdicts: Verdicts,
    /// How many rooms have not answered.
    left: usize,
}

/// Sessions of this shard that may wait for rooms at a time.
const WAITING_MAX: usize = 1 << 18;

/// Rooms that one SUBSCRIBE joins.
pub(crate) const JOINED_AT_ONCE_MAX: usize = 1_000;

/// Rooms that a session is in.
pub(crate) const ROOMS_MAX: usize = 10_000;

/// The room that a filter is about.
pub(crate) fn room_of(filter: &str) -> Option<&str> {
    if !filter.starts_with(ROOMS) {
        return None;
    }
    match Subscription::parse(filter) {
        Ok(Subscription {
            share: None,
            filter,
        }) => match Interest::parse(filter) {
            Interest::Room { room } => Some(room),
            _ => None,
        },
        _ => None,
    }
}

impl Hub {
    /// The rooms that a session has to ask for before it may subscribe to these filters: those that
    /// it is not in, and those that it may speak in. There it may still be an observer, who had not
    /// that right or found no place, and only the home of the zone knows. No more than `at_once`
    /// are asked for. Adaptors were not asked about these (`unasked`, in order), for the session
    /// was in them or had a place there: it comes into none of them from outside. O(filters).
    pub(crate) fn rooms_to_ask<'f>(
        &self,
        key: SessionKey,
        filters: impl Iterator<Item = &'f str>,
        (unasked, at_once): (&[Box<str>], usize),
    ) -> RoomsWanted {
        let mut wanted = RoomsWanted::default();
        let mut known = Texts::default();
        let Some(session) = self.sessions.get(key) else {
            return wanted;
        };
        // What the session has no room for is refused without asking.
        let mut places = self.places_left(session);
        let mut rooms = ROOMS_MAX.saturating_sub(session.room_count());
        let (mut anew, mut again) = (at_once, at_once);
        for filter in filters {
            let Some(room) = room_of(filter).filter(|room| !known.contains(room)) else {
                continue;
            };
            let access = session.identity.rights.may_subscribe(filter);
            let is_inside = session.is_in_room(room);
            let may_speak = session.identity.may_speak(room);
            let may = self.settings.takes_topic(filter) && self.is_accepted(access);
            if !may || is_inside && !may_speak || !is_inside && places == 0 {
                continue;
            }
            known.insert(room);
            let was_there = unasked
                .binary_search_by(|other| (**other).cmp(room))
                .is_ok();
            let entry = match (may_speak, is_inside, was_there) {
                (true, true, _) => Entry::Again,
                (true, false, true) => Entry::Kept,
                (true, false, false) => Entry::Member,
                (false, _, false) => Entry::Observer,
                (false, _, true) => {
                    wanted
                        .verdicts
                        .insert(room.into(), Some(Refusal::NotMember));
                    continue;
                }
            };
            let left = if is_inside { &mut again } else { &mut anew };
            if *left == 0 || !is_inside && rooms == 0 {
                // A session that is inside stays what it is there.
                if !is_inside {
                    wanted.verdicts.insert(room.into(), Some(Refusal::TooMany));
                }
                continue;
            }
            *left -= 1;
            places -= usize::from(!is_inside);
            rooms -= usize::from(!is_inside);
            wanted.to_ask.push((room.into(), entry));
        }
        wanted
    }

    /// Asks for rooms, of which there is at least one; what was asked for goes on when all have
    /// answered.
    ///
    /// # Errors
    /// The elements, if too many wait.
    pub(crate) fn ask_rooms(
        &mut self,
        now: Tick,
        key: SessionKey,
        rooms: &RoomsWanted,
        cause: Cause,
        (elements, asked): (Vec<Element>, Asked),
    ) -> Result<(), Vec<Element>> {
        let Some(who) = self.who(key) else {
            return Err(elements);
        };
        if self.joins.waiting.len() >= WAITING_MAX {
            return Err(elements);
        }
        let Some(session) = self.sessions.get(key) else {
            return Err(elements);
        };
        let joining = Joining {
            session: key,
            who: who.clone(),
            epoch: session.epoch,
            cause,
            elements,
            rooms: rooms.to_ask.iter().map(|(room, _)| room.clone()).collect(),
            asked,
            verdicts: rooms.verdicts.clone(),
            left: rooms.to_ask.len(),
        };
        let ticket = self.issue_ticket();
        self.joins.waiting.insert(ticket, joining);
        let home = self.home_of(who.identity.zone);
        // An UNSUBSCRIBE behind it has to find what this one brings.
        self.hold(key);
        for (room, entry) in &rooms.to_ask {
            // Live messages follow the answer only if they are sent here from now on.
            let (zone, all) = (who.identity.zone, all_below(room));
            self.interest.raise(zone, &all, None);
            let item = RoomItem::Join {
                room: room.clone(),
                who: who.clone(),
                entry: match (cause, *entry) {
                    (Cause::Back, Entry::Member | Entry::Again) => Entry::Kept,
                    (_, entry) => entry,
                },
                answer: (self.shard, ticket),
            };
            self.send_room(now, home, item);
        }
        Ok(())
    }

    /// The home has answered for one room.
    pub(super) fn joined(
        &mut self,
        now: Tick,
        ticket: Ticket,
        room: &str,
        refusal: Option<Refusal>,
    ) {
        let Some(joining) = self.joins.waiting.get_mut(&ticket) else {
            return;
        };
        joining.verdicts.insert(room.into(), refusal);
        joining.left = joining.left.saturating_sub(1);
        if joining.left > 0 {
            return;
        }
        let Some(joining) = self.joins.waiting.remove(&ticket) else {
            return;
        };
        let key = joining.session;
        let is_same = self.is_still(key, joining.epoch);
        let Joining {
            who,
            cause,
            elements,
            rooms,
            asked,
            verdicts,
            ..
        } = joining;
        let entered = Entered { who, rooms };
        if is_same {
            match cause {
                Cause::Back => self.came_back(now, key, elements, &verdicts),
                Cause::Anew => {
                    let elements = self.tell_expelled(now, key, elements);
                    self.go_on_subscribing(now, key, (&elements[..], asked, &verdicts));
                }
                Cause::Subscribe(awaited) => {
                    let elements = self.tell_expelled(now, key, elements);
                    let rest = (asked, verdicts, entered);
                    return self.subscribe_entered(now, key, awaited, elements, rest);
                }
            }
            self.let_go(now, key);
        }
        self.end_joining(now, (key, is_same), &entered, &verdicts);
    }

    /// What a session wanted in rooms is there, or its connection has ended in the meantime.
    pub(crate) fn end_joining(
        &mut self,
        now: Tick,
        (key, is_same): (SessionKey, bool),
        Entered { who, rooms }: &Entered,
        verdicts: &Verdicts,
    ) {
        if is_same {
            self.catch_up_rights(now, key, &who.identity);
        }
        for room in rooms {
            let zone = who.identity.zone;
            self.interest.lower(zone, &all_below(room));
            let has_joined = verdicts.get(room).is_some_and(Option::is_none);
            // Of a connection that ended in the meantime the home has been told.
            if is_same && has_joined && !self.is_in_room(key, room) {
                self.leave_room(now, who.clone(), room, Parting::Left);
            }
        }
    }

    /// A session has come in by rights that may have changed in the meantime.
    fn catch_up_rights(&mut self, now: Tick, key: SessionKey, before: &Identity) {
        let session = self.sessions.get(key);
        let is_new = |session: &Session| !Arc::ptr_eq(&session.identity.rights, &before.rights);
        if session.is_some_and(is_new) {
            self.review_rooms(now, key, before);
        }
    }

    /// Whether a session has the connection that it had then.
    pub(crate) fn is_still(&self, key: SessionKey, epoch: u32) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|session| session.epoch == epoch && session.live().is_some())
    }

    /// A session is out of a room.
    pub(super) fn leave_room(&mut self, now: Tick, who: Who, room: &str, parting: Parting) {
        self.leave_room_as(now, (who, &Arc::default()), room, parting);
    }

    /// A session with this client id is out of a room.
    fn leave_room_as(
        &mut self,
        now: Tick,
        (who, client_id): (Who, &Arc<str>),
        room: &str,
        parting: Parting,
    ) {
        let home = self.home_of(who.identity.zone);
        let item = RoomItem::Leave {
            room: room.into(),
            who,
            parting,
            client_id: Arc::clone(client_id),
        };
        self.send_room(now, home, item);
    }

    /// Subscriptions to these filters have ended: the session is out of the rooms that it has no
    /// other subscription below.
    pub(crate) fn unsubscribed_rooms<'f>(
        &mut self,
        now: Tick,
        key: SessionKey,
        filters: impl Iterator<Item = &'f str>,
    ) {
        let mut known = Texts::default();
        let rooms = filters.filter_map(room_of);
        let rooms = rooms.filter(|room| known.insert(room) && !self.is_in_room(key, room));
        let left: Vec<&str> = rooms.collect();
        for room in left {
            if let Some(who) = self.who(key) {
                self.leave_room(now, who, room, Parting::Left);
            }
        }
    }

    /// A connection ends: its session is out of its rooms, which keep its place for a while unless
    /// it went on purpose. Returns what it was subscribed to there.
    pub(crate) fn disconnect_rooms(
        &mut self,
        now: Tick,
        key: SessionKey,
        reason: CloseReason,
    ) -> Vec<Element> {
        let session = self.sessions.get(key);
        let mut elements = match session.map_or(0, Session::room_count) {
            0 => Vec::new(),
            _ => self.drop_subscriptions_below(key, "$room/"),
        };
        let mut rooms: Vec<String> = Vec::new();
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut add = |room: &str| {
            if !known.contains(room) {
                known.insert(room.into());
                rooms.push(room.into());
            }
        };
        elements
            .iter()
            .filter_map(|element| room_of(&element.filter))
            .for_each(&mut add);
        if self.is_held(key) {
            // What it has asked for and not got yet.
            let waiting = self.joins.waiting.values();
            let own = waiting.filter(|joining| joining.session == key);
            own.flat_map(|joining| &joining.rooms)
                .for_each(|room| add(room));
            self.slices.rooms_of(key).for_each(&mut add);
            elements.append(&mut self.take_returning(key));
        }
        let parting = match reason {
            CloseReason::Remote(Remote::Disconnect) => Parting::Left,
            _ => Parting::Lost,
        };
        // One copy for all of them: both may be long and many.
        let session = self.sessions.get(key);
        let client_id: Arc<str> = session.map_or("", |session| &session.client_id).into();
        for room in rooms {
            if let Some(who) = self.who(key) {
                self.leave_room_as(now, (who, &client_id), &room, parting);
            }
        }
        elements
    }
}
