//! A start with many sessions: how long until each client has its own back, with what it is owed.

use std::time::Instant;

use serde_json::json;

use super::away::judge;
use super::{Base, KILL_START, STOP, STOP_START, micros, publish, push_held, restart, work};
use crate::error::BenchError;
use crate::load::lasting::{Group, Place, Served, Waiting};
use crate::measure::{Leg, Metric, Unit};
use crate::progress::Progress;
use crate::scenario::{count, run_id};
use crate::target::{Ending, Running};
use crate::wire::Lasts;
use crate::workload::{Sheet, Workload, members};

/// From the start of a process until all clients have what they are owed.
const STOP_SERVED: Metric = Metric::new("all_after_stop_us", "all served", Unit::Micros);
const KILL_SERVED: Metric = Metric::new("all_after_kill_us", "all served after kill", Unit::Micros);
/// The same with nothing to restore: what the clients themselves take.
const WARM_SERVED: Metric = Metric::new("all_warm_us", "all served, no restart", Unit::Micros);

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) base: Base,
    pub(super) sessions: usize,
    /// What each is owed at each end.
    pub(super) messages: u64,
}

impl Workload for Start {
    fn sheet(&self) -> Sheet {
        let (payload, version) = (self.base.payload, self.base.version.as_str());
        let (sessions, messages) = (count(self.sessions as u64), count(self.messages));
        Sheet {
            name: "durable",
            title: format!(
                "durable: a start with {sessions} sessions, {messages} messages of {payload} B to \
                 each, MQTT {version}"
            ),
            parameters: members(json!({
                "what": "start",
                "sessions": self.sessions,
                "messages": self.messages,
                "payload_bytes": payload,
                "qos": 1,
                "sync": self.base.sync(),
                "version": version,
                "restart": true,
            })),
            floors: Vec::new(),
            needs: self.base.needs(self.sessions.min(19_000)),
            pairs: 1,
            plan: vec![
                format!("{sessions} clients subscribe to a topic each with QoS 1 and leave"),
                format!("publish {messages} messages to each; all come back and take theirs"),
                "publish as much; kill the server and start it; all come back and take theirs"
                    .into(),
                "publish as much; stop the server and start it; all come back and take theirs"
                    .into(),
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
        let (mut leg, run) = (Leg::default(), run_id());
        let (this, place) = (self.clone(), self.base.place(running, &run));
        let (doing, of) = ("subscribing and leaving", self.sessions as u64);
        work(progress, doing, of, move |gauge| {
            let filter = |session| Some((place.topic(session), 1));
            place.subscribe_and_leave(&this.group(&filter), gauge)
        })?;
        let rounds = [
            (None, WARM_SERVED),
            (Some((Ending::Kill, KILL_START)), KILL_SERVED),
            (Some((Ending::Stop, STOP_START)), STOP_SERVED),
        ];
        for (round, (end, served)) in (0..).zip(rounds) {
            self.publish(running, progress, &run, round)?;
            if round == 0 {
                push_held(&mut leg, running);
            }
            let mut started_us = 0.0;
            if let Some((ending, start)) = end {
                let Some((ended, started)) = restart(running, progress, ending)? else {
                    return Ok(leg);
                };
                if ending == Ending::Stop {
                    leg.push(STOP, micros(ended));
                }
                started_us = micros(started);
                leg.push(start, started_us);
            }
            let begun = Instant::now();
            let all = self.serve(running, progress, &run, round)?;
            leg.push(served, started_us + micros(begun.elapsed()));
            judge(&mut leg, all);
        }
        Ok(leg)
    }
}

impl Start {
    fn total(&self) -> u64 {
        self.sessions as u64 * self.messages
    }

    fn group<'a>(&self, filter: &'a dyn Fn(usize) -> Option<(String, u8)>) -> Group<'a> {
        Group {
            name: "away",
            first: 0,
            count: self.sessions,
            lasts: Lasts::Forever,
            filter,
        }
    }

    fn publish(
        &self,
        running: &Running,
        progress: &Progress,
        run: &str,
        round: u64,
    ) -> Result<(), BenchError> {
        let place: Place = self.base.place(running, run);
        let topics = (0..self.sessions).map(|session| place.topic(session));
        let topics = topics.collect();
        let published = publish(
            running,
            progress,
            &place,
            topics,
            round * self.total(),
            self.total(),
            self.base.payload,
        );
        match published.map_err(BenchError::midway)?.0.refused {
            0 => Ok(()),
            refused => Err(BenchError::broken(format!(
                "{refused} messages were refused"
            ))),
        }
    }

    fn serve(
        &self,
        running: &Running,
        progress: &Progress,
        run: &str,
        round: u64,
    ) -> Result<Served, BenchError> {
        let (this, place) = (self.clone(), self.base.place(running, run));
        let (doing, of) = ("coming back", self.sessions as u64);
        let served = work(progress, doing, of, move |gauge| {
            let waiting = Waiting {
                first: &|session| round * this.total() + session as u64,
                step: this.sessions as u64,
                count: &|_| this.messages,
                payload: this.base.payload,
            };
            place.serve(&this.group(&|_| None), &waiting, gauge)
        });
        served.map_err(BenchError::midway)
    }
}
