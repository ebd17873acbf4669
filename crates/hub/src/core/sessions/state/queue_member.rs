//! A session that is a member of a queue is written down, though it ends with its connection: what
//! it has of the queue and did not acknowledge goes back there, also after a kill.

use super::SessionState;
use crate::core::sessions::log::SessionLog;

/// Whether all that a session remembers is written down, where anything is.
#[inline]
pub(in crate::core::sessions) const fn is_written(state: &SessionState) -> bool {
    state.is_persistent() || state.serves_queue
}

/// From now on all of a session is written down until it ends. A base has to follow. Returns
/// whether that is new.
pub(in crate::core::sessions) fn serve_queue(
    state: &mut SessionState,
    log: &mut SessionLog,
) -> bool {
    let is_new = !is_written(state);
    if is_new {
        served_queue(state);
        state.number = state.number.or_else(|| log.number());
    }
    is_new
}

/// The same for a session of an earlier start, before it is [adopted](SessionState::adopted).
pub(in crate::core::sessions) const fn served_queue(state: &mut SessionState) {
    state.serves_queue = !state.is_persistent();
}
