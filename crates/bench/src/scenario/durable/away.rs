//! Sessions whose clients are away: what it costs to owe them messages, and what is left of that
//! after a restart.

use std::time::Instant;

use serde_json::json;

use super::{Base, KILL_START, STOP, STOP_START, micros, publish, restart, work};
use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::load::lasting::{Group, Place, Served, Waiting};
use crate::measure::{Leg, Metric, Unit};
use crate::progress::Progress;
use crate::scenario::{count, run_id};
use crate::target::{Ending, Running};
use crate::wire::Lasts;
use crate::workload::{Sheet, Workload, members};

const PUBLISHED: Metric =
    Metric::new("published_per_s", "published/s", Unit::PerSecond).against_floor();
const QUEUED: Metric = Metric::new("queued_per_s", "queued/s", Unit::PerSecond);
const CPU_PUBLISHED: Metric =
    Metric::new("cpu_per_published_us", "CPU/published", Unit::Micros).against_floor();
const CPU_QUEUED: Metric = Metric::new("cpu_per_queued_us", "CPU/queued", Unit::Micros);
/// To the same topics before there are sessions.
const PLAIN: Metric = Metric::new("plain_per_s", "to nobody/s", Unit::PerSecond);
const KEPT: Metric = Metric::new("kept_percent", "rate kept", Unit::Percent);
const WRITTEN: Metric = Metric::new("written_bytes", "journal", Unit::Bytes);
/// From the start of a process until the first session has its backlog.
const STOP_SERVED: Metric = Metric::new("first_after_stop_us", "first served", Unit::Micros);
const KILL_SERVED: Metric = Metric::new(
    "first_after_kill_us",
    "first served after kill",
    Unit::Micros,
);

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Away {
    pub(super) base: Base,
    pub(super) sessions: usize,
    /// What each is owed.
    pub(super) messages: u64,
    /// All subscribe to one topic, instead of one each.
    pub(super) is_one: bool,
}

impl Workload for Away {
    fn sheet(&self) -> Sheet {
        let (sessions, messages) = (count(self.sessions as u64), count(self.messages));
        let (payload, version) = (self.base.payload, self.base.version.as_str());
        let (topics, owed) = (self.topics(), self.owed());
        let which = if self.is_one {
            "one topic"
        } else {
            "a topic each"
        };
        let floor = match self.base.sync {
            Some(super::Sync::Always) => FloorKind::Sync,
            _ => FloorKind::Copy,
        };
        Sheet {
            name: "durable",
            title: format!(
                "durable: {sessions} sessions away, {which}, {messages} messages of {payload} B to \
                 each, MQTT {version}"
            ),
            parameters: members(json!({
                "what": if self.is_one { "one-topic" } else { "own-topics" },
                "sessions": self.sessions,
                "messages": self.messages,
                "payload_bytes": payload,
                "qos": 1,
                "sync": self.base.sync(),
                "version": version,
                "restart": true,
            })),
            // A bare program has nothing to do for sessions that share one message.
            floors: if self.is_one { Vec::new() } else { vec![floor] },
            needs: self.base.needs(self.sessions.min(19_000)),
            pairs: 3,
            plan: vec![
                format!(
                    "publish {} messages to {topics} topics that nobody subscribes to",
                    count(self.published())
                ),
                format!("{sessions} clients subscribe with QoS 1 and leave; their sessions last"),
                format!(
                    "publish as much again: sessions are owed {} messages",
                    count(owed)
                ),
                "kill the server and start it: the first client comes back and takes its messages"
                    .into(),
                "stop it and start it: so does the second one".into(),
                "all others come back and take theirs; each message is checked".into(),
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
        let mut leg = Leg::default();
        let run = run_id();
        let place = self.base.place(running, &run);
        // A floor does the same whoever is there, and is warm the second time, as others are.
        let plain = self.publish(running, progress, &place, 0)?.0;
        if running.is_floor() {
            let (rate, cpu_us) = self.publish(running, progress, &place, 1)?;
            leg.push(PUBLISHED, rate);
            leg.push(CPU_PUBLISHED, cpu_us);
            return Ok(leg);
        }
        self.found(&place, progress)?;
        let written = super::written_bytes(running);
        let measured = self.publish(running, progress, &place, 1);
        let (rate, cpu_us) = measured.map_err(BenchError::midway)?;
        let each = self.owed() as f64 / self.published() as f64;
        leg.push(PUBLISHED, rate);
        leg.push(QUEUED, rate * each);
        leg.push(CPU_PUBLISHED, cpu_us);
        leg.push(CPU_QUEUED, cpu_us.map(|cpu_us| cpu_us / each));
        if !self.is_one {
            leg.push(PLAIN, plain);
            leg.push(KEPT, rate / plain * 100.0);
        }
        let now = super::written_bytes(running).zip(written);
        leg.push(WRITTEN, now.map(|(now, before)| now - before));
        super::push_held(&mut leg, running);
        let served = self.restart(running, progress, &run, &mut leg)?;
        let left = self.serve(running, progress, &run, served..self.sessions)?;
        judge(&mut leg, left);
        Ok(leg)
    }
}

impl Away {
    fn topics(&self) -> usize {
        if self.is_one { 1 } else { self.sessions }
    }

    /// Messages that go in.
    fn published(&self) -> u64 {
        self.topics() as u64 * self.messages
    }

    /// Messages that sessions are owed.
    fn owed(&self) -> u64 {
        self.sessions as u64 * self.messages
    }

    fn topic(&self, place: &Place, session: usize) -> String {
        place.topic(if self.is_one { 0 } else { session })
    }

    /// Publishes a round of messages; how many in a second, and the server's CPU time for each.
    fn publish(
        &self,
        running: &Running,
        progress: &Progress,
        at: &Place,
        round: u64,
    ) -> Result<(f64, Option<f64>), BenchError> {
        let topics = (0..self.topics())
            .map(|topic| self.topic(at, topic))
            .collect();
        let count = self.published();
        let (first, payload) = (round * count, self.base.payload);
        let (published, cpu_s) = publish(running, progress, at, topics, first, count, payload)?;
        if published.refused > 0 {
            let text = format!("{} of {count} messages were refused", published.refused);
            return Err(BenchError::server(text));
        }
        let cpu_us = cpu_s.map(|cpu_s| cpu_s * 1e6 / count as f64);
        Ok((count as f64 / published.seconds, cpu_us))
    }

    /// The sessions begin, and their clients leave.
    fn found(&self, place: &Place, progress: &Progress) -> Result<(), BenchError> {
        let (this, place) = (self.clone(), place.clone());
        let (doing, of) = ("subscribing and leaving", self.sessions as u64);
        work(progress, doing, of, move |gauge| {
            let group = this.group(0..this.sessions);
            let filter = |session| Some((this.topic(&place, session), 1));
            place.subscribe_and_leave(
                &Group {
                    filter: &filter,
                    ..group
                },
                gauge,
            )
        })
    }

    fn group(&self, sessions: std::ops::Range<usize>) -> Group<'static> {
        Group {
            name: "away",
            first: sessions.start,
            count: sessions.len(),
            lasts: Lasts::Forever,
            filter: &|_| None,
        }
    }

    /// Some clients come back and take what they are owed.
    fn serve(
        &self,
        running: &Running,
        progress: &Progress,
        run: &str,
        sessions: std::ops::Range<usize>,
    ) -> Result<Served, BenchError> {
        let (this, place) = (self.clone(), self.base.place(running, run));
        let (doing, of) = ("coming back", sessions.len() as u64);
        let served = work(progress, doing, of, move |gauge| {
            let first = |session| {
                let own = if this.is_one { 0 } else { session as u64 };
                this.published() + own
            };
            let waiting = Waiting {
                first: &first,
                step: this.topics() as u64,
                count: &|_| this.messages,
                payload: this.base.payload,
            };
            place.serve(&this.group(sessions), &waiting, gauge)
        });
        served.map_err(BenchError::midway)
    }

    /// Kills and stops the server, after each of which one client takes what it is owed. How many
    /// have.
    fn restart(
        &self,
        running: &mut Running,
        progress: &Progress,
        run: &str,
        leg: &mut Leg,
    ) -> Result<usize, BenchError> {
        let ends = [
            (Ending::Kill, KILL_START, KILL_SERVED),
            (Ending::Stop, STOP_START, STOP_SERVED),
        ];
        let mut served = 0;
        for (ending, start, first) in ends {
            let Some((ended, started)) = restart(running, progress, ending)? else {
                break;
            };
            if ending == Ending::Stop {
                leg.push(STOP, micros(ended));
            }
            leg.push(start, micros(started));
            if served < self.sessions {
                let begun = Instant::now();
                let one = self.serve(running, progress, run, served..served + 1)?;
                leg.push(first, micros(started + begun.elapsed()));
                judge(leg, one);
                served += 1;
            }
        }
        Ok(served)
    }
}

/// Counts what was lost.
pub(super) fn judge(leg: &mut Leg, served: Served) {
    leg.faults += served.faults;
    leg.failed += served.absent;
    if served.absent > 0 {
        let why = || format!("{} sessions were gone", served.absent);
        leg.behind.get_or_insert_with(why);
    }
}
