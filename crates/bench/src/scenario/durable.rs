//! Sessions that outlive their connections: what they cost, and what of them survives.

mod away;
mod backlog;
mod connected;
mod kills;
mod start;

use std::borrow::Cow;
use std::time::Duration;

use clap::ValueEnum;

use super::Scenario;
use crate::args::{Common, measured_seconds, payload_bytes};
use crate::error::BenchError;
use crate::load;
use crate::load::lasting::{Place, Published, Publishing};
use crate::measure::{Leg, Metric, Unit};
use crate::process::CpuMeter;
use crate::progress::{Gauge, Progress};
use crate::target::{Ending, Needs, Running, StatusAt};
use crate::wire::Version;
use crate::workload::Workload;

use away::Away;
use backlog::Backlog;
use connected::Connected;
use kills::Kills;
use start::Start;

/// Sessions of which one thread has the clients of both kinds.
const SUBSCRIBERS_MAX: u32 = 9_000;
/// Sessions that are made in batches.
const SESSIONS_MAX: u32 = 1_000_000;
/// Messages that one session is owed, and those of all.
const MESSAGES_MAX: u32 = 100_000_000;
const QUEUED_MAX: u64 = 100_000_000;

/// From the signal that ends the server until its process is gone.
const STOP: Metric = Metric::new("stop_us", "stop", Unit::Micros);
const STOP_START: Metric = Metric::new("start_after_stop_us", "start", Unit::Micros);
const KILL_START: Metric = Metric::new("start_after_kill_us", "start after kill", Unit::Micros);
const RSS: Metric = Metric::new("server_rss_bytes", "RSS", Unit::Bytes);
const FILES: Metric = Metric::new("file_bytes", "on disk", Unit::Bytes);

/// One of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Sessions whose clients are away, all subscribed to one topic
    OneTopic,
    /// Sessions whose clients are away, with a topic each
    OwnTopics,
    /// Connected subscribers whose sessions last, beside such whose sessions do not
    Connected,
    /// kill -9 again and again while messages are acknowledged
    Kills,
    /// One session that is away for long, and comes back
    Backlog,
    /// A start with many sessions, until all are served
    Start,
}

const ALL: [What; 6] = [
    What::OneTopic,
    What::OwnTopics,
    What::Connected,
    What::Kills,
    What::Backlog,
    What::Start,
];

/// What acknowledgements of our own server wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sync {
    /// A mapped file; the system writes it when it likes
    Never,
    /// A mapped file, which is written every second
    Interval,
    /// The disk
    Always,
}

impl Sync {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Interval => "interval",
            Self::Always => "always",
        }
    }
}

/// Which workloads, and how large.
#[derive(Debug, clap::Args)]
pub(crate) struct DurableArgs {
    /// Workloads, in turn [default: all]
    #[arg(value_enum)]
    what: Vec<What>,
    /// Sessions [default: one-topic, own-topics and start: 10000; connected: 2000 of each kind, at
    /// most 9000; kills: 20, at most 1000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(SESSIONS_MAX)))]
    sessions: Option<u32>,
    /// Messages that each session is owed [default: one-topic: 100; own-topics and start: 20;
    /// backlog: 200000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MESSAGES_MAX)))]
    messages: Option<u32>,
    /// Bytes of each message [default: 100; backlog: 1000]
    #[arg(long, value_parser = payload_bytes)]
    payload: Option<usize>,
    /// Messages per second [default: connected: 10; kills: 500]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
    /// Seconds that each kind of session is measured for (connected)
    #[arg(long, default_value = "2", value_parser = measured_seconds)]
    seconds: f64,
    /// Kills in a row (kills)
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    kills: u32,
    /// When servers of ours acknowledge [default: as they come]
    #[arg(long, value_enum)]
    sync: Option<Sync>,
    #[command(flatten)]
    common: Common,
}

impl Scenario for DurableArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let what: &[What] = match self.what.as_slice() {
            [] => &ALL,
            some => some,
        };
        what.iter().map(|what| self.workload(*what)).collect()
    }
}

impl DurableArgs {
    fn workload(&self, what: What) -> Result<Box<dyn Workload>, BenchError> {
        let base = |payload| Base {
            payload: self.payload.unwrap_or(payload),
            version: self.common.version,
            sync: self.sync,
        };
        Ok(match what {
            What::OneTopic | What::OwnTopics => {
                let is_one = what == What::OneTopic;
                let messages = if is_one { 100 } else { 20 };
                let (sessions, messages) = self.queued(messages)?;
                let base = base(100);
                Box::new(Away {
                    base,
                    sessions,
                    messages,
                    is_one,
                })
            }
            What::Connected => Box::new(Connected {
                base: base(100),
                subscribers: self.sessions(2_000, SUBSCRIBERS_MAX, "connected")?,
                rate: self.rate.unwrap_or(10),
                seconds: self.seconds,
            }),
            What::Kills => Box::new(Kills {
                base: base(100),
                sessions: self.sessions(20, 1_000, "kills")?,
                rate: self.rate.unwrap_or(500),
                kills: self.kills,
            }),
            What::Backlog => Box::new(Backlog {
                base: base(1_000),
                messages: u64::from(self.messages.unwrap_or(200_000)),
            }),
            What::Start => {
                let (sessions, messages) = self.queued(20)?;
                let base = base(100);
                Box::new(Start {
                    base,
                    sessions,
                    messages,
                })
            }
        })
    }

    fn sessions(&self, usual: u32, most: u32, what: &str) -> Result<usize, BenchError> {
        let sessions = self.sessions.unwrap_or(usual);
        if sessions > most {
            return Err(BenchError::usage(format!(
                "--sessions {sessions}: {what} has all of them connected at once; give at most {most}"
            )));
        }
        Ok(sessions as usize)
    }

    /// Sessions, and how many messages each is owed.
    fn queued(&self, messages: u32) -> Result<(usize, u64), BenchError> {
        let sessions = self.sessions.unwrap_or(10_000);
        let messages = self.messages.unwrap_or(messages);
        let queued = u64::from(sessions) * u64::from(messages);
        if queued > QUEUED_MAX {
            return Err(BenchError::usage(format!(
                "{sessions} sessions with {messages} messages each are owed {queued}: at most \
                 {QUEUED_MAX}"
            )));
        }
        Ok((sessions as usize, u64::from(messages)))
    }
}

/// What all of these workloads have.
#[derive(Clone, Copy, Debug)]
struct Base {
    /// Bytes of each message.
    payload: usize,
    version: Version,
    sync: Option<Sync>,
}

impl Base {
    fn needs(self, connections: usize) -> Needs {
        let mut needs = Needs::new(connections, self.payload, self.version);
        needs.lasting = true;
        // Long backlogs are to meet no bound but that of the disk.
        let mut config = "[sessions]\nclient_bytes = \"1TiB\"\nbytes = \"1TiB\"\n".to_owned();
        if let Some(sync) = self.sync {
            config.push_str(&format!("sync = \"{}\"\n", sync.as_str()));
        }
        needs.config = Cow::Owned(config);
        needs
    }

    /// What the parameters of a result say of it.
    fn sync(self) -> &'static str {
        self.sync.map_or("default", Sync::as_str)
    }

    fn place(self, running: &Running, run: &str) -> Place {
        Place::of(running, self.version, run)
    }
}

/// Runs something on a thread of its own, and shows how far of `of` it is.
fn work<T: Send + 'static>(
    progress: &Progress,
    doing: &str,
    of: u64,
    work: impl FnOnce(&Gauge) -> Result<T, BenchError> + Send + 'static,
) -> Result<T, BenchError> {
    let gauge = Gauge::default();
    let shown = gauge.clone();
    let now = || {
        let (done, of) = (super::count(shown.get()), super::count(of));
        format!("{doing}: {done} of {of}")
    };
    load::run("sessions", progress, &now, move || work(&gauge))
}

/// Publishes messages to topics in turn; what that took, and the server's CPU time in seconds.
fn publish(
    running: &Running,
    progress: &Progress,
    place: &Place,
    topics: Vec<String>,
    first: u64,
    count: u64,
    payload: usize,
) -> Result<(Published, Option<f64>), BenchError> {
    let (place, meter) = (place.clone(), CpuMeter::start(running.pid()));
    let published = work(progress, "publishing", count, move |gauge| {
        let publishing = Publishing {
            place: &place,
            topics: &topics,
            first,
            count,
            payload,
            gauge,
        };
        publishing.run()
    })?;
    Ok((published, meter.used_s()))
}

/// Ends the server and starts it again; how long it took to end, and to listen. `None` for one
/// that keeps nothing, or was not started here.
fn restart(
    running: &mut Running,
    progress: &Progress,
    ending: Ending,
) -> Result<Option<(Duration, Duration)>, BenchError> {
    if running.forgets() {
        return Ok(None);
    }
    progress.show(match ending {
        Ending::Kill => "killing and starting",
        Ending::Stop => "stopping and starting",
    });
    let restarted = running.restart_after(ending).map_err(BenchError::midway)?;
    Ok(restarted.map(|it| (it.ending, it.starting)))
}

/// What the server has, in memory and on the disk.
fn push_held(leg: &mut Leg, running: &Running) {
    leg.push(RSS, running.usage().map(|usage| usage.rss as f64));
    leg.push(FILES, session_bytes(running));
}

/// Bytes of the files of sessions. Of ours, those that count: it keeps empty ones ready.
fn session_bytes(running: &Running) -> Option<f64> {
    match running.status() {
        Some(status) if !running.forgets() => {
            let store = &status["session_store"];
            let bytes = |key: &str| store[key].as_f64();
            Some(bytes("bytes")? + bytes("backlog_bytes")?)
        }
        Some(_) => None,
        None => running.file_bytes().map(|(_, given)| given as f64),
    }
}

/// Bytes that our server has written to its journals since it started.
fn written_bytes(running: &Running) -> Option<f64> {
    written_at(running.status_at().as_ref())
}

/// The same, from another thread.
fn written_at(status: Option<&StatusAt>) -> Option<f64> {
    let store = status?.ask()?["session_store"].take();
    let writes = store["enabled"].as_bool()?;
    store["written_bytes"].as_f64().filter(|_| writes)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
