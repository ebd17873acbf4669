//! The threads that hold the clients.

use std::ops::AddAssign;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Poll;

use super::super::idle::CONNECTIONS_PER_WORKER;
use super::Private;
use crate::accounts::Accounts;
use crate::error::{BenchError, Doing};
use crate::link::Endpoint;
use crate::load::crowd::{self, Entry, Plan};
use crate::load::echo::{Audience, Circle, Questions, Schedule, Tally};
use crate::load::source::Source;
use crate::load::{join, spawn};
use crate::progress::{Gauge, Progress};
use crate::scenario;
use crate::target::Running;
use crate::wire::{Lasts, Login, PublishTemplate};

const PATIENCE: Duration = Duration::from_secs(20);
/// Connections on their way at once.
const AT_ONCE: usize = 200;

/// How a client writes to itself.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// By a private message to its own name.
    Private(Arc<Accounts>),
    /// To a topic that nobody else names, in this run.
    OwnTopic(String),
    /// To the room that all are in.
    Room(Arc<Accounts>),
    /// To the topic that all hear.
    Topic(Arc<Accounts>),
}

impl Way {
    fn filter(&self, number: usize) -> String {
        match self {
            Self::Private(_) => "$private/from/+".into(),
            Self::OwnTopic(run) => format!("bench/{run}/{number}"),
            Self::Room(_) => "$room/bench/say/+".into(),
            Self::Topic(_) => "bench/say".into(),
        }
    }

    /// Whether all hear what one writes.
    const fn is_shared(&self) -> bool {
        match self {
            Self::Room(_) | Self::Topic(_) => true,
            Self::Private(_) | Self::OwnTopic(_) => false,
        }
    }

    fn topic(&self, number: usize) -> String {
        match self {
            Self::Private(_) => format!("$private/to/{}", Accounts::name(number)),
            Self::OwnTopic(run) => format!("bench/{run}/{number}"),
            Self::Room(_) => "$room/bench/say".into(),
            Self::Topic(_) => "bench/say".into(),
        }
    }

    /// Where it arrives; a floor sends it back as it came.
    fn source(&self, is_floor: bool) -> Source {
        let numbered = |start: &str| Source::Numbered(format!("{start}{}", Accounts::NAME_START));
        match self {
            Self::Private(_) if is_floor => numbered("$private/to/"),
            Self::Private(_) => numbered("$private/from/"),
            Self::OwnTopic(run) => Source::Numbered(format!("bench/{run}/")),
            Self::Room(_) if is_floor => Source::Shared("$room/bench/say".into()),
            Self::Room(_) => numbered("$room/bench/say/"),
            Self::Topic(_) => Source::Shared("bench/say".into()),
        }
    }
}

/// Connections that could not be opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing {
    pub(super) count: u64,
    /// How many of them were told so, by a CONNACK.
    pub(super) refused: u64,
    /// Why the first could not.
    pub(super) first_failure: Option<String>,
}

struct Worker {
    begin: mpsc::Sender<Start>,
    /// Asks how it goes, once it has begun; dropping it ends a load that has no end of its own.
    asker: Option<mpsc::Sender<mpsc::Sender<Tally>>>,
    handle: JoinHandle<Result<Tally, BenchError>>,
}

/// When to write, and who may ask how it goes.
struct Start {
    schedule: Schedule,
    questions: Option<Questions>,
}

/// All clients, connected, on their threads.
pub(super) struct WorkerPool {
    workers: Vec<Worker>,
    pub(super) missing: Missing,
}

impl WorkerPool {
    /// Opens all connections, one thread after the other so that [`AT_ONCE`] holds for all. The
    /// clients are numbered from `base` on.
    pub(super) fn gather(
        load: &Private,
        way: &Way,
        running: &Running,
        progress: &Progress,
        base: usize,
    ) -> Result<Self, BenchError> {
        let threads = load.clients.div_ceil(CONNECTIONS_PER_WORKER);
        let mut pool = Self {
            workers: Vec::new(),
            missing: Missing::default(),
        };
        let mut first = base;
        let shared = way
            .is_shared()
            .then(|| Audience::new(load.clients, threads));
        let audience = shared.map(Arc::new);
        for thread in 0..threads {
            let count = (load.clients - thread).div_ceil(threads);
            let (begin, begun) = mpsc::channel();
            let (ready, is_ready) = mpsc::channel();
            let gauge = Gauge::default();
            let seen = gauge.clone();
            let post = Post {
                load: load.clone(),
                way: way.clone(),
                source: way.source(running.is_floor()),
                login: running.login.clone(),
                endpoint: running.endpoint.clone(),
                count,
                first,
                // Clients of all threads take turns.
                number: (base + thread, threads),
                audience: audience.clone(),
                gauge,
            };
            let handle = spawn("clients", move || post.serve(&ready, &begun))?;
            // Without an answer it has failed, which joining it tells.
            let total = scenario::count(base + load.clients);
            let now = || {
                format!(
                    "connecting: {} of {total}",
                    scenario::count(first + seen.get())
                )
            };
            if let Some(missing) = progress.receive(now, &is_ready) {
                pool.missing += missing;
            }
            pool.workers.push(Worker {
                begin,
                asker: None,
                handle,
            });
            first += count;
        }
        Ok(pool)
    }

    /// Lets them write until the schedule ends.
    pub(super) fn begin(&self, schedule: Schedule) {
        for worker in &self.workers {
            let questions = None;
            // A thread that has failed says so when it is joined.
            let _ = worker.begin.send(Start {
                schedule,
                questions,
            });
        }
    }

    /// Lets them write until they are dismissed.
    pub(super) fn begin_endless(&mut self, schedule: Schedule) {
        for worker in &mut self.workers {
            let (asker, questions) = mpsc::channel();
            worker.asker = Some(asker);
            let questions = Some(questions);
            let _ = worker.begin.send(Start {
                schedule,
                questions,
            });
        }
    }

    /// What has happened since they were last asked.
    ///
    /// # Errors
    /// When a thread has failed, or takes too long.
    pub(super) fn ask(&self) -> Result<Tally, BenchError> {
        let (answer, answers) = mpsc::channel();
        let askers = self.workers.iter().filter_map(|w| w.asker.as_ref());
        let asked = askers.filter(|asker| asker.send(answer.clone()).is_ok());
        let mut total = Tally::default();
        for _ in 0..asked.count() {
            let part = answers.recv_timeout(PATIENCE);
            total += part.map_err(|_| BenchError::server("a load thread does not answer"))?;
        }
        Ok(total)
    }

    /// They write no more.
    pub(super) fn let_end(mut self) -> Self {
        for worker in &mut self.workers {
            worker.asker = None;
        }
        self
    }

    /// Waits for the last answers.
    pub(super) fn dismiss(self) -> Result<Tally, BenchError> {
        // All of them end at the same time.
        let workers = self.workers.into_iter();
        let handles: Vec<_> = workers.map(|worker| worker.handle).collect();
        let mut total = Tally::default();
        for handle in handles {
            total += join(handle)??;
        }
        Ok(total)
    }
}

impl AddAssign for Missing {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.refused += other.refused;
        let first = self.first_failure.take();
        self.first_failure = first.or(other.first_failure);
    }
}

/// The clients of one thread, to be opened.
struct Post {
    load: Private,
    way: Way,
    source: Source,
    login: Login,
    endpoint: Endpoint,
    count: usize,
    /// Index of the first among all threads' clients: source addresses follow from it.
    first: usize,
    /// The number of the first, and the step to the next.
    number: (usize, usize),
    audience: Option<Arc<Audience>>,
    gauge: Gauge,
}

impl Post {
    fn number(&self, index: usize) -> usize {
        self.number.0 + index * self.number.1
    }

    fn entry(&self, index: usize) -> Entry {
        let login = match &self.way {
            Way::Private(accounts) | Way::Room(accounts) | Way::Topic(accounts) => {
                accounts.login(self.number(index))
            }
            Way::OwnTopic(_) => self.login.clone(),
        };
        Entry { login, scram: None }
    }

    /// Opens the clients, waits for the start, and writes.
    fn serve(
        self,
        ready: &mpsc::Sender<Missing>,
        begun: &mpsc::Receiver<Start>,
    ) -> Result<Tally, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let plan = Plan {
            endpoint: &self.endpoint,
            login: &self.login,
            version: self.load.version,
            count: self.count,
            first: self.first,
            at_once: AT_ONCE,
            pace: self.load.connect_rate,
            patience: PATIENCE,
            // Short, and not those of another benchmark of the same server.
            client_id: &|index| format!("c-{:x}-{}", std::process::id(), self.number(index)),
            entry: Some(&|index| self.entry(index)),
            filter: &|index| Some((self.way.filter(self.number(index)), 0)),
            lasts: Lasts::Connection,
            gauge: Some(&self.gauge),
            receive_buffer: None,
        };
        let crowd = crowd::open(&mut poll, &plan)?;
        let _ = ready.send(Missing {
            count: crowd.failed as u64,
            refused: crowd.refused as u64,
            first_failure: crowd.first_failure,
        });
        let identity = |index| {
            let number = self.number(index);
            let topic = self.way.topic(number);
            let (version, len) = (self.load.version, self.load.payload);
            (number, PublishTemplate::new(version, &topic, 1, false, len))
        };
        let start = begun
            .recv()
            .map_err(|_| BenchError::server("the measurement did not begin"))?;
        let (version, source) = (self.load.version, self.source.clone());
        let circle = Circle::new(crowd.clients, version, source, identity, start.schedule);
        let circle = circle.before(self.audience).asked_by(start.questions);
        circle.run(&mut poll)
    }
}
