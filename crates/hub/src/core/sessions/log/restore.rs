//! A shard goes on with sessions that were written down.

use alloc::vec::Vec;

use stentor_session::Tick;
use stentor_session_log::Filter;
use stentor_topic::FilterId;

use super::prior::{PriorSession, PriorSubscription};
use super::write_base;
use crate::core::delivery::snapshot::{Snapshots, Wanted};
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::Element;
use crate::core::memory::Lease;
use crate::core::routing::options::Options;
use crate::core::routing::share::Telling;
use crate::core::sessions::registry::{Away, Left, Link, Session};
use crate::core::sessions::state::{Absence, Grant, SessionState};
use crate::core::{Core, Timer};

impl PriorSession {
    /// Goes on with the session. Raises interest, and tells other shards of its shared
    /// subscriptions.
    pub(crate) fn go_on_in(mut self, core: &mut Core, now: Tick) {
        let mut state = SessionState::new(self.identity, &self.client_id, self.expiry_secs);
        state.apply_quotas();
        let will = self.will.take();
        let absence = Absence {
            until: self.until,
            will_at: match will {
                Some(_) => self.will_at,
                None => Tick::NEVER,
            },
        };
        let rooms = self.subscriptions.extract_if(.., |it| it.room);
        let rooms: Vec<Element> = rooms.map(PriorSubscription::into_element).collect();
        let mut session = Session::new(state);
        session.link = Link::Away(Away {
            absence,
            since_ms: self.since_ms,
            snapshots: None,
            conflating: None,
            left: Left::of(rooms, None),
        });
        let epoch = session.epoch;
        let session = core.sessions.insert(session);
        // It had its places before, whatever the limits are now.
        let settings = &core.rules.settings;
        let lease = self.tenants.as_ref();
        if let Some(Ok(lease)) = lease.map(|tenants| Lease::take(tenants, settings, true)) {
            core.sessions.let_to(session, lease);
        }
        if self.expiry_secs > 0 {
            go_on_with_subscriptions(core, session, &self.subscriptions);
        }
        core.sessions.went_away(session);
        if let Some(of) = core.sessions.get_mut(session) {
            let log = &mut core.pending.log;
            of.state.adopted(self.origin, will, log);
            // It may have been there when the server ended.
            of.state.is_away(self.since_ms, absence, log);
        }
        if self.origin.is_none() {
            write_base(core, session);
        }
        let next = absence.until.min(absence.will_at);
        if next != Tick::NEVER {
            core.clock.arm(now, next, Timer { session, epoch });
        }
    }
}

/// Ends what was written down of a session that did not outlive its connection, but for its will.
/// Returns whether it is such a session. That is gone then, without its will.
pub(crate) fn forget_will(core: &mut Core, now: Tick, key: SessionKey) -> bool {
    let session = core.sessions.get_mut(key);
    let is_such =
        |session: &&mut Session| !session.state.is_persistent() && session.live().is_none();
    let Some(session) = session.filter(is_such) else {
        return false;
    };
    session.state.take_will(&mut core.pending.log);
    core.end_session(now, key);
    true
}

/// A session does not come back to a filter below a room.
pub(crate) fn leave(core: &mut Core, key: SessionKey, filter: &str) {
    if let Some(session) = core.sessions.get(key) {
        let filter = Filter {
            group: None,
            filter,
        };
        session.state.leave(filter, &mut core.pending.log);
    }
}

fn go_on_with_subscriptions(core: &mut Core, key: SessionKey, all: &[PriorSubscription]) {
    let mut snapshots = Snapshots::default();
    for subscription in all {
        let Some((id, has_wildcard)) = subscription.go_on_in(core, key) else {
            continue;
        };
        if subscription.snapshot {
            let wanted = Wanted {
                id,
                filter: &subscription.filter,
                has_wildcard,
                options: Options::new(subscription.options, subscription.id),
                mark: core.store.retained.mark(),
                sends: true,
                marks_end: false,
            };
            snapshots.add(&wanted, core.routing.what_is_ahead());
        }
    }
    if !snapshots.is_empty()
        && let Some(session) = core.sessions.get_mut(key)
        && let Link::Away(away) = &mut session.link
    {
        // What comes at QoS 0 until the client is back is lost.
        snapshots.disconnected();
        away.snapshots = Some(snapshots.into());
    }
}

impl PriorSubscription {
    /// Below a room: the session asks for it when its client is back.
    fn into_element(self) -> Element {
        let options = Options::new(self.options, self.id);
        Element::stored(&self.filter, options)
    }

    /// Returns its filter in the index, unless it is a shared one.
    fn go_on_in(&self, core: &mut Core, key: SessionKey) -> Option<(FilterId, bool)> {
        let session = core.sessions.get(key)?;
        let zone = session.state.zone();
        let (share, filter) = (self.share.as_deref(), &*self.filter);
        let grant = Grant {
            options: Options::new(self.options, self.id),
            access: session.state.identity().rights.may_subscribe(filter),
            bytes: core.subscription_cost(share, filter),
            interval: self.interval,
        };
        if let Some(group) = share {
            // The doors open when other shards know of it.
            core.join_share((key, zone), (group, filter), (&grant, Telling::Soon));
            if let Some(slot) = core.routing.shares.find(zone, group, filter) {
                core.member_changed(slot, key.slot, false);
            }
            return None;
        }
        let (_, inserted) = core.add_subscription(key, (zone, filter), &grant);
        let session = core.sessions.get_mut(key)?;
        let hasher = &core.outbox.hasher;
        session.set_rate(hasher, (inserted.id, filter), self.interval);
        Some((inserted.id, inserted.has_wildcard))
    }
}
