//! Histories of topics, as operators, procedures and `stentor history` read them.

use stentor_control::Request as _;
use stentor_control::retained::{History, Recalled};
use stentor_disk::Disk;
use stentor_hub::{Cursor, HistoryAsk, HistoryQuery, NoHistoryAsk, Retained, Walk};
use stentor_retained::Store;
use stentor_session::Tick;
use stentor_topic::{Zone, validate_name};

use super::line::Line;
use super::{Refusal, ZoneNames, refuse};
use crate::telemetry::shown;

/// Visits of one step: a lock is held for no longer.
const VISITS: usize = 1_000;

/// Which messages somebody asks for.
pub(crate) struct Asked {
    topic: String,
    ask: HistoryAsk,
    /// At most this many, the oldest ones.
    limit: usize,
}

impl Asked {
    /// Reads what is asked.
    ///
    /// # Errors
    /// What is wrong with it, and with which part.
    pub(crate) fn read(
        topic: &str,
        ask: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Self, Refusal> {
        let bad = |reason: String| refuse("bad-request", reason);
        validate_name(topic).map_err(|error| {
            let topic = shown(topic);
            let reason = format!("{topic:?} is not a topic: {error}; name one, without wildcards");
            bad(reason).about("topic")
        })?;
        let ask = match ask {
            None => HistoryAsk::ALL,
            Some(text) => HistoryAsk::parse(text).map_err(|_| {
                let reason = format!("{text:.64?} cannot be asked for: {}", NoHistoryAsk::TEXT);
                bad(reason).about("ask")
            })?,
        };
        Ok(Self {
            topic: topic.to_owned(),
            ask,
            limit: History::VERB.wanted(limit.map(|limit| limit as usize))?,
        })
    }

    pub(crate) fn of(request: &History) -> Result<Self, Refusal> {
        Self::read(&request.topic, request.ask.as_deref(), request.limit)
    }

    /// Reads the messages, in the order of their numbers: up to the limit, and about this many
    /// bytes of their content, but one in any case. Waits for the disk if it has to.
    pub(crate) fn answer<D: Disk>(
        &self,
        store: &Store<D>,
        zone: Zone,
        now: Tick,
        zones: &dyn ZoneNames,
        bytes_max: usize,
    ) -> Recalled {
        let query = HistoryQuery {
            zone,
            filter: &self.topic,
            ask: self.ask,
        };
        let (mut cursor, mut found, mut bytes) = (Cursor::default(), Vec::new(), 0);
        let mut more = false;
        while !more {
            let before = found.len();
            let walk = store.remember(query, now, &mut cursor, VISITS, &mut found);
            for at in before..found.len() {
                let message = &found[at].message;
                bytes += message.properties().len() + message.payload().len();
                if at == self.limit || (at > 0 && bytes > bytes_max) {
                    found.truncate(at);
                    more = true;
                    break;
                }
            }
            if walk == Walk::Done {
                break;
            }
        }
        let line = |it| Line::remembered(it, now).into_json(zones);
        Recalled {
            epoch: format!("{:016x}", store.epoch()),
            messages: found.iter().map(line).collect(),
            more,
        }
    }
}
