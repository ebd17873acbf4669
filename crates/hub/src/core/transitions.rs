//! What has happened to sessions that others than the core have to hear of.
//!
//! The core does not know who they are. It notes what has happened, and goes on; whoever has called
//! it takes the notes before the shard sees what the call has led to.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::ReasonCode;
use stentor_session::{CloseReason, Ticket, WillRequest};
use stentor_topic::Zone;
use stentor_zone::Refusal;

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::Denial;
use crate::core::sessions::rights::Identity;

/// One of them.
#[derive(Debug)]
pub(crate) enum Transition {
    /// A session has lost its connection. It may have ended with it.
    Detached(Box<Detached>),
    /// A session has other rights than before.
    RightsChanged {
        session: SessionKey,
        before: Arc<Identity>,
    },
    /// A will is to be published.
    WillDue(Box<DueWill>),
    /// A session has unsubscribed from these filters, which are below rooms.
    LeftRooms(SessionKey, Vec<Box<str>>),
    /// A session of this zone has subscribed to the list of rooms.
    WantsRooms(Zone),
    /// A client has subscriptions refused, and no SUBACK tells it why.
    Unexplained(SessionKey, Box<Unexplained>),
    /// What a session was let into rooms for is subscribed, or its connection has ended: the
    /// second says whether it is the same one still.
    Entered(SessionKey, Ticket, bool),
}

/// A connection that has ended.
#[derive(Debug)]
pub(crate) struct Detached {
    pub(crate) session: SessionKey,
    pub(crate) identity: Arc<Identity>,
    pub(crate) client_id: Box<str>,
    pub(crate) reason: CloseReason,
    /// The rooms that it was subscribed in.
    pub(crate) rooms: Vec<Box<str>>,
    /// Whether something that it had asked for was to be decided first.
    pub(crate) was_held: bool,
}

/// A will whose time has come.
#[derive(Debug)]
pub(crate) struct DueWill {
    pub(crate) identity: Arc<Identity>,
    pub(crate) client_id: Box<str>,
    pub(crate) will: Box<WillRequest>,
}

/// Why subscriptions below rooms were refused.
#[derive(Debug, Default)]
pub(crate) struct Unexplained {
    /// The answers of the zone's home, by room.
    pub(crate) refusals: Vec<(Box<str>, Refusal)>,
    /// Those of adaptors, by filter.
    pub(crate) denials: Vec<(Box<str>, Denial)>,
    /// Those of this shard, by filter.
    pub(crate) others: Vec<(Box<str>, ReasonCode, Box<str>)>,
}

impl Unexplained {
    pub(crate) const fn is_empty(&self) -> bool {
        self.refusals.is_empty() && self.denials.is_empty() && self.others.is_empty()
    }
}

/// What nobody has taken note of yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Transitions(VecDeque<Transition>);

impl Transitions {
    pub(crate) fn note(&mut self, transition: Transition) {
        self.0.push_back(transition);
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<Transition> {
        self.0.pop_front()
    }
}

/// Whether something is left to be done before the call of the shard ends.
#[inline]
pub(crate) fn has_news(core: &Core) -> bool {
    !core.routing.batch.is_empty()
        || !core.pending.transitions.0.is_empty()
        || !core.pending.overrun.is_empty()
}

/// What has happened that nobody has heard of yet.
#[inline]
pub(crate) fn next(core: &mut Core) -> Option<Transition> {
    core.pending.transitions.next()
}
