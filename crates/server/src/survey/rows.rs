//! Sessions as the shards saw them, in few bytes each.

use std::sync::Arc;

use stentor_hub::{ClientInfo, ConnectionInfo, Messages, PauseCause, SeenClient, Tally};
use stentor_mqtt::Version;
use stentor_session::Tick;
use stentor_topic::Zone;

use crate::listener::Port;
use crate::peer::Peer;
use crate::shard::LinkBytes;

/// No text, and no entry of a list.
const NOTHING: u32 = u32::MAX;

/// What few sessions have is one of these for each of them; see [`Rows::bytes`].
#[derive(Clone, Copy, Debug, Default)]
struct Rare {
    tally: Tally,
    snapshot_bytes: usize,
    paused_until: Option<(Tick, PauseCause)>,
}

impl Rare {
    /// `None` if the session is like most.
    fn of<I, U>(info: &ClientInfo<I, U>) -> Option<Self> {
        let paused_until = info.connection.and_then(|it| it.paused_until);
        let is_rare =
            info.tally != Tally::default() || info.snapshot_bytes > 0 || paused_until.is_some();
        is_rare.then_some(Self {
            tally: info.tally,
            snapshot_bytes: info.snapshot_bytes,
            paused_until,
        })
    }
}

/// A piece of the text that all rows share.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: u32,
    bytes: u16,
}

impl Span {
    const NONE: Self = Self {
        at: NOTHING,
        bytes: 0,
    };
}

/// What the row has of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// There is none, and no client either.
    Queue,
    Away,
    Open,
    /// Its socket is full.
    Blocked,
}

/// A session. It names its texts, and what few have, by their places.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Since when it is connected, a [`Tick`]; or away, in milliseconds.
    since: u64,
    /// When its last packet came; of one that is away, when it ends.
    until: u64,
    received: u64,
    received_bytes: u64,
    sent: u64,
    sent_bytes: u64,
    held_bytes: u64,
    slot: u32,
    zone: u32,
    id_at: u32,
    user_at: u32,
    queued_bytes: u32,
    waiting: u32,
    in_flight: u32,
    subscriptions: u32,
    expiry_secs: u32,
    rare: u32,
    /// An IPv4 address; without a port, the place of another peer.
    peer: u32,
    port: u16,
    id_bytes: u16,
    user_bytes: u16,
    listener: u16,
    keep_alive_secs: u16,
    link: Link,
    version: Version,
}

/// Where a connection comes from, and what has gone over it.
pub(crate) struct Origin<'l> {
    pub(crate) peer: Peer,
    pub(crate) port: &'l Arc<Port>,
    pub(crate) bytes: LinkBytes,
}

/// A listener.
#[derive(Clone, Copy, Debug)]
struct Listener {
    /// Its URL.
    url: Span,
    /// Tells it from others while a shard makes a step.
    port: usize,
}

/// One session of [`Rows`].
pub(crate) struct Seen<'r> {
    pub(crate) info: ClientInfo<&'r str, &'r str>,
    /// Where its connection comes from, and through which listener.
    pub(crate) origin: Option<(Peer, &'r str)>,
    /// What has gone over its connection.
    pub(crate) bytes: LinkBytes,
    /// Its place on its shard.
    pub(crate) slot: u32,
}

/// Sessions, without an allocation for each.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    /// Client ids, names of users and URLs of listeners, one behind the other.
    text: String,
    rare: Vec<Rare>,
    /// Those that are not IPv4, or have no port.
    peers: Vec<Peer>,
    listeners: Vec<Listener>,
    /// When the shard looked, in milliseconds on its clock.
    pub(crate) now_ms: u64,
}

fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Makes room for some more, by little more than they take: a doubled list could be above the
/// bound that half of it is below.
fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more + list.len() / 8);
    }
}

impl Rows {
    /// Rows with room for a step of a shard, so that the shard makes none.
    pub(crate) fn with_room() -> Self {
        const SESSIONS: usize = 256;
        const TEXT_BYTES: usize = 16 * 1024;
        Self {
            rows: Vec::with_capacity(SESSIONS),
            text: String::with_capacity(TEXT_BYTES),
            ..Self::default()
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// What they take.
    pub(crate) const fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
            + self.text.capacity()
            + self.rare.capacity() * size_of::<Rare>()
            + self.peers.capacity() * size_of::<Peer>()
            + self.listeners.capacity() * size_of::<Listener>()
    }

    /// Takes all of them out. The room stays.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.text.clear();
        self.rare.clear();
        self.peers.clear();
        self.listeners.clear();
    }

    /// Adds a session that a shard shows.
    pub(crate) fn push(&mut self, seen: &SeenClient<'_>, origin: Option<Origin<'_>>) {
        let info = &seen.info;
        let id = self.add_text(info.client_id);
        let user = info.user.map_or(Span::NONE, |user| self.add_user(user));
        let rare = Rare::of(info).map_or(NOTHING, |rare| {
            self.rare.push(rare);
            short(self.rare.len() - 1)
        });
        let connection = info.connection.as_ref();
        let link = match connection.map(|it| it.is_blocked) {
            None if info.is_queue => Link::Queue,
            None => Link::Away,
            Some(false) => Link::Open,
            Some(true) => Link::Blocked,
        };
        let since = connection
            .map(|it| it.since.as_micros())
            .or(info.away_since_ms);
        let messages = connection.map(|it| it.messages).unwrap_or_default();
        let bytes = origin.as_ref().map(|it| it.bytes).unwrap_or_default();
        let listener = origin.as_ref().map(|it| self.add_listener(it.port));
        let (peer, port) = self.add_peer(origin.map(|it| it.peer));
        self.rows.push(Row {
            since: since.unwrap_or(0),
            until: connection
                .map_or(info.ends_at, |it| it.last_seen)
                .as_micros(),
            received: messages.received,
            received_bytes: bytes.received,
            sent: messages.sent,
            sent_bytes: bytes.sent,
            held_bytes: info.held_bytes,
            slot: seen.key.slot,
            zone: info.zone.get(),
            id_at: id.at,
            user_at: user.at,
            queued_bytes: connection.map_or(0, |it| short(it.queued_bytes)),
            waiting: short(info.waiting),
            in_flight: short(info.in_flight),
            subscriptions: short(info.subscriptions),
            expiry_secs: info.expiry_secs,
            rare,
            peer,
            port,
            id_bytes: id.bytes,
            user_bytes: user.bytes,
            listener: listener.unwrap_or(u16::MAX),
            keep_alive_secs: connection.map_or(0, |it| it.keep_alive_secs),
            link,
            version: connection.map_or(Version::V5, |it| it.version),
        });
    }

    /// Names of clients and users have 65,535 bytes at most, as MQTT writes them.
    fn add_text(&mut self, text: &str) -> Span {
        let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
        let at = short(self.text.len());
        self.text.push_str(text);
        Span {
            at,
            bytes: text.len() as u16,
        }
    }

    /// The user of the row before, or another one.
    fn add_user(&mut self, user: &str) -> Span {
        let before = self.rows.last().map(Row::user);
        match before.filter(|span| self.text_of(*span) == Some(user)) {
            Some(span) => span,
            None => self.add_text(user),
        }
    }

    /// There are few listeners.
    fn add_listener(&mut self, port: &Arc<Port>) -> u16 {
        let number = Arc::as_ptr(port).addr();
        let is_it = |listener: &Listener| listener.port == number;
        let place = self.listeners.iter().position(is_it).unwrap_or_else(|| {
            let url = self.add_text(&port.url.to_string());
            self.listeners.push(Listener { url, port: number });
            self.listeners.len() - 1
        });
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    fn add_peer(&mut self, peer: Option<Peer>) -> (u32, u16) {
        match peer {
            None => (NOTHING, 0),
            Some(Peer::V4(octets, port)) if port != 0 => (u32::from_be_bytes(octets), port),
            Some(other) => {
                self.peers.push(other);
                (short(self.peers.len() - 1), 0)
            }
        }
    }

    /// Takes what a shard has added to other rows, which are empty then and keep their room.
    pub(crate) fn append(&mut self, part: &mut Self) {
        let base = short(self.text.len());
        reserve_text(&mut self.text, part.text.len());
        self.text.push_str(&part.text);
        let moved = |at: u32, by: u32| match at {
            NOTHING => NOTHING,
            at => at.saturating_add(by),
        };
        let listeners: Vec<u16> = part
            .listeners
            .iter()
            .map(|listener| {
                let at = moved(listener.url.at, base);
                let url = part.text_of(listener.url);
                let is_it = |own: &Listener| self.text_of(own.url) == url;
                let place = self.listeners.iter().position(is_it).unwrap_or_else(|| {
                    let url = Span { at, ..listener.url };
                    self.listeners.push(Listener { url, ..*listener });
                    self.listeners.len() - 1
                });
                u16::try_from(place).unwrap_or(u16::MAX)
            })
            .collect();
        let (rare, peers) = (short(self.rare.len()), short(self.peers.len()));
        reserve(&mut self.rare, part.rare.len());
        self.rare.append(&mut part.rare);
        reserve(&mut self.peers, part.peers.len());
        self.peers.append(&mut part.peers);
        reserve(&mut self.rows, part.rows.len());
        self.rows.extend(part.rows.drain(..).map(|row| {
            Row {
                id_at: moved(row.id_at, base),
                user_at: moved(row.user_at, base),
                rare: moved(row.rare, rare),
                peer: if row.port != 0 {
                    row.peer
                } else {
                    moved(row.peer, peers)
                },
                listener: listeners
                    .get(usize::from(row.listener))
                    .copied()
                    .unwrap_or(u16::MAX),
                ..row
            }
        }));
        self.now_ms = self.now_ms.max(part.now_ms);
        part.clear();
    }

    /// Of each row, the place in the order of the client ids. Sessions with the same one are in
    /// the order of zone and user.
    pub(crate) fn ranks(&self) -> Box<[u32]> {
        let mut places: Box<[u32]> = (0..short(self.rows.len())).collect();
        let name = |place: u32| {
            let row = &self.rows[place as usize];
            let id = self.text_of(row.id()).unwrap_or_default();
            (id, row.zone, self.text_of(row.user()))
        };
        places.sort_unstable_by(|a, b| name(*a).cmp(&name(*b)));
        let mut ranks: Box<[u32]> = places.iter().map(|_| 0).collect();
        for (rank, place) in (0..).zip(places) {
            ranks[place as usize] = rank;
        }
        ranks
    }

    fn text_of(&self, Span { at, bytes }: Span) -> Option<&str> {
        let at = at as usize;
        self.text.get(at..at + usize::from(bytes))
    }

    /// A session, by its place. O(1), and nothing is copied.
    ///
    /// # Panics
    /// If there is none in this place.
    pub(crate) fn seen(&self, place: usize) -> Seen<'_> {
        let row = &self.rows[place];
        let rare = self.rare.get(row.rare as usize).copied();
        let rare = rare.unwrap_or_default();
        let is_away = matches!(row.link, Link::Away | Link::Queue);
        let connection = (!is_away).then(|| ConnectionInfo {
            version: row.version,
            keep_alive_secs: row.keep_alive_secs,
            since: Tick::from_micros(row.since),
            last_seen: Tick::from_micros(row.until),
            messages: Messages {
                received: row.received,
                sent: row.sent,
            },
            queued_bytes: row.queued_bytes as usize,
            is_blocked: row.link == Link::Blocked,
            paused_until: rare.paused_until,
        });
        let listener = self.listeners.get(usize::from(row.listener));
        let listener = listener.and_then(|listener| self.text_of(listener.url));
        Seen {
            info: ClientInfo {
                zone: Zone(row.zone),
                client_id: self.text_of(row.id()).unwrap_or_default(),
                user: self.text_of(row.user()),
                is_queue: row.link == Link::Queue,
                connection,
                away_since_ms: is_away.then_some(row.since),
                ends_at: match is_away {
                    true => Tick::from_micros(row.until),
                    false => Tick::NEVER,
                },
                expiry_secs: row.expiry_secs,
                subscriptions: row.subscriptions as usize,
                in_flight: row.in_flight as usize,
                waiting: row.waiting as usize,
                held_bytes: row.held_bytes,
                snapshot_bytes: rare.snapshot_bytes,
                tally: rare.tally,
            },
            origin: self.peer_of(row).zip(listener),
            bytes: LinkBytes {
                received: row.received_bytes,
                sent: row.sent_bytes,
            },
            slot: row.slot,
        }
    }

    fn peer_of(&self, row: &Row) -> Option<Peer> {
        match row.port {
            0 => self.peers.get(row.peer as usize).copied(),
            port => Some(Peer::V4(row.peer.to_be_bytes(), port)),
        }
    }
}

impl Row {
    const fn id(&self) -> Span {
        Span {
            at: self.id_at,
            bytes: self.id_bytes,
        }
    }

    const fn user(&self) -> Span {
        Span {
            at: self.user_at,
            bytes: self.user_bytes,
        }
    }
}

/// As [`reserve`].
fn reserve_text(text: &mut String, more: usize) {
    if text.capacity() - text.len() < more {
        text.reserve_exact(more + text.len() / 8);
    }
}

#[cfg(test)]
mod tests {
    use stentor_hub::SessionKey;

    use super::*;

    fn info<'s>(client_id: &'s str, user: Option<&'s str>) -> ClientInfo<&'s str, &'s str> {
        ClientInfo {
            zone: Zone(7),
            client_id,
            user,
            is_queue: false,
            connection: None,
            away_since_ms: Some(5),
            ends_at: Tick::from_secs(9),
            expiry_secs: 60,
            subscriptions: 3,
            in_flight: 1,
            waiting: 2,
            held_bytes: 1_000,
            snapshot_bytes: 0,
            tally: Tally::default(),
        }
    }

    fn connected<'s>(client_id: &'s str, user: Option<&'s str>) -> ClientInfo<&'s str, &'s str> {
        ClientInfo {
            connection: Some(ConnectionInfo {
                version: Version::V311,
                keep_alive_secs: 30,
                since: Tick::from_secs(1),
                last_seen: Tick::from_secs(2),
                messages: Messages {
                    received: 4,
                    sent: 5,
                },
                queued_bytes: 6,
                is_blocked: true,
                paused_until: Some((Tick::from_secs(3), PauseCause::Work)),
            }),
            away_since_ms: None,
            ends_at: Tick::NEVER,
            snapshot_bytes: 8,
            ..info(client_id, user)
        }
    }

    /// All that is told of one.
    fn text(info: &ClientInfo<&str, &str>, rest: (Option<(Peer, String)>, LinkBytes)) -> String {
        format!("{info:?} {rest:?}")
    }

    #[test]
    fn sessions_come_back_as_they_were() {
        let (control, http) = (Arc::new(Port::control()), Arc::new(Port::http()));
        let bytes = LinkBytes {
            received: 10,
            sent: 11,
        };
        let v4 = Peer::V4([192, 0, 2, 7], 8);
        let v6 = Peer::V6([1; 16], 9);
        let unix = Peer::Unix { uid: 1, pid: 2 };
        let queue = ClientInfo {
            is_queue: true,
            ..info("d", None)
        };
        let sessions = [
            (connected("b", Some("ann")), Some((v4, &http, bytes))),
            (info("c", Some("ann")), None),
            (connected("a", None), Some((v6, &control, bytes))),
            (connected("ä", Some("bob")), Some((unix, &http, bytes))),
            (queue, None),
            (
                connected("e", None),
                Some((Peer::V4([7; 4], 0), &http, bytes)),
            ),
        ];
        let (mut rows, mut part) = (Rows::default(), Rows::with_room());
        // Steps of two each, in the same rows.
        for (step, some) in sessions.chunks(2).enumerate() {
            for (info, from) in some {
                let key = SessionKey {
                    slot: step as u32,
                    generation: 1,
                };
                let origin = from.as_ref().map(|(peer, port, bytes)| Origin {
                    peer: *peer,
                    port,
                    bytes: *bytes,
                });
                let info = info.clone();
                let link = None;
                part.push(&SeenClient { key, link, info }, origin);
            }
            part.now_ms = 100 + step as u64;
            rows.append(&mut part);
            assert_eq!(part.len(), 0);
        }
        assert_eq!((rows.len(), rows.now_ms), (6, 102));
        for (place, (info, from)) in sessions.iter().enumerate() {
            let seen = rows.seen(place);
            assert_eq!(seen.slot as usize, place / 2);
            let from = from
                .as_ref()
                .map(|(peer, port, bytes)| ((*peer, port.url.to_string()), *bytes));
            let expected = text(
                info,
                (
                    from.clone().map(|it| it.0),
                    from.map(|it| it.1).unwrap_or_default(),
                ),
            );
            let origin = seen.origin.map(|(peer, url)| (peer, url.to_owned()));
            assert_eq!(text(&seen.info, (origin, seen.bytes)), expected);
        }
        assert_eq!(*rows.ranks(), [1, 2, 0, 5, 3, 4]);
    }

    #[test]
    fn a_row_is_small() {
        assert!(size_of::<Row>() <= 112, "{}", size_of::<Row>());
    }
}
