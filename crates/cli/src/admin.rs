//! Commands for the running server: `health`, `status`, `top`, `figures`, `clients`, `sessions`,
//! `events`, `trace`, `ban`, `subscriptions`, `topics`, `log`, `config effective`, `config diff`,
//! `reload` and `stop`.

pub(crate) mod ban;
pub(crate) mod certificates;
mod clients;
pub(crate) mod config;
pub(crate) mod console;
pub(crate) mod events;
pub(crate) mod figures;
pub(crate) mod health;
mod heaviest;
pub(crate) mod log;
pub(crate) mod sessions;
mod status;
pub(crate) mod subscriptions;
pub(crate) mod table;
pub(crate) mod top;
pub(crate) mod trace;

use std::time::SystemTime;

use clap::{Args, ValueEnum};
use stentor_control::reload::{self, Done, Last, Reloaded};
use stentor_control::{ZoneWord, heaviest as heavy, topics};

use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;
pub(crate) use ban::Bans;
pub(crate) use certificates::Certificates;
pub(crate) use clients::Clients;
pub(crate) use console::Console;
pub(crate) use events::Events;
pub(crate) use figures::Figures;
pub(crate) use health::Health;
pub(crate) use log::Log;
pub(crate) use sessions::Sessions;
pub(crate) use status::Status;
pub(crate) use subscriptions::Subscriptions;
use table::{Table, duration};
pub(crate) use top::Top;
pub(crate) use trace::Trace;

/// When the configuration was read last, who asked for it, and what came of it.
fn last_reload(reload: &Last, now_secs: u64) -> String {
    let result = match (reload.ok, &reload.done) {
        (true, Some(done)) => reloaded(done),
        (true, None) => reloaded(&Done::default()),
        (false, _) => {
            let reason = lines(reload.reason.as_deref().unwrap_or("-"));
            format!("failed, the old configuration stays:{reason}")
        }
    };
    format!("{}: {result}", when(reload, now_secs))
}

/// What is wrong with a configuration, to stand behind a colon: several things below each other.
fn lines(reason: &str) -> String {
    let lines: Vec<String> = reason.lines().map(shown).collect();
    match lines.len() {
        0 | 1 => format!(" {}", lines.concat()),
        _ => format!("\n  {}", lines.join("\n  ")),
    }
}

fn when(reload: &Last, now_secs: u64) -> String {
    let ago = duration(now_secs.saturating_sub(reload.at));
    format!("last reload, {ago} ago ({})", shown(&reload.cause))
}

/// What a reload did; if that was nothing, since when, and what came of the one before.
fn just_reloaded(answer: &Reloaded, now_secs: u64) -> String {
    let done = reloaded(&answer.done);
    let Some(before) = &answer.before else {
        return done;
    };
    let since = format!("{done} since the {}", when(before, now_secs));
    if !before.ok {
        return format!(
            "{done}: the server runs with what the file says. The mistakes of the {} are corrected",
            when(before, now_secs),
        );
    }
    match before.done.as_ref().and_then(phrases) {
        None => since,
        Some(found) => format!("{since}, which found {found}"),
    }
}

/// Seconds since 1970.
pub(crate) fn now_secs() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

fn reloaded(done: &Done) -> String {
    phrases(done).unwrap_or_else(|| "nothing has changed".to_owned())
}

/// What a reload did, unless that was nothing.
fn phrases(done: &Done) -> Option<String> {
    let phrases = [
        ("changed: ", &done.changed),
        ("new certificates or keys: ", &done.renewed),
        ("waiting for a restart: ", &done.waiting),
    ];
    let said = |(title, what): (&str, &Vec<String>)| {
        let what: Vec<String> = what.iter().map(|one| shown(one)).collect();
        (!what.is_empty()).then(|| format!("{title}{}", what.join(", ")))
    };
    let said: Vec<String> = phrases.into_iter().filter_map(said).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

#[derive(Debug, Args)]
struct Page {
    /// Show up to N
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    /// Skip the first N
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
}

/// What topics and those who publish are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Weight {
    /// Messages a second, the most first
    #[default]
    Messages,
    /// Bytes of payload a second, the most first
    Bytes,
}

impl Weight {
    const fn by(self) -> heavy::By {
        match self {
            Self::Messages => heavy::By::Messages,
            Self::Bytes => heavy::By::Bytes,
        }
    }
}

/// Lists topic filters with their subscribers, and retained topics.
#[derive(Debug, Args)]
pub(crate) struct Topics {
    /// Only those that contain this text; the words `ls` and `list` before it have no effect
    #[arg(num_args = 0..=2, value_name = "CONTAINING")]
    containing: Vec<String>,
    /// Show the names of retained topics at the level below PREFIX, or at the first level
    #[arg(long, value_name = "PREFIX", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["containing", "offset"])]
    children: Option<String>,
    /// Show the topics that most is published to, by an estimate of the last minute or two
    #[arg(long, conflicts_with_all = ["containing", "offset", "children"])]
    heaviest: bool,
    /// With --heaviest: the order
    #[arg(long, value_enum, value_name = "ORDER", requires = "heaviest")]
    by: Option<Weight>,
    /// Of this zone [default: filters of all zones, retained topics of the default one]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    which: Which,
}

/// Names of one level that an answer has at most.
const NAMES_MAX: usize = 10_000;

impl Topics {
    /// What topics are to contain: everything does that is not given.
    fn containing(&self) -> Result<&str, Failure> {
        match self
            .containing
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()[..]
        {
            [] | ["ls" | "list"] => Ok(""),
            ["ls" | "list", text] | [text] => Ok(text),
            _ => Err(Failure::usage("one text is enough")),
        }
    }

    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(below) = self.children {
            // The server looks at no more of one level, and says so in its answer.
            let limit = self.page.limit.min(NAMES_MAX);
            let told = self.which.tell(&topics::Children {
                zone: self.zone.map(ZoneWord::Name),
                below: Some(below).filter(|below| !below.is_empty()),
                after: None,
                limit: Some(limit),
            })?;
            return told.print(names_text);
        }
        if self.heaviest {
            let told = self.which.tell(&heavy::Topics {
                zone: self.zone.map(ZoneWord::Name),
                by: self.by.unwrap_or_default().by(),
                limit: Some(self.page.limit),
            })?;
            return told.print(heaviest::topics);
        }
        let containing = self.containing()?.to_owned();
        let told = self.which.tell(&topics::Topics {
            zone: self.zone.map(ZoneWord::Name),
            containing,
            limit: Some(self.page.limit),
            offset: self.page.offset,
            fresh: true,
        })?;
        told.print(topics_text)
    }
}

fn topics_text(answer: &topics::Told) -> String {
    let mut filters = Table::new(&["FILTER", "SUBSCRIBERS"]);
    for entry in &answer.filters {
        filters.row([shown(&entry.filter), entry.subscribers.to_string()]);
    }
    let mut retained = Table::new(&["RETAINED TOPIC", "BYTES"]);
    for entry in &answer.retained {
        retained.row([shown(&entry.topic), entry.bytes.to_string()]);
    }
    let mut text = format!("{}\n{}", filters.render(), retained.render());
    if answer.truncated {
        text += "… and more; --limit and --offset show others\n";
    }
    text
}

/// The names of a level; those that have topics below them end with a slash.
fn names_text(answer: &topics::Names) -> String {
    let mut text = String::new();
    for one in &answer.names {
        let name = shown(&one.name);
        text += &match (one.topic, one.below) {
            (true, true) => format!("{name}\n{name}/\n"),
            (false, true) => format!("{name}/\n"),
            _ => format!("{name}\n"),
        };
    }
    if answer.more || answer.truncated {
        text += "… and more; name a longer prefix, or --limit\n";
    }
    text
}

/// Makes the running server read its configuration again.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    which: Which,
}

impl Reload {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let told = self.which.tell(&reload::Reload {})?;
        told.print(|answer| format!("reloaded; {}\n", just_reloaded(answer, now_secs())))
    }
}

/// Stops the running server, as SIGTERM does.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    which: Which,
}

impl Stop {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let told = self.which.tell(&stentor_control::Stop {})?;
        told.print(|_| "the server stops\n".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn last(value: serde_json::Value) -> Last {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_last_reload_is_told_in_phrases() {
        let check = |reload, text: &str| assert_eq!(last_reload(&last(reload), 1_065), text);
        let done = json!({
            "at": 1_000, "cause": "SIGHUP", "ok": true,
            "changed": ["log.level", "sys.interval"], "renewed": [], "waiting": ["shards"],
        });
        let text = "last reload, 1m 5s ago (SIGHUP): changed: log.level, sys.interval; waiting \
                    for a restart: shards";
        check(done, text);
        let failed = json!({ "at": 1_060, "cause": "file", "ok": false, "reason": "no such key" });
        let text = "last reload, 5s ago (file): failed, the old configuration stays: no such key";
        check(failed, text);
        let renewed = Done {
            renewed: vec!["mqtts://0.0.0.0:8883".into()],
            ..Done::default()
        };
        assert_eq!(
            reloaded(&renewed),
            "new certificates or keys: mqtts://0.0.0.0:8883"
        );
    }

    #[test]
    fn a_reload_that_does_nothing_tells_of_the_one_before() {
        let told = |before: Option<serde_json::Value>| {
            let answer = Reloaded {
                before: before.map(last),
                ..Reloaded::default()
            };
            just_reloaded(&answer, 1_065)
        };
        assert_eq!(told(None), "nothing has changed");
        let failed =
            json!({ "at": 1_062, "cause": "SIGHUP", "ok": false, "reason": "no such key" });
        assert_eq!(
            told(Some(failed)),
            "nothing has changed: the server runs with what the file says. The mistakes of the last \
             reload, 3s ago (SIGHUP) are corrected"
        );
        for (result, more) in [
            (json!({ "ok": true, "changed": [] }), ""),
            (
                json!({ "ok": true, "changed": ["adaptor"] }),
                ", which found changed: adaptor",
            ),
        ] {
            let mut before = result;
            (before["at"], before["cause"]) = (json!(1_062), json!("SIGHUP"));
            let text = format!("nothing has changed since the last reload, 3s ago (SIGHUP){more}");
            assert_eq!(told(Some(before)), text);
        }
    }
}
