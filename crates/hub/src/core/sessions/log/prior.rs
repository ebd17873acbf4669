//! Sessions that were written down before the start of the server, as its shards get them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use stentor_mqtt::{RetainHandling, SubscribeOptions};
use stentor_session::{Message, MessageParts, Publisher, Tick, WillRequest};
use stentor_session_log::{
    Body, Origin, Presence, Restored, RestoredSession, RestoredSubscription, RestoredWill,
};
use stentor_topic::Zone;

use crate::core::memory::Tenants;
use crate::core::sessions::rights::Identity;

/// When the server starts.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The time of the start.
    pub now: Tick,
    /// [`Tick::ZERO`] in milliseconds since 1970, as in [`crate::Shared::sessions_zero_ms`].
    pub zero_ms: u64,
    /// Seconds in which clients may come back before their wills are published.
    pub will_grace_secs: u32,
}

/// A session as it was when the server ended. Its client is away.
///
/// The hub of its home goes on with it: see [`PriorSession::restore`].
#[derive(Debug)]
pub struct PriorSession {
    /// The client. Its rights hold until it is back.
    pub identity: Arc<Identity>,
    /// Those that it is counted for; `None` for nobody.
    pub tenants: Option<Tenants>,
    /// Its client id.
    pub client_id: Box<str>,
    /// Where its records are; `None` if there are none. Then it is written down whole.
    pub origin: Option<Origin>,
    /// Seconds that it outlives its connection; 0 if only its will is left.
    pub expiry_secs: u32,
    /// Since when its client is away, in milliseconds since 1970.
    pub since_ms: u64,
    /// When it ends; [`Tick::NEVER`] for never. One that has expired ends at the next call of
    /// [`crate::Hub::advance`].
    pub until: Tick,
    /// The will of its last connection.
    pub will: Option<Box<WillRequest>>,
    /// When that is due: some time after the start, so that its client can be back before.
    pub will_at: Tick,
    /// What it has subscribed to.
    pub subscriptions: Vec<PriorSubscription>,
}

/// A subscription of a session as it was when the server ended.
#[derive(Clone, Debug)]
pub struct PriorSubscription {
    /// The group of a shared one.
    pub share: Option<Box<str>>,
    /// The filter, without `$share/` and the group.
    pub filter: Box<str>,
    /// The options that were granted.
    pub options: SubscribeOptions,
    /// The subscription identifier.
    pub id: Option<u32>,
    /// The least time between two messages of a topic that it asks for.
    pub interval: Option<Duration>,
    /// Whether stored messages are still to be sent: all of them are, from the first one on.
    pub snapshot: bool,
    /// Whether it is below a room. The session asks for it again when its client is back.
    pub room: bool,
}

/// The year 2020 in milliseconds since 1970. A clock that says an earlier time was never set.
const CLOCK_MS_MIN: u64 = 1_577_836_800_000;

impl Start {
    /// Since when a session is away. If the clock was wrong then, or is now, nobody knows how long
    /// the server was down: the absence goes on from now.
    fn since_ms(&self, written_ms: u64) -> u64 {
        let now_ms = self.ms(self.now);
        let was_never_set = written_ms < CLOCK_MS_MIN && CLOCK_MS_MIN <= now_ms;
        match written_ms > now_ms || was_never_set {
            true => now_ms,
            false => written_ms,
        }
    }

    /// A time in milliseconds since 1970.
    fn tick(&self, ms: u64) -> Tick {
        Tick::from_millis(ms.saturating_sub(self.zero_ms))
    }

    fn ms(&self, at: Tick) -> u64 {
        self.zero_ms.saturating_add(at.as_micros() / 1_000)
    }
}

/// A message that was written down.
#[must_use]
pub fn prior_message(start: &Start, body: &Body<'_>) -> Arc<Message> {
    let parts = MessageParts {
        topic: body.topic,
        properties: body.properties,
        payload: body.payload,
        qos: body.qos,
        retain: body.retain,
        expiry_secs: None,
    };
    let publisher = Publisher::from_bits(body.publisher);
    let mut message = Message::new(Zone(body.zone), publisher, start.now, &parts);
    if let Some(ms) = body.expires_at_ms {
        message.expires_at = start.tick(ms);
    }
    message.stamp(body.sequence);
    Arc::new(message)
}

/// A session as its journal tells it.
pub type WrittenSession = RestoredSession<Arc<Message>>;

/// The client of a session with its rights, and those that the session is counted for.
pub type Owner = (Arc<Identity>, Option<Tenants>);

/// What the journals tell, as the shards get it: see [`PriorSession::restore`].
///
/// `identify` gives each session its owner, by the user, the guest mark, the roles and the quotas
/// that were written down. Without an owner, the session does not go on.
pub fn prior_sessions(
    restored: Restored<Arc<Message>>,
    start: &Start,
    mut identify: impl FnMut(&WrittenSession) -> Option<Owner>,
) -> Vec<PriorSession> {
    let sessions = restored.sessions.into_iter();
    let all = sessions.filter_map(|session| {
        let whose = identify(&session)?;
        Some(PriorSession::new(session, start, whose))
    });
    all.collect()
}

impl PriorSession {
    fn new(session: WrittenSession, start: &Start, (identity, tenants): Owner) -> Self {
        let grace = start.now.after_secs(start.will_grace_secs);
        let delay_secs = session.will.as_ref().map_or(0, |will| will.delay_secs);
        let (since_ms, mut until, will_at) = match session.presence {
            Presence::Away {
                since_ms,
                until_ms,
                will_at_ms,
            } => {
                let since = start.since_ms(since_ms);
                let at = |ms: u64| start.tick(since.saturating_add(ms.saturating_sub(since_ms)));
                // A server that stops puts wills off. Their delays go on.
                let delayed_ms = since_ms.saturating_add(u64::from(delay_secs) * 1_000);
                (
                    since,
                    until_ms.map_or(Tick::NEVER, at),
                    at(will_at_ms.unwrap_or(delayed_ms)),
                )
            }
            // Its absence begins now.
            Presence::Here => {
                let until = match session.expiry_secs {
                    u32::MAX => Tick::NEVER,
                    secs => start.now.after_secs(secs),
                };
                (start.ms(start.now), until, start.now.after_secs(delay_secs))
            }
        };
        let mut will_at = will_at.max(grace);
        if session.expiry_secs == 0 {
            // It ends with its will.
            (until, will_at) = (grace, grace);
        } else if session.will.is_some() {
            // Its end publishes the will.
            until = until.max(grace);
        }
        Self {
            identity,
            tenants,
            client_id: session.client_id,
            origin: Some(session.origin),
            expiry_secs: session.expiry_secs,
            since_ms,
            until,
            will: session.will.map(|will| Box::new(will_of(will))),
            will_at: will_at.min(until),
            subscriptions: session.subscriptions.into_iter().map(Into::into).collect(),
        }
    }
}

fn will_of(will: RestoredWill) -> WillRequest {
    WillRequest {
        topic: will.topic.into(),
        payload: will.payload,
        properties: will.properties,
        qos: will.qos,
        retain: will.retain,
        delay_secs: will.delay_secs,
        expiry_secs: will.expiry_secs,
    }
}

impl From<RestoredSubscription> for PriorSubscription {
    fn from(of: RestoredSubscription) -> Self {
        Self {
            share: of.group,
            filter: of.filter,
            options: SubscribeOptions {
                qos: of.qos,
                no_local: of.no_local,
                retain_as_published: of.retain_as_published,
                retain_handling: RetainHandling::Send,
            },
            id: of.identifier,
            interval: Some(Duration::from_micros(of.interval_micros)).filter(|it| !it.is_zero()),
            snapshot: of.snapshot,
            room: of.room,
        }
    }
}
