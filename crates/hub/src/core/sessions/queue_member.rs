//! Sessions that are members of queues.
//!
//! A queue promises that a message waits until a member has acknowledged it. So a member is written
//! down also if its session ends with its connection. After a start such a session ends at once:
//! what it has not acknowledged goes to other members, or back into the queue.

use stentor_session::Tick;
use stentor_topic::Subscription;

use super::log::write_base;
use super::registry::{leave_queues, serve_queue};
use super::state::{gives_back, served_queue};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::routing::share::{is_queue, is_queue_member};
use crate::core::sessions::ending;

/// A session is about to subscribe. If that is a queue, the session is written down from now on.
/// Returns whether it is one. O(its subscriptions), once.
pub(crate) fn joins_queue(
    core: &mut Core,
    key: SessionKey,
    subscription: Subscription<'_>,
) -> bool {
    let is_queue = is_queue(core, key, subscription);
    if is_queue && serve_queue(&mut core.sessions, key, &mut core.pending.log) {
        write_base(core, key);
    }
    is_queue
}

/// A session does not outlive its connection any more. It stays written down if it is a member of a
/// queue. Returns whether it is one.
pub(crate) fn stays_for_queue(core: &mut Core, key: SessionKey) -> bool {
    let is_member = is_queue_member(core, key);
    if let Some(session) = core.sessions.get_mut(key).filter(|_| is_member) {
        served_queue(&mut session.state);
    }
    is_member
}

/// A session that ends with its connection, and that waits for its will alone, gives back what it
/// had of queues. Only its will is written down then.
pub(crate) fn give_back(core: &mut Core, now: Tick, key: SessionKey) {
    let session = core.sessions.get(key);
    if !session.is_some_and(|session| gives_back(&session.state, &core.pending.log)) {
        return;
    }
    if let Some(owed) = leave_queues(&mut core.sessions, key) {
        // What it leaves is written before what was written of it is replaced.
        ending::hand_on(core, now, owed);
        write_base(core, key);
    }
}
