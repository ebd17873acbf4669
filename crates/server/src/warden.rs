//! The thread that looks at what clients make the server hold, and has the shards free some of it
//! when that comes near the budget.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use stentor_hub::{ControlItem, Holding, Pressure, Retained};
use tracing::{info, warn};

use crate::backplane::Backplane;
use crate::config::MemoryLimit;
use crate::memory;
use crate::shard::Letter;

/// How often it looks while there is much room.
const CALM: Duration = Duration::from_secs(1);

/// How often it looks otherwise.
const ALERT: Duration = Duration::from_millis(100);

/// Bytes of the index of retained topics for each, beside the text: its places in the index and
/// among the names.
const TOPIC_BYTES: u64 = 64;

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
pub(crate) fn run(backplane: &Backplane, limit: MemoryLimit, limits: &Receiver<MemoryLimit>) {
    let ledger = &backplane.ledger;
    ledger.set_budget(budget(limit));
    let mut before = Pressure::None;
    loop {
        let is_calm = ledger.total() < ledger.budget() / 2;
        match limits.recv_timeout(if is_calm { CALM } else { ALERT }) {
            Ok(limit) => ledger.set_budget(budget(limit)),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        look(backplane, &mut before);
    }
}

fn look(backplane: &Backplane, before: &mut Pressure) {
    let ledger = &backplane.ledger;
    ledger.write_common(Holding::Retained, backplane.retained.count() * TOPIC_BYTES);
    let excess = ledger.assess(memory::anonymous_bytes());
    let pressure = ledger.pressure();
    if pressure != *before {
        tell(backplane, pressure);
        *before = pressure;
    } else if pressure == Pressure::None {
        return;
    }
    // Those that have less to free than this are done sooner.
    let bytes = excess / backplane.shards.len().max(1) as u64;
    for shard in 0..backplane.shards.len() {
        backplane.post(shard, Letter::Hub(ControlItem::Relieve { bytes }));
    }
}

fn tell(backplane: &Backplane, pressure: Pressure) {
    let ledger = &backplane.ledger;
    let (held, budget) = (ledger.total(), ledger.budget());
    match pressure {
        Pressure::None => info!(held, budget, "memory is no longer short"),
        Pressure::Pressed => warn!(
            held,
            budget,
            "memory is short: sessions without a connection end, of those who hold most first, and \
             sessions that hold much get no more; `stentor status` says who holds most; raise \
             `limits.memory`, or lower `limits.queue_bytes` or `limits.session_expiry_max`"
        ),
        Pressure::Full => warn!(
            held,
            budget,
            "`limits.memory` is reached: only clients that have a session are let in; `stentor \
             status` says who holds most"
        ),
    }
}
