//! Sending what was held back.

use core::cmp::Reverse;

use smallvec::SmallVec;
use stentor_mqtt::QoS;
use stentor_session::{Delivery, QosClass, Tick};

use super::{TOPICS_SHARE, keeps_up};
use crate::core::Core;
use crate::core::delivery::deliver::{Course, DeliveryOptions};
use crate::core::delivery::snapshot;
use crate::core::ids::SessionKey;
use crate::core::routing::route;
use crate::core::sessions::log::SessionLog;
use crate::core::sessions::tally::Bound;
use crate::core::stats::LossCause;

/// What it costs to look at a session or at a topic, or to send a message that was held back, in
/// visits: they lie all over the memory.
const RELEASE_VISITS: u32 = 48;

/// What one session may take before the next one gets its turn: 21 messages, which go out by one
/// write.
const SESSION_VISITS: u32 = 1_024;

/// Topics whose time is over that are looked at before one message is sent. One message goes for
/// each of them, so it is sent while it is still at hand.
const WOKEN_AT_ONCE: usize = 1;

/// Sends what was held back for a session, as far as it keeps up now, and the rates and the
/// turn allow. The rest goes on in a later turn.
pub(in crate::core) fn begin(core: &mut Core, now: Tick, key: SessionKey) {
    release_within(core, now, key, core.turn.left());
}

fn release_within(core: &mut Core, now: Tick, key: SessionKey, visits: u32) {
    let most = visits.min(SESSION_VISITS);
    let mut classes = [QosClass::Windowed, QosClass::Free].into_iter().cycle();
    let before = core.turn.spent();
    loop {
        let is_enough = core.turn.spent() - before >= most;
        let Some(session) = core.sessions.get_mut(key) else {
            return;
        };
        if session.conflating().is_none() {
            return;
        }
        let queue_bytes_max = session.state.queue_bytes_max(&core.rules.settings);
        let keeps = [QoS::AtMostOnce, QoS::AtLeastOnce];
        let keeps = keeps.map(|qos| keeps_up(session, qos, queue_bytes_max));
        let Some(held) = session.known_conflating() else {
            return;
        };
        if is_enough {
            return held.arm_at(&mut core.outbox, key, now);
        }
        let woken = held.queue.wake(now, WOKEN_AT_ONCE);
        core.turn.spend_each(woken, RELEASE_VISITS);
        // The lists take turns, so that neither starves.
        let may = |class: QosClass| keeps[class as usize] && held.queue.is_ready(class);
        let turns = [classes.next(), classes.next()].into_iter().flatten();
        let next = turns.into_iter().find(|class| may(*class));
        classes.next();
        let Some(class) = next else {
            if held.queue.next_deadline().is_some_and(|at| at <= now) {
                continue;
            }
            held.arm(&mut core.outbox, key);
            if held.is_unused() {
                *session.conflating_mut() = None;
            }
            return;
        };
        let taken = held.queue.taken()[class as usize];
        let next = held.queue.pop(now, class, queue_bytes_max / TOPICS_SHARE);
        let looked = held.queue.taken()[class as usize] - taken;
        core.turn.spend_each(looked as usize, RELEASE_VISITS);
        if let Some(delivery) = next {
            send_held(core, now, key, &delivery);
        }
    }
}

fn send_held(core: &mut Core, now: Tick, key: SessionKey, delivery: &Delivery) {
    let session = core.sessions.get(key);
    match session.and_then(|session| session.state.number()) {
        Some(number) if delivery.qos != QoS::AtMostOnce => SessionLog::whole(core, |core| {
            core.pending.log.lets_go(number, &delivery.message);
            send_let_go(core, now, key, delivery);
        }),
        _ => send_let_go(core, now, key, delivery),
    }
}

/// Goes on with the sessions whose pace lets something go, as far as the turn allows.
pub(crate) fn go_on(core: &mut Core, now: Tick) {
    let (before, slice) = (core.turn.spent(), core.turn.slice());
    while let left = slice.saturating_sub(core.turn.spent() - before)
        && left > 0
        && let Some(Reverse((at, key))) = core.outbox.paces.peek().copied()
        && at <= now
    {
        core.outbox.paces.pop();
        core.turn.spend(RELEASE_VISITS);
        if let Some(session) = core.sessions.get_mut(key)
            && let Some(held) = session.known_conflating()
        {
            if held.armed == at {
                held.armed = Tick::NEVER;
            }
            release_within(core, now, key, left);
            // The end of a snapshot may have waited for it.
            snapshot::go_on(core, now, key);
        }
    }
}

fn send_let_go(core: &mut Core, now: Tick, key: SessionKey, delivery: &Delivery) {
    let message = &delivery.message;
    if message.is_expired(now) {
        core.counters.stats.publishes_dropped += 1;
        core.counters.losses.record_many(LossCause::Expired, 1);
        if let Some(session) = core.sessions.get_mut(key) {
            session
                .tally()
                .lose(now, LossCause::Expired, 1, Bound::AsConfigured);
        }
        return;
    }
    let terms = DeliveryOptions {
        qos: delivery.qos,
        retain: delivery.retain,
        ids: SmallVec::from_slice(delivery.subscription_ids.as_slice()),
        share: 0,
        matching: &[],
        stored: false,
        conflated: delivery.conflated,
        group: None,
    };
    let mut variants = route::variants(core, message);
    route::fanout(core, now).give(&mut variants, key.slot, &terms, Course::Released);
}
