//! What a procedure may do on the server itself, by the rights of its caller.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Publishes and reads in the name of the caller of a procedure.
pub trait Outlet: fmt::Debug + Send + Sync {
    /// Sends a message to each of its recipients as if the caller had published to it, and waits
    /// until `end` for what becomes of that. Those that are missing in the answer, at its end or
    /// by `None`, may have it or not.
    ///
    /// # Errors
    /// Why nothing was sent.
    fn send(&self, parcel: Parcel, end: Instant) -> Result<Vec<Option<Sent>>, Unsent>;

    /// Reads messages of a topic's history, if the caller may subscribe to it now: a JSON object.
    /// Waits for the disk if it has to.
    ///
    /// # Errors
    /// Why nothing is read.
    fn history(&self, question: &Question) -> Result<Vec<u8>, Unread> {
        Err(Unread::Denied(question.topic.clone()))
    }
}

/// Which messages of a topic's history somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The topic, as the caller has it.
    pub topic: String,
    /// `last:N`, `since:TIME` or `after:NUMBER`; `None` for all of them.
    pub ask: Option<String>,
    /// At most this many, the oldest ones.
    pub limit: u32,
}

/// Why nothing of a history is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// The caller may not subscribe to the topic.
    #[error("this user has no right to subscribe to {0:?}")]
    Denied(String),
    /// The question makes no sense.
    #[error("{0}")]
    Nonsense(String),
    /// The server ends.
    #[error("the server is stopping")]
    Stopping,
}

/// One message for many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Its recipients, in this order.
    pub recipients: Vec<Recipient>,
    /// The payload.
    pub payload: Arc<[u8]>,
    /// The QoS: 0, 1 or 2.
    pub qos: u8,
}

/// One of those who receive a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipient {
    /// A user of the caller's zone, who gets a private message.
    User(String),
    /// A topic of that zone.
    Topic(String),
}

/// What has become of a message for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way, or waits for who is away.
    Taken,
    /// A private message that nobody listens to.
    Unheard(String),
    /// It is not sent.
    Refused {
        /// A word for machines.
        status: String,
        /// Why, for people.
        text: String,
    },
}

/// Why nothing was sent at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The caller has published more than its roles permit, and has to wait.
    #[error(
        "the last broadcast was as much as this user's roles permit for longer \
         (messages_per_sec, bytes_per_sec); try again in {} s",
        .0.as_secs() + 1
    )]
    TooFast(Duration),
    /// More broadcasts are under way than the server keeps track of.
    #[error("the server keeps track of no more broadcasts; try again")]
    Busy,
    /// The server ends.
    #[error("the server is stopping")]
    Stopping,
}
