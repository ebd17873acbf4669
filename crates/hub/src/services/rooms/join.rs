//! Coming into rooms and going out of them: SUBSCRIBE, UNSUBSCRIBE, and connections that end.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use smallvec::SmallVec;
use stentor_mqtt::Subscribe;
use stentor_session::{CloseReason, Remote, Tick, Ticket};
use stentor_zone::{Entry, Refusal};

use super::back::tell_expelled;
use super::{Parting, RoomItem, all_below};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{
    Asked, Awaited, Decided, Denial, Element, Entering, Verdicts, room_of,
};
use crate::core::inbound::{acknowledge, hold, subscribe};
use crate::core::sessions::lifecycle;
use crate::core::sessions::registry::{Live, Session};
use crate::core::sessions::rights::Identity;
use crate::core::transitions::Detached;
use crate::services::interface::answer::ShardTicket;
use crate::services::interface::places::{JOINED_AT_ONCE_MAX, ROOMS_MAX};
use crate::services::interface::who::Who;
use crate::services::rooms::RoomService;

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
    /// It is connected again, and its places may be kept. Whether adaptors want to hear of joins.
    Back { hooks: bool },
    /// It is connected again, and has no places any more.
    Anew,
}

/// What a session asks for in rooms.
pub(super) struct JoinRequest {
    pub(super) cause: Cause,
    /// The filters.
    pub(super) elements: Vec<Element>,
    /// What the packet says beside them.
    pub(super) asked: Asked,
}

/// A session that has come into rooms, and has not subscribed there yet.
#[derive(Debug)]
struct Entered {
    session: SessionKey,
    who: Who,
    /// The rooms that it has asked for.
    rooms: Vec<Box<str>>,
    verdicts: Verdicts,
}

/// The sessions that wait for the homes of their zones.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    pub(super) waiting: HashMap<Ticket, Joining, foldhash::fast::FixedState>,
    /// Those that the home has let in, and whose SUBSCRIBE goes on in slices.
    entered: HashMap<Ticket, Entered, foldhash::fast::FixedState>,
    /// The tickets of each of these sessions. It is asked whenever one of them is sent out of a
    /// room, or loses its connection, and all may do that at once.
    by_session: HashMap<SessionKey, Tickets, foldhash::fast::FixedState>,
}

/// Tickets of one session. Nothing is read from its connection while it waits, so it has few.
pub(super) type Tickets = SmallVec<[Ticket; 2]>;

impl Joins {
    fn wait(&mut self, ticket: Ticket, joining: Joining) {
        self.note(joining.session, ticket);
        self.waiting.insert(ticket, joining);
    }

    fn end_wait(&mut self, ticket: Ticket) -> Option<Joining> {
        let joining = self.waiting.remove(&ticket)?;
        self.forget(joining.session, ticket);
        Some(joining)
    }

    fn enter(&mut self, ticket: Ticket, entered: Entered) {
        self.note(entered.session, ticket);
        self.entered.insert(ticket, entered);
    }

    fn end_entering(&mut self, ticket: Ticket) -> Option<Entered> {
        let entered = self.entered.remove(&ticket)?;
        self.forget(entered.session, ticket);
        Some(entered)
    }

    fn note(&mut self, key: SessionKey, ticket: Ticket) {
        self.by_session.entry(key).or_default().push(ticket);
    }

    fn forget(&mut self, key: SessionKey, ticket: Ticket) {
        if let Some(tickets) = self.by_session.get_mut(&key) {
            tickets.retain(|own| *own != ticket);
            if tickets.is_empty() {
                self.by_session.remove(&key);
            }
        }
    }

    /// What a session waits for.
    pub(super) fn tickets_of(&self, key: SessionKey) -> Tickets {
        self.by_session.get(&key).cloned().unwrap_or_default()
    }

    /// The rooms that a session has asked for and is not subscribed in yet.
    fn rooms_of(&self, key: SessionKey) -> impl Iterator<Item = &Box<str>> {
        let tickets = self.by_session.get(&key).into_iter().flatten();
        tickets.flat_map(|ticket| {
            let waiting = self.waiting.get(ticket).map(|joining| &joining.rooms);
            let entered = self.entered.get(ticket).map(|entered| &entered.rooms);
            waiting.into_iter().chain(entered).flatten()
        })
    }

    /// A session is out of a room that it was about to subscribe in.
    pub(super) fn expel(&mut self, key: SessionKey, room: &str) {
        for ticket in self.tickets_of(key) {
            let entered = self.entered.get_mut(&ticket);
            if let Some(verdict) = entered.and_then(|entered| entered.verdicts.get_mut(room)) {
                *verdict = Some(Refusal::NotMember);
            }
        }
    }
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

/// The rooms that a session has to ask for before it may subscribe to these filters: those that
/// it is not in, and those that it may speak in. There it may still be an observer, who had not
/// that right or found no place, and only the home of the zone knows. No more than `at_once`
/// are asked for. Adaptors were not asked about these (`unasked`, in order), for the session
/// was in them or had a place there: it comes into none of them from outside. O(filters).
pub(super) fn rooms_to_ask<'f>(
    core: &Core,
    key: SessionKey,
    filters: impl Iterator<Item = &'f str>,
    unasked: &[Box<str>],
    at_once: usize,
) -> RoomsWanted {
    let mut wanted = RoomsWanted::default();
    let mut known = Texts::default();
    let Some(session) = core.session(key) else {
        return wanted;
    };
    // What the session has no room for is refused without asking.
    let live = session.live();
    let mut places = core.rules().places_left(session);
    let mut rooms = ROOMS_MAX.saturating_sub(live.map_or(0, Live::room_count));
    let (mut anew, mut again) = (at_once, at_once);
    for filter in filters {
        let Some(room) = room_of(filter).filter(|room| !known.contains(room)) else {
            continue;
        };
        let access = session.state.identity().rights.may_subscribe(filter);
        let is_inside = live.is_some_and(|live| live.is_in_room(room));
        let may_speak = session.state.identity().may_speak(room);
        let may = core.settings().takes_topic(filter) && core.rules().is_accepted(access);
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

impl RoomService {
    /// A SUBSCRIBE that may name rooms: their homes are asked before it goes on.
    pub(crate) fn subscribe(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        denials: &[Option<Denial>],
        decided: &Decided,
    ) -> Result<(), CloseReason> {
        let filters = core.rules().allowed_filters(subscribe, denials, decided);
        let unasked = &decided.unasked[..];
        let rooms = rooms_to_ask(core, key, filters, unasked, JOINED_AT_ONCE_MAX);
        if !rooms.to_ask.is_empty()
            && let Some((awaited, elements, asked)) =
                subscribe::owned_request(core, key, subscribe, denials, decided)
        {
            let request = JoinRequest {
                cause: Cause::Subscribe(awaited),
                elements,
                asked,
            };
            if self.ask_rooms(core, now, key, &rooms, request).is_ok() {
                return Ok(());
            }
        }
        subscribe::begin(core, now, key, subscribe, denials, decided, &rooms.verdicts)
    }

    /// Asks for rooms, of which there is at least one; what was asked for goes on when all have
    /// answered.
    ///
    /// # Errors
    /// The elements, if too many wait.
    pub(super) fn ask_rooms(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        rooms: &RoomsWanted,
        request: JoinRequest,
    ) -> Result<(), Vec<Element>> {
        let JoinRequest {
            cause,
            elements,
            asked,
        } = request;
        let Some(who) = Who::of(core, key) else {
            return Err(elements);
        };
        if self.joins.waiting.len() >= WAITING_MAX {
            return Err(elements);
        }
        let Some(session) = core.session(key) else {
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
        let ticket = acknowledge::issue_ticket(core);
        self.joins.wait(ticket, joining);
        let home = core.home_of(who.identity.zone);
        // An UNSUBSCRIBE behind it has to find what this one brings.
        hold::begin(core, key);
        for (room, entry) in &rooms.to_ask {
            // Live messages follow the answer only if they are sent here from now on.
            let (zone, all) = (who.identity.zone, all_below(room));
            core.raise_interest(zone, &all);
            let item = RoomItem::Join {
                room: room.clone(),
                who: who.clone(),
                entry: match (cause, *entry) {
                    (Cause::Back { .. }, Entry::Member | Entry::Again) => Entry::Kept,
                    (_, entry) => entry,
                },
                answer: ShardTicket {
                    shard: core.shard(),
                    ticket,
                },
            };
            self.send_room(core, now, home, item);
        }
        Ok(())
    }

    /// The home has answered for one room.
    pub(super) fn joined(
        &mut self,
        core: &mut Core,
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
        let Some(joining) = self.joins.end_wait(ticket) else {
            return;
        };
        let key = joining.session;
        let still = Some(key).filter(|key| hold::is_still(core, *key, joining.epoch));
        let Joining {
            who,
            cause,
            elements,
            rooms,
            asked,
            verdicts,
            ..
        } = joining;
        let entered = Entered {
            session: key,
            who,
            rooms,
            verdicts,
        };
        let verdicts = &entered.verdicts;
        if still.is_some() {
            match cause {
                Cause::Back { .. } => self.came_back(core, now, key, elements, verdicts),
                Cause::Anew => {
                    let elements = tell_expelled(core, now, key, elements);
                    subscribe::go_on(core, now, key, &elements[..], asked, verdicts);
                }
                Cause::Subscribe(awaited) => {
                    let elements = tell_expelled(core, now, key, elements);
                    let entering = Entering {
                        awaited,
                        elements,
                        asked,
                        verdicts,
                        ticket,
                    };
                    if !subscribe::go_on_entered(core, now, key, entering) {
                        self.joins.enter(ticket, entered);
                        return;
                    }
                    let session = core.session(key);
                    let is_same = session.is_some_and(|session| session.live().is_some());
                    let still = is_same.then_some(key);
                    return self.end_joining(core, now, still, &entered);
                }
            }
            hold::end(core, now, key);
        }
        self.end_joining(core, now, still, &entered);
    }

    /// The SUBSCRIBE of a session that has come into rooms is over. `still` is that session,
    /// unless the connection that asked is gone.
    pub(super) fn entered(
        &mut self,
        core: &mut Core,
        now: Tick,
        ticket: Ticket,
        still: Option<SessionKey>,
    ) {
        if let Some(entered) = self.joins.end_entering(ticket) {
            self.end_joining(core, now, still, &entered);
        }
    }

    /// What a session wanted in rooms is there, or (without `still`) its connection has ended in
    /// the meantime.
    fn end_joining(
        &mut self,
        core: &mut Core,
        now: Tick,
        still: Option<SessionKey>,
        entered: &Entered,
    ) {
        let Entered {
            who,
            rooms,
            verdicts,
            ..
        } = entered;
        if let Some(key) = still {
            self.catch_up_rights(core, now, key, &who.identity);
        }
        for room in rooms {
            let zone = who.identity.zone;
            core.lower_interest(zone, &all_below(room));
            let has_joined = verdicts.get(room).is_some_and(Option::is_none);
            // Of a connection that ended in the meantime the home has been told.
            let Some(key) = still.filter(|_| has_joined) else {
                continue;
            };
            if !core.is_in_room(key, room) {
                let client_id = &Arc::default();
                self.leave_room_as(core, now, who.clone(), client_id, room, Parting::Left);
            }
        }
    }

    /// A session has come in by rights that may have changed in the meantime.
    fn catch_up_rights(&mut self, core: &mut Core, now: Tick, key: SessionKey, before: &Identity) {
        let session = core.session(key);
        let is_new =
            |session: &Session| !Arc::ptr_eq(&session.state.identity().rights, &before.rights);
        if session.is_some_and(is_new) {
            self.review_rooms(core, now, key, before);
        }
    }

    /// A session is out of a room.
    pub(super) fn leave_room(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        room: &str,
        parting: Parting,
    ) {
        if let Some(who) = Who::of(core, key) {
            self.leave_room_as(core, now, who, &Arc::default(), room, parting);
        }
    }

    /// A session with this client id is out of a room.
    fn leave_room_as(
        &mut self,
        core: &mut Core,
        now: Tick,
        who: Who,
        client_id: &Arc<str>,
        room: &str,
        parting: Parting,
    ) {
        let home = core.home_of(who.identity.zone);
        let item = RoomItem::Leave {
            room: room.into(),
            who,
            parting,
            client_id: Arc::clone(client_id),
        };
        self.send_room(core, now, home, item);
    }

    /// Subscriptions to these filters have ended: the session is out of the rooms that it has no
    /// other subscription below.
    pub(super) fn unsubscribed_rooms<'f>(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        filters: impl Iterator<Item = &'f str>,
    ) {
        let mut known = Texts::default();
        let rooms = filters.filter_map(room_of);
        let rooms = rooms.filter(|room| known.insert(room) && !core.is_in_room(key, room));
        let left: Vec<&str> = rooms.collect();
        for room in left {
            self.leave_room(core, now, key, room, Parting::Left);
        }
    }

    /// A connection has ended: its session is out of its rooms, which keep its place for a while
    /// unless it went on purpose.
    pub(crate) fn disconnect_rooms(&mut self, core: &mut Core, now: Tick, detached: &Detached) {
        let key = detached.session;
        let mut rooms = detached.rooms.clone();
        if detached.was_held {
            // What it has asked for and not got yet.
            let mut known: BTreeSet<Box<str>> = rooms.iter().cloned().collect();
            let waiting = self.joins.rooms_of(key);
            rooms.extend(
                waiting
                    .filter(|room| known.insert((*room).clone()))
                    .cloned(),
            );
            let returning = self.joins.returning(key);
            lifecycle::keep_for_return(core, key, returning);
        }
        let parting = match detached.reason {
            CloseReason::Remote(Remote::Disconnect) => Parting::Left,
            _ => Parting::Lost,
        };
        // One copy for all of them: both may be long and many.
        let client_id: Arc<str> = (*detached.client_id).into();
        for room in rooms {
            if let Some(who) = Who::new(core, key, &detached.identity) {
                self.leave_room_as(core, now, who, &client_id, &room, parting);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use stentor_topic::Zone;
    use stentor_zone::SessionId;

    use super::*;
    use crate::core::inbound::subscribe::Wishes;
    use crate::core::sessions::renewal::NoRights;

    const fn session(slot: u32) -> SessionKey {
        SessionKey {
            slot,
            generation: 1,
        }
    }

    fn who() -> Who {
        Who {
            session: SessionId(1),
            identity: Arc::new(Identity {
                user: Some("ann".into()),
                zone: Zone(1),
                rights: Arc::new(NoRights),
                expires_at: Tick::NEVER,
                guest: None,
            }),
        }
    }

    fn joining(slot: u32, room: &str) -> Joining {
        Joining {
            session: session(slot),
            who: who(),
            epoch: 0,
            cause: Cause::Anew,
            elements: Vec::new(),
            rooms: vec![room.into()],
            asked: Ok(Wishes::NOTHING),
            verdicts: Verdicts::new(),
            left: 1,
        }
    }

    fn rooms_of(joins: &Joins, slot: u32) -> Vec<&str> {
        let mut rooms: Vec<&str> = joins.rooms_of(session(slot)).map(|room| &**room).collect();
        rooms.sort_unstable();
        rooms
    }

    /// Of each of many sessions it is known what it waits for, and nothing is left of it.
    #[test]
    fn what_a_session_waits_for_is_found_by_its_key() {
        let mut joins = Joins::default();
        for slot in 0..100 {
            let number = u64::from(slot);
            joins.wait(Ticket(2 * number), joining(slot, "tea"));
            joins.wait(Ticket(2 * number + 1), joining(slot, "den"));
        }
        let begun = joins.end_wait(Ticket(14)).expect("it waits");
        assert_eq!(rooms_of(&joins, 7), ["den"]);
        let verdicts = Verdicts::from([("tea".into(), None)]);
        joins.enter(
            Ticket(14),
            Entered {
                session: begun.session,
                who: begun.who,
                rooms: begun.rooms,
                verdicts,
            },
        );
        assert_eq!(rooms_of(&joins, 7), ["den", "tea"]);
        assert_eq!(rooms_of(&joins, 8), ["den", "tea"]);
        joins.expel(session(7), "tea");
        let entered = joins.end_entering(Ticket(14)).expect("it goes on");
        assert_eq!(entered.verdicts.get("tea"), Some(&Some(Refusal::NotMember)));
        for ticket in (0..200).filter(|ticket| *ticket != 14) {
            assert!(joins.end_wait(Ticket(ticket)).is_some());
        }
        assert!(joins.by_session.is_empty());
    }
}
