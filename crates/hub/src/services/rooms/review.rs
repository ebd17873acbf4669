//! What a change of rights does to who is in rooms: whoever may be there no more is out at once,
//! and whoever may not speak any more goes on as an observer, or the other way round.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_session::Tick;
use stentor_zone::{Entry, Refusal, SessionId, join_refused};

use super::{Parting, RoomItem, all_below};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{ROOMS, index, room_of};
use crate::core::inbound::{acknowledge, subscribe};
use crate::core::sessions::registry::Link;
use crate::core::sessions::renewal::{Renewal, Renewed};
use crate::core::sessions::rights::{Access, Identity};
use crate::services::interface::answer::ShardTicket;
use crate::services::interface::who::Who;
use crate::services::rooms::RoomService;
use crate::services::rooms::talk::say_about_join;

/// A room that a session is in, and whether it may be there: as what, by its subscriptions.
struct RoomAccess {
    room: Box<str>,
    before: Option<Entry>,
    now: Option<Entry>,
}

/// A session whose connection was lost, while rooms keep its place. There may be no session any
/// more whose rights could be renewed.
#[derive(Debug)]
struct Absent {
    who: Who,
    client_id: Arc<str>,
    /// Where its place is kept, or was.
    rooms: BTreeSet<Box<str>>,
}

impl Absent {
    /// The rooms that a change of rights leaves it no right to come back to.
    fn barred(&mut self, renewal: &dyn Renewal) -> Vec<Box<str>> {
        match renewal.renew(&self.who.identity, &self.client_id) {
            Renewed::Keep => return Vec::new(),
            Renewed::Replace(identity) => self.who.identity = identity,
            Renewed::Close { .. } => return self.rooms.iter().cloned().collect(),
        }
        let identity = &self.who.identity;
        let rooms = self.rooms.iter();
        rooms
            .filter(|room| entry(identity, room, &all_below(room)) != Some(Entry::Member))
            .cloned()
            .collect()
    }
}

/// The sessions whose connections were lost, by their numbers. Rooms remember some of a member's,
/// and the others are forgotten here as soon as they are the larger part.
#[derive(Debug, Default)]
pub(crate) struct Absents {
    by_session: HashMap<SessionId, Absent, foldhash::fast::FixedState>,
    /// About what they hold, and what they may hold before it is looked which of it still counts.
    bytes: usize,
    bytes_max: usize,
}

/// What one entry holds besides its texts, about.
const ENTRY_BYTES: usize = 64;

/// What absent sessions may hold however little of it counts.
const ABSENT_BYTES_MIN: usize = 1 << 20;

impl Absents {
    pub(super) fn note(&mut self, room: &str, who: &Who, client_id: &Arc<str>) {
        let absent = self.by_session.entry(who.session).or_insert_with(|| {
            self.bytes += ENTRY_BYTES + client_id.len();
            Absent {
                who: who.clone(),
                client_id: Arc::clone(client_id),
                rooms: BTreeSet::new(),
            }
        });
        absent.who = who.clone();
        if absent.rooms.insert(room.into()) {
            self.bytes += ENTRY_BYTES + room.len();
        }
    }

    pub(super) const fn is_large(&self) -> bool {
        self.bytes > self.bytes_max && self.bytes > ABSENT_BYTES_MIN
    }

    /// Forgets places that are not kept any more.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Who, &str) -> bool) {
        let mut bytes = 0;
        self.by_session.retain(|_, absent| {
            let who = &absent.who;
            absent.rooms.retain(|room| is_kept(who, room));
            let rooms = absent.rooms.iter().map(|room| ENTRY_BYTES + room.len());
            let rooms: usize = rooms.sum();
            let stays = rooms > 0;
            bytes += usize::from(stays) * (ENTRY_BYTES + absent.client_id.len() + rooms);
            stays
        });
        (self.bytes, self.bytes_max) = (bytes, 2 * bytes);
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

impl RoomService {
    /// At the home: rights have changed, those of absent members too.
    pub(crate) fn review_absent(&mut self, core: &mut Core, now: Tick, renewal: &dyn Renewal) {
        self.zones.forget_absent(now);
        let mut all: Vec<(Who, Vec<Box<str>>)> = Vec::new();
        for absent in self.zones.absent.by_session.values_mut() {
            let rooms = absent.barred(renewal);
            if !rooms.is_empty() {
                all.push((absent.who.clone(), rooms));
            }
        }
        for (who, rooms) in all {
            for room in rooms {
                self.home_leave(core, now, &room, &who, Parting::Barred);
            }
        }
    }

    /// The rights of a session are not those that it had before.
    pub(super) fn review_rooms(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        before: &Identity,
    ) {
        let Some(session) = core.session(key) else {
            return;
        };
        let is_live = session.live().is_some();
        let mut expelled: Vec<Box<str>> = Vec::new();
        for access in accesses(core, key, before) {
            if access.before == access.now {
                continue;
            }
            let room = &*access.room;
            match access.now {
                None => {
                    self.leave_room(core, now, key, room, Parting::Revoked);
                    expelled.push(access.room);
                }
                // Its session comes back as what it may be then.
                _ if !is_live => self.leave_room(core, now, key, room, Parting::Revoked),
                Some(Entry::Observer) => self.leave_room(core, now, key, room, Parting::Muted),
                Some(entry) => self.enter_as(core, now, key, room, entry),
            }
        }
        expel(core, now, key, &expelled);
    }

    /// An observer may speak now. It stays one if there is no place.
    fn enter_as(&mut self, core: &mut Core, now: Tick, key: SessionKey, room: &str, entry: Entry) {
        let Some((who, home)) = Who::and_home(core, key) else {
            return;
        };
        // Nobody waits for the answer.
        let answer = ShardTicket {
            shard: core.shard(),
            ticket: acknowledge::issue_ticket(core),
        };
        let room = room.into();
        let item = RoomItem::Join {
            room,
            who,
            entry,
            answer,
        };
        self.send_room(core, now, home, item);
    }
}

/// The rooms that a session is in, and may be in, by these rights and those that it had before.
fn accesses(core: &Core, key: SessionKey, before: &Identity) -> Vec<RoomAccess> {
    let mut accesses: Vec<RoomAccess> = Vec::new();
    let mut places: BTreeMap<Box<str>, usize> = BTreeMap::new();
    let Some(session) = core.session(key) else {
        return accesses;
    };
    let mut add = |filter: &str| {
        let Some(room) = room_of(filter) else {
            return;
        };
        let entries = [before, &**session.state.identity()].map(|who| entry(who, room, filter));
        let known = places.get(room).and_then(|at| accesses.get_mut(*at));
        if let Some(known) = known {
            known.before = known.before.or(entries[0]);
            known.now = known.now.or(entries[1]);
            return;
        }
        places.insert(room.into(), accesses.len());
        accesses.push(RoomAccess {
            room: room.into(),
            before: entries[0],
            now: entries[1],
        });
    };
    match &session.link {
        Link::Away(away) => {
            let rooms = away.left.iter().flat_map(|left| &left.rooms);
            let filters = rooms.map(|element| &*element.filter);
            filters.for_each(&mut add);
        }
        Link::Live(_) => {
            for subscription in session.state.subscriptions.as_slice() {
                let filter = index::filter_of(core, *subscription);
                if filter.starts_with(ROOMS) {
                    add(&filter);
                }
            }
        }
    }
    accesses
}

/// A session may be in these rooms no more. O(subscriptions), however many rooms they are.
fn expel(core: &mut Core, now: Tick, key: SessionKey, rooms: &[Box<str>]) {
    if rooms.is_empty() {
        return;
    }
    let gone: BTreeSet<&str> = rooms.iter().map(|room| &**room).collect();
    let dropped = subscribe::drop_such(core, key, |filter| {
        room_of(filter).is_some_and(|room| gone.contains(room))
    });
    let mut told: BTreeSet<&str> = BTreeSet::new();
    let rooms = dropped.iter().filter_map(|it| room_of(&it.filter));
    // A session that is away learns it when it is back, unless it has the right again by then.
    for room in rooms.filter(|room| told.insert(room)) {
        say_about_join(core, now, key, join_refused(room, Refusal::NoRight));
    }
}

#[cfg(test)]
mod tests {
    use stentor_topic::Zone;

    use super::*;
    use crate::core::sessions::rights::Rights;

    struct Everything;

    impl Rights for Everything {
        fn may_publish(&self, _topic: &str) -> bool {
            true
        }
        fn may_subscribe(&self, _filter: &str) -> Access {
            Access::All
        }
        fn may_receive(&self, _topic: &str) -> bool {
            true
        }
    }

    /// Somebody connects again and again with a long client id, and goes without a word.
    #[test]
    fn lost_connections_hold_no_more_than_rooms_remember() {
        let identity = Arc::new(Identity {
            user: Some("ann".into()),
            zone: Zone(1),
            rights: Arc::new(Everything),
            expires_at: Tick::NEVER,
            guest: None,
        });
        let mut absents = Absents::default();
        let mut most = 0;
        for cycle in 0..2_000_u64 {
            let client_id: Arc<str> = "c".repeat(60_000).into();
            let who = Who {
                session: SessionId(cycle),
                identity: Arc::clone(&identity),
            };
            for room in 0..100 {
                absents.note(&alloc::format!("room{room}"), &who, &client_id);
            }
            if absents.is_large() {
                absents.retain(|who, _| who.session.0 + 16 > cycle);
            }
            most = most.max(absents.bytes);
        }
        assert!(most < 4 << 20, "{most}");
        absents.retain(|_, _| false);
        assert_eq!((absents.bytes, absents.by_session.len()), (0, 0));
    }
}
