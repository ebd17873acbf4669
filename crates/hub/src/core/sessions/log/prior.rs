//! Sessions that were written down before the start of the server, as its shards get them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use stentor_mqtt::{PacketId, RetainHandling, SubscribeOptions};
use stentor_session::{Message, MessageParts, Publisher, Tick, WillRequest};
use stentor_session_log::{
    Body, Name, Origin, OwnedShare, Presence, Restored, RestoredChunk, RestoredDelivery,
    RestoredHeld, RestoredSession, RestoredSubscription, RestoredWill, Target, Unheard,
};
use stentor_topic::{Zone, matches};

use super::SessionLog;
use super::ways::pack;
use crate::core::inbound::subscribe::indexed;
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
    /// Seconds that it outlives its connection; 0 if only its will is left, and what it had of
    /// queues.
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
    /// What it is owed.
    pub deliveries: PriorDeliveries,
    /// Packet ids of messages at QoS 2 that were taken from its client and not released.
    pub arrived: Vec<PacketId>,
    /// Messages that its shard had not taken from other shards, and by which subscriptions it gets
    /// them.
    pub unheard: Vec<(Arc<Message>, Target)>,
    /// What is held back by `conflate` or `max_rate`.
    pub held: Vec<RestoredHeld<Arc<Message>>>,
}

/// What a session was owed when the server ended.
#[derive(Clone, Debug, Default)]
pub struct PriorDeliveries {
    /// How many deliveries it has had.
    pub count: u64,
    /// How many of these may have been sent.
    pub sent: u64,
    /// What it is owed, in order, but for what lies on the disk for backlogs.
    pub owed: Vec<RestoredDelivery<Arc<Message>>>,
    /// What lies there, in order.
    pub spooled: Vec<RestoredChunk>,
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
        match written_ms > now_ms || self.was_never_set(written_ms) {
            true => now_ms,
            false => written_ms,
        }
    }

    /// Whether a time is of a clock that was never set, and the clock is set now.
    fn was_never_set(&self, written_ms: u64) -> bool {
        written_ms < CLOCK_MS_MIN && CLOCK_MS_MIN <= self.ms(self.now)
    }

    /// A time in milliseconds since 1970.
    fn tick(&self, ms: u64) -> Tick {
        Tick::from_millis(ms.saturating_sub(self.zero_ms))
    }

    fn ms(&self, at: Tick) -> u64 {
        self.zero_ms.saturating_add(at.as_micros() / 1_000)
    }
}

/// A message that was written down with this name.
#[must_use]
pub fn prior_message(start: &Start, name: Name, body: &Body<'_>) -> Arc<Message> {
    let message = message(start, body);
    // By whom does not matter: what its shard has sent since has other names.
    if let Some(bits) = pack(0, name) {
        message.written(bits);
    }
    Arc::new(message)
}

fn message(start: &Start, body: &Body<'_>) -> Message {
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
    if let Some(ms) = body.expires_at_ms
        && !start.was_never_set(ms)
    {
        message.expires_at = start.tick(ms);
    }
    message.stamp(body.sequence);
    message
}

/// A message that was on the disk while a client was away.
pub(crate) fn message_of(log: &SessionLog, now: Tick, body: &Body<'_>) -> Arc<Message> {
    let start = Start {
        now,
        zero_ms: log.zero_ms.unwrap_or(0),
        will_grace_secs: 0,
    };
    Arc::new(message(&start, body))
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
    let mut all: Vec<PriorSession> = all.collect();
    let mut homes = Homes::new(&all);
    for unheard in &restored.unheard {
        homes.hand_out(unheard, &mut all);
    }
    all
}

/// A journal: its generation and its shard.
type Home = (u32, u16);

/// The sessions that get messages which shards had not taken. What was found once is remembered.
struct Homes {
    /// The sessions of each journal, by their places.
    sessions: BTreeMap<Home, Vec<usize>>,
    /// The subscribers of topics there.
    subscribers: BTreeMap<(Home, Zone, Box<str>), Vec<usize>>,
    /// The members of shared subscriptions of a generation, in the order of their journals.
    members: BTreeMap<(u32, Zone, OwnedShare), Vec<(u16, usize)>>,
}

impl Homes {
    fn new(all: &[PriorSession]) -> Self {
        let mut homes = Self {
            sessions: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            members: BTreeMap::new(),
        };
        for (at, session) in all.iter().enumerate() {
            let Some(origin) = session.origin else {
                continue;
            };
            let home = (origin.generation, origin.shard);
            homes.sessions.entry(home).or_default().push(at);
            if session.expiry_secs == 0 {
                // It ends at once, and gets nothing any more.
                continue;
            }
            for subscription in &session.subscriptions {
                if let Some(group) = subscription.share.clone() {
                    let filter = subscription.filter.clone();
                    let share = OwnedShare { group, filter };
                    let key = (origin.generation, session.identity.zone, share);
                    homes
                        .members
                        .entry(key)
                        .or_default()
                        .push((origin.shard, at));
                }
            }
        }
        homes
    }

    /// Gives a message that a shard had not taken to those of its sessions that may be owed it.
    fn hand_out(&mut self, unheard: &Unheard<Arc<Message>>, all: &mut [PriorSession]) {
        let message = &unheard.message;
        let route = match &unheard.to {
            Target::Member(share) => return self.hand_to_member(unheard, share, all),
            Target::Subscribers(route) => route.as_deref().unwrap_or_else(|| message.topic()),
        };
        for at in self.subscribers(unheard, route, all) {
            let Some(session) = all.get_mut(*at) else {
                continue;
            };
            let is_served = |it: Origin| unheard.served.sessions.contains(&it);
            if !session.origin.is_some_and(is_served) {
                let its = (Arc::clone(message), unheard.to.clone());
                session.unheard.push(its);
            }
        }
        if unheard.is_own && unheard.to == Target::Subscribers(None) {
            // The shard did not come to all shared subscriptions.
            let (generation, zone) = (unheard.generation, message.zone);
            let shares = self.members.keys().filter(|(of, its, share)| {
                (*of, *its) == (generation, zone)
                    && matches(&share.filter, message.topic())
                    && !unheard.served.shares.contains(share)
            });
            let shares: Vec<OwnedShare> = shares.map(|(.., share)| share.clone()).collect();
            for share in &shares {
                self.hand_to_member(unheard, share, all);
            }
        }
    }

    /// The sessions of a journal that have subscribed to a topic otherwise than by a share.
    fn subscribers(
        &mut self,
        unheard: &Unheard<Arc<Message>>,
        route: &str,
        all: &[PriorSession],
    ) -> &[usize] {
        let (home, zone) = ((unheard.generation, unheard.shard), unheard.message.zone);
        let its = self.sessions.get(&home).map_or(&[][..], |its| its);
        let key = (home, zone, route.into());
        self.subscribers.entry(key).or_insert_with(|| {
            let gets = |session: &PriorSession| {
                let user = session.identity.user.as_deref();
                let mut subscriptions = session.subscriptions.iter();
                session.identity.zone == zone
                    && subscriptions
                        .any(|it| it.share.is_none() && matches(&indexed(user, &it.filter), route))
            };
            let its = its.iter().copied();
            its.filter(|at| all.get(*at).is_some_and(gets)).collect()
        })
    }

    /// Gives a message to one member of a shared subscription: first to one of the shard that was
    /// to have it.
    fn hand_to_member(
        &self,
        unheard: &Unheard<Arc<Message>>,
        share: &OwnedShare,
        all: &mut [PriorSession],
    ) {
        let key = (unheard.generation, unheard.message.zone, share.clone());
        let members = self.members.get(&key).map_or(&[][..], |its| its);
        let own = members.iter().find(|(shard, _)| *shard == unheard.shard);
        if let Some((_, at)) = own.or_else(|| members.first())
            && let Some(session) = all.get_mut(*at)
        {
            let its = (Arc::clone(&unheard.message), Target::Member(share.clone()));
            session.unheard.push(its);
        }
    }
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
        if session.expiry_secs == 0 && session.will.is_none() {
            // What it had of a queue goes back at once.
            until = start.now;
        } else if session.expiry_secs == 0 {
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
            deliveries: PriorDeliveries {
                count: session.next,
                sent: session.sent,
                owed: session.owed,
                spooled: session.spooled,
            },
            arrived: session.arrived,
            unheard: Vec::new(),
            held: session.held,
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
