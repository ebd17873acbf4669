//! What of a session outlives its connection.
//!
//! The fields are private to this module and its parts. They change by methods that return what has
//! changed, so every change of what a session has to remember passes through here.
//!
//! What few sessions have stands elsewhere, so that the others need no room for it: messages that
//! are held back, unfinished snapshots and rooms. [`Session::attach`] and the end of a connection
//! move them between [`Extras`] and [`Away`].
//!
//! [`Session::attach`]: crate::core::sessions::registry::Session::attach
//! [`Extras`]: crate::core::sessions::registry::Extras
//! [`Away`]: crate::core::sessions::registry::Away

mod arrivals;
mod owed;
mod subscriptions;

pub(crate) use arrivals::Arrivals;
pub(crate) use owed::Owed;
pub(crate) use subscriptions::{Grant, Subscribed, Subscriptions};

use alloc::boxed::Box;
use alloc::sync::Arc;

use stentor_mqtt::QoS;
use stentor_session::{CloseReason, Publisher, Remains, Tick, WillRequest};
use stentor_topic::Zone;

use crate::core::sessions::quota::Quotas;
use crate::core::sessions::rights::{Access, Identity};
use crate::core::settings::Settings;
use crate::core::transitions::DueWill;

/// What of a session outlives its connection: whose it is, for how long it lasts, what it has
/// subscribed to, the messages above QoS 0 in both directions, and its will.
#[derive(Debug)]
pub(crate) struct SessionState {
    identity: Arc<Identity>,
    client_id: Box<str>,
    /// The client, in the messages that it publishes.
    publisher: Publisher,
    /// Seconds that it outlives its connection.
    expiry_secs: u32,
    /// Bytes that may wait for the client, by its quota; `u32::MAX` for none of its own.
    queue_bytes: u32,
    will: Option<Box<WillRequest>>,
    pub(crate) subscriptions: Subscriptions,
    /// The messages above QoS 0 to the client.
    pub(crate) owed: Owed,
    /// Those from the client.
    pub(crate) arrivals: Arrivals,
}

/// How long a session waits for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    /// When the session ends; `NEVER` for never.
    pub(crate) until: Tick,
    /// When its will is due; `NEVER` if it has none.
    pub(crate) will_at: Tick,
}

/// What a session leaves when it ends, besides its subscriptions.
#[derive(Debug)]
pub(crate) struct Legacy {
    /// What it was owed.
    pub(crate) owed: Remains,
    pub(crate) will: Option<Box<DueWill>>,
}

impl SessionState {
    /// Nothing is subscribed, and nothing is owed.
    pub(crate) fn new(identity: Arc<Identity>, client_id: &str, expiry_secs: u32) -> Self {
        Self {
            identity,
            client_id: client_id.into(),
            publisher: Publisher::client(client_id),
            expiry_secs,
            queue_bytes: u32::MAX,
            will: None,
            subscriptions: Subscriptions::default(),
            owed: Owed::default(),
            arrivals: Arrivals::default(),
        }
    }

    /// The session ends: nothing stays of it but its subscriptions.
    pub(in crate::core::sessions) fn end(&mut self) -> Legacy {
        self.subscriptions.permit_all();
        self.arrivals = Arrivals::default();
        Legacy {
            owed: self.owed.abandon(),
            will: self.take_will(),
        }
    }

    #[inline]
    pub(crate) const fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    #[inline]
    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    #[inline]
    pub(crate) const fn publisher(&self) -> Publisher {
        self.publisher
    }

    #[inline]
    pub(crate) fn zone(&self) -> Zone {
        self.identity.zone
    }

    /// The user's name; `None` for a client without one.
    pub(crate) fn user(&self) -> Option<&str> {
        self.identity.user.as_deref()
    }

    /// Gives the session another identity. Returns the one before.
    pub(crate) const fn adopt(&mut self, identity: Arc<Identity>) -> Arc<Identity> {
        core::mem::replace(&mut self.identity, identity)
    }

    /// Seconds that it outlives its connection; `u32::MAX` for ever.
    pub(crate) const fn expiry_secs(&self) -> u32 {
        self.expiry_secs
    }

    /// Whether it outlives its connection.
    #[inline]
    pub(crate) const fn is_persistent(&self) -> bool {
        self.expiry_secs > 0
    }

    /// Sets how long it outlives its connection, in seconds. Returns what held before. Only
    /// [`Sessions::set_expiry`] calls it, which counts the sessions that outlive theirs.
    ///
    /// [`Sessions::set_expiry`]: crate::core::sessions::registry::Sessions::set_expiry
    pub(in crate::core::sessions) const fn set_expiry(&mut self, secs: u32) -> u32 {
        core::mem::replace(&mut self.expiry_secs, secs)
    }

    /// Applies the quotas of its identity, and returns them.
    pub(crate) fn apply_quotas(&mut self) -> Quotas {
        let quotas = self.identity.rights.quotas();
        // Nobody waits for 4 GiB.
        let queue_bytes = quotas.queued_bytes.map(u32::try_from);
        self.queue_bytes = queue_bytes.and_then(Result::ok).unwrap_or(u32::MAX);
        quotas
    }

    /// Bytes that may wait for the client.
    #[inline]
    pub(crate) fn queue_bytes_max(&self, settings: &Settings) -> usize {
        match self.queue_bytes {
            u32::MAX => settings.queue_bytes_max,
            own => settings.queue_bytes_max.min(own as usize),
        }
    }

    /// The same for messages of one QoS.
    #[inline]
    pub(crate) fn queue_bytes_max_at(&self, qos: QoS, settings: &Settings) -> usize {
        let most = self.queue_bytes_max(settings);
        match qos {
            QoS::AtMostOnce => most.min(settings.qos0_bytes_max),
            QoS::AtLeastOnce | QoS::ExactlyOnce => most,
        }
    }

    /// Whether a message may be delivered. Costs nothing while all subscriptions are permitted in
    /// full.
    #[inline]
    pub(crate) fn may_receive(&self, topic: &str) -> bool {
        !self.subscriptions.are_filtered() || self.identity.rights.may_receive(topic)
    }

    /// The subscription to this filter goes: it is not among the filtered ones any more, if it was.
    pub(crate) fn forget_filtered(&mut self, filter: &str) {
        let rights = &self.identity.rights;
        self.subscriptions
            .forget_filtered(|| rights.may_subscribe(filter) != Access::All);
    }

    pub(crate) fn will(&self) -> Option<&WillRequest> {
        self.will.as_deref()
    }

    /// A connection begins, with this will or without one.
    pub(crate) fn attached(&mut self, will: Option<Box<WillRequest>>) {
        self.will = will;
    }

    /// The connection is gone. Returns for how long the session waits for its client.
    pub(crate) fn detached(&mut self, now: Tick, reason: CloseReason) -> Absence {
        if reason.drops_will() {
            self.drop_will();
        }
        self.owed.disconnected();
        self.arrivals.disconnected();
        let until = match self.expiry_secs {
            u32::MAX => Tick::NEVER,
            secs => now.after_secs(secs),
        };
        let delay = self.will.as_ref().map(|will| will.delay_secs);
        let will_at = delay.map_or(Tick::NEVER, |secs| now.after_secs(secs).min(until));
        Absence { until, will_at }
    }

    /// Its will is not to be published.
    pub(crate) fn drop_will(&mut self) {
        self.will = None;
    }

    /// The time of its will has come, if it has one.
    pub(crate) fn take_will(&mut self) -> Option<Box<DueWill>> {
        let will = self.will.take()?;
        Some(Box::new(DueWill {
            identity: Arc::clone(&self.identity),
            client_id: self.client_id.clone(),
            will,
        }))
    }
}
