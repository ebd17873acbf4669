//! What stands around the core: each service owns its state, and uses what the core offers.
//!
//! Each is a feature of the crate. What the hub and the services want of a service goes through
//! [`Services`], where a service that is left out takes nothing.

#[cfg(feature = "calls")]
pub(crate) mod calls;
mod dispatch;
#[cfg(feature = "hooks")]
pub(crate) mod hooks;
pub(crate) mod interface;
mod item;
#[cfg(feature = "presence")]
pub(crate) mod presence;
#[cfg(feature = "private")]
pub(crate) mod private;
#[cfg(feature = "rooms")]
pub(crate) mod rooms;
#[cfg(feature = "serving")]
pub(crate) mod serving;
mod topics;

pub(crate) use self::item::Item;
pub use self::item::ServiceItem;

use alloc::sync::Arc;

#[cfg(feature = "calls")]
use self::calls::CallService;
#[cfg(feature = "hooks")]
use self::hooks::HookService;
use self::interface::calls::Callees;
use self::interface::hooks::Adaptors;
#[cfg(feature = "presence")]
use self::presence::PresenceService;
#[cfg(feature = "private")]
use self::private::PrivateService;
#[cfg(feature = "rooms")]
use self::rooms::RoomService;
#[cfg(feature = "serving")]
use self::serving::ServingService;

/// All of them. None knows the others: what one wants of another goes through here.
#[derive(Default)]
pub(crate) struct Services {
    #[cfg(feature = "rooms")]
    pub(crate) rooms: RoomService,
    #[cfg(feature = "presence")]
    presence: PresenceService,
    #[cfg(feature = "private")]
    private: PrivateService,
    #[cfg(feature = "calls")]
    calls: CallService,
    #[cfg(feature = "serving")]
    serving: ServingService,
    #[cfg(feature = "hooks")]
    pub(crate) hooks: HookService,
}

impl Services {
    pub(crate) fn new(
        callees: Option<Arc<dyn Callees>>,
        adaptors: Option<Arc<dyn Adaptors>>,
    ) -> Self {
        let mut services = Self {
            #[cfg(feature = "calls")]
            calls: CallService::new(callees.clone()),
            #[cfg(feature = "serving")]
            serving: ServingService::new(callees),
            ..Self::default()
        };
        services.set_adaptors(adaptors);
        services
    }

    /// Other adaptors judge what is done from now on, or none.
    pub(crate) fn set_adaptors(&mut self, adaptors: Option<Arc<dyn Adaptors>>) {
        #[cfg(feature = "rooms")]
        self.rooms.requests_mut().set_watched(adaptors.is_some());
        #[cfg(feature = "hooks")]
        self.hooks.set_adaptors(adaptors);
    }
}
