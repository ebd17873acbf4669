//! What is refused while the disk of the journals is full.
//!
//! Sessions that last take nothing on then that could not be written down: no message that they
//! would be owed, no subscription, and no new session. So whatever was acknowledged is there after
//! a restart. What makes room goes on from a reserve.
//!
//! While the disk refuses backlogs, or has as many as it may, only a message is refused that a
//! session needs the disk for: its client is away or far behind, and it holds its share of the
//! memory already. While an owner has used up its part of the disk, its own messages to its own
//! sessions are refused, if their clients are away or far behind.
//!
//! While a journal is only behind, the same messages wait where they were read.

use stentor_mqtt::{QoS, ReasonCode};
use stentor_session::{CloseReason, Limit, Message};
use stentor_topic::{Subscriber, Zone};

use super::short::Topics;
use crate::core::Core;
use crate::core::delivery::spool::{has_its_share, is_refused};
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::subscribe::SubscriptionRef;
use crate::core::retained::NotKept;
use crate::core::routing::options::as_share;
use crate::core::routing::route::reader_owner;
use crate::core::sessions::registry::{Session, about_written, owner_in};
use crate::core::settings::SlowPolicy;
use crate::core::shard_set::ShardSet;

/// The answer to a client whose session would last with a subscription more.
pub(crate) const DISK_FULL: (ReasonCode, &str) = (
    ReasonCode::QuotaExceeded,
    "the disk of the sessions is full, and this session lasts",
);

/// Visits that the search for a session that lasts may take.
const VISITS_MAX: u32 = 1_000;

/// The journal of this shard has no room for more that sessions are owed, or has room again.
pub(crate) fn set_full(core: &Core, is_full: bool) {
    let log = &core.pending.log;
    log.ways.journals().set_full(log.shard, is_full);
}

/// Whether a journal has no room for more that sessions are owed.
#[inline]
pub(crate) fn is_full(core: &Core) -> bool {
    core.pending.log.is_on() && core.pending.log.ways.journals().is_full()
}

/// Much waits for room in the journal of this shard, or little does again.
pub(crate) fn set_laden(core: &Core, is_laden: bool) {
    let log = &core.pending.log;
    log.ways.journals().set_laden(log.shard, is_laden);
}

/// The shards of whose journal that is so.
#[inline]
pub(crate) fn laden(core: &Core) -> ShardSet {
    match core.pending.log.is_on() {
        true => core.pending.log.ways.journals().laden(),
        false => ShardSet::EMPTY,
    }
}

/// Why a message is refused, if it is: nobody could write down what a session that lasts would be
/// owed; or a session needs the disk for it, which refuses backlogs; or it would go behind what
/// waits for sessions of its publisher's owner, and that has used up its part. O(subscribers) while
/// one of these is so, and O(1) otherwise.
pub(crate) fn refusal(core: &Core, message: &Message, route: &str) -> Option<NotKept> {
    let (qos, zone) = (message.qos, message.zone);
    if is_full(core) {
        return may_be_kept_by(core, ShardSet::ALL, qos, zone, route).then_some(NotKept::Sessions);
    }
    if !core.pending.log.writes(message.qos) {
        return None;
    }
    let journals = core.pending.log.ways.journals();
    let needs_disk = |_, session: &Session| {
        let owed = &session.state.owed;
        is_behind(session) && !owed.is_barred() && has_its_share(core, owed.held_bytes())
    };
    if let Some(owner) = full_publisher(core)
        && may_meet_own(core, owner, zone, route)
    {
        return Some(NotKept::Backlogs);
    }
    let is_refused = journals.topics_of_needy.are_some() || is_refused(core);
    let is_met = is_refused
        && goes_to_disk(core, message)
        && may_meet(
            core,
            told_for(core, &journals.topics_of_needy, zone, route, 0),
            zone,
            route,
            needs_disk,
        );
    is_met.then_some(NotKept::Sessions)
}

/// Whether the policy of its topic does not drop some messages.
fn goes_to_disk(core: &Core, message: &Message) -> bool {
    let policy = core
        .rules
        .settings
        .slow_policy(message.topic(), message.qos);
    policy == SlowPolicy::Disconnect
}

/// Whether a message for a session that lasts goes behind what waits for its client.
fn is_behind(session: &Session) -> bool {
    let is_away = session.live().is_none();
    session.state.is_persistent() && (is_away || session.state.owed.is_spooled())
}

/// Whether a message of an owner that is full may come to a session of the same owner that is
/// behind.
fn may_meet_own(core: &Core, owner: u32, zone: Zone, route: &str) -> bool {
    let journals = core.pending.log.ways.journals();
    let salt = salt_of(owner);
    let told = told_for(core, &journals.topics_of_full, zone, route, salt);
    let told = told & journals.full_with_backlogs.having(salt);
    let is_own = |slot, session: &Session| {
        is_behind(session) && owner_in(&core.sessions, slot) == Some(owner)
    };
    may_meet(core, told, zone, route, is_own)
}

/// Tells the filters of one owner's sessions from those of others.
const fn salt_of(owner: u32) -> u64 {
    (owner as u64)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(32)
}

/// The shards that have told of such a session for a topic.
fn told_for(core: &Core, told: &Topics, zone: Zone, route: &str, salt: u64) -> ShardSet {
    told.shards(&core.place.hasher, zone, route, salt)
}

/// Whether a message may come to such a session, here or on a shard that has told of one.
/// O(subscribers). What is expensive to find out counts if this shard has told of one.
fn may_meet(
    core: &Core,
    shards: ShardSet,
    zone: Zone,
    route: &str,
    is_such: impl Fn(u32, &Session) -> bool,
) -> bool {
    let own = ShardId(core.pending.log.shard);
    let others = shards.without(own);
    if !others.is_empty() && others.meets(core.routing.interest.others(zone, route)) {
        return true;
    }
    let (is_met, is_known) = matches(core, zone, route, is_such);
    is_met || !is_known && shards.has(own)
}

/// A session needs the disk which refuses backlogs, or has an owner that is full: other shards hear
/// for which topics. O(1): a session with more than a few filters stands for all topics.
fn tell_topics(core: &Core, told: &Topics, salt: u64, session: &Session) {
    const FILTERS_MAX: usize = 64;
    let shard = core.pending.log.shard;
    let filters = session.state.subscriptions.as_slice();
    if filters.len() > FILTERS_MAX {
        return told.tell(shard, None);
    }
    for filter in filters {
        // What is of shared ones never goes to the disk.
        if let SubscriptionRef::Filter(id) = filter {
            let (zone, text) = core.routing.index.filter(*id);
            told.tell(shard, Some(core.place.hasher.interest(zone, text) ^ salt));
        }
    }
}

/// These need the disk while it refuses backlogs.
pub(crate) fn tell_needy(core: &Core, keys: impl Iterator<Item = SessionKey>) {
    let told = &core.pending.log.ways.journals().topics_of_needy;
    let needy = keys.filter_map(|key| core.sessions.get(key));
    needy
        .filter(|session| !session.state.owed.is_barred())
        .for_each(|session| tell_topics(core, told, 0, session));
}

/// The disk takes backlogs again.
pub(crate) fn forget_needy(core: &Core) {
    let log = &core.pending.log;
    log.ways.journals().topics_of_needy.forget(log.shard);
}

/// The owners of these sessions are full.
pub(crate) fn tell_full(core: &Core, slots: &[u32]) {
    let log = &core.pending.log;
    let journals = log.ways.journals();
    for slot in slots {
        let session = core.sessions.at(*slot).filter(|session| is_behind(session));
        if let (Some(session), Some(owner)) = (session, owner_in(&core.sessions, *slot)) {
            let salt = salt_of(owner);
            journals.full_with_backlogs.tell(log.shard, Some(salt));
            tell_topics(core, &journals.topics_of_full, salt, session);
        }
    }
}

/// All of which that is so have been told since the last call, or the one before it.
pub(crate) fn turn_over_full(core: &Core) {
    let log = &core.pending.log;
    let journals = log.ways.journals();
    journals.topics_of_full.turn_over(log.shard);
    journals.full_with_backlogs.turn_over(log.shard);
}

/// The owner of the connection whose bytes are being applied, if it has used up its part of the
/// disk.
#[inline]
fn full_publisher(core: &Core) -> Option<u32> {
    let full = &core.pending.log.ways.journals().full_owners;
    match full.are_some() {
        true => reader_owner(core).filter(|owner| full.have(*owner)),
        false => None,
    }
}

/// Whether sessions that last may be owed a message, so that the journals of some of these shards
/// would have to keep it. O(subscribers).
///
/// What is expensive to find out counts as owed. So does what goes to other shards with such
/// sessions, and to shared subscriptions, whose members may be on any shard.
pub(crate) fn may_be_kept_by(
    core: &Core,
    shards: ShardSet,
    qos: QoS,
    zone: Zone,
    route: &str,
) -> bool {
    let log = &core.pending.log;
    if !log.writes(qos) {
        return false;
    }
    let others = core.routing.interest.others(zone, route);
    if log.lasting(others).meets(shards) {
        return true;
    }
    let is_here = shards.has(ShardId(log.shard));
    let lasts = |session: &Session| is_here && session.state.is_persistent();
    let is_it = |slot| core.sessions.at(slot).is_some_and(lasts);
    let (is_owed, is_known) = search(core, zone, route, |it| {
        as_share(it).is_some() || is_it(it.session)
    });
    is_owed || !is_known
}

/// Whether a message may have to go to the disk here, with what waits for a client that is away.
/// O(subscribers). What is expensive to find out counts.
pub(crate) fn may_be_spooled(core: &Core, qos: QoS, zone: Zone, route: &str) -> bool {
    if !core.pending.log.writes(qos) {
        return false;
    }
    let (is_met, is_known) = matches(core, zone, route, |_, session| is_behind(session));
    is_met || !is_known
}

/// Whether a subscriber of this shard is such a one, otherwise than by a shared subscription: what
/// is of these never goes to the disk. Also returns whether that is known.
fn matches(
    core: &Core,
    zone: Zone,
    route: &str,
    is_such: impl Fn(u32, &Session) -> bool,
) -> (bool, bool) {
    search(core, zone, route, |it| {
        let session = core.sessions.at(it.session);
        as_share(it).is_none() && session.is_some_and(|session| is_such(it.session, session))
    })
}

/// Whether a subscriber of this shard is such a one, and whether that is known: it may be expensive
/// to find out.
fn search(
    core: &Core,
    zone: Zone,
    route: &str,
    is_such: impl Fn(Subscriber) -> bool,
) -> (bool, bool) {
    let hash = core.place.hasher.hash(zone, route);
    let mut is_met = false;
    let matched = core
        .routing
        .index
        .match_some(zone, route, hash, VISITS_MAX, |_, found| {
            is_met = is_met || found.iter().any(|it| is_such(*it));
        });
    (is_met, matched.rest.is_none())
}

/// About how many bytes a round writes: of all sessions of this shard that last, and of what waits
/// for them. O(sessions).
pub(crate) fn bytes_to_write(core: &Core) -> u64 {
    about_written(&core.sessions)
}

/// Whether there is no room for another session that outlives its connection.
///
/// # Errors
/// If there is none.
pub(crate) fn may_begin(core: &Core, goes_on: bool) -> Result<(), CloseReason> {
    match is_full(core) && !goes_on {
        true => Err(CloseReason::Limit(Limit::Disk)),
        false => Ok(()),
    }
}
