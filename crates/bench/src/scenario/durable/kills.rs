//! kill -9 while messages are acknowledged: what was acknowledged has to reach every session.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mio::{Events, Poll};
use serde_json::json;

use super::{Base, KILL_START, micros, restart};
use crate::clock::{SECOND_NS, as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::load::lasting::{Group, Heard, Peer, Place, leave, packet_id, push, until};
use crate::load::{join, spawn};
use crate::measure::{Leg, Metric, Unit};
use crate::progress::{Gauge, Progress};
use crate::scenario::{count, run_id};
use crate::stats::Spread;
use crate::target::{Ending, Running};
use crate::wire::{Lasts, PublishTemplate};
use crate::workload::{Sheet, Workload, members};

const ACKNOWLEDGED: Metric = Metric::new("acknowledged_count", "acknowledged", Unit::Count);
/// Of the acknowledged messages, those that some session did not get.
const LOST: Metric = Metric::new("lost_count", "of these lost", Unit::Count);
const REPEATED: Metric = Metric::new("repeated_count", "deliveries repeated", Unit::Count);

/// Messages are published for so long before a kill, at least and at most.
const LIFE: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(2_000)];
/// Sessions have what they are owed if nothing comes for this long.
const QUIET: Duration = Duration::from_millis(500);
/// How long a server that has been killed may seem to be there.
const DYING: Duration = Duration::from_secs(10);

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Kills {
    pub(super) base: Base,
    /// Every other one is connected when the server is killed.
    pub(super) sessions: usize,
    /// Messages per second.
    pub(super) rate: u32,
    pub(super) kills: u32,
}

/// What is known from outside, whatever the server was told and forgot.
#[derive(Debug, Default)]
struct Known {
    /// The number of the next message.
    next: u64,
    acknowledged: BTreeSet<u64>,
    /// What each session has received at least once.
    received: Vec<BTreeSet<u64>>,
    repeated: u64,
    reordered: u64,
    foreign: u64,
}

impl Known {
    /// A message came to a session.
    fn receive(&mut self, session: usize, number: Option<u64>) {
        let Some(number) = number.filter(|number| *number < self.next) else {
            self.foreign += 1;
            return;
        };
        let received = &mut self.received[session];
        let newest = received.last().copied();
        if !received.insert(number) {
            self.repeated += 1;
        } else if newest.is_some_and(|newest| number < newest) {
            self.reordered += 1;
        }
    }

    /// Acknowledged messages that some session lacks, and how many those are for all of them.
    fn lost(&self) -> (u64, u64) {
        let lacks = |number: &u64| {
            let lacks = self.received.iter().filter(|got| !got.contains(number));
            lacks.count() as u64
        };
        let lacks: Vec<u64> = self.acknowledged.iter().map(lacks).collect();
        let messages = lacks.iter().filter(|count| **count > 0).count() as u64;
        (messages, lacks.iter().sum())
    }
}

impl Workload for Kills {
    fn sheet(&self) -> Sheet {
        let (payload, version) = (self.base.payload, self.base.version.as_str());
        let (sessions, rate) = (count(self.sessions as u64), count(self.rate));
        Sheet {
            name: "durable",
            title: format!(
                "durable: {} kills at {rate} messages a second of {payload} B to {sessions} \
                 sessions, MQTT {version}",
                self.kills
            ),
            parameters: members(json!({
                "what": "kills",
                "sessions": self.sessions,
                "kills": self.kills,
                "messages_per_s": self.rate,
                "payload_bytes": payload,
                "qos": 1,
                "sync": self.base.sync(),
                "version": version,
                "seconds": f64::from(self.kills) * 2.0,
            })),
            floors: Vec::new(),
            needs: self.base.needs(self.sessions + 1),
            pairs: 1,
            plan: vec![
                format!("{sessions} clients subscribe with QoS 1; every other one leaves"),
                format!(
                    "{rate} messages a second are published; after 0.5 to 2 s the server is killed"
                ),
                "it starts, and all come back and take what they are owed".into(),
                format!(
                    "{} times; each acknowledged message has to reach every session",
                    self.kills
                ),
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
        if running.forgets() || !running.was_started_here() {
            return Err(BenchError::usage(
                "only a server that is started here, and keeps sessions, can be killed",
            ));
        }
        let run = run_id();
        let mut known = Known {
            received: vec![BTreeSet::new(); self.sessions],
            ..Known::default()
        };
        let (mut absent, mut starts) = (0, Vec::new());
        self.found(&self.base.place(running, &run), progress)?;
        for kill in 1..=self.kills {
            let is_told = Arc::new(AtomicBool::new(false));
            let (this, place) = (self.clone(), self.base.place(running, &run));
            let (ends, gauge) = (Arc::clone(&is_told), Gauge::default());
            let shown = gauge.clone();
            let load = spawn("load", move || this.load(&place, known, &ends, &gauge))?;
            let (kills, acknowledged) = (self.kills, || count(shown.get() as u64));
            let until_ns = now_ns() + as_ns(self.life(kill));
            progress.wait(
                &format!("kill {kill} of {kills}, {} acknowledged", acknowledged()),
                until_ns,
            );
            is_told.store(true, Ordering::Relaxed);
            let restarted = restart(running, progress, Ending::Kill)?;
            known = join(load)??;
            let Some((_, started)) = restarted else {
                return Err(BenchError::usage(
                    "a server that keeps nothing is not killed here",
                ));
            };
            starts.push(micros(started));
            progress.show(&format!("kill {kill} of {kills}: coming back"));
            let (this, place) = (self.clone(), self.base.place(running, &run));
            let back = spawn("load", move || this.come_back(&place, known))?;
            let (back, gone) = join(back)?.map_err(BenchError::midway)?;
            known = back;
            absent += gone;
        }
        Ok(evaluate(&known, absent, &starts))
    }
}

fn evaluate(known: &Known, absent: u64, starts: &[f64]) -> Leg {
    let mut leg = Leg::default();
    let (messages, deliveries) = known.lost();
    leg.push(ACKNOWLEDGED, known.acknowledged.len() as f64);
    leg.push(LOST, messages as f64);
    leg.push(REPEATED, known.repeated as f64);
    let start = Spread::of(starts.iter().copied());
    leg.push(KILL_START, start.map(|start| start.median));
    leg.faults.lost = deliveries;
    leg.faults.reordered = known.reordered;
    leg.faults.corrupt = known.foreign;
    leg.failed = absent;
    if absent > 0 {
        leg.behind = Some(format!("{absent} times a session was gone"));
    }
    leg
}

impl Kills {
    /// Different for each kill, and the same in each run.
    fn life(&self, kill: u32) -> Duration {
        let [least, most] = LIFE;
        let part = kill.wrapping_mul(0x9E37_79B9) >> 16;
        least + (most - least) * part / 0xFFFF
    }

    fn group<'a>(&self, filter: &'a dyn Fn(usize) -> Option<(String, u8)>) -> Group<'a> {
        Group {
            name: "killed",
            first: 0,
            count: self.sessions,
            lasts: Lasts::Forever,
            filter,
        }
    }

    fn found(&self, place: &Place, progress: &Progress) -> Result<(), BenchError> {
        let (this, place) = (self.clone(), place.clone());
        let (doing, of) = ("subscribing and leaving", self.sessions as u64);
        super::work(progress, doing, of, move |gauge| {
            let filter = |_| Some((place.topic("#"), 1));
            place.subscribe_and_leave(&this.group(&filter), gauge)
        })
    }

    /// The first half of the sessions are connected and messages are published, until the server
    /// is gone.
    fn load(
        &self,
        place: &Place,
        mut known: Known,
        is_told: &AtomicBool,
        gauge: &Gauge,
    ) -> Result<Known, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let connected = Group {
            count: self.sessions.div_ceil(2),
            ..self.group(&|_| None)
        };
        let mut peers = place.open(&mut poll, &connected)?;
        let mut to_publish = Poll::new().doing("open a poll")?;
        let one = Group {
            name: "publisher",
            count: 1,
            lasts: Lasts::Connection,
            ..self.group(&|_| None)
        };
        let mut publishers = place.open(&mut to_publish, &one)?;
        let publisher = publishers.first_mut();
        let publisher = publisher.ok_or_else(|| BenchError::server("no connection"))?;
        let topic = place.topic("message");
        let template = PublishTemplate::new(self.base.version, &topic, 1, false, self.base.payload);
        let mut events = Events::with_capacity(256);
        let mut due_ns = now_ns();
        let mut end_ns = u64::MAX;
        // Packet ids of messages that are not acknowledged are not used again so soon.
        let ended = loop {
            if is_told.load(Ordering::Relaxed) {
                end_ns = end_ns.min(now_ns() + as_ns(DYING));
            }
            if now_ns() > end_ns {
                break Err(BenchError::broken(
                    "a server that was killed is still there",
                ));
            }
            let mut step = || {
                while due_ns <= now_ns() {
                    let number = known.next;
                    known.next += 1;
                    push(&template, number, due_ns, publisher.unsent());
                    due_ns += SECOND_NS / u64::from(self.rate);
                }
                publisher.flush()?;
                self.hear(publisher, None, &mut known)?;
                (0..peers.len()).try_for_each(|at| self.hear(&mut peers[at], Some(at), &mut known))
            };
            if let Err(error) = step() {
                break match is_told.load(Ordering::Relaxed) || is_dying(is_told) {
                    true => Ok(()),
                    false => Err(error.midway()),
                };
            }
            gauge.set(known.acknowledged.len());
            wait(&mut poll, &mut events, until(due_ns))?;
        };
        ended.map(|()| known)
    }

    /// Takes what has come to a session, or to the publisher.
    fn hear(
        &self,
        peer: &mut Peer,
        session: Option<usize>,
        known: &mut Known,
    ) -> Result<(), BenchError> {
        let mut scratch = [0; 16 * 1_024];
        let payload_len = self.base.payload;
        peer.receive(
            &mut scratch,
            self.base.version,
            &mut |heard| match (heard, session) {
                (Heard::Message { stamp, payload }, Some(session)) => {
                    let stamp = stamp.filter(|stamp| stamp.fits(payload, payload_len));
                    known.receive(session, stamp.map(|stamp| stamp.sequence));
                }
                (
                    Heard::Acknowledged {
                        packet_id: id,
                        is_refused: false,
                    },
                    None,
                ) => {
                    let is_it = |number: &u64| packet_id(*number) == id;
                    // It is one of the newest: the server may take 65,535 at once at most.
                    let number = (0..known.next).rev().take(60_000).find(is_it);
                    known.acknowledged.extend(number);
                }
                _ => {}
            },
        )
    }

    /// All sessions come back and take what they are owed. How many were gone.
    fn come_back(&self, place: &Place, mut known: Known) -> Result<(Known, u64), BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let mut peers = place.open(&mut poll, &self.group(&|_| None))?;
        let absent = peers.iter().filter(|peer| !peer.was_present()).count() as u64;
        let mut events = Events::with_capacity(256);
        let mut last_ns = now_ns();
        while now_ns() - last_ns < as_ns(QUIET) {
            let total = |known: &Known| {
                known.repeated + known.received.iter().map(|it| it.len() as u64).sum::<u64>()
            };
            let before = total(&known);
            for (session, peer) in peers.iter_mut().enumerate() {
                self.hear(peer, Some(session), &mut known)?;
            }
            if total(&known) > before {
                last_ns = now_ns();
                continue;
            }
            wait(&mut poll, &mut events, QUIET / 10)?;
        }
        leave(&mut poll, peers)?;
        Ok((known, absent))
    }
}

/// Connections may break a moment before the one who kills the server says so.
fn is_dying(is_told: &AtomicBool) -> bool {
    let since_ns = now_ns();
    while !is_told.load(Ordering::Relaxed) {
        if now_ns() - since_ns > SECOND_NS {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

fn wait(poll: &mut Poll, events: &mut Events, at_most: Duration) -> Result<(), BenchError> {
    match poll.poll(events, Some(at_most)) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result.doing("wait for messages"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_session_lacks_is_lost() {
        let mut known = Known {
            next: 4,
            acknowledged: BTreeSet::from([0, 1, 3]),
            received: vec![BTreeSet::new(); 2],
            ..Known::default()
        };
        for (session, number) in [(0, 0), (0, 1), (0, 3), (0, 1), (1, 1), (1, 0), (1, 9)] {
            known.receive(session, Some(number));
        }
        known.receive(1, None);
        assert_eq!(known.lost(), (1, 1));
        let wrong = (known.repeated, known.reordered, known.foreign);
        assert_eq!(wrong, (1, 1, 2));
    }
}
