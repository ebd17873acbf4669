//! Sessions, as other shards than their own know them.

use alloc::sync::Arc;

use stentor_zone::Seat;

use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::sessions::rights::Identity;

/// Bits of a seat for the slot of a session.
const SLOT_BITS: u32 = 24;

/// A session of a user, as the home of a zone knows it.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    /// The session.
    pub(crate) seat: Seat,
    /// The user and its rights.
    pub(crate) identity: Arc<Identity>,
}

impl Who {
    /// A session of this shard; `None` if no seat has room for its number.
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
            seat: Seat(slot << 32 | u64::from(key.generation)),
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

/// The session that a seat of this shard stands for.
pub(crate) const fn session_of(seat: Seat) -> SessionKey {
    SessionKey {
        slot: (seat.0 >> 32) as u32 & ((1 << SLOT_BITS) - 1),
        generation: seat.0 as u32,
    }
}

/// The shard of a seat.
pub(crate) const fn shard_of(seat: Seat) -> ShardId {
    ShardId((seat.0 >> (32 + SLOT_BITS)) as u8)
}
