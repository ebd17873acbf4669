//! Topic names, topic filters and the matching index of a shard.
//!
//! - [`validate_name`], [`validate_filter`] and [`Subscription::parse`] apply MQTT's rules for
//!   topics (section 4.7 of both specifications, and 4.8.2 of version 5 for shared subscriptions).
//! - [`matches()`] compares one filter with one name, without any state: for policies and as the
//!   reference that the index is tested against.
//! - [`TopicHasher`] gives the hash that the index, the interest table and other shards agree on.
//! - [`Index`] holds a shard's subscriptions and calls back with those that match a published name.
//!
//! Everything is keyed by [`Zone`] first: equal text in two zones is two different topics.
//!
//! The functions expect validated text: they never panic on other text, but what they answer for it
//! is unspecified. See the README beside this crate for how the index is laid out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod cost;
mod hash;
mod index;
mod matching;
mod name;
mod slots;
mod subscribers;
mod subscription;
mod table;
mod trie;
mod walk;
mod word;

pub use cost::{filter_cost, wildcards};
pub use hash::TopicHasher;
pub use index::{Filter, FilterId, Index, Inserted, Removed};
pub use matching::{has_wildcard, levels, literal_prefix, matches, matches_levels, split_levels};
pub use name::{FilterError, NameError, TOPIC_BYTES_MAX, validate_filter, validate_name};
pub use slots::Slots;
pub use subscribers::Subscriber;
pub use subscription::{Subscription, asks_for_queue, is_shared};
pub use table::TagTable;
pub use walk::{Matched, Walk};

/// The number of an isolated application; topics of different zones never meet.
///
/// Zone 0, the default, is the only one until zones are configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone(pub u32);

impl Zone {
    /// The zone of logins that name none.
    pub const DEFAULT: Self = Self(0);

    /// The zone's number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}
