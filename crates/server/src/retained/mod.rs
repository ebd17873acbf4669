//! What `stentor retained` asks for: answered by a running server on its control socket, and for a
//! stopped one by the command itself.

mod bounds;
mod line;
mod offline;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use stentor_disk::MappedDisk;
use stentor_hub::{Cursor, NotKept, Retained, Scope, Walk};
use stentor_retained::{Store, Verified};
use stentor_session::{Message, Tick};
use stentor_topic::{Zone, has_wildcard, validate_filter};

pub(crate) use bounds::TopicBounds;
use line::Line;
pub use line::properties_json;
use offline::check_zone;
pub(crate) use offline::not_noted;
pub use offline::{Access, OfflineError, OfflineStore};

/// A number that no zone has.
const NOWHERE: Zone = Zone(u32::MAX);

/// What clients publish among the server's own topics.
const BRIDGES: &str = "$SYS/broker/connection/";

/// Topics visited under one lock.
const VISITS: usize = 1_000;
/// A page ends when it holds this many messages, or this many bytes of payload.
const PAGE_MESSAGES: usize = 1_000;
const PAGE_BYTES: usize = 1 << 20;

/// What a request to clear topics came to.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    count: u64,
    /// Topics that hold what they held, and why the first of them does.
    left: u64,
    why: Option<String>,
}

impl Cleared {
    fn add(&mut self, page: &Value) {
        self.count += page["cleared"].as_u64().unwrap_or_default();
        let refused = page["refused"].as_array().into_iter().flatten();
        for refused in refused {
            self.left += 1;
            self.why.get_or_insert_with(|| {
                let reason = refused["reason"].as_str().unwrap_or_default();
                format!("{} cannot be cleared: {reason}", refused["topic"])
            });
        }
    }

    /// How many topics were cleared.
    ///
    /// # Errors
    /// When some were not.
    pub(crate) fn all(self) -> Result<u64, String> {
        match (self.why, self.left) {
            (None, _) => Ok(self.count),
            (Some(why), left) => Err(format!(
                "{why}; {left} of its {} topics are left",
                self.count + left
            )),
        }
    }
}

/// Clears all messages of a zone, page by page, and goes on behind those that cannot be cleared.
///
/// # Errors
/// When a request is refused.
pub(crate) fn clear_zone<E>(
    zone: Zone,
    ask: impl Fn(&Value) -> Result<Value, E>,
) -> Result<Cleared, E> {
    let found = ask(&json!({ "verb": "retained.filters", "zone": zone.get() }))?;
    let mut cleared = Cleared::default();
    for filter in found["filters"].as_array().into_iter().flatten() {
        let mut cursor = Value::Null;
        loop {
            let mut page = ask(&json!({
                "verb": "retained.clear", "zone": zone.get(), "filter": filter, "cursor": cursor,
            }))?;
            cleared.add(&page);
            cursor = page["cursor"].take();
            if cursor.is_null() {
                break;
            }
        }
    }
    Ok(cleared)
}

/// The names and numbers of zones.
pub(crate) trait ZoneNames {
    /// The name of a zone, or its number in words where it has none any more.
    fn name(&self, zone: Zone) -> String;

    /// Whether there is a zone of this name, or something of it.
    fn exists(&self, name: &str) -> bool;

    /// The number of a zone that has one.
    fn known(&self, name: &str) -> Option<Zone>;

    /// The number of a zone, which gets one if it has none.
    ///
    /// # Errors
    /// When the new number cannot be written down.
    fn number(&self, name: &str) -> Result<Zone, String>;
}

/// Which zone a request is about.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Which {
    Name(String),
    Number(u32),
}

/// A request; each verb looks at what it needs.
#[derive(Debug, Default, Deserialize)]
struct Request {
    #[serde(default)]
    verb: String,
    /// The default zone if there is none.
    #[serde(default)]
    zone: Option<Which>,
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
    /// For `retained.put`: create zones that do not exist yet.
    #[serde(default)]
    new_zones: bool,
    /// For `retained.put`: what is there is kept again, even if it is the same.
    #[serde(default)]
    anew: bool,
    /// For `retained.verify`: which part of the store; beyond the last one, only the damage that
    /// was found is listed.
    #[serde(default)]
    stripe: usize,
    /// For `retained.verify`: from which damaged place on.
    #[serde(default)]
    from: usize,
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
    /// Counts the message at a position of the request as refused.
    fn refuse(&mut self, at: usize, topic: &Value, reason: &str) {
        let refused = json!({ "at": at, "topic": topic, "reason": reason });
        self.refused.push(refused);
    }

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
    notes: Vec<Note>,
}

/// What is known of a message that is about to be kept.
struct Note {
    /// Where it is in the request.
    at: usize,
    zone: Zone,
    topic: String,
    /// Whether its topic holds a message now.
    is_known: bool,
}

impl Pending {
    fn has(&self, zone: Zone, topic: &str) -> bool {
        let is_it = |note: &Note| (note.zone, &*note.topic) == (zone, topic);
        self.notes.iter().any(is_it)
    }

    fn push(&mut self, at: usize, line: Line, is_known: bool, now: Tick) {
        self.entries
            .push((Arc::new(line.message(now)), line.received_ms));
        self.notes.push(Note {
            at,
            zone: line.zone,
            topic: line.topic,
            is_known,
        });
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
            visits: 0,
        })
    }
}

/// A store to answer from.
pub(crate) struct Desk<'a> {
    pub(crate) store: &'a Store<MappedDisk>,
    pub(crate) now: Tick,
    pub(crate) zones: &'a dyn ZoneNames,
    pub(crate) bounds: &'a TopicBounds,
    /// Keeps messages, and sends them to those who are subscribed; an outcome for each.
    pub(crate) keep: &'a dyn Fn(Vec<Entry>) -> Vec<Result<(), NotKept>>,
    /// Brings what was changed to the disk; whether it is there.
    pub(crate) commit: &'a dyn Fn() -> bool,
}

impl Desk<'_> {
    /// Answers a request: one whose verb begins with `retained.`.
    pub(crate) fn answer(&self, request: &[u8]) -> Result<Value, Refusal> {
        let request: Request = serde_json::from_slice(request)
            .map_err(|error| refuse("bad-request", error.to_string()))?;
        match request.verb.as_str() {
            "retained.page" => self.page(&request),
            "retained.put" => self.put(&request),
            "retained.filters" => self.filters(&request),
            "retained.clear" => self.clear(&request),
            "retained.status" => Ok(self.status()),
            "retained.verify" => Ok(self.verify(&request)),
            "retained.compact" => {
                let removed = self.store.compact_by(self.commit);
                Ok(json!({ "files_removed": removed }))
            }
            verb => Err(refuse(
                "unknown-verb",
                format!(
                    "there is no verb {verb:?}; there are retained.page, filters, put, clear, \
                     status, verify and compact"
                ),
            )),
        }
    }

    /// The zone that a request is about.
    fn zone(&self, request: &Request) -> Result<Zone, Refusal> {
        match &request.zone {
            None => Ok(Zone::DEFAULT),
            Some(Which::Number(number)) => Ok(Zone(*number)),
            Some(Which::Name(name)) => match self.zones.known(name) {
                Some(zone) => Ok(zone),
                // A zone that nobody has used yet has nothing.
                None if self.zones.exists(name) => Ok(NOWHERE),
                None => Err(refuse(
                    "not-found",
                    format!(
                        "there is nothing of a zone {name:?}; `stentor zone list` lists the zones"
                    ),
                )),
            },
        }
    }

    /// The number of a zone that messages are put into.
    fn target(&self, request: &Request, name: &str) -> Result<Zone, Refusal> {
        let bad = |reason| refuse("bad-request", reason);
        check_zone(name).map_err(bad)?;
        if !request.new_zones && !self.zones.exists(name) {
            let text = format!(
                "there is nothing of a zone {name:?}; `stentor zone list` lists the zones, and \
                 with --new-zones others are taken too"
            );
            return Err(refuse("not-found", text));
        }
        if request.dry_run {
            // A new zone gets no number for it.
            return Ok(self.zones.known(name).unwrap_or(NOWHERE));
        }
        self.zones.number(name).map_err(bad)
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
                format!("{filter:?} is not a topic filter: {error}"),
            )
        })?;
        let mark = self.store.mark();
        if !has_wildcard(filter) {
            let found = self.store.get(zone, filter, mark, self.now);
            return Ok((found.into_iter().collect(), true));
        }
        let (mut found, mut bytes) = (Vec::new(), 0);
        let scope = Scope::until(mark, self.now);
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
        let (found, is_done) = self.find(self.zone(request)?, &request.filter, &mut cursor)?;
        let lines: Vec<Value> = found
            .iter()
            .map(|message| Line::of(message, self.store, self.now).into_json(self.zones))
            .collect();
        Ok(json!({ "messages": lines, "cursor": next(is_done, &cursor) }))
    }

    /// Filters that cover together all that is kept of a zone: `#` leaves out what begins with `$`.
    fn filters(&self, request: &Request) -> Result<Value, Refusal> {
        let trees = self.store.trees(self.zone(request)?);
        let below = trees.into_iter().map(|tree| format!("{tree}/#"));
        let filters: Vec<String> = std::iter::once("#".to_owned()).chain(below).collect();
        Ok(json!({ "filters": filters }))
    }

    /// Keeps messages; those that are there already, the same in every byte, are left alone.
    fn put(&self, request: &Request) -> Result<Value, Refusal> {
        let zone = match &request.zone {
            Some(Which::Name(name)) => self.target(request, name)?,
            None | Some(Which::Number(_)) => self.zone(request)?,
        };
        // Many lines name the same zone.
        let mut targets: HashMap<String, Result<Zone, String>> = HashMap::new();
        let mut zone_of = |name: &str| {
            let ask = || self.target(request, name).map_err(|it| it.message);
            targets.entry(name.into()).or_insert_with(ask).clone()
        };

        self.expire();
        let mut tally = Tally::default();
        let mut pending = Pending::default();
        for (at, value) in request.messages.iter().enumerate() {
            let line = Line::from_json(value, zone, &mut zone_of)
                .and_then(|line| self.bounds.check(&line.topic).map(|()| line));
            let line = match line {
                Ok(line) => line,
                Err(reason) => {
                    tally.refuse(at, &value["topic"], &reason);
                    continue;
                }
            };
            if pending.has(line.zone, &line.topic) {
                // It has to be compared with what that one leaves.
                self.keep_all(&mut pending, &mut tally);
            }
            let mark = self.store.mark();
            let known = self.store.get(line.zone, &line.topic, mark, self.now);
            let is_it = |known: &Arc<Message>| line.is(known, self.now);
            if !request.anew && known.as_ref().is_some_and(is_it) {
                tally.same += 1;
            } else if request.dry_run {
                tally.count(known.is_some());
            } else {
                pending.push(at, line, known.is_some(), self.now);
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
        for (note, kept) in notes.into_iter().zip((self.keep)(entries)) {
            match kept {
                Ok(()) => tally.count(note.is_known),
                Err(why) => tally.refuse(note.at, &note.topic.into(), why.text()),
            }
        }
    }

    /// Clears the topics of one page; those that cannot be cleared keep none of the others.
    fn clear(&self, request: &Request) -> Result<Value, Refusal> {
        let zone = self.zone(request)?;
        let is_bridges = request.filter.starts_with(BRIDGES);
        if request.filter.split('/').next() == Some("$SYS") && !is_bridges {
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
        let (mut cleared, mut refused) = (0_u64, Vec::new());
        for (message, kept) in found.iter().zip((self.keep)(entries)) {
            match kept {
                Ok(()) => cleared += 1,
                Err(why) => {
                    refused.push(json!({ "topic": message.topic(), "reason": why.text() }));
                }
            }
        }
        let cursor = next(is_done, &cursor);
        Ok(json!({ "cleared": cleared, "refused": refused, "cursor": cursor }))
    }

    /// Takes away what has expired, as a running server does by itself: so what is counted and
    /// checked is what can be read.
    fn expire(&self) {
        self.store.expire(self.now);
    }

    fn status(&self) -> Value {
        self.expire();
        let status = self.store.status();
        let zones: Vec<Value> = status
            .zones
            .iter()
            .map(|(zone, messages, bytes)| {
                let name = self.zones.name(*zone);
                json!({ "zone": name, "messages": messages, "bytes": bytes })
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
            "losses": status.losses,
            "troubles": status.troubles,
        })
    }

    /// Checks one part of the store, of several; after the last one, lists what was found damaged,
    /// page by page.
    fn verify(&self, request: &Request) -> Value {
        if request.stripe == 0 {
            self.expire();
        }
        let mut verified = Verified::default();
        let next = self.store.verify_stripe(request.stripe, &mut verified);
        let at_most = if next.is_none() { PAGE_MESSAGES } else { 0 };
        let (damaged, reports) = self.store.damage_page(request.from, at_most);
        let more = (reports.len() == PAGE_MESSAGES).then_some(request.from + PAGE_MESSAGES);
        let reports: Vec<Value> = reports
            .iter()
            .map(|report| {
                let (zone, topic) = report.topic.as_ref().map_or((None, None), |(zone, topic)| {
                    (Some(self.zones.name(*zone)), Some(topic))
                });
                json!({
                    "file": report.file,
                    "offset": report.offset,
                    "zone": zone,
                    "topic": topic,
                    "outcome": report.outcome.as_str(),
                    "published_again": self.store.is_published_again(report),
                })
            })
            .collect();
        json!({
            "whole": verified.whole,
            "damaged": verified.damaged,
            "next": next,
            "found": damaged,
            "losses": self.store.losses(),
            "reports": reports,
            "more": more,
        })
    }
}
