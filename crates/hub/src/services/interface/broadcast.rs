//! One message for many recipients, sent by a procedure by the rights of its caller.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::QoS;
use stentor_topic::Zone;
use stentor_zone::Response;

use crate::core::ids::SessionKey;
use crate::core::sessions::quota::Quotas;
use crate::core::sessions::rights::{Access, Identity};
use crate::services::interface::calls::Call;

/// The caller of a procedure, as the sender of a broadcast.
#[derive(Clone, Debug)]
pub struct Origin {
    pub(crate) identity: Arc<Identity>,
    pub(crate) client_id: Box<str>,
    /// The session that made the call, on the shard that the broadcast goes to.
    pub(crate) session: Option<SessionKey>,
}

impl Origin {
    /// A caller that has no session, and so no client id.
    #[must_use]
    pub fn without_session(identity: Arc<Identity>) -> Self {
        Self {
            identity,
            client_id: Box::default(),
            session: None,
        }
    }

    /// The client that has made a call. Its broadcasts go to the shard that its answer goes to, so
    /// that it pays for what they cost.
    #[must_use]
    pub fn of_call(call: &Call) -> Self {
        Self {
            identity: Arc::clone(&call.identity),
            client_id: call.client_id.clone(),
            session: Some(call.return_to.session),
        }
    }

    /// Its zone.
    #[must_use]
    pub fn zone(&self) -> Zone {
        self.identity.zone
    }

    /// The name of its user; `None` for anonymous.
    #[must_use]
    pub fn user(&self) -> Option<&Arc<str>> {
        self.identity.user.as_ref()
    }

    /// Whether it may subscribe to a topic.
    #[must_use]
    pub fn may_subscribe(&self, topic: &str) -> bool {
        self.identity.rights.may_subscribe(topic) == Access::All
    }

    /// How much it may publish.
    #[must_use]
    pub fn quotas(&self) -> Quotas {
        self.identity.rights.quotas()
    }
}

/// One of those who receive a broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A user of the caller's zone, who gets a private message.
    User(Box<str>),
    /// A topic without `$` at its beginning.
    Topic(Box<str>),
}

/// One message for several recipients.
///
/// [`crate::Callees::told`] receives the fate of each once, except where adaptors or other shards
/// do not answer. A shard sends to all of them in one turn, so there should be few in each.
#[derive(Debug)]
pub struct Broadcast {
    /// What the control plane knows it by.
    pub number: u64,
    /// By whose rights.
    pub origin: Origin,
    /// To whom, in this order.
    pub recipients: Vec<Recipient>,
    /// The payload.
    pub payload: Arc<[u8]>,
    /// The QoS.
    pub qos: QoS,
}

/// One recipient of a broadcast, by its place.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) broadcast: Arc<Broadcast>,
    pub(crate) place: usize,
}

impl Part {
    /// The one to whom it goes.
    pub(crate) fn recipient(&self) -> Option<&Recipient> {
        self.broadcast.recipients.get(self.place)
    }
}

/// What has become of a message for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was published.
    Published,
    /// What became of a private message.
    Private(Response),
    /// It is not sent.
    Refused {
        /// A word for machines.
        status: &'static str,
        /// Why, for people.
        text: Cow<'static, str>,
    },
}

impl Fate {
    /// It is not sent, because of the caller's rights.
    pub(crate) const fn not_allowed(text: &'static str) -> Self {
        Self::Refused {
            status: "not-allowed",
            text: Cow::Borrowed(text),
        }
    }

    /// It is not sent, because it cannot be.
    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused {
            status: "invalid",
            text: text.into(),
        }
    }
}
