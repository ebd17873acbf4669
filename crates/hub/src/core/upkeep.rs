//! What a shard asks of the core besides the messages of its clients.

use alloc::collections::BinaryHeap;
use alloc::sync::Arc;
use core::cmp::Reverse;

use stentor_session::{Message, Tick};
use stentor_topic::{Subscriber, Zone};

use crate::core::Core;
use crate::core::delivery::snapshot;
use crate::core::inbound::subscribe::slice;
use crate::core::memory::relief;
use crate::core::retained::{Kept, NotKept};
use crate::core::routing::options::as_share;
use crate::core::routing::route::dues;
use crate::core::routing::share::ShareName;
use crate::core::routing::{batch, route};
use crate::core::sessions::log::has_records;
use crate::core::settings::Settings;
use crate::core::stats::{Losses, Stats};
use crate::effects::Effects;

#[inline(never)]
fn gather_effects(core: &mut Core) {
    let (effects, outbox) = (&mut core.effects, &mut core.outbox);
    let log = &mut core.pending.log;
    effects.log_is_promised |= log.take(&mut effects.log, &mut effects.log_cuts);
    effects.dirty.append(&mut outbox.listed.dirty);
    effects.crowd.append(&mut outbox.listed.crowd);
    effects.conflating.append(&mut outbox.conflating);
}

/// Whether something that was left goes on at once.
fn goes_on(core: &Core) -> bool {
    let may_end = !core.past.endings.are_held();
    slice::is_due(core)
        || core.routing.has_untold()
        || !core.routing.routes.is_empty() && !core.pending.log.waits()
        || core.past.endings.go_on()
        || !core.pending.overrun.is_empty()
        || !core.clock.due.is_empty() && may_end
        || !core.outbox.snapshots.is_empty()
        || !core.outbox.pumps.is_empty()
        || core.rights.renewals.is_pending()
        || !core.rights.reviews.is_empty()
        || core.memory.relief.is_pending() && may_end
}

/// New limits and policies; what is connected keeps what its CONNACK said.
pub(crate) fn reconfigure(core: &mut Core, settings: Arc<Settings>) {
    core.rules.uses = settings.uses();
    core.rules.settings = settings;
    core.memory.relief.reconfigured();
    relief::tighten(core);
}

/// All that lay in the rings of other shards when [`begin_drain`] was called is applied.
pub(crate) fn end_drain(core: &mut Core, now: Tick) {
    batch::settle(core, now);
    dues::charge_senders(core);
    core.routing.fences.end_drain();
    core.pending.log.tell_taken();
    snapshot::continue_fenced(core, now);
}

/// Has a message kept by `put`, and then routes it, after everything that came before it.
///
/// # Errors
/// When there is no memory for it, and what `put` says: then nobody gets the message.
pub(crate) fn keep_by(
    core: &mut Core,
    now: Tick,
    message: Arc<Message>,
    put: impl FnOnce(&Message) -> Result<Kept, NotKept>,
) -> Result<Kept, NotKept> {
    batch::settle(core, now);
    if relief::is_out_of_memory_for(core, now, &message) {
        core.counters.stats.unkept_by_memory += 1;
        return Err(NotKept::Memory);
    }
    // As for a publish: a snapshot on another shard that finds it waits for what came before.
    core.routing.fences.begin_put();
    let kept = put(&message)?;
    route::everywhere(core, now, &[message]);
    Ok(kept)
}

/// When something is to be done next at the latest; [`Tick::NEVER`] for not at all.
pub(crate) fn next_deadline(core: &Core) -> Tick {
    if goes_on(core) {
        return Tick::ZERO;
    }
    let mut next = core.outbox.held.next_at().unwrap_or(Tick::NEVER);
    let paces = [&core.outbox.paces, &core.outbox.fetches];
    for Reverse((at, _)) in paces.into_iter().filter_map(BinaryHeap::peek) {
        next = next.min(*at);
    }
    next.min(core.clock.timers.next().unwrap_or(Tick::NEVER))
}

/// What the calls since have asked for.
#[inline]
pub(crate) fn effects(core: &mut Core) -> &mut Effects {
    // Asked some twenty times a turn, mostly for nothing.
    let listed = &core.outbox.listed;
    let has_listed = !listed.dirty.is_empty() || !listed.crowd.is_empty();
    if has_listed || !core.outbox.conflating.is_empty() || has_records(&core.pending.log) {
        gather_effects(core);
    }
    &mut core.effects
}

/// The shard is about to take what other shards have left in their rings until now, all of it.
pub(crate) fn begin_drain(core: &mut Core) {
    core.routing.fences.begin_drain();
}

/// Everything that was in `effects().mesh` lies in the rings of the other shards. Until then
/// their snapshots may wait for it, so this has to be called soon after the hub was.
pub(crate) fn forwarded(core: &mut Core) {
    debug_assert!(
        core.effects.mesh.is_empty(),
        "the shard sends the items of the mesh before it says that it has"
    );
    core.routing.fences.forwarded();
}

/// The counters.
pub(crate) fn stats(core: &Core) -> Stats {
    Stats {
        sessions: core.sessions.len() as u64,
        packets_sent: core.outbox.controls + core.counters.stats.publishes_sent,
        ..core.counters.stats
    }
}

/// What was lost, and by whom.
pub(crate) const fn losses(core: &Core) -> &Losses {
    &core.counters.losses
}

/// Every filter that this shard routes by, with the number of its own sessions that subscribe
/// to it: 0 if there are only members of shared subscriptions, here or elsewhere.
/// [`shared_subscriptions`] has those.
pub(crate) fn filters(core: &Core) -> impl Iterator<Item = (Zone, &str, usize)> {
    let filters = core.routing.index.iter();
    filters.map(|filter| (filter.zone, filter.text, own_sessions(filter.subscribers)))
}

/// Every shared subscription with members on this shard, and their number.
pub(crate) fn shared_subscriptions(core: &Core) -> impl Iterator<Item = (&ShareName, usize)> {
    core.routing
        .shares
        .iter()
        .filter(|(_, members)| *members > 0)
}

/// Shared subscriptions of this shard, once for each of their members. O(1).
pub(crate) const fn shared_members(core: &Core) -> usize {
    core.routing.shares.members()
}

/// How many of the subscribers of a filter are sessions of this shard, not shared subscriptions.
pub(super) fn own_sessions(subscribers: &[Subscriber]) -> usize {
    let own = |subscriber: &&Subscriber| as_share(**subscriber).is_none();
    subscribers.iter().filter(own).count()
}
