//! The thread that looks at what clients make the server hold, and has the shards free some of it
//! when that comes near the budget. Memory that is free goes back to the system from here too.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use stentor_hub::{ControlItem, Pressure};
use tracing::{info, warn};

use crate::config::MemoryLimit;
use crate::context::ServerContext;
use crate::give_back;
use crate::memory;
use crate::shard::ShardCommand;

pub(crate) use self::alarm::Alarm;
use self::pins::{Pins, Size};

mod alarm;
mod pins;

/// How often it looks while there is much room, unless a shard calls it.
const CALM: Duration = Duration::from_secs(1);

/// How often it looks otherwise. A client on a fast network brings 10 MB in that time.
const ALERT: Duration = Duration::from_millis(20);

/// How often memory goes back to the system, at most.
const GIVE_BACK: Duration = Duration::from_millis(100);

/// The same while there is much room, and the start is over: the allocator hands out again what it
/// has not given back, and need not ask the system for it.
const GIVE_BACK_CALM: Duration = Duration::from_secs(3);

/// How often memory goes back after the start until all has gone that the start has left behind.
const SETTLING: u32 = 10;

/// The bytes that a limit stands for on this machine; `u64::MAX` for no bound.
fn budget(limit: MemoryLimit) -> u64 {
    match limit {
        MemoryLimit::Off => u64::MAX,
        MemoryLimit::Bytes(bytes) => bytes,
        // Where the system does not tell, nothing is bounded.
        MemoryLimit::Percent(percent) => {
            memory::machine_bytes().map_or(u64::MAX, |bytes| bytes / 100 * u64::from(percent))
        }
    }
}

/// Looks until the sender of limits is gone.
pub(crate) fn run(context: &ServerContext, limit: MemoryLimit, limits: &Receiver<MemoryLimit>) {
    let ledger = &context.ledger;
    ledger.set_budget(budget(limit));
    give_back::take_over();
    memory::take_stock(context);
    ledger.set_own(memory::anonymous_bytes().unwrap_or(0));
    let (mut before, mut settling) = (Before::default(), SETTLING);
    let mut gave_back = Instant::now();
    loop {
        let is_calm = || ledger.total() < ledger.budget() / 2;
        let time = || if is_calm() { CALM } else { ALERT };
        context.alarm.wait(CALM, time);
        match limits.try_recv() {
            Ok(limit) => ledger.set_budget(budget(limit)),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        let is_often = settling > 0 || !is_calm() || ledger.is_overgrown();
        let pause = if is_often { GIVE_BACK } else { GIVE_BACK_CALM };
        if gave_back.elapsed() >= pause {
            give_back::give_back();
            gave_back = Instant::now();
            if settling > 0 {
                settling -= 1;
                ledger.lower_own(memory::anonymous_bytes().unwrap_or(u64::MAX));
            }
        }
        look(context, &mut before);
    }
}

/// How memory is, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    pressure: Pressure,
    /// Whether the process is far larger than what is held explains.
    is_overgrown: bool,
}

/// What the last look saw.
#[derive(Debug, Default)]
struct Before {
    state: State,
    pins: Pins,
}

fn look(context: &ServerContext, before: &mut Before) {
    let ledger = &context.ledger;
    memory::take_stock(context);
    // What operators look at is not what clients hold.
    let lists = context.surveys.bytes() as u64;
    let resident = memory::anonymous_bytes().map(|bytes| bytes.saturating_sub(lists));
    let excess = ledger.assess(resident);
    let state = State {
        pressure: ledger.pressure(),
        is_overgrown: ledger.is_overgrown(),
    };
    let resident = resident.unwrap_or(0);
    let size = Size {
        resident,
        held: ledger.total(),
    };
    let is_unexplained = state.is_overgrown && ledger.is_unexplained(resident);
    let unpins = before.pins.look(Instant::now(), is_unexplained, size);
    if state != before.state {
        tell(context, state, resident);
        before.state = state;
    } else if state == State::default() {
        return;
    }
    if unpins {
        warn!(
            resident,
            held = size.held,
            "an eighth of what sessions without a connection hold is dropped with them: a few \
             messages may keep far more memory than they need"
        );
    }
    for shard in 0..context.shards.len() {
        context.post(
            shard,
            ShardCommand::Hub(ControlItem::Relieve { bytes: excess }),
        );
        if unpins {
            context.post(shard, ShardCommand::Hub(ControlItem::Unpin));
        }
    }
}

fn tell(context: &ServerContext, state: State, resident: u64) {
    let ledger = &context.ledger;
    let (held, budget) = (ledger.total(), ledger.budget());
    if state.is_overgrown {
        let own = ledger.own();
        return warn!(
            resident,
            own,
            held,
            budget,
            "the process occupies far more memory than `limits.memory` and the server's own: only \
             clients that have a session may connect; lower `limits.memory`, or ask for help with \
             what `stentor status` says"
        );
    }
    match state.pressure {
        Pressure::None => info!(held, budget, "memory is no longer short"),
        Pressure::Pressed => warn!(
            held,
            budget,
            "memory is short: sessions without a connection end, the largest first, and sessions \
             that hold much get no more; `stentor status` says who holds most; raise \
             `limits.memory`, or lower `limits.queue_bytes` or `limits.session_expiry_max`"
        ),
        Pressure::Full => warn!(
            held,
            budget,
            "`limits.memory` is reached: only clients that have a session may connect; `stentor \
             status` says who holds most"
        ),
    }
}
