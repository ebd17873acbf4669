//! `stentor history`: messages of a topic's history.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use stentor_control::retained as wire;
use stentor_server::Access;
use stentor_server::config::parse_duration;

use super::payload_of;
use super::store::Where;
use crate::admin::table::plain;
use crate::failure::Failure;
use crate::output::{Pieces, shown};
use crate::time::Time;

pub(crate) const HELP: &str = "\
Examples:
  stentor history plant/line1 --last 10                       the last ten messages
  stentor history plant/line1 --since 1h                      those of the last hour
  stentor history plant/line1 --since 2026-01-31T12:00:00Z    those since then
  stentor history plant/line1 --after 41 --json               those with a higher number

Each message has a line: when it was received, its number, and its payload. A topic has a history
if its [[policy]] has keep = \"all\". The command talks to the server that runs on the data folder.
If no server runs, it reads the files themselves.";

/// Prints messages of a topic's history.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// Topic
    topic: String,
    /// Only the messages with the last N numbers
    #[arg(long, value_name = "N", conflicts_with_all = ["since", "after"])]
    last: Option<String>,
    /// Only messages received since a time: 1h (ago), 2026-01-31T12:00:00Z, or seconds since 1970
    #[arg(long, value_name = "TIME", conflicts_with = "after")]
    since: Option<String>,
    /// Only messages with a higher number
    #[arg(long, value_name = "NUMBER")]
    after: Option<String>,
    #[command(flatten)]
    place: Where,
}

impl History {
    /// What is asked for, as the server reads it.
    fn ask(&self) -> Option<String> {
        let since = self
            .since
            .as_ref()
            .map(|since| since_then(since, Time::now()));
        let given = [
            ("last", &self.last),
            ("since", &since),
            ("after", &self.after),
        ];
        let mut given = given.into_iter();
        given.find_map(|(name, value)| Some(format!("{name}:{}", value.as_ref()?)))
    }

    pub(crate) fn run(self) -> Result<(), Failure> {
        let store = self.place.open(Access::Read)?;
        let mut out = Pieces::standard();
        let mut request = wire::History {
            topic: self.topic.clone(),
            ask: self.ask(),
            ..wire::History::default()
        };
        loop {
            let told = store.ask(&request)?;
            for message in &told.messages {
                let line = match self.place.is_json() {
                    true => with_epoch(message, &told.epoch),
                    false => line(message),
                };
                out.put(&line)?;
            }
            let last = told.messages.last().and_then(|it| it["sequence"].as_u64());
            let Some(last) = last.filter(|_| told.more) else {
                return out.end();
            };
            // A page of `since` goes on by number: times may repeat.
            request.ask = Some(format!("after:{last}"));
        }
    }
}

/// A point in time as the server reads it: a duration counts back from now.
fn since_then(since: &str, now: Time) -> String {
    match parse_duration(since) {
        // A bare number is refused as a duration, but for 0: it says seconds since 1970.
        Ok(ago) if since.trim() != "0" => {
            let ms = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
            (now.unix_millis().saturating_sub(ms) / 1_000).to_string()
        }
        _ => since.to_owned(),
    }
}

/// A message as programs read it: a line of an export, with the epoch of its number.
fn with_epoch(message: &Value, epoch: &str) -> String {
    let mut message = message.clone();
    message["epoch"] = epoch.into();
    format!("{message}\n")
}

/// The same for people.
fn line(message: &Value) -> String {
    let received = message["received_ms"].as_u64().unwrap_or_default();
    let time = Time::new(Duration::from_millis(received)).iso();
    let payload = String::from_utf8_lossy(&payload_of(message)).into_owned();
    let number = plain(&message["sequence"]);
    format!("{time}  {number}  {}\n", shown(&payload))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_duration_counts_back_from_now() {
        let now = Time::new(Duration::from_secs(1_000_000));
        for (since, then) in [
            ("1h", "996400"),
            ("1h30m", "994600"),
            ("20d", "0"),
            ("0", "0"),
            ("77", "77"),
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
            ("yesterday", "yesterday"),
        ] {
            assert_eq!(since_then(since, now), then);
        }
    }

    #[test]
    fn a_message_has_a_line() {
        let message = json!({
            "topic": "a", "payload": "21.5\u{1b}", "received_ms": 1_769_860_800_000_u64,
            "sequence": 7, "qos": 0,
        });
        let text = line(&message);
        assert!(
            text.starts_with("2026-01-31T12:00:00+0000  7  21.5"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        let told: Value = serde_json::from_str(&with_epoch(&message, "00ff")).unwrap();
        assert_eq!(
            (&told["epoch"], &told["sequence"]),
            (&json!("00ff"), &json!(7))
        );
    }
}
