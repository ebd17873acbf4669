//! What `stentor retained` asks for: answered by a running server on its control socket, and for a
//! stopped one by the command itself.

mod line;
mod offline;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use stentor_hub::{Cursor, NotKept, Retained, Walk};
use stentor_retained::disk::MappedDisk;
use stentor_retained::{Store, Verified};
use stentor_session::{Message, Tick};
use stentor_topic::{Zone, has_wildcard, validate_filter};

use line::Line;
pub use offline::{OfflineError, OfflineStore};

/// Topics visited under one lock.
const VISITS: usize = 1_000;
/// A page ends when it holds so many messages, or so many bytes of payload.
const PAGE_MESSAGES: usize = 1_000;
const PAGE_BYTES: usize = 1 << 20;

/// Clears all messages of a zone, page by page; returns how many there were.
///
/// # Errors
/// When one cannot be cleared.
pub(crate) fn clear_zone<E>(
    zone: Zone,
    ask: impl Fn(&Value) -> Result<Value, E>,
) -> Result<u64, E> {
    let (mut cleared, mut cursor) = (0, Value::Null);
    loop {
        let mut page = ask(&json!({
            "verb": "retained.clear", "zone": zone.get(), "filter": "#", "cursor": cursor,
        }))?;
        cleared += page["cleared"].as_u64().unwrap_or_default();
        cursor = page["cursor"].take();
        if cursor.is_null() {
            return Ok(cleared);
        }
    }
}

/// A request; each verb looks at what it needs.
#[derive(Debug, Default, Deserialize)]
struct Request {
    #[serde(default)]
    verb: String,
    /// The number of a zone.
    #[serde(default)]
    zone: u32,
    /// For `retained.page` and `retained.clear`.
    #[serde(default)]
    filter: String,
    /// Where the last page ended.
    #[serde(default)]
    cursor: Option<At>,
    /// For `retained.put`.
    #[serde(default)]
    messages: Vec<Value>,
    /// For `retained.put`: only compare.
    #[serde(default)]
    dry_run: bool,
    /// For `retained.verify`: which part of the store.
    #[serde(default)]
    stripe: usize,
}

/// How far a list has come.
#[derive(Debug, Deserialize)]
struct At {
    stripe: u16,
    after: Option<Box<str>>,
}

/// Why a request is refused: a code for programs, and a sentence.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

fn refuse(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal {
        code,
        message: message.into(),
    }
}

/// A message to keep, and when it was received, in milliseconds since 1970; `None` for now.
pub(crate) type Entry = (Arc<Message>, Option<u64>);

/// What a request to keep messages came to.
#[derive(Default)]
struct Tally {
    new: u64,
    changed: u64,
    same: u64,
    refused: Vec<Value>,
}

impl Tally {
    fn count(&mut self, is_known: bool) {
        if is_known {
            self.changed += 1;
        } else {
            self.new += 1;
        }
    }
}

/// Messages that are about to be kept.
#[derive(Default)]
struct Pending {
    entries: Vec<Entry>,
    /// Of each: its topic, and whether that holds a message now.
    notes: Vec<(Zone, String, bool)>,
}

impl Pending {
    fn has(&self, zone: Zone, topic: &str) -> bool {
        let is_it = |(of, name, _): &(Zone, String, bool)| (*of, &**name) == (zone, topic);
        self.notes.iter().any(is_it)
    }

    fn push(&mut self, line: Line, is_known: bool, now: Tick) {
        self.entries
            .push((Arc::new(line.message(now)), line.received_ms));
        self.notes.push((Zone(line.zone), line.topic, is_known));
    }
}

/// Why a message is refused, for people.
fn reason(why: NotKept) -> &'static str {
    match why {
        NotKept::Full => "there is no room: a quota is used up, or the disk is full",
        NotKept::Failed => "the disk does not take it; the server's log says why",
    }
}

/// Where the next page begins.
fn next(is_done: bool, cursor: &Cursor) -> Option<Value> {
    (!is_done).then(|| json!({ "stripe": cursor.stripe, "after": cursor.after }))
}

impl Request {
    fn cursor(&self) -> Cursor {
        let at = self.cursor.as_ref();
        at.map_or_else(Cursor::default, |at| Cursor {
            stripe: at.stripe,
            after: at.after.clone(),
        })
    }
}

/// A store to answer from.
pub(crate) struct Desk<'a> {
    pub(crate) store: &'a Store<MappedDisk>,
    pub(crate) now: Tick,
    /// Keeps messages, and sends them to those who are subscribed; an outcome for each.
    pub(crate) keep: &'a dyn Fn(Vec<Entry>) -> Vec<Result<(), NotKept>>,
}

impl Desk<'_> {
    /// Answers a request: one whose verb begins with `retained.`.
    pub(crate) fn answer(&self, request: &[u8]) -> Result<Value, Refusal> {
        let request: Request = serde_json::from_slice(request)
            .map_err(|error| refuse("bad-request", error.to_string()))?;
        match request.verb.as_str() {
            "retained.page" => self.page(&request),
            "retained.put" => self.put(&request),
            "retained.clear" => self.clear(&request),
            "retained.status" => Ok(self.status()),
            "retained.verify" => Ok(self.verify(&request)),
            "retained.compact" => Ok(json!({ "files_removed": self.store.compact() })),
            verb => Err(refuse(
                "unknown-verb",
                format!(
                    "there is no verb {verb:?}; there are retained.page, put, clear, status, \
                     verify and compact"
                ),
            )),
        }
    }

    /// Messages that match a filter, from a cursor on.
    fn find(
        &self,
        zone: Zone,
        filter: &str,
        cursor: &mut Cursor,
    ) -> Result<(Vec<Arc<Message>>, bool), Refusal> {
        validate_filter(filter).map_err(|error| {
            refuse(
                "bad-request",
                format!("{filter:?} is no topic filter: {error}"),
            )
        })?;
        let mark = self.store.mark();
        if !has_wildcard(filter) {
            let found = self.store.get(zone, filter, mark, self.now);
            return Ok((found.into_iter().collect(), true));
        }
        let (mut found, mut bytes) = (Vec::new(), 0);
        let scope = (mark, self.now);
        loop {
            let before = found.len();
            let walk = self
                .store
                .walk(zone, filter, scope, cursor, VISITS, &mut found);
            bytes += found[before..]
                .iter()
                .map(|message| message.payload().len())
                .sum::<usize>();
            if walk == Walk::Done {
                return Ok((found, true));
            }
            if found.len() >= PAGE_MESSAGES || bytes >= PAGE_BYTES {
                return Ok((found, false));
            }
        }
    }

    fn page(&self, request: &Request) -> Result<Value, Refusal> {
        let mut cursor = request.cursor();
        let (found, is_done) = self.find(Zone(request.zone), &request.filter, &mut cursor)?;
        let lines: Vec<Value> = found
            .iter()
            .map(|message| Line::of(message, self.store, self.now).into_json())
            .collect();
        Ok(json!({ "messages": lines, "cursor": next(is_done, &cursor) }))
    }

    /// Keeps messages; those that are there already, the same in every byte, are left alone.
    fn put(&self, request: &Request) -> Result<Value, Refusal> {
        let lines = request.messages.iter().enumerate().map(|(at, value)| {
            Line::from_json(value, Zone(request.zone))
                .map_err(|reason| refuse("bad-request", format!("message {}: {reason}", at + 1)))
        });
        // All are looked at before the first is kept.
        let lines = lines.collect::<Result<Vec<Line>, Refusal>>()?;
        let mut tally = Tally::default();
        let mut pending = Pending::default();
        for line in lines {
            let zone = Zone(line.zone);
            if pending.has(zone, &line.topic) {
                // It has to be compared with what that one leaves.
                self.keep_all(&mut pending, &mut tally);
            }
            let mark = self.store.mark();
            let known = self.store.get(zone, &line.topic, mark, self.now);
            if known.as_ref().is_some_and(|known| line.is(known)) {
                tally.same += 1;
            } else if request.dry_run {
                tally.count(known.is_some());
            } else {
                pending.push(line, known.is_some(), self.now);
            }
        }
        self.keep_all(&mut pending, &mut tally);
        Ok(json!({
            "new": tally.new,
            "changed": tally.changed,
            "same": tally.same,
            "refused": tally.refused,
        }))
    }

    fn keep_all(&self, pending: &mut Pending, tally: &mut Tally) {
        let Pending { entries, notes } = std::mem::take(pending);
        if entries.is_empty() {
            return;
        }
        for ((_, topic, is_known), kept) in notes.into_iter().zip((self.keep)(entries)) {
            match kept {
                Ok(()) => tally.count(is_known),
                Err(why) => tally
                    .refused
                    .push(json!({ "topic": topic, "reason": reason(why) })),
            }
        }
    }

    /// Clears the topics of one page.
    fn clear(&self, request: &Request) -> Result<Value, Refusal> {
        let zone = Zone(request.zone);
        if request.filter.split('/').next() == Some("$SYS") {
            let text = "topics below $SYS/ are the server's own and cannot be cleared";
            return Err(refuse("bad-request", text));
        }
        let mut cursor = request.cursor();
        let (found, is_done) = self.find(zone, &request.filter, &mut cursor)?;
        let clear = |message: &Arc<Message>| {
            let line = Line::clearing(zone, message.topic());
            (Arc::new(line.message(self.now)), None)
        };
        let entries: Vec<Entry> = found.iter().map(clear).collect();
        let mut cleared = 0_u64;
        for (message, kept) in found.iter().zip((self.keep)(entries)) {
            kept.map_err(|why| {
                let text = format!("{:?} cannot be cleared: {}", message.topic(), reason(why));
                refuse("unavailable", text)
            })?;
            cleared += 1;
        }
        Ok(json!({ "cleared": cleared, "cursor": next(is_done, &cursor) }))
    }

    fn status(&self) -> Value {
        let status = self.store.status();
        let zones: Vec<Value> = status
            .zones
            .iter()
            .map(|(zone, messages, bytes)| {
                json!({ "zone": zone.get(), "messages": messages, "bytes": bytes })
            })
            .collect();
        json!({
            "messages": status.messages,
            "bytes": status.bytes,
            "zones": zones,
            "files": status.files.files,
            "file_bytes": status.files.allocated,
            "used_bytes": status.files.used,
            "live_bytes": status.files.live,
            "index_bytes": status.index_bytes,
            "damaged": status.damaged,
            "troubles": status.troubles,
        })
    }

    /// Checks one part of the store, of several.
    fn verify(&self, request: &Request) -> Value {
        let mut verified = Verified::default();
        let next = self.store.verify_stripe(request.stripe, &mut verified);
        let (damaged, reports) = self.store.damage();
        let reports: Vec<Value> = reports
            .iter()
            .map(|report| {
                let (zone, topic) = report.topic.as_ref().map_or((None, None), |(zone, topic)| {
                    (Some(zone.get()), Some(topic))
                });
                json!({
                    "file": report.file,
                    "offset": report.offset,
                    "zone": zone,
                    "topic": topic,
                    "outcome": report.outcome.as_str(),
                })
            })
            .collect();
        json!({
            "whole": verified.whole,
            "damaged": verified.damaged,
            "next": next,
            "found": damaged,
            "reports": reports,
        })
    }
}
