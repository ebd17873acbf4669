//! The members of one shared subscription on one shard, and whose turn it is among them.

use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_mqtt::QoS;
use stentor_session::Message;

use super::queue::has_room;
use crate::core::routing::options::Options;
use crate::core::sessions::registry::{Session, Sessions};
use crate::core::settings::Settings;

/// Members that are asked whether they may receive a message, on one shard. The next message goes
/// on behind them, so that each is asked in its turn.
const MEMBERS_ASKED_MAX: usize = 64;

/// The members of a shared subscription on this shard: those with a connection stand first.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) list: Vec<(u32, Options)>,
    live: usize,
    /// Where each session is in the list. The server chooses the numbers.
    places: HashMap<u32, u32, foldhash::fast::FixedState>,
    /// The member whose turn it is, of those with a connection and of the others.
    turns: [usize; 2],
}

impl Members {
    /// Adds a session that is connected, or changes its options; returns those of before.
    pub(super) fn insert(&mut self, session: u32, options: Options) -> Option<Options> {
        if let Some(at) = self.places.get(&session) {
            let own = &mut self.list[*at as usize].1;
            return Some(core::mem::replace(own, options));
        }
        // As many as there are sessions, which are 32 bits wide.
        self.places.insert(session, self.list.len() as u32);
        self.list.push((session, options));
        self.set_live(session, true);
        None
    }

    /// The connection of a member begins or ends.
    pub(super) fn set_live(&mut self, session: u32, is_live: bool) {
        let Some(at) = self.places.get(&session).map(|at| *at as usize) else {
            return;
        };
        if (at < self.live) == is_live {
            return;
        }
        if is_live {
            self.swap(at, self.live);
            self.live += 1;
        } else {
            self.live -= 1;
            self.swap(at, self.live);
        }
    }

    /// Returns whether the session was a member.
    pub(super) fn remove(&mut self, session: u32) -> bool {
        self.set_live(session, false);
        let Some(at) = self.places.remove(&session) else {
            return false;
        };
        let at = at as usize;
        self.list.swap_remove(at);
        if let Some((moved, _)) = self.list.get(at) {
            self.places.insert(*moved, at as u32);
        }
        true
    }

    /// The options of a member.
    pub(super) fn options(&self, session: u32) -> Option<Options> {
        let at = *self.places.get(&session)?;
        self.list.get(at as usize).map(|(_, options)| *options)
    }

    pub(super) fn contains(&self, session: u32) -> bool {
        self.places.contains_key(&session)
    }

    /// The member with a connection whose turn it is, of those that may receive a message above
    /// QoS 0 and have room for it. At most [`MEMBERS_ASKED_MAX`] are asked.
    pub(super) fn next_with_room(
        &mut self,
        sessions: &Sessions,
        message: &Message,
        settings: &Settings,
    ) -> Option<(u32, Options)> {
        let takes = |member: &(u32, Options)| {
            let session = sessions.at(member.0);
            session.is_some_and(|session| {
                session.state.may_receive(message.topic())
                    && !session.is_given_up()
                    && has_room(session, message, settings)
            })
        };
        next_of(&self.list[..self.live], &mut self.turns[0], takes)
    }

    /// What the next member with a connection has, of those that have something.
    /// At most [`MEMBERS_ASKED_MAX`] are asked.
    pub(super) fn next_with<T>(
        &mut self,
        sessions: &Sessions,
        has: impl Fn(&Session) -> Option<T>,
    ) -> Option<T> {
        let live = &self.list[..self.live];
        let of = |member: &(u32, Options)| sessions.at(member.0).and_then(&has);
        let (session, _) = next_of(live, &mut self.turns[0], |member| of(member).is_some())?;
        sessions.at(session).and_then(has)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.list.swap(a, b);
        for at in [a, b] {
            self.places.insert(self.list[at].0, at as u32);
        }
    }

    /// The member whose turn it is, those with a connection first, of those that may receive the
    /// topic. A member that is away gets nothing at QoS 0, so others are preferred among those.
    /// O(1) where all may; at most [`MEMBERS_ASKED_MAX`] are asked of either kind.
    pub(super) fn next(&mut self, sessions: &Sessions, topic: &str) -> Option<(u32, Options)> {
        let (live, away) = self.list.split_at(self.live);
        let may_receive = |member: &(u32, Options)| {
            let session = sessions.at(member.0);
            session.is_some_and(|session| session.state.may_receive(topic))
        };
        // One whose connection is about to be closed is as good as away, if it stays then.
        let is_given_up = |member: &(u32, Options)| {
            let session = sessions.at(member.0);
            session.is_some_and(Session::is_given_up)
        };
        let stays = |member: &(u32, Options)| {
            let session = sessions.at(member.0);
            session.is_some_and(|session| !session.is_given_up() || session.state.is_persistent())
        };
        let [live_turn, away_turn] = &mut self.turns;
        let is_there = |member: &(u32, Options)| may_receive(member) && !is_given_up(member);
        if let Some(found) = next_of(live, live_turn, is_there) {
            return Some(found);
        }
        let can_wait = |member: &(u32, Options)| {
            member.1.qos() > QoS::AtMostOnce && stays(member) && may_receive(member)
        };
        next_of(away, away_turn, can_wait)
            .or_else(|| next_of(live, live_turn, can_wait))
            .or_else(|| next_of(away, away_turn, may_receive))
    }
}

/// The first that is taken, from the one on whose turn it is.
fn next_of(
    members: &[(u32, Options)],
    turn: &mut usize,
    is_taken: impl Fn(&(u32, Options)) -> bool,
) -> Option<(u32, Options)> {
    let len = members.len();
    if *turn >= len {
        *turn = 0;
    }
    for _ in 0..len.min(MEMBERS_ASKED_MAX) {
        let member = members[*turn];
        *turn = if *turn + 1 == len { 0 } else { *turn + 1 };
        if is_taken(&member) {
            return Some(member);
        }
    }
    None
}
