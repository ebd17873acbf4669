//! `stentor retained`: the last messages of topics, of a running server or of a stopped one.

mod copy;
mod count;
mod history;
mod import;
mod sorted;
mod store;

use std::fmt::Write as _;
use std::io::{self, Read};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};
use stentor_control::retained::{self as wire, Compact, Damage, Put, Status};
use stentor_server::Access;

use crate::admin::table::{Table, bytes, duration, maybe, plain};
use crate::failure::Failure;
use crate::output::{Pieces, print, shown};
use crate::time::Time;
use sorted::Sorted;
use store::Where;

pub(crate) use history::{HELP as HISTORY_HELP, History};

const EXAMPLES: &str = "\
Examples:
  stentor retained ls 'plant/#'                      topics with their size and age
  stentor retained get plant/line1                   the payload as it is
  stentor retained set plant/line1 running           as a retained publish
  stentor retained clear 'plant/old/#'               empty retained messages
  stentor retained export > kept.jsonl               one JSON object a line
  stentor retained import kept.jsonl                 what is there already is left alone
  stentor retained import --from mqtt://old:1883     copy another broker's; --dry-run only compares

The command talks to the server that runs on the data folder. If no server runs, it works on the
files themselves. --config FILE names the server's configuration, --data-dir DIR its data folder.";

/// Lists, changes, copies and checks retained messages.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Retained {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List topics that hold a message
    #[command(visible_alias = "list")]
    Ls(Filtered),
    /// Print the message of a topic
    Get(One),
    /// Set the message of a topic
    Set(Set),
    /// Remove the messages of all topics that match
    #[command(visible_aliases = ["delete", "remove", "rm"])]
    Clear(Clear),
    /// Count messages and their bytes
    Count(Where),
    /// Write messages as JSON lines to standard output
    Export(Filtered),
    /// Import messages from JSON lines, or from another broker
    Import(import::Import),
    /// Read and check every message, and list what is damaged
    Verify(Where),
    /// Give unused files back to the disk now
    Compact(Where),
}

#[derive(Debug, Args)]
struct Filtered {
    /// Only topics that match this filter. `ls` leaves topics with $ at the beginning out, except
    /// if the filter begins with $
    #[arg(default_value = "#")]
    filter: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, Args)]
struct One {
    /// Topic
    topic: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, Args)]
struct Set {
    /// Topic
    topic: String,
    /// Payload: text, or @FILE, or @- for standard input (also for a text that begins with @)
    payload: String,
    /// QoS of the message
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Seconds until the message expires
    #[arg(long, value_name = "SECONDS")]
    expiry: Option<u32>,
    /// Accept a zone that does not exist yet
    #[arg(long)]
    new_zones: bool,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, Args)]
struct Clear {
    /// Topic, or filter for all that match
    filter: String,
    #[command(flatten)]
    place: Where,
}

impl Retained {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Ls(filtered) => list(&filtered),
            Command::Get(one) => get(&one),
            Command::Set(set) => set.run(),
            Command::Clear(command) => clear(&command),
            Command::Count(place) => {
                let told = place.open(Access::Read)?.ask(&Status {})?;
                show(&place, &told, || count::text(&told))
            }
            Command::Export(filtered) => export(&filtered),
            Command::Import(import) => import.run(),
            Command::Verify(place) => verify(&place),
            Command::Compact(place) => {
                let told = place.open(Access::Change)?.ask(&Compact {})?;
                show(&place, &told, || {
                    format!("{} files removed\n", told.files_removed)
                })
            }
        }
    }
}

pub(crate) fn payload_of(message: &Value) -> Vec<u8> {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    match (&message["payload"], &message["payload_base64"]) {
        (Value::String(text), _) => text.clone().into_bytes(),
        // The server wrote it.
        (_, Value::String(text)) => STANDARD.decode(text).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn list(filtered: &Filtered) -> Result<(), Failure> {
    let store = filtered.place.open(Access::Read)?;
    let is_json = filtered.place.is_json();
    let mut out = Pieces::standard();
    let now_ms = Time::now().unix_millis();
    // Once the filter has been taken: what is refused has no head.
    let mut has_head = is_json;
    let mut lines = Sorted::new(&mut out);
    store.messages(&filtered.filter, |message| {
        let len = payload_of(&message).len() as u64;
        if is_json {
            let entry = json!({
                "topic": message["topic"],
                "bytes": len,
                "qos": message["qos"],
                "received_ms": message["received_ms"],
            });
            return lines.put(&plain(&message["topic"]), format!("{entry}\n"));
        }
        if !std::mem::replace(&mut has_head, true) {
            lines.put("", row("BYTES", "QOS", "AGE", "TOPIC"))?;
        }
        let age = message["received_ms"].as_u64();
        let age = age.map_or_else(
            || "-".to_owned(),
            |at| duration(now_ms.saturating_sub(at) / 1_000),
        );
        let (qos, topic) = (plain(&message["qos"]), plain(&message["topic"]));
        lines.put(&topic, row(&bytes(len), &qos, &age, &topic))
    })?;
    lines.flush()?;
    if !has_head {
        out.put(&row("BYTES", "QOS", "AGE", "TOPIC"))?;
    }
    out.end()
}

/// Columns of a fixed width, so that a list of any length is written as it comes.
fn row(bytes: &str, qos: &str, age: &str, topic: &str) -> String {
    format!("{bytes:>10}  {qos:<3}  {age:>10}  {topic}\n")
}

fn get(one: &One) -> Result<(), Failure> {
    let is_filter = |c: char| matches!(c, '+' | '#');
    if one.topic.contains(is_filter) {
        let text = format!("get takes one topic, and {:?} is a filter", one.topic);
        return Err(Failure::usage(text));
    }
    let mut found = None;
    one.place
        .open(Access::Read)?
        .messages(&one.topic, |message| {
            found = Some(message);
            Ok(())
        })?;
    let Some(message) = found else {
        return Err(Failure::new(format!("{:?} holds no message", one.topic)));
    };
    print(if one.place.is_json() {
        format!("{message}\n").into_bytes()
    } else {
        payload_of(&message)
    })
}

fn clear(command: &Clear) -> Result<(), Failure> {
    /// Up to this many of the topics that keep their message are printed by name.
    const TOLD: u64 = 20;
    let (mut cleared, mut refused, mut forgotten) = (0, 0, 0);
    let mut request = wire::Clear {
        filter: command.filter.clone(),
        ..wire::Clear::default()
    };
    let store = command.place.open(Access::Change)?;
    let asked = loop {
        let told = match store.ask(&request) {
            Ok(told) => told,
            Err(failure) => break Err(failure),
        };
        cleared += told.cleared;
        forgotten += told.forgotten;
        for left in &told.refused {
            refused += 1;
            if refused <= TOLD {
                eprintln!("refused: {}: {}", shown(&left.topic), shown(&left.reason));
            }
        }
        if told.cursor.is_none() {
            break Ok(());
        }
        request.cursor = told.cursor;
    };
    if refused > TOLD {
        eprintln!("refused: {} more topics", refused - TOLD);
    }
    let answer = json!({ "cleared": cleared, "refused": refused, "forgotten": forgotten });
    show(&command.place, &answer, || {
        let mut text = format!("{cleared} cleared");
        if refused > 0 {
            let _ = write!(text, ", {refused} refused");
        }
        if forgotten > 0 {
            let _ = write!(text, ", with {forgotten} messages of histories");
        }
        text + "\n"
    })?;
    // The topics that were cleared until then are printed in any case.
    asked?;
    if refused > 0 {
        return Err(Failure::new("not every topic was cleared"));
    }
    Ok(())
}

fn export(filtered: &Filtered) -> Result<(), Failure> {
    let mut out = Pieces::standard();
    let store = filtered.place.open(Access::Read)?;
    let mut filters = vec![filtered.filter.clone()];
    if filtered.filter == "#" {
        // All of it: what begins with `$` too, but for what the server says of itself.
        filters = store.ask(&wire::Filters::default())?.filters;
    }
    let mut lines = Sorted::new(&mut out);
    for filter in &filters {
        store.messages(filter, |message| {
            let topic = message["topic"].as_str().unwrap_or_default().to_owned();
            lines.put(&topic, format!("{message}\n"))
        })?;
    }
    lines.flush()?;
    out.end()
}

/// What was found damaged, if anything was.
fn damage_table(reports: &[Damage]) -> String {
    if reports.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["FILE", "OFFSET", "TOPIC", "OUTCOME"]);
    for report in reports {
        let mut outcome = shown(&report.outcome);
        if report.published_again {
            outcome.push_str(", published again");
        }
        table.row([
            shown(&report.file),
            report.offset.to_string(),
            maybe(report.topic.as_deref()),
            outcome,
        ]);
    }
    table.render()
}

fn verify(place: &Where) -> Result<(), Failure> {
    let store = place.open(Access::Read)?;
    let (mut whole, mut damaged) = (0, 0);
    let mut reports: Vec<Damage> = Vec::new();
    let mut request = wire::Verify::default();
    let (found, losses) = loop {
        let told = store.ask(&request)?;
        whole += told.whole;
        damaged += told.damaged;
        reports.extend(told.reports);
        if let Some(next) = told.next {
            request.stripe = next;
        } else if let Some(more) = told.more {
            // Behind the last part, only the list goes on.
            request = wire::Verify {
                stripe: usize::from(u16::MAX),
                from: more,
            };
        } else {
            break (told.found, told.losses);
        }
    };
    let unlisted = found.saturating_sub(reports.len() as u64);
    let again = reports.iter().filter(|report| report.published_again);
    let again = again.count() as u64;
    let answer = json!({
        "whole": whole,
        "damaged": damaged,
        "found": found,
        "losses": losses,
        "published_again": again,
        "reports": reports,
        "unlisted": unlisted,
    });
    let since = if store.is_stopped() {
        "in the files"
    } else {
        "since the start"
    };
    show(place, &answer, || {
        let mut text =
            format!("{whole} whole, {damaged} damaged; {found} places found damaged {since}\n");
        text.push_str(&damage_table(&reports));
        if unlisted > 0 {
            let _ = writeln!(text, "and {unlisted} more places that are not listed");
        }
        text
    })?;
    if damaged > 0 {
        return Err(Failure::new("messages are damaged: publish them again"));
    }
    let until = if store.is_stopped() {
        "the next start of the server goes round it"
    } else {
        "this message stays until the server starts again"
    };
    check_losses(losses.saturating_sub(again), whole, until)
}

/// Fails if messages were lost since the start, and nobody has published them again. Damage that
/// cost nothing is not a failure.
fn check_losses(losses: u64, whole: u64, until: &str) -> Result<(), Failure> {
    if losses == 0 {
        return Ok(());
    }
    let text = format!(
        "all {whole} messages that are kept now are whole; at {losses} of these places messages are \
         `lost`, or an older one is kept (`previous`): publish them again, or import them from an \
         export; a place without a topic may have had a message that was replaced or cleared; \
         {until}"
    );
    Err(Failure::new(text))
}

impl Set {
    fn run(self) -> Result<(), Failure> {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        let payload = match self.payload.strip_prefix('@') {
            None => self.payload.clone().into_bytes(),
            Some("-") => read_all(io::stdin().lock(), "standard input")?,
            Some(path) => {
                let file = std::fs::File::open(path)
                    .map_err(|error| Failure::new(format!("cannot read {path}: {error}")))?;
                read_all(file, path)?
            }
        };
        if payload.is_empty() {
            return Err(Failure::usage(
                "an empty payload clears a topic: use `stentor retained clear`",
            ));
        }
        let mut message = json!({
            "topic": self.topic,
            "payload_base64": STANDARD.encode(&payload),
            "qos": self.qos,
        });
        if let Some(secs) = self.expiry {
            message["expiry_secs"] = json!(secs);
        }
        let kept = self.place.open(Access::Change)?.ask(&Put {
            messages: vec![message],
            anew: true,
            new_zones: self.new_zones,
            ..Put::default()
        })?;
        import::check_refused(&kept)?;
        show(&self.place, &kept, || format!("{:?} is set\n", self.topic))
    }
}

fn read_all(mut source: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    /// What a packet can carry.
    const MAX: u64 = 256 << 20;
    let mut bytes = Vec::new();
    source
        .by_ref()
        .take(MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > MAX {
        return Err(Failure::usage(format!(
            "{name} has more than {MAX} bytes, which no MQTT packet can carry"
        )));
    }
    Ok(bytes)
}

fn show<T: Serialize>(
    place: &Where,
    answer: &T,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if !place.is_json() {
        return print(text());
    }
    let answer = serde_json::to_string(answer);
    let answer = answer.map_err(|error| Failure::new(error.to_string()))?;
    print(format!("{answer}\n"))
}
