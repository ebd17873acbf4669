//! `stentor sessions verify`, `export` and `import`: the files of a stopped server.

use std::fmt::Write as _;
use std::io::BufReader;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use stentor_auth::counted;
use stentor_control::health::Health;
use stentor_server::config::Config;
use stentor_server::{
    ImportOptions, Refused, SessionsError, SessionsImport, SessionsReport, check_sessions,
    export_sessions, verify_sessions,
};

use crate::admin::table::{Table, bytes, maybe};
use crate::control;
use crate::failure::Failure;
use crate::lines::Lines;
use crate::output::{Pieces, print, shown};
use crate::which::Which;

/// How long a server may have the files without a control socket: while it starts or stops.
const BETWEEN: Duration = Duration::from_secs(10);
/// How long it may run on after it was asked to stop.
const BEFORE_IT_STOPS: Duration = Duration::from_millis(300);
/// How often it is looked whether it is still so.
const STEP: Duration = Duration::from_millis(50);
/// The longest line of a file. A message of 700 KiB takes 4.2 MiB at most.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Sessions and places that are shown to people.
const SHOWN_MAX: usize = 50;
/// The command prints up to this many lines about what it only leaves alone.
const TOLD_MAX: u64 = 20;
/// The same about what it refuses.
const REFUSED_MAX: u64 = 100;

/// Does something with the files of a server that is not running. One that stops is waited for.
fn with_files<T>(
    config: &Config,
    mut work: impl FnMut(&Config) -> Result<T, SessionsError>,
) -> Result<T, Failure> {
    let start = Instant::now();
    loop {
        let error = match work(config) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let patience = match error.is_in_use() {
            true if runs(config) => BEFORE_IT_STOPS,
            true => BETWEEN,
            false => Duration::ZERO,
        };
        if start.elapsed() >= patience {
            return Err(error.into());
        }
        thread::sleep(STEP);
    }
}

/// Whether a server runs on the data folder, and does not stop.
fn runs(config: &Config) -> bool {
    let Ok(stream) = control::connect(&config.general.data_dir) else {
        return false;
    };
    let told = control::tell(&mut BufReader::new(stream), &Health {});
    told.is_ok_and(|told| !told.reasons.iter().any(|reason| reason.name == "stopping"))
}

impl From<SessionsError> for Failure {
    fn from(error: SessionsError) -> Self {
        Self::new(error.to_string())
    }
}

// === verify ===

pub(super) fn verify(which: &Which) -> Result<(), Failure> {
    let report = with_files(&which.load()?, verify_sessions)?;
    match which.json {
        true => {
            let answer = serde_json::to_string(&report);
            let answer = answer.map_err(|error| Failure::new(error.to_string()))?;
            print(format!("{answer}\n"))?;
        }
        false => print(report_text(&report))?,
    }
    match report.is_whole() {
        true => Ok(()),
        false => Err(Failure::new(
            "sessions may lack something: what was there cannot be read any more, and the next \
             start goes round it; have these clients subscribe again, and publish again what \
             they may have missed, or import their sessions from an export with --replace",
        )),
    }
}

fn report_text(report: &SessionsReport) -> String {
    let mut text = format!(
        "{} whole, {} that may lack something; {} found damaged in the files\n",
        counted(report.whole, "session"),
        report.damaged,
        counted(report.found, "place"),
    );
    if report.nameless > 0 {
        let nameless = counted(report.nameless, "session");
        let _ = writeln!(
            text,
            "{nameless} more, of which nothing is known: the records that name them are lost"
        );
    }
    let _ = writeln!(
        text,
        "{}, {} ({}), {}; journals of {} in {} ({}), {} of backlogs, {} empty",
        counted(report.subscriptions, "subscription"),
        counted(report.messages, "message"),
        bytes(report.bytes),
        counted(report.rooms, "permanent room"),
        counted(report.generations.len() as u64, "start"),
        counted(report.journal_files as u64, "file"),
        bytes(report.journal_bytes),
        counted(report.backlog_files as u64, "file"),
        report.empty_files,
    );
    if report.torn > 0 {
        let torn = counted(report.torn as u64, "place");
        let _ = writeln!(
            text,
            "a power loss has torn {torn} that no commit had promised: this is not damage"
        );
    }
    if report.on_the_way {
        text.push_str("messages were on their way between shards: the next start hands them out\n");
    }
    text.push_str(&places_table(report));
    text.push_str(&harmed_table(report));
    let shown = report.reports.len().min(SHOWN_MAX) + report.harmed.len().min(SHOWN_MAX);
    let all = report.found + report.damaged;
    let more = all.saturating_sub(shown as u64);
    if more > 0 {
        let _ = writeln!(
            text,
            "and {more} more places and sessions; --json lists more"
        );
    }
    text
}

fn places_table(report: &SessionsReport) -> String {
    if report.reports.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["FILE", "OFFSET", "BYTES", "NAMES", "WHAT"]);
    for place in report.reports.iter().take(SHOWN_MAX) {
        table.row([
            maybe(place.file.as_deref()),
            place.offset.to_string(),
            place
                .bytes
                .map_or_else(|| "-".into(), |bytes| bytes.to_string()),
            match place.names.is_empty() {
                true => "-".into(),
                false => shown(&place.names.join(",")),
            },
            shown(&place.what),
        ]);
    }
    table.render()
}

fn harmed_table(report: &SessionsReport) -> String {
    if report.harmed.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["SESSION", "ZONE", "USER", "OUTCOME", "LOST", "PLACES"]);
    for session in report.harmed.iter().take(SHOWN_MAX) {
        table.row([
            shown(&session.client_id),
            shown(&session.zone),
            maybe(session.user.as_deref()),
            session.outcome.word().into(),
            session.lost_messages.to_string(),
            session.places.join(","),
        ]);
    }
    table.render()
}

// === export ===

/// Where to.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// New file, which only its owner may read; standard output without it
    file: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

impl Export {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = self.which.load()?;
        with_files(&config, check_sessions)?;
        let open = || match &self.file {
            Some(file) => Pieces::private_file(file),
            None => Ok(Pieces::standard()),
        };
        // Only when there is a line, so that no file is made for what is refused.
        let mut out = None;
        let exported = export_sessions(&config, |line| {
            let out = match &mut out {
                Some(out) => out,
                None => out.insert(open()?),
            };
            out.put(&line)
        })?;
        out.map_or_else(open, Ok)?.end()?;
        let counts = format!(
            "{}, {}, {}",
            counted(exported.sessions, "session"),
            counted(exported.messages, "message"),
            counted(exported.rooms, "permanent room")
        );
        if self.file.is_some() {
            print(match self.which.json {
                true => format!(
                    "{}\n",
                    json!({
                        "sessions": exported.sessions,
                        "messages": exported.messages,
                        "rooms": exported.rooms,
                        "guests": exported.guests,
                        "lost": exported.lost,
                    })
                ),
                false => format!("{counts}\n"),
            })?;
        }
        if exported.guests > 0 {
            let guests = counted(exported.guests, "session");
            eprintln!("stentor: {guests} of guests are left out: no start goes on with them");
        }
        match exported.lost + exported.places {
            0 => Ok(()),
            _ => Err(Failure::new(format!(
                "the files are damaged, and what cannot be read is not in the export: {} messages \
                 for certain; `stentor sessions verify` names the sessions",
                exported.lost
            ))),
        }
    }
}

// === import ===

/// Where from, and how.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// File of JSON lines, as `export` writes them; - for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Replace sessions and rooms that are there already. Without it they are left alone
    #[arg(long)]
    replace: bool,
    /// Accept zones that do not exist yet, for a backup on a new machine
    #[arg(long)]
    new_zones: bool,
    #[command(flatten)]
    which: Which,
}

/// How many were told, or counted only.
#[derive(Default)]
struct Told {
    refused: u64,
    left: u64,
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = self.which.load()?;
        // First of all, so that nothing is made for a file that is not there.
        let lines = Lines::open(&self.file)?;
        let options = ImportOptions {
            replace: self.replace,
            new_zones: self.new_zones,
        };
        let mut import = with_files(&config, |config| SessionsImport::open(config, options))?;
        let mut told = Told::default();
        let ended = self.read(lines, &mut import, &mut told);
        if ended.is_err() {
            import.break_off();
        }
        // What was read before a failure is brought to the disk all the same.
        let closed = import.end();
        ended?;
        let (tally, last) = closed.map_err(|error| Failure::new(error.to_string()))?;
        self.tell(last, &mut told);
        for (word, count, max) in [
            ("refused", told.refused, REFUSED_MAX),
            ("left alone", told.left, TOLD_MAX),
        ] {
            if count > max {
                eprintln!("{word}: {} more", count - max);
            }
        }
        print(match self.which.json {
            true => format!("{}\n", json!(tally)),
            false => format!(
                "{} new, {} replaced, {} left alone, {} refused; {}, {}\n",
                tally.new,
                tally.replaced,
                tally.left + tally.rooms_left,
                tally.refused,
                counted(tally.messages, "message"),
                counted(tally.rooms, "permanent room"),
            ),
        })?;
        match tally.refused {
            0 => Ok(()),
            _ => Err(Failure::new("not every session was imported")),
        }
    }

    fn read(
        &self,
        lines: Lines<'_>,
        import: &mut SessionsImport,
        told: &mut Told,
    ) -> Result<(), Failure> {
        lines.each(LINE_BYTES_MAX, |number, line| {
            let refused = match line {
                Some(line) => import.line(number, line),
                None => {
                    let reason = format!(
                        "it has {LINE_BYTES_MAX} bytes or more, and no session is that large"
                    );
                    import.unread(number, reason)
                }
            };
            let refused = refused.map_err(|error| Failure::new(error.to_string()))?;
            self.tell(refused, told);
            Ok(())
        })
    }

    /// Tells the first that are not imported.
    fn tell(&self, all: Vec<Refused>, told: &mut Told) {
        for refused in all {
            let (word, count, max) = match refused.is_there {
                true => ("left alone", &mut told.left, TOLD_MAX),
                false => ("refused", &mut told.refused, REFUSED_MAX),
            };
            *count += 1;
            if *count <= max {
                let (file, reason) = (self.file.display(), shown(&refused.reason));
                eprintln!("{word}: {file}, line {}: {reason}", refused.line);
            }
        }
    }
}
