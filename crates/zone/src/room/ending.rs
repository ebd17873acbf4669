//! The end of a room: who was in it is sent out, and then what it has published is cleared.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::Tick;

use super::members::Members;
use super::observers::Observers;
use super::{Room, clear};
use crate::effect::{Effect, Expelled};
use crate::topic;

/// A room that has ended. Nobody comes in any more, and nothing happens there.
#[derive(Debug)]
pub(crate) struct Ending {
    name: Arc<str>,
    members: Members,
    observers: Observers,
    /// Members who are out, and whose topics are still there.
    gone: Vec<Arc<str>>,
    properties: Vec<Arc<str>>,
    /// Why they are out.
    why: Expelled,
}

impl Room {
    /// The room ends: everything goes that it held.
    pub(crate) fn end(&mut self) -> Ending {
        self.history.clear();
        self.holds.clear();
        self.options.permanent = false;
        self.claim_until = Tick::NEVER;
        Ending {
            name: Arc::clone(&self.name),
            members: core::mem::take(&mut self.members),
            observers: core::mem::take(&mut self.observers),
            gone: Vec::new(),
            properties: self.properties.clear(),
            why: Expelled::Closed,
        }
    }
}

impl Ending {
    /// The room's name.
    pub(crate) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Nobody has heard of the end: each does when it is sent out.
    pub(crate) const fn is_untold(&mut self) {
        self.why = Expelled::Ended;
    }

    /// How many are in it, seen or unseen.
    pub(crate) fn inside(&self) -> usize {
        self.members.len() + self.observers.len()
    }

    /// How many steps it takes until nothing is left, about: everybody goes, and a topic of each
    /// member.
    pub(crate) fn steps(&self) -> usize {
        2 * self.members.len() + self.observers.len() + self.gone.len()
    }

    /// Goes on, and takes as many of the steps that are `left` as it needs. Returns whether nothing
    /// is left of the room. Everybody is out before the first topic is cleared: who hears that the
    /// room ends need not hear of each member too.
    pub(crate) fn go_on(&mut self, left: &mut usize, out: &mut Vec<Effect>) -> bool {
        let why = self.why;
        while *left > 0
            && let Some((user, sessions)) = self.members.pop()
        {
            *left = left.saturating_sub(sessions.len().max(1));
            self.gone.push(user);
            out.extend(
                sessions
                    .into_iter()
                    .map(|session| Effect::Clear { session, why }),
            );
        }
        while *left > 0
            && let Some(session) = self.observers.pop()
        {
            *left -= 1;
            out.push(Effect::Clear { session, why });
        }
        if self.inside() > 0 {
            return false;
        }
        let cleared = self.gone.len().min(*left);
        *left -= cleared;
        for user in self.gone.drain(self.gone.len() - cleared..) {
            out.push(clear(topic::member(&self.name, &user)));
        }
        if !self.gone.is_empty() {
            return false;
        }
        for name in self.properties.drain(..) {
            out.push(clear(topic::property(&self.name, &name)));
        }
        out.push(clear(topic::listed(&self.name)));
        true
    }
}
