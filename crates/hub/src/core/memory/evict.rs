//! The places for sessions that outlive their connection: which gets one, and which gives it up.

use stentor_session::{CloseReason, ConnectRequest, Limit, Outbound, Tick};
use stentor_topic::Zone;

use super::{Lease, Pressure, Tenants};
use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::sessions::log;
use crate::core::sessions::rights::Identity;
use crate::core::stats::LossCause;
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

impl Core {
    /// Finds room for the session that a client asks for, if it outlives its connection. A session
    /// that is there already always goes on.
    pub(crate) fn room_for(
        &self,
        request: &ConnectRequest,
        identity: &Identity,
        tenants: Option<&Tenants>,
    ) -> Result<Room, CloseReason> {
        let settings = &self.rules.settings;
        self.has_memory_for(request, identity, tenants)?;
        let lasts = request.session_expiry_secs > 0 && settings.session_expiry_max_secs > 0;
        if !lasts {
            return Ok(Room::default());
        }
        // It makes no difference to the counts whether an old one goes on or a new one replaces it.
        let present = self.sessions.own_session(identity, &request.client_id);
        let goes_on = present.is_some_and(|session| session.state.is_persistent());
        log::may_begin(self, goes_on)?;
        let mut room = Room::default();
        if !goes_on && self.sessions.persistent() >= settings.sessions_max {
            let own = tenants.map_or(0, |tenants| tenants.own.sessions());
            let from = self.who_gives_way(own).ok_or(Limit::Sessions);
            room.from = Some(from.map_err(CloseReason::Limit)?);
        }
        if let Some(tenants) = tenants {
            let lease = Lease::take(tenants, settings, goes_on);
            room.lease = Some(lease.map_err(CloseReason::Limit)?);
        }
        Ok(room)
    }

    /// The shard with a session that gives way to somebody who has `own` of them already.
    fn who_gives_way(&self, own: u32) -> Option<ShardId> {
        // Afterwards the newcomer has no more than the other: they do not take turns.
        let has_more = |sessions: u32| sessions > own.saturating_add(1);
        if has_more(self.sessions.most_absent()) {
            return Some(self.place.shard);
        }
        let others = (0..self.place.shards).map(ShardId);
        let most = others.map(|shard| (self.memory.ledger.most_absent(shard), shard));
        let (sessions, shard) = most.max_by_key(|(sessions, _)| *sessions)?;
        has_more(sessions).then_some(shard)
    }

    /// A session gives way to a newcomer's, here or on another shard.
    pub(crate) fn make_room(&mut self, now: Tick, from: ShardId) {
        if from != self.place.shard {
            let item = (from, ShardItem::MakeRoom);
            return self.effects.lanes.push(item);
        }
        if let Some(key) = self.sessions.first_to_go() {
            self.evict(now, key, Limit::Sessions);
        }
    }

    /// Whether memory lets a client in: one that has a session goes on in any case.
    fn has_memory_for(
        &self,
        request: &ConnectRequest,
        identity: &Identity,
        tenants: Option<&Tenants>,
    ) -> Result<(), CloseReason> {
        let lasts = request.session_expiry_secs > 0;
        let is_refused = match self.memory.ledger.pressure() {
            Pressure::None => false,
            // Whoever has one already leaves nothing more behind.
            Pressure::Pressed => lasts && tenants.is_some_and(|t| t.own.sessions() > 0),
            Pressure::Full => true,
        };
        if is_refused
            && self
                .sessions
                .own_session(identity, &request.client_id)
                .is_none()
        {
            return Err(CloseReason::Limit(Limit::Memory));
        }
        Ok(())
    }

    /// Counts a session that ends early, and the messages that are lost with it.
    fn count_evicted(&mut self, zone: Zone, limit: Limit, messages: u64) {
        self.counters.stats.evicted += 1;
        self.counters.stats.evicted_by_memory += u64::from(limit == Limit::Memory);
        self.counters.stats.publishes_dropped += messages;
        self.counters.traffic.of(zone).dropped += messages;
        self.counters
            .losses
            .record_many(LossCause::SessionEnded, messages);
    }

    /// Ends a session without a connection, since this limit leaves no room for it any more.
    pub(super) fn evict(&mut self, now: Tick, key: SessionKey, limit: Limit) {
        let Some(session) = self.sessions.get(key) else {
            return;
        };
        let (zone, messages) = (session.state.zone(), session.lost_by_end());
        let owed = session.state.owed.get();
        let counted = owed.map_or(0, Outbound::looked_at_by_end);
        self.turn.spend_each(counted / COUNTED_PER_VISIT, 1);
        let client_id = session.state.client_id().into();
        let user = session.state.identity().user.clone();
        self.count_evicted(zone, limit, messages);
        let most = match limit {
            Limit::Memory => self.memory.ledger.budget(),
            _ => self.rules.settings.sessions_max,
        };
        self.effects.events.push(Event::SessionEvicted {
            client_id,
            user,
            limit,
            most,
            messages,
        });
        self.end_session(now, key);
    }
}
