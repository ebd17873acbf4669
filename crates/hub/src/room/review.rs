//! What a change of rights does to who is in rooms: whoever may be there no more is out at once,
//! and whoever may not speak any more goes on as an observer, or the other way round.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_session::Tick;
use stentor_zone::{Entry, Refusal, join_refused, topic};

use super::{Parting, RoomItem, below, room_of};
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::rights::{Access, Identity};
use crate::sessions::Link;

/// A room that a session is in, and whether it may be there: as what, by its subscriptions.
struct Standing {
    room: Box<str>,
    before: Option<Entry>,
    now: Option<Entry>,
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
    pub(super) fn may_speak(&self, room: &str) -> bool {
        self.user.is_some() && self.rights.may_publish(&topic::say(room))
    }
}

impl Hub {
    /// The rights of a session are not those that it had before.
    pub(crate) fn review_rooms(&mut self, now: Tick, key: SessionKey, before: &Identity) {
        let Some(session) = self.sessions.get(key) else {
            return;
        };
        let is_live = session.live().is_some();
        for standing in self.standings(key, before) {
            if standing.before == standing.now {
                continue;
            }
            let room = &*standing.room;
            match standing.now {
                None => self.expel(now, key, room),
                // Its session comes back as what it may be then.
                _ if !is_live => self.part_from(now, key, room, Parting::Revoked),
                Some(Entry::Observer) => self.part_from(now, key, room, Parting::Muted),
                Some(entry) => self.enter_as(now, key, room, entry),
            }
        }
    }

    fn standings(&self, key: SessionKey, before: &Identity) -> Vec<Standing> {
        let mut standings: Vec<Standing> = Vec::new();
        let Some(session) = self.sessions.get(key) else {
            return standings;
        };
        let mut add = |filter: &str| {
            let Some(room) = room_of(filter) else {
                return;
            };
            let entries = [before, &*session.identity].map(|who| entry(who, room, filter));
            match standings.iter_mut().find(|known| *known.room == *room) {
                Some(known) => {
                    known.before = known.before.or(entries[0]);
                    known.now = known.now.or(entries[1]);
                }
                None => standings.push(Standing {
                    room: room.into(),
                    before: entries[0],
                    now: entries[1],
                }),
            }
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

    /// A session may be in a room no more.
    fn expel(&mut self, now: Tick, key: SessionKey, room: &str) {
        self.part_from(now, key, room, Parting::Revoked);
        // Who is away is told when it is back, unless it has the right again by then.
        if !self.drop_subscriptions_below(key, &below(room)).is_empty() {
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
        let Some(who) = self.who(key) else {
            return;
        };
        let home = self.home_of(who.identity.zone);
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
