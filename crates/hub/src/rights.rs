//! Who a client is and what it may do, as the hub needs to know it.

use alloc::sync::Arc;
use core::fmt;

use stentor_session::Tick;
use stentor_topic::Zone;

/// Rights compiled for one login. Asked for every publish: no allocation, no lock.
pub trait Rights: Send + Sync {
    /// Whether `topic` may be published to.
    fn may_publish(&self, topic: &str) -> bool;
    /// Whether `filter` may be subscribed to; without `$share/<group>/`.
    fn may_subscribe(&self, filter: &str) -> bool;
}

/// An authenticated client.
#[derive(Clone)]
pub struct Identity {
    /// The user name; `None` for anonymous.
    pub user: Option<Arc<str>>,
    /// The zone that the user belongs to.
    pub zone: Zone,
    /// What it may do.
    pub rights: Arc<dyn Rights>,
    /// When the connection ends unless the client authenticates again: the end of a token;
    /// [`Tick::NEVER`] for most.
    pub expires_at: Tick,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("user", &self.user)
            .field("zone", &self.zone)
            .finish_non_exhaustive()
    }
}
