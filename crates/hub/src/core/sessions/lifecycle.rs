//! How connections and sessions end, and what happens then.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Disconnect, Packet, Property, PropertyBuf, ReasonCode};
use stentor_session::{CloseReason, Denied, Local, Tick, Timer as TimerKind, WillRequest};

use crate::core::delivery::conflate::Conflating;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::inbound::acknowledge::explanation;
use crate::core::inbound::hold;
use crate::core::inbound::publish::may_publish;
use crate::core::inbound::subscribe::{Element, ROOMS, room_of, suspend_subscriptions};
use crate::core::routing::share::{self, try_queue_again};
use crate::core::sessions::connect::keep_alive_deadline;
use crate::core::sessions::queue_member::give_back;
use crate::core::sessions::registry::{Away, Left, Link, Live, Session};
use crate::core::sessions::rights::Identity;
use crate::core::sessions::tally::Bound;
use crate::core::sessions::{debts, departures, ending, limits};
use crate::core::stats::LossCause;
use crate::core::transitions::{Detached, Transition};
use crate::core::work::{CLOSE_VISITS, DROP_VISITS, FILTER_VISITS, OWN_HANDED, TIMER_VISITS, Turn};
use crate::core::{Clock, Core, Timer};
use crate::effects::{Closing, Event};

/// Sessions of one client id: one for each user who has come with it. Looking for one walks over
/// them all, and guests get a new name each time.
const NAMESAKES_MAX: usize = 16;

/// After how long it is asked again whether the user of a session is known to be one still.
const UNCONFIRMED_SECS: u32 = 1;

/// A DISCONNECT beside its text: fixed header, reason code, and the property with its lengths.
const DISCONNECT_BYTES: usize = 13;

/// What is held back for a session whose connection is gone: messages at QoS 0 are dropped. Where
/// the session ends as well, everything is dropped with its queue, over many turns.
fn held_while_away(
    turn: &mut Turn,
    ends: bool,
    held: Option<Box<Conflating>>,
) -> Option<Box<Conflating>> {
    let held = held?;
    if ends {
        return Some(held);
    }
    turn.spend_each(held.pieces(), DROP_VISITS);
    held.disconnected()
}

/// What timers may cost.
pub(crate) struct TimerBudget {
    /// Visits of the turn when it is used up.
    spent: u32,
    /// Messages that the turn has handed over then.
    handed: u32,
}

impl Clock {
    /// Sets a timer. It fires early when the deadline is far away, and is set again then: a timer
    /// of an earlier connection cannot be taken out, so none may stay for hours.
    pub(crate) fn arm(&mut self, now: Tick, deadline: Tick, timer: Timer) {
        const AHEAD_SECS_MAX: u32 = 600;
        let at = deadline.min(now.after_secs(AHEAD_SECS_MAX));
        self.timers.insert(at, timer);
    }
}

/// The socket of a connection is gone. Does nothing if it was disconnected before.
pub(crate) fn disconnected(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    link: LinkId,
    why: CloseReason,
) {
    let live = core.sessions.get(key).and_then(Session::live);
    if live.is_some_and(|live| live.link == link) {
        detach(core, now, key, why, None);
    }
}

/// Closes all connections because the server stops. Wills stay unpublished: their readers
/// are disconnected too. Those that are written down are published after the next start.
/// `elsewhere` names the server that the client of a connection may use instead. An MQTT 5
/// client receives it with 0x9C, if its maximum packet size allows that.
pub(crate) fn shut_down(core: &mut Core, now: Tick, elsewhere: impl Fn(LinkId) -> Option<String>) {
    let reason = CloseReason::Local(Local::ShuttingDown);
    let keys: Vec<_> = core.sessions.iter().map(|(key, _)| key).collect();
    for key in keys {
        give_back(core, now, key);
        let Some(session) = core.sessions.get_mut(key) else {
            continue;
        };
        session.state.put_off_will();
        let reference = session.live().and_then(|live| {
            let fits =
                |text: &String| text.len() + DISCONNECT_BYTES <= live.packet_bytes_max as usize;
            elsewhere(live.link).filter(fits)
        });
        let mut properties = PropertyBuf::new();
        let code = match &reference {
            Some(reference) => {
                properties.push(Property::ServerReference(reference));
                Some(ReasonCode::UseAnotherServer)
            }
            None => reason.reason_code(),
        };
        close_with(core, now, key, reason, None, code, properties);
    }
}

/// Lets a connection go: its queue, closed by a DISCONNECT where the version has one, goes
/// to the shard, and the session is left without it.
pub(crate) fn close(core: &mut Core, now: Tick, key: SessionKey, reason: CloseReason) {
    let limit = limit_met(core, key, reason);
    close_naming(core, now, key, reason, limit);
}

/// An invariant of the program is broken for a session: its connection is closed, which is
/// counted, and the log says it. Others go on.
#[cold]
pub(crate) fn bug(core: &mut Core, now: Tick, key: SessionKey, what: &'static str) {
    close(core, now, key, CloseReason::Bug(what));
}

/// The limit for which a connection is closed, in words.
fn limit_met(core: &Core, key: SessionKey, reason: CloseReason) -> Option<String> {
    let session = core.sessions.get(key)?;
    limits::closing(session, session.live()?, &core.rules.settings, reason)
}

/// [`close`] with the limit that the client has met.
fn close_naming(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    reason: CloseReason,
    limit: Option<String>,
) {
    let live = core.sessions.get(key).and_then(Session::live);
    let (Some(limit), Some(live)) = (limit, live) else {
        return close_saying(core, now, key, reason, reason.reason_code());
    };
    // Without the text if that makes the packet too large [MQTT-3.14.2-3].
    let fits = limit.len() + DISCONNECT_BYTES <= live.packet_bytes_max as usize;
    let properties = explanation(if fits { &limit } else { "" });
    let limit = Some(limit.as_str());
    close_with(
        core,
        now,
        key,
        reason,
        limit,
        reason.reason_code(),
        properties,
    );
}

/// [`close`] with another code in its DISCONNECT, or none: before CONNACK nothing is
/// said [MQTT-3.14.0-1].
pub(crate) fn close_saying(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    reason: CloseReason,
    code: Option<ReasonCode>,
) {
    close_with(core, now, key, reason, None, code, PropertyBuf::new());
}

fn close_with(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    reason: CloseReason,
    limit: Option<&str>,
    code: Option<ReasonCode>,
    properties: PropertyBuf,
) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let Link::Live(live) = &mut session.link else {
        return;
    };
    if matches!(reason, CloseReason::Bug(_)) {
        core.counters.stats.bugs += 1;
    }
    let code = code.filter(|_| live.version.is_v5());
    let packet = code.map(|reason| {
        Packet::Disconnect(Disconnect {
            reason,
            properties: properties.as_properties(),
        })
    });
    let output = live.output.take();
    let final_output = core
        .outbox
        .final_output(output, live.version, packet.as_ref());
    core.effects.closing.push(Closing {
        link: live.link,
        reason,
        final_output,
    });
    detach(core, now, key, reason, limit);
}

/// Has a connection closed that a policy gives up. Until then it gets nothing more, and nothing
/// is taken from it.
pub(in crate::core) fn give_up(core: &mut Core, key: SessionKey) {
    let session = core.sessions.get_mut(key);
    if let Some(live) = session.and_then(|session| session.live_mut())
        && live.give_up()
    {
        core.pending.overrun.push_back(key);
    }
}

/// Closes the connections that a policy has given up, as far as the turn allows.
#[inline]
pub(crate) fn close_overrun(core: &mut Core, now: Tick) {
    if !core.pending.overrun.is_empty() {
        close_some_overrun(core, now, core.turn.left());
    }
}

/// Closes some of them in any case.
pub(crate) fn continue_overrun(core: &mut Core, now: Tick) {
    close_some_overrun(core, now, core.turn.slice());
}

fn close_some_overrun(core: &mut Core, now: Tick, visits: u32) {
    let before = core.turn.spent();
    while core.turn.spent() - before < visits
        && core.turn.may_end()
        && let Some(key) = core.pending.overrun.pop_front()
    {
        let session = core.sessions.get(key);
        // It may have gone by itself, and come back.
        if session.is_some_and(Session::is_given_up) {
            let reason = CloseReason::Limit(stentor_session::Limit::QueueBytes);
            core.turn.ends();
            // The limit first: what waits is dropped with what is counted.
            let limit = limit_met(core, key, reason);
            count_abandoned(core, now, key);
            close_naming(core, now, key, reason, limit);
        }
    }
}

/// Output that waits in the socket's queue at QoS 0 is lost with its connection, and what is owed
/// with its session, if that ends too.
fn count_abandoned(core: &mut Core, now: Tick, key: SessionKey) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let (zone, ends) = (session.state.zone(), !session.state.is_persistent());
    // Not every client that leaves something behind was disconnected for that.
    let bound = match session.is_given_up() {
        true => Bound::of(&core.rules.settings),
        false => Bound::AsConfigured,
    };
    let Link::Live(live) = &mut session.link else {
        return;
    };
    let (losses, cause) = (&mut core.counters.losses, LossCause::Disconnect);
    let mut lost = 0;
    if let Some(output) = &mut live.output {
        let client_id = session.state.client_id();
        core.turn.spend_each(output.pieces(), DROP_VISITS);
        output.abandon(|topic, messages| {
            lost += messages;
            match topic {
                Some(topic) => {
                    losses.record_several(cause, client_id, topic, messages);
                }
                None => losses.record_many(cause, messages),
            }
        });
    }
    if let Some(owed) = session.state.owed.get().filter(|_| ends) {
        let owed = owed.len() as u64;
        losses.record_many(cause, owed);
        lost += owed;
    }
    if lost > 0 {
        session.tally().lose(now, cause, lost, bound);
    }
    core.counters.stats.publishes_dropped += lost;
    core.counters.traffic.of(zone).dropped += lost;
}

/// A session is without a connection from now on, or at its end.
fn detach(core: &mut Core, now: Tick, key: SessionKey, reason: CloseReason, limit: Option<&str>) {
    core.turn.spend(CLOSE_VISITS);
    departures::remember(core, now, key, reason);
    let was_held = hold::is_held(core, key);
    let rooms = leave_rooms(core, key);
    note_detached(core, key, reason, &rooms, was_held);
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let Link::Live(live) = &mut session.link else {
        return;
    };
    let output = live.output.take();
    core.counters.stats.connected = core.counters.stats.connected.saturating_sub(1);
    let event = Event::Disconnected {
        link: live.link,
        zone: session.state.zone(),
        client_id: session.state.client_id().into(),
        user: session.state.identity().user.clone(),
        connected_secs: now.since(live.since).as_secs(),
        reason,
        limit: limit.map(Box::from),
    };
    core.effects.events.push(event);
    let absence = session.state.detached(now, reason, &mut core.pending.log);
    session.epoch = session.epoch.wrapping_add(1);
    let extras = *live.extras.take().unwrap_or_default();
    let (mut snapshots, conflating, debt) = (extras.snapshots, extras.conflating, extras.debt);
    if let Some(snapshots) = &mut snapshots {
        snapshots.disconnected();
    }
    let conflating = held_while_away(&mut core.turn, absence.until <= now, conflating);
    session.link = Link::Away(Away {
        absence,
        since_ms: core.pending.log.ms(now),
        snapshots,
        conflating,
        left: Left::of(rooms, extras.tally),
    });
    if let Some(output) = output {
        ending::discard(core, output);
    }
    tell_shares(core, key);
    core.sessions.went_away(key);
    debts::remember(core, now, key, debt);
    settle_absence(core, now, key);
}

/// Takes a session out of its rooms. Returns what it was subscribed to there.
fn leave_rooms(core: &mut Core, key: SessionKey) -> Vec<Element> {
    let live = core.sessions.get(key).and_then(Session::live);
    match live.map_or(0, Live::room_count) {
        0 => Vec::new(),
        _ => suspend_subscriptions(core, key, |filter| filter.starts_with(ROOMS)),
    }
}

fn note_detached(
    core: &mut Core,
    key: SessionKey,
    reason: CloseReason,
    elements: &[Element],
    was_held: bool,
) {
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let rooms = elements.iter().filter_map(|it| room_of(&it.filter));
    let rooms = rooms.filter(|room| known.insert(room)).map(Into::into);
    let detached = Detached {
        session: key,
        identity: Arc::clone(session.state.identity()),
        client_id: session.state.client_id().into(),
        reason,
        rooms: rooms.collect(),
        was_held,
    };
    core.pending
        .transitions
        .note(Transition::Detached(Box::new(detached)));
}

/// What a session is to subscribe to in rooms when its client is back, besides what it was
/// subscribed to.
pub(crate) fn keep_for_return(core: &mut Core, key: SessionKey, elements: Vec<Element>) {
    if elements.is_empty() {
        return;
    }
    if let Some(session) = core.sessions.get_mut(key)
        && let Link::Away(away) = &mut session.link
    {
        let left = away.left.get_or_insert_default();
        let mut all = core::mem::take(&mut left.rooms).into_vec();
        all.extend(elements);
        left.rooms = all.into();
    }
}

/// Members of a session's shared subscriptions are counted: one of them is away from now on.
fn tell_shares(core: &mut Core, key: SessionKey) {
    for slot in core.routing.shares.of_member(key.slot) {
        core.turn.spend(FILTER_VISITS);
        share::member_changed(core, slot, key.slot, false);
    }
}

/// Does what is due of an absent session, and sets the timer for what is not.
fn settle_absence(core: &mut Core, now: Tick, key: SessionKey) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    if session.state.queue().is_some() {
        return try_queue_again(core, now, key);
    }
    give_back(core, now, key);
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let Link::Away(Away { absence, .. }) = &mut session.link else {
        return;
    };
    let due = absence.until.min(absence.will_at);
    if due <= now && absence.will_at != Tick::NEVER && !session.state.is_confirmed() {
        // Nobody may have the right to its will any more, which its end publishes too.
        let timer = Timer {
            session: key,
            epoch: session.epoch,
        };
        return core.clock.arm(now, now.after_secs(UNCONFIRMED_SECS), timer);
    }
    if absence.until <= now {
        let client_id = session.state.client_id().into();
        if session.state.is_persistent() {
            core.counters.stats.expired += 1;
            core.effects
                .events
                .push(Event::SessionExpired { client_id });
        }
        return ending::end(core, now, key);
    }
    let mut due_will = None;
    if absence.will_at <= now {
        absence.will_at = Tick::NEVER;
        due_will = session.state.take_will(&mut core.pending.log);
    }
    let next = absence.until.min(absence.will_at);
    let timer = Timer {
        session: key,
        epoch: session.epoch,
    };
    if next != Tick::NEVER {
        core.clock.arm(now, next, timer);
    }
    if let Some(will) = due_will {
        core.pending.transitions.note(Transition::WillDue(will));
    }
}

/// A session is new: of those that other users have left under the same client id only the
/// newest stay. O([`NAMESAKES_MAX`]).
pub(in crate::core) fn end_oldest_namesake(core: &mut Core, now: Tick, key: SessionKey) {
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let all = core
        .sessions
        .all(session.state.zone(), session.state.client_id());
    let absent = |(own, session): &(SessionKey, &Session)| {
        *own != key && session.live().is_none() && session.state.queue().is_none()
    };
    if all.count() <= NAMESAKES_MAX {
        return;
    }
    let all = core
        .sessions
        .all(session.state.zone(), session.state.client_id());
    let oldest = all.filter(absent).min_by_key(|(key, _)| key.generation);
    if let Some((oldest, _)) = oldest {
        ending::end(core, now, oldest);
    }
}

/// Whether a will is permitted still; one that is not is counted.
pub(crate) fn may_leave(core: &mut Core, identity: &Identity, will: &WillRequest) -> bool {
    let is_taken = core.rules.settings.takes_topic(&will.topic);
    let is_here = identity.rights.is_confirmed();
    let may = is_taken && is_here && may_publish(identity, &will.topic);
    core.counters.stats.denied += u64::from(!may);
    core.counters.stats.topics_refused += u64::from(!is_taken);
    core.counters.stats.publishes_denied += u64::from(is_taken && !may);
    may
}

/// Takes note of the timers that have fired.
pub(crate) fn collect_due(core: &mut Core, now: Tick) {
    let due = &mut core.clock.due;
    core.clock.timers.advance(now, |timer| due.push_back(timer));
}

/// What timers may cost in this turn from now on.
pub(crate) fn timer_budget(core: &Core) -> TimerBudget {
    TimerBudget {
        spent: core.turn.spent().saturating_add(core.turn.slice()),
        // The wills of clients that fall silent together may go to many.
        handed: core.turn.handed().saturating_add(OWN_HANDED),
    }
}

/// Does what the next timer has fired for, if there is one and the budget is not used up.
pub(crate) fn fire_next(core: &mut Core, now: Tick, budget: &TimerBudget) -> bool {
    let (spent, handed) = (core.turn.spent(), core.turn.handed());
    let is_spent = spent >= budget.spent || handed >= budget.handed;
    if is_spent || core.past.endings.are_held() {
        return false;
    }
    let Some(timer) = core.clock.due.pop_front() else {
        return false;
    };
    core.turn.spend(TIMER_VISITS);
    on_timer(core, now, timer);
    true
}

fn on_timer(core: &mut Core, now: Tick, timer: Timer) {
    let Some(session) = core.sessions.get(timer.session) else {
        return;
    };
    if session.epoch != timer.epoch {
        return;
    }
    match &session.link {
        Link::Away(_) => settle_absence(core, now, timer.session),
        Link::Live(live) => {
            // While something that it asked for is decided nothing is read from it, and it
            // cannot show that it is alive.
            let seen = if live.is_held() { now } else { live.last_seen };
            let silence = keep_alive_deadline(seen, live.keep_alive_secs);
            let expiry = session.state.identity().expires_at;
            if expiry <= now {
                let reason = CloseReason::Denied(Denied::Expired);
                close(core, now, timer.session, reason);
            } else if silence <= now {
                let reason = CloseReason::Timeout(TimerKind::KeepAlive);
                close(core, now, timer.session, reason);
            } else {
                core.clock.arm(now, silence.min(expiry), timer);
            }
        }
    }
}
