//! What a change of rights does to who is in rooms: whoever may be there no more is out at once,
//! and whoever may not speak any more goes on as an observer, or the other way round.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::{HashMap, HashSet};
use stentor_session::Tick;
use stentor_zone::{Entry, Refusal, join_refused, topic};

use super::{Parting, RoomItem, Who, all_below, room_of};
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::renewal::{Renewal, Renewed};
use crate::rights::{Access, Identity};
use crate::sessions::Link;

/// A room that a session is in, and whether it may be there: as what, by its subscriptions.
struct Standing {
    room: Box<str>,
    before: Option<Entry>,
    now: Option<Entry>,
}

/// A session whose connection was lost, while a room keeps its place. There may be no session any
/// more whose rights could be renewed.
#[derive(Debug)]
pub(crate) struct Absent {
    /// Until when the place is kept.
    pub(super) until: Tick,
    room: Box<str>,
    who: Who,
    client_id: Box<str>,
}

impl Absent {
    /// Whether a change of rights leaves it the right to come back.
    fn may_come_back(&mut self, renewal: &dyn Renewal) -> bool {
        match renewal.renew(&self.who.identity, &self.client_id) {
            Renewed::Keep => true,
            Renewed::Replace(identity) => {
                self.who.identity = identity;
                let all = all_below(&self.room);
                entry(&self.who.identity, &self.room, &all) == Some(Entry::Member)
            }
            Renewed::Close { .. } => false,
        }
    }
}

/// As what somebody is in a room by one of its subscriptions.
fn entry(identity: &Identity, room: &str, filter: &str) -> Option<Entry> {
    if identity.rights.may_subscribe(filter) == Access::Nothing {
        return None;
    }
    Some(if identity.may_speak(room) {
        Entry::Member
    } else {
        Entry::Observer
    })
}

impl Identity {
    /// Whether somebody is a member of a room that it is in, and not an observer.
    pub(crate) fn may_speak(&self, room: &str) -> bool {
        self.user.is_some() && self.rights.may_publish(&topic::say(room))
    }
}

impl Hub {
    /// At the home: a room may keep the place of a lost connection.
    pub(super) fn note_absent(&mut self, now: Tick, room: &str, who: &Who, client_id: Box<str>) {
        let grace = self.grace_of(who.identity.zone, room);
        if let Some(grace) = grace.filter(|grace| !grace.is_zero()) {
            self.zones.absent.push(Absent {
                until: now.after(grace),
                room: room.into(),
                who: who.clone(),
                client_id,
            });
        }
    }

    /// At the home: rights have changed, those of absent members too.
    pub(crate) fn review_absent(&mut self, now: Tick, renewal: &dyn Renewal) {
        let (stay, gone): (Vec<_>, Vec<_>) = core::mem::take(&mut self.zones.absent)
            .into_iter()
            .map(|mut absent| (absent.may_come_back(renewal), absent))
            .partition(|(may, _)| *may);
        self.zones.absent = stay.into_iter().map(|(_, absent)| absent).collect();
        for (_, absent) in gone {
            self.home_leave(now, &absent.room, &absent.who, Parting::Barred);
        }
    }

    /// The rights of a session are not those that it had before.
    pub(crate) fn review_rooms(&mut self, now: Tick, key: SessionKey, before: &Identity) {
        let Some(session) = self.sessions.get(key) else {
            return;
        };
        let is_live = session.live().is_some();
        let mut expelled: Vec<Box<str>> = Vec::new();
        for standing in self.standings(key, before) {
            if standing.before == standing.now {
                continue;
            }
            let room = &*standing.room;
            match standing.now {
                None => {
                    self.part_from(now, key, room, Parting::Revoked);
                    expelled.push(standing.room);
                }
                // Its session comes back as what it may be then.
                _ if !is_live => self.part_from(now, key, room, Parting::Revoked),
                Some(Entry::Observer) => self.part_from(now, key, room, Parting::Muted),
                Some(entry) => self.enter_as(now, key, room, entry),
            }
        }
        self.expel(now, key, &expelled);
    }

    fn standings(&self, key: SessionKey, before: &Identity) -> Vec<Standing> {
        let mut standings: Vec<Standing> = Vec::new();
        let mut places: HashMap<Box<str>, usize, foldhash::fast::FixedState> = HashMap::default();
        let Some(session) = self.sessions.get(key) else {
            return standings;
        };
        let mut add = |filter: &str| {
            let Some(room) = room_of(filter) else {
                return;
            };
            let entries = [before, &*session.identity].map(|who| entry(who, room, filter));
            let known = places.get(room).and_then(|at| standings.get_mut(*at));
            if let Some(known) = known {
                known.before = known.before.or(entries[0]);
                known.now = known.now.or(entries[1]);
                return;
            }
            places.insert(room.into(), standings.len());
            standings.push(Standing {
                room: room.into(),
                before: entries[0],
                now: entries[1],
            });
        };
        match &session.link {
            Link::Away(away) => {
                let filters = away.rooms.iter().map(|element| &*element.filter);
                filters.for_each(&mut add);
            }
            Link::Live(_) => {
                for subscription in &session.subscriptions {
                    let filter = self.filter_of(*subscription);
                    if filter.starts_with(super::ROOMS) {
                        add(&filter);
                    }
                }
            }
        }
        standings
    }

    /// A session may be in these rooms no more. O(subscriptions), however many rooms they are.
    fn expel(&mut self, now: Tick, key: SessionKey, rooms: &[Box<str>]) {
        if rooms.is_empty() {
            return;
        }
        let gone: HashSet<&str, foldhash::fast::FixedState> =
            rooms.iter().map(|room| &**room).collect();
        let dropped = self.drop_subscriptions(key, |filter| {
            room_of(filter).is_some_and(|room| gone.contains(room))
        });
        let mut told: HashSet<&str, foldhash::fast::FixedState> = HashSet::default();
        let rooms = dropped.iter().filter_map(|it| room_of(&it.filter));
        // Who is away is told when it is back, unless it has the right again by then.
        for room in rooms.filter(|room| told.insert(room)) {
            self.say_about_join(now, key, join_refused(room, Refusal::NoRight));
        }
    }

    fn part_from(&mut self, now: Tick, key: SessionKey, room: &str, parting: Parting) {
        if let Some(who) = self.who(key) {
            self.leave_room(now, who, room, parting);
        }
    }

    /// An observer may speak now. It stays one if there is no place.
    fn enter_as(&mut self, now: Tick, key: SessionKey, room: &str, entry: Entry) {
        let Some((who, home)) = self.who_and_home(key) else {
            return;
        };
        // Nobody waits for the answer.
        let answer = (self.shard, self.issue_ticket());
        let room = room.into();
        let item = RoomItem::Join {
            room,
            who,
            entry,
            answer,
        };
        self.send_room(now, home, item);
    }
}
