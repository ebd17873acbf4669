//! Sending what waited: when a client comes back, and when it acknowledges.

use stentor_mqtt::PacketId;
use stentor_session::{Advanced, Attempt, Message, Resend, Tick};
use stentor_topic::Zone;

use crate::core::Core;
use crate::core::delivery::conflate::release;
use crate::core::delivery::deliver::outgoing;
use crate::core::delivery::outbox::Outbox;
use crate::core::delivery::snapshot;
use crate::core::delivery::spool::fetch_next;
use crate::core::ids::SessionKey;
use crate::core::routing::keep::epoch;
use crate::core::sessions::registry::{Link, Live};
use crate::core::sessions::state::Owed;
use crate::core::sessions::tally::Bound;
use crate::core::stats::{LossCause, Losses, Stats, Traffic};

/// What it costs to send a message that waited, or to drop it because it has expired or is too
/// large, in visits.
const PUMP_VISITS: u32 = 4;

/// Sends what a session owes and its window allows: first what has to be sent again, then what
/// waits. Called when a connection begins and whenever a packet id becomes free. What the turn
/// does not allow goes on in a later one.
pub(in crate::core) fn begin(core: &mut Core, now: Tick, key: SessionKey) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    if session.state.owed.is_behind() {
        pump_within(core, now, key, core.turn.left());
    } else {
        session.state.write_odd(&mut core.pending.log);
        session.shrink_owed();
    }
}

/// Goes on with sessions that were owed more than an earlier turn allowed.
pub(crate) fn go_on(core: &mut Core, now: Tick) {
    let (before, slice) = (core.turn.spent(), core.turn.slice());
    for _ in 0..core.outbox.pumps.len() {
        let left = slice.saturating_sub(core.turn.spent() - before);
        if left == 0 {
            return;
        }
        if let Some(key) = core.outbox.pumps.pop_front()
            && let Some(Link::Live(live)) = core.sessions.get_mut(key).map(|s| &mut s.link)
        {
            live.extras().is_pumped_later = false;
            core.turn.spend(PUMP_VISITS);
            pump_within(core, now, key, left);
            release::begin(core, now, key);
            snapshot::go_on(core, now, key);
        }
    }
}

fn pump_within(core: &mut Core, now: Tick, key: SessionKey, visits: u32) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let queue_bytes_max = session.state.queue_bytes_max(&core.rules.settings);
    let zone = session.state.zone();
    let Link::Live(live) = &mut session.link else {
        return;
    };
    let owed = &mut session.state.owed;
    let most = visits / PUMP_VISITS;
    let (uses, settings, store) = (core.rules.uses, &core.rules.settings, &*core.store.retained);
    let mut pump = Pump {
        now,
        key,
        zone,
        queue_bytes_max,
        live,
        owed,
        outbox: &mut core.outbox,
        stats: &mut core.counters.stats,
        losses: &mut core.counters.losses,
        traffic: &mut core.counters.traffic,
        epoch: |message: &Message| epoch(uses, settings, store, message),
        left: most,
        expired: 0,
        too_large: 0,
    };
    pump.owed.note_time(now);
    pump.resend();
    pump.advance();
    let left = pump.left;
    let lost = [
        (LossCause::Expired, pump.expired),
        (LossCause::PacketTooLarge, pump.too_large),
    ];
    core.turn.spend((most - left) * PUMP_VISITS);
    let fetches = owed.is_spooled();
    if left == 0 && owed.is_behind() && !live.extras().is_pumped_later {
        live.extras().is_pumped_later = true;
        core.outbox.pumps.push_back(key);
    }
    for (cause, messages) in lost {
        if messages > 0 {
            session
                .tally()
                .lose(now, cause, messages, Bound::AsConfigured);
        }
    }
    session.shrink_owed();
    if fetches {
        fetch_next(core, key);
    }
}

/// One session that gets what it is owed.
struct Pump<'h, E> {
    now: Tick,
    key: SessionKey,
    zone: Zone,
    queue_bytes_max: usize,
    live: &'h mut Live,
    owed: &'h mut Owed,
    outbox: &'h mut Outbox,
    stats: &'h mut Stats,
    losses: &'h mut Losses,
    traffic: &'h mut Traffic,
    /// The epoch of a message's number.
    epoch: E,
    /// Messages that may go in this turn.
    left: u32,
    /// Those that were lost.
    expired: u64,
    too_large: u64,
}

impl<E: Fn(&Message) -> Option<u64>> Pump<'_, E> {
    /// What has to be sent again.
    fn resend(&mut self) {
        while self.left > 0
            && let Some(resend) = self.owed.resend(self.live.window(self.queue_bytes_max))
        {
            self.left -= 1;
            match resend {
                Resend::Publish(packet_id, delivery) => {
                    let epoch = (self.epoch)(&delivery.message);
                    let again = Attempt::Again;
                    if let Some(outgoing) = outgoing(self.live, delivery, epoch, packet_id, again) {
                        self.stats.publishes_sent += 1;
                        self.traffic.sent(self.zone, 1, 0);
                        self.outbox.publish(self.key, self.live, outgoing);
                    } else {
                        // The client takes smaller packets than it did before.
                        self.lose(packet_id, LossCause::PacketTooLarge);
                    }
                }
                Resend::PubRel(packet_id) => {
                    let pubrel = crate::core::inbound::receive::pubrel(packet_id);
                    self.outbox.packet(self.key, self.live, &pubrel);
                }
            }
        }
    }

    /// Hands out the messages that wait.
    fn advance(&mut self) {
        while self.left > 0
            && let Some(next) = self.owed.advance(self.live.window(self.queue_bytes_max))
        {
            self.left -= 1;
            let Advanced {
                packet_id,
                delivery,
                dup,
            } = next;
            let message = &delivery.message;
            // The client may have seen it, and waits for what follows at QoS 2.
            if message.is_expired(self.now) && !dup {
                self.lose(packet_id, LossCause::Expired);
                continue;
            }
            let epoch = (self.epoch)(message);
            let attempt = dup.into();
            let outgoing = outgoing(self.live, &delivery, epoch, packet_id, attempt);
            let Some(outgoing) = outgoing else {
                self.lose(packet_id, LossCause::PacketTooLarge);
                continue;
            };
            let bytes = message.payload().len() as u64;
            self.stats.publishes_sent += 1;
            self.stats.publish_bytes_sent += bytes;
            self.traffic.sent(self.zone, 1, bytes);
            self.outbox.publish(self.key, self.live, outgoing);
        }
    }

    fn lose(&mut self, packet_id: PacketId, cause: LossCause) {
        self.owed.discard(packet_id);
        self.stats.publishes_dropped += 1;
        self.losses.record_many(cause, 1);
        match cause {
            LossCause::PacketTooLarge => self.too_large += 1,
            _ => self.expired += 1,
        }
    }
}
