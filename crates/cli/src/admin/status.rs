//! `stentor status`: how the running server is doing.

use clap::{Args, value_parser};
use stentor_control::status::{Figures, Losses, Memory, Rates, Told, Trouble};

use super::table::{Table, bytes, duration, maybe};
use super::{last_reload, now_secs};
use crate::accounts::zone_figures;
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

/// Shows how the server is doing: connections, messages, losses and memory.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Measure rates over this many milliseconds, up to 10,000; 0 measures no rates
    #[arg(long, value_name = "MS", default_value_t = 500)]
    #[arg(value_parser = value_parser!(u64).range(..=10_000))]
    sample_ms: u64,
    /// Show also the times and queues of the server's threads, and memory by kind
    #[arg(long, short)]
    verbose: bool,
    /// Show this zone alone, as `stentor zone show` does
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl Status {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(zone) = &self.zone {
            return zone_figures(Some(zone), &self.which);
        }
        let told = self.which.tell(&stentor_control::status::Status {
            sample_ms: self.sample_ms,
            fresh: true,
        })?;
        told.print(|status| text(status, self.verbose))
    }
}

/// The first screen, for people who do not know how the server works inside, and more for those who
/// ask.
fn text(status: &Told, is_verbose: bool) -> String {
    let mut parts = vec![
        format!(
            "stentor {}, process {}, up {}\n",
            shown(&status.version),
            status.pid,
            duration(status.uptime_secs),
        ),
        listeners(status),
        levels(status),
        flows(status),
    ];
    parts.extend(times(status));
    parts.extend(holders(&status.memory));
    if is_verbose {
        parts.extend([shards(status), kinds(&status.memory)]);
    }
    let now_secs = now_secs();
    let long = match is_verbose {
        true => String::new(),
        false => long_turns(status),
    };
    let mut last = format!("{long}{}", losses(status));
    last += &troubles(&status.retained.troubles, now_secs);
    last += &session_troubles(&status.session_store.troubles);
    last += &audit_trouble(status.audit_trouble.as_ref(), now_secs);
    parts.push(last);
    if let Some(reload) = &status.reload {
        parts.push(format!("{}\n", last_reload(reload, now_secs)));
    }
    parts.extend(newer_file(status));
    parts.join("\n")
}

/// A configuration file that was saved since the server read it.
fn newer_file(status: &Told) -> Option<String> {
    let file = shown(status.newer_file.as_deref()?);
    let when = match status.reload.as_ref().is_some_and(|last| !last.ok) {
        true => "after that",
        false => "after it was applied",
    };
    let what = match status.newer_file_is_empty {
        true => ", and is empty: `stentor reload` would refuse it",
        false => ": `stentor reload` applies it",
    };
    Some(format!("{file} was saved {when}{what}\n"))
}

fn listeners(status: &Told) -> String {
    let mut table = Table::new(&["LISTENER", "CONNECTIONS", "LOGIN"]);
    for listener in &status.listeners {
        let login = match listener.anonymous {
            true => "not needed",
            false => "required",
        };
        let connections = listener.connections.to_string();
        table.row([shown(&listener.url), connections, login.into()]);
    }
    table.render()
}

/// What there is now. What the server says of itself (`$SYS`) is counted apart.
fn levels(status: &Told) -> String {
    let retained = &status.retained;
    let of_server = retained.messages_of_server;
    let others = retained.messages.saturating_sub(of_server);
    let mut table = Table::new(&["NOW", ""]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("connections", status.connections.to_string());
    row("sessions", status.figures.sessions.to_string());
    row("subscriptions", status.figures.subscriptions.to_string());
    row("retained messages", others.to_string());
    row(
        "retained in $SYS",
        format!("{of_server} (the server's own)"),
    );
    row("size of both", bytes(retained.bytes));
    if status.session_store.enabled {
        row("session files", bytes(status.session_store.bytes));
        if status.session_store.backlog_bytes > 0 {
            row(
                "backlogs on disk",
                bytes(status.session_store.backlog_bytes),
            );
        }
    }
    row("memory for clients", memory(&status.memory));
    for (name, value) in [
        ("logins waiting", status.logins_waiting as u64),
        ("log lines lost", status.log_lines_dropped),
    ] {
        if value > 0 {
            row(name, value.to_string());
        }
    }
    table.render()
}

/// What clients make the server hold, of what they may.
pub(super) fn memory(memory: &Memory) -> String {
    let state = match &*memory.state {
        "pressed" => ": memory is short",
        "full" => ": the limit is reached",
        _ => "",
    };
    let limit = memory.budget_bytes;
    let limit = limit.map_or_else(String::new, |limit| format!(" of {}", bytes(limit)));
    // The smaller one counts: a message that waits for several clients is held once in memory.
    let (counts, what) = match memory.resident_bytes {
        Some(resident) if resident < memory.held_bytes => (resident, " in the process"),
        _ => (memory.held_bytes, ""),
    };
    let far = match memory.overgrown {
        true => format!(
            "; the process has {}, far more than the limit and the server's own",
            bytes(memory.resident_bytes.unwrap_or(0))
        ),
        false => String::new(),
    };
    format!("{}{what}{limit}{state}{far}", bytes(counts))
}

/// Something that flows through the server.
pub(super) struct Flow {
    pub(super) name: &'static str,
    /// How much in a second.
    pub(super) rate: fn(&Rates) -> f64,
    /// How much since the start.
    pub(super) sum: fn(&Figures) -> u64,
    /// Whether it is counted in bytes.
    pub(super) is_bytes: bool,
}

/// What flows, in the order in which it is shown.
pub(super) const FLOWS: [Flow; 6] = [
    Flow {
        name: "logins",
        rate: |rates| rates.connects,
        sum: |figures| figures.connects,
        is_bytes: false,
    },
    Flow {
        name: "messages in",
        rate: |rates| rates.messages_in,
        sum: |figures| figures.messages_in,
        is_bytes: false,
    },
    Flow {
        name: "messages out",
        rate: |rates| rates.messages_out,
        sum: |figures| figures.messages_out,
        is_bytes: false,
    },
    Flow {
        name: "messages lost",
        rate: |rates| rates.messages_dropped,
        sum: |figures| figures.messages_dropped,
        is_bytes: false,
    },
    Flow {
        name: "received",
        rate: |rates| rates.bytes_in,
        sum: |figures| figures.bytes_in,
        is_bytes: true,
    },
    Flow {
        name: "sent",
        rate: |rates| rates.bytes_out,
        sum: |figures| figures.bytes_out,
        is_bytes: true,
    },
];

impl Flow {
    /// How much in all, for people.
    pub(super) fn total(&self, figures: &Figures) -> String {
        let sum = (self.sum)(figures);
        match self.is_bytes {
            true => bytes(sum),
            false => sum.to_string(),
        }
    }
}

fn flows(status: &Told) -> String {
    let mut table = Table::new(&["FLOW", "PER SECOND", "SINCE START"]);
    for flow in FLOWS {
        let rate = status.rates.as_ref().map(flow.rate);
        let rate = rate.map_or_else(
            || "-".to_owned(),
            |rate| match flow.is_bytes {
                true => bytes(rate as u64),
                false => format!("{rate:?}"),
            },
        );
        table.row([flow.name.into(), rate, flow.total(&status.figures)]);
    }
    table.render()
}

/// How long messages take through the server, if some have come; in words.
fn times(status: &Told) -> Option<String> {
    let latency = &status.figures.latency;
    if latency.samples == 0 {
        return None;
    }
    let mut table = Table::new(&["TIME IN THE SERVER", ""]);
    for (name, word, micros) in [
        ("half of the messages", "at most ", latency.p50_micros),
        ("99 of 100", "at most ", latency.p99_micros),
        ("the slowest", "", latency.max_micros),
    ] {
        let time = millis(micros);
        table.row([name.into(), format!("{word}{time}")]);
    }
    Some(table.render())
}

/// `0.04 ms`, `1.2 ms`, `3.4 s`.
pub(super) fn millis(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{:.2} ms", micros as f64 / 1e3),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// The clients for which the server holds the most memory, if there are any.
pub(super) fn holders(memory: &Memory) -> Option<String> {
    let all = Some(&memory.holders).filter(|all| !all.is_empty())?;
    let mut table = Table::new(&["MOST MEMORY FOR", "USER", "SIZE"]);
    for holder in all {
        let (client, user) = (shown(&holder.client_id), maybe(holder.user.as_deref()));
        table.row([client, user, bytes(holder.bytes)]);
    }
    Some(table.render())
}

/// What clients make the server hold, by kind.
fn kinds(memory: &Memory) -> String {
    let mut table = Table::new(&["MEMORY", "SIZE"]);
    for (kind, held) in &memory.by_kind {
        let words = match kind.as_str() {
            "sessions" => "sessions and subscriptions",
            "queues" => "messages that wait for clients",
            "draining" => "last bytes to clients that were disconnected",
            "connections" => "connections: packets half received, TLS, WebSocket",
            "work" => "work that is not finished",
            "mesh" => "messages on their way between shards",
            "journal" => "what waits until it is written to the files of the sessions",
            "retained" => "index of retained messages",
            "procedures" => "messages that procedures are asked about",
            other => other,
        };
        table.row([words.into(), bytes(held.as_u64().unwrap_or(0))]);
    }
    table.row(["together".into(), bytes(memory.held_bytes)]);
    if let Some(budget) = memory.budget_bytes {
        table.row(["limit".into(), bytes(budget)]);
    }
    if let Some(resident) = memory.resident_bytes {
        table.row(["the process".into(), bytes(resident)]);
        table.row(["the server's own".into(), bytes(memory.own_bytes)]);
    }
    table.render()
}

/// Turns that were long, if there were some.
fn long_turns(status: &Told) -> String {
    match status.long_turns.count {
        0 => String::new(),
        long => {
            format!("turns that took too long: {long}; --verbose and docs/turns.md tell more\n")
        }
    }
}

/// How shards work: a shard is a thread with a part of the connections.
pub(super) fn shards(status: &Told) -> String {
    let mut table = Table::new(&[
        "SHARD",
        "CONNECTIONS",
        "HALF WITHIN",
        "99 OF 100 WITHIN",
        "SLOWEST",
        "LONGEST TURN",
        "LONG TURNS",
        "MESH QUEUE",
        "STALLED",
    ]);
    for shard in &status.shards {
        let (latency, queues) = (&shard.figures.latency, &shard.queues);
        let quantile = |micros: u64| match latency.samples {
            0 => "–".to_owned(),
            _ => millis(micros),
        };
        table.row([
            shard.shard.to_string(),
            shard.connections.to_string(),
            quantile(latency.p50_micros),
            quantile(latency.p99_micros),
            quantile(latency.max_micros),
            millis(shard.long_turns.longest_lately.micros),
            shard.long_turns.count.to_string(),
            queues.mesh_inward.to_string(),
            queues.connections_stalled.to_string(),
        ]);
    }
    table.render()
}

/// What is wrong with the disk of the retained messages.
fn troubles(troubles: &[Trouble], now_secs: u64) -> String {
    let told = troubles.iter().map(|trouble| {
        let what = "the store of retained messages cannot write";
        format!("{what} {}\n", since(trouble, now_secs))
    });
    told.collect()
}

/// What is wrong with the files of the sessions.
fn session_troubles(troubles: &[String]) -> String {
    let told = troubles.iter();
    let told = told.map(|trouble| format!("sessions are in trouble: {}\n", shown(trouble)));
    told.collect()
}

/// What is wrong with the audit log.
fn audit_trouble(trouble: Option<&Trouble>, now_secs: u64) -> String {
    trouble.map_or_else(String::new, |trouble| {
        let since = since(trouble, now_secs);
        format!("the audit log cannot be written {since}\n")
    })
}

/// Since when something is wrong, and why.
fn since(trouble: &Trouble, now_secs: u64) -> String {
    let time = duration(now_secs.saturating_sub(trouble.since));
    format!("since {time} ago: {}", shown(&trouble.text))
}

/// Sessions that the server ended for want of room, with all that waited in them.
fn ended_early(figures: &Figures) -> String {
    let all = figures.sessions_evicted;
    let by_memory = figures.sessions_evicted_by_memory;
    let told = [
        ("limits.memory was nearly", by_memory),
        ("limits.sessions was", all.saturating_sub(by_memory)),
    ];
    let told = told.into_iter().filter(|(_, count)| *count > 0);
    told.map(|(limit, count)| {
        format!("sessions that ended early, because {limit} reached: {count}\n")
    })
    .collect()
}

/// What became of messages that did not arrive: lost by policy, by client and topic, or withheld,
/// refused or replaced.
fn losses(status: &Told) -> String {
    let (figures, retained) = (&status.figures, &status.retained);
    let others: String = [
        (
            figures.messages_withheld,
            "withheld from clients that have no right to receive them",
        ),
        (
            figures.publishes_denied,
            "refused, because their clients may not publish them",
        ),
        (
            figures.topics_refused,
            "refused, because their topics are above limits.topic_bytes or limits.topic_levels",
        ),
        (
            retained.refused_by_disk,
            "with RETAIN refused, because the disk was full or failed",
        ),
        (
            retained.refused_by_bound,
            "with RETAIN refused, because a bound of [retained] was reached",
        ),
        (
            retained.refused_by_memory,
            "with RETAIN refused, because limits.memory was reached",
        ),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("messages {what}: {count}\n"))
    .collect();
    let others = others + &ended_early(figures);
    let lost = lost(&status.losses).unwrap_or_else(|| match others.is_empty() {
        true => "no message was lost\n".to_owned(),
        false => String::new(),
    });
    let conflated = match status.losses.by_cause.get("conflated") {
        None | Some(0) => String::new(),
        Some(count) => format!("messages that newer ones of their topics replaced: {count}\n"),
    };
    [lost, others, conflated].concat()
}

/// What was lost, by cause, then by client and topic; `None` if nothing was. Conflation is not a
/// loss: the subscriber asked for it.
fn lost(losses: &Losses) -> Option<String> {
    let mut causes = Table::new(&["LOST BECAUSE", "MESSAGES"]);
    for (cause, messages) in &losses.by_cause {
        if *messages > 0 && cause != "conflated" {
            causes.row([cause_text(cause), messages.to_string()]);
        }
    }
    if causes.is_empty() {
        return None;
    }
    let mut text = causes.render();
    let mut worst = Table::new(&["LOST BY CLIENT", "TOPIC", "MESSAGES"]);
    for loss in &losses.worst {
        let messages = loss.messages.to_string();
        worst.row([shown(&loss.client_id), shown(&loss.topic), messages]);
    }
    if !losses.worst.is_empty() {
        text += &format!("\n{}", worst.render());
    }
    Some(text)
}

/// Why messages were lost, in words, with the name that configurations and programs know.
fn cause_text(cause: &str) -> String {
    let words = match cause {
        "disconnect" => "the client read too slowly and was disconnected",
        "drop-newest" => "the queue was full, and the newest was dropped",
        "drop-oldest" => "the queue was full, and the oldest was dropped",
        "expired" => "it expired before it could be sent",
        "not-kept" => "it was not kept for late subscribers",
        "packet-too-large" => "it is larger than the client takes",
        "session-ended" => "the session ended early, for want of room",
        _ => return shown(cause),
    };
    format!("{words} ({cause})")
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// What a server answers that has something of everything.
    fn status() -> Value {
        json!({
            "version": "0.1.0", "pid": 7, "uptime_secs": 65,
            "listeners": [{ "url": "mqtt://127.0.0.1:1883", "connections": 2, "anonymous": true }],
            "connections": 2, "sessions": 3, "subscriptions": 4, "logins_waiting": 0,
            "log_lines_dropped": 0,
            "retained": {
                "messages": 70, "messages_of_server": 68, "bytes": 1_300_000, "troubles": [],
            },
            "session_store": { "enabled": true, "bytes": 2_097_152, "troubles": ["no room"] },
            "memory": {
                "held_bytes": 1_258_291, "budget_bytes": 2_147_483_648_u64, "state": "none",
                "by_kind": { "mesh": 0, "queues": 1_258_291 },
                "resident_bytes": 8_425_472, "own_bytes": 7_823_360, "overgrown": false,
                "holders": [{ "client_id": "c", "user": null, "bytes": 1_258_291 }],
            },
            "latency": {
                "samples": 9, "p50_micros": 42, "p99_micros": 1_234, "max_micros": 2_500_000,
            },
            "rates": { "messages_in": 1.5, "bytes_in": 2_048.4 },
            "messages_in": 12, "bytes_in": 1_258_291, "bytes_out": 5,
            "losses": { "by_cause": { "drop-newest": 0 }, "worst": [] },
            "long_turns": { "count": 0 }, "shards": [{ "shard": 0, "queues": {} }],
        })
    }

    /// The smaller number counts, so it is shown: docs/limits.md.
    #[test]
    fn what_counts_as_memory_is_shown() {
        let told = json!({
            "held_bytes": 131_596_288, "budget_bytes": 4_194_304, "state": "full",
            "resident_bytes": 42_991_616, "overgrown": false,
        });
        let text = memory(&read(told));
        assert_eq!(
            text,
            "41.0 MiB in the process of 4.0 MiB: the limit is reached"
        );
    }

    /// Two mistakes in a file are two lines, not one with `\\n` in it.
    #[test]
    fn each_mistake_of_a_reload_has_its_line() {
        let mut status = status();
        status["reload"] = json!({
            "ok": false, "cause": "stentor reload", "at": 1_000, "reason": "a:1: x\na:2: y\u{1b}",
        });
        let text = text(&read(status), false);
        assert!(
            text.contains("stays:\n  a:1: x\n  a:2: y\\u{1b}\n"),
            "{text}"
        );
    }

    #[test]
    fn a_file_that_was_saved_since_is_told() {
        let mut status = json!({ "newer_file": "a.toml", "reload": { "ok": true } });
        let told = |status: &Value| newer_file(&read(status.clone())).unwrap();
        assert_eq!(
            told(&status),
            "a.toml was saved after it was applied: `stentor reload` applies it\n"
        );
        status["reload"]["ok"] = false.into();
        assert_eq!(
            told(&status),
            "a.toml was saved after that: `stentor reload` applies it\n"
        );
        status["newer_file_is_empty"] = true.into();
        assert!(told(&status).ends_with("is empty: `stentor reload` would refuse it\n"));
        assert_eq!(newer_file(&Told::default()), None);
    }

    /// A stranger reads it: sizes have units, kinds have words, the rest waits for `--verbose`.
    #[test]
    fn the_first_screen_has_no_inner_words() {
        let first = text(&read(status()), false);
        for told in [
            "mqtt://127.0.0.1:1883  2            not needed",
            "retained messages   2\n",
            "retained in $SYS    68 (the server's own)",
            "size of both        1.2 MiB",
            "session files       2.0 MiB",
            "memory for clients  1.2 MiB of 2.0 GiB",
            "received       2.0 KiB     1.2 MiB",
            "half of the messages  at most 0.04 ms",
            "99 of 100             at most 1.2 ms",
            "the slowest           2.5 s",
            "c                -     1.2 MiB",
        ] {
            assert!(first.contains(told), "{told:?} is missing: {first}");
        }
        let last = "no message was lost\nsessions are in trouble: no room\n";
        assert!(first.ends_with(last), "{first}");
        let inner = [
            "SHARD", "µs", "P50", "HELD", "mesh", "queues", "draining", "TURN",
        ];
        for word in inner {
            assert!(!first.contains(word), "{word:?} is an inner word: {first}");
        }
        assert!(first.lines().count() <= 40, "{first}");
        let more = text(&read(status()), true);
        for told in [
            "SHARD",
            "messages that wait for clients  ",
            "the server's own",
        ] {
            assert!(more.contains(told), "{told:?} is missing: {more}");
        }
    }

    #[test]
    fn losses_are_a_table_and_nothing_is_a_sentence() {
        let none = json!({ "by_cause": { "drop-newest": 0, "conflated": 9 }, "worst": [] });
        assert_eq!(lost(&read(none)), None);
        let some = json!({
            "by_cause": { "disconnect": 0, "drop-newest": 12 },
            "worst": [
                { "client_id": "slow", "topic": "a/b", "messages": 10 },
                { "client_id": "c\u{1b}", "topic": "t", "messages": 2 },
            ],
        });
        let text = "LOST BECAUSE                                                  MESSAGES\n\
                    the queue was full, and the newest was dropped (drop-newest)  12\n\n\
                    LOST BY CLIENT  TOPIC  MESSAGES\n\
                    slow            a/b    10\n\
                    c\\u{1b}         t      2\n";
        assert_eq!(lost(&read(some)).as_deref(), Some(text));
    }

    #[test]
    fn what_was_withheld_or_refused_is_said_instead_of_that_nothing_was_lost() {
        let none = json!({ "losses": { "by_cause": { "drop-newest": 0 } } });
        assert_eq!(losses(&read(none)), "no message was lost\n");
        let ended = json!({
            "losses": { "by_cause": {} }, "sessions_evicted": 7, "sessions_evicted_by_memory": 5,
        });
        assert_eq!(
            losses(&read(ended)),
            "sessions that ended early, because limits.memory was nearly reached: 5\n\
             sessions that ended early, because limits.sessions was reached: 2\n"
        );
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
            (
                json!({ "retained": { "refused_by_memory": 4 } }),
                "messages with RETAIN refused, because limits.memory was reached: 4",
            ),
            (json!({ "publishes_denied": 5 }), "may not publish them: 5"),
            (json!({ "topics_refused": 6 }), "limits.topic_levels: 6"),
        ] {
            let text = losses(&read(status));
            assert!(
                text.contains(told) && !text.contains("no message"),
                "{text}"
            );
        }
        let conflated = json!({ "losses": { "by_cause": { "conflated": 7 } } });
        let text = losses(&read(conflated));
        assert!(
            text.starts_with("no message was lost\n") && text.ends_with(": 7\n"),
            "{text}"
        );
        let trouble = Trouble {
            since: 1_000,
            text: "no space".into(),
        };
        let troubles = troubles(&[trouble], 1_065);
        assert!(
            troubles.contains("cannot write since 1m 5s ago: no space"),
            "{troubles}"
        );
    }
}
