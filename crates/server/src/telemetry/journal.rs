//! Events on their way from the shards to the log.
//!
//! A shard writes no files: it leaves an entry in a bounded queue, and a thread of its own turns
//! entries into log lines. When the queue is full entries are dropped and counted, never waited
//! for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use stentor_hub::Event;
use stentor_mqtt::Version;
use stentor_session::{CloseReason, Denied, Limit};
use tracing::{info, warn};

use crate::listener::{Port, Rules};
use crate::log::{Admission, RateLimit};
use crate::peer::Peer;

/// Entries that wait at most: a storm of 5,000 connects with two events each, and room.
const WAITING_MAX: usize = 16_384;

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
    /// A connection was not let in.
    Refused {
        /// The other end.
        peer: Peer,
        /// The listener.
        port: Arc<Port>,
        /// Who it claimed to be.
        user: Option<Box<str>>,
        /// The client id, as far as it was read.
        client_id: Box<str>,
        /// The origin of its page, where that was refused.
        origin: Option<Box<str>>,
        /// Why.
        reason: CloseReason,
    },
    /// A connection found no descriptor, or was lost on its way between shards.
    Shed {
        /// What happened.
        what: &'static str,
    },
}

/// The queue of entries. Shared by all shards.
#[derive(Debug, Clone)]
pub(crate) struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    entries: ArrayQueue<Entry>,
    dropped: AtomicU64,
    /// How many of these the log has told of.
    dropped_told: AtomicU64,
    writer: OnceLock<Thread>,
}

impl Journal {
    /// An empty journal without a writer.
    pub(crate) fn new() -> Self {
        let entries = ArrayQueue::new(WAITING_MAX);
        Self(Arc::new(Inner {
            entries,
            dropped: AtomicU64::new(0),
            dropped_told: AtomicU64::new(0),
            writer: OnceLock::new(),
        }))
    }

    /// Leaves an entry; wakes nobody.
    pub(crate) fn note(&self, entry: Entry) {
        if self.0.entries.push(entry).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
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

    /// Starts the thread that writes log lines until the process ends.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let journal = self.clone();
        let handle = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || {
                let mut pace = Pace::default();
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
        self.write_all(&mut Pace::default());
    }

    /// That entries are missing is said before the next one is written: whoever reads on knows at
    /// once that he does not see everything. While more are lost, one line a second says so.
    fn write_all(&self, pace: &mut Pace) {
        while let Some(entry) = self.0.entries.pop() {
            if self.untold() > 0 && pace.admit_loss() {
                self.tell_dropped();
            }
            write(&entry, pace);
        }
        if self.untold() > 0 {
            self.tell_dropped();
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

/// Limits the lines about refusals, for each reason apart.
#[derive(Debug, Default)]
struct Pace(HashMap<&'static str, RateLimit>);

impl Pace {
    /// Whether a line about missing entries is written now.
    fn admit_loss(&mut self) -> bool {
        let limit = RateLimit::new(1, Duration::from_secs(1));
        let limit = self.0.entry("journal").or_insert(limit);
        matches!(limit.admit(Instant::now()), Admission::Write { .. })
    }

    /// Whether a line for this reason is written now, and how many were not since the last one.
    fn admit(&mut self, label: &'static str) -> Option<u64> {
        let limit = RateLimit::new(REFUSALS_MAX, REFUSALS_PERIOD);
        match self.0.entry(label).or_insert(limit).admit(Instant::now()) {
            Admission::Write { held_back } => Some(held_back),
            Admission::HoldBack => None,
        }
    }
}

/// Bytes of a name that a line shows: a client chooses it, and lines stay lines.
const SHOWN_BYTES_MAX: usize = 256;

/// As much of a client id, user name, topic or filter as a line shows.
fn shown(name: &str) -> Cow<'_, str> {
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

fn write(entry: &Entry, pace: &mut Pace) {
    match entry {
        Entry::Session(event, origin) => {
            let (peer, listener) = match origin {
                Some((peer, port)) => (peer.to_string(), port.url.to_string()),
                None => (String::new(), String::new()),
            };
            write_event(event, (&peer, &listener), pace);
        }
        Entry::Refused {
            peer,
            port,
            user,
            client_id,
            origin,
            reason,
        } => {
            if let Some(held_back) = pace.admit(reason.label()) {
                let user = &*shown(user.as_deref().unwrap_or(""));
                let origin = shown(origin.as_deref().unwrap_or(""));
                let remedy = remedy(*reason, &port.url.to_string(), (user, &origin));
                let hint = certificate_hint(*reason, &port.rules.load());
                let (client, reason) = (&*shown(client_id), reason.label());
                let listener = &port.url;
                warn!(%peer, %listener, client, user, reason, held_back, "refused{remedy}{hint}");
            }
        }
        Entry::Shed { what } => {
            if let Some(held_back) = pace.admit(what) {
                warn!(held_back, "{what}");
            }
        }
    }
}

fn write_event(event: &Event, (peer, listener): (&str, &str), pace: &mut Pace) {
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
        Event::Disconnected {
            client_id,
            user,
            connected_secs,
            reason,
            ..
        } => {
            let (client, user) = (&*shown(client_id), &*shown(user.as_deref().unwrap_or("")));
            let (secs, reason) = (connected_secs, reason.label());
            info!(client, user, peer, listener, reason, secs, "disconnected");
        }
        Event::SessionExpired { client_id } => {
            info!(client = &*shown(client_id), "session expired");
        }
        Event::PublishDenied { client_id, topic } => {
            if let Some(held_back) = pace.admit("publish-denied") {
                let (client, topic) = (&*shown(client_id), &*shown(topic));
                warn!(client, topic, held_back, "publish not permitted");
            }
        }
        Event::SubscribeDenied { client_id, filter } => {
            if let Some(held_back) = pace.admit("subscribe-denied") {
                let (client, filter) = (&*shown(client_id), &*shown(filter));
                warn!(client, filter, held_back, "subscribe not permitted");
            }
        }
        Event::Losing {
            client_id,
            topic,
            cause,
        } => {
            if let Some(held_back) = pace.admit("losing") {
                let (client, topic) = (&*shown(client_id), &*shown(topic));
                warn!(client, topic, cause, held_back, "loses messages");
            }
        }
    }
}

/// What helps, for reasons where the operator can do something.
fn remedy(reason: CloseReason, url: &str, (user, origin): (&str, &str)) -> String {
    match reason {
        CloseReason::Denied(Denied::Anonymous) => format!(
            ": it gave no user name; to let clients in without one, start with `stentor serve \
             --allow-anonymous` (this machine only) or set `anonymous = true` on the listener {url}"
        ),
        CloseReason::Denied(Denied::Credentials) => format!(
            ": wrong user name or password; `stentor user show {user:?}` tells whether there is such \
             a user, `stentor user add` and `stentor user set-password` give it a password"
        ),
        CloseReason::Denied(Denied::Origin) => format!(
            ": a page of {origin:?} may not connect here; to let it, add that origin to \
             `allowed_origins` of the listener {url}"
        ),
        CloseReason::Limit(Limit::Connections) => {
            ": raise `limits.connections`, the limit on open files (LimitNOFILE), or --shards"
                .to_owned()
        }
        CloseReason::Limit(Limit::ConnectionsPerAddress) => {
            ": raise `limits.connections_per_address`".to_owned()
        }
        CloseReason::Limit(Limit::ConnectionRate) => ": raise `limits.connection_rate`".to_owned(),
        _ => String::new(),
    }
}

/// What helps where clients show certificates from which nobody takes a name.
fn certificate_hint(reason: CloseReason, rules: &Rules) -> &'static str {
    let is_nameless = reason == CloseReason::Denied(Denied::Anonymous);
    if is_nameless && rules.asks_certificates && rules.certificate_name.is_none() {
        "; to take the name in its certificate for its user's, set `certificate_user = \"cn\"` there"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_journal_drops_and_counts() {
        let journal = Journal::new();
        for _ in 0..WAITING_MAX + 5 {
            journal.note(Entry::Shed { what: "test" });
        }
        journal.flush();
        assert_eq!(journal.dropped(), 5);
        assert_eq!(journal.0.dropped_told.load(Ordering::Relaxed), 5);
        assert!(journal.0.entries.is_empty());
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
        let mut pace = Pace::default();
        let admitted = (0..100)
            .filter_map(|_| pace.admit("bad-credentials"))
            .count();
        assert_eq!(admitted, REFUSALS_MAX as usize);
        assert_eq!(pace.admit("login-required"), Some(0));
    }

    #[test]
    fn a_refused_login_says_what_mends_it() {
        let text = remedy(
            CloseReason::Denied(Denied::Anonymous),
            "mqtt://[::1]:1883",
            ("", ""),
        );
        assert!(text.contains("--allow-anonymous") && text.contains("mqtt://[::1]:1883"));
    }
}
