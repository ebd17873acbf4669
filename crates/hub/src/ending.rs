//! Sessions that have ended, and what they leave.
//!
//! A session is gone for everybody as soon as it ends: nobody finds it, and it gets nothing. Its
//! subscriptions stand in the index until they have been taken out, and what its shared
//! subscriptions owed it goes to other members. Where that is much, it goes on in later turns.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;
use stentor_session::{Delivery, Tick};

use crate::hub::Hub;
use crate::key::SessionKey;
use crate::subscribe::{SubscriptionRef, filter_visits};
use crate::work::{FILTER_VISITS, OWN_VISITS, SHARED_VISITS};

/// The sessions of one shard that have ended and have left something still.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    queue: VecDeque<Ending>,
    /// What they hold.
    bytes: usize,
}

#[derive(Debug)]
struct Ending {
    /// As [`crate::sessions::Sessions::retire`] has named it. `None` for one that goes on, and has
    /// to hand on what it may not receive any more.
    session: Option<SessionKey>,
    /// What other members of its shared subscriptions are to get.
    deliveries: vec::IntoIter<Delivery>,
    /// What those hold, all of them until the last one is handed on.
    bytes: usize,
}

impl Endings {
    /// Whether nothing is left of any.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn push(&mut self, ending: Ending) {
        self.bytes += ending.bytes;
        self.queue.push_back(ending);
    }

    fn pop(&mut self) -> Option<Ending> {
        let ending = self.queue.pop_front()?;
        self.bytes -= ending.bytes;
        Some(ending)
    }

    /// Bytes of memory that they hold beside their sessions. O(1).
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same, counted one by one.
    pub(crate) fn recount(&self) -> usize {
        self.queue.iter().map(|ending| ending.bytes).sum()
    }
}

impl Hub {
    /// Ends a session: its subscriptions, its queue, and its will, which is published now
    /// [MQTT-3.1.2-10]. O(its shared subscriptions); the rest is counted as visits, and waits for
    /// later turns where this one has no room for it.
    pub(crate) fn end_session(&mut self, now: Tick, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        debug_assert!(session.live().is_none(), "it ends after its connection");
        let (will, outbound) = (session.will.take(), session.outbound.take());
        let will = will.map(|will| {
            let identity = Arc::clone(&session.identity);
            (identity, session.client_id.clone(), will)
        });
        let Some(session) = self.sessions.retire(key) else {
            return;
        };
        self.leave_shares(session);
        let bytes = outbound.as_ref().map_or(0, |outbound| outbound.bytes());
        let deliveries = outbound.map_or_else(Vec::new, |outbound| outbound.abandon());
        self.end_soon(now, Some(session), (deliveries, bytes));
        if let Some((identity, client_id, will)) = will {
            self.publish_will(now, &identity, &client_id, &will);
        }
    }

    /// Gives messages that a member of a shared subscription has not acknowledged, and does not get
    /// any more, to other members.
    pub(crate) fn hand_on(&mut self, now: Tick, deliveries: Vec<Delivery>) {
        if !deliveries.is_empty() {
            let bytes = deliveries.iter().map(Delivery::cost).sum();
            self.end_soon(now, None, (deliveries, bytes));
        }
    }

    /// Now, if the turn has room for it.
    fn end_soon(
        &mut self,
        now: Tick,
        session: Option<SessionKey>,
        (deliveries, bytes): (Vec<Delivery>, usize),
    ) {
        let mut ending = Ending {
            session,
            // Of what it was owed, the others get a part at most.
            bytes: if deliveries.is_empty() { 0 } else { bytes },
            deliveries: deliveries.into_iter(),
        };
        let is_now = self.endings.is_empty() && self.ending_visits(&ending) <= self.turn.left();
        if !is_now || !self.end_some(now, &mut ending, u32::MAX) {
            self.endings.push(ending);
        }
    }

    /// At once, so that no message is given to a member that is not there.
    fn leave_shares(&mut self, session: SessionKey) {
        if self.shares.memberships(session.slot) == 0 {
            return;
        }
        let Some(ended) = self.sessions.get_mut(session) else {
            return;
        };
        let all = core::mem::take(&mut ended.subscriptions);
        let (shares, filters): (SmallVec<[_; 2]>, SmallVec<[_; 2]>) = all
            .into_iter()
            .partition(|subscription| matches!(subscription, SubscriptionRef::Share(_)));
        ended.subscriptions = filters;
        for share in shares {
            self.turn.spend(FILTER_VISITS);
            self.drop_subscription(session, share, false);
        }
    }

    /// About what it costs to work off what a session has left.
    fn ending_visits(&self, ending: &Ending) -> u32 {
        let session = ending.session.and_then(|key| self.sessions.get(key));
        let filters = session.map_or(0, |session| session.subscriptions.len());
        let visits =
            filters * FILTER_VISITS as usize + ending.deliveries.len() * SHARED_VISITS as usize;
        u32::try_from(visits).unwrap_or(u32::MAX)
    }

    /// Goes on with sessions that have ended, as far as the turn allows, and a little in any case.
    pub(crate) fn continue_endings(&mut self, now: Tick) {
        let mut left = self.turn.slice();
        while left > 0
            && let Some(mut ending) = self.endings.pop()
        {
            let before = self.turn.spent();
            let is_over = self.end_some(now, &mut ending, left.min(OWN_VISITS));
            left = left.saturating_sub((self.turn.spent() - before).max(1));
            if !is_over {
                self.endings.push(ending);
            }
            self.close_overrun(now);
        }
    }

    /// Works off what a session has left, until about so many visits are used up. Returns whether
    /// nothing is left.
    fn end_some(&mut self, now: Tick, ending: &mut Ending, visits: u32) -> bool {
        let before = self.turn.spent();
        loop {
            if self.turn.spent() - before >= visits {
                return false;
            }
            if let Some(delivery) = ending.deliveries.next() {
                self.turn.spend(SHARED_VISITS);
                if let Some(slot) = self.shares.by_number(delivery.share) {
                    self.deliver_shared(now, slot, &delivery.message);
                }
                continue;
            }
            let Some(key) = ending.session else {
                return true;
            };
            let session = self.sessions.get_mut(key);
            let Some(next) = session.and_then(|session| session.subscriptions.pop()) else {
                self.sessions.free(key);
                return true;
            };
            self.turn.spend(match next {
                SubscriptionRef::Filter(id) => filter_visits(self.index.filter(id).1),
                SubscriptionRef::Share(_) => FILTER_VISITS,
            });
            self.drop_subscription(key, next, false);
        }
    }
}
