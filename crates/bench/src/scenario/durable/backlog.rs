//! One session whose client is away for long: how much memory what it is owed takes, and how fast
//! it gets that when it is back.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::away::judge;
use super::{Base, micros, publish, session_bytes, work};
use crate::error::BenchError;
use crate::load::lasting::{Group, Waiting};
use crate::measure::{Leg, Metric, Unit};
use crate::process::Usage;
use crate::progress::{Gauge, Progress};
use crate::scenario::{count, run_id};
use crate::target::Running;
use crate::wire::Lasts;
use crate::workload::{Sheet, Workload, members};

const GROWN: Metric = Metric::new("rss_growth_bytes", "RSS growth", Unit::Bytes);
const QUEUED: Metric = Metric::new("queued_per_s", "queued/s", Unit::PerSecond);
const DRAINED: Metric = Metric::new("drained_per_s", "drained/s", Unit::PerSecond);
const FILES: Metric = Metric::new("file_bytes", "on disk", Unit::Bytes);
/// Of a server of ours this has the files that are written in turn, which stay.
const LEFT: Metric = Metric::new("left_bytes", "on disk after", Unit::Bytes);
const GIVEN_BACK: Metric = Metric::new("given_back_us", "disk given back in", Unit::Micros);

/// As large as that before anything waited, about, but for the file that is written to.
const AS_EMPTY: f64 = 1.1;
const FILE_BYTES: f64 = 4_194_304.0;
/// How long a server may take for that.
const GIVEN_BACK_MAX: Duration = Duration::from_secs(20);

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    pub(super) base: Base,
    pub(super) messages: u64,
}

impl Workload for Backlog {
    fn sheet(&self) -> Sheet {
        let (payload, version) = (self.base.payload, self.base.version.as_str());
        let messages = count(self.messages);
        Sheet {
            name: "durable",
            title: format!(
                "durable: one session away, {messages} messages of {payload} B to it, MQTT {version}"
            ),
            parameters: members(json!({
                "what": "backlog",
                "messages": self.messages,
                "payload_bytes": payload,
                "qos": 1,
                "sync": self.base.sync(),
                "version": version,
            })),
            floors: Vec::new(),
            needs: self.base.needs(10),
            pairs: 1,
            plan: vec![
                "a client subscribes with QoS 1 and leaves; its session lasts".into(),
                format!("publish {messages} messages to it"),
                "it comes back, takes all of them, acknowledges them and leaves".into(),
                "wait until the backlog has left the disk, or 20 s".into(),
            ],
            published: None,
            bars: Vec::new(),
        }
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let place = self.base.place(running, &run_id());
        let topic = place.topic("backlog");
        let (at, to) = (place.clone(), topic.clone());
        work(progress, "subscribing", 1, move |gauge| {
            at.subscribe_and_leave(&group(&|_| Some((to.clone(), 1))), gauge)
        })?;
        let (rss, files) = (rss(running.usage()), waiting_bytes(running));
        let mut leg = Leg::default();
        let published = publish(
            running,
            progress,
            &place,
            vec![topic],
            0,
            self.messages,
            self.base.payload,
        );
        let (published, _) = published.map_err(BenchError::midway)?;
        leg.failed += published.refused;
        leg.push(QUEUED, self.messages as f64 / published.seconds);
        leg.push(
            GROWN,
            self::rss(running.usage())
                .zip(rss)
                .map(|(now, then)| now - then),
        );
        leg.push(FILES, session_bytes(running));
        let (this, begun) = (self.clone(), Instant::now());
        let served = work(progress, "coming back", 1, move |gauge: &Gauge| {
            let waiting = Waiting {
                first: &|_| 0,
                step: 1,
                count: &|_| this.messages,
                payload: this.base.payload,
            };
            place.serve(&group(&|_| None), &waiting, gauge)
        });
        let served = served.map_err(BenchError::midway)?;
        let drained = served.received as f64 / begun.elapsed().as_secs_f64();
        leg.push(DRAINED, drained);
        judge(&mut leg, served);
        push_left(running, progress, files, &mut leg);
        Ok(leg)
    }
}

fn group(filter: &dyn Fn(usize) -> Option<(String, u8)>) -> Group<'_> {
    Group {
        name: "away",
        first: 0,
        count: 1,
        lasts: Lasts::Forever,
        filter,
    }
}

fn rss(usage: Option<Usage>) -> Option<f64> {
    usage.map(|usage| usage.rss as f64)
}

/// Bytes on the disk of what waits alone; of others than our server, of all their files.
fn waiting_bytes(running: &Running) -> Option<f64> {
    match running.status() {
        Some(status) if !running.forgets() => status["session_store"]["backlog_bytes"].as_f64(),
        Some(_) => None,
        None => session_bytes(running),
    }
}

/// Waits until the disk is given back.
fn push_left(running: &Running, progress: &Progress, before: Option<f64>, leg: &mut Leg) {
    progress.show("waiting until the disk is given back");
    let begun = Instant::now();
    let is_back = || {
        let waiting = waiting_bytes(running).zip(before);
        waiting.is_none_or(|(now, before)| now <= before * AS_EMPTY + FILE_BYTES)
    };
    let mut is_given = is_back();
    while !is_given && begun.elapsed() < GIVEN_BACK_MAX {
        thread::sleep(Duration::from_millis(50));
        is_given = is_back();
    }
    let is_known = is_given && before.is_some();
    leg.push(GIVEN_BACK, is_known.then(|| micros(begun.elapsed())));
    leg.push(LEFT, session_bytes(running));
}
