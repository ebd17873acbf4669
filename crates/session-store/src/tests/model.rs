//! Random changes, on a disk that fails now and then, against what the sessions are.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone.

use std::collections::BTreeMap;

use stentor_disk::simulated::{Random, SimulatedDisk, SimulatedRegion};

use super::*;

/// A session of the model: where it is, and what it has subscribed to.
#[derive(Clone, Debug)]
struct Known {
    shard: usize,
    number: u32,
    filters: Vec<String>,
}

struct Run {
    random: Random,
    disk: SimulatedDisk,
    server: Server<SimulatedDisk>,
    /// By client id.
    sessions: BTreeMap<String, Known>,
    /// The next number of each shard.
    numbers: Vec<u32>,
    named: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed);
        let server = start(disk.clone(), 1, 2);
        Self {
            random: Random(seed),
            disk,
            server,
            sessions: BTreeMap::new(),
            numbers: vec![0; 2],
            named: 0,
        }
    }

    fn told(&self) -> Vec<(String, Vec<String>)> {
        let session = |(id, known): (&String, &Known)| {
            let mut filters = known.filters.clone();
            filters.sort();
            (id.clone(), filters)
        };
        self.sessions.iter().map(session).collect()
    }

    /// Appends a batch, and writes everything again if the disk has failed.
    fn write(&mut self, shard: usize, records: &[Record<'_>]) {
        let mut batch = Vec::new();
        for record in records {
            record.encode(&mut batch);
        }
        self.tend(shard);
        while self.server.writers[shard].append(&batch).is_err() {
            std::thread::yield_now();
            self.tend(shard);
        }
    }

    fn tend(&mut self, shard: usize) {
        if self.server.writers[shard].tend() == Needs::Rewriting {
            self.write_all(shard);
        }
    }

    /// Every session anew, as a ring that is cleaned does it. What the disk fails in the meantime
    /// may be what was just written, so it is written again.
    fn write_all(&mut self, shard: usize) {
        loop {
            let before = self.server.writers[shard].tend();
            let first = self.write_each(shard);
            let writer = &mut self.server.writers[shard];
            if writer.tend() != before {
                continue;
            }
            writer.rewritten();
            return writer.release_before(first);
        }
    }

    /// Returns the first file of those that are needed.
    fn write_each(&mut self, shard: usize) -> u32 {
        let writer = &mut self.server.writers[shard];
        let mut first = None;
        for (id, known) in self.sessions.iter().filter(|(_, it)| it.shard == shard) {
            let base = Record::Base(session_of(known.number, id));
            let filters = known.filters.iter().map(|it| sub(known.number, it));
            let mut batch = Vec::new();
            for record in [base].into_iter().chain(filters) {
                record.encode(&mut batch);
            }
            let name = loop {
                if let Ok(name) = writer.append(&batch) {
                    break name;
                }
                writer.tend();
                std::thread::yield_now();
            };
            first.get_or_insert(name.file);
        }
        first.unwrap_or_else(|| writer.newest())
    }

    fn step(&mut self) {
        let shard = self.random.below(self.server.writers.len());
        let some = self.random.below(self.sessions.len());
        let one = self.sessions.iter().nth(some);
        let one = one.map(|(id, known)| (id.clone(), known.clone()));
        match (self.random.below(8), one) {
            (0, _) => self.write_all(shard),
            (1, Some((id, known))) => {
                let number = known.number;
                self.sessions.remove(&id);
                self.write(known.shard, &[Record::End { number }]);
            }
            (2..=4, Some((id, known))) => {
                let filter = format!("f/{}", self.random.below(9));
                self.write(known.shard, &[sub(known.number, &filter)]);
                let filters = &mut self.sessions.get_mut(&id).unwrap().filters;
                if !filters.contains(&filter) {
                    filters.push(filter);
                }
            }
            (5, Some((id, known))) if !known.filters.is_empty() => {
                let filter = &known.filters[self.random.below(known.filters.len())];
                let number = known.number;
                let of = Filter {
                    group: None,
                    filter,
                };
                self.write(known.shard, &[Record::Unsub { number, filter: of }]);
                let filters = &mut self.sessions.get_mut(&id).unwrap().filters;
                filters.retain(|it| it != filter);
            }
            _ => {
                self.named += 1;
                let (id, number) = (format!("c{:03}", self.named), self.numbers[shard]);
                self.numbers[shard] += 1;
                self.write(shard, &[Record::Session(session_of(number, &id))]);
                let known = Known {
                    shard,
                    number,
                    filters: Vec::new(),
                };
                self.sessions.insert(id, known);
            }
        }
    }

    /// The process ends, in order or not, and another one starts.
    fn restart(&mut self, boot: &mut u64) {
        self.disk.fail_one_in(0);
        let shards = 1 + self.random.below(3) as u16;
        let next = match self.random.below(3) {
            0 => {
                for shard in 0..self.server.writers.len() {
                    self.tend(shard);
                }
                None
            }
            _ => Some(self.disk.after_kill()),
        };
        let other = start(SimulatedDisk::new(0), 1, 1);
        let old = std::mem::replace(&mut self.server, other);
        let events = old.events;
        for writer in old.writers {
            writer.finish();
        }
        let ended = old.maintenance.end();
        drop(events);
        let next = next.unwrap_or_else(|| match ended {
            // The power may go after an end in order.
            Ok(()) => {
                *boot += 1;
                self.disk.after_power_loss()
            }
            Err(_) => self.disk.after_kill(),
        });
        self.disk = next;
        let server = start(self.disk.clone(), *boot, shards);
        stop(std::mem::replace(&mut self.server, server));
        assert_eq!(told(&self.server.sessions), self.told());
        self.adopt();
    }

    /// As [`start`] deals them out.
    fn adopt(&mut self) {
        let writers = self.server.writers.len();
        self.numbers = vec![self.server.sessions.len() as u32; writers];
        for (number, session) in (0..).zip(&self.server.sessions) {
            let known = self.sessions.get_mut(&*session.client_id).unwrap();
            (known.shard, known.number) = (number as usize % writers, number);
        }
    }
}

#[test]
fn sessions_are_what_they_were() {
    let seeds = match std::env::var("STENTOR_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => (0..20).collect(),
    };
    for seed in seeds {
        let at_end = std::thread::panicking;
        let _told = Seed(seed, at_end);
        let (mut run, mut boot) = (Run::new(seed), 1);
        for _ in 0..8 {
            run.disk.fail_one_in([0, 10][run.random.below(2)]);
            for _ in 0..run.random.below(60) {
                run.step();
            }
            run.restart(&mut boot);
        }
        stop(run.server);
    }
}

/// Prints the seed of a run that fails.
struct Seed(u64, fn() -> bool);

impl Drop for Seed {
    fn drop(&mut self) {
        if (self.1)() {
            eprintln!("seed {}", self.0);
        }
    }
}

/// All that is alive lies in few files, whatever was written before.
#[test]
fn a_ring_that_is_cleaned_stays_small() {
    let mut run = Run::new(1);
    forget(&mut run.server);
    for round in 0..60 {
        for _ in 0..20 {
            run.step();
        }
        if round % 4 == 0 {
            for shard in 0..2 {
                run.write_all(shard);
            }
        }
    }
    let used = |writer: &Writer<SimulatedRegion>| writer.usage().used;
    let used: usize = run.server.writers.iter().map(used).sum();
    assert!(used < 48, "{used} files");
    run.restart(&mut 1);
    stop(run.server);
}
