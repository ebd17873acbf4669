//! The store against a simple map, on a disk that fails, is killed and loses power.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone. `STENTOR_SOAK=1` runs many.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use stentor_hub::Retained;
use stentor_session::Tick;

use super::support::{Random, get, options, put, walk};
use crate::store::Round;
use crate::{Store, Sync};
use stentor_disk::simulated::{Operation, SimulatedDisk};

type Simulated = Store<SimulatedDisk>;
type SimulatedRound = Round<crate::store::Flush<SimulatedDisk>>;
/// Which state of each topic a commit promises.
type Promises = BTreeMap<String, usize>;

/// What a topic may hold after a restart.
#[derive(Debug, Default)]
struct History {
    /// Everything it held, from the beginning; first, nothing.
    states: Vec<Option<Vec<u8>>>,
    /// The state that a power loss may cost no longer.
    promised: usize,
    /// The last one was being put when the process was killed.
    in_flight: bool,
    /// The number of its last message.
    sequence: u64,
    /// Everything it held, also what was lost since.
    ever: Vec<Option<Vec<u8>>>,
}

impl History {
    fn new() -> Self {
        Self {
            states: vec![None],
            ever: vec![None],
            ..Self::default()
        }
    }

    fn last(&self) -> &Option<Vec<u8>> {
        &self.states[self.states.len() - 1]
    }
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Orderly,
    Kill,
    PowerLoss,
}

struct Run {
    random: Random,
    disk: SimulatedDisk,
    store: Simulated,
    sync: Sync,
    topics: BTreeMap<String, History>,
    /// A commit on its way, and the states that it promises.
    round: Option<(SimulatedRound, Promises)>,
    count: u64,
    is_failing: bool,
    /// How often the machine was started.
    boots: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let sync = if random.one_in(3) {
            Sync::Never
        } else {
            Sync::Interval(Duration::from_secs(1))
        };
        let disk = SimulatedDisk::new(seed);
        let store = Store::open(disk.clone(), &options(sync)).unwrap();
        // Few, so that they share a stripe now and then and their slots are used again.
        let topics = 1 + random.below(40);
        let topics = (0..topics)
            .map(|i| {
                let deep = "/deep".repeat(random.below(20));
                (format!("t/{i}{deep}"), History::new())
            })
            .collect();
        Self {
            random,
            disk,
            store,
            sync,
            topics,
            round: None,
            count: 0,
            is_failing: false,
            boots: 1,
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        self.count += 1;
        let len = match self.random.below(30) {
            // Now and then so large that its segment is given up when it has gone.
            0 if self.random.one_in(4) => 300_000 + self.random.below(500_000),
            0 => 20_000 + self.random.below(100_000),
            1..4 => 500 + self.random.below(10_000),
            _ => self.random.below(300),
        };
        let mut payload = format!("{} ", self.count).into_bytes();
        payload.resize(payload.len() + len, (self.count % 251) as u8);
        payload
    }

    fn put(&mut self) {
        let at = self.random.below(self.topics.len());
        let payload = if self.random.one_in(6) {
            Vec::new()
        } else {
            self.payload()
        };
        let Some((topic, history)) = self.topics.iter_mut().nth(at) else {
            return;
        };
        let kept = put(&self.store, topic, &payload);
        match kept {
            Ok(sequence) => {
                assert!(
                    sequence > history.sequence,
                    "the number of {topic} went back"
                );
                let state = (!payload.is_empty()).then_some(payload);
                history.ever.push(state.clone());
                history.states.push(state);
                history.in_flight = self.disk.is_killed();
                if !history.in_flight {
                    history.sequence = sequence;
                }
            }
            Err(refused) => assert!(self.is_failing, "{topic} was refused: {refused:?}"),
        }
    }

    fn begin_commit(&mut self) {
        if self.round.is_none() && self.sync != Sync::Never {
            let states = self
                .topics
                .iter()
                .map(|(topic, history)| (topic.clone(), history.states.len() - 1));
            self.round = Some((self.store.begin_round(), states.collect()));
        }
    }

    fn end_commit(&mut self) {
        let Some((round, states)) = self.round.take() else {
            return;
        };
        let flushed = self.store.flush_round(&round);
        let is_promised = flushed.is_ok() && !self.disk.is_killed();
        // Puts may come between the flush and what follows it.
        for _ in 0..self.random.below(3) {
            if !self.disk.is_killed() {
                self.put();
            }
        }
        self.store.end_round(round, flushed);
        if is_promised {
            for (topic, state) in states {
                if let Some(history) = self.topics.get_mut(&topic) {
                    history.promised = history.promised.max(state);
                }
            }
        }
    }

    fn fail_or_not(&mut self) {
        self.is_failing = self.random.one_in(3);
        let broken = match self.random.below(12) {
            0 => Some((Operation::Grow, ErrorKind::StorageFull)),
            1 => Some((Operation::Rename, ErrorKind::ReadOnlyFilesystem)),
            2 => Some((Operation::Flush, ErrorKind::Other)),
            3 | 4 => Some((Operation::Write, ErrorKind::StorageFull)),
            5 => Some((Operation::Overwrite, ErrorKind::Other)),
            6 => Some((Operation::SyncNames, ErrorKind::Other)),
            7 => Some((Operation::Remove, ErrorKind::Other)),
            _ => None,
        };
        self.disk.break_down(broken.filter(|_| self.is_failing));
        self.disk.fail_one_in(if self.is_failing { 4 } else { 0 });
        self.store.forget_troubles();
    }

    fn check_all(&self) {
        let mut expected = 0;
        for (topic, history) in &self.topics {
            assert_eq!(&get(&self.store, topic), history.last(), "{topic}");
            expected += u64::from(history.last().is_some());
        }
        assert_eq!(self.store.count(), expected);
        for visits in [1, 1_000] {
            let found = walk(&self.store, "t/#", visits);
            assert_eq!(found.len() as u64, expected);
            for message in found {
                let held = self.topics[message.topic()].last().as_deref();
                assert_eq!(Some(message.payload()), held, "{}", message.topic());
            }
        }
        let verified = self.store.verify();
        assert_eq!((verified.whole, verified.damaged), (expected, 0));
        let bytes = self.topics.iter().filter_map(|(topic, history)| {
            let payload = history.last().as_ref()?;
            Some((topic.len() + payload.len() + 2) as u64)
        });
        assert_eq!(self.store.status().bytes, bytes.sum::<u64>());
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..80 => self.put(),
            80..86 => self.begin_commit(),
            86..92 => self.end_commit(),
            92..94 => {
                self.store.compact();
            }
            94 => self.fail_or_not(),
            95 => self.store.expire(Tick::from_secs(100_000_000)),
            96 => self.store.grow_low(),
            // The second has passed after which a failure is forgotten.
            97 => self.store.forget_troubles(),
            98 => self.store.reserve_versions(),
            _ => self.check_all(),
        }
    }

    /// Ends the process and starts another one.
    fn restart(&mut self, end: End) {
        self.disk.break_down(None);
        self.disk.fail_one_in(0);
        self.is_failing = false;
        self.store.forget_troubles();
        match end {
            End::Orderly => {
                self.end_commit();
                self.begin_commit();
                self.end_commit();
                if self.sync != Sync::Never {
                    self.store.close();
                }
            }
            End::Kill => {
                self.disk.kill_after(self.random.below(5_000));
                for _ in 0..60 {
                    if !self.disk.is_killed() {
                        self.step();
                    }
                }
                self.disk.break_down(None);
                self.disk.fail_one_in(0);
                self.is_failing = false;
            }
            End::PowerLoss => {}
        }
        self.round = None;
        self.disk = match end {
            End::PowerLoss => self.disk.after_power_loss(),
            End::Orderly | End::Kill => self.disk.after_kill(),
        };
        self.disk.remember();
        let epoch = self.store.epoch();
        let mut options = options(self.sync);
        self.boots += u64::from(end == End::PowerLoss);
        options.boot = self.boots;
        self.store = Store::open(self.disk.clone(), &options).unwrap();
        if end != End::PowerLoss {
            let (now, found) = (self.store.epoch(), self.store.damage());
            assert_eq!(now, epoch, "nothing was lost: {end:?}, {found:?}");
        } else if self.store.epoch() != epoch {
            for history in self.topics.values_mut() {
                history.sequence = 0;
            }
        }
        let (_, damage) = self.store.damage();
        if end != End::PowerLoss {
            assert_eq!(damage, [], "a kill damages nothing");
        }
        for (topic, history) in &mut self.topics {
            let found = get(&self.store, topic);
            if end == End::PowerLoss && self.sync == Sync::Never && history.ever.contains(&found) {
                // Nothing was promised but that it is whole.
                history.states.push(found.clone());
            }
            let last = history.states.len() - 1;
            let oldest = match end {
                End::PowerLoss if self.sync == Sync::Never => 0,
                End::PowerLoss => history.promised,
                End::Kill if history.in_flight => last - 1,
                End::Kill | End::Orderly => last,
            };
            let state = history.states[oldest..]
                .iter()
                .rposition(|state| *state == found);
            let Some(state) = state.map(|state| oldest + state) else {
                let found = found.as_deref().map(describe);
                panic!(
                    "after {end:?}, {topic} holds {found:?}, {}",
                    told(history, oldest)
                );
            };
            history.states.truncate(state + 1);
            history.in_flight = false;
            if end == End::PowerLoss {
                history.promised = state;
            }
            history.promised = history.promised.min(state);
        }
        self.check_all();
    }
}

fn describe(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload.split(|byte| *byte == b' ').next().unwrap_or(b"")).into_owned()
}

fn told(history: &History, oldest: usize) -> String {
    let states: Vec<_> = history
        .states
        .iter()
        .map(|state| state.as_deref().map(describe))
        .collect();
    format!("promised {}, oldest {oldest}: {states:?}", history.promised)
}

fn run(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..6 {
        for _ in 0..run.random.below(200) {
            run.step();
        }
        let end = match run.random.below(4) {
            0 => End::Orderly,
            1 => End::Kill,
            _ => End::PowerLoss,
        };
        run.restart(end);
    }
}

#[test]
fn a_store_is_a_map_that_survives_kills_and_power_losses() {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return run(seed.parse().expect("STENTOR_SEED is a number"));
    }
    let runs = if std::env::var_os("STENTOR_SOAK").is_some() {
        20_000
    } else {
        150
    };
    for seed in 0..runs {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            panic!("seed {seed} fails: STENTOR_SEED={seed} runs it alone");
        }
    }
}
