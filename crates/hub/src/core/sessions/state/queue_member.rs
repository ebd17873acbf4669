//! What a session is written down for that ends with its connection: it is a member of a queue.

use super::SessionState;
use crate::core::sessions::log::SessionLog;
use stentor_session::Remains;

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
    served_queue(state);
    if is_new {
        state.number = state.number.or_else(|| log.number());
    }
    is_new
}

/// The same for a session that is written down already, or that is about to be
/// [adopted](SessionState::adopted).
pub(in crate::core::sessions) const fn served_queue(state: &mut SessionState) {
    state.serves_queue = true;
}

/// Whether a session without a connection has to leave its queues before it ends, because its will
/// goes on alone.
pub(in crate::core::sessions) fn gives_back(state: &SessionState, log: &SessionLog) -> bool {
    let ends_with_connection = state.serves_queue && !state.is_persistent();
    ends_with_connection && state.will.is_some() && log.keeps_wills()
}

/// It is not written down any more, but for its will. Returns what it was owed. A base has to
/// follow.
pub(in crate::core::sessions) fn leave_queues(state: &mut SessionState) -> Remains {
    state.serves_queue = false;
    state.owed.abandon()
}
