//! What a service of one shard sends the same service of another.

#[cfg(any(feature = "presence", feature = "rooms"))]
use alloc::boxed::Box;

#[cfg(feature = "presence")]
use super::presence::PresenceItem;
#[cfg(feature = "private")]
use super::private::PrivateItem;
#[cfg(feature = "rooms")]
use super::rooms::RoomItem;
use crate::items::MeshItem;

/// What a service of one shard sends the same service of another.
#[derive(Clone, Debug)]
pub struct ServiceItem(pub(crate) Item);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    #[cfg(feature = "rooms")]
    Room(Box<RoomItem>),
    #[cfg(feature = "presence")]
    Presence(Box<PresenceItem>),
    #[cfg(feature = "private")]
    Private(PrivateItem),
}

impl ServiceItem {
    /// See [`crate::MeshItem::seal`].
    pub(crate) fn seal(&mut self) {
        #[cfg(feature = "private")]
        if let Item::Private(item) = &mut self.0 {
            item.seal();
        }
    }

    /// The bytes of memory that the item holds beside itself. O(1).
    pub(crate) fn bytes(&self) -> usize {
        match self.0 {
            #[cfg(feature = "rooms")]
            Item::Room(ref item) => item.bytes(),
            #[cfg(feature = "presence")]
            Item::Presence(_) => size_of::<PresenceItem>(),
            #[cfg(feature = "private")]
            Item::Private(ref item) => item.bytes(),
        }
    }
}

impl From<Item> for MeshItem {
    fn from(item: Item) -> Self {
        Self::Service(ServiceItem(item))
    }
}
