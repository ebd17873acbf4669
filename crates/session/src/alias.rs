//! Topic aliases, in both directions [MQTT-3.3.2.3.4].

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use crate::close::{CloseReason, Limit, Violation};

/// The topic name of a publish.
///
/// A packet of 8 bytes may name a topic of many by its alias. All messages that do so share the
/// name, so that what a client makes the server hold does not exceed by much what it has sent.
#[derive(Clone, Copy, Debug)]
pub enum TopicName<'a> {
    /// As it is in the packet, or anywhere else.
    Written(&'a str),
    /// As it was set with the alias that the packet carries.
    Aliased(&'a Arc<str>),
}

impl TopicName<'_> {
    /// The name for a message: shared where it can be, else copied.
    #[must_use]
    pub fn to_shared(self) -> Arc<str> {
        match self {
            Self::Written(name) => name.into(),
            Self::Aliased(name) => Arc::clone(name),
        }
    }
}

impl Deref for TopicName<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Written(name) => name,
            Self::Aliased(name) => name,
        }
    }
}

/// The aliases that a client has set for its own publishes. Grows with the highest alias used.
#[derive(Debug, Default)]
pub struct ReceivedAliases {
    topics: Vec<Option<Arc<str>>>,
    /// Bytes of the names.
    name_bytes: usize,
}

impl ReceivedAliases {
    /// Bytes of memory that the aliases take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        table_bytes(self.name_bytes, self.topics.len())
    }

    /// The topic of a publish that carries `alias`: sets it when `topic` is not empty, else looks
    /// it up. What is set may come to `bytes_max` bytes, or to as many as there are already.
    ///
    /// # Errors
    /// An alias of 0 or above `maximum` [MQTT-3.3.2-8] [MQTT-3.3.2-9]; one that was never set, for
    /// which section 3.3.2.3.4 names another reason code; or one that exceeds `bytes_max`.
    pub fn resolve<'a>(
        &'a mut self,
        alias: u16,
        topic: &'a str,
        maximum: u16,
        bytes_max: usize,
    ) -> Result<TopicName<'a>, CloseReason> {
        const INVALID: CloseReason = CloseReason::Violation(Violation::TopicAlias);
        const UNKNOWN: CloseReason = CloseReason::Violation(Violation::UnknownAlias);
        if alias == 0 || alias > maximum {
            return Err(INVALID);
        }
        let index = usize::from(alias) - 1;
        if topic.is_empty() {
            let known = self.topics.get(index).and_then(Option::as_ref);
            return known.map(TopicName::Aliased).ok_or(UNKNOWN);
        }
        let before = self.topics.get(index).and_then(Option::as_ref);
        let name_bytes = self.name_bytes - before.map_or(0, |name| name.len()) + topic.len();
        let len = self.topics.len().max(index + 1);
        let bytes = table_bytes(name_bytes, len);
        if bytes > bytes_max.max(self.bytes()) {
            return Err(CloseReason::Limit(Limit::Memory));
        }
        self.topics.resize_with(len, || None);
        let Some(slot) = self.topics.get_mut(index) else {
            return Err(INVALID);
        };
        self.name_bytes = name_bytes;
        Ok(TopicName::Aliased(slot.insert(topic.into())))
    }
}

/// Bytes of memory that a table takes with its places and names.
const fn table_bytes(name_bytes: usize, places: usize) -> usize {
    name_bytes + places * size_of::<Option<Arc<str>>>()
}

/// The aliases that the server has set towards a client: the first topics sent get them, which
/// is right for the common case of few topics, and costs a look-up and nothing else for the rest.
#[derive(Debug)]
pub struct SentAliases {
    maximum: u16,
    packet_bytes_max: usize,
    aliases: BTreeMap<Box<str>, u16>,
    /// Bytes of the names.
    name_bytes: usize,
}

/// How to name the topic of one PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicForm {
    /// The topic alone.
    Plain,
    /// The topic, and the alias that it has from now on.
    Define(u16),
    /// The alias alone.
    Alias(u16),
}

impl SentAliases {
    /// No aliases yet; at most `maximum`, for packets of at most `packet_bytes_max` bytes, as the
    /// client's CONNECT allows.
    #[must_use]
    pub const fn new(maximum: u16, packet_bytes_max: usize) -> Self {
        Self {
            maximum,
            packet_bytes_max,
            aliases: BTreeMap::new(),
            name_bytes: 0,
        }
    }

    /// Bytes of memory that the aliases take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        /// An entry of a tree that is two thirds full.
        const ENTRY: usize = (size_of::<(Box<str>, u16)>() * 3) / 2;
        self.name_bytes + self.aliases.len() * ENTRY
    }

    /// How to name `topic` in the packet that is sent next, which has `wire_len` bytes with the
    /// topic alone. Packets must be sent in the order in which this was asked.
    pub fn form(&mut self, topic: &str, wire_len: usize) -> TopicForm {
        /// The property, and a byte more for each of the two lengths before it.
        const ALIAS_BYTES: usize = 5;
        // A short topic saves nothing, and no packet may grow above what the client takes
        // [MQTT-3.1.2-24].
        if topic.len() < ALIAS_BYTES || wire_len + ALIAS_BYTES > self.packet_bytes_max {
            return TopicForm::Plain;
        }
        if let Some(alias) = self.aliases.get(topic) {
            return TopicForm::Alias(*alias);
        }
        match u16::try_from(self.aliases.len() + 1) {
            Ok(alias) if alias <= self.maximum => {
                self.aliases.insert(topic.into(), alias);
                self.name_bytes += topic.len();
                TopicForm::Define(alias)
            }
            _ => TopicForm::Plain,
        }
    }
}
