//! The places for sessions that outlive their connection: which gets one, and which gives it up.

use stentor_session::{CloseReason, ConnectRequest, Limit, Outbound, Tick};
use stentor_topic::Zone;

use super::{Lease, Pressure, Tenants};
use crate::core::ids::{SessionKey, ShardId};
use crate::core::sessions::rights::Identity;
use crate::core::sessions::{ending, log};
use crate::core::stats::LossCause;
use crate::core::{Core, Counters};
use crate::effects::Event;
use crate::items::ShardItem;

/// This many messages of a session are counted by the time of one visit.
const COUNTED_PER_VISIT: usize = 16;

/// What a newcomer's session takes.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Its places; none if it does not outlive its connection, or nobody counts it.
    pub(crate) lease: Option<Lease>,
    /// Where another one gives way for it.
    pub(crate) from: Option<ShardId>,
}

/// Finds room for the session that a client asks for, if it outlives its connection. A session
/// that is there already always goes on.
pub(in crate::core) fn room_for(
    core: &Core,
    request: &ConnectRequest,
    identity: &Identity,
    tenants: Option<&Tenants>,
) -> Result<Room, CloseReason> {
    let settings = &core.rules.settings;
    has_memory_for(core, request, identity, tenants)?;
    let lasts = request.session_expiry_secs > 0 && settings.session_expiry_max_secs > 0;
    if !lasts {
        return Ok(Room::default());
    }
    // It makes no difference to the counts whether an old one goes on or a new one replaces it.
    let present = core.sessions.own_session(identity, &request.client_id);
    let goes_on = present.is_some_and(|session| session.state.is_persistent());
    log::may_begin(core, goes_on)?;
    let mut room = Room::default();
    if !goes_on && core.sessions.persistent() >= settings.sessions_max {
        let own = tenants.map_or(0, |tenants| tenants.own.sessions());
        let from = who_gives_way(core, own).ok_or(Limit::Sessions);
        room.from = Some(from.map_err(CloseReason::Limit)?);
    }
    if let Some(tenants) = tenants {
        let lease = Lease::take(tenants, settings, goes_on);
        room.lease = Some(lease.map_err(CloseReason::Limit)?);
    }
    Ok(room)
}

/// The shard with a session that gives way to somebody who has `own` of them already.
fn who_gives_way(core: &Core, own: u32) -> Option<ShardId> {
    // Afterwards the newcomer has no more than the other: they do not take turns.
    let has_more = |sessions: u32| sessions > own.saturating_add(1);
    if has_more(core.sessions.most_absent()) {
        return Some(core.place.shard);
    }
    let others = (0..core.place.shards).map(ShardId);
    let most = others.map(|shard| (core.memory.ledger.most_absent(shard), shard));
    let (sessions, shard) = most.max_by_key(|(sessions, _)| *sessions)?;
    has_more(sessions).then_some(shard)
}

/// A session gives way to a newcomer's, here or on another shard.
pub(crate) fn make_room(core: &mut Core, now: Tick, from: ShardId) {
    if from != core.place.shard {
        let item = (from, ShardItem::MakeRoom);
        return core.effects.control_items.push(item);
    }
    if let Some(key) = core.sessions.first_to_go() {
        end_one(core, now, key, Limit::Sessions);
    }
}

/// Whether memory lets a client in: one that has a session goes on in any case.
fn has_memory_for(
    core: &Core,
    request: &ConnectRequest,
    identity: &Identity,
    tenants: Option<&Tenants>,
) -> Result<(), CloseReason> {
    let lasts = request.session_expiry_secs > 0;
    let is_refused = match core.memory.ledger.pressure() {
        Pressure::None => false,
        // A client that has one already leaves nothing more behind.
        Pressure::Pressed => lasts && tenants.is_some_and(|t| t.own.sessions() > 0),
        Pressure::Full => true,
    };
    if is_refused
        && core
            .sessions
            .own_session(identity, &request.client_id)
            .is_none()
    {
        return Err(CloseReason::Limit(Limit::Memory));
    }
    Ok(())
}

impl Counters {
    /// Counts a session that ends early, and the messages that are lost with it.
    fn count_evicted(&mut self, zone: Zone, limit: Limit, messages: u64) {
        self.stats.evicted += 1;
        self.stats.evicted_by_memory += u64::from(limit == Limit::Memory);
        self.stats.publishes_dropped += messages;
        self.traffic.of(zone).dropped += messages;
        self.losses.record_many(LossCause::SessionEnded, messages);
    }
}

/// Ends a session without a connection, since this limit leaves no room for it any more.
pub(super) fn end_one(core: &mut Core, now: Tick, key: SessionKey, limit: Limit) {
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let (zone, messages) = (session.state.zone(), session.lost_by_end());
    let owed = session.state.owed.get();
    let counted = owed.map_or(0, Outbound::looked_at_by_end);
    core.turn.spend_each(counted / COUNTED_PER_VISIT, 1);
    let client_id = session.state.client_id().into();
    let user = session.state.identity().user.clone();
    core.counters.count_evicted(zone, limit, messages);
    let most = match limit {
        Limit::Memory => core.memory.ledger.budget(),
        _ => core.rules.settings.sessions_max,
    };
    core.effects.events.push(Event::SessionEvicted {
        client_id,
        user,
        limit,
        most,
        messages,
    });
    ending::end(core, now, key);
}
