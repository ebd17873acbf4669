//! `stentor support-bundle`: what somebody needs to know who is to help, in one file.

mod archive;

use std::fs;
use std::fs::OpenOptions;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use stentor_auth::calendar::Utc;
use stentor_control::{Request, asked};

use crate::admin::now_secs;
use crate::admin::table::bytes;
use crate::failure::Failure;
use crate::output::print;
use crate::which::Which;
use archive::Archive;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor support-bundle
  stentor support-bundle --output /tmp/bundle.tar.gz
  tar tzf stentor-support-2026-01-31-120000.tar.gz     what is in it

It has the configuration without passwords, hashes and places of databases, the state and the
metrics of the server, the last events and lines of the log, and the platform. It has no message and
no token, but names of clients, users and topics, and addresses: look through it before you send it
to somebody. Only its owner may read the file. The command never overwrites a file.";

/// Events that go into a bundle.
const EVENTS: usize = 1_000;

/// Puts what is needed to help into one file: configuration without secrets, state, log, platform.
#[derive(Debug, Args)]
pub(crate) struct SupportBundle {
    /// The new file [default: stentor-support-DATE-TIME.tar.gz in this folder]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

/// A part of a bundle, as it is in the archive.
struct Part {
    name: &'static str,
    content: String,
}

impl SupportBundle {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let secs = now_secs();
        let utc = Utc::new(secs);
        let stem = format!(
            "stentor-support-{}-{}",
            utc.date(),
            utc.clock().replace(':', "")
        );
        let path = self.output.clone();
        let path = path.unwrap_or_else(|| PathBuf::from(format!("{stem}.tar.gz")));
        // Before anything is asked: without a server there is nothing to tell.
        let parts = self.parts()?;
        let mut archive = Archive::default();
        for part in &parts {
            let name = format!("{stem}/{}", part.name);
            archive.add(&name, part.content.as_bytes(), secs);
        }
        let size = write(archive, &path)?;
        let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
        let shown = path.display();
        print(match self.which.json {
            true => format!(
                "{}\n",
                json!({ "file": shown.to_string(), "bytes": size, "parts": names })
            ),
            false => format!(
                "{shown}: {}, with {}\nlook through it before you send it to somebody\n",
                bytes(size),
                names.join(", ")
            ),
        })
    }

    fn parts(&self) -> Result<Vec<Part>, Failure> {
        use stentor_control::{
            adaptors, config, events, health, log, metrics, procedures, retained, status, zones,
        };
        // The server has to answer this, or there is nobody to ask.
        let status = self.which.ask(question(&status::Status::default())?)?;
        let events = events::Events {
            limit: Some(EVENTS),
            ..events::Events::default()
        };
        let text = |value: &Value, key: &str| match &value[key] {
            Value::Array(lines) => {
                let lines = lines.iter().filter_map(Value::as_str);
                lines.map(|line| format!("{line}\n")).collect()
            }
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        let told = |value: &Value| format!("{value:#}\n");
        Ok(vec![
            part("about.json", &Ok(about()), told),
            part("status.json", &Ok(status), told),
            part("health.json", &self.answer(&health::Health {}), told),
            part(
                "config.json",
                &self.answer(&config::Effective::default()),
                told,
            ),
            part("config-diff.json", &self.answer(&config::Diff {}), told),
            part(
                "zones.json",
                &self.answer(&zones::Zones {
                    fresh: true,
                    zone: None,
                }),
                told,
            ),
            part("retained.json", &self.answer(&retained::Status {}), told),
            part(
                "adaptors.json",
                &self.answer(&adaptors::Ls::default()),
                told,
            ),
            part("procedures.json", &self.answer(&procedures::Ls {}), told),
            part("events.json", &self.answer(&events), told),
            part("metrics.txt", &self.answer(&metrics::Metrics {}), |value| {
                text(value, "text")
            }),
            part("log.txt", &self.answer(&log::Tail::default()), |value| {
                text(value, "lines")
            }),
        ])
    }

    fn answer<R: Request>(&self, request: &R) -> Result<Value, Failure> {
        self.which.ask(question(request)?)
    }
}

fn question<R: Request>(request: &R) -> Result<Value, Failure> {
    asked(request).map_err(|error| Failure::new(error.to_string()))
}

/// What was answered, or why it was not: a bundle of a server in trouble is wanted most.
fn part(
    name: &'static str,
    answer: &Result<Value, Failure>,
    text: impl Fn(&Value) -> String,
) -> Part {
    let content = match answer {
        Ok(value) => text(value),
        Err(failure) => format!("not there: {}\n", failure.message()),
    };
    Part { name, content }
}

/// The program and the machine.
fn about() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let os = read("/etc/os-release");
    let os = os
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({
        "stentor": env!("CARGO_PKG_VERSION"),
        "architecture": std::env::consts::ARCH,
        "kernel": first(&read("/proc/version")),
        "system": os.unwrap_or_default().trim_matches('"'),
        "processors": processors,
        "memory": first(&read("/proc/meminfo")),
        "seconds_since_1970": now_secs(),
    })
}

/// Writes a new file that only its owner may read; how large it is. A part of it does not stay.
fn write(archive: Archive, path: &Path) -> Result<u64, Failure> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| {
        let shown = path.display();
        Failure::new(format!(
            "--output {shown}: the file cannot be made: {error}; choose a new file"
        ))
    })?;
    archive.write(BufWriter::new(file)).map_err(|error| {
        // Nobody needs half a bundle. The first error is the one to tell.
        let _ = fs::remove_file(path);
        Failure::new(format!(
            "{} cannot be written: {error}; choose another place by --output",
            path.display()
        ))
    })
}
