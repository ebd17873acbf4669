//! What a session may receive: counted per subscription, checked at delivery where it has to be.
//!
//! When the rights of a session change, its subscriptions are weighed again, which may take many
//! turns. Until that is done each delivery is checked, so that the new rights hold at once.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

use stentor_session::{Outbound, Tick};

use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{SubscriptionRef, index};
use crate::core::sessions::rights::{Access, Identity, Rights};
use crate::core::sessions::{connect, ending};
use crate::core::settings::WideSubscription;
use crate::core::transitions::Transition;
use crate::core::{Core, Rules};

/// Rules that are looked at in one visit.
const RULES_PER_VISIT: usize = 8;

/// The sessions whose subscriptions are weighed in slices, in turn.
#[derive(Debug, Default)]
pub(crate) struct Reviews(VecDeque<Review>);

#[derive(Debug)]
struct Review {
    session: SessionKey,
    /// What it had when its rights changed. What has come since is counted as it comes.
    subscriptions: Box<[SubscriptionRef]>,
    /// This many of them are done.
    done: usize,
}

impl Reviews {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What it costs to weigh one subscription, in visits.
pub(crate) fn weigh_visits(rights: &dyn Rights) -> u32 {
    // Rules are counted in memory.
    1 + (rights.rules() / RULES_PER_VISIT).min(1 << 16) as u32
}

impl Rules {
    /// Whether a subscription is taken of which so much is permitted.
    pub(crate) fn is_accepted(&self, access: Access) -> bool {
        match (access, self.settings.wide_subscription) {
            (Access::All, _) | (Access::Part, WideSubscription::Filter) => true,
            (Access::Part, WideSubscription::Refuse) | (Access::Nothing, _) => false,
        }
    }
}

/// Gives a session another identity. Subscriptions that the new rights do not permit stay, and
/// deliver what is permitted; what waits for the client and is not permitted any more is
/// taken out, and of shared subscriptions given to another member. Rooms are left where nothing
/// is permitted any more. O(subscriptions) in later turns, O(rooms) and O(what waits) at once,
/// but nothing if the rights are the same.
pub(crate) fn adopt(core: &mut Core, now: Tick, key: SessionKey, identity: Arc<Identity>) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let before = session
        .state
        .adopt(Arc::clone(&identity), &mut core.pending.log);
    if Arc::ptr_eq(&before.rights, &identity.rights) {
        return;
    }
    session.apply_quotas();
    session.keep_quota();
    begin_review(core, key);
    connect::line_up(core, key);
    withdraw(core, now, key, &identity);
    core.pending.transitions.note(Transition::RightsChanged {
        session: key,
        before,
    });
}

/// Weighs the subscriptions of a session: at once if they are few, or else in later turns.
fn begin_review(core: &mut Core, key: SessionKey) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let subscriptions = &mut session.state.subscriptions;
    if subscriptions.begin_review() {
        core.rights.reviews.0.retain(|review| review.session != key);
    }
    let mut review = Review {
        session: key,
        subscriptions: subscriptions.as_slice().into(),
        done: 0,
    };
    if review.subscriptions.is_empty() {
        return;
    }
    if !review_some(core, &mut review, core.turn.slice()) {
        core.rights.reviews.0.push_back(review);
    }
}

/// Goes on with the reviews, as far as the turn allows, and a little in any case.
pub(crate) fn continue_reviews(core: &mut Core) {
    let mut left = core.turn.slice();
    while left > 0
        && let Some(mut review) = core.rights.reviews.0.pop_front()
    {
        let before = core.turn.spent();
        if !review_some(core, &mut review, left) {
            core.rights.reviews.0.push_front(review);
        }
        left = left.saturating_sub((core.turn.spent() - before).max(1));
    }
}

/// Weighs some subscriptions: about this many visits. Returns whether all are done.
fn review_some(core: &mut Core, review: &mut Review, visits: u32) -> bool {
    let key = review.session;
    let Some(session) = core.sessions.get(key) else {
        return true;
    };
    let rights = Arc::clone(&session.state.identity().rights);
    let each = weigh_visits(&*rights);
    let most = (visits / each).max(1) as usize;
    let rest = review.subscriptions.iter().skip(review.done).take(most);
    let (mut weighed, mut filtered) = (0, 0);
    for subscription in rest {
        weighed += 1;
        let is_there = match *subscription {
            SubscriptionRef::Filter(id) => core.routing.index.options(id, key.slot).is_some(),
            SubscriptionRef::Share(_) => true,
        };
        let is_filtered =
            is_there && rights.may_subscribe(&index::filter_of(core, *subscription)) != Access::All;
        filtered += u32::from(is_filtered);
    }
    review.done += weighed;
    // Far fewer than 2^32.
    core.turn.spend((weighed as u32).saturating_mul(each));
    let is_over = review.done >= review.subscriptions.len();
    if let Some(session) = core.sessions.get_mut(key) {
        session.state.subscriptions.reviewed(filtered, is_over);
    }
    is_over
}

/// Takes what waits for a client and is not permitted any more back.
fn withdraw(core: &mut Core, now: Tick, key: SessionKey, identity: &Identity) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let owed = &mut session.state.owed;
    let waiting = owed.get().map_or(0, Outbound::len);
    let each = weigh_visits(&*identity.rights);
    core.turn.spend((waiting as u32).saturating_mul(each));
    let withdrawn = owed.withdraw(|message| identity.rights.may_receive(message.topic()));
    let count = withdrawn.pieces() as u64;
    core.counters.stats.publishes_withheld += count;
    if count > 0
        && let Some(session) = core.sessions.get_mut(key)
    {
        session.tally().withheld.add(now, count);
    }
    ending::hand_on(core, now, withdrawn);
}
