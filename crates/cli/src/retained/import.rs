//! `stentor retained import`: from JSON lines, or from another running broker.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use stentor_client::{Options, Url};
use stentor_control::retained::{Kept, Put};
use stentor_server::Access;
use stentor_zone::Unambiguous;

use super::copy::{Copied, copy};
use super::payload_of;
use super::store::{Store, Where};
use crate::failure::Failure;
use crate::lines::Lines;
use crate::output::shown;
use crate::password;

/// Messages that go to the store in one request.
const BATCH: usize = 200;
/// Bytes of payload in one request: it has a limit.
const BATCH_BYTES: usize = 2 << 20;
/// The longest line of a file: a payload of 256 MiB in base 64, and what stands around it.
const LINE_BYTES_MAX: u64 = 352 << 20;

/// Where from, and how.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// File of JSON lines, as `export` writes them; - for standard input
    #[arg(default_value = "-", conflicts_with = "from")]
    file: PathBuf,
    /// Copy the retained messages of a running broker: mqtt://USER@HOST:PORT, mqtts://…, ws://…
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// File whose first line is the password for the other broker
    #[arg(long, value_name = "FILE", requires = "from")]
    password_file: Option<PathBuf>,
    /// Only topics of the other broker that match this filter
    #[arg(long, value_name = "FILTER", default_value = "#", requires = "from")]
    filter: String,
    /// End when the other broker has sent nothing for this long
    #[arg(long, value_name = "SECONDS", default_value_t = 3, requires = "from",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    idle: u64,
    /// Up to N messages a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Change nothing, and count the differences
    #[arg(long)]
    dry_run: bool,
    /// Accept zones that do not exist yet, for a backup on a new machine
    #[arg(long)]
    new_zones: bool,
    #[command(flatten)]
    place: Where,
}

/// What an import came to.
#[derive(Debug, Default)]
struct Tally {
    new: u64,
    changed: u64,
    same: u64,
    refused: u64,
}

/// Collects messages, paces them, and sends them to the store.
pub(super) struct Sink {
    store: Store,
    is_dry: bool,
    new_zones: bool,
    pause: Duration,
    /// The file that is read; `None` for another broker.
    file: Option<String>,
    batch: Vec<Value>,
    /// The line of the file for each message of the batch.
    lines: Vec<u64>,
    batch_bytes: usize,
    tally: Tally,
    sent_at: Instant,
}

impl Sink {
    /// Adds the message of a line of the file.
    pub(super) fn push(&mut self, message: Value, line: u64) -> Result<(), Failure> {
        self.batch_bytes += payload_of(&message).len();
        self.batch.push(message);
        self.lines.push(line);
        if self.batch.len() >= BATCH || self.batch_bytes >= BATCH_BYTES {
            self.send()?;
        }
        Ok(())
    }

    /// Counts and tells a line of the file that has no message; the others are read on.
    fn refuse(&mut self, line: u64, reason: &str) {
        self.tally.refused += 1;
        eprintln!("refused: {}{reason}", self.place(line));
    }

    /// What is said before anything about a line of the file; nothing for another broker.
    fn place(&self, line: u64) -> String {
        let file = self.file.as_ref();
        file.map_or_else(String::new, |file| format!("{file}, line {line}: "))
    }

    fn send(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(self.batch.len()).unwrap_or(u32::MAX);
        let lines = std::mem::take(&mut self.lines);
        self.batch_bytes = 0;
        let kept = self.store.ask(&Put {
            messages: std::mem::take(&mut self.batch),
            dry_run: self.is_dry,
            new_zones: self.new_zones,
            ..Put::default()
        })?;
        self.tally.new += kept.new;
        self.tally.changed += kept.changed;
        self.tally.same += kept.same;
        for refused in kept.refused {
            self.tally.refused += 1;
            let line = lines.get(refused.at);
            let place = line.map_or_else(String::new, |line| self.place(*line));
            let topic = match &refused.topic {
                Value::Null => String::new(),
                topic => format!("{topic}: "),
            };
            eprintln!("refused: {place}{topic}{}", shown(&refused.reason));
        }
        // A sleep is the pace itself here; nothing else is waited for.
        let due = self.sent_at + self.pause.saturating_mul(count);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        self.sent_at = Instant::now();
        Ok(())
    }
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        let per_second = self.rate.map_or(f64::INFINITY, f64::from);
        let access = if self.dry_run {
            Access::Compare
        } else {
            Access::Make
        };
        // First of all, so that nothing is made for a file that is not there.
        let source = match &self.from {
            Some(_) => None,
            None => Some(Lines::open(&self.file)?),
        };
        let mut sink = Sink {
            store: self.place.open(access)?,
            is_dry: self.dry_run,
            new_zones: self.new_zones,
            pause: Duration::from_secs_f64(1.0 / per_second),
            file: self.from.is_none().then(|| self.file.display().to_string()),
            batch: Vec::new(),
            lines: Vec::new(),
            batch_bytes: 0,
            tally: Tally::default(),
            sent_at: Instant::now(),
        };
        let copied = match &self.from {
            Some(url) => Some(self.copy(url, &mut sink)?),
            None => None,
        };
        if let Some(source) = source {
            Self::read(source, &mut sink)?;
        }
        sink.send()?;
        let tally = sink.tally;
        let answer = json!({
            "new": tally.new,
            "changed": tally.changed,
            "same": tally.same,
            "refused": tally.refused,
            "differences": tally.new + tally.changed + tally.refused,
        });
        super::show(&self.place, &answer, || {
            let verb = if self.dry_run { "would be " } else { "" };
            format!(
                "{} {verb}new, {} {verb}changed, {} the same, {} refused\n",
                tally.new, tally.changed, tally.same, tally.refused
            )
        })?;
        if let Some(reason) = copied.and_then(|copied| copied.missing()) {
            return Err(Failure::new(reason));
        }
        if tally.refused > 0 {
            return Err(Failure::new("not every message was kept"));
        }
        Ok(())
    }

    fn read(lines: Lines<'_>, sink: &mut Sink) -> Result<(), Failure> {
        lines.each(LINE_BYTES_MAX, |number, line| {
            let Some(line) = line else {
                let reason =
                    format!("it has {LINE_BYTES_MAX} bytes or more, and no message is that large");
                sink.refuse(number, &reason);
                return Ok(());
            };
            match Unambiguous::from_line(line) {
                Ok(message) => sink.push(message, number)?,
                Err(reason) => sink.refuse(number, &reason),
            }
            Ok(())
        })
    }

    fn copy(&self, url: &str, sink: &mut Sink) -> Result<Copied, Failure> {
        let url: Url = url
            .parse()
            .map_err(|error| Failure::usage(format!("--from {url}: {error}")))?;
        let mut options = Options::new(url);
        if let Some(file) = &self.password_file {
            options.password = Some(password::from_file(file)?);
        }
        copy(&options, &self.filter, Duration::from_secs(self.idle), sink)
            .map_err(|error| error.told(&options))
    }
}

/// Fails if a message was refused.
pub(super) fn check_refused(kept: &Kept) -> Result<(), Failure> {
    match kept.refused.first() {
        None => Ok(()),
        Some(refused) => Err(Failure::new(format!(
            "{} was refused: {}",
            refused.topic,
            shown(&refused.reason)
        ))),
    }
}
