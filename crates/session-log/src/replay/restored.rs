//! What a server finds at its start.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;

use stentor_mqtt::{PacketId, QoS};

use super::remains::LostSession;
use super::rooms::RestoredRoom;
use crate::list::Identifier;
use crate::message::Terms;
use crate::name::Name;
use crate::record::DecodeError;
use crate::session::{Away, Filter, Origin, Quotas, Share, Subscription, Will};
use crate::spooled::Place;

/// Everything that the journals tell. `M` is a message, as the caller has made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored<M> {
    /// The sessions, in the order of their origins.
    pub sessions: Vec<RestoredSession<M>>,
    /// Messages that shards had not taken from those that took them, in the order in which each
    /// shard took them.
    pub unheard: Vec<Unheard<M>>,
    /// The rooms that stay when they are empty, by zone and name.
    pub rooms: Vec<RestoredRoom>,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Sessions that only damaged places name, as far as these can be read.
    pub lost_sessions: Vec<LostSession>,
}

/// A message that has to be routed once more, to some sessions only.
#[derive(Clone, Debug, PartialEq)]
pub struct Unheard<M> {
    /// Its name.
    pub name: Name,
    /// The message.
    pub message: M,
    /// To whom.
    pub to: Target,
    /// Which start of the server, and which shard, is to have it: of the sessions with this origin,
    /// those that have subscribed to its topic.
    pub generation: u32,
    /// The shard, of those there were then.
    pub shard: u16,
    /// Whether that is the shard that took the message. It had to serve the shared subscriptions
    /// too, and did not come to that of all.
    pub is_own: bool,
    /// The sessions that have it already, where it was expensive to route.
    pub served: Served,
}

/// The sessions that have a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Sessions.
    pub sessions: BTreeSet<Origin>,
    /// Shared subscriptions by which some of them got it.
    pub shares: BTreeSet<OwnedShare>,
}

/// Which subscriptions a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All that match, but for shared ones: the topic of the message, or this one.
    Subscribers(Option<Box<str>>),
    /// One member of this shared subscription.
    Member(OwnedShare),
}

/// Something that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which start of the server; `None` if nobody knows.
    pub generation: Option<u32>,
    /// The shard, of those there were then.
    pub shard: Option<u16>,
    /// What it is.
    pub kind: DamageKind,
}

/// What could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A part of a file.
    Gap {
        /// The file.
        file: u32,
        /// Where it begins.
        from: u32,
        /// Its bytes. `u64::MAX` where nobody knows them: all of the file.
        bytes: u64,
    },
    /// The rest of a batch.
    Batch(Name, DecodeError),
    /// This many files are missing. Nobody knows what they held.
    Files(u32),
    /// Records about sessions that are never told, and that do not end.
    Orphans {
        /// How many there are.
        records: u64,
        /// How many sessions they are about.
        sessions: u64,
    },
}

/// A session as it was.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredSession<M> {
    /// Where it is: [`Record::Adopted`](crate::Record::Adopted) takes it from there.
    pub origin: Origin,
    /// The number of its zone.
    pub zone: u32,
    /// The client id.
    pub client_id: Box<str>,
    /// The user.
    pub user: Option<Box<str>>,
    /// By what a guest is known again.
    pub guest: Option<u64>,
    /// Where its client came from, of one without a name: see [`Record::Owner`].
    ///
    /// [`Record::Owner`]: crate::Record::Owner
    pub owner: Option<NonZeroU64>,
    /// Seconds that it outlives its connection; 0 if only its will is left.
    pub expiry_secs: u32,
    /// Whether its user is known to nobody but the credential that it came with.
    pub has_no_account: bool,
    /// Whether the roles are those of the credential that it came with, and not of an account.
    pub roles_are_of_credential: bool,
    /// The roles that its user had.
    pub roles: Vec<Box<str>>,
    /// The quotas that its user had.
    pub quotas: Quotas,
    /// Whether its client was there.
    pub presence: Presence,
    /// What it has subscribed to, sorted by group and filter.
    pub subscriptions: Vec<RestoredSubscription>,
    /// Packet ids of messages at QoS 2 that were taken and not released, ascending. Each makes a
    /// PUBLISH with DUP set one that was taken; one without DUP is a new message.
    pub arrived: Vec<PacketId>,
    /// The number that the next delivery gets.
    pub next: u64,
    /// All deliveries before this one may have been sent, so they are sent with DUP set.
    pub sent: u64,
    /// Its deliveries, in order, without those in chunks.
    pub owed: Vec<RestoredDelivery<M>>,
    /// Those that lie elsewhere, in order.
    pub spooled: Vec<RestoredChunk>,
    /// Messages that are held back, in order.
    pub held: Vec<RestoredHeld<M>>,
    /// The will of its connection.
    pub will: Option<RestoredWill>,
    /// Deliveries that are lost, because their messages lay in a damaged part of a file.
    pub lost: u64,
    /// Places in [`Restored::damage`] that may have told of it. None if it lacks nothing.
    pub may_lack: Vec<Range<u32>>,
    /// Those that still say its number or its client id, as far as they can be read.
    pub named: Vec<u32>,
}

/// Whether a client was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It was: it counts as away from the start on.
    Here,
    /// It was not.
    Away {
        /// Since when, in milliseconds since 1970.
        since_ms: u64,
        /// When the session ends; `None` for never.
        until_ms: Option<u64>,
        /// When its will is due.
        will_at_ms: Option<u64>,
    },
}

impl From<Away> for Presence {
    fn from(away: Away) -> Self {
        Self::Away {
            since_ms: away.since_ms,
            until_ms: away.until_ms,
            will_at_ms: away.will_at_ms,
        }
    }
}

/// A subscription as it was: see [`Subscription`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredSubscription {
    /// The name after `$share/`.
    pub group: Option<Box<str>>,
    /// The filter.
    pub filter: Box<str>,
    /// The QoS granted.
    pub qos: QoS,
    /// Whether the client's own messages are kept from it.
    pub no_local: bool,
    /// Whether the RETAIN flag stays as the publisher set it.
    pub retain_as_published: bool,
    /// Whether retained messages are still to be sent.
    pub snapshot: bool,
    /// Whether it is below a room.
    pub room: bool,
    /// The subscription identifier.
    pub identifier: Option<u32>,
    /// Microseconds between two messages of one topic; 0 for no such bound.
    pub interval_micros: u64,
}

impl From<&Subscription<'_>> for RestoredSubscription {
    fn from(subscription: &Subscription<'_>) -> Self {
        let Filter { group, filter } = subscription.filter;
        Self {
            group: group.map(Into::into),
            filter: filter.into(),
            qos: subscription.qos,
            no_local: subscription.no_local,
            retain_as_published: subscription.retain_as_published,
            snapshot: subscription.snapshot,
            room: subscription.room,
            identifier: subscription.identifier,
            interval_micros: subscription.interval_micros,
        }
    }
}

/// A delivery that a session is owed.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredDelivery<M> {
    /// Its number among those of the session.
    pub delivery: u64,
    /// Its packet id.
    pub packet_id: PacketId,
    /// What it waits for.
    pub debt: RestoredDebt<M>,
}

/// Deliveries that lie elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredChunk {
    /// The number of the first one.
    pub first: u64,
    /// How many there are.
    pub count: u8,
    /// Where they are.
    pub place: Place,
    /// Those that are not to be sent any more: they are done, or the client has received them.
    pub gone: Vec<u64>,
    /// Packet ids that do not follow from the numbers.
    pub odd: Vec<(u64, PacketId)>,
}

/// What a delivery waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum RestoredDebt<M> {
    /// The message is to be sent.
    Message(M, OwnedTerms),
    /// PUBREL is to be sent.
    Release,
}

/// A message that is held back.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredHeld<M> {
    /// The message.
    pub message: M,
    /// How it is delivered when its time has come.
    pub terms: OwnedTerms,
}

/// How a message is delivered: see [`Terms`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedTerms {
    /// The QoS: 1 or 2.
    pub qos: QoS,
    /// The RETAIN flag as the subscriber sees it.
    pub retain: bool,
    /// How many messages of its topic it stands for, besides itself.
    pub conflated: u32,
    /// The subscription identifiers to send.
    pub identifiers: Vec<Identifier>,
    /// The shared subscription that chose this member.
    pub share: Option<OwnedShare>,
}

impl From<&Terms<'_>> for OwnedTerms {
    fn from(terms: &Terms<'_>) -> Self {
        Self {
            qos: terms.qos,
            retain: terms.retain,
            conflated: terms.conflated,
            identifiers: terms.identifiers.iter().collect(),
            share: terms.share.map(OwnedShare::from),
        }
    }
}

/// A shared subscription: see [`Share`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnedShare {
    /// The name after `$share/`.
    pub group: Box<str>,
    /// The filter.
    pub filter: Box<str>,
}

impl From<Share<'_>> for OwnedShare {
    fn from(share: Share<'_>) -> Self {
        Self {
            group: share.group.into(),
            filter: share.filter.into(),
        }
    }
}

/// A will as it was: see [`Will`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredWill {
    /// The topic name.
    pub topic: Box<str>,
    /// The forwarded properties, as on the wire.
    pub properties: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
    /// Its QoS.
    pub qos: QoS,
    /// Its RETAIN flag.
    pub retain: bool,
    /// Seconds between the end of the connection and its publication.
    pub delay_secs: u32,
    /// Seconds until it expires, from its publication.
    pub expiry_secs: Option<u32>,
}

impl From<&Will<'_>> for RestoredWill {
    fn from(will: &Will<'_>) -> Self {
        Self {
            topic: will.topic.into(),
            properties: will.properties.into(),
            payload: will.payload.into(),
            qos: will.qos,
            retain: will.retain,
            delay_secs: will.delay_secs,
            expiry_secs: will.expiry_secs,
        }
    }
}
