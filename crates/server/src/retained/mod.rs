//! What `stentor retained` asks for: answered by a running server on its control socket, and for a
//! stopped one by the command itself.

mod bounds;
mod history;
mod line;
mod offline;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stentor_control::retained::{
    self as wire, Clear, Compacted, Covering, Cursor as At, Damage, Figures, Filters, History,
    Kept, Messages, OfZone, Page, Put, Recalled, Verify,
};
use stentor_control::{Verb, ZoneWord};
use stentor_disk::MappedDisk;
use stentor_hub::{Cursor, NotKept, Retained, Scope, Walk};
use stentor_retained::{Store, Verified};
use stentor_session::{Message, Tick};
use stentor_topic::{Zone, has_wildcard, validate_filter};

pub(crate) use bounds::TopicBounds;
pub(crate) use history::Asked;
use line::Line;
pub use line::properties_json;
pub(crate) use line::{base64, plainly_published, published, read_properties, stored_properties};
pub(crate) use offline::not_noted;
pub use offline::{Access, OfflineError, OfflineStore};
use offline::{check_zone, unknown_zone};

/// A number that no zone has.
const NOWHERE: Zone = Zone(u32::MAX);

/// What clients publish among the server's own topics.
const BRIDGES: &str = "$SYS/broker/connection/";

/// Topics visited under one lock.
const VISITS: usize = 1_000;
/// A page ends when it holds this many messages, or this many bytes of them.
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
    fn add(&mut self, page: &wire::Cleared) {
        self.count += page.cleared;
        for refused in &page.refused {
            self.left += 1;
            self.why.get_or_insert_with(|| {
                let reason = &refused.reason;
                format!("{:?} cannot be cleared: {reason}", refused.topic)
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
pub(crate) fn clear_zone(admin: &RetainedAdmin<'_>, zone: Zone) -> Result<Cleared, Refusal> {
    let zone = Some(ZoneWord::Number(zone.get()));
    let found = admin.filters(&Filters { zone: zone.clone() })?;
    let mut cleared = Cleared::default();
    for filter in found.filters {
        let mut request = Clear {
            zone: zone.clone(),
            filter,
            cursor: None,
        };
        loop {
            let page = admin.clear(&request)?;
            cleared.add(&page);
            if page.cursor.is_none() {
                break;
            }
            request.cursor = page.cursor;
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

/// Why a request is refused.
pub(crate) type Refusal = stentor_control::Failure;

fn refuse(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(code, message)
}

/// A message to keep, and when it was received, in milliseconds since 1970; `None` for now.
pub(crate) type Entry = (Arc<Message>, Option<u64>);

/// Counts the message at a position of a request as refused.
fn leave(kept: &mut Kept, at: usize, topic: &Value, reason: &str) {
    kept.refused.push(wire::NotKept {
        at,
        topic: topic.clone(),
        reason: reason.to_owned(),
    });
}

const fn count(kept: &mut Kept, is_known: bool) {
    if is_known {
        kept.changed += 1;
    } else {
        kept.new += 1;
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
fn next(is_done: bool, cursor: &Cursor) -> Option<At> {
    (!is_done).then(|| At {
        stripe: cursor.stripe,
        after: cursor.after.as_deref().map(str::to_owned),
    })
}

/// Where a page begins.
fn begin(at: Option<&At>) -> Cursor {
    at.map_or_else(Cursor::default, |at| Cursor {
        stripe: at.stripe,
        after: at.after.as_deref().map(Box::from),
        visits: 0,
    })
}

/// Which verb a request has.
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    verb: String,
}

fn read<T: DeserializeOwned>(request: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(request).map_err(|error| refuse("bad-request", error.to_string()))
}

fn write(answer: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(answer).map_err(|error| refuse("unavailable", error.to_string()))
}

/// A store to answer from.
pub(crate) struct RetainedAdmin<'a> {
    pub(crate) store: &'a Store<MappedDisk>,
    pub(crate) now: Tick,
    pub(crate) zones: &'a dyn ZoneNames,
    pub(crate) bounds: &'a TopicBounds,
    /// Keeps messages, and sends them to those who are subscribed; an outcome for each.
    pub(crate) keep: &'a dyn Fn(Vec<Entry>) -> Vec<Result<(), NotKept>>,
    /// Brings what was changed to the disk; whether it is there.
    pub(crate) commit: &'a dyn Fn() -> bool,
}

impl RetainedAdmin<'_> {
    /// Answers a request: one whose verb begins with `retained.`.
    pub(crate) fn answer(&self, request: &[u8]) -> Result<Value, Refusal> {
        let Named { verb } = read(request)?;
        match Verb::named(&verb) {
            Some(Verb::RetainedPage) => write(self.page(&read(request)?)?),
            Some(Verb::RetainedHistory) => write(self.history(&read(request)?)?),
            Some(Verb::RetainedPut) => write(self.put(&read(request)?)?),
            Some(Verb::RetainedFilters) => write(self.filters(&read(request)?)?),
            Some(Verb::RetainedClear) => write(self.clear(&read(request)?)?),
            Some(Verb::RetainedStatus) => write(self.status()),
            Some(Verb::RetainedVerify) => write(self.verify(&read(request)?)),
            Some(Verb::RetainedCompact) => write(Compacted {
                files_removed: self.store.compact_by(self.commit) as u64,
            }),
            _ => Err(refuse(
                "unknown-verb",
                format!(
                    "there is no verb {verb:?}; there are retained.page, history, filters, put, \
                     clear, status, verify and compact"
                ),
            )),
        }
    }

    /// The zone that a request is about.
    fn zone(&self, zone: Option<&ZoneWord>) -> Result<Zone, Refusal> {
        match zone {
            None => Ok(Zone::DEFAULT),
            Some(ZoneWord::Number(number)) => Ok(Zone(*number)),
            Some(ZoneWord::Name(name)) => match self.zones.known(name) {
                Some(zone) => Ok(zone),
                // A zone that nobody has used yet has nothing.
                None if self.zones.exists(name) => Ok(NOWHERE),
                None => Err(refuse(
                    "not-found",
                    format!(
                        "there is nothing of a zone {name:?}; `stentor zone list` lists the zones"
                    ),
                )
                .about("zone")),
            },
        }
    }

    /// The number of a zone that messages are put into.
    fn target(&self, request: &Put, name: &str) -> Result<Zone, Refusal> {
        let bad = |reason| refuse("bad-request", reason).about("zone");
        check_zone(name).map_err(bad)?;
        if !request.new_zones && !self.zones.exists(name) {
            return Err(refuse("not-found", unknown_zone(name)).about("zone"));
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
            .about("filter")
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
            let new = found[before..].iter();
            bytes += new.map(|message| message.body_bytes()).sum::<usize>();
            if walk == Walk::Done {
                return Ok((found, true));
            }
            if found.len() >= PAGE_MESSAGES || bytes >= PAGE_BYTES {
                return Ok((found, false));
            }
        }
    }

    fn page(&self, request: &Page) -> Result<Messages, Refusal> {
        let mut cursor = begin(request.cursor.as_ref());
        let zone = self.zone(request.zone.as_ref())?;
        let (found, is_done) = self.find(zone, &request.filter, &mut cursor)?;
        let lines = found
            .iter()
            .map(|message| Line::of(message, self.store, self.now).into_json(self.zones));
        Ok(Messages {
            messages: lines.collect(),
            cursor: next(is_done, &cursor),
        })
    }

    /// Messages of a topic's history.
    fn history(&self, request: &History) -> Result<Recalled, Refusal> {
        let asked = Asked::of(request)?;
        let zone = self.zone(request.zone.as_ref())?;
        Ok(asked.answer(self.store, zone, self.now, self.zones, PAGE_BYTES))
    }

    /// Filters that cover together all that is kept of a zone: `#` leaves out what begins with `$`.
    fn filters(&self, request: &Filters) -> Result<Covering, Refusal> {
        let trees = self.store.trees(self.zone(request.zone.as_ref())?);
        let below = trees.into_iter().map(|tree| format!("{tree}/#"));
        Ok(Covering {
            filters: std::iter::once("#".to_owned()).chain(below).collect(),
        })
    }

    /// Keeps messages; those that are there already, the same in every byte, are left alone.
    fn put(&self, request: &Put) -> Result<Kept, Refusal> {
        let zone = match &request.zone {
            Some(ZoneWord::Name(name)) => self.target(request, name)?,
            zone @ (None | Some(ZoneWord::Number(_))) => self.zone(zone.as_ref())?,
        };
        // Many lines name the same zone.
        let mut targets: HashMap<String, Result<Zone, String>> = HashMap::new();
        let mut zone_of = |name: &str| {
            let ask = || self.target(request, name).map_err(|it| it.message);
            targets.entry(name.into()).or_insert_with(ask).clone()
        };

        self.expire();
        let mut tally = Kept::default();
        let mut pending = Pending::default();
        for (at, value) in request.messages.iter().enumerate() {
            let line = Line::from_json(value, zone, &mut zone_of)
                .and_then(|line| self.bounds.check(&line.topic).map(|()| line));
            let line = match line {
                Ok(line) => line,
                Err(reason) => {
                    leave(&mut tally, at, &value["topic"], &reason);
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
                count(&mut tally, known.is_some());
            } else {
                pending.push(at, line, known.is_some(), self.now);
            }
        }
        self.keep_all(&mut pending, &mut tally);
        Ok(tally)
    }

    fn keep_all(&self, pending: &mut Pending, tally: &mut Kept) {
        let Pending { entries, notes } = std::mem::take(pending);
        if entries.is_empty() {
            return;
        }
        for (note, kept) in notes.into_iter().zip((self.keep)(entries)) {
            match kept {
                Ok(()) => count(tally, note.is_known),
                Err(why) => leave(tally, note.at, &note.topic.into(), why.text()),
            }
        }
    }

    /// Clears the topics of one page; those that cannot be cleared keep none of the others.
    fn clear(&self, request: &Clear) -> Result<wire::Cleared, Refusal> {
        let zone = self.zone(request.zone.as_ref())?;
        let is_bridges = request.filter.starts_with(BRIDGES);
        if request.filter.split('/').next() == Some("$SYS") && !is_bridges {
            let text = "topics below $SYS/ are the server's own and cannot be cleared";
            return Err(refuse("bad-request", text).about("filter"));
        }
        let mut cursor = begin(request.cursor.as_ref());
        let (found, is_done) = self.find(zone, &request.filter, &mut cursor)?;
        let clear = |message: &Arc<Message>| {
            let line = Line::clearing(zone, message.topic());
            (Arc::new(line.message(self.now)), None)
        };
        let entries: Vec<Entry> = found.iter().map(clear).collect();
        let mut page = wire::Cleared {
            cursor: next(is_done, &cursor),
            ..wire::Cleared::default()
        };
        for (message, kept) in found.iter().zip((self.keep)(entries)) {
            match kept {
                Ok(()) => page.cleared += 1,
                Err(why) => page.refused.push(wire::NotCleared {
                    topic: message.topic().to_owned(),
                    reason: why.text().to_owned(),
                }),
            }
        }
        if is_done {
            // Histories go last: an empty message that clears a topic comes into its history too.
            let forgotten = self.store.forget_histories(zone, &request.filter);
            page.forgotten = forgotten.map_err(|why| {
                let text = format!("the histories were not cleared: {}", why.text());
                refuse("unavailable", text)
            })?;
            if page.forgotten > 0 {
                // Where the disk does not take it now, it does so later.
                let _ = (self.commit)();
            }
        }
        Ok(page)
    }

    /// Takes away what has expired, as a running server does by itself: so what is counted and
    /// checked is what can be read.
    fn expire(&self) {
        self.store.expire(self.now);
    }

    fn status(&self) -> Figures {
        self.expire();
        let status = self.store.status();
        let zones = status.zones.iter();
        let zones = zones.map(|(zone, messages, bytes)| OfZone {
            zone: self.zones.name(*zone),
            messages: *messages,
            bytes: *bytes,
        });
        Figures {
            messages: status.messages,
            history_topics: status.histories.topics,
            history_messages: status.histories.messages,
            history_bytes: status.histories.bytes,
            bytes: status.bytes,
            zones: zones.collect(),
            files: status.files.files,
            file_bytes: status.files.allocated,
            used_bytes: status.files.used,
            live_bytes: status.files.live,
            index_bytes: status.index_bytes,
            damaged: status.damaged,
            losses: status.losses,
            troubles: status.troubles,
        }
    }

    /// Checks one part of the store, of several; after the last one, lists what was found damaged,
    /// page by page.
    fn verify(&self, request: &Verify) -> wire::Verified {
        if request.stripe == 0 {
            self.expire();
        }
        let mut verified = Verified::default();
        let next = self.store.verify_stripe(request.stripe, &mut verified);
        let at_most = if next.is_none() { PAGE_MESSAGES } else { 0 };
        let (damaged, reports) = self.store.damage_page(request.from, at_most);
        let behind = request.from.saturating_add(reports.len());
        let more = (reports.len() == PAGE_MESSAGES).then_some(behind);
        let reports = reports.iter().map(|report| {
            let (zone, topic) = report.place().map_or((None, None), |(zone, topic)| {
                (Some(self.zones.name(zone)), Some(topic.to_owned()))
            });
            Damage {
                file: report.file.clone(),
                offset: report.offset,
                zone,
                topic,
                outcome: report.outcome.as_str().to_owned(),
                published_again: self.store.is_published_again(report),
            }
        });
        wire::Verified {
            whole: verified.whole,
            damaged: verified.damaged,
            next,
            found: damaged,
            losses: self.store.losses(),
            reports: reports.collect(),
            more,
        }
    }
}
