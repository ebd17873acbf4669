//! Sessions that have ended, and what they leave.
//!
//! A session is gone for everybody as soon as it ends: nobody finds it, and it gets nothing. Its
//! subscriptions are in the index until they have been taken out, what waited for it is dropped
//! piece by piece, and what its shared subscriptions owed it goes to other members. Where that is
//! much, it goes on in later turns.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Delivery, Message, Output, Remains, Tick};

use crate::core::Core;
use crate::core::delivery::conflate::Conflating;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{SubscriptionRef, filter_visits, index};
use crate::core::routing::share;
use crate::core::sessions::log::{Bequest, free, has_given, leaves};
use crate::core::sessions::queue_member::stays_for_queue;
use crate::core::sessions::registry::Sessions;
use crate::core::transitions::Transition;
use crate::core::work::{
    DROP_VISITS, END_VISITS, FILTER_VISITS, OWN_VISITS, SHARED_VISITS, urgent_visits,
};

/// The sessions of one shard that have ended and have left something still.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    queue: VecDeque<Box<Ending>>,
    /// What they hold.
    bytes: usize,
    /// Whether none ends, and none that has ended is worked off.
    are_held: bool,
}

#[derive(Debug)]
struct Ending {
    /// As [`Sessions::retire`] has named it. `None` for one that goes on, and has to hand on what
    /// it may not receive any more.
    ///
    /// [`Sessions::retire`]: crate::core::sessions::registry::Sessions::retire
    session: Option<SessionKey>,
    /// What it was owed: it is dropped, or other members of its shared subscriptions get it.
    owed: Remains,
    /// What of that is written down as left to others.
    bequest: Option<Bequest>,
    /// What was held back for it.
    held_back: Option<Box<Conflating>>,
    /// What waited for its socket.
    output: Option<Box<Output>>,
}

/// So much of what waited for a socket is dropped at once.
const PIECES_AT_ONCE: usize = 256;

impl Ending {
    /// Bytes of memory that it holds.
    fn bytes(&self) -> usize {
        let held_back = self.held_back.as_ref();
        let output = self.output.as_ref();
        size_of::<Self>()
            + self.owed.bytes()
            + self.owed.list_bytes()
            + held_back.map_or(0, |held| held.charge().bytes)
            + output.map_or(0, |output| output.bytes())
    }

    /// How many messages and chunks on the disk are left, and topics that are known.
    fn pieces(&self) -> usize {
        self.owed.pieces() + self.held_back.as_ref().map_or(0, |held| held.pieces())
    }

    /// About what it costs to work it off.
    fn visits(&self, sessions: &Sessions) -> u32 {
        let session = self.session.and_then(|key| sessions.get(key));
        let filters = session.map_or(0, |session| session.state.subscriptions.len());
        let visits = filters * FILTER_VISITS as usize + self.pieces() * DROP_VISITS as usize;
        u32::try_from(visits).unwrap_or(u32::MAX)
    }
}

impl Endings {
    /// Whether nothing is left of any.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether there is something to go on with.
    pub(crate) fn go_on(&self) -> bool {
        !self.queue.is_empty() && !self.are_held
    }

    /// Sets whether sessions do not end by time, and whether nothing is worked off.
    pub(crate) const fn hold(&mut self, are_held: bool) {
        self.are_held = are_held;
    }

    /// See [`Endings::hold`].
    pub(crate) const fn are_held(&self) -> bool {
        self.are_held
    }

    fn push(&mut self, ending: Box<Ending>) {
        self.bytes += ending.bytes();
        self.queue.push_back(ending);
    }

    fn pop(&mut self) -> Option<Box<Ending>> {
        let ending = self.queue.pop_front()?;
        self.bytes -= ending.bytes();
        Some(ending)
    }

    /// Bytes of memory that they hold beside their sessions. O(1).
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same, counted one by one.
    pub(crate) fn recount(&self) -> usize {
        self.queue.iter().map(|ending| ending.bytes()).sum()
    }
}

/// Ends a session: its subscriptions, its queue, and its will, which is published now
/// [MQTT-3.1.2-10]. O(its shared subscriptions); the rest is counted as visits, and waits for
/// later turns where this one has no room for it.
pub(crate) fn end(core: &mut Core, now: Tick, key: SessionKey) {
    let session = core.sessions.get(key);
    debug_assert!(
        session.is_none_or(|session| session.live().is_none()),
        "it ends after its connection"
    );
    bequeath(core, key);
    let bequest = core.pending.log.bequests.take(key.slot);
    let Some(retired) = core.sessions.retire(key, &mut core.pending.log) else {
        return;
    };
    core.turn.spend(END_VISITS);
    leave_shares(core, retired.key);
    let ending = Ending {
        session: Some(retired.key),
        owed: retired.legacy.owed,
        bequest,
        held_back: retired.held_back,
        output: None,
    };
    end_soon(core, now, ending);
    if let Some(will) = retired.legacy.will {
        core.pending.transitions.note(Transition::WillDue(will));
    }
}

/// Gives messages that a member of a shared subscription has not acknowledged, and does not get
/// any more, to other members. Those of no shared subscription are dropped.
pub(in crate::core) fn hand_on(core: &mut Core, now: Tick, owed: Remains) {
    if !owed.is_empty() {
        let mut left = Legacy::default();
        owed.for_each_shared(|delivery| left.add(delivery));
        let bequest = left.write(core);
        let ending = Ending {
            session: None,
            owed,
            bequest,
            held_back: None,
            output: None,
        };
        end_soon(core, now, ending);
    }
}

/// Nobody reads what waited for a socket.
pub(in crate::core) fn discard(core: &mut Core, output: Box<Output>) {
    let pieces = output.pieces();
    if pieces <= PIECES_AT_ONCE {
        core.turn.spend_each(pieces, 1);
        return core.outbox.recycle(output);
    }
    core.past.endings.push(Box::new(Ending {
        session: None,
        owed: Remains::default(),
        bequest: None,
        held_back: None,
        output: Some(output),
    }));
}

/// Now, if it is little and the turn has room for it.
fn end_soon(core: &mut Core, now: Tick, mut ending: Ending) {
    let room = core.turn.left().min(OWN_VISITS);
    let endings = &core.past.endings;
    let is_now = endings.is_empty() && !endings.are_held() && ending.visits(&core.sessions) <= room;
    // Some of what it was owed may take more than was estimated.
    let most = room.max(1);
    if !is_now || !end_some(core, now, &mut ending, most) {
        core.past.endings.push(Box::new(ending));
    }
}

/// At once, so that no message is given to a member that is not there.
fn leave_shares(core: &mut Core, session: SessionKey) {
    // From behind: each is the last then, and found at once.
    for slot in core
        .routing
        .shares
        .of_member(session.slot)
        .into_iter()
        .rev()
    {
        core.turn.spend(FILTER_VISITS);
        index::remove(core, session, SubscriptionRef::Share(slot), false);
    }
}

/// Goes on with sessions that have ended, as far as the turn allows, and a little in any case.
pub(crate) fn go_on(core: &mut Core, now: Tick) {
    if core.past.endings.are_held() {
        return;
    }
    let mut left = core
        .turn
        .slice()
        .max(urgent_visits(core.past.endings.bytes()));
    while left > 0
        && let Some(mut ending) = core.past.endings.pop()
    {
        let before = core.turn.spent();
        let is_over = end_some(core, now, &mut ending, left.min(OWN_VISITS));
        left = left.saturating_sub((core.turn.spent() - before).max(1));
        if !is_over {
            core.past.endings.push(ending);
        }
    }
}

/// Works off what a session has left, until about this many visits are used up. Returns whether
/// nothing is left.
fn end_some(core: &mut Core, now: Tick, ending: &mut Ending, visits: u32) -> bool {
    let before = core.turn.spent();
    loop {
        if core.turn.spent() - before >= visits {
            free(&mut core.pending.log, &ending.owed.take_chunks());
            return false;
        }
        if let Some(next) = ending.owed.next() {
            core.turn.spend(DROP_VISITS);
            if let Some(delivery) = next {
                give_to_others(core, now, &delivery, ending.bequest);
            }
            continue;
        }
        free(&mut core.pending.log, &ending.owed.take_chunks());
        if let Some(bequest) = ending.bequest.take() {
            has_given(&mut core.pending.log, bequest);
        }
        if let Some(held) = &mut ending.held_back {
            core.turn.spend(DROP_VISITS);
            if !held.shed() {
                ending.held_back = None;
            }
            continue;
        }
        if let Some(mut output) = ending.output.take() {
            core.turn.spend(1);
            if output.shed() {
                ending.output = Some(output);
            } else {
                core.outbox.recycle(output);
            }
            continue;
        }
        let Some(key) = ending.session else {
            return true;
        };
        let session = core.sessions.get_mut(key);
        match session.and_then(|session| session.state.subscriptions.pop()) {
            Some(filter @ SubscriptionRef::Filter(id)) => {
                core.turn
                    .spend(filter_visits(core.routing.index.filter(id).1));
                index::remove(core, key, filter, false);
            }
            // It has left that one already.
            Some(SubscriptionRef::Share(_)) => core.turn.spend(1),
            None => {
                core.sessions.free(key);
                return true;
            }
        }
    }
}

fn give_to_others(core: &mut Core, now: Tick, delivery: &Delivery, bequest: Option<Bequest>) {
    if let Some(slot) = core.routing.shares.by_number(delivery.share) {
        core.turn.spend(SHARED_VISITS);
        core.pending
            .log
            .gives(bequest.filter(|_| delivery.number > 0));
        share::deliver(core, now, slot, &delivery.message);
        core.pending.log.close();
        core.pending.log.gives(None);
    }
}

/// Messages that other members of shared subscriptions are to get, in order.
#[derive(Default)]
struct Legacy {
    /// By the numbers of the shared subscriptions.
    messages: BTreeMap<u64, Vec<Arc<Message>>>,
}

impl Legacy {
    /// Adds one, if it is written down as owed to the session.
    fn add(&mut self, delivery: &Delivery) {
        if delivery.number > 0 {
            let its = self.messages.entry(delivery.share).or_default();
            its.push(Arc::clone(&delivery.message));
        }
    }

    /// Writes them down as left to others.
    fn write(self, core: &mut Core) -> Option<Bequest> {
        let (shares, log) = (&core.routing.shares, &mut core.pending.log);
        let mut bequest = None;
        for (share, messages) in self.messages {
            let slot = shares.by_number(share);
            if let Some(name) = slot.and_then(|slot| shares.shared_name(slot)) {
                leaves(log, &mut bequest, &messages, &name);
            }
        }
        bequest
    }
}

/// Gives messages that a queue has kept to members, in order. They are written down as left to
/// these before anybody has them. Costs as much as handing them out.
pub(crate) fn give_kept(core: &mut Core, now: Tick, kept: &[Delivery]) {
    let mut left = Legacy::default();
    for delivery in kept {
        left.add(delivery);
    }
    let bequest = left.write(core);
    for delivery in kept {
        give_to_others(core, now, delivery, bequest);
    }
    if let Some(bequest) = bequest {
        has_given(&mut core.pending.log, bequest);
    }
}

/// A session is about to be forgotten. What it was owed by shared subscriptions is written down
/// as that of others, if it is written down as its own.
fn bequeath(core: &mut Core, key: SessionKey) {
    let session = core.sessions.get(key);
    let Some(session) = session.filter(|it| it.state.number().is_some()) else {
        return;
    };
    let mut left = Legacy::default();
    if let Some(owed) = session.state.owed.get() {
        core.turn.spend_each(owed.looked_at_by_end(), 1);
        owed.for_each_shared(|delivery| left.add(delivery));
    }
    let bequest = left.write(core);
    core.pending.log.bequests.keep(key.slot, bequest);
}

/// Sets how long a session outlives its connection, in seconds. If that is not at all any more,
/// it leaves others what it is owed by shared subscriptions, in case the server is killed; a member
/// of a queue is still written down instead, and leaves that when it ends.
pub(crate) fn set_expiry(core: &mut Core, key: SessionKey, expiry_secs: u32) {
    if expiry_secs == 0 && !stays_for_queue(core, key) {
        bequeath(core, key);
    }
    let log = &mut core.pending.log;
    core.sessions.set_expiry(key, expiry_secs, log);
}
