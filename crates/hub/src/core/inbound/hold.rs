//! Connections that are not read while something is decided.

use stentor_session::Tick;

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::sessions::registry::Live;

/// Nothing more is read from a session's connection until [`end`].
pub(crate) fn begin(core: &mut Core, key: SessionKey) {
    if let Some(live) = core
        .sessions
        .get_mut(key)
        .and_then(|session| session.live_mut())
    {
        live.extras().held += 1;
    }
}

/// Undoes one [`begin`].
pub(crate) fn end(core: &mut Core, now: Tick, key: SessionKey) {
    let Some(live) = core
        .sessions
        .get_mut(key)
        .and_then(|session| session.live_mut())
    else {
        return;
    };
    // It could not show that it is alive.
    live.last_seen = now;
    let link = live.link;
    let extras = live.extras();
    extras.held = extras.held.saturating_sub(1);
    if extras.held == 0 {
        core.effects.resumed.push(link);
    }
}

/// Whether a session has the connection that it had then.
pub(crate) fn is_still(core: &Core, key: SessionKey, epoch: u32) -> bool {
    let session = core.sessions.get(key);
    session.is_some_and(|session| session.epoch == epoch && session.live().is_some())
}

/// Whether something that a session asked for has to be decided first.
pub(in crate::core) fn is_held(core: &Core, key: SessionKey) -> bool {
    let session = core.sessions.get(key);
    session
        .and_then(|session| session.live())
        .is_some_and(Live::is_held)
}
