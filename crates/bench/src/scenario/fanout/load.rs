//! Drives one fan-out: opens the clients, sets the pace, reads the meters.

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::Poll;

use super::group::{Came, Group};
use super::{Fanout, Rate};
use crate::clock::{SECOND_NS, as_ns, now_ns, sleep_until_ns};
use crate::error::{BenchError, Doing};
use crate::load::crowd::{self, Client, Plan};
use crate::load::fill::Fill;
use crate::load::publisher::{Press, Published, Schedule};
use crate::load::receiver::{self, Orders, Received};
use crate::load::shared::Shared;
use crate::load::storm::Round;
use crate::load::{self, histogram, join, spawn};
use crate::measure::Series;
use crate::meter::{GeneratorMeter, GeneratorUse};
use crate::process::{self, Usage};
use crate::progress::Progress;
use crate::scenario::retained::Retained;
use crate::scenario::run_id;
use crate::sequence::Faults;
use crate::target::Running;
use crate::wire::{Lasts, PublishTemplate};

/// Connections on their way at once: well below any listen backlog.
const AT_ONCE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(15);
/// Each window of a ramp settles and is then measured this long.
const RAMP_SETTLE: Duration = Duration::from_millis(300);
const RAMP_MEASURE: Duration = Duration::from_millis(700);

/// One fan-out to be driven.
pub(super) struct Load<'a> {
    pub(super) plan: &'a Fanout,
    /// 0 when paced.
    pub(super) window_max: u64,
    /// Called when the measured interval begins.
    pub(super) at_start: &'a dyn Fn(),
}

/// What came of it.
pub(super) struct Outcome {
    /// Received within the measured interval.
    pub(super) deliveries: u64,
    pub(super) seconds: f64,
    pub(super) window: u64,
    pub(super) latency: Histogram<u64>,
    pub(super) lateness: Histogram<u64>,
    pub(super) faults: Faults,
    pub(super) disconnected: u64,
    pub(super) unacknowledged: u64,
    /// Messages that were due, but the server took no more.
    pub(super) unsent: u64,
    /// Deliveries of messages that were due within the interval, after its end.
    pub(super) after_end: u64,
    /// Why retained messages stay where they were cleared without success.
    pub(super) uncleared: Option<String>,
    pub(super) server_cpu_s: Option<f64>,
    pub(super) generator_cpu_s: f64,
    pub(super) generator: GeneratorUse,
    /// Of each group of subscribers in a process of its own.
    pub(super) groups: Vec<Came>,
    pub(super) usage: Option<Usage>,
    pub(super) series: Series,
}

/// The threads of one load.
struct Threads {
    shared: Arc<Shared>,
    receivers: Vec<JoinHandle<Result<Received, BenchError>>>,
    groups: Vec<Group>,
    publisher: JoinHandle<Result<Published, BenchError>>,
    /// Starts the publisher.
    start: mpsc::Sender<Schedule>,
    /// What the topics are called after.
    run: Arc<String>,
}

impl Load<'_> {
    /// Measures once.
    pub(super) fn run(
        &self,
        running: &mut Running,
        window: u64,
        progress: &Progress,
    ) -> Result<Outcome, BenchError> {
        let mut threads = self.open(running, progress)?;
        let retained = self.keep(running, &threads.run);
        let plan = self.plan;
        // Other processes have to know it in time.
        let lead_ns = SECOND_NS / if plan.groups.is_some() { 4 } else { 20 };
        let start_ns = now_ns() + lead_ns;
        let from_ns = start_ns + as_ns(plan.warmup);
        let to_ns = from_ns + as_ns(plan.seconds);
        threads.shared.set_window(window);
        threads.shared.set_interval(from_ns, to_ns);
        let published_max = plan.rate.most(to_ns - start_ns);
        threads.begin_groups(from_ns, to_ns, published_max, progress)?;
        threads.begin(start_ns, to_ns, plan.rate);
        progress.show("warming up");
        sleep_until_ns(from_ns);
        (self.at_start)();
        let before = Meters::read(running, &threads.shared);
        let meter = GeneratorMeter::start();
        let counts = follow(&threads.shared, from_ns, to_ns, progress);
        let after = Meters::read(running, &threads.shared);
        let generator = meter.stop();
        let usage = running.usage();
        progress.show("waiting for the last messages");
        let (ended, cleared) = self.finish(threads, retained, running, progress)?;
        let groups = ended.groups;
        let came: u64 = groups.iter().map(|came| came.deliveries).sum();
        let groups_cpu_s: f64 = groups.iter().map(|came| came.cpu_s).sum();
        let all = groups
            .iter()
            .fold(generator, |all, came| all.with(came.used));
        Ok(Outcome {
            deliveries: after.delivered - before.delivered + came,
            seconds: (after.at_ns - before.at_ns) as f64 / SECOND_NS as f64,
            window,
            latency: ended.latency,
            lateness: ended.lateness,
            faults: ended.faults,
            disconnected: ended.disconnected,
            unacknowledged: ended.unacknowledged,
            unsent: ended.unsent,
            after_end: ended.after_end,
            uncleared: cleared.err().map(|error| error.to_string()),
            server_cpu_s: after
                .server_cpu_s
                .zip(before.server_cpu_s)
                .map(|(a, b)| a - b),
            generator_cpu_s: after.own_cpu_s - before.own_cpu_s + groups_cpu_s,
            generator: all,
            usage,
            series: Series {
                step_s: 1.0,
                counts: with_groups(counts, &groups),
            },
            groups,
        })
    }

    /// Ends the threads, and clears what was retained, also after a load that failed. The result
    /// of clearing is separate: earlier losses matter more.
    fn finish(
        &self,
        threads: Threads,
        retained: Retained,
        running: &Running,
        progress: &Progress,
    ) -> Result<(Ended, Result<(), BenchError>), BenchError> {
        let run = Arc::clone(&threads.run);
        let ended = threads.end(progress);
        let cleared = retained.clear(progress, || self.clear(running, &run, progress));
        Ok((ended?, cleared))
    }

    fn keep(&self, running: &Running, run: &str) -> Retained {
        match self.plan.retain {
            true => Retained::keep(running, run),
            false => Retained::none(),
        }
    }

    /// Publishes an empty message to each topic.
    fn clear(&self, running: &Running, run: &str, progress: &Progress) -> Result<(), BenchError> {
        let (version, count) = (self.plan.version, self.plan.topics as u64);
        let (endpoint, login) = (running.endpoint.clone(), running.login.clone());
        let run = run.to_owned();
        let now = || "clearing the retained messages".into();
        load::run("publisher", progress, &now, move || {
            let fill = Fill {
                endpoint: &endpoint,
                login: &login,
                version,
                client_id: format!("p-{run}"),
                retain: true,
                round: Round::New,
                payload: 0,
                count,
                topic: &|number| topic(&run, number as usize),
            };
            fill.run()
        })?;
        Ok(())
    }

    /// Finds the window with the highest rate that loses nothing.
    pub(super) fn ramp(
        &self,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<u64, BenchError> {
        let threads = self.open(running, progress)?;
        let retained = self.keep(running, &threads.run);
        let shared = Arc::clone(&threads.shared);
        shared.set_window(1);
        threads.begin(now_ns(), u64::MAX, Rate::Max);
        let (mut best_window, mut best_rate) = (1, 0.0);
        let mut window = 1;
        while window <= self.window_max && shared.faults() == 0 {
            shared.set_window(window);
            std::thread::sleep(RAMP_SETTLE);
            let (count, begun_ns) = (shared.delivered(), now_ns());
            std::thread::sleep(RAMP_MEASURE);
            let seconds = (now_ns() - begun_ns) as f64 / SECOND_NS as f64;
            let rate = (shared.delivered() - count) as f64 / seconds;
            progress.show(&format!("ramping: window {window}, {rate:.0} deliveries/s"));
            if shared.faults() > 0 || rate == 0.0 {
                break;
            }
            if rate > best_rate {
                (best_window, best_rate) = (window, rate);
            } else if rate < best_rate * 0.3 {
                // Beyond all noise: it only gets worse.
                break;
            }
            window *= 2;
        }
        // What stays has been told; what is wrong shows in what is measured next.
        let _ = self.finish(threads, retained, running, progress)?;
        Ok(best_window)
    }

    fn open(&self, running: &Running, progress: &Progress) -> Result<Threads, BenchError> {
        let plan = self.plan;
        let workers = if plan.groups.is_some() {
            0
        } else {
            plan.workers
        };
        let shared = Arc::new(Shared::new(plan.publishers, workers));
        let run = Arc::new(run_id());
        let (ready, is_ready) = mpsc::channel();
        let mut receivers = Vec::new();
        for receiver in 0..workers {
            let first = plan.subscribers * receiver / workers;
            let end = plan.subscribers * (receiver + 1) / workers;
            let job = self.opening(running, &run, first..end);
            let (shared, ready) = (Arc::clone(&shared), ready.clone());
            let window_max = self.window_max;
            receivers.push(spawn("receiver", move || {
                let opened = job.subscribers();
                let _ = ready.send(opened.is_ok());
                let (poll, clients) = opened?;
                Ok(receiver::run(
                    poll,
                    clients,
                    job.orders(shared, receiver, window_max),
                ))
            })?);
        }
        let groups = self.groups(running, &run, progress)?;
        let comes = || progress.receive(|| "connecting".into(), &is_ready) == Some(true);
        let subscribed = (0..workers).all(|_| comes());
        let publishers = plan.subscribers..plan.subscribers + plan.publishers;
        let job = self.opening(running, &run, publishers);
        let (start, started) = mpsc::channel();
        let publisher = {
            let shared = Arc::clone(&shared);
            spawn("publisher", move || job.publish(&shared, &started, &ready))?
        };
        let connected = comes();
        let mut threads = Threads {
            shared,
            receivers,
            groups,
            publisher,
            start,
            run,
        };
        if !subscribed || !connected {
            threads.groups.clear();
            threads.end(progress)?;
            return Err(BenchError::server("the clients did not all connect"));
        }
        Ok(threads)
    }

    /// Starts the groups of subscribers, and waits until all of them are there.
    fn groups(
        &self,
        running: &Running,
        run: &str,
        progress: &Progress,
    ) -> Result<Vec<Group>, BenchError> {
        let mut groups = Vec::new();
        let mut first = 0;
        for (number, count) in self.plan.groups.into_iter().flatten().enumerate() {
            let group = Group::start(number, first, count, self.plan, run, running)?;
            groups.push(group);
            first += count;
        }
        for group in &groups {
            group.wait_ready(progress)?;
        }
        Ok(groups)
    }

    /// What a thread needs to open these of all clients.
    fn opening(&self, running: &Running, run: &Arc<String>, clients: Range<usize>) -> Opening {
        Opening {
            plan: self.plan.clone(),
            run: Arc::clone(run),
            login: running.login.clone(),
            endpoint: running.endpoint.clone(),
            first: clients.start,
            count: clients.len(),
        }
    }
}

/// One of the topics of a run.
fn topic(run: &str, number: usize) -> String {
    format!("bench/{run}/{number}")
}

/// What a load thread, or a group in a process of its own, needs to open its clients.
pub(super) struct Opening {
    pub(super) plan: Fanout,
    pub(super) run: Arc<String>,
    pub(super) login: crate::wire::Login,
    pub(super) endpoint: crate::link::Endpoint,
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Opening {
    /// What the receiver of these clients is to do, which is the one of that number.
    pub(super) fn orders(&self, shared: Arc<Shared>, receiver: usize, window_max: u64) -> Orders {
        let publishers = self.plan.publishers;
        Orders {
            shared,
            receiver,
            first: self.first,
            publishers,
            version: self.plan.version,
            window_max,
            payload: self.plan.payload,
            qos: self.plan.qos,
            topics: (0..publishers).map(|it| self.topics(it)).collect(),
            all: self.plan.all,
            grace: self.plan.grace,
        }
    }

    fn topics(&self, publisher: usize) -> Vec<String> {
        let numbers = self.plan.topics_of(publisher).into_iter();
        numbers.map(|number| topic(&self.run, number)).collect()
    }

    /// What a subscriber subscribes to.
    fn filter(&self, subscriber: usize) -> String {
        match self.plan.all {
            true => format!("bench/{}/#", self.run),
            // There are as many topics as publishers.
            false => topic(&self.run, (self.first + subscriber) % self.plan.topics),
        }
    }

    /// Opens them; each subscribes.
    ///
    /// # Errors
    /// When they do not all come.
    pub(super) fn subscribers(&self) -> Result<(Poll, Vec<Client>), BenchError> {
        self.crowd("s", &|index| Some((self.filter(index), self.plan.qos)))
    }

    fn crowd(
        &self,
        role: &str,
        filter: &dyn Fn(usize) -> Option<(String, u8)>,
    ) -> Result<(Poll, Vec<Client>), BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let crowd = crowd::open(
            &mut poll,
            &Plan {
                endpoint: &self.endpoint,
                login: &self.login,
                version: self.plan.version,
                count: self.count,
                first: self.first,
                at_once: AT_ONCE,
                pace: None,
                patience: PATIENCE,
                client_id: &|index| format!("{role}-{}-{}", self.run, self.first + index),
                entry: None,
                filter,
                lasts: Lasts::Connection,
                gauge: None,
                receive_buffer: None,
            },
        )?;
        Ok((poll, crowd.complete()?))
    }

    fn publish(
        &self,
        shared: &Arc<Shared>,
        started: &mpsc::Receiver<Schedule>,
        ready: &mpsc::Sender<bool>,
    ) -> Result<Published, BenchError> {
        let opened = self.crowd("p", &|_| None);
        let press = opened.map(|(_poll, clients)| {
            Press::new(Arc::clone(shared), clients, self.plan.qos, |publisher| {
                let plan = &self.plan;
                let template = |topic: String| {
                    PublishTemplate::new(plan.version, &topic, plan.qos, plan.retain, plan.payload)
                };
                self.topics(publisher).into_iter().map(template).collect()
            })
        });
        let _ = ready.send(press.is_ok());
        let press = match press {
            Ok(press) => press,
            Err(e) => {
                shared.finish();
                return Err(e);
            }
        };
        match (started.recv(), self.plan.rate) {
            (Ok(schedule), Rate::Paced(_)) => Ok(press.run_paced(&schedule)),
            (Ok(schedule), Rate::Max) => {
                sleep_until_ns(schedule.start_ns);
                Ok(press.run_windowed())
            }
            (Err(_), _) => {
                shared.finish();
                Err(BenchError::server("the load was called off"))
            }
        }
    }
}

/// All threads' results together.
struct Ended {
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
    faults: Faults,
    disconnected: u64,
    unacknowledged: u64,
    unsent: u64,
    after_end: u64,
    groups: Vec<Came>,
}

impl Ended {
    fn add(&mut self, received: &Received) {
        self.faults += received.faults;
        self.disconnected += received.disconnected;
        self.after_end += received.after_end;
        // Both histograms have the same bounds.
        let _ = self.latency.add(&received.latency);
    }
}

impl Threads {
    /// Tells the groups when to measure, and waits until they know. There are `published_max`
    /// messages of a publisher at most.
    fn begin_groups(
        &mut self,
        from_ns: u64,
        to_ns: u64,
        published_max: u64,
        progress: &Progress,
    ) -> Result<(), BenchError> {
        for group in &mut self.groups {
            group.begin(from_ns, to_ns, published_max)?;
        }
        let mut groups = self.groups.iter();
        groups.try_for_each(|group| group.wait_begun(progress))
    }

    fn begin(&self, start_ns: u64, end_ns: u64, rate: Rate) {
        let rate = if let Rate::Paced(rate) = rate {
            rate
        } else {
            1.0
        };
        // A publisher that could not connect says so when it is joined.
        let _ = self.start.send(Schedule {
            start_ns,
            end_ns,
            rate,
        });
    }

    fn end(mut self, progress: &Progress) -> Result<Ended, BenchError> {
        self.shared.stop();
        drop(self.start);
        let published = join(self.publisher)?;
        let mut ended = Ended {
            latency: histogram(),
            lateness: histogram(),
            faults: Faults::default(),
            disconnected: 0,
            unacknowledged: 0,
            unsent: 0,
            after_end: 0,
            groups: Vec::new(),
        };
        let mut failure = None;
        for receiver in self.receivers {
            match join(receiver)? {
                Ok(received) => ended.add(&received),
                Err(e) => failure = failure.or(Some(e)),
            }
        }
        let counts: Vec<u64> = self.shared.all_published().collect();
        for group in &mut self.groups {
            group.end(&counts)?;
        }
        for group in self.groups {
            let (received, came) = group.finish(progress)?;
            ended.add(&received);
            ended.groups.push(came);
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let published = published?;
        ended.disconnected += published.disconnected;
        ended.unacknowledged = published.unacknowledged;
        ended.unsent = published.unsent;
        let _ = ended.lateness.add(&published.lateness);
        Ok(ended)
    }
}

/// Waits for the end of the interval; returns the deliveries of each second.
fn follow(shared: &Shared, from_ns: u64, to_ns: u64, progress: &Progress) -> Vec<u64> {
    let mut counts = Vec::new();
    let mut before = shared.delivered();
    let mut next_ns = from_ns + SECOND_NS;
    while next_ns <= to_ns {
        sleep_until_ns(next_ns);
        let now = shared.delivered();
        counts.push(now - before);
        let left_s = (to_ns - next_ns) / SECOND_NS;
        progress.show(&match shared.has_receivers() {
            true => format!("{} deliveries/s, {left_s} s left", now - before),
            // Other processes count.
            false => format!("measuring, {left_s} s left"),
        });
        before = now;
        next_ns += SECOND_NS;
    }
    sleep_until_ns(to_ns);
    counts
}

/// The deliveries of each second, those to groups included.
fn with_groups(mut counts: Vec<u64>, groups: &[Came]) -> Vec<u64> {
    for came in groups {
        for (count, more) in counts.iter_mut().zip(&came.counts) {
            *count += more;
        }
    }
    counts
}

/// The meters at one moment.
struct Meters {
    at_ns: u64,
    delivered: u64,
    server_cpu_s: Option<f64>,
    own_cpu_s: f64,
}

impl Meters {
    fn read(running: &Running, shared: &Shared) -> Self {
        Self {
            own_cpu_s: process::own_cpu_s(),
            server_cpu_s: running.pid().and_then(process::cpu_s),
            delivered: shared.delivered(),
            at_ns: now_ns(),
        }
    }
}
