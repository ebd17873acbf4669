//! Events on their way from the shards to the log.
//!
//! A shard writes no files: it leaves an entry in a bounded queue, and a thread of its own turns
//! entries into log lines. When the queue is full entries are dropped and counted, never waited
//! for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use stentor_auth::store::Directory;
use stentor_hub::{Event, Full, NotKept};
use stentor_mqtt::Version;
use stentor_session::{CloseReason, Limit};
use tracing::{info, warn};

use super::LongTurn;
use super::administered::note_administered;
use super::by_http::{AuditPaces, ByHttp};
use super::denied::write_denied;
use super::events::{Events, Noted};
use super::remedy::{Scene, remedy};
use super::tallies::Tallies;
use super::waiting::Waiting;
use crate::bans::{Counts, Flapping};
use crate::listener::Port;
use crate::log::{Admission, RateLimit};
use crate::peer::Peer;
use crate::transport::Fault;

/// Lines about refused clients in a period, for each reason; what is above is counted and told
/// with the next line.
const REFUSALS_MAX: u32 = 10;
const REFUSALS_PERIOD: Duration = Duration::from_secs(10);

/// How long the thread sleeps without being woken.
const NAP: Duration = Duration::from_millis(500);

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Entry {
    /// Something about a session, with the other end and the listener of its connection if there
    /// is one.
    Session(Event, Option<(Peer, Arc<Port>)>),
    /// What an administrator has done, with the name of the zone: for the audit log.
    Administered(Event, String),
    /// A connection was not let in.
    Refused {
        /// The other end.
        peer: Peer,
        /// The listener.
        port: Arc<Port>,
        /// The identity that it claimed.
        user: Claim,
        /// The client id, as far as it was read.
        client_id: Box<str>,
        /// What was wrong below MQTT.
        fault: Option<Fault>,
        /// Why.
        reason: CloseReason,
    },
    /// A request by HTTP was refused, or somebody has logged in there.
    ByHttp(Box<ByHttp>),
    /// Somebody was banned, or is no longer.
    Banned(Box<Noted>),
    /// A turn of a shard was long, and this many more before it that nothing was said of.
    LongTurn(LongTurn, u64),
    /// A connection found no descriptor, or was lost on its way between shards.
    Shed {
        /// What happened.
        what: &'static str,
    },
}

/// The identity that a refused client claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It did not say.
    Nobody,
    /// The user that its CONNECT names.
    Named(Box<str>),
    /// The user that its certificate names.
    Certified(Box<str>),
}

impl Claim {
    /// The name; empty without one.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Nobody => "",
            Self::Named(name) | Self::Certified(name) => name,
        }
    }
}

/// The queue of entries. Shared by all shards.
#[derive(Debug, Clone)]
pub(crate) struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// For the commands that lines propose.
    data_dir: PathBuf,
    entries: Waiting,
    tallies: Tallies,
    events: Events,
    flapping: Flapping,
    dropped: AtomicU64,
    /// How many of these the log has told of.
    dropped_told: AtomicU64,
    writer: OnceLock<Thread>,
    /// The owner of the audit log.
    audit: OnceLock<Weak<Directory>>,
}

impl Journal {
    /// An empty journal without a writer, of the server on this data folder.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self(Arc::new(Inner {
            data_dir: data_dir.to_owned(),
            entries: Waiting::default(),
            tallies: Tallies::default(),
            events: Events::default(),
            flapping: Flapping::default(),
            dropped: AtomicU64::new(0),
            dropped_told: AtomicU64::new(0),
            writer: OnceLock::new(),
            audit: OnceLock::new(),
        }))
    }

    /// Leaves an entry, and counts it; wakes nobody.
    pub(crate) fn note(&self, entry: Entry) {
        self.0.tallies.count(&entry);
        if !self.0.entries.push(entry) {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The data folder of the server.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.0.data_dir
    }

    /// What was counted since the start.
    pub(crate) fn tallies(&self) -> &Tallies {
        &self.0.tallies
    }

    /// The last events of connections.
    pub(crate) fn events(&self) -> &Events {
        &self.0.events
    }

    /// How often clients may connect, and those who connect more often.
    pub(crate) fn flapping(&self) -> &Flapping {
        &self.0.flapping
    }

    /// Entries that found no room since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Wakes the writer: once per turn that noted something.
    pub(crate) fn wake(&self) {
        if let Some(writer) = self.0.writer.get() {
            writer.unpark();
        }
    }

    /// What belongs into the audit log goes there from now on.
    pub(crate) fn audit_by(&self, directory: &Arc<Directory>) {
        // Said once.
        let _ = self.0.audit.set(Arc::downgrade(directory));
    }

    /// Starts the thread that writes log lines until the process ends.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let journal = self.clone();
        let handle = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || {
                let mut pace = Paces::default();
                loop {
                    journal.write_all(&mut pace);
                    std::thread::park_timeout(NAP);
                }
            })?;
        // Started once.
        let _ = self.0.writer.set(handle.thread().clone());
        Ok(())
    }

    /// Writes what is there now.
    pub(crate) fn flush(&self) {
        self.write_all(&mut Paces::default());
    }

    /// That entries are missing is said before the next one is written: whoever reads on knows at
    /// once that he does not see everything. While more are lost, one line a second says so.
    fn write_all(&self, pace: &mut Paces) {
        while let Some(entry) = self.0.entries.pop() {
            if self.untold() > 0 && pace.written.admit_loss() {
                self.tell_dropped();
            }
            if let Entry::Administered(event, zone) = &entry {
                let directory = self.0.audit.get().and_then(Weak::upgrade);
                if let Some(directory) = directory {
                    note_administered(&directory, event, zone);
                }
                continue;
            }
            if let Entry::ByHttp(request) = &entry
                && let Some(directory) = self.0.audit.get().and_then(Weak::upgrade)
            {
                request.audit(&directory, &mut pace.audited);
            }
            self.0.events.note(&entry, &self.0.data_dir, &mut pace.kept);
            self.count_connection(&entry, &mut pace.connections);
            write(&entry, &self.0.data_dir, &mut pace.written);
        }
        if self.untold() > 0 {
            self.tell_dropped();
        }
    }

    /// Counts a connection of a client that has an address.
    fn count_connection(&self, entry: &Entry, counts: &mut Counts) {
        let Entry::Session(event, Some((peer, _))) = entry else {
            return;
        };
        if let Event::Connected {
            zone, client_id, ..
        } = event
            && peer.address().is_some()
        {
            self.0.flapping.note(counts, *zone, client_id);
        }
    }

    /// Entries that were dropped since the log said so last.
    fn untold(&self) -> u64 {
        let told = self.0.dropped_told.load(Ordering::Relaxed);
        self.dropped().saturating_sub(told)
    }

    fn tell_dropped(&self) {
        let dropped = self.untold();
        self.0.dropped_told.fetch_add(dropped, Ordering::Relaxed);
        warn!(
            dropped,
            "events are missing from this log: more happened than could be written"
        );
    }
}

/// What limits the lines of the log, what limits the events that are kept, and how often clients
/// have connected.
#[derive(Debug)]
struct Paces {
    written: Pace,
    kept: Pace,
    connections: Counts,
    audited: AuditPaces,
}

impl Default for Paces {
    fn default() -> Self {
        Self {
            written: Pace::of(REFUSALS_MAX),
            kept: Events::pace(),
            connections: Counts::default(),
            audited: AuditPaces::default(),
        }
    }
}

/// Limits the lines about refusals, for each reason apart.
#[derive(Debug)]
pub(super) struct Pace {
    /// Of each reason, in a period.
    lines_max: u32,
    limits: HashMap<(&'static str, &'static str), RateLimit>,
}

impl Pace {
    /// A limit on the lines of each reason in a period.
    pub(super) fn of(lines_max: u32) -> Self {
        Self {
            lines_max,
            limits: HashMap::new(),
        }
    }

    /// Whether a line about missing entries is written now.
    fn admit_loss(&mut self) -> bool {
        let limit = RateLimit::new(1, Duration::from_secs(1));
        let limit = self.limits.entry(("", "journal")).or_insert(limit);
        matches!(limit.admit(Instant::now()), Admission::Write { .. })
    }

    /// Whether a line for this reason is written now, and how many were not since the last one.
    pub(super) fn admit(&mut self, label: &'static str) -> Option<u64> {
        self.admit_of("", label)
    }

    /// The same of reasons that have words of their own.
    pub(super) fn admit_of(&mut self, kind: &'static str, label: &'static str) -> Option<u64> {
        let limit = RateLimit::new(self.lines_max, REFUSALS_PERIOD);
        let limit = self.limits.entry((kind, label)).or_insert(limit);
        match limit.admit(Instant::now()) {
            Admission::Write { held_back } => Some(held_back),
            Admission::HoldBack => None,
        }
    }
}

/// Bytes of a name that a line shows: a client chooses it, and lines stay lines.
const SHOWN_BYTES_MAX: usize = 256;

/// As much of a client id, user name, topic or filter as a line shows.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    if name.len() <= SHOWN_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    let end = name.floor_char_boundary(SHOWN_BYTES_MAX);
    Cow::Owned(format!("{}… ({} bytes)", &name[..end], name.len()))
}

const fn version_name(version: Version) -> &'static str {
    match version {
        Version::V31 => "3.1",
        Version::V311 => "3.1.1",
        Version::V5 => "5.0",
    }
}

fn write(entry: &Entry, data_dir: &Path, pace: &mut Pace) {
    match entry {
        Entry::Session(event, origin) => {
            let (peer, listener) = match origin {
                Some((peer, port)) => (peer.to_string(), port.url.to_string()),
                None => (String::new(), String::new()),
            };
            write_event(event, &peer, &listener, pace);
        }
        Entry::Refused {
            peer,
            port,
            user,
            client_id,
            fault,
            reason,
        } => {
            if let Some(held_back) = pace.admit(reason.label()) {
                let rules = port.rules.load();
                let scene = Scene {
                    url: &port.url,
                    rules: &rules,
                    claim: user,
                    fault: fault.as_ref(),
                    data_dir,
                };
                let remedy = remedy(*reason, &scene);
                let (client, user) = (&*shown(client_id), &*shown(user.name()));
                let (listener, reason) = (&port.url, reason.label());
                warn!(%peer, %listener, client, user, reason, held_back, "refused{remedy}");
            }
        }
        Entry::ByHttp(request) => request.write(pace),
        Entry::Banned(noted) => info!("a ban has changed: {}", noted.text),
        // It is in the audit log.
        Entry::Administered(..) => {}
        Entry::LongTurn(turn, more) => write_long_turn(turn, *more),
        Entry::Shed { what } => {
            if let Some(held_back) = pace.admit(what) {
                warn!(held_back, "{what}");
            }
        }
    }
}

/// A turn that mostly waited for a processor says more of the machine than of the server.
fn write_long_turn(turn: &LongTurn, more: u64) {
    let millis = |time: Duration| time.as_micros() as f64 / 1_000.0;
    let (took_ms, waited_ms) = (millis(turn.took), turn.waited.map(millis));
    let ran_ms = turn.ran.map(millis);
    let LongTurn {
        shard,
        visits,
        packets,
        deliveries,
        flushes,
        accepted,
        client_id,
        ..
    } = turn;
    let client = &*shown(client_id);
    macro_rules! tell {
        ($level:ident) => {
            $level!(
                shard,
                took_ms,
                waited_ms,
                ran_ms,
                client,
                visits,
                packets,
                deliveries,
                flushes,
                accepted,
                more,
                "long turn"
            )
        };
    }
    if turn.waited.is_some_and(|waited| waited > turn.took / 2) {
        tell!(info);
    } else {
        tell!(warn);
    }
}

fn write_event(event: &Event, peer: &str, listener: &str, pace: &mut Pace) {
    match event {
        Event::Connected {
            client_id,
            user,
            version,
            session_present,
            ..
        } => {
            let (client, user) = (&*shown(client_id), &*shown(user.as_deref().unwrap_or("")));
            let (version, resumed) = (version_name(*version), session_present);
            info!(client, user, peer, listener, version, resumed, "connected");
        }
        Event::Disconnected { .. } => write_disconnected(event, peer, listener, pace),
        Event::AboveLimit { .. } => write_above_limit(event, pace),
        Event::Unreadable {
            client_id,
            messages,
        } => {
            let client = &*shown(client_id);
            warn!(
                client,
                messages, "messages that waited on the disk cannot be read, and are lost"
            );
        }
        Event::SessionExpired { client_id } => {
            info!(client = &*shown(client_id), "session expired");
        }
        Event::SessionEvicted {
            client_id,
            user,
            limit,
            most,
            messages,
        } => {
            if let Some(held_back) = pace.admit("session-evicted") {
                let user = user.as_deref();
                write_evicted(client_id, user, *limit, *most, *messages, held_back);
            }
        }
        Event::PublishDenied { .. } | Event::SubscribeDenied { .. } => write_denied(event, pace),
        // It is in the audit log.
        Event::Administered { .. } => {}
        Event::NotKept { .. } | Event::NotTaken { .. } => write_unkept(event, pace),
        Event::Losing {
            client_id,
            topic,
            cause,
            full,
        } => {
            if let Some(held_back) = pace.admit("losing") {
                let (client, topic) = (&*shown(client_id), &*shown(topic));
                let why = losing(cause, *full);
                warn!(client, topic, cause, held_back, "loses messages{why}");
            }
        }
    }
}

/// The end of a connection: a warning if a limit is why, with what to do.
fn write_disconnected(event: &Event, peer: &str, listener: &str, pace: &mut Pace) {
    let Event::Disconnected {
        client_id: client,
        user,
        connected_secs: secs,
        reason,
        limit,
        ..
    } = event
    else {
        return;
    };
    let (client, user) = (&*shown(client), &*shown(user.as_deref().unwrap_or("")));
    let remedy = at_limit(*reason);
    let reason = reason.label();
    let limit = limit.as_deref();
    // Each end has its line; the pace of its reason decides whether it is a warning.
    match limit.and_then(|limit| Some((limit, pace.admit(reason)?))) {
        Some((limit, held_back)) => warn!(
            client,
            user, peer, listener, reason, secs, held_back, "disconnected: {limit}; {remedy}"
        ),
        None => info!(client, user, peer, listener, reason, secs, "disconnected"),
    }
}

/// A client that gets no more subscriptions.
fn write_above_limit(event: &Event, pace: &mut Pace) {
    if let Event::AboveLimit {
        what,
        client_id,
        user,
        bound,
    } = event
        && let Some(held_back) = pace.admit("above-limit")
    {
        let (client, user) = (&*shown(client_id), &*shown(user.as_deref().unwrap_or("")));
        warn!(
            client,
            user, held_back, "{what} was refused: {bound}; use less, or raise it"
        );
    }
}

/// What to do about a client that met a limit and was disconnected.
pub(super) const fn at_limit(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Limit(Limit::QueueBytes) => {
            "read faster, raise it, or choose another [[policy]]"
        }
        CloseReason::Limit(Limit::PacketBytes) => "send smaller messages, or raise it",
        CloseReason::Limit(Limit::ReceiveMaximum) => {
            "the client has to wait for acknowledgements, as MQTT says: update its library, or \
             raise it"
        }
        _ => "update the client's library, or raise it",
    }
}

/// Why a client loses messages, and what to do.
pub(super) fn losing(cause: &str, full: Option<Full>) -> Cow<'static, str> {
    let why = match cause {
        "drop-newest" | "drop-oldest" => return full.map_or(Cow::Borrowed(""), told_full),
        "disconnect" => ": it read too slowly, and its [[policy]] is to disconnect",
        "packet-too-large" => ": they are larger than the maximum packet size that it asked for",
        "expired" => ": they expired while they waited",
        _ => "",
    };
    why.into()
}

/// The bound of a queue that was met, and what to do.
fn told_full(full: Full) -> Cow<'static, str> {
    match full {
        Full::Messages(most) => format!(
            ": its queue is full: {most} messages wait (`limits.queue_messages`); read faster, or \
             raise that key"
        )
        .into(),
        Full::Bytes(most) => format!(
            ": its queue is full: {most} bytes may wait (`limits.queue_bytes`); read faster, or \
             raise that key"
        )
        .into(),
        Full::Quota(most) => format!(
            ": its queue is full: {most} bytes may wait, by the quota of its roles; read faster, or \
             `stentor role change ROLE --queued-bytes N`"
        )
        .into(),
        Full::Queue(messages, bytes) => format!(
            ": the queue is full: {messages} messages and {bytes} bytes may wait (`messages` and \
             `bytes` of its [[queue]]); have more members take them, or raise those keys"
        )
        .into(),
        Full::Memory => ": memory is short (`limits.memory`), so little may wait for each client; \
                         read faster, or raise that key"
            .into(),
    }
}

fn write_evicted(
    client_id: &str,
    user: Option<&str>,
    limit: Limit,
    most: u64,
    messages: u64,
    held_back: u64,
) {
    let limit = match limit {
        Limit::Memory => format!("`limits.memory` ({most} bytes) is nearly reached"),
        _ => format!("`limits.sessions` ({most}) is reached"),
    };
    let lost = match messages {
        0 => String::new(),
        1 => "; the message that waited in it is lost".to_owned(),
        _ => format!("; the {messages} messages that waited in it are lost"),
    };
    let (client, user) = (&*shown(client_id), &*shown(user.unwrap_or("")));
    warn!(
        client,
        user,
        held_back,
        "session without a connection ended early: {limit}, and its user or address holds most{lost}"
    );
}

/// What became of a message that the retained store does not take.
fn write_unkept(event: &Event, pace: &mut Pace) {
    let (what, label) = match event {
        Event::NotKept { .. } => (
            "a message was delivered but is not kept for late subscribers",
            "not-kept",
        ),
        _ => ("a message was refused", "not-taken"),
    };
    if let Event::NotKept {
        client_id,
        topic,
        why,
        bound,
        trouble,
    }
    | Event::NotTaken {
        client_id,
        topic,
        why,
        bound,
        trouble,
    } = event
        && let Some(held_back) = pace.admit(label)
    {
        let (client, topic) = (&*shown(client_id), &*shown(topic));
        let why = no_room(*why, bound.as_deref(), trouble.as_deref());
        warn!(client, topic, held_back, "{what}: {why}");
    }
}

/// Why the store does not take a message, and what to do: quotas do not help a full disk.
fn no_room(why: NotKept, bound: Option<&str>, trouble: Option<&str>) -> String {
    match (why, trouble) {
        (NotKept::Memory, _) => format!(
            "`limits.memory` is reached{}; raise it, or see in `stentor status` which clients hold \
             most",
            valued(bound)
        ),
        (NotKept::Sessions, _) => "the disk of the sessions is full, or has all that \
                                  `sessions.bytes` allows; free space on the disk of \
                                  `sessions.dir`, or raise the bound"
            .into(),
        (NotKept::Backlogs, _) => "messages that wait for sessions of its user or address take as \
                                   much of `sessions.bytes`, or of `sessions.zone_bytes`, as one \
                                   may have; end sessions that nobody needs (`stentor sessions ls \
                                   --by bytes`), or raise the bound"
            .into(),
        (_, Some(trouble)) => format!(
            "the retained store cannot write ({trouble}); free space on its disk, correct the \
             error, or clear topics with `stentor retained clear`"
        ),
        _ => format!(
            "a bound of the retained store is reached{}; raise {}, or clear topics with `stentor \
             retained clear`",
            valued(bound),
            match bound {
                Some(_) => "it",
                None => "`retained.messages`, `retained.bytes`, `zone_messages` or `zone_bytes`",
            }
        ),
    }
}

/// A bound with its value, in brackets, where it is known.
fn valued(bound: Option<&str>) -> String {
    bound.map_or_else(String::new, |bound| format!(" ({bound})"))
}

#[cfg(test)]
mod tests {
    use super::super::waiting::ENTRIES_MAX;
    use super::*;

    #[test]
    fn a_full_journal_drops_and_counts() {
        let journal = Journal::new(Path::new("data"));
        for _ in 0..ENTRIES_MAX + 5 {
            journal.note(Entry::Shed { what: "test" });
        }
        journal.flush();
        assert_eq!(journal.dropped(), 5);
        assert_eq!(journal.0.dropped_told.load(Ordering::Relaxed), 5);
        assert!(journal.0.entries.is_empty());
    }

    #[test]
    fn a_bound_that_leaves_no_room_is_told_with_its_value() {
        for (why, bound, says) in [
            (
                NotKept::Full,
                Some("retained.messages is 3"),
                "is reached (retained.messages is 3); raise it",
            ),
            (NotKept::Full, None, "`zone_bytes`"),
            (
                NotKept::Memory,
                Some("limits.memory is 9 bytes"),
                "is reached (limits.memory is 9 bytes); raise it",
            ),
            (NotKept::Sessions, None, "`sessions.dir`"),
            (NotKept::Backlogs, None, "`sessions.zone_bytes`"),
        ] {
            let text = no_room(why, bound, None);
            assert!(text.contains(says), "{text}");
        }
    }

    #[test]
    fn a_long_name_does_not_make_a_long_line() {
        assert_eq!(shown("sensor"), "sensor");
        let long = shown(&"ä".repeat(30_000)).into_owned();
        assert!(long.ends_with("ä… (60000 bytes)"), "{long}");
        assert!(long.len() < SHOWN_BYTES_MAX + 20);
    }

    #[test]
    fn each_reason_has_a_pace_of_its_own() {
        let mut pace = Pace::of(REFUSALS_MAX);
        let admitted = (0..100)
            .filter_map(|_| pace.admit("bad-credentials"))
            .count();
        assert_eq!(admitted, REFUSALS_MAX as usize);
        assert_eq!(pace.admit("login-required"), Some(0));
    }
}
