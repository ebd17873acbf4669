//! One room: its members, what they said, its properties.

mod attendance;
mod ending;
mod history;
mod holds;
mod members;
mod notice;
mod observers;
mod options;
mod properties;
mod refusal;

pub(crate) use attendance::VIRTUAL_MAX;
pub(crate) use ending::Ending;
pub use notice::closed_event;
pub use options::{Bounds, Change, HistoryBounds, RoomOptions};
pub(crate) use properties::is_same;
pub use properties::{Condition, Property};
pub use refusal::Refusal;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::{Map, Value};
use stentor_session::{Message, Tick};

use crate::effect::Effect;
use crate::topic;
use history::History;
use holds::Holds;
use members::Members;
use notice::Notice;
use observers::Observers;
use properties::Properties;

/// A user who does something in a room.
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
    /// Once more, as a member: a session that observes takes a place if there is one. Nobody comes
    /// in from outside.
    Again,
}

/// What the list of rooms says about a room.
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
    /// The time until which a room that was made by command waits for its owner, or for anybody if
    /// it has none; [`Tick::NEVER`] once somebody has come, and for all others.
    claim_until: Tick,
    /// Bytes that it may hold beyond those that it does.
    spare: usize,
    /// The users who own as many rooms as they may; known while something is done in the room.
    full: Option<Arc<BTreeSet<Arc<str>>>>,
    members: Members,
    observers: Observers,
    holds: Holds,
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
            observers: Observers::default(),
            holds: Holds::default(),
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
            let (bounds, spare) = (&self.options.bounds, self.spare - self.bytes());
            let (value, always) = (Some(value), Condition::Always);
            let set = self
                .properties
                .set(actor, &name, value, &always, bounds, spare);
            if let Err(why) = set {
                return Err((name, why));
            }
            self.show_property(&name, out);
        }
        self.list(out);
        Ok(())
    }

    /// Gives a room that goes on its properties, and the version of the last change.
    pub(crate) fn refurnish(
        &mut self,
        properties: Vec<(Arc<str>, Property)>,
        version: u64,
        out: &mut Vec<Effect>,
    ) {
        self.properties.restore(properties, version);
        for (name, _) in self.properties.iter() {
            self.show_property(name, out);
        }
    }

    /// Whether it stays when it is empty.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        self.options.permanent
    }

    /// How many members it may have; `None` without a bound.
    #[must_use]
    pub const fn capacity(&self) -> Option<u32> {
        self.options.capacity
    }

    /// Its owner.
    #[must_use]
    pub const fn owner(&self) -> Option<&Arc<str>> {
        self.owner.as_ref()
    }

    /// All properties, by name.
    pub fn properties(&self) -> impl Iterator<Item = (&Arc<str>, &Property)> {
        self.properties.iter()
    }

    /// The version of the property that was changed last.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.properties.version()
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
        self.summary_of(|_| true)
    }

    /// The same of these properties only.
    pub(crate) fn summary_of(&self, tells: impl Fn(&str) -> bool) -> Summary {
        Summary {
            room: Arc::clone(&self.name),
            members: self.members.len(),
            capacity: self.options.capacity,
            owner: self.owner.clone(),
            locked: self.options.locked,
            permanent: self.options.permanent,
            properties: self.properties.values(tells),
        }
    }

    /// The holders of the locks of these properties. O(properties).
    pub(crate) fn locks(&self, tells: impl Fn(&str) -> bool) -> Map<String, Value> {
        self.properties.locks(tells)
    }

    /// Bytes of what the list of rooms tells, about.
    pub(crate) fn listed_bytes(&self) -> usize {
        /// Of a room and of a property, beside names and values.
        const EACH: usize = 64;
        self.name.len() + self.properties.bytes() + EACH * (1 + self.properties.len())
    }

    /// Bytes of its properties and of what it keeps of what was said.
    pub(crate) fn bytes(&self) -> usize {
        self.properties.bytes() + self.history.bytes()
    }

    /// This many more bytes it may hold from now on.
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

    /// One property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties.get(name)
    }

    /// Whether somebody may speak: a member who is there, or an administrator.
    #[must_use]
    pub fn may_say(&self, actor: Actor<'_>) -> bool {
        self.members.is_here(actor.user) || actor.role == Role::Administrator
    }

    /// A member speaks. If it may, the holder of the room lets everybody in it hear the message,
    /// whose topic is `$room/<room>/say/<user>`.
    ///
    /// # Errors
    /// [`Refusal::NotMember`] for those who only listen; [`Refusal::TooLarge`].
    pub fn say(&mut self, actor: Actor<'_>, message: &Arc<Message>) -> Result<(), Refusal> {
        if !self.may_say(actor) {
            return Err(Refusal::NotMember);
        }
        if message.payload().len() > self.options.bounds.say_bytes {
            return Err(Refusal::TooLarge);
        }
        self.history
            .keep(&self.options.history, self.spare, message);
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
        let (bounds, spare) = (&self.options.bounds, self.spare);
        let version = self
            .properties
            .set(actor, name, value, condition, bounds, spare)?;
        self.show_property(name, out);
        self.list(out);
        Ok(version)
    }

    /// Makes a member the only one who may change a property, until it unlocks it or goes; or the
    /// server itself, which never goes. The property need not have a value yet.
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
        let is_server = actor.user.is_empty() && actor.role == Role::Administrator;
        if !is_server && !self.members.is_here(actor.user) {
            return Err(Refusal::NotMember);
        }
        let (bounds, spare) = (&self.options.bounds, self.spare);
        self.properties.lock(actor.user, name, bounds, spare)?;
        self.show_property(name, out);
        Ok(())
    }

    /// Gives a lock back. The owner may break another's, administrators that of the server too.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if it is not locked, [`Refusal::PropertyLocked`] by another.
    pub fn unlock(
        &mut self,
        actor: Actor<'_>,
        name: &str,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let owns = self.must_own(actor).is_ok();
        let is_administrator = actor.role == Role::Administrator;
        let may = |holder: &str| match holder {
            "" => is_administrator,
            holder => owns || holder == actor.user,
        };
        self.properties.unlock(name, may)?;
        self.show_property(name, out);
        Ok(())
    }

    /// Changes the room itself.
    ///
    /// # Errors
    /// [`Refusal::NotOwner`]; [`Refusal::Unknown`] for a new owner who is not a member, or a
    /// virtual one; [`Refusal::TooMany`] for one who owns as many rooms as a user may.
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
        // A virtual member could do nothing with the room, and nobody else could then.
        let is_stranger = |change: &Change<'_>| match change {
            Change::Owner(user) => !self.is_member(user) || self.members.is_virtual(user),
            _ => false,
        };
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

    /// Ends the room. Everybody in it hears that at once if there are few enough for `at_once`
    /// steps, and each when it is sent out if not.
    ///
    /// # Errors
    /// [`Refusal::NotOwner`].
    pub(crate) fn close(
        &mut self,
        actor: Actor<'_>,
        at_once: usize,
        out: &mut Vec<Effect>,
    ) -> Result<Ending, Refusal> {
        self.must_own(actor)?;
        let mut ending = self.end();
        match ending.steps() <= at_once {
            true => self.tell(Notice::Closed, out),
            false => ending.is_untold(),
        }
        Ok(ending)
    }

    /// Sends everybody out, and clears what the room has left behind: it ends. Called for a room
    /// that [is over](Self::is_over), so there is little to do.
    pub fn dissolve(&mut self, out: &mut Vec<Effect>) {
        let mut steps = usize::MAX;
        self.end().go_on(&mut steps, out);
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
