//! What rooms should be, said as simply as possible.

use std::collections::{BTreeMap, BTreeSet};

const GRACE_SECS: u64 = 30;
const UNCLAIMED_SECS: u64 = 600;

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Full,
    Locked,
}

#[derive(Clone, Debug)]
enum State {
    /// By these sessions.
    Here(BTreeSet<usize>),
    /// Until then.
    Away(u64),
}

/// Somebody whose connection was lost a moment ago.
#[derive(Clone, Debug)]
struct Awaited {
    user: usize,
    /// Of a session that outlives its connection; another is a new one when it comes again.
    session: Option<usize>,
    until: u64,
}

/// The one property that the simulation plays with.
#[derive(Clone, Debug, Default)]
struct Property {
    value: Option<usize>,
    version: u64,
    by: Option<usize>,
    lock: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Room {
    permanent: bool,
    /// In the order they came.
    members: Vec<(usize, State)>,
    /// Users, and the sessions where they lost their connections.
    lost: BTreeSet<(usize, usize)>,
    /// Those of them for whom the place of their user is kept, and until when.
    awaited: Vec<Awaited>,
    owner: Option<usize>,
    capacity: Option<usize>,
    locked: bool,
    claim_until: Option<u64>,
    property: Property,
    last_version: u64,
}

impl Room {
    fn state(&mut self, user: usize) -> Option<&mut State> {
        let (_, state) = self.members.iter_mut().find(|(name, _)| *name == user)?;
        Some(state)
    }

    fn is_here(&self, user: usize) -> bool {
        let is_it =
            |(name, state): &(usize, State)| *name == user && matches!(state, State::Here(_));
        self.members.iter().any(is_it)
    }

    fn oldest(&self) -> Option<usize> {
        self.members.first().map(|(user, _)| *user)
    }

    /// A member is gone for good.
    fn part(&mut self, user: usize) {
        self.members.retain(|(name, _)| *name != user);
        self.lost.retain(|(name, _)| *name != user);
        self.awaited.retain(|one| one.user != user);
        if self.property.lock == Some(user) {
            self.property.lock = None;
            self.tidy();
        }
        if self.owner == Some(user) && !self.permanent {
            self.owner = self.oldest();
            self.claim_until = None;
        }
    }

    /// A session comes in: one of those that were lost is not awaited any more.
    fn arrives(&mut self, user: usize, session: usize) {
        if matches!(self.state(user), Some(State::Here(all)) if all.contains(&session)) {
            return;
        }
        let mut awaited = self.awaited.iter();
        let own = awaited.position(|one| one.user == user && one.session == Some(session));
        let any = || self.awaited.iter().position(|one| one.user == user);
        if let Some(place) = own.or_else(any) {
            self.awaited.remove(place);
        }
    }

    /// Nobody of a user is there any more.
    fn depart(&mut self, user: usize) {
        let own = self.awaited.iter().filter(|one| one.user == user);
        let until = own.map(|one| one.until).max();
        match (until, self.state(user)) {
            (Some(until), Some(state)) => *state = State::Away(until),
            _ => self.part(user),
        }
    }

    /// A property that says nothing is none.
    fn tidy(&mut self) {
        if self.property.value.is_none() && self.property.lock.is_none() {
            self.property = Property::default();
        }
    }

    fn is_over(&self) -> bool {
        !self.permanent && self.members.is_empty() && self.claim_until.is_none()
    }
}

/// All rooms.
#[derive(Debug)]
pub(crate) struct Model {
    /// `None` where there is none.
    rooms: Vec<Option<Room>>,
    /// Whose sessions outlive their connections.
    lasting: fn(usize) -> bool,
}

impl Model {
    /// So many rooms may be there; one of them is permanent.
    pub(crate) fn new(rooms: usize, permanent: usize, lasting: fn(usize) -> bool) -> Self {
        let mut all = vec![None; rooms];
        all[permanent] = Some(Room {
            permanent: true,
            ..Room::default()
        });
        Self {
            rooms: all,
            lasting,
        }
    }

    /// Does something in a room that is there.
    fn act<R>(&mut self, room: usize, f: impl FnOnce(&mut Room) -> R) -> Option<R> {
        let held = self.rooms[room].as_mut()?;
        let result = f(held);
        if held.is_over() {
            self.rooms[room] = None;
        }
        Some(result)
    }

    pub(crate) fn is_here(&self, room: usize, user: usize) -> bool {
        self.rooms[room]
            .as_ref()
            .is_some_and(|room| room.is_here(user))
    }

    pub(crate) fn join(&mut self, room: usize, user: usize, session: usize) -> Result<(), Refused> {
        let held = self.rooms[room].get_or_insert_with(|| Room {
            owner: Some(user),
            ..Room::default()
        });
        held.lost.remove(&(user, session));
        held.arrives(user, session);
        match held.state(user) {
            Some(State::Here(sessions)) => {
                sessions.insert(session);
            }
            Some(state) => *state = State::Here([session].into()),
            None => {
                if held.locked && held.owner != Some(user) {
                    return Err(Refused::Locked);
                }
                let is_full = |places| held.members.len() >= places;
                if held.capacity.is_some_and(is_full) {
                    return Err(Refused::Full);
                }
                held.members.push((user, State::Here([session].into())));
                if held.owner.is_none() && !held.permanent {
                    held.owner = Some(user);
                }
                if held.owner == Some(user) {
                    held.claim_until = None;
                }
            }
        }
        Ok(())
    }

    /// Whether that was the user's last session.
    fn detach(room: &mut Room, user: usize, session: usize) -> bool {
        match room.state(user) {
            Some(State::Here(sessions)) => sessions.remove(&session) && sessions.is_empty(),
            _ => false,
        }
    }

    pub(crate) fn leave(&mut self, room: usize, user: usize, session: usize) {
        self.act(room, |room| {
            if Self::detach(room, user, session) {
                room.depart(user);
            }
        });
    }

    pub(crate) fn lost(&mut self, now: u64, room: usize, user: usize, session: usize) {
        let lasting = self.lasting;
        self.act(room, |room| {
            if matches!(room.state(user), Some(State::Here(all)) if all.contains(&session)) {
                room.lost.insert((user, session));
                room.awaited.push(Awaited {
                    user,
                    session: Some(session).filter(|session| lasting(*session)),
                    until: now + GRACE_SECS,
                });
            }
            if Self::detach(room, user, session) {
                room.depart(user);
            }
        });
    }

    pub(crate) fn advance(&mut self, now: u64) {
        for room in 0..self.rooms.len() {
            self.act(room, |room| {
                room.awaited.retain(|one| one.until > now);
                let is_late = |state: &State| matches!(state, State::Away(until) if *until <= now);
                let late = room.members.iter().filter(|(_, state)| is_late(state));
                let late: Vec<usize> = late.map(|(user, _)| *user).collect();
                late.into_iter().for_each(|user| room.part(user));
                if room.claim_until.is_some_and(|until| until <= now) {
                    room.claim_until = None;
                    room.owner = room.oldest();
                }
            });
        }
    }

    pub(crate) fn create(&mut self, now: u64, room: usize, user: usize) -> bool {
        if self.rooms[room].is_some() {
            return false;
        }
        self.rooms[room] = Some(Room {
            owner: Some(user),
            claim_until: Some(now + UNCLAIMED_SECS),
            ..Room::default()
        });
        true
    }

    pub(crate) fn property_version(&self, room: usize) -> u64 {
        self.rooms[room]
            .as_ref()
            .map_or(0, |room| room.property.version)
    }

    pub(crate) fn set(
        &mut self,
        room: usize,
        user: usize,
        value: Option<usize>,
        if_version: Option<u64>,
    ) -> bool {
        let set = |room: &mut Room| {
            let property = &mut room.property;
            let is_inside = room
                .members
                .iter()
                .any(|(name, state)| *name == user && matches!(state, State::Here(_)));
            let may = is_inside || room.owner == Some(user);
            let is_free = property.lock.is_none_or(|holder| holder == user);
            let fits = if_version.is_none_or(|version| version == property.version);
            let is_nothing = property.value.is_none() && property.lock.is_none();
            if !may || !is_free || !fits || (value.is_none() && is_nothing) {
                return false;
            }
            room.last_version += 1;
            property.version = room.last_version;
            property.by = Some(user);
            property.value = value;
            room.tidy();
            true
        };
        self.act(room, set).unwrap_or(false)
    }

    pub(crate) fn lock(&mut self, room: usize, user: usize) -> bool {
        let lock = |room: &mut Room| {
            let is_free = room.property.lock.is_none_or(|holder| holder == user);
            let may = room.is_here(user) && is_free;
            if may {
                room.property.lock = Some(user);
            }
            may
        };
        self.act(room, lock).unwrap_or(false)
    }

    pub(crate) fn unlock(&mut self, room: usize, user: usize) -> bool {
        let unlock = |room: &mut Room| {
            let breaks = room.owner == Some(user);
            let holder = room.property.lock;
            let may = holder.is_some_and(|holder| holder == user || breaks);
            if may {
                room.property.lock = None;
                room.tidy();
            }
            may
        };
        self.act(room, unlock).unwrap_or(false)
    }

    pub(crate) fn change(
        &mut self,
        room: usize,
        user: usize,
        capacity: usize,
        locked: bool,
    ) -> bool {
        let change = |room: &mut Room| {
            let may = room.owner == Some(user);
            if may {
                room.capacity = Some(capacity).filter(|capacity| *capacity > 0);
                room.locked = locked;
            }
            may
        };
        self.act(room, change).unwrap_or(false)
    }

    /// `by` is a user, or nobody for the administrator. Returns where the user had lost its
    /// connections, if it is done.
    pub(crate) fn kick(
        &mut self,
        room: usize,
        by: Option<usize>,
        whom: usize,
    ) -> Option<Vec<usize>> {
        let kick = |room: &mut Room| {
            let may = by.is_none_or(|user| room.owner == Some(user));
            let done = may && room.state(whom).is_some();
            let own = room.lost.iter().filter(|(user, _)| *user == whom);
            let lost = own.map(|(_, session)| *session).collect();
            if done {
                room.part(whom);
            }
            done.then_some(lost)
        };
        self.act(room, kick).flatten()
    }

    /// What the retained topics are to be.
    pub(crate) fn topics(
        &self,
        rooms: &[&str],
        name: impl Fn(usize) -> String,
    ) -> BTreeMap<String, String> {
        let mut topics = BTreeMap::new();
        for (room, held) in rooms.iter().zip(&self.rooms) {
            let Some(held) = held else { continue };
            for (user, state) in &held.members {
                let state = match state {
                    State::Here(_) => "here",
                    State::Away(_) => "away",
                };
                let topic = format!("$room/{room}/member/{}", name(*user));
                topics.insert(topic, format!(r#"{{"state":"{state}"}}"#));
            }
            let property = &held.property;
            let value = property.value.map(|value| value.to_string());
            if property.value.is_some() || property.lock.is_some() {
                let shown = value.as_deref().unwrap_or("null");
                let mut text = format!(r#"{{"value":{shown},"version":{}"#, property.version);
                for (key, user) in [("by", property.by), ("lock", property.lock)] {
                    let part = user.map(|user| format!(r#","{key}":"{}""#, name(user)));
                    text.push_str(&part.unwrap_or_default());
                }
                topics.insert(format!("$room/{room}/prop/p"), text + "}");
            }
            let capacity = held
                .capacity
                .map(|places| format!(r#","capacity":{places}"#));
            let owner = held
                .owner
                .map(|user| format!(r#","owner":"{}""#, name(user)));
            let properties = value.map(|value| format!(r#""p":{value}"#));
            let properties = properties.unwrap_or_default();
            let text = format!(
                r#"{{"room":"{room}","members":{}{}{},"locked":{},"permanent":{},{}}}"#,
                held.members.len(),
                capacity.unwrap_or_default(),
                owner.unwrap_or_default(),
                held.locked,
                held.permanent,
                format_args!(r#""properties":{{{properties}}}"#),
            );
            topics.insert(format!("$rooms/{room}"), text);
        }
        topics
    }
}
