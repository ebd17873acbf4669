//! What stands around the core: each service owns its state, and uses what the core offers.

pub(crate) mod calls;
pub(crate) mod hooks;
pub(crate) mod interface;
pub(crate) mod presence;
pub(crate) mod private;
pub(crate) mod rooms;
pub(crate) mod serving;

use alloc::boxed::Box;
use alloc::sync::Arc;

use self::calls::CallService;
use self::interface::calls::Callees;
use self::interface::hooks::Adaptors;
use self::presence::{PresenceItem, PresenceService};
use self::private::{PrivateItem, PrivateService};
use self::rooms::RoomItem;
use self::serving::ServingService;
use crate::effects::MeshItem;
use crate::services::hooks::HookService;
use crate::services::rooms::RoomService;

/// All of them. None knows the others: what one wants of another goes through the hub.
pub(crate) struct Services {
    pub(crate) rooms: RoomService,
    pub(crate) presence: PresenceService,
    pub(crate) private: PrivateService,
    pub(crate) calls: CallService,
    pub(crate) serving: ServingService,
    pub(crate) hooks: HookService,
}

impl Services {
    pub(crate) fn new(
        callees: Option<Arc<dyn Callees>>,
        adaptors: Option<Arc<dyn Adaptors>>,
    ) -> Self {
        let mut rooms = RoomService::default();
        rooms.has_adaptors = adaptors.is_some();
        Self {
            rooms,
            presence: PresenceService::default(),
            private: PrivateService::default(),
            calls: CallService::new(callees.clone()),
            serving: ServingService::new(callees),
            hooks: HookService::new(adaptors),
        }
    }

    /// Whether one wants something of another.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        !self.rooms.requests.is_empty()
            || !self.hooks.requests.is_empty()
            || !self.private.told.is_empty()
    }

    /// Other adaptors judge what is done from now on, or none.
    pub(crate) fn set_adaptors(&mut self, adaptors: Option<Arc<dyn Adaptors>>) {
        self.rooms.has_adaptors = adaptors.is_some();
        self.hooks.adaptors = adaptors;
    }
}

/// What a service of one shard sends the same service of another.
#[derive(Clone, Debug)]
pub struct ServiceItem(pub(crate) Item);

impl ServiceItem {
    /// See [`crate::MeshItem::seal`].
    pub(crate) fn seal(&mut self) {
        if let Item::Private(item) = &mut self.0 {
            item.seal();
        }
    }
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Room(Box<RoomItem>),
    Presence(Box<PresenceItem>),
    Private(PrivateItem),
}

impl ServiceItem {
    /// The bytes of memory that the item holds beside itself. O(1).
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Item::Room(item) => item.bytes(),
            Item::Presence(_) => size_of::<PresenceItem>(),
            Item::Private(item) => item.bytes(),
        }
    }
}

impl From<Item> for MeshItem {
    fn from(item: Item) -> Self {
        Self::Service(ServiceItem(item))
    }
}
