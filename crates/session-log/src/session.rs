//! What a session is, apart from the messages that it is owed.

use alloc::vec::Vec;

use stentor_mqtt::QoS;

use crate::list::{Item, List};
use crate::wire::{
    BODY_BYTES_MAX, Fault, Flags, IDENTIFIER_MAX, MILLIS_MAX, Reader, Why, put_bytes, put_varint,
};

/// The owner of a session, and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Session<'a> {
    /// Its number in this journal: from 0 on, and never used twice in one generation.
    pub number: u32,
    /// The number of its zone.
    pub zone: u32,
    /// The client id.
    pub client_id: &'a str,
    /// The user; `None` for a client without one.
    pub user: Option<&'a str>,
    /// By what a guest is known again; `None` for all others.
    pub guest: Option<u64>,
    /// Seconds that it outlives its connection: `u32::MAX` for ever, 0 if only its will does.
    pub expiry_secs: u32,
    /// Whether its user is known to nobody but the credential that it came with, as the bearer of a
    /// web token may be.
    pub has_no_account: bool,
    /// Whether the roles are those of the credential that it came with, and not of an account.
    pub roles_are_of_credential: bool,
    /// The roles that its user had.
    pub roles: List<'a, &'a str>,
    /// The quotas that its user had.
    pub quotas: Quotas,
}

/// What a user may use at most. `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Messages that one connection publishes per second.
    pub messages_per_sec: Option<u32>,
    /// Bytes of PUBLISH packets that one connection sends per second.
    pub bytes_per_sec: Option<u64>,
    /// Subscriptions.
    pub subscriptions: Option<u32>,
    /// Bytes that wait for the client.
    pub queued_bytes: Option<u64>,
}

const USER: u8 = 1;
const GUEST: u8 = 1 << 1;
const MESSAGES_PER_SEC: u8 = 1 << 2;
const BYTES_PER_SEC: u8 = 1 << 3;
const SUBSCRIPTIONS: u8 = 1 << 4;
const QUEUED_BYTES: u8 = 1 << 5;
const NO_ACCOUNT: u8 = 1 << 6;
const ROLES_OF_CREDENTIAL: u8 = 1 << 7;

impl<'a> Session<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        let quotas = &self.quotas;
        let flags = Flags::default()
            .with(USER, self.user.is_some())
            .with(GUEST, self.guest.is_some())
            .with(MESSAGES_PER_SEC, quotas.messages_per_sec.is_some())
            .with(BYTES_PER_SEC, quotas.bytes_per_sec.is_some())
            .with(SUBSCRIPTIONS, quotas.subscriptions.is_some())
            .with(QUEUED_BYTES, quotas.queued_bytes.is_some())
            .with(NO_ACCOUNT, self.has_no_account)
            .with(ROLES_OF_CREDENTIAL, self.roles_are_of_credential);
        out.push(flags.0);
        put_varint(out, u64::from(self.zone));
        put_bytes(out, self.client_id.as_bytes());
        if let Some(user) = self.user {
            put_bytes(out, user.as_bytes());
        }
        if let Some(guest) = self.guest {
            out.extend_from_slice(&guest.to_le_bytes());
        }
        put_varint(out, u64::from(self.expiry_secs));
        self.roles.put(out);
        let quotas = [
            quotas.messages_per_sec.map(u64::from),
            quotas.bytes_per_sec,
            quotas.subscriptions.map(u64::from),
            quotas.queued_bytes,
        ];
        for quota in quotas.into_iter().flatten() {
            put_varint(out, quota);
        }
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let number = reader.u32("number")?;
        let quotas = MESSAGES_PER_SEC | BYTES_PER_SEC | SUBSCRIPTIONS | QUEUED_BYTES;
        let of_credential = NO_ACCOUNT | ROLES_OF_CREDENTIAL;
        let flags = reader.flags("flags", USER | GUEST | quotas | of_credential)?;
        let zone = reader.u32("zone")?;
        let client_id = reader.text("client_id")?;
        let user = match flags.has(USER) {
            true => Some(reader.text("user")?),
            false => None,
        };
        let guest = match flags.has(GUEST) {
            true => Some(reader.word("guest")?),
            false => None,
        };
        let expiry_secs = reader.u32("expiry_secs")?;
        let roles = List::take(reader, "roles")?;
        let mut quota = |flag, field, max: u64| match flags.has(flag) {
            true => reader.varint(field, max).map(Some),
            false => Ok(None),
        };
        let small = u64::from(u32::MAX);
        // The bound makes the small ones fit.
        let quotas = Quotas {
            messages_per_sec: quota(MESSAGES_PER_SEC, "messages_per_sec", small)?
                .map(|quota| quota as u32),
            bytes_per_sec: quota(BYTES_PER_SEC, "bytes_per_sec", u64::MAX)?,
            subscriptions: quota(SUBSCRIPTIONS, "subscriptions", small)?.map(|quota| quota as u32),
            queued_bytes: quota(QUEUED_BYTES, "queued_bytes", u64::MAX)?,
        };
        Ok(Self {
            number,
            zone,
            client_id,
            user,
            guest,
            expiry_secs,
            has_no_account: flags.has(NO_ACCOUNT),
            roles_are_of_credential: flags.has(ROLES_OF_CREDENTIAL),
            roles,
            quotas,
        })
    }
}

/// A session of an earlier generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Which start of the server.
    pub generation: u32,
    /// The shard that had it, of those there were then.
    pub shard: u16,
    /// Its number in the journal of that shard.
    pub number: u32,
}

impl Origin {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.generation));
        put_varint(out, u64::from(self.shard));
        put_varint(out, u64::from(self.number));
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self {
            generation: reader.u32("generation")?,
            shard: reader.u16("shard")?,
            number: reader.u32("number")?,
        })
    }
}

/// Since when a session waits for its client, and for how long. Times are milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// Which session.
    pub number: u32,
    /// When the connection ended.
    pub since_ms: u64,
    /// When the session ends; `None` for never.
    pub until_ms: Option<u64>,
    /// When its will is due; `None` if it has none.
    pub will_at_ms: Option<u64>,
}

const UNTIL: u8 = 1;
const WILL_AT: u8 = 1 << 1;

impl Away {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        let flags = Flags::default()
            .with(UNTIL, self.until_ms.is_some())
            .with(WILL_AT, self.will_at_ms.is_some());
        out.push(flags.0);
        put_varint(out, self.since_ms);
        for time in [self.until_ms, self.will_at_ms].into_iter().flatten() {
            put_varint(out, time);
        }
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let number = reader.u32("number")?;
        let flags = reader.flags("flags", UNTIL | WILL_AT)?;
        let since_ms = reader.varint("since_ms", MILLIS_MAX)?;
        let mut time = |flag, field| match flags.has(flag) {
            true => reader.varint(field, MILLIS_MAX).map(Some),
            false => Ok(None),
        };
        Ok(Self {
            number,
            since_ms,
            until_ms: time(UNTIL, "until_ms")?,
            will_at_ms: time(WILL_AT, "will_at_ms")?,
        })
    }
}

/// Which of a session's subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter<'a> {
    /// The name after `$share/`; `None` for an ordinary subscription.
    pub group: Option<&'a str>,
    /// The filter, without `$share/` and the group.
    pub filter: &'a str,
}

impl<'a> Filter<'a> {
    /// The group has at least one character [MQTT-4.8.2-1], so none is an empty text.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.group.unwrap_or_default().as_bytes());
        put_bytes(out, self.filter.as_bytes());
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let group = Some(reader.text("group")?).filter(|group| !group.is_empty());
        Ok(Self {
            group,
            filter: reader.text("filter")?,
        })
    }
}

/// A shared subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share<'a> {
    /// The name after `$share/`: one character at least [MQTT-4.8.2-1].
    pub group: &'a str,
    /// The filter, without `$share/` and the group.
    pub filter: &'a str,
}

impl<'a> Share<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.group.as_bytes());
        put_bytes(out, self.filter.as_bytes());
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let filter = Filter::take(reader)?;
        let group = filter.group.ok_or(Fault {
            field: "group",
            why: Why::Value,
        })?;
        Ok(Self {
            group,
            filter: filter.filter,
        })
    }
}

impl<'a> Item<'a> for Share<'a> {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        Share::put(self, out);
    }

    fn take(reader: &mut Reader<'a>, (): &mut ()) -> Result<Self, Fault> {
        Share::take(reader)
    }
}

/// A subscription that was granted, or that has other options than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// Which session.
    pub number: u32,
    /// What it has subscribed to.
    pub filter: Filter<'a>,
    /// The QoS granted.
    pub qos: QoS,
    /// Whether the client's own messages are kept from it.
    pub no_local: bool,
    /// Whether the RETAIN flag stays as the publisher set it.
    pub retain_as_published: bool,
    /// Whether retained messages are still to be sent: see [`Record::Done`](crate::Record::Done).
    pub snapshot: bool,
    /// Whether it is below a room: it holds while the session is connected and in the room.
    pub room: bool,
    /// The subscription identifier; `None` for none.
    pub identifier: Option<u32>,
    /// Microseconds between two messages of one topic, by `max_rate`; 0 for no such bound.
    pub interval_micros: u64,
}

const NO_LOCAL: u8 = 1 << 2;
const RETAIN_AS_PUBLISHED: u8 = 1 << 3;
const SNAPSHOT: u8 = 1 << 4;
const ROOM: u8 = 1 << 5;
const IDENTIFIER: u8 = 1 << 6;
const INTERVAL: u8 = 1 << 7;

impl<'a> Subscription<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        let flags = Flags(self.qos as u8)
            .with(NO_LOCAL, self.no_local)
            .with(RETAIN_AS_PUBLISHED, self.retain_as_published)
            .with(SNAPSHOT, self.snapshot)
            .with(ROOM, self.room)
            .with(IDENTIFIER, self.identifier.is_some())
            .with(INTERVAL, self.interval_micros > 0);
        out.push(flags.0);
        self.filter.put(out);
        if let Some(identifier) = self.identifier {
            put_varint(out, u64::from(identifier));
        }
        if self.interval_micros > 0 {
            put_varint(out, self.interval_micros);
        }
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let number = reader.u32("number")?;
        let flags = reader.flags("flags", u8::MAX)?;
        let filter = Filter::take(reader)?;
        let above_zero = |field, value: u64| match value {
            0 => Err(Fault {
                field,
                why: Why::Value,
            }),
            value => Ok(value),
        };
        let identifier = match flags.has(IDENTIFIER) {
            true => {
                let value = reader.varint("identifier", u64::from(IDENTIFIER_MAX))?;
                // The bound makes it fit.
                Some(above_zero("identifier", value)? as u32)
            }
            false => None,
        };
        let interval_micros = match flags.has(INTERVAL) {
            true => above_zero(
                "interval_micros",
                reader.varint("interval_micros", u64::MAX)?,
            )?,
            false => 0,
        };
        Ok(Self {
            number,
            filter,
            qos: flags.qos("qos")?,
            no_local: flags.has(NO_LOCAL),
            retain_as_published: flags.has(RETAIN_AS_PUBLISHED),
            snapshot: flags.has(SNAPSHOT),
            room: flags.has(ROOM),
            identifier,
            interval_micros,
        })
    }
}

/// The will of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// Whose.
    pub number: u32,
    /// The topic name.
    pub topic: &'a str,
    /// The forwarded properties, as on the wire.
    pub properties: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
    /// Its QoS.
    pub qos: QoS,
    /// Its RETAIN flag.
    pub retain: bool,
    /// Seconds between the end of the connection and its publication.
    pub delay_secs: u32,
    /// Seconds until it expires, from its publication; `None` for never.
    pub expiry_secs: Option<u32>,
}

const WILL_RETAIN: u8 = 1 << 2;
const WILL_EXPIRY: u8 = 1 << 3;

impl<'a> Will<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        let flags = Flags(self.qos as u8)
            .with(WILL_RETAIN, self.retain)
            .with(WILL_EXPIRY, self.expiry_secs.is_some());
        out.push(flags.0);
        put_bytes(out, self.topic.as_bytes());
        put_bytes(out, self.properties);
        put_bytes(out, self.payload);
        put_varint(out, u64::from(self.delay_secs));
        if let Some(secs) = self.expiry_secs {
            put_varint(out, u64::from(secs));
        }
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let number = reader.u32("number")?;
        let flags = reader.flags("flags", 3 | WILL_RETAIN | WILL_EXPIRY)?;
        Ok(Self {
            number,
            topic: reader.text("topic")?,
            properties: reader.bytes("properties", BODY_BYTES_MAX)?,
            payload: reader.bytes("payload", BODY_BYTES_MAX)?,
            qos: flags.qos("qos")?,
            retain: flags.has(WILL_RETAIN),
            delay_secs: reader.u32("delay_secs")?,
            expiry_secs: match flags.has(WILL_EXPIRY) {
                true => Some(reader.u32("expiry_secs")?),
                false => None,
            },
        })
    }
}
