//! The load that grows until the server refuses, falls behind or is late: where that is, and what
//! becomes of those who are there already.

use std::time::Duration;

use super::worker_pool::{Missing, Way, WorkerPool};
use super::{CPU, IN, LATENCY, LATENCY_P99, OUT, Private, RSS_EACH};
use crate::clock::{SECOND_NS, as_ns, now_ns};
use crate::error::BenchError;
use crate::load::echo::{Schedule, Tally};
use crate::measure::{Leg, MACHINE_CPU, Metric, SERVER_CPU, Unit, Verdict, processors};
use crate::process::{self, CpuMeter};
use crate::progress::Progress;
use crate::ramp::{Climb, Plan, Step};
use crate::report::number::grouped;
use crate::scenario::count;
use crate::target::Running;

const CARRIED: Metric = Metric::new("carried_clients", "sound up to", Unit::Count);
const TRIED: Metric = Metric::new("tried_clients", "tried up to", Unit::Count);

/// What `--explain` says.
pub(super) fn explain(load: &Private, plan: Plan) -> Vec<String> {
    vec![
        format!(
            "open {} more connections, while those that are there write on",
            count(plan.step)
        ),
        format!(
            "each writes every {} s; warm up {:.0} s, measure {:.0} s",
            load.period.as_secs(),
            load.warmup.as_secs_f64(),
            load.seconds.as_secs_f64()
        ),
        format!(
            "again, up to {} clients, until connections are refused or break, less than 98 % of \
             what is due comes out, or p99 is beyond {} ms",
            count(load.clients),
            plan.bound.as_millis()
        ),
        "then see what becomes of those who are there: none may break, nothing may be lost".into(),
    ]
}

/// Grows to the breaking point.
///
/// # Errors
/// When the load cannot be made.
pub(super) fn climb(
    load: &Private,
    plan: Plan,
    way: &Way,
    running: &mut Running,
    progress: &Progress,
) -> Result<Leg, BenchError> {
    running.settle();
    let mut ramp = Ramp {
        load,
        plan,
        way,
        waves: Vec::new(),
        tried: 0,
        missing: Missing::default(),
        total: Tally::default(),
        empty_rss: process_rss(running),
    };
    let mut climb = Climb::new("clients");
    while ramp.tried < load.clients {
        let step = ramp.step(running, progress)?;
        if !climb.take(step) {
            break;
        }
    }
    ramp.look_back(&mut climb, progress)?;
    let mut leg = Leg::default();
    let carried = climb.last_sound().map(|step| step.size as f64);
    leg.push(CARRIED, carried.unwrap_or(0.0));
    leg.push(TRIED, climb.steps.last().map(|step| step.size as f64));
    if let Some(step) = climb.last_sound() {
        leg.figures.extend(step.figures.iter().copied());
    }
    leg.faults = ramp.total.faults;
    leg.latency = Some(ramp.total.latency);
    leg.climb = Some(climb);
    Ok(leg)
}

fn process_rss(running: &Running) -> Option<u64> {
    let (_, rss) = running.pid().and_then(process::glance)?;
    Some(rss)
}

/// The clients that are connected so far.
struct Ramp<'a> {
    load: &'a Private,
    plan: Plan,
    way: &'a Way,
    waves: Vec<WorkerPool>,
    /// Clients of all waves.
    tried: usize,
    /// Connections of all waves that could not be opened.
    missing: Missing,
    /// Of all steps.
    total: Tally,
    /// Memory before the first came.
    empty_rss: Option<u64>,
}

impl Ramp<'_> {
    fn live(&self) -> u64 {
        (self.tried as u64).saturating_sub(self.missing.count)
    }

    /// One wave more, measured together with all before it.
    fn step(&mut self, running: &mut Running, progress: &Progress) -> Result<Step, BenchError> {
        let first = self.tried;
        let clients = self.plan.step.min(self.load.clients - first);
        let size = first + clients;
        let wave = Private {
            clients,
            ..self.load.clone()
        };
        let mut pool = WorkerPool::gather(&wave, self.way, running, progress, first)?;
        let missing = pool.missing.clone();
        self.missing += missing.clone();
        let start_ns = now_ns() + SECOND_NS / 10;
        pool.begin_endless(Schedule {
            start_ns,
            from_ns: start_ns,
            end_ns: u64::MAX,
            period_ns: as_ns(self.load.period),
            first,
            clients,
        });
        self.waves.push(pool);
        self.tried = size;
        let settled_ns = start_ns + as_ns(self.load.warmup);
        progress.wait(
            &format!("{} clients: settling", grouped(size as f64)),
            settled_ns,
        );
        let settling = self.ask()?;
        let broken = settling.broken;
        self.total += settling;
        let (meter, begun_ns) = (CpuMeter::start(running.pid()), now_ns());
        let end_ns = begun_ns + as_ns(self.load.seconds);
        progress.wait(&format!("{} clients", grouped(size as f64)), end_ns);
        let tally = self.ask()?;
        let seconds = (now_ns() - begun_ns) as f64 / SECOND_NS as f64;
        let used_s = meter.used_s();
        let mut step = self.judge(&tally, seconds, broken, clients, &missing);
        step.size = size;
        let sent = tally.sent.max(1) as f64;
        let grown = running.grown(self.empty_rss, process_rss(running));
        let percent = used_s.map(|used| used / seconds * 100.0);
        step.figures.extend([
            (CPU, used_s.map(|used| used * 1e6 / sent)),
            (SERVER_CPU, percent),
            (MACHINE_CPU, percent.map(|percent| percent / processors())),
            (RSS_EACH, grown.map(|rss| rss / self.live().max(1) as f64)),
        ]);
        self.total += tally;
        Ok(step)
    }

    fn ask(&self) -> Result<Tally, BenchError> {
        let mut total = Tally::default();
        for wave in &self.waves {
            total += wave.ask()?;
        }
        Ok(total)
    }

    /// What a step came to: what broke it first, if anything did.
    fn judge(
        &self,
        tally: &Tally,
        seconds: f64,
        broken: u64,
        clients: usize,
        missing: &Missing,
    ) -> Step {
        let live = self.live() as f64;
        let (received, late) = (tally.received, tally.after_end);
        let pace = (self.load).pace(live, seconds, received, late, &tally.lateness);
        let quantile = |of: f64| {
            let ns = tally.latency.value_at_quantile(of);
            (!tally.latency.is_empty()).then_some(ns as f64 / 1e3)
        };
        let p99_us = quantile(0.99);
        let mut why = Vec::new();
        if missing.count > 0 {
            let first = missing
                .first_failure
                .as_deref()
                .unwrap_or("no reason known");
            why.push(format!(
                "{} of {} new connections failed ({first})",
                grouped(missing.count as f64),
                count(clients)
            ));
        }
        if broken + tally.broken > 0 {
            why.push(format!("{} connections broke", broken + tally.broken));
        }
        why.extend(self.plan.too_late(p99_us));
        why.extend(pace.behind());
        let faults = tally.faults.told();
        why.extend(faults.map(|(count, what)| format!("{} {what}", grouped(count as f64))));
        let is_whole =
            missing.count == 0 && broken + tally.broken == 0 && tally.faults.total() == 0;
        let verdict = match pace.limited().filter(|_| is_whole) {
            // Late messages make late answers: who was late is asked first.
            Some(late) => Verdict::GeneratorLimited(late),
            None if why.is_empty() => Verdict::Sound,
            None => Verdict::Failed(why.join(", ")),
        };
        Step {
            size: 0,
            figures: vec![
                (IN, Some(tally.sent as f64 / seconds)),
                (OUT, Some(tally.received as f64 / seconds)),
                (LATENCY, quantile(0.5)),
                (LATENCY_P99, p99_us),
            ],
            verdict,
        }
    }

    /// What became of those who were there: they go on for as long as a step, and leave.
    fn look_back(&mut self, climb: &mut Climb, progress: &Progress) -> Result<(), BenchError> {
        let live = self.live();
        if self.missing.count > 0 {
            let polite = self.missing.refused;
            climb.aftermath.push(format!(
                "{} of {} that did not get in were told so at once by CONNACK",
                grouped(polite as f64),
                grouped(self.missing.count as f64)
            ));
            let end_ns = now_ns() + as_ns(self.load.seconds.max(Duration::from_secs(1)));
            progress.wait("those who are there", end_ns);
        }
        let after = self.ask()?;
        let mut broken = self.total.broken + after.broken;
        self.total += after;
        let mut ended = Tally::default();
        progress.show("waiting for the last messages");
        // All waves end at once: what one waits for must not keep the next one writing.
        let waves = std::mem::take(&mut self.waves);
        let handles: Vec<WorkerPool> = waves.into_iter().map(WorkerPool::let_end).collect();
        for pool in handles {
            ended += pool.dismiss()?;
        }
        broken += ended.broken;
        let unanswered = ended.unanswered + self.total.unanswered;
        self.total += ended;
        if broken > 0 {
            climb.harm.push(format!("{broken} live connections broke"));
        }
        let faults = self.total.faults.told();
        let told = faults.map(|(count, what)| format!("{count} messages were {what}"));
        climb.harm.extend(told);
        if unanswered > 0 {
            climb.harm.push(format!("{unanswered} were not answered"));
        }
        if climb.harm.is_empty() {
            climb.aftermath.push(format!(
                "of the {} who were there, none broke and each message came once and in order",
                grouped(live as f64)
            ));
        }
        Ok(())
    }
}
