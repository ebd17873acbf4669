//! What crosses shards.
//!
//! What a hub says to other hubs is plain data: messages on their way ([`RoutedItem`]) and what
//! hubs have to know of each other ([`ShardItem`]). Nothing in it borrows from the process or runs
//! code, so it could be written down or go elsewhere. What only this process understands stands
//! apart: what a service sends itself on another shard ([`ServiceItem`]), and what the server and
//! its control plane hand to a hub ([`ControlItem`]).

use alloc::boxed::Box;
use alloc::sync::Arc;

use stentor_session::{Message, Outcome, Ticket};
use stentor_session_log::Name;

use crate::core::ids::{SessionKey, ShardId};
use crate::core::routing::share::{Search, ShareName, count_visits};
use crate::core::sessions::renewal::Renewal;
use crate::services::ServiceItem;
use crate::services::interface::answer::Answer;
use crate::services::interface::broadcast::Broadcast;
use crate::services::interface::calls::Ask;
use crate::services::interface::hooks::{Act, HookVerdict};

/// The connection that a message came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sender {
    /// The shard that has it.
    pub(crate) shard: ShardId,
    /// Its session there.
    pub(crate) session: SessionKey,
    /// Tells it from other connections of the session.
    pub(crate) epoch: u32,
}

/// A message for the shard that orders its topic.
#[derive(Clone, Debug)]
pub struct KeepItem {
    /// The message: neither kept nor routed yet.
    pub(crate) message: Arc<Message>,
    /// The connection that it came by, where it is there still.
    pub(crate) sender: Option<Sender>,
    /// The side that waits to acknowledge it, for a [`ShardItem::Resolved`].
    pub(crate) answer: Option<(ShardId, Ticket)>,
}

/// A message on its way to another shard, and what says where such messages are written down.
#[derive(Clone, Debug)]
pub enum RoutedItem {
    /// A message for the receiving shard's subscribers.
    Publish {
        /// The message.
        message: Arc<Message>,
        /// The connection that it came by, where it is there still.
        sender: Option<Sender>,
        /// Whether the sending shard had written it down when it sent it: see [`MeshItem::seal`].
        is_named: bool,
    },
    /// A message of a topic of which every message is kept, for the shard that orders them.
    Keep(Box<KeepItem>),
    /// The sending shard has written something there, after it has sent messages that it had not
    /// written down.
    Mark {
        /// Where that is.
        name: Name,
    },
    /// A message for one member of a shared subscription on the receiving shard.
    Share {
        /// Which shared subscription.
        name: Arc<ShareName>,
        /// The message.
        message: Arc<Message>,
        /// Where a member was looked for already.
        search: Search,
        /// As in [`RoutedItem::Publish`].
        is_named: bool,
    },
}

/// What one shard sends another through the mesh, first in, first out.
#[derive(Clone, Debug)]
pub enum MeshItem {
    /// A message: plain data.
    Routed(RoutedItem),
    /// A newer connection of the same user takes the place of one of the receiving shard's.
    Replaced {
        /// Which one, as [`crate::Newest`] knows it.
        claim: u64,
    },
    /// Something for a service: the process's own.
    Service(ServiceItem),
}

impl From<RoutedItem> for MeshItem {
    #[inline]
    fn from(item: RoutedItem) -> Self {
        Self::Routed(item)
    }
}

impl RoutedItem {
    fn seal(&mut self) {
        match self {
            Self::Publish {
                message, is_named, ..
            }
            | Self::Share {
                message, is_named, ..
            } => *is_named = message.name().is_some(),
            Self::Mark { .. } | Self::Keep(_) => {}
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Publish { message, .. } | Self::Share { message, .. } => message.shared_bytes(),
            Self::Keep(item) => size_of::<KeepItem>() + item.message.shared_bytes(),
            Self::Mark { .. } => 0,
        }
    }
}

impl MeshItem {
    /// The shard is about to send it, and has said where it has written its message down, by
    /// [`crate::journal::logged`]. What is written down only later does not count for the receiver:
    /// items that were sent in the meantime have older names.
    #[inline]
    pub fn seal(&mut self) {
        match self {
            Self::Routed(item) => item.seal(),
            Self::Service(item) => item.seal(),
            Self::Replaced { .. } => {}
        }
    }

    /// The bytes of memory that the item holds while it is on its way. What other shards or
    /// queues hold too counts in full: this one may be the last to hold it. O(1).
    #[must_use]
    pub fn bytes(&self) -> usize {
        let more = match self {
            Self::Routed(item) => item.bytes(),
            Self::Service(item) => item.bytes(),
            Self::Replaced { .. } => 0,
        };
        size_of::<Self>() + more
    }
}

/// What hubs have to know of each other before they apply what any client sends next: plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardItem {
    /// How many members of a shared subscription a shard holds now.
    ShareCount {
        /// Which shared subscription.
        name: Arc<ShareName>,
        /// Whose members.
        shard: ShardId,
        /// Members with a connection.
        live: u32,
        /// Members whose session waits for them.
        away: u32,
        /// Whether the shard keeps messages that no member takes: the shared subscription is a
        /// queue.
        keeps: bool,
    },
    /// A member of a queue has room for messages that it has kept.
    AskQueue {
        /// Which queue.
        name: Arc<ShareName>,
        /// How many messages.
        messages: u32,
        /// Their bytes together. One message may exceed it.
        bytes: usize,
    },
    /// A queue keeps messages. Members of the receiving shard that have room ask for them.
    OfferQueue(Arc<ShareName>),
    /// There are as many sessions as there may be, and one of this shard gives way to a newcomer's
    /// on another: see [`crate::Event::SessionEvicted`].
    MakeRoom,
    /// What acknowledgements waited for has happened, or will not. Sent to every shard that may
    /// hold some of them; one that holds none ignores it.
    Resolved {
        /// What it was.
        ticket: Ticket,
        /// The answer to their publishers: success, or why there is none.
        outcome: Outcome,
    },
    /// The messages of a session of the receiving shard are expensive to route elsewhere: nothing
    /// more is read from it in the meantime.
    HoldPublisher {
        /// Whose.
        session: SessionKey,
        /// Of which of its connections.
        epoch: u32,
    },
    /// The messages of a session of the receiving shard have cost another shard more than is free.
    ChargePublisher {
        /// Whose.
        session: SessionKey,
        /// How much more.
        visits: u32,
    },
    /// They have been routed there.
    ReleasePublisher {
        /// Whose.
        session: SessionKey,
        /// Of which of its connections.
        epoch: u32,
        /// What they have cost.
        visits: u32,
    },
}

impl ShardItem {
    /// Whether it says that something is done: it waits while that is not written down.
    #[must_use]
    pub const fn is_outcome(&self) -> bool {
        matches!(self, Self::Resolved { .. })
    }

    /// What it costs the receiver at most, in visits, if clients can send it very many of this kind
    /// at once; 0 for those that are rare. O(1).
    #[must_use]
    pub fn visits(&self) -> u32 {
        match self {
            Self::ShareCount { name, .. } => count_visits(name),
            _ => 0,
        }
    }
}

/// What the control plane and the adaptors hand to a service of a shard.
#[derive(Clone, Debug)]
pub enum ServiceCommand {
    /// The control plane answers a call of a session that is here.
    Answer(Arc<Answer>),
    /// A call for a client of this shard, if one serves it: to be told by
    /// [`crate::Callees::served`].
    Ask(Arc<Ask>),
    /// Adaptors have judged something that a client of this shard has asked for.
    Judged {
        /// What the shard knows it by.
        number: u64,
        /// What they say.
        verdict: Arc<HookVerdict>,
    },
    /// An adaptor does something, in a zone whose home is this shard.
    Act(Arc<Act>),
    /// A procedure sends a message to several recipients, for a client of this shard or for a
    /// caller without a connection: to be told by [`crate::Callees::told`].
    Broadcast(Arc<Broadcast>),
}

/// What reaches a hub through its shard's control queue, before anything that is read afterwards.
#[derive(Clone, Debug)]
pub enum ControlItem {
    /// From the hub of another shard: plain data.
    Shard(ShardItem),
    /// For a service: the process's own.
    Service(ServiceCommand),
    /// Rights have changed: sessions with and without a connection follow within a few turns.
    Renew(Arc<dyn Renewal>),
    /// The server itself publishes: `$SYS` topics, commands.
    Publish(Arc<Message>),
    /// Memory is short, and the server frees this many bytes: see [`crate::Operate::relieve`].
    Relieve {
        /// How many.
        bytes: u64,
    },
    /// Far more memory is occupied than is held: see [`crate::Operate::unpin`].
    Unpin,
}

impl From<ShardItem> for ControlItem {
    fn from(item: ShardItem) -> Self {
        Self::Shard(item)
    }
}

impl From<ServiceCommand> for ControlItem {
    fn from(command: ServiceCommand) -> Self {
        Self::Service(command)
    }
}

#[cfg(test)]
mod tests {
    use stentor_mqtt::QoS;
    use stentor_session::Tick;
    use stentor_topic::Zone;

    use super::*;

    /// Values without code or borrows, down to the leaves.
    trait Plain {}
    impl Plain for Sender {}
    impl Plain for Name {}
    impl Plain for ShardId {}
    impl Plain for Ticket {}
    impl Plain for ShareName {}
    impl Plain for Search {}
    impl Plain for bool {}
    impl Plain for u64 {}
    impl Plain for QoS {}
    impl Plain for Tick {}
    impl Plain for Zone {}
    impl Plain for str {}
    impl Plain for Message {}
    impl<T: Plain> Plain for Option<T> {}
    impl<T: Plain, U: Plain> Plain for (T, U) {}
    impl<T: Plain + ?Sized> Plain for Arc<T> {}

    const fn plain<T: Plain>(_: &T) {}

    /// Compiles only while nothing else is in a message on its way. Of [`ShardItem`], `Eq` says it.
    #[test]
    fn what_is_routed_is_plain_data() {
        let item = RoutedItem::Mark {
            name: Name { file: 1, offset: 2 },
        };
        match &item {
            RoutedItem::Publish {
                message,
                sender,
                is_named,
            } => {
                plain(message);
                plain(sender);
                plain(is_named);
            }
            RoutedItem::Keep(item) => {
                let KeepItem {
                    message,
                    sender,
                    answer,
                } = &**item;
                plain(message);
                plain(sender);
                plain(answer);
            }
            RoutedItem::Mark { name } => plain(name),
            RoutedItem::Share {
                name,
                message,
                search,
                is_named,
            } => {
                plain(name);
                plain(message);
                plain(search);
                plain(is_named);
            }
        }
        assert_eq!(item.bytes(), 0);
    }

    /// An item lies in a ring between shards, and is copied there once for each message.
    #[test]
    fn an_item_is_small() {
        assert!(size_of::<MeshItem>() <= 48, "{}", size_of::<MeshItem>());
        assert!(
            size_of::<ControlItem>() <= 40,
            "{}",
            size_of::<ControlItem>()
        );
    }
}
