//! Commands for the running server: `status`, `clients`, `topics`, `reload` and `stop`.

pub(crate) mod table;

use std::time::SystemTime;

use clap::{Args, Subcommand, value_parser};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{print, shown};
use crate::which::Which;
use table::{Table, bytes, duration, plain};

/// Shows connections, sessions, rates, losses, latencies and queue depths.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Measure rates over this many milliseconds, at most 10,000; 0 measures none
    #[arg(long, value_name = "MS", default_value_t = 500)]
    #[arg(value_parser = value_parser!(u64).range(..=10_000))]
    sample_ms: u64,
    /// Show how shards work as well: turns, and queues between them
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    which: Which,
}

impl Status {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let request = json!({ "verb": "status", "sample_ms": self.sample_ms });
        let status = self.which.ask(request)?;
        show(&self.which, &status, || status_text(&status, self.verbose))
    }
}

fn status_text(status: &Value, is_verbose: bool) -> String {
    let mut text = format!(
        "stentor {}, process {}, up {}\n\n{}\n{}\n{}",
        plain(&status["version"]),
        plain(&status["pid"]),
        duration(status["uptime_secs"].as_u64().unwrap_or(0)),
        listeners(status),
        counters(status),
        shards(status, is_verbose)
    );
    text += &format!("\n{}", memory(&status["memory"]));
    text += &format!("\n{}", losses(status));
    text += &troubles(&status["retained"]["troubles"], now_secs());
    text += &audit_trouble(&status["audit_trouble"], now_secs());
    if !status["reload"].is_null() {
        text += &format!("\n{}\n", last_reload(&status["reload"], now_secs()));
    }
    text
}

/// What clients make the server hold, by kind, and who holds most.
fn memory(memory: &Value) -> String {
    let size = |value: &Value| bytes(value.as_u64().unwrap_or(0));
    let mut kinds = Table::new(&["HELD", "BYTES"]);
    for (kind, held) in memory["by_kind"].as_object().into_iter().flatten() {
        kinds.row([kind.clone(), size(held)]);
    }
    kinds.row(["together".into(), size(&memory["held_bytes"])]);
    if !memory["budget_bytes"].is_null() {
        let state = match memory["state"].as_str() {
            Some("pressed") => " (memory is short)",
            Some("full") => " (reached)",
            _ => "",
        };
        let limit = size(&memory["budget_bytes"]);
        kinds.row(["limit".into(), format!("{limit}{state}")]);
    }
    if !memory["resident_bytes"].is_null() {
        let far = match memory["overgrown"] == true {
            true => " (far more than the limit and the server's own)",
            false => "",
        };
        let resident = size(&memory["resident_bytes"]);
        kinds.row(["the process".into(), format!("{resident}{far}")]);
        kinds.row(["the server's own".into(), size(&memory["own_bytes"])]);
    }
    let mut text = kinds.render();
    let mut holders = Table::new(&["HELD FOR CLIENT", "USER", "BYTES"]);
    let all = memory["holders"].as_array();
    for holder in all.into_iter().flatten() {
        let [client, user] = ["client_id", "user"].map(|key| plain(&holder[key]));
        holders.row([client, user, size(&holder["bytes"])]);
    }
    if all.is_some_and(|all| !all.is_empty()) {
        text += &format!("\n{}", holders.render());
    }
    text
}

/// What is wrong with the disk of the retained messages.
fn troubles(troubles: &Value, now_secs: u64) -> String {
    let told = troubles.as_array().into_iter().flatten().map(|trouble| {
        let what = "the store of retained messages cannot write";
        format!("{what} {}\n", since(trouble, now_secs))
    });
    told.collect()
}

/// What is wrong with the audit log.
fn audit_trouble(trouble: &Value, now_secs: u64) -> String {
    match trouble.is_null() {
        true => String::new(),
        false => format!(
            "the audit log cannot be written {}\n",
            since(trouble, now_secs)
        ),
    }
}

/// Since when something is wrong, and why.
fn since(trouble: &Value, now_secs: u64) -> String {
    let since = trouble["since"].as_u64().unwrap_or(now_secs);
    let time = duration(now_secs.saturating_sub(since));
    format!("since {time} ago: {}", plain(&trouble["text"]))
}

/// What became of messages that did not arrive: lost by policy, by client and topic, or withheld,
/// refused or replaced.
fn losses(status: &Value) -> String {
    let others: String = [
        (
            &status["messages_withheld"],
            "withheld from clients that have no right to receive them",
        ),
        (
            &status["retained"]["refused_by_disk"],
            "with RETAIN refused, because the disk was full or failed",
        ),
        (
            &status["retained"]["refused_by_bound"],
            "with RETAIN refused, because a bound of [retained] was reached",
        ),
    ]
    .into_iter()
    .filter(|(count, _)| count.as_u64().is_some_and(|count| count > 0))
    .map(|(count, what)| format!("messages {what}: {}\n", plain(count)))
    .collect();
    let lost = lost(&status["losses"]).unwrap_or_else(|| match others.is_empty() {
        true => "no message was lost\n".to_owned(),
        false => String::new(),
    });
    let conflated = match status["losses"]["by_cause"]["conflated"].as_u64() {
        None | Some(0) => String::new(),
        Some(count) => format!("messages that newer ones of their topics replaced: {count}\n"),
    };
    [lost, others, conflated].concat()
}

/// What was lost, by cause, then by client and topic; `None` if nothing was. Conflation is no loss:
/// it was asked for.
fn lost(losses: &Value) -> Option<String> {
    let mut causes = Table::new(&["LOST BECAUSE", "MESSAGES"]);
    let mut any = false;
    for (cause, messages) in losses["by_cause"].as_object().into_iter().flatten() {
        let is_any = messages.as_u64().is_some_and(|messages| messages > 0);
        if is_any && cause != "conflated" {
            causes.row([cause.clone(), plain(messages)]);
            any = true;
        }
    }
    if !any {
        return None;
    }
    let mut text = causes.render();
    let mut worst = Table::new(&["LOST BY CLIENT", "TOPIC", "MESSAGES"]);
    let pairs = losses["worst"].as_array();
    for pair in pairs.into_iter().flatten() {
        worst.row(["client_id", "topic", "messages"].map(|key| plain(&pair[key])));
    }
    if pairs.is_some_and(|pairs| !pairs.is_empty()) {
        text += &format!("\n{}", worst.render());
    }
    Some(text)
}

/// When the configuration was read last, who asked for it, and what came of it.
fn last_reload(reload: &Value, now_secs: u64) -> String {
    let result = if reload["ok"] == true {
        reloaded(reload)
    } else {
        format!(
            "failed, the old configuration stays: {}",
            plain(&reload["reason"])
        )
    };
    format!("{}: {result}", when(reload, now_secs))
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
        return format!("{since}, which failed: {}", plain(&before["reason"]));
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

fn listeners(status: &Value) -> String {
    let mut table = Table::new(&["LISTENER", "CONNECTIONS", "ANONYMOUS"]);
    for listener in status["listeners"].as_array().into_iter().flatten() {
        let anonymous = if listener["anonymous"] == true {
            "yes"
        } else {
            "no"
        };
        table.row([
            plain(&listener["url"]),
            plain(&listener["connections"]),
            anonymous.into(),
        ]);
    }
    table.render()
}

fn counters(status: &Value) -> String {
    let of_server = status["retained"]["messages_of_server"].as_u64();
    let all = status["retained"]["messages"].as_u64().unwrap_or(0);
    let retained = json!(all.saturating_sub(of_server.unwrap_or(0)));
    let mut levels = Table::new(&["NOW", ""]);
    for (name, value) in [
        ("connections", &status["connections"]),
        ("sessions", &status["sessions"]),
        ("subscriptions", &status["subscriptions"]),
        ("retained messages", &retained),
        (
            "and of the server",
            &status["retained"]["messages_of_server"],
        ),
        ("logins waiting", &status["logins_waiting"]),
        ("log lines lost", &status["log_lines_dropped"]),
    ] {
        levels.row([name.into(), plain(value)]);
    }
    let retained = status["retained"]["bytes"].as_u64().unwrap_or(0);
    levels.row(["retained size".into(), bytes(retained)]);
    let mut flows = Table::new(&["FLOW", "PER SECOND", "SINCE START"]);
    for key in [
        "connects",
        "messages_in",
        "messages_out",
        "messages_dropped",
        "bytes_in",
        "bytes_out",
    ] {
        flows.row([
            key.replace('_', " "),
            plain(&status["rates"][key]),
            plain(&status[key]),
        ]);
    }
    format!("{}\n{}", levels.render(), flows.render())
}

/// How long messages take in each shard; with how shards work, if somebody asks for that.
fn shards(status: &Value, is_verbose: bool) -> String {
    let heads = [
        "SHARD",
        "CONNECTIONS",
        "P50 µs",
        "P99 µs",
        "MAX µs",
        "TURN µs",
        "LONG TURNS",
        "MESH QUEUE",
        "STALLED",
    ];
    let shown = if is_verbose { heads.len() } else { 5 };
    let mut table = Table::new(&heads[..shown]);
    for shard in status["shards"].as_array().into_iter().flatten() {
        let (latency, queues) = (&shard["latency"], &shard["queues"]);
        let is_measured = latency["samples"]
            .as_u64()
            .is_some_and(|samples| samples > 0);
        let quantile = |key: &str| {
            if is_measured {
                plain(&latency[key])
            } else {
                "–".to_owned()
            }
        };
        let cells = [
            plain(&shard["shard"]),
            plain(&shard["connections"]),
            quantile("p50_micros"),
            quantile("p99_micros"),
            quantile("max_micros"),
            plain(&shard["long_turns"]["longest_lately"]["micros"]),
            plain(&shard["long_turns"]["count"]),
            plain(&queues["mesh_inward"]),
            plain(&queues["connections_stalled"]),
        ];
        table.cells(cells.into_iter().take(shown).collect());
    }
    let long = status["long_turns"]["count"].as_u64().unwrap_or(0);
    let long = match long {
        0 => String::new(),
        _ => format!("turns that took too long: {long}; --verbose and docs/turns.md tell more\n"),
    };
    format!(
        "{}{}",
        table.render(),
        if is_verbose { String::new() } else { long }
    )
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
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    /// Leave out this many first
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
    /// End its session too
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

/// What became of a client that was sent away.
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
    let mut filters = Table::new(&["SUBSCRIBED TO", "QOS"]);
    let granted = client["granted"].as_array();
    for one in granted.into_iter().flatten() {
        filters.row(["filter", "qos"].map(|key| plain(&one[key])));
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
        ("conflated", "conflated", ", as was asked for".to_owned()),
        (
            "publishes refused",
            "publishes_refused",
            ", for want of rights".to_owned(),
        ),
        (
            "pauses",
            "pauses",
            format!(", the last by {}", plain(&client["paused_by"])),
        ),
    ] {
        if let Some(total) = client[key]["total"].as_u64() {
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
    /// Only those that contain this; `ls` or `list` before it says nothing more
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
    fn losses_are_a_table_and_nothing_is_a_sentence() {
        let none = json!({ "by_cause": { "drop-newest": 0, "conflated": 9 }, "worst": [] });
        assert_eq!(lost(&none), None);
        let some = json!({
            "by_cause": { "disconnect": 0, "drop-newest": 12 },
            "worst": [
                { "client_id": "slow", "topic": "a/b", "messages": 10 },
                { "client_id": "c\u{1b}", "topic": "t", "messages": 2 },
            ],
        });
        let text = "LOST BECAUSE  MESSAGES\n\
                    drop-newest   12\n\n\
                    LOST BY CLIENT  TOPIC  MESSAGES\n\
                    slow            a/b    10\n\
                    c\\u{1b}         t      2\n";
        assert_eq!(lost(&some).as_deref(), Some(text));
    }

    #[test]
    fn what_was_withheld_or_refused_is_said_instead_of_that_nothing_was_lost() {
        let none = json!({ "losses": { "by_cause": { "drop-newest": 0 } } });
        assert_eq!(losses(&none), "no message was lost\n");
        for (status, told) in [
            (
                json!({ "messages_withheld": 3 }),
                "no right to receive them: 3",
            ),
            (
                json!({ "retained": { "refused_by_disk": 209 } }),
                "full or failed: 209",
            ),
            (
                json!({ "retained": { "refused_by_bound": 1 } }),
                "was reached: 1",
            ),
        ] {
            let text = losses(&status);
            assert!(
                text.contains(told) && !text.contains("no message"),
                "{text}"
            );
        }
        let conflated = json!({ "losses": { "by_cause": { "conflated": 7 } } });
        let text = losses(&conflated);
        assert!(
            text.starts_with("no message was lost\n") && text.ends_with(": 7\n"),
            "{text}"
        );
        let troubles = troubles(&json!([{ "since": 1_000, "text": "no space" }]), 1_065);
        assert!(
            troubles.contains("cannot write since 1m 5s ago: no space"),
            "{troubles}"
        );
    }

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
        for (result, told) in [
            (json!({ "ok": true, "changed": [] }), ""),
            (
                json!({ "ok": true, "changed": ["adaptor"] }),
                ", which found changed: adaptor",
            ),
            (
                json!({ "ok": false, "reason": "no such key" }),
                ", which failed: no such key",
            ),
        ] {
            let mut before = result;
            (before["at"], before["cause"]) = (json!(1_062), json!("SIGHUP"));
            let text = format!("nothing has changed since the last reload, 3s ago (SIGHUP){told}");
            assert_eq!(just_reloaded(&json!({ "before": before }), 1_065), text);
        }
    }
}
