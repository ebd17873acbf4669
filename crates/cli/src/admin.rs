//! Commands for the running server: `health`, `status`, `clients`, `topics`, `reload` and `stop`.

pub(crate) mod health;
mod status;
pub(crate) mod table;

use std::time::SystemTime;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{print, shown};
use crate::which::Which;
pub(crate) use health::Health;
pub(crate) use status::Status;
use table::{Table, bytes, duration, plain};

/// When the configuration was read last, who asked for it, and what came of it.
fn last_reload(reload: &Value, now_secs: u64) -> String {
    let result = if reload["ok"] == true {
        reloaded(reload)
    } else {
        format!(
            "failed, the old configuration stays:{}",
            lines(&reload["reason"])
        )
    };
    format!("{}: {result}", when(reload, now_secs))
}

/// What is wrong with a configuration, to stand behind a colon: several things below each other.
fn lines(reason: &Value) -> String {
    let text = reason.as_str().unwrap_or("-");
    let lines: Vec<String> = text.lines().map(shown).collect();
    match lines.len() {
        0 | 1 => format!(" {}", lines.concat()),
        _ => format!("\n  {}", lines.join("\n  ")),
    }
}

fn when(reload: &Value, now_secs: u64) -> String {
    let at = reload["at"].as_u64().unwrap_or(now_secs);
    let ago = duration(now_secs.saturating_sub(at));
    format!("last reload, {ago} ago ({})", plain(&reload["cause"]))
}

/// What a reload did; if that was nothing, since when, and what came of the one before.
fn just_reloaded(answer: &Value, now_secs: u64) -> String {
    let done = reloaded(answer);
    let before = &answer["before"];
    if before.is_null() {
        return done;
    }
    let since = format!("{done} since the {}", when(before, now_secs));
    if before["ok"] != true {
        return format!(
            "{done}: the server runs with what the file says. The mistakes of the {} are corrected",
            when(before, now_secs),
        );
    }
    match phrases(before) {
        None => since,
        Some(found) => format!("{since}, which found {found}"),
    }
}

/// Seconds since 1970.
pub(crate) fn now_secs() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

fn reloaded(answer: &Value) -> String {
    phrases(answer).unwrap_or_else(|| "nothing has changed".to_owned())
}

/// What a reload did, unless that was nothing.
fn phrases(answer: &Value) -> Option<String> {
    let phrases = [
        ("changed: ", "changed"),
        ("new certificates or keys: ", "renewed"),
        ("waiting for a restart: ", "waiting"),
    ];
    let said = |(title, key): (&str, &str)| {
        let is_empty = answer[key].as_array().is_none_or(Vec::is_empty);
        (!is_empty).then(|| format!("{title}{}", plain(&answer[key])))
    };
    let said: Vec<String> = phrases.into_iter().filter_map(said).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The clients of the running server.
#[derive(Debug, Args)]
pub(crate) struct Clients {
    #[command(subcommand)]
    command: ClientsCommand,
}

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// List sessions, connected or away
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show one client with its subscriptions
    Show(One),
    /// Disconnect a client
    Kick(Kick),
}

#[derive(Debug, Args)]
struct Ls {
    /// Only ids that contain this
    containing: Option<String>,
    /// Only clients of this zone
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    which: Which,
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

#[derive(Debug, Args)]
struct One {
    /// Client id
    client_id: String,
    /// Its zone [default: the default zone, or the only one that has such a client]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Kick {
    #[command(flatten)]
    one: One,
    /// End the session too
    #[arg(long)]
    end_session: bool,
}

impl Clients {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            ClientsCommand::Ls(ls) => {
                let answer = ls.which.ask(json!({
                    "verb": "clients.ls",
                    "zone": ls.zone,
                    "containing": ls.containing.unwrap_or_default(),
                    "limit": ls.page.limit,
                    "offset": ls.page.offset,
                }))?;
                show(&ls.which, &answer, || clients_text(&answer))
            }
            ClientsCommand::Show(one) => {
                let request =
                    json!({ "verb": "clients.show", "client_id": one.client_id, "zone": one.zone });
                let answer = one.which.ask(request)?;
                show(&one.which, &answer, || client_text(&answer))
            }
            ClientsCommand::Kick(Kick { one, end_session }) => {
                let answer = one.which.ask(json!({
                    "verb": "clients.kick",
                    "client_id": one.client_id,
                    "zone": one.zone,
                    "end_session": end_session,
                }))?;
                show(&one.which, &answer, || kicked(&one.client_id, &answer))
            }
        }
    }
}

/// The result for a client that was to be disconnected.
fn kicked(client_id: &str, answer: &Value) -> String {
    let client_id = shown(client_id);
    match (
        answer["was_connected"] == true,
        answer["session_ended"] == true,
    ) {
        (true, true) => format!("{client_id} is disconnected, and its session has ended\n"),
        (true, false) => format!("{client_id} is disconnected\n"),
        (false, _) => format!("{client_id} was not connected; its session has ended\n"),
    }
}

/// One client: who it is, its connection, what waits for it, and its subscriptions.
fn client_text(client: &Value) -> String {
    let secs = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), duration);
    let mut table = Table::new(&["CLIENT", ""]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("client id", plain(&client["client_id"]));
    row("user", plain(&client["user"]));
    row("zone", plain(&client["zone_name"]));
    let connection = &client["connection"];
    if connection.is_null() {
        row("connected", "no, it is away".into());
    } else {
        row(
            "connected",
            format!("for {}", secs(&connection["connected_secs"])),
        );
        row("from", plain(&connection["peer"]));
        row("by listener", plain(&connection["listener"]));
        row("MQTT version", plain(&connection["version"]));
        let keep_alive = match connection["keep_alive_secs"].as_u64() {
            Some(0) => "none".to_owned(),
            _ => secs(&connection["keep_alive_secs"]),
        };
        row("keep alive", keep_alive);
        row(
            "last packet",
            format!("{} ago", secs(&connection["silent_secs"])),
        );
        let waiting = bytes(connection["queued_bytes"].as_u64().unwrap_or(0));
        let is_full = connection["blocked"] == true;
        let socket = if is_full {
            ", which is full: it reads too slowly"
        } else {
            ""
        };
        row("for its socket", format!("{waiting}{socket}"));
    }
    let expiry = match client["session_expiry_secs"].as_u64() {
        None => "never".to_owned(),
        Some(0) => "with the connection".to_owned(),
        Some(secs) => format!("{} after the connection", duration(secs)),
    };
    row("session ends", expiry);
    row("in flight", plain(&client["in_flight"]));
    row("waiting", plain(&client["waiting"]));
    for (name, told) in happened(client) {
        row(name, told);
    }
    let mut text = table.render();
    let mut filters = Table::new(&["SUBSCRIBED TO", "QOS", ""]);
    let granted = client["granted"].as_array();
    for one in granted.into_iter().flatten() {
        let no_local = (one["no_local"] == true).then(|| "no-local".to_owned());
        let max_rate = one["max_rate"].as_f64();
        let max_rate = max_rate.map(|rate| format!("max-rate {rate}"));
        let options: Vec<String> = no_local.into_iter().chain(max_rate).collect();
        filters.row([
            plain(&one["filter"]),
            plain(&one["qos"]),
            options.join(", "),
        ]);
    }
    if granted.is_some_and(|granted| !granted.is_empty()) {
        text += &format!("\n{}", filters.render());
    }
    text
}

/// What has happened to a client that happens to few.
fn happened(client: &Value) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for (name, key, more) in [
        ("withheld", "withheld", ", for want of rights".to_owned()),
        (
            "lost",
            "lost",
            format!(", the last by {}", plain(&client["lost_by"])),
        ),
        (
            "conflated",
            "conflated",
            ", by a [[policy]] or a max-rate of its own".to_owned(),
        ),
        (
            "publishes refused",
            "publishes_refused",
            ", for want of rights".to_owned(),
        ),
        (
            "topics refused",
            "topics_refused",
            ", above limits.topic_bytes or limits.topic_levels".to_owned(),
        ),
        (
            "pauses",
            "pauses",
            format!(", the last by {}", plain(&client["paused_by"])),
        ),
    ] {
        if let Some(total) = client[key]["total"].as_u64().filter(|total| *total > 0) {
            let lately = plain(&client[key]["last_minute"]);
            rows.push((name, format!("{total}, {lately} in the last minute{more}")));
        }
    }
    rows
}

fn clients_text(answer: &Value) -> String {
    let heads = [
        "CLIENT",
        "ZONE",
        "USER",
        "PEER",
        "VERSION",
        "CONNECTED",
        "SUBSCRIPTIONS",
        "WAITING",
        "STATE",
    ];
    let mut table = Table::new(&heads);
    for client in answer["clients"].as_array().into_iter().flatten() {
        let connection = &client["connection"];
        let connected = match connection["connected_secs"].as_u64() {
            Some(secs) => duration(secs),
            None => "away".into(),
        };
        table.row([
            plain(&client["client_id"]),
            plain(&client["zone_name"]),
            plain(&client["user"]),
            plain(&connection["peer"]),
            plain(&connection["version"]),
            connected,
            plain(&client["subscriptions"]),
            plain(&client["waiting"]),
            state(client),
        ]);
    }
    let mut text = table.render();
    if answer["truncated"] == true {
        let total = plain(&answer["total"]);
        text += &format!("… of {total}; --limit and --offset show others\n");
    }
    text
}

/// What is in the way of a client's messages now or was in the last minute.
fn state(client: &Value) -> String {
    let paused = client["connection"]["paused"]["by"].as_str();
    let paused = paused.map(|by| format!("paused by {by}"));
    let full = client["connection"]["blocked"] == true;
    let full = full.then(|| "reads too slowly".to_owned());
    let lately = ["withheld", "lost"].map(|key| {
        let count = client[key]["last_minute"].as_u64();
        count
            .filter(|count| *count > 0)
            .map(|count| format!("{key} {count}"))
    });
    let all: Vec<String> = [paused, full].into_iter().chain(lately).flatten().collect();
    all.join(", ")
}

/// Lists topic filters with their subscribers, and retained topics.
#[derive(Debug, Args)]
pub(crate) struct Topics {
    /// Only those that contain this text; the words `ls` and `list` before it have no effect
    #[arg(num_args = 0..=2, value_name = "CONTAINING")]
    containing: Vec<String>,
    /// Of this zone [default: filters of all zones, retained topics of the default one]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    which: Which,
}

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
        let containing = self.containing()?.to_owned();
        let answer = self.which.ask(json!({
            "verb": "topics",
            "zone": self.zone,
            "containing": containing,
            "limit": self.page.limit,
            "offset": self.page.offset,
        }))?;
        show(&self.which, &answer, || topics_text(&answer))
    }
}

fn topics_text(answer: &Value) -> String {
    let mut filters = Table::new(&["FILTER", "SUBSCRIBERS"]);
    for entry in answer["filters"].as_array().into_iter().flatten() {
        filters.row([plain(&entry["filter"]), plain(&entry["subscribers"])]);
    }
    let mut retained = Table::new(&["RETAINED TOPIC", "BYTES"]);
    for entry in answer["retained"].as_array().into_iter().flatten() {
        retained.row([plain(&entry["topic"]), plain(&entry["bytes"])]);
    }
    let mut text = format!("{}\n{}", filters.render(), retained.render());
    if answer["truncated"] == true {
        text += "… and more; --limit and --offset show others\n";
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
        let answer = self.which.ask(json!({ "verb": "reload" }))?;
        show(&self.which, &answer, || {
            format!("reloaded; {}\n", just_reloaded(&answer, now_secs()))
        })
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
        let answer = self.which.ask(json!({ "verb": "stop" }))?;
        show(&self.which, &answer, || "the server stops\n".to_owned())
    }
}

fn show(which: &Which, answer: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
    print(if which.json {
        format!("{answer}\n")
    } else {
        text()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reload_is_told_in_phrases() {
        let check = |reload: Value, text: &str| assert_eq!(last_reload(&reload, 1_065), text);
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
        let renewed = json!({ "renewed": ["mqtts://0.0.0.0:8883"] });
        assert_eq!(
            reloaded(&renewed),
            "new certificates or keys: mqtts://0.0.0.0:8883"
        );
    }

    #[test]
    fn a_reload_that_does_nothing_tells_of_the_one_before() {
        assert_eq!(just_reloaded(&json!({}), 1_065), "nothing has changed");
        let failed =
            json!({ "at": 1_062, "cause": "SIGHUP", "ok": false, "reason": "no such key" });
        assert_eq!(
            just_reloaded(&json!({ "before": failed }), 1_065),
            "nothing has changed: the server runs with what the file says. The mistakes of the last \
             reload, 3s ago (SIGHUP) are corrected"
        );
        for (result, told) in [
            (json!({ "ok": true, "changed": [] }), ""),
            (
                json!({ "ok": true, "changed": ["adaptor"] }),
                ", which found changed: adaptor",
            ),
        ] {
            let mut before = result;
            (before["at"], before["cause"]) = (json!(1_062), json!("SIGHUP"));
            let text = format!("nothing has changed since the last reload, 3s ago (SIGHUP){told}");
            assert_eq!(just_reloaded(&json!({ "before": before }), 1_065), text);
        }
    }
}
