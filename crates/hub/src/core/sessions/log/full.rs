//! What is refused while the disk of the journals is full.
//!
//! Sessions that last take nothing on then that could not be written down: no message that they
//! would be owed, no subscription, and no new session. So whatever was acknowledged is there after
//! a restart. What makes room goes on from a reserve.
//!
//! While a journal is only behind, the same messages wait where they were read.

use stentor_mqtt::{QoS, ReasonCode};
use stentor_session::{CloseReason, Limit, Message};
use stentor_topic::Zone;

use crate::core::Core;
use crate::core::retained::NotKept;
use crate::core::routing::options::as_share;
use crate::core::routing::route::reader_owner;
use crate::core::sessions::registry::{Session, about_written};

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

/// A bit for each shard of whose journal that is so.
#[inline]
pub(crate) fn laden(core: &Core) -> u64 {
    match core.pending.log.is_on() {
        true => core.pending.log.ways.journals().laden(),
        false => 0,
    }
}

/// Why a message is refused, if it is: a session that lasts may be owed it, and nobody could write
/// that down, or its publisher has used up its part of the disk for backlogs. O(subscribers) while
/// the disk is full or the publisher has, and O(1) otherwise.
pub(crate) fn refusal(core: &Core, message: &Message, route: &str) -> Option<NotKept> {
    let why = if is_full(core) {
        NotKept::Sessions
    } else if is_publisher_full(core) {
        NotKept::Backlogs
    } else {
        return None;
    };
    may_be_kept_by(core, u64::MAX, (message.qos, message.zone), route).then_some(why)
}

/// Whether the owner of the connection whose bytes are being applied has used up its part of the
/// disk.
#[inline]
fn is_publisher_full(core: &Core) -> bool {
    let log = &core.pending.log;
    let full = &log.ways.journals().full_owners;
    log.is_on() && full.are_some() && reader_owner(core).is_some_and(|it| full.have(it))
}

/// Whether sessions that last may be owed a message, so that the journals of some of these shards
/// would have to keep it. O(subscribers).
///
/// What is expensive to find out counts as owed. So does what goes to other shards with such
/// sessions, and to shared subscriptions, whose members may be on any shard.
pub(crate) fn may_be_kept_by(
    core: &Core,
    shards: u64,
    (qos, zone): (QoS, Zone),
    route: &str,
) -> bool {
    let log = &core.pending.log;
    if !log.writes(qos) {
        return false;
    }
    if log.lasting(core.routing.interest.others(zone, route)) & shards != 0 {
        return true;
    }
    let is_here = shards >> log.shard & 1 == 1;
    matches(core, (zone, route), |session| {
        is_here && session.state.is_persistent()
    })
}

/// Whether a message may have to go to the disk here, with what waits for a client that is away.
/// O(subscribers).
pub(crate) fn may_be_spooled(core: &Core, (qos, zone): (QoS, Zone), route: &str) -> bool {
    core.pending.log.writes(qos)
        && matches(core, (zone, route), |session| {
            let is_away = session.live().is_none();
            session.state.is_persistent() && (is_away || session.state.owed.is_spooled())
        })
}

/// Whether a subscriber of this shard is such a one, or belongs to a shared subscription; what is
/// expensive to find out counts as well.
fn matches(core: &Core, (zone, route): (Zone, &str), is_such: impl Fn(&Session) -> bool) -> bool {
    let is_it = |slot| core.sessions.at(slot).is_some_and(&is_such);
    let hash = core.place.hasher.hash(zone, route);
    let mut is_owed = false;
    let matched = core
        .routing
        .index
        .match_some(zone, route, hash, VISITS_MAX, |_, found| {
            let mut all = found.iter();
            is_owed = is_owed || all.any(|it| as_share(*it).is_some() || is_it(it.session));
        });
    is_owed || matched.rest.is_some()
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
