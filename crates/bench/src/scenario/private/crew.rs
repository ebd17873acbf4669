//! The threads that hold the clients.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Poll;

use super::super::idle::CONNECTIONS_PER_WORKER;
use super::Private;
use crate::accounts::Accounts;
use crate::error::{BenchError, Doing};
use crate::load::crowd::{self, Entry, Plan};
use crate::load::penfriend::{Audience, Circle, Schedule, Tally};
use crate::load::{join, spawn};
use crate::target::Running;
use crate::wire::PublishTemplate;

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
}

/// What came of some clients.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// Connections that could not be opened, and why the first could not.
    pub(super) refused: u64,
    pub(super) first_failure: Option<String>,
}

struct Worker {
    begin: mpsc::Sender<Schedule>,
    handle: JoinHandle<Result<Outcome, BenchError>>,
}

/// All clients, connected, on their threads.
pub(super) struct Crew(Vec<Worker>);

impl Crew {
    /// Opens all connections, one thread after the other so that [`AT_ONCE`] holds for all.
    pub(super) fn gather(load: &Private, way: &Way, running: &Running) -> Result<Self, BenchError> {
        let threads = load.clients.div_ceil(CONNECTIONS_PER_WORKER);
        let mut workers = Vec::new();
        let mut first = 0;
        let audience = way.is_shared().then(|| Arc::new(Audience::new(threads)));
        for thread in 0..threads {
            let count = (load.clients - thread).div_ceil(threads);
            // Clients of all threads take turns.
            let number = move |index: usize| thread + index * threads;
            let (begin, begun) = mpsc::channel();
            let (ready, is_ready) = mpsc::channel();
            let (load, way) = (load.clone(), way.clone());
            let audience = audience.clone();
            let (login, endpoint) = (running.login.clone(), running.endpoint.clone());
            let handle = spawn("clients", move || {
                let mut poll = Poll::new().doing("open a poll")?;
                let entry = |index| Entry {
                    login: match &way {
                        Way::Private(accounts) | Way::Room(accounts) | Way::Topic(accounts) => {
                            accounts.login(number(index))
                        }
                        Way::OwnTopic(_) => login.clone(),
                    },
                    scram: None,
                };
                let plan = Plan {
                    endpoint: &endpoint,
                    login: &login,
                    version: load.version,
                    count,
                    first,
                    at_once: AT_ONCE,
                    pace: load.connect_rate,
                    patience: PATIENCE,
                    client_id: &|index| format!("c-{}", number(index)),
                    entry: Some(&entry),
                    filter: &|index| Some((way.filter(number(index)), 0)),
                };
                let crowd = crowd::open(&mut poll, &plan);
                let _ = ready.send(());
                let crowd = crowd?;
                let identity = |index| {
                    let number = number(index);
                    let topic = way.topic(number);
                    let (version, len) = (load.version, load.payload);
                    (number, PublishTemplate::new(version, &topic, 1, false, len))
                };
                let schedule = begun
                    .recv()
                    .map_err(|_| BenchError::server("the measurement did not begin"))?;
                let circle = Circle::new(crowd.clients, load.version, identity, schedule);
                let circle = circle.before(audience);
                Ok(Outcome {
                    tally: circle.run(&mut poll)?,
                    refused: crowd.failed as u64,
                    first_failure: crowd.first_failure,
                })
            })?;
            // Without an answer it has failed, which joining it tells.
            let _ = is_ready.recv();
            workers.push(Worker { begin, handle });
            first += count;
        }
        Ok(Self(workers))
    }

    /// Lets them write.
    pub(super) fn begin(&self, schedule: Schedule) {
        for worker in &self.0 {
            // A thread that has failed says so when it is joined.
            let _ = worker.begin.send(schedule);
        }
    }

    /// Waits for the last answers.
    pub(super) fn dismiss(self) -> Result<Outcome, BenchError> {
        let mut total = Outcome::default();
        for worker in self.0 {
            let part = join(worker.handle)??;
            total.tally += part.tally;
            total.refused += part.refused;
            total.first_failure = total.first_failure.or(part.first_failure);
        }
        Ok(total)
    }
}
