//! How users come into a room and leave it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::Tick;

use super::members::{Attached, Departure};
use super::notice::{Notice, Reason};
use super::{Actor, Entry, Refusal, Role, Room, clear};
use crate::effect::{Effect, Expelled, SessionId};
use crate::look::ShownMember;
use crate::name::NAME_BYTES_MAX;
use crate::topic;

/// Virtual members that one room has at most.
pub(crate) const VIRTUAL_MAX: usize = 64;

/// Places that one room holds at most.
const HOLDS_MAX: usize = 1_000;

impl Room {
    /// How many members it has.
    #[must_use]
    pub fn member_count(&self) -> usize {
        self.members.len()
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

    /// Whether a member's place is kept for this session, whose connection was lost.
    #[must_use]
    pub fn awaits(&self, now: Tick, user: &str, session: SessionId) -> bool {
        self.members.awaits(now, user, session)
    }

    /// Whether this many more may come in with this user, one of whom it is. O(places held).
    #[must_use]
    pub fn takes(&self, now: Tick, user: &str, places: u32) -> bool {
        let has_places = self.options.capacity.is_none_or(|capacity| {
            (capacity as usize).saturating_sub(self.taken(now, user)) >= places as usize
        });
        !self.options.locked && has_places
    }

    /// Places that are taken, or held for others than this user.
    fn taken(&self, now: Tick, user: &str) -> usize {
        self.members.len() + self.holds.of_others(now, user)
    }

    /// Holds a place for a user until then; a user who has a place needs none. Also where there is
    /// no bound, for the room stays while it waits for somebody. Returns whether there is a place
    /// for it.
    pub(crate) fn hold(&mut self, now: Tick, user: &str, until: Tick) -> bool {
        if self.members.is_member(user) {
            return true;
        }
        let places = self.options.capacity.map_or(usize::MAX, |max| max as usize);
        // It is held again, as the last one.
        self.holds.release(user);
        let has_place = self.taken(now, user) < places && self.holds.count() < HOLDS_MAX;
        if has_place {
            self.holds.hold(user, until);
        }
        has_place
    }

    /// No place is held for a user any more. A room that only waited for it may be over.
    pub(crate) fn release_hold(&mut self, user: &str) {
        self.holds.release(user);
    }

    /// Whether a place is held for a user.
    #[must_use]
    pub fn holds_for(&self, now: Tick, user: &str) -> bool {
        self.holds.has(now, user)
    }

    /// The members' names, in the order they came. O(members · log members).
    #[must_use]
    pub fn members(&self) -> Vec<Arc<str>> {
        self.members.in_order()
    }

    /// Members whose names come after this one, by name, at most this many.
    pub(crate) fn members_after(&self, after: Option<&str>, at_most: usize) -> Vec<ShownMember> {
        self.members.after(after).take(at_most).collect()
    }

    /// Whether nobody is in it, seen or unseen, but virtual members.
    fn is_deserted(&self) -> bool {
        self.members.are_virtual() && self.observers.is_empty()
    }

    /// Whether nothing holds the room any more: it is not permanent, nobody is in it, and it waits
    /// neither for its owner nor for somebody for whom a place is held.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_awaited = self.claim_until != Tick::NEVER || !self.holds.is_empty();
        !self.options.permanent && !is_awaited && self.is_deserted()
    }

    /// When [`advance`](Self::advance) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let claim = Some(self.claim_until).filter(|at| *at != Tick::NEVER);
        let all = self.members.next_deadline().into_iter().chain(claim);
        all.chain(self.holds.next()).min()
    }

    /// A session comes in, or comes back to the place that it or its user has. What was said
    /// before follows for a session that was not in the room. O(log members), plus the history.
    ///
    /// # Errors
    /// [`Refusal::Locked`], [`Refusal::Full`]; whoever has a place or observes goes on. For
    /// [`Entry::Kept`] only [`Refusal::NotMember`], and for [`Entry::Again`] too if the session is
    /// not in the room.
    pub fn join(
        &mut self,
        now: Tick,
        actor: Actor<'_>,
        session: SessionId,
        entry: Entry,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if self.members.has_session(actor.user, session) {
            return Ok(());
        }
        if entry == Entry::Observer {
            return self.observe(now, actor, session, out);
        }
        if entry == Entry::Again && !self.observers.contains(session) {
            return Err(Refusal::NotMember);
        }
        match self.members.attach(now, actor.user, session) {
            Attached::Beside => {}
            Attached::Back => {
                self.show_member(actor.user, "here", out);
                self.tell(Notice::Back { user: actor.user }, out);
            }
            Attached::Stranger if entry == Entry::Kept => return Err(Refusal::NotMember),
            Attached::Stranger => self.admit(now, actor, session, out)?,
        }
        if !self.observers.remove(session) {
            self.history
                .recall(now, &self.options.history, session, out);
        }
        Ok(())
    }

    /// These users had a place before the start of the server. It is kept for the grace period.
    pub(crate) fn expect(&mut self, now: Tick, users: Vec<Arc<str>>, out: &mut Vec<Effect>) {
        let until = now.after(self.options.grace);
        for user in users {
            self.show_member(&user, "away", out);
            self.members.expect(user, until);
        }
        self.list(out);
    }

    /// A session comes in as an observer.
    fn observe(
        &mut self,
        now: Tick,
        actor: Actor<'_>,
        session: SessionId,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if self.observers.contains(session) {
            return Ok(());
        }
        self.must_be_open(actor)?;
        self.observers.add(actor.user, session);
        self.history
            .recall(now, &self.options.history, session, out);
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
        now: Tick,
        actor: Actor<'_>,
        session: SessionId,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.must_be_open(actor)?;
        let is_full = self
            .options
            .capacity
            .is_some_and(|capacity| self.taken(now, actor.user) >= capacity as usize);
        if is_full {
            return Err(Refusal::Full);
        }
        self.holds.release(actor.user);
        self.members.add(actor.user, session);
        let is_ownerless = self.owner.is_none() && !self.options.permanent;
        // Nobody could ask a virtual member for what only the owner does.
        let is_ownerless = is_ownerless && session != SessionId::NOBODY;
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

    /// Gives a user a place without a session: a virtual member, until it is sent out, or nobody
    /// else is in the room. The lock of the room does not keep it out.
    ///
    /// # Errors
    /// [`Refusal::Full`]; [`Refusal::Name`] of a user that none can have; [`Refusal::TooMany`]
    /// above [`VIRTUAL_MAX`].
    pub(crate) fn seat(
        &mut self,
        now: Tick,
        user: &str,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let is_name = (1..=NAME_BYTES_MAX).contains(&user.len());
        if !is_name || user.contains(char::is_control) {
            return Err(Refusal::Name);
        }
        if self.members.has_session(user, SessionId::NOBODY) {
            return Ok(());
        }
        if self.members.virtual_count() >= VIRTUAL_MAX {
            return Err(Refusal::TooMany);
        }
        match self.members.attach(now, user, SessionId::NOBODY) {
            Attached::Beside => {}
            Attached::Back => {
                self.show_member(user, "here", out);
                self.tell(Notice::Back { user }, out);
            }
            Attached::Stranger => {
                let role = Role::Administrator;
                self.admit(now, Actor { user, role }, SessionId::NOBODY, out)?;
            }
        }
        Ok(())
    }

    /// A session is in the room no more, be it as a member or as an observer.
    fn detach(&mut self, user: &str, session: SessionId) -> Departure {
        if self.observers.remove(session) {
            return Departure::Unnoticed;
        }
        self.members.detach(user, session)
    }

    /// A session leaves on purpose. Nothing happens if it is not in the room. Returns until when
    /// the place of its user is kept, if that is away from now on.
    pub fn leave(
        &mut self,
        now: Tick,
        user: &str,
        session: SessionId,
        out: &mut Vec<Effect>,
    ) -> Option<Tick> {
        let departure = self.detach(user, session);
        self.depart(now, user, departure, Reason::Left, out)
    }

    /// A session's connection was lost. Its user keeps the place for the grace period, be it that
    /// others of its sessions leave before that is over. Returns what [`leave`](Self::leave) does.
    pub fn lost(
        &mut self,
        now: Tick,
        user: &str,
        session: SessionId,
        out: &mut Vec<Effect>,
    ) -> Option<Tick> {
        if self.observers.remove(session) {
            return None;
        }
        let until = now.after(self.options.grace);
        let departure = self.members.lose(now, until, user, session);
        self.depart(now, user, departure, Reason::Lost, out)
    }

    /// A user that has no session in the room any more is away as long as one of its lost
    /// connections may come back, or else gone.
    fn depart(
        &mut self,
        now: Tick,
        user: &str,
        departure: Departure,
        reason: Reason,
        out: &mut Vec<Effect>,
    ) -> Option<Tick> {
        if departure != Departure::LastSession {
            return None;
        }
        let Some(until) = self.members.awaited_until(now, user) else {
            self.part(user, reason, out);
            return None;
        };
        self.members.away(user, until);
        self.show_member(user, "away", out);
        self.tell(Notice::Away { user }, out);
        Some(until)
    }

    /// A session has no right to be in the room any more, be it here or away. Returns what
    /// [`leave`](Self::leave) does.
    pub fn revoke(
        &mut self,
        now: Tick,
        user: &str,
        session: SessionId,
        out: &mut Vec<Effect>,
    ) -> Option<Tick> {
        let departure = self.detach(user, session);
        if departure != Departure::LastSession {
            self.bar(now, user, session, out);
        }
        self.depart(now, user, departure, Reason::Revoked, out)
    }

    /// A session whose connection was lost has no right to come back to the room.
    pub fn bar(&mut self, now: Tick, user: &str, session: SessionId, out: &mut Vec<Effect>) {
        if self.members.give_up(now, user, session) {
            self.part(user, Reason::Revoked, out);
        }
    }

    /// A session has no right to speak any more: it observes, and gives its place up. Returns what
    /// [`leave`](Self::leave) does.
    pub fn mute(
        &mut self,
        now: Tick,
        user: &str,
        session: SessionId,
        out: &mut Vec<Effect>,
    ) -> Option<Tick> {
        if !self.members.has_session(user, session) {
            return None;
        }
        let departure = self.members.detach(user, session);
        self.observers.add(user, session);
        self.depart(now, user, departure, Reason::Revoked, out)
    }

    /// Lets go of those who did not come back in time, until it has more than `at_most` to tell,
    /// and of an owner who never came. Then [`next_deadline`](Self::next_deadline) is still over if
    /// there are more of them.
    pub fn advance(&mut self, now: Tick, at_most: usize, out: &mut Vec<Effect>) {
        self.holds.expire(now);
        let (before, members) = (out.len(), self.members.len());
        let mut is_without_owner = false;
        while out.len() - before < at_most
            && let Some(user) = self.members.overdue(now)
        {
            is_without_owner |= self.go(&user, Reason::Lost, out);
        }
        if self.claim_until <= now {
            self.claim_until = Tick::NEVER;
            is_without_owner = true;
        } else if self.members.len() == members {
            return;
        }
        // Once for all of them: who is to go next inherits nothing.
        if is_without_owner {
            self.inherit(out);
        }
        self.list(out);
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
            user => self.observers.send_out(user),
        };
        let joined = self.members.all_sessions(user);
        if joined.is_none() && observed.is_empty() {
            return Err(Refusal::Unknown);
        }
        let sessions = joined.into_iter().flatten().chain(observed);
        // It hears of it before it hears nothing any more.
        self.part(user, Reason::Kicked, out);
        let why = Expelled::Kicked;
        out.extend(sessions.map(|session| Effect::Clear { session, why }));
        Ok(())
    }

    /// A member is gone for good.
    fn part(&mut self, user: &str, reason: Reason, out: &mut Vec<Effect>) {
        if !self.members.is_member(user) {
            return;
        }
        if self.go(user, reason, out) {
            self.inherit(out);
        }
        self.list(out);
    }

    /// A member goes, and the list of rooms does not tell it yet. Returns whether the room needs
    /// another owner.
    fn go(&mut self, user: &str, reason: Reason, out: &mut Vec<Effect>) -> bool {
        self.members.remove(user);
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
        // A permanent room keeps its owner, who may come back to it unless it has lost the right.
        let is_heritable = !self.options.permanent || reason == Reason::Revoked;
        self.is_owned_by(user) && is_heritable
    }

    /// The oldest member comes to own the room, or nobody if there is none.
    fn inherit(&mut self, out: &mut Vec<Effect>) {
        match self.heir() {
            Some(heir) => self.hand_over(heir, out),
            None => self.owner = None,
        }
    }
}
