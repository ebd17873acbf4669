//! The connection of a session, or its absence.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use stentor_mqtt::Version;
use stentor_session::{Output, ReceivedAliases, SentAliases, Tick};

use crate::core::delivery::conflate::Conflating;
use crate::core::delivery::snapshot::Snapshots;
use crate::core::ids::LinkId;
use crate::core::inbound::subscribe::Element;
use crate::core::sessions::authenticate::Method;
use crate::core::sessions::command_rate::CommandRate;
use crate::core::sessions::quota::{ConnectionQuota, Meter};
use crate::core::sessions::state::Absence;
use crate::core::sessions::tally::{PauseCause, Tallies};
use crate::core::work::Debt;

/// Whether the client of a session is there.
#[derive(Debug)]
pub(crate) enum Link {
    Live(Live),
    Away(Away),
}

impl Link {
    /// Of a session that has left nothing, and does not end by itself.
    pub(super) fn nobody() -> Self {
        Self::Away(Away {
            absence: Absence {
                until: Tick::NEVER,
                will_at: Tick::NEVER,
            },
            since_ms: 0,
            snapshots: None,
            conflating: None,
            left: None,
        })
    }
}

/// The connection of a session.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) link: LinkId,
    pub(crate) version: Version,
    pub(crate) flushing: Flushing,
    pub(crate) keep_alive_secs: u16,
    /// How many messages may be in flight to the client: the smaller of its limit and ours.
    pub(crate) window: u16,
    /// Where packet ids go on, while nothing is owed.
    pub(crate) next_packet_id: u16,
    pub(crate) packet_bytes_max: u32,
    pub(crate) announced: Announced,
    pub(crate) since: Tick,
    pub(crate) last_seen: Tick,
    pub(crate) messages: Messages,
    pub(crate) output: Option<Box<Output>>,
    pub(crate) extras: Option<Box<Extras>>,
}

/// The PUBLISH packets of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// That have come from its client.
    pub received: u64,
    /// That were queued for its socket.
    pub sent: u64,
}

/// What a connection's CONNACK said of the server's limits. It holds for as long as the
/// connection does, whatever a reload changes: the client keeps to what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// The largest packet that the client may send, in bytes.
    pub(crate) packet_bytes_max: u32,
    /// QoS 1 and 2 messages that it may have under way. 3.x has no field for a maximum: then
    /// it is the number of packet ids.
    pub(crate) receive_maximum: u16,
    /// The highest topic alias that it may use.
    pub(crate) topic_alias_maximum: u16,
}

/// What few connections need.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// Subscriptions of a mosquitto bridge are no-local and retain-as-published.
    pub(crate) bridge: bool,
    /// The enhanced authentication method that it was let in by.
    pub(crate) method: Option<Method>,
    pub(crate) received_aliases: Option<ReceivedAliases>,
    pub(crate) sent_aliases: Option<SentAliases>,
    /// Retained messages still to be sent, by subscription.
    pub(crate) snapshots: Option<Box<Snapshots>>,
    /// What is held back of what it subscribes to.
    pub(crate) conflating: Option<Box<Conflating>>,
    /// How much may wait for its socket before messages are conflated.
    pub(crate) backlog: Backlog,
    /// How fast it publishes, where that is bounded.
    pub(crate) meter: Option<Meter>,
    /// What it owes for work that is beyond its due.
    pub(crate) debt: Debt,
    /// What it owes for commands about rooms, where it has given any.
    pub(crate) command_rate: Option<CommandRate>,
    /// Whether it takes no reason strings [MQTT-3.1.2-29].
    pub(crate) terse: bool,
    /// Its places among the connections of its user and zone, where those are counted.
    pub(crate) quota: ConnectionQuota,
    /// Whether `Outbox::pumps` has it.
    pub(crate) is_pumped_later: bool,
    /// Whether it is about to be closed: see `lifecycle::give_up`.
    is_given_up: bool,
    /// How many things that it has asked for have to be decided before more is read.
    pub(crate) held: u32,
    /// What has happened to its session that happens to few.
    pub(crate) tally: Option<Box<Tallies>>,
    /// The rooms that it is in, with the number of its subscriptions below each.
    pub(super) rooms: BTreeMap<Box<str>, u32>,
    /// Hashes of the topics and filters whose refusal was logged already.
    denied: Vec<u64>,
}

impl Extras {
    /// Whether the refusal of something with this hash is to be logged: once each, and no more
    /// than a few for each connection.
    pub(crate) fn remember_refusal(&mut self, hash: u64) -> bool {
        const REMEMBERED_MAX: usize = 64;
        let is_new = self.denied.len() < REMEMBERED_MAX && !self.denied.contains(&hash);
        if is_new {
            self.denied.push(hash);
        }
        is_new
    }
}

/// How much may wait for the socket of a client whose messages may be replaced by newer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// As for everybody.
    #[default]
    Usual,
    /// Little in the kernel.
    Bounded,
    /// Little here as well: it did not keep up before.
    Least,
}

/// Where a connection stands between having output and having written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushing {
    /// Nothing to write.
    Idle,
    /// It has output that may wait for more: see [`Held::now_until`].
    ///
    /// [`Held::now_until`]: crate::core::delivery::held::Held::now_until
    Held,
    /// Listed as dirty: the shard flushes it at the end of its turn.
    Listed,
    /// The socket is full: the shard reports when it is writable.
    Blocked,
}

/// A session that waits for its client.
#[derive(Debug)]
pub(crate) struct Away {
    pub(crate) absence: Absence,
    /// Since when, in milliseconds since 1970, if sessions are written down.
    pub(crate) since_ms: u64,
    /// Retained messages that it did not get before its connection ended.
    pub(crate) snapshots: Option<Box<Snapshots>>,
    /// The messages that wait for it under policy `conflate`, and the rates of its subscriptions.
    pub(crate) conflating: Option<Box<Conflating>>,
    /// What few have left. Apart, so that an absent session takes no more than one that is there.
    pub(crate) left: Option<Box<Left>>,
}

/// What few absent sessions have.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// What it subscribed to in rooms.
    pub(crate) rooms: Box<[Element]>,
    /// What has happened to it that happens to few.
    pub(crate) tally: Option<Box<Tallies>>,
}

impl Left {
    /// `None` where that is nothing.
    pub(crate) fn of(rooms: Vec<Element>, tally: Option<Box<Tallies>>) -> Option<Box<Self>> {
        let is_any = !rooms.is_empty() || tally.is_some();
        let rooms = rooms.into_boxed_slice();
        is_any.then(|| Box::new(Self { rooms, tally }))
    }
}

impl Live {
    pub(crate) fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Whether its session has a subscription below a room.
    pub(crate) fn is_in_room(&self, room: &str) -> bool {
        let extras = self.extras.as_ref();
        extras.is_some_and(|extras| extras.rooms.contains_key(room))
    }

    /// How many rooms its session has subscriptions below.
    pub(crate) fn room_count(&self) -> usize {
        self.extras.as_ref().map_or(0, |extras| extras.rooms.len())
    }

    /// Its session has one subscription more below a room.
    pub(crate) fn entered(&mut self, room: &str) {
        let rooms = &mut self.extras().rooms;
        match rooms.get_mut(room) {
            Some(count) => *count += 1,
            None => drop(rooms.insert(room.into(), 1)),
        }
    }

    /// Its session has one subscription less below a room.
    pub(crate) fn left(&mut self, room: &str) {
        let Some(extras) = self.extras.as_mut() else {
            return;
        };
        if let Some(count) = extras.rooms.get_mut(room) {
            *count -= 1;
            if *count == 0 {
                extras.rooms.remove(room);
            }
        }
    }

    /// Takes the topic aliases of its client, so that a topic may be borrowed from them, and the
    /// highest one that it may use.
    pub(crate) fn take_aliases(&mut self) -> (ReceivedAliases, u16) {
        let extras = self.extras.as_mut();
        let aliases = extras.and_then(|extras| extras.received_aliases.take());
        let maximum = self.announced.topic_alias_maximum;
        (aliases.unwrap_or_default(), maximum)
    }

    /// Whether it is about to be closed, because too much waits for its client.
    #[inline]
    pub(crate) fn is_given_up(&self) -> bool {
        self.extras
            .as_ref()
            .is_some_and(|extras| extras.is_given_up)
    }

    /// It is about to be closed. Returns whether that is new.
    pub(crate) fn give_up(&mut self) -> bool {
        !core::mem::replace(&mut self.extras().is_given_up, true)
    }

    /// Gives a new connection its places, and what the one before it owed: whoever connects again
    /// and again pays all the same.
    pub(crate) fn take_on(&mut self, now: Tick, quota: ConnectionQuota, debt: Debt) {
        if !quota.is_empty() {
            self.extras().quota = quota;
        }
        if debt.is_owed(now) {
            self.extras().debt = debt;
        }
    }

    /// What to try as the reason string of an acknowledgement, one after the other until the
    /// packet is small enough; an empty one stands for none.
    pub(crate) fn explanations<'t>(
        &self,
        text: &'t str,
    ) -> impl Iterator<Item = &'t str> + use<'t> {
        let is_terse = self.extras.as_ref().is_some_and(|extras| extras.terse);
        let text = Some(text).filter(|text| !text.is_empty() && self.version.is_v5() && !is_terse);
        text.into_iter().chain([""])
    }

    /// Whether nothing is taken from the client until something is decided.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| {
            extras.held > 0
                || extras
                    .command_rate
                    .as_ref()
                    .is_some_and(CommandRate::is_full)
        })
    }

    /// The time until which nothing is taken from the client, because it publishes faster than it
    /// may, or has given commands about rooms or caused work that is not paid for.
    #[inline]
    pub(crate) fn paused_until(&self, now: Tick) -> Option<(Tick, PauseCause)> {
        let extras = self.extras.as_ref()?;
        let published = extras.meter.as_ref().map(Meter::paid_at);
        let commanded = extras.command_rate.as_ref().map(CommandRate::paid_at);
        let mut until = (extras.debt.paid_at(), PauseCause::Work);
        let commanded = commanded.map(|at| (at, PauseCause::RoomCommands));
        for other in published.into_iter().chain(commanded) {
            if other.0 > until.0 {
                until = other;
            }
        }
        (until.0 > now).then_some(until)
    }

    /// What has happened to its session that happens to few.
    pub(crate) fn tally(&mut self) -> &mut Tallies {
        self.extras().tally.get_or_insert_default()
    }

    /// Whether work that the client has caused is not paid for yet.
    pub(crate) fn owes(&self, now: Tick) -> bool {
        let extras = self.extras.as_ref();
        extras.is_some_and(|extras| extras.debt.is_owed(now))
    }

    /// The retained messages that are still to be sent.
    pub(crate) fn snapshots(&mut self) -> Option<&mut Snapshots> {
        self.extras.as_mut()?.snapshots.as_deref_mut()
    }

    /// Bytes of packets other than PUBLISH that wait for the socket.
    #[inline]
    pub(crate) fn control_bytes(&self) -> usize {
        let output = self.output.as_ref();
        output.map_or(0, |output| output.control_bytes())
    }

    /// Whether packets other than PUBLISH and PINGRESP wait for the socket.
    pub(crate) fn has_answers(&self) -> bool {
        self.output.as_ref().is_some_and(|it| it.has_answers())
    }

    /// Whether anything but PINGRESP waits for the socket.
    pub(crate) fn has_news(&self) -> bool {
        self.output.as_ref().is_some_and(|it| it.has_news())
    }

    /// Bytes that are to be written, with the rest of what a write has begun.
    pub(crate) fn due_bytes(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.due_bytes())
    }

    /// Bytes of memory that the rest of what a write has begun takes: no bound counts it.
    pub(crate) fn begun_bytes(&self) -> usize {
        let output = self.output.as_ref();
        output.map_or(0, |output| output.memory() - output.bytes())
    }

    /// Bytes that wait for the socket.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.wire_bytes())
    }
}
