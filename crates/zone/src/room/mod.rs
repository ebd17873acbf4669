//! One room: its members, what they said, its properties.

mod history;
mod members;
mod notice;
mod options;
mod properties;

pub use options::{Bounds, Change, HistoryBounds, RoomOptions};
pub(crate) use properties::is_same;
pub use properties::{Condition, Property};

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::{Map, Value};
use stentor_session::Tick;
use thiserror::Error;

use crate::effect::{Effect, Expelled, Seat};
use crate::topic;
use history::History;
use members::{Departure, Members};
use notice::{Notice, Reason};
use properties::Properties;

/// Who does something in a room.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    /// The user's name.
    pub user: &'a str,
    /// What the user is to the zone.
    pub role: Role,
}

/// What a user is to the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An ordinary user: may change what it owns.
    User,
    /// May change everything.
    Administrator,
}

/// How a session comes into a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// As a member, whom the others see and who may speak.
    Member,
    /// It hears and is not seen. Takes no place.
    Observer,
    /// As a member who has a place in the room, be it that of another session: nobody else.
    Kept,
}

/// Why a room does not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// All places are taken.
    #[error("the room is full")]
    Full,
    /// Nobody may come in now.
    #[error("the room is locked")]
    Locked,
    /// Only members do that.
    #[error("not a member of the room")]
    NotMember,
    /// Only the owner and administrators do that.
    #[error("only the room's owner may do that")]
    NotOwner,
    /// Another user holds the property's lock.
    #[error("another user has locked the property")]
    PropertyLocked,
    /// The property does not have the expected value or version.
    #[error("the property has changed")]
    Conflict,
    /// There is no such room, member or property.
    #[error("there is no such thing in the room")]
    Unknown,
    /// There is such a room already.
    #[error("there is a room of this name already")]
    Exists,
    /// The name cannot be used.
    #[error("the name is empty, too long, or contains / + # $ or control characters")]
    Name,
    /// The value or the payload is larger than a bound.
    #[error("larger than allowed")]
    TooLarge,
    /// As many rooms or properties as there may be.
    #[error("as many as allowed are there already")]
    TooMany,
    /// The zone does not let users make rooms.
    #[error("this zone's rooms are made by its administrators")]
    NotAllowed,
    /// Users make no permanent rooms.
    #[error("permanent rooms are made by administrators")]
    Permanent,
    /// The user may neither enter the room nor see it in the list of rooms.
    #[error("the right to this room is missing")]
    NoRight,
}

impl Refusal {
    /// A word for machines.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Locked => "locked",
            Self::NotMember => "not-member",
            Self::NotOwner => "not-owner",
            Self::PropertyLocked => "property-locked",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
            Self::Exists => "exists",
            Self::Name => "bad-name",
            Self::TooLarge => "too-large",
            Self::TooMany => "too-many",
            Self::NotAllowed | Self::Permanent | Self::NoRight => "not-allowed",
        }
    }

    /// The reason code of MQTT 5 that says it in SUBACK and PUBACK.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Full | Self::TooMany | Self::TooLarge => 0x97,
            Self::Locked | Self::PropertyLocked | Self::Conflict | Self::Exists => 0x83,
            Self::NotMember
            | Self::NotOwner
            | Self::NotAllowed
            | Self::Permanent
            | Self::NoRight => 0x87,
            Self::Unknown | Self::Name => 0x8F,
        }
    }

    /// A sentence for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Full => "the room is full",
            Self::Locked => "the room is locked",
            Self::NotMember => "you are not a member of the room",
            Self::NotOwner => "only the room's owner may do that",
            Self::PropertyLocked => "another user has locked the property",
            Self::Conflict => "the property has changed",
            Self::Unknown => "there is no such room, member or property",
            Self::Exists => "there is a room of this name already",
            Self::Name => "the name is empty, too long, or contains / + # $",
            Self::TooLarge => "larger than allowed",
            Self::TooMany => "as many as allowed are there already",
            Self::NotAllowed => "this zone's rooms are made by its administrators",
            Self::Permanent => "permanent rooms are made by administrators",
            Self::NoRight => "the right to this room is missing",
        }
    }
}

/// What the list of rooms tells of a room.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The room.
    pub room: Arc<str>,
    /// How many members it has, those included who are away for a moment.
    pub members: usize,
    /// How many it may have; `None` without a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Arc<str>>,
    /// Whether nobody may come in.
    pub locked: bool,
    /// Whether it stays when it is empty.
    pub permanent: bool,
    /// Its properties.
    pub properties: Map<String, Value>,
}

/// A room. Told what users do, it answers with effects and never with silence: what is refused is
/// refused by a [`Refusal`].
#[derive(Debug)]
pub struct Room {
    name: Arc<str>,
    options: RoomOptions,
    owner: Option<Arc<str>>,
    /// Until when a room that was made by command waits for its owner, or for anybody if it has
    /// none; [`Tick::NEVER`] once somebody has come, and for all others.
    claim_until: Tick,
    /// Bytes that it may hold beyond those that it does.
    spare: usize,
    /// Who owns as many rooms as a user may; known while something is done in the room.
    full: Option<Arc<BTreeSet<Arc<str>>>>,
    members: Members,
    properties: Properties,
    history: History,
}

impl Room {
    /// An empty room. Publishes its place in the list of rooms.
    pub fn new(
        name: &str,
        owner: Option<&str>,
        options: RoomOptions,
        out: &mut Vec<Effect>,
    ) -> Self {
        let room = Self {
            name: name.into(),
            owner: owner.map(Into::into),
            claim_until: Tick::NEVER,
            spare: usize::MAX,
            full: None,
            members: Members::default(),
            properties: Properties::default(),
            history: History::default(),
            options,
        };
        room.list(out);
        room
    }

    /// Gives a new room its properties. It is of no use any more if one cannot be.
    pub(crate) fn furnish(
        &mut self,
        actor: Actor<'_>,
        properties: Map<String, Value>,
        out: &mut Vec<Effect>,
    ) -> Result<(), (String, Refusal)> {
        if properties.is_empty() {
            return Ok(());
        }
        for (name, value) in properties {
            let bounds = (&self.options.bounds, self.spare - self.bytes());
            let (value, always) = (Some(value), Condition::Always);
            let set = self.properties.set(actor, &name, value, &always, bounds);
            if let Err(why) = set {
                return Err((name, why));
            }
            self.show_property(&name, out);
        }
        self.list(out);
        Ok(())
    }

    /// What its users cannot change.
    pub(crate) const fn bounds(&self) -> &Bounds {
        &self.options.bounds
    }

    /// The room's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What the list of rooms tells. O(properties).
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            room: Arc::clone(&self.name),
            members: self.members.len(),
            capacity: self.options.capacity,
            owner: self.owner.clone(),
            locked: self.options.locked,
            permanent: self.options.permanent,
            properties: self.properties.values(),
        }
    }

    /// How many members it has.
    #[must_use]
    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Bytes of its properties and of what it keeps of what was said.
    pub(crate) const fn bytes(&self) -> usize {
        self.properties.bytes() + self.history.bytes()
    }

    /// So many more bytes it may hold from now on.
    pub(crate) const fn spare(&mut self, bytes: usize) {
        self.spare = bytes;
    }

    /// These users own as many rooms as they may: none of them comes to own this one.
    pub(crate) fn pass_over(&mut self, full: Option<Arc<BTreeSet<Arc<str>>>>) {
        self.full = full;
    }

    /// Whether a user may come to own the room. Permanent ones do not count.
    fn may_be_owned_by(&self, user: &str) -> bool {
        let is_full = self.full.as_ref().is_some_and(|full| full.contains(user));
        self.options.permanent || !is_full
    }

    /// The oldest member inherits the room, of those who may own one more.
    fn heir(&self) -> Option<Arc<str>> {
        self.members.oldest(|user| self.may_be_owned_by(user))
    }

    /// From now on it waits for its owner, though nobody is in it.
    pub(crate) const fn wait_until(&mut self, at: Tick) {
        self.claim_until = at;
    }

    /// Whether a user is a member, here or away.
    #[must_use]
    pub fn is_member(&self, user: &str) -> bool {
        self.members.is_member(user)
    }

    /// Whether a member's place is kept, though all its connections are lost.
    #[must_use]
    pub fn is_away(&self, user: &str) -> bool {
        self.members.is_away(user)
    }

    /// Whether it lets nobody in but its owner and administrators.
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        self.options.locked
    }

    /// What it keeps of what is said.
    #[must_use]
    pub const fn history_bounds(&self) -> HistoryBounds {
        self.options.history
    }

    /// How long the place of a lost connection is kept.
    #[must_use]
    pub const fn grace(&self) -> core::time::Duration {
        self.options.grace
    }

    /// Whether so many more may come in.
    #[must_use]
    pub fn takes(&self, places: u32) -> bool {
        let has_places = self.options.capacity.is_none_or(|capacity| {
            (capacity as usize).saturating_sub(self.members.len()) >= places as usize
        });
        !self.options.locked && has_places
    }

    /// The owner, if the room counts among those that this user owns.
    pub(crate) fn counted_owner(&self) -> Option<Arc<str>> {
        self.owner.clone().filter(|_| !self.options.permanent)
    }

    /// Other options from now on, by the zone's configuration. Members stay.
    pub(crate) fn settle(&mut self, options: RoomOptions, out: &mut Vec<Effect>) {
        if self.options == options {
            return;
        }
        self.options = options;
        self.history.shrink(&self.options.history);
        self.list(out);
    }

    /// It does not stay any more when it is empty.
    pub(crate) fn unfix(&mut self, out: &mut Vec<Effect>) {
        self.options.permanent = false;
        self.list(out);
    }

    /// The members' names, in the order they came. O(members · log members).
    #[must_use]
    pub fn members(&self) -> Vec<Arc<str>> {
        self.members.in_order()
    }

    /// One property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties.get(name)
    }

    /// Whether nothing holds the room any more: it is not permanent, nobody is in it, and it does
    /// not wait for its owner.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_empty = self.claim_until == Tick::NEVER && self.members.is_deserted();
        !self.options.permanent && is_empty
    }

    /// When [`advance`](Self::advance) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let claim = Some(self.claim_until).filter(|at| *at != Tick::NEVER);
        self.members.next_deadline().into_iter().chain(claim).min()
    }

    /// A session comes in, or comes back to the place that it or its user has. What was said
    /// before follows for a session that was not in the room. O(log members), plus the history.
    ///
    /// # Errors
    /// [`Refusal::Locked`], [`Refusal::Full`]; whoever has a place or observes goes on. For
    /// [`Entry::Kept`] only [`Refusal::NotMember`].
    pub fn join(
        &mut self,
        now: Tick,
        actor: Actor<'_>,
        seat: Seat,
        entry: Entry,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if self.members.sits(actor.user, seat) {
            return Ok(());
        }
        if entry == Entry::Observer {
            return self.look_on(now, actor, seat, out);
        }
        match self.members.sit(actor.user, seat) {
            members::Seated::Beside => {}
            members::Seated::Back => {
                self.show_member(actor.user, "here", out);
                self.tell(Notice::Back { user: actor.user }, out);
            }
            members::Seated::Stranger if entry == Entry::Kept => return Err(Refusal::NotMember),
            members::Seated::Stranger => self.admit(actor, seat, out)?,
        }
        if !self.members.stop_observing(seat) {
            self.history.recall(now, &self.options.history, seat, out);
        }
        Ok(())
    }

    /// A session comes in as an observer.
    fn look_on(
        &mut self,
        now: Tick,
        actor: Actor<'_>,
        seat: Seat,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if self.members.observes(seat) {
            return Ok(());
        }
        self.must_be_open(actor)?;
        self.members.observe(actor.user, seat);
        self.history.recall(now, &self.options.history, seat, out);
        Ok(())
    }

    /// Whether somebody may come in, as far as the lock goes.
    fn must_be_open(&self, actor: Actor<'_>) -> Result<(), Refusal> {
        if self.options.locked && self.must_own(actor).is_err() {
            return Err(Refusal::Locked);
        }
        Ok(())
    }

    fn admit(
        &mut self,
        actor: Actor<'_>,
        seat: Seat,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.must_be_open(actor)?;
        let is_full = self
            .options
            .capacity
            .is_some_and(|capacity| self.members.len() >= capacity as usize);
        if is_full {
            return Err(Refusal::Full);
        }
        self.members.add(actor.user, seat);
        let is_ownerless = self.owner.is_none() && !self.options.permanent;
        if is_ownerless && self.may_be_owned_by(actor.user) {
            self.owner = Some(actor.user.into());
        }
        if self.is_owner(actor) {
            self.claim_until = Tick::NEVER;
        }
        self.show_member(actor.user, "here", out);
        let members = self.members.len();
        self.tell(
            Notice::Joined {
                user: actor.user,
                members,
            },
            out,
        );
        self.list(out);
        Ok(())
    }

    /// A session leaves on purpose. Nothing happens if it is not in the room.
    pub fn leave(&mut self, user: &str, seat: Seat, out: &mut Vec<Effect>) {
        if self.members.stand_up(user, seat) == Departure::LastSeat {
            self.part(user, Reason::Left, out);
        }
    }

    /// A session's connection was lost. Its user keeps the place for the grace period.
    pub fn lost(&mut self, now: Tick, user: &str, seat: Seat, out: &mut Vec<Effect>) {
        if self.members.lose(user, seat) != Departure::LastSeat {
            return;
        }
        if self.options.grace.is_zero() {
            return self.part(user, Reason::Lost, out);
        }
        self.members.away(user, now.after(self.options.grace));
        self.show_member(user, "away", out);
        self.tell(Notice::Away { user }, out);
    }

    /// A session has no right to be in the room any more, be it here or away.
    pub fn revoke(&mut self, user: &str, seat: Seat, out: &mut Vec<Effect>) {
        let is_out = self.members.stand_up(user, seat) == Departure::LastSeat;
        if is_out || self.members.give_up(user, seat) {
            self.part(user, Reason::Revoked, out);
        }
    }

    /// A session whose connection was lost has no right to come back to the room.
    pub fn bar(&mut self, user: &str, seat: Seat, out: &mut Vec<Effect>) {
        if self.members.give_up(user, seat) {
            self.part(user, Reason::Revoked, out);
        }
    }

    /// A session has no right to speak any more: it observes, and gives its place up.
    pub fn mute(&mut self, user: &str, seat: Seat, out: &mut Vec<Effect>) {
        if !self.members.sits(user, seat) {
            return;
        }
        let departure = self.members.stand_up(user, seat);
        self.members.observe(user, seat);
        if departure == Departure::LastSeat {
            self.part(user, Reason::Revoked, out);
        }
    }

    /// Lets go of those who did not come back in time, and of an owner who never came. O(members
    /// that are away).
    pub fn advance(&mut self, now: Tick, out: &mut Vec<Effect>) {
        for user in self.members.overdue(now) {
            self.part(&user, Reason::Lost, out);
        }
        if self.claim_until > now {
            return;
        }
        self.claim_until = Tick::NEVER;
        match self.heir() {
            Some(heir) => self.hand_over(heir, out),
            None => self.owner = None,
        }
        self.list(out);
    }

    /// A member speaks: everybody in the room hears it on `$room/<room>/say/<user>`.
    ///
    /// # Errors
    /// [`Refusal::NotMember`] for those who only listen; [`Refusal::TooLarge`].
    pub fn say(
        &mut self,
        now: Tick,
        actor: Actor<'_>,
        payload: &[u8],
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if !self.members.is_here(actor.user) && actor.role != Role::Administrator {
            return Err(Refusal::NotMember);
        }
        if payload.len() > self.options.bounds.say_bytes {
            return Err(Refusal::TooLarge);
        }
        let topic = topic::said(&self.name, actor.user);
        let bounds = (&self.options.history, self.spare);
        self.history.keep(now, bounds, &topic, payload);
        out.push(Effect::Publish {
            topic,
            payload: payload.into(),
            retain: false,
        });
        Ok(())
    }

    /// Gives a property a value, or takes it away (`None`). Returns its new version.
    ///
    /// # Errors
    /// [`Refusal::NotMember`], [`Refusal::PropertyLocked`], [`Refusal::Conflict`],
    /// [`Refusal::Name`], [`Refusal::TooLarge`], [`Refusal::TooMany`].
    pub fn set(
        &mut self,
        actor: Actor<'_>,
        name: &str,
        value: Option<Value>,
        condition: &Condition,
        out: &mut Vec<Effect>,
    ) -> Result<u64, Refusal> {
        self.must_be_inside(actor)?;
        let bounds = (&self.options.bounds, self.spare);
        let version = self.properties.set(actor, name, value, condition, bounds)?;
        self.show_property(name, out);
        self.list(out);
        Ok(version)
    }

    /// Makes a member the only one who may change a property, until it unlocks it or goes. The
    /// property need not have a value yet.
    ///
    /// # Errors
    /// [`Refusal::NotMember`], [`Refusal::PropertyLocked`], [`Refusal::Name`],
    /// [`Refusal::TooMany`].
    pub fn lock(
        &mut self,
        actor: Actor<'_>,
        name: &str,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if !self.members.is_here(actor.user) {
            return Err(Refusal::NotMember);
        }
        let bounds = (&self.options.bounds, self.spare);
        self.properties.lock(actor.user, name, bounds)?;
        self.show_property(name, out);
        Ok(())
    }

    /// Gives a lock back. Owner and administrators may break another's.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if it is not locked, [`Refusal::PropertyLocked`] by another.
    pub fn unlock(
        &mut self,
        actor: Actor<'_>,
        name: &str,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let breaks = self.must_own(actor).is_ok();
        self.properties.unlock(actor.user, name, breaks)?;
        self.show_property(name, out);
        Ok(())
    }

    /// Changes the room itself.
    ///
    /// # Errors
    /// [`Refusal::NotOwner`]; [`Refusal::Unknown`] for a new owner who is no member,
    /// [`Refusal::TooMany`] for one who owns as many rooms as a user may.
    pub fn change(
        &mut self,
        actor: Actor<'_>,
        change: Change<'_>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.change_all(actor, &[change], out)
    }

    /// Does all of these changes, or none; the members hear of them once.
    ///
    /// # Errors
    /// Those of [`change`](Self::change).
    pub fn change_all(
        &mut self,
        actor: Actor<'_>,
        changes: &[Change<'_>],
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.must_own(actor)?;
        let is_stranger =
            |change: &Change<'_>| matches!(change, Change::Owner(user) if !self.is_member(user));
        if changes.iter().any(is_stranger) {
            return Err(Refusal::Unknown);
        }
        let is_full = |change: &Change<'_>| match change {
            Change::Owner(user) => !self.is_owned_by(user) && !self.may_be_owned_by(user),
            _ => false,
        };
        if changes.iter().any(is_full) {
            return Err(Refusal::TooMany);
        }
        for change in changes {
            match *change {
                Change::Capacity(capacity) => self.options.capacity = capacity,
                Change::Locked(locked) => self.options.locked = locked,
                Change::History(history) => {
                    self.options.history = self.options.bounds.limit_history(history);
                    self.history.shrink(&self.options.history);
                }
                Change::Owner(user) => self.hand_over(user.into(), out),
            }
        }
        self.tell(Notice::Changed { by: actor.user }, out);
        self.list(out);
        Ok(())
    }

    /// Sends a user out of the room, be it a member or an observer. It may come back unless the
    /// room is locked.
    ///
    /// # Errors
    /// [`Refusal::NotOwner`], [`Refusal::Unknown`].
    pub fn kick(
        &mut self,
        actor: Actor<'_>,
        user: &str,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.must_own(actor)?;
        // Those without a name are nobody in particular.
        let observed = match user {
            "" => Vec::new(),
            user => self.members.send_out_observer(user),
        };
        let sat = self.members.all_seats(user);
        if sat.is_none() && observed.is_empty() {
            return Err(Refusal::Unknown);
        }
        let seats = sat.into_iter().flatten().chain(observed);
        // It hears of it before it hears nothing any more.
        self.part(user, Reason::Kicked, out);
        let why = Expelled::Kicked;
        out.extend(seats.map(|seat| Effect::Clear { seat, why }));
        Ok(())
    }

    /// Ends the room: everybody is sent out, its retained topics are cleared.
    ///
    /// # Errors
    /// [`Refusal::NotOwner`].
    pub fn close(&mut self, actor: Actor<'_>, out: &mut Vec<Effect>) -> Result<(), Refusal> {
        self.must_own(actor)?;
        self.tell(Notice::Closed, out);
        self.dissolve(out);
        Ok(())
    }

    /// Clears what the room has left behind: it ends. Called for a room that [is
    /// over](Self::is_over).
    pub fn dissolve(&mut self, out: &mut Vec<Effect>) {
        for user in self.members.in_order() {
            out.push(clear(topic::member(&self.name, &user)));
        }
        let seats = self.members.clear();
        let why = Expelled::Closed;
        out.extend(seats.into_iter().map(|seat| Effect::Clear { seat, why }));
        for name in self.properties.clear() {
            out.push(clear(topic::property(&self.name, &name)));
        }
        self.history.clear();
        self.options.permanent = false;
        self.claim_until = Tick::NEVER;
        out.push(clear(topic::listed(&self.name)));
    }

    /// A member is gone for good.
    fn part(&mut self, user: &str, reason: Reason, out: &mut Vec<Effect>) {
        if !self.members.remove(user) {
            return;
        }
        for name in self.properties.release(user) {
            self.show_property(&name, out);
        }
        out.push(clear(topic::member(&self.name, user)));
        let members = self.members.len();
        self.tell(
            Notice::Left {
                user,
                reason,
                members,
            },
            out,
        );
        if self.members.is_deserted() {
            self.claim_until = Tick::NEVER;
        }
        // A permanent room keeps its owner, who may come back to it unless it has lost the right.
        let is_heritable = !self.options.permanent || reason == Reason::Revoked;
        if self.owner.as_deref() == Some(user) && is_heritable {
            match self.heir() {
                Some(heir) => self.hand_over(heir, out),
                None => self.owner = None,
            }
        }
        self.list(out);
    }

    fn hand_over(&mut self, user: Arc<str>, out: &mut Vec<Effect>) {
        self.tell(Notice::Owner { user: &user }, out);
        self.owner = Some(user);
        self.claim_until = Tick::NEVER;
    }

    /// Whether a user owns it.
    #[must_use]
    pub fn is_owned_by(&self, user: &str) -> bool {
        self.owner.as_deref() == Some(user)
    }

    fn is_owner(&self, actor: Actor<'_>) -> bool {
        self.is_owned_by(actor.user)
    }

    fn must_own(&self, actor: Actor<'_>) -> Result<(), Refusal> {
        if actor.role == Role::Administrator || self.is_owner(actor) {
            Ok(())
        } else {
            Err(Refusal::NotOwner)
        }
    }

    fn must_be_inside(&self, actor: Actor<'_>) -> Result<(), Refusal> {
        if self.members.is_here(actor.user) {
            return Ok(());
        }
        self.must_own(actor).map_err(|_| Refusal::NotMember)
    }

    fn tell(&self, notice: Notice<'_>, out: &mut Vec<Effect>) {
        out.push(Effect::Publish {
            topic: topic::event(&self.name),
            payload: notice::json(&notice),
            retain: false,
        });
    }

    fn show_member(&self, user: &str, state: &str, out: &mut Vec<Effect>) {
        out.push(Effect::Publish {
            topic: topic::member(&self.name, user),
            payload: notice::json(&notice::MemberState { state }),
            retain: true,
        });
    }

    fn show_property(&self, name: &str, out: &mut Vec<Effect>) {
        let payload = self.properties.get(name).map(notice::json);
        out.push(Effect::Publish {
            topic: topic::property(&self.name, name),
            payload: payload.unwrap_or_default(),
            retain: true,
        });
    }

    fn list(&self, out: &mut Vec<Effect>) {
        out.push(Effect::Publish {
            topic: topic::listed(&self.name),
            payload: notice::json(&self.summary()),
            retain: true,
        });
    }
}

/// Clears a retained topic.
fn clear(topic: String) -> Effect {
    Effect::Publish {
        topic,
        payload: Vec::new(),
        retain: true,
    }
}
