//! What is refused while the disk of the journals is full.
//!
//! Sessions that last take nothing on then that could not be written down: no message that they
//! would be owed, no subscription, and no new session. So whatever was acknowledged is there after
//! a restart. What makes room goes on from a reserve.

use stentor_mqtt::ReasonCode;
use stentor_session::{CloseReason, Limit, Message};

use crate::core::Core;
use crate::core::routing::options::as_share;
use crate::core::sessions::registry::about_written;

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

/// Whether a message is refused, because a session that lasts may be owed it and nobody could write
/// that down. O(subscribers) while the disk is full, and O(1) otherwise.
///
/// What is expensive to find out counts as owed. So does what goes to other shards with such
/// sessions, and to shared subscriptions.
pub(crate) fn is_refused(core: &Core, message: &Message, route: &str) -> bool {
    let log = &core.pending.log;
    if !is_full(core) || !log.writes(message.qos) {
        return false;
    }
    let zone = message.zone;
    if log.lasting(core.routing.interest.others(zone, route)) != 0 {
        return true;
    }
    let lasts = |slot| {
        let session = core.sessions.at(slot);
        session.is_some_and(|session| session.state.is_persistent())
    };
    let hash = core.place.hasher.hash(zone, route);
    let mut is_owed = false;
    let matched = core
        .routing
        .index
        .match_some(zone, route, hash, VISITS_MAX, |_, found| {
            let mut all = found.iter();
            is_owed = is_owed || all.any(|it| as_share(*it).is_some() || lasts(it.session));
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
