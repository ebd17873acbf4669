//! What a shard does when memory is short.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Limit, Message, Tick};

use super::Pressure;
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::memory::evict;
use crate::core::retained::Mark;
use crate::core::sessions::lifecycle;
use crate::core::sessions::registry::{absent_level, most_absent_bytes, part_of};
use crate::core::settings::Settings;

/// Bytes of QoS 0 that wait for one client, and of its subscriptions, while memory is short: as
/// much as a client that keeps up never needs.
const BYTES_MAX: usize = 64 * 1024;

/// Bytes of messages that wait for one client or are in flight to it when the limit is reached.
pub(super) const QUEUE_BYTES_FULL: usize = 256 * 1024;

/// This part of the budget is for sessions that wait for their clients: they give what they hold
/// beyond it. So what others hold in whatever way costs them nothing.
const SAFE_PARTS: u64 = 2;

/// The same where their messages may keep far more memory than they count.
const SAFE_PARTS_PINNED: u64 = 64;

/// An owner gives nothing by clients that do not read while these hold less than this part of the
/// budget, on all shards together.
const SLOW_PARTS: u64 = 16;

/// Sessions that end in one go. One that is owed much takes the time of a turn by itself.
const ENDED_AT_ONCE: usize = 8;

/// How far a shard has come in freeing memory.
#[derive(Debug, Default)]
pub(crate) struct Relief {
    /// Bytes that are still to be freed.
    bytes: u64,
    /// How many of them for memory that no account explains.
    pinned: u64,
    /// What the sessions of an owner may keep that wait for their clients.
    level: u64,
    /// Connected sessions that give way, the first one last.
    laden: Vec<SessionKey>,
    /// What the sessions keep that wait for their clients, as long as memory is short: otherwise
    /// they would give their part again and again, if nobody else can give anything.
    floor: Option<Floor>,
    /// The settings while there is room, where others are in force.
    loose: Option<Arc<Settings>>,
    /// How short memory was when the settings in force were made.
    pressure: Pressure,
}

/// What is left to the sessions that wait for their clients.
#[derive(Clone, Copy, Debug)]
struct Floor {
    /// As long as this is the budget.
    budget: u64,
    bytes: u64,
}

impl Relief {
    pub(crate) const fn is_pending(&self) -> bool {
        self.bytes > 0 || !self.laden.is_empty()
    }

    /// Other settings are in force than those that were replaced.
    pub(crate) fn reconfigured(&mut self) {
        self.loose = None;
        self.pressure = Pressure::None;
    }
}

/// Sessions that wait for their clients give their part. First those of whoever holds most in
/// that way, the one that is closest to its end before others.
fn relieve_of_absent(core: &mut Core, bytes: u64) {
    let part = core.sessions.absent_part(bytes, core.memory.ledger.total());
    let absent = core.sessions.absent_bytes();
    let budget = core.memory.ledger.budget();
    let floor = core
        .memory
        .relief
        .floor
        .take_if(|floor| floor.budget == budget);
    let bytes = absent.saturating_sub(part);
    let floor = floor.unwrap_or(Floor { budget, bytes });
    let part = part.min(absent.saturating_sub(floor.bytes));
    let part = part.min(beyond(core, absent, SAFE_PARTS));
    core.memory.relief.floor = Some(floor);
    // What sessions have left that have ended goes already.
    core.memory.relief.bytes = part.saturating_sub(core.past.endings.bytes() as u64);
    core.memory.relief.level = absent_level(&core.sessions, core.memory.relief.bytes);
}

/// What the sessions of this shard hold that wait for their clients, as their part of what such
/// sessions hold on all shards beyond one in `parts` of the budget. O(shards).
fn beyond(core: &Core, absent: u64, parts: u64) -> u64 {
    let ledger = &core.memory.ledger;
    let over = ledger.absent_beyond(parts);
    let all = over + ledger.budget() / parts;
    let part = u128::from(over) * u128::from(absent) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(over).min(over)
}

/// Memory is short: the server has to free this many bytes. This shard gives its part of them
/// in this turn and the next ones.
///
/// Connections of clients end for which much has waited for some seconds, and sessions that
/// wait for their clients. Whoever holds most gives first: as long as an owner holds more by
/// clients that do not read, nobody loses a session. Each kind gives what it holds of all that
/// is held, and no more.
pub(crate) fn begin(core: &mut Core, now: Tick, bytes: u64) {
    tighten(core);
    let ledger = &core.memory.ledger;
    let laden = &mut core.sessions.laden;
    if ledger.pressure() == Pressure::None {
        laden.rest();
    } else {
        laden.look(now);
    }
    let slow = laden.slow(now);
    ledger.write_most_laden(core.place.shard, slow.most());
    let (held, most_laden) = (ledger.total(), ledger.most_laden());
    let least = ledger.budget() / (SLOW_PARTS * u64::from(core.place.shards.max(1)));
    let part = part_of(&core.sessions, bytes, slow.bytes(least), held);
    core.memory.relief.laden = slow.first(part, least);
    core.memory.relief.laden.reverse();
    if most_absent_bytes(&core.sessions) > most_laden {
        relieve_of_absent(core, bytes);
    } else {
        core.memory.relief.bytes = 0;
    }
    // What was begun before goes on.
    let pinned = core.memory.relief.pinned;
    if pinned > core.memory.relief.bytes {
        core.memory.relief.bytes = pinned;
        core.memory.relief.level = absent_level(&core.sessions, pinned);
    }
    go_on(core, now);
}

/// An eighth of what the sessions hold that wait for their clients goes with them, in the same
/// order: their messages may keep far more memory than they count.
pub(crate) fn unpin(core: &mut Core, now: Tick) {
    let absent = core.sessions.absent_bytes();
    let part = absent.div_ceil(8);
    let part = part.min(beyond(core, absent, SAFE_PARTS_PINNED));
    core.memory.relief.pinned = part;
    core.memory.relief.bytes = core.memory.relief.bytes.max(part);
    core.memory.relief.level = absent_level(&core.sessions, core.memory.relief.bytes);
    go_on(core, now);
}

pub(crate) fn go_on(core: &mut Core, now: Tick) {
    for _ in 0..ENDED_AT_ONCE {
        if let Some(key) = core.memory.relief.laden.pop() {
            lifecycle::give_up(core, key);
        }
    }
    // What a member of a shared subscription leaves would go to nobody until other shards have
    // told of theirs.
    if core.past.endings.are_held() {
        return;
    }
    for _ in 0..ENDED_AT_ONCE {
        // Connected sessions may be left that give way in the next turns.
        if core.memory.relief.bytes == 0 || !core.turn.may_end() {
            return;
        }
        // The session that held most may have come back: no other one gives that.
        let is_above = most_absent_bytes(&core.sessions) > core.memory.relief.level;
        let first = core.sessions.first_to_free().filter(|_| is_above);
        let Some((key, bytes)) = first else {
            core.memory.relief.bytes = 0;
            core.memory.relief.pinned = 0;
            return;
        };
        let relief = &mut core.memory.relief;
        relief.bytes = relief.bytes.saturating_sub(bytes.max(1));
        relief.pinned = relief.pinned.saturating_sub(bytes.max(1));
        core.turn.ends();
        evict::end_one(core, now, key, Limit::Memory);
    }
}

/// Has the bounds in force that the state of memory asks for.
pub(crate) fn tighten(core: &mut Core) {
    let pressure = core.memory.ledger.pressure();
    if pressure == core.memory.relief.pressure {
        return;
    }
    core.memory.relief.pressure = pressure;
    let loose = core.memory.relief.loose.take();
    let loose = loose.unwrap_or_else(|| Arc::clone(&core.rules.settings));
    if pressure == Pressure::None {
        core.memory.relief.floor = None;
        core.rules.settings = loose;
        return;
    }
    let queue_bytes_max = match pressure {
        Pressure::Full => loose.queue_bytes_max.min(QUEUE_BYTES_FULL),
        Pressure::None | Pressure::Pressed => loose.queue_bytes_max,
    };
    core.rules.settings = Arc::new(Settings {
        qos0_bytes_max: loose.qos0_bytes_max.min(BYTES_MAX),
        subscription_bytes_max: loose.subscription_bytes_max.min(BYTES_MAX),
        queue_bytes_max,
        ..(*loose).clone()
    });
    core.memory.relief.loose = Some(loose);
}

/// Whether there is no memory for a topic that holds no message yet, or whose history has room
/// for more.
pub(in crate::core) fn is_out_of_memory_for(core: &Core, now: Tick, message: &Message) -> bool {
    if core.memory.ledger.pressure() < Pressure::Full || message.payload().is_empty() {
        return false;
    }
    let (zone, topic) = (message.zone, message.topic());
    if let Some(bounds) = core.rules.history(topic)
        && core.store.retained.history_len(zone, topic) < u64::from(bounds.messages)
    {
        return true;
    }
    let mut is_known = false;
    let mark = Mark(u64::MAX);
    core.store
        .retained
        .look(zone, topic, mark, now, &mut |_| is_known = true);
    !is_known
}
