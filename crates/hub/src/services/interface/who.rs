//! Sessions, as other shards than their own know them.

use alloc::sync::Arc;

use stentor_zone::SessionId;

use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::sessions::rights::Identity;

/// Bits of the number of a session for its slot.
const SLOT_BITS: u32 = 24;

/// A session of a user, as the home of a zone knows it.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    /// The session.
    pub(crate) session: SessionId,
    /// The user and its rights.
    pub(crate) identity: Arc<Identity>,
}

impl Who {
    /// A session of this shard; `None` if its number does not fit.
    pub(crate) fn of(core: &Core, key: SessionKey) -> Option<Self> {
        Self::new(core, key, core.session(key)?.state.identity())
    }

    /// The same of a session that may have ended.
    pub(crate) fn new(core: &Core, key: SessionKey, identity: &Arc<Identity>) -> Option<Self> {
        if key.slot >> SLOT_BITS != 0 {
            return None;
        }
        let slot = u64::from(core.shard().0) << SLOT_BITS | u64::from(key.slot);
        Some(Self {
            session: SessionId(slot << 32 | u64::from(key.generation)),
            identity: Arc::clone(identity),
        })
    }

    /// A session of this shard, and the home of its zone.
    pub(crate) fn and_home(core: &Core, key: SessionKey) -> Option<(Self, ShardId)> {
        let who = Self::of(core, key)?;
        let home = core.home_of(who.identity.zone);
        Some((who, home))
    }

    /// The user's name; empty if it has none, and then it is not a member.
    pub(crate) fn user(&self) -> &str {
        self.identity.user.as_deref().unwrap_or_default()
    }
}

/// The session of this shard that has this number in its zone.
pub(crate) const fn session_of(session: SessionId) -> SessionKey {
    SessionKey {
        slot: (session.0 >> 32) as u32 & ((1 << SLOT_BITS) - 1),
        generation: session.0 as u32,
    }
}

/// The shard of a session.
pub(crate) const fn shard_of(session: SessionId) -> ShardId {
    ShardId((session.0 >> (32 + SLOT_BITS)) as u8)
}
