//! A shard goes on with sessions that were written down.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use stentor_session::{
    Chunk, ChunkPlace, Delivery, Message, Outbound, PriorDelivery, Spooled, SubscriptionIds, Tick,
};
use stentor_session_log::{Filter, Name, OwnedShare, OwnedTerms, RestoredDebt, Target};
use stentor_topic::{FilterId, Zone, matches};

use super::prior::{PriorDeliveries, PriorSession, PriorSubscription};
use super::{SentBy, SessionLog, round_begins, write_base};
use crate::core::delivery::conflate::hold_again;
use crate::core::delivery::deliver::{DeliveryOptions, Matching};
use crate::core::delivery::snapshot::{Snapshots, Wanted};
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::subscribe::{Element, SubscriptionRef, index, permit};
use crate::core::memory::Lease;
use crate::core::routing::batch::EncodedBatch;
use crate::core::routing::options::Options;
use crate::core::routing::route::is_own;
use crate::core::routing::share::{ShareName, Telling, expect_share, forget_expected, open_queue};
use crate::core::routing::{route, share};
use crate::core::sessions::ending;
use crate::core::sessions::registry::{Away, Left, Link, Session};
use crate::core::sessions::state::{Absence, Arrivals, Grant, Owed, SessionState, served_queue};
use crate::core::{Core, Timer};

impl PriorSession {
    /// Goes on with the session. Raises interest, and tells other shards of its shared
    /// subscriptions.
    pub(crate) fn go_on_in(self, core: &mut Core, now: Tick) {
        SessionLog::whole(core, |core| self.go_on(core, now));
    }

    fn go_on(mut self, core: &mut Core, now: Tick) {
        let mut state = SessionState::new(self.identity, &self.client_id, self.expiry_secs);
        state.apply_quotas();
        // What it had of a queue goes back there at once.
        let gives_back = self.expiry_secs == 0 && !self.deliveries.owed.is_empty();
        if gives_back {
            served_queue(&mut state);
        }
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
        let zone = core.sessions.get(session).map(|of| of.state.zone());
        let owed = zone.map(|zone| outbound(core, zone, self.deliveries));
        if let Some(of) = core.sessions.get_mut(session) {
            let log = &mut core.pending.log;
            for held in core::mem::take(&mut self.held) {
                let delivery = delivery(held.message, &held.terms);
                hold_again(of, &core.outbox.hasher, now, delivery);
            }
            of.state.owed = owed.map_or_else(Owed::default, Owed::restored);
            of.state.arrivals = Arrivals::restored(core::mem::take(&mut self.arrived));
            of.state.adopted(self.origin, will, log);
            // It may have been there when the server ended.
            of.state.is_away(self.since_ms, absence, log);
        }
        if self.origin.is_none() {
            write_base(core, session);
        }
        let next = absence.until.min(absence.will_at);
        let next = if gives_back { now } else { next };
        if next != Tick::NEVER {
            core.clock.arm(now, next, Timer { session, epoch });
        }
        for (message, to) in &self.unheard {
            match to {
                Target::Member(share) => route_to_member(core, now, session, message, share),
                Target::Subscribers(route) => {
                    let route = route.as_deref().unwrap_or_else(|| message.topic());
                    route_again(core, now, session, message, route);
                }
            }
        }
    }
}

/// What a session owes its client.
fn outbound(core: &mut Core, zone: Zone, prior: PriorDeliveries) -> Outbound {
    let deliveries = prior.owed.into_iter().map(|prior| PriorDelivery {
        number: prior.delivery + 1,
        packet_id: prior.packet_id,
        delivery: match prior.debt {
            RestoredDebt::Release => None,
            RestoredDebt::Message(message, terms) => {
                // The session may have left it, and still leaves its messages to the members.
                let share = terms.share.as_ref().map(|share| ShareName {
                    zone,
                    group: share.group.clone(),
                    filter: share.filter.clone(),
                });
                Some(Delivery {
                    share: share.map_or(0, |share| expect_share(core, share)),
                    number: prior.delivery + 1,
                    ..delivery(message, &terms)
                })
            }
        },
    });
    let spooled = prior.spooled.into_iter().filter_map(|it| {
        let number = |delivery: u64| delivery + 1;
        Some(Spooled {
            chunk: Chunk {
                first: number(it.first),
                count: it.count,
                place: ChunkPlace {
                    file: NonZeroU32::new(it.place.file)?,
                    at: it.place.at,
                    len: it.place.len,
                },
            },
            gone: it.gone.into_iter().map(number).collect(),
            odd: it
                .odd
                .into_iter()
                .map(|(at, id)| (number(at), id))
                .collect(),
        })
    });
    Outbound::restored(prior.count, prior.sent + 1, deliveries, spooled.collect())
}

/// A delivery on these terms, of no shared subscription.
fn delivery(message: Arc<Message>, terms: &OwnedTerms) -> Delivery {
    let ids: Vec<u32> = terms.identifiers.iter().map(|id| id.0).collect();
    Delivery {
        message,
        qos: terms.qos,
        retain: terms.retain,
        subscription_ids: SubscriptionIds::new(&ids),
        share: 0,
        conflated: terms.conflated,
        number: 0,
    }
}

/// Sessions of earlier starts are about to go on here. What they are owed is written once, as in a
/// round of bases.
pub(crate) fn begin_restoring(core: &mut Core) {
    round_begins(&mut core.pending.log);
    core.past.endings.hold(true);
}

/// The shards know of the sessions of one another.
pub(crate) fn end_restoring(core: &mut Core) {
    core.past.endings.hold(false);
    forget_expected(core);
}

/// A message has come from another shard, and is about to be handed out. That one may have written
/// it down when it sent it. Returns the message to hand out.
pub(crate) fn takes(core: &mut Core, from: SentBy, message: Arc<Message>) -> Arc<Message> {
    core.pending.log.takes(from, message)
}

/// That is done, as far as it does not go on in later turns.
pub(crate) fn has_taken(core: &mut Core, message: &Arc<Message>) {
    core.pending.log.has_taken(message);
}

/// All has come from another shard that it has sent before it has written something there.
pub(crate) fn takes_mark(core: &mut Core, from: ShardId, name: Name) {
    core.pending.log.takes_mark(from.0, name);
}

/// The shard has taken all records.
pub(crate) fn were_taken(core: &mut Core) {
    core.pending.log.were_taken();
}

/// The shard has appended a batch, which begins there.
pub(crate) fn logged(core: &mut Core, at: Option<Name>) {
    core.pending.log.logged(at);
}

/// Gives a session a message that its shard had not taken when the server ended, as a member of a
/// shared subscription.
fn route_to_member(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    message: &Arc<Message>,
    share: &OwnedShare,
) {
    let shares = &core.routing.shares;
    let Some(slot) = shares.find(message.zone, &share.group, &share.filter) else {
        return;
    };
    let options = shares.options(slot, key.slot);
    let (name, number) = (shares.shared_name(slot), shares.number(slot));
    if let (Some(options), Some(name), Some(number)) = (options, name, number) {
        let ids = [options.id()];
        let ids = if ids == [0] { &[][..] } else { &ids[..] };
        let terms = DeliveryOptions {
            group: Some(&name),
            ..DeliveryOptions::new(message, options, ids, number)
        };
        let mut variants = route::variants(core, message);
        route::fanout(core, now).deliver(&mut variants, key.slot, &terms);
    }
}

/// The same by its ordinary subscriptions that match a topic.
fn route_again(core: &mut Core, now: Tick, key: SessionKey, message: &Arc<Message>, route: &str) {
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let all = session.state.subscriptions.as_slice().iter();
    let matching: Vec<Matching> = all
        .filter_map(|subscription| {
            let SubscriptionRef::Filter(id) = *subscription else {
                return None;
            };
            let filter = core.routing.index.filter(id).1;
            let options = core.routing.index.options(id, key.slot)?;
            matches(filter, route).then(|| (id, Options::from_bits(options)))
        })
        .collect();
    if let Link::Away(Away {
        left: Some(left), ..
    }) = &session.link
    {
        // It was in the room when that was said. No filter in the index stands for it.
        let its = left.rooms.iter().filter(|it| matches(&it.filter, route));
        let all: Vec<Options> = its.map(|it| Options::new(it.options, it.id)).collect();
        let all = all.iter().copied();
        let is_own = is_own(Some(session), message);
        let all = all.filter(|options| !(is_own && options.no_local()));
        let ids: Vec<u32> = all.clone().map(Options::id).filter(|id| *id != 0).collect();
        if let Some(best) = all.max_by_key(|options| options.qos()) {
            let terms = DeliveryOptions::new(message, best, &ids, 0);
            let mut variants = route::variants(core, message);
            route::fanout(core, now).deliver(&mut variants, key.slot, &terms);
        }
    }
    let messages = [Arc::clone(message)];
    let treatment = route::treatment(core, message);
    let mut batch = EncodedBatch::new(&messages, treatment);
    route::fanout(core, now).serve(&mut batch, message, key.slot, &matching);
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
    ending::end(core, now, key);
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
                history: None,
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
            bytes: permit::subscription_cost(core, share, filter),
            interval: self.interval,
        };
        if let Some(group) = share {
            // Clients are let in when other shards know of it.
            share::join(core, key, zone, group, filter, &grant, Telling::Soon);
            if let Some(slot) = core.routing.shares.find(zone, group, filter) {
                open_queue(core, slot, key);
                share::member_changed(core, slot, key.slot, false);
            }
            return None;
        }
        let (_, inserted) = index::add(core, key, zone, filter, &grant);
        let session = core.sessions.get_mut(key)?;
        let hasher = &core.outbox.hasher;
        session.set_rate(hasher, inserted.id, filter, self.interval);
        Some((inserted.id, inserted.has_wildcard))
    }
}
