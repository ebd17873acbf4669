//! Events on their way from the shards to the log.
//!
//! A shard writes no files: it leaves an entry in a bounded queue, and a thread of its own turns
//! entries into log lines. When the queue is full entries are dropped and counted, never waited
//! for.

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

use crate::listener::Port;
use crate::peer::Peer;

/// Entries that wait at most: a storm of 5,000 connects with two events each, and room.
const WAITING_MAX: usize = 16_384;

/// Lines about refused clients per second; what is above is counted in one line.
const REFUSALS_PER_SEC: u32 = 10;

/// How long the thread sleeps without being woken.
const NAP: Duration = Duration::from_millis(500);

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Entry {
    /// Something about a session, with the other end of its connection if there is one.
    Session(Event, Option<Peer>),
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
    writer: OnceLock<Thread>,
}

impl Journal {
    /// An empty journal without a writer.
    pub(crate) fn new() -> Self {
        let entries = ArrayQueue::new(WAITING_MAX);
        Self(Arc::new(Inner { entries, dropped: AtomicU64::new(0), writer: OnceLock::new() }))
    }

    /// Leaves an entry; wakes nobody.
    pub(crate) fn note(&self, entry: Entry) {
        if self.0.entries.push(entry).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
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
        let handle = std::thread::Builder::new().name("journal".into()).spawn(move || {
            let mut pace = Pace::new(Instant::now());
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
        self.write_all(&mut Pace::new(Instant::now()));
    }

    fn write_all(&self, pace: &mut Pace) {
        while let Some(entry) = self.0.entries.pop() {
            write(&entry, pace);
        }
        let dropped = self.0.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            warn!(dropped, "log entries were dropped: more came than could be written");
        }
        pace.tick(Instant::now());
    }
}

/// Limits the lines about refusals.
#[derive(Debug)]
struct Pace {
    second: Instant,
    written: u32,
    suppressed: HashMap<&'static str, u64>,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { second: now, written: 0, suppressed: HashMap::new() }
    }

    /// Whether another line may be written now; if not, it is counted.
    fn admit(&mut self, label: &'static str) -> bool {
        self.tick(Instant::now());
        if self.written < REFUSALS_PER_SEC {
            self.written += 1;
            return true;
        }
        *self.suppressed.entry(label).or_default() += 1;
        false
    }

    fn tick(&mut self, now: Instant) {
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            self.second = now;
            self.written = 0;
            for (reason, count) in self.suppressed.drain() {
                warn!(reason, count, "more clients were refused");
            }
        }
    }
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
        Entry::Session(event, peer) => {
            let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
            write_event(event, &peer);
        }
        Entry::Refused { peer, port, user, client_id, reason } => {
            if pace.admit(reason.label()) {
                let user = user.as_deref().unwrap_or("");
                let remedy = remedy(*reason, &port.url.to_string(), user);
                let (client, reason) = (&**client_id, reason.label());
                warn!(%peer, listener = %port.url, client, user, reason, "refused{remedy}");
            }
        }
        Entry::Shed { what } => {
            if pace.admit(what) {
                warn!("{what}");
            }
        }
    }
}

fn write_event(event: &Event, peer: &str) {
    match event {
        Event::Connected { client_id, user, version, session_present, .. } => {
            let (client, user) = (&**client_id, user.as_deref().unwrap_or(""));
            let version = version_name(*version);
            info!(client, user, peer, version, resumed = session_present, "connected");
        }
        Event::Disconnected { client_id, reason, .. } => {
            let (client, reason) = (&**client_id, reason.label());
            info!(client, peer, reason, "disconnected");
        }
        Event::SessionExpired { client_id } => info!(client = &**client_id, "session expired"),
        Event::PublishDenied { client_id, topic } => {
            warn!(client = &**client_id, topic = &**topic, "publish not permitted");
        }
        Event::SubscribeDenied { client_id, filter } => {
            warn!(client = &**client_id, filter = &**filter, "subscribe not permitted");
        }
        Event::Losing { client_id, topic, cause } => {
            let (client, topic) = (&**client_id, &**topic);
            warn!(client, topic, cause, "reads too slowly and loses messages");
        }
    }
}

/// What helps, for reasons where the operator can do something.
fn remedy(reason: CloseReason, url: &str, user: &str) -> String {
    match reason {
        CloseReason::Denied(Denied::Anonymous) => format!(
            ": it gave no user name; to let clients in without one, start with `stentor serve \
             --allow-anonymous` (this machine only) or set `anonymous = true` on the listener {url}"
        ),
        CloseReason::Denied(Denied::Credentials) => format!(
            ": wrong user name or password; `stentor hash-password` makes the `password_hash` of a \
             [[user]] entry named \"{user}\""
        ),
        CloseReason::Denied(Denied::Origin) => format!(
            ": the page's origin is not allowed; add it to `allowed_origins` of the listener {url}"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_journal_drops_and_counts() {
        let journal = Journal::new();
        for _ in 0..WAITING_MAX + 5 {
            journal.note(Entry::Shed { what: "test" });
        }
        assert_eq!(journal.0.dropped.load(Ordering::Relaxed), 5);
        journal.flush();
        assert_eq!(journal.0.dropped.load(Ordering::Relaxed), 0);
        assert!(journal.0.entries.is_empty());
    }

    #[test]
    fn refusals_are_paced_and_the_rest_is_counted() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let admitted = (0..100).filter(|_| pace.admit("bad-credentials")).count();
        // A slow machine may see a new second.
        assert!((10..=20).contains(&admitted), "{admitted}");
        pace.tick(start + Duration::from_secs(10));
        assert!(pace.suppressed.is_empty());
        assert!(pace.admit("bad-credentials"));
    }

    #[test]
    fn a_refused_login_says_what_mends_it() {
        let text = remedy(CloseReason::Denied(Denied::Anonymous), "mqtt://[::1]:1883", "");
        assert!(text.contains("--allow-anonymous") && text.contains("mqtt://[::1]:1883"));
    }
}
