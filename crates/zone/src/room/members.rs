//! The members of a room.

use alloc::sync::Arc;
use alloc::vec::Vec;

use alloc::collections::BTreeMap;
use core::ops::Bound;

use stentor_session::Tick;

use crate::effect::SessionId;
use crate::look::ShownMember;

/// A member is a user, who is there by one or several sessions.
#[derive(Debug)]
struct Member {
    presence: Presence,
    /// Members in the order they came: the oldest inherits the room.
    number: u64,
    /// Its lost connections, the last of them: their sessions may come back to a room that their
    /// user has been removed from in the meantime, and learn it.
    lost: Vec<Lost>,
}

/// A connection that was lost.
#[derive(Debug)]
struct Lost {
    /// The session.
    session: SessionId,
    /// The time until which the place of its user is kept for it, though all others leave. Another
    /// session of the user that comes in takes the place, and then this is over.
    until: Tick,
}

impl Member {
    /// Whether it is there without any session.
    fn is_virtual(&self) -> bool {
        matches!(&self.presence, Presence::Here(sessions) if *sessions == [SessionId::NOBODY])
    }

    fn awaited(&self, now: Tick) -> impl Iterator<Item = &Lost> {
        self.lost.iter().filter(move |lost| lost.until > now)
    }

    /// A session comes in: one of those that were lost is not awaited any more.
    fn arrives(&mut self, now: Tick, session: SessionId) {
        let is_own = |lost: &Lost| lost.session == session && lost.until > now;
        if !self.lost.iter().any(is_own)
            && let Some(oldest) = self.lost.iter_mut().find(|lost| lost.until > now)
        {
            oldest.until = Tick::ZERO;
        }
        self.lost.retain(|lost| lost.session != session);
    }
}

/// Lost connections of a member that are remembered: more than anybody's sessions that outlive
/// theirs.
const LOST_MAX: usize = 16;

#[derive(Debug)]
enum Presence {
    /// By these sessions; at least one.
    Here(Vec<SessionId>),
    /// All its connections were lost; its place is kept until then.
    Away(Tick),
}

/// What becomes of a session that comes in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attached {
    /// Its user is there already, by another session.
    Beside,
    /// Its user was away and is back.
    Back,
    /// Its user has no place.
    Stranger,
}

/// What a session that is out of the room leaves behind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// Its user is still there, or was never a member.
    Unnoticed,
    /// Its user has no session in the room any more.
    LastSession,
}

#[derive(Debug, Default)]
pub(super) struct Members {
    by_user: BTreeMap<Arc<str>, Member>,
    /// Those who are away: until when their places are kept, and their numbers.
    away: BTreeMap<(Tick, u64), Arc<str>>,
    last_number: u64,
}

impl Members {
    pub(super) fn len(&self) -> usize {
        self.by_user.len()
    }

    pub(super) fn is_member(&self, user: &str) -> bool {
        self.by_user.contains_key(user)
    }

    pub(super) fn is_here(&self, user: &str) -> bool {
        self.by_user
            .get(user)
            .is_some_and(|member| matches!(member.presence, Presence::Here(_)))
    }

    /// Those whose names come after this one, by name.
    pub(super) fn after(&self, user: Option<&str>) -> impl Iterator<Item = ShownMember> {
        let begin = user.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.by_user.range::<str, _>((begin, Bound::Unbounded));
        range.map(|(user, member)| ShownMember {
            user: Arc::clone(user),
            is_away: matches!(member.presence, Presence::Away(_)),
            is_virtual: member.is_virtual(),
        })
    }

    /// Whether a user's place is kept, though all its connections are lost.
    pub(super) fn is_away(&self, user: &str) -> bool {
        self.is_member(user) && !self.is_here(user)
    }

    /// Whether a user is in the room by this session already.
    pub(super) fn has_session(&self, user: &str, session: SessionId) -> bool {
        self.sessions(user)
            .is_some_and(|sessions| sessions.contains(&session))
    }

    /// The sessions of a member; none while it is away.
    pub(super) fn sessions(&self, user: &str) -> Option<&[SessionId]> {
        Some(match &self.by_user.get(user)?.presence {
            Presence::Here(sessions) => sessions,
            Presence::Away(_) => &[],
        })
    }

    /// A session whose connection was lost does not come back. Whether nobody is left who could
    /// come back to the place of its user.
    pub(super) fn give_up(&mut self, now: Tick, user: &str, session: SessionId) -> bool {
        let Some(member) = self.by_user.get_mut(user) else {
            return false;
        };
        let before = member.lost.len();
        member.lost.retain(|lost| lost.session != session);
        let is_last = member.lost.len() < before && member.awaited(now).next().is_none();
        is_last && matches!(member.presence, Presence::Away(_))
    }

    /// The time until which the place of a user is kept for its lost connections.
    pub(super) fn awaited_until(&self, now: Tick, user: &str) -> Option<Tick> {
        let awaited = self.by_user.get(user)?.awaited(now);
        awaited.map(|lost| lost.until).max()
    }

    /// Whether the place of a user is kept for this lost connection, be it that others are there.
    pub(super) fn awaits(&self, now: Tick, user: &str, session: SessionId) -> bool {
        let member = self.by_user.get(user);
        member.is_some_and(|member| member.awaited(now).any(|lost| lost.session == session))
    }

    pub(super) fn attach(&mut self, now: Tick, user: &str, session: SessionId) -> Attached {
        let Some(member) = self.by_user.get_mut(user) else {
            return Attached::Stranger;
        };
        member.arrives(now, session);
        match &mut member.presence {
            Presence::Here(sessions) => {
                sessions.push(session);
                Attached::Beside
            }
            &mut Presence::Away(until) => {
                self.away.remove(&(until, member.number));
                member.presence = Presence::Here(alloc::vec![session]);
                Attached::Back
            }
        }
    }

    pub(super) fn add(&mut self, user: &str, session: SessionId) {
        self.last_number += 1;
        let member = Member {
            presence: Presence::Here(alloc::vec![session]),
            number: self.last_number,
            lost: Vec::new(),
        };
        self.by_user.insert(user.into(), member);
    }

    /// How many members are virtual, be it that sessions of theirs are there too. O(members).
    pub(super) fn virtual_count(&self) -> usize {
        let all = self.by_user.keys();
        all.filter(|user| self.has_session(user, SessionId::NOBODY))
            .count()
    }

    /// Whether there is no member but virtual ones. O(virtual members).
    pub(super) fn is_virtual(&self, user: &str) -> bool {
        self.by_user.get(user).is_some_and(Member::is_virtual)
    }

    pub(super) fn are_virtual(&self) -> bool {
        self.by_user.values().all(Member::is_virtual)
    }

    /// A user had a place before the start of the server, which is kept until then.
    pub(super) fn expect(&mut self, user: Arc<str>, until: Tick) {
        self.remove(&user);
        self.last_number += 1;
        let member = Member {
            presence: Presence::Away(until),
            number: self.last_number,
            lost: Vec::new(),
        };
        self.away.insert((until, member.number), Arc::clone(&user));
        self.by_user.insert(user, member);
    }

    /// The connection of a session was lost, which may come back until then.
    pub(super) fn lose(
        &mut self,
        now: Tick,
        until: Tick,
        user: &str,
        session: SessionId,
    ) -> Departure {
        if self.has_session(user, session)
            && let Some(member) = self.by_user.get_mut(user)
        {
            if member.lost.len() == LOST_MAX {
                let is_over = |lost: &Lost| lost.until <= now;
                let oldest = member.lost.iter().position(is_over).unwrap_or(0);
                member.lost.remove(oldest);
            }
            member.lost.push(Lost { session, until });
        }
        self.detach(user, session)
    }

    pub(super) fn detach(&mut self, user: &str, session: SessionId) -> Departure {
        let Some(Presence::Here(sessions)) = self.by_user.get_mut(user).map(|m| &mut m.presence)
        else {
            return Departure::Unnoticed;
        };
        let before = sessions.len();
        sessions.retain(|&other| other != session);
        if before > 0 && sessions.is_empty() {
            Departure::LastSession
        } else {
            Departure::Unnoticed
        }
    }

    /// A member that sits nowhere any more is away; its place is kept until then.
    pub(super) fn away(&mut self, user: &str, until: Tick) {
        if let Some((user, member)) = self.by_user.get_key_value(user) {
            self.away.insert((until, member.number), Arc::clone(user));
        }
        if let Some(member) = self.by_user.get_mut(user) {
            member.presence = Presence::Away(until);
        }
    }

    /// The member who is overdue for longest, if there is one. O(1).
    pub(super) fn overdue(&self, now: Tick) -> Option<Arc<str>> {
        let ((until, _), user) = self.away.first_key_value()?;
        (*until <= now).then(|| Arc::clone(user))
    }

    /// When somebody is overdue next. O(1).
    pub(super) fn next_deadline(&self) -> Option<Tick> {
        let ((until, _), _) = self.away.first_key_value()?;
        Some(*until)
    }

    pub(super) fn remove(&mut self, user: &str) -> bool {
        let Some(member) = self.by_user.remove(user) else {
            return false;
        };
        if let Presence::Away(until) = member.presence {
            self.away.remove(&(until, member.number));
        }
        true
    }

    /// The user who came first, of those that are wanted. Virtual members never are. O(members).
    pub(super) fn oldest(&self, wanted: impl Fn(&str) -> bool) -> Option<Arc<str>> {
        let (user, _) = self
            .by_user
            .iter()
            .filter(|(user, member)| !member.is_virtual() && wanted(user))
            .min_by_key(|(_, member)| member.number)?;
        Some(Arc::clone(user))
    }

    pub(super) fn in_order(&self) -> Vec<Arc<str>> {
        let mut members: Vec<_> = self
            .by_user
            .iter()
            .map(|(user, member)| (member.number, user))
            .collect();
        members.sort_unstable_by_key(|&(number, _)| number);
        members
            .into_iter()
            .map(|(_, user)| Arc::clone(user))
            .collect()
    }

    /// The sessions of a member, and those whose connections were lost.
    pub(super) fn all_sessions(&self, user: &str) -> Option<Vec<SessionId>> {
        let (sessions, member) = (self.sessions(user)?, self.by_user.get(user)?);
        let lost = member.lost.iter().map(|lost| lost.session);
        let all = sessions.iter().copied().chain(lost);
        Some(
            all.filter(|session| *session != SessionId::NOBODY)
                .collect(),
        )
    }

    /// Sends somebody away who is there or was: the user, and [all sessions](Self::all_sessions).
    pub(super) fn pop(&mut self) -> Option<(Arc<str>, Vec<SessionId>)> {
        let user = Arc::clone(self.by_user.first_key_value()?.0);
        let sessions = self.all_sessions(&user).unwrap_or_default();
        self.remove(&user);
        Some((user, sessions))
    }
}
