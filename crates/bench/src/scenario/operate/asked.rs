//! What a bystander notices of lists that several callers ask for again and again.

use serde_json::json;

use super::Base;
use super::beside::{ClientThreads, Stop};
use super::trio::{Told, Trio};
use crate::error::BenchError;
use crate::http::HttpApi;
use crate::load;
use crate::load::fill::Fill;
use crate::load::storm::Round;
use crate::measure::{Leg, Metric, Unit};
use crate::progress::Progress;
use crate::report::number::grouped;
use crate::scenario::pingpong::{self, PingPong};
use crate::scenario::run_id;
use crate::target::Running;
use crate::workload::{Bar, Limit, Sheet, Workload};

/// What is asked for: each verb that lists something or looks at everything, with each of its
/// orders that is worked out otherwise. `SOME` stands for a topic that holds a message.
const LISTS: [&str; 31] = [
    "status",
    "clients/ls",
    "clients/ls?by=bytes&limit=100",
    "clients/ls?by=messages&limit=100",
    "clients/ls?by=sent-bytes&limit=100",
    "clients/ls?containing=7&limit=100",
    "clients/heaviest",
    "topics/heaviest",
    "rooms/ls",
    "certificates/ls",
    "events?limit=1000",
    "figures/history",
    "figures/peaks",
    "bans/ls",
    "traces/ls",
    "subscriptions?topic=SOME",
    "topics",
    "topics?containing=7&limit=100",
    "topics/children?below=bench",
    "zones",
    "users/ls",
    "roles/ls",
    "tokens/ls?name=bench-operator",
    "zones/ls",
    "adaptors/ls",
    "procedures/ls",
    "retained/page?filter=%23",
    "retained/filters",
    "retained/status",
    "config/effective",
    "log/tail",
];

const P99: Told = Told {
    of: pingpong::P99,
    quiet: Metric::new(
        "round_trip_p99_quiet_us",
        "round trip p99, quiet",
        Unit::Micros,
    ),
    with: Metric::new("round_trip_p99_asked_us", "asked", Unit::Micros),
    ratio: Metric::new(
        "round_trip_p99_ratio",
        "round trip p99, asked to quiet",
        Unit::Ratio,
    ),
    control: Metric::new(
        "round_trip_p99_control_ratio",
        "quiet to quiet",
        Unit::Ratio,
    ),
};
const TURN: Metric = Metric::new("turn_asked_max_us", "longest part of a turn", Unit::Micros);
const ANSWERS: Metric = Metric::new("answers_per_s", "answers/s", Unit::PerSecond);
const BUSY: Metric = Metric::new("refused_busy_count", "refused as busy", Unit::Count);

const BARS: [Bar; 2] = [
    Bar {
        key: P99.ratio.key,
        limit: Limit::AtMost(1.2),
        control: Some(P99.control.key),
    },
    Bar {
        key: TURN.key,
        limit: Limit::AtMost(250.0),
        control: None,
    },
];

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) base: Base,
    /// At once.
    pub(super) callers: usize,
    /// That hold a message.
    pub(super) topics: u64,
}

impl Workload for Asked {
    fn sheet(&self) -> Sheet {
        let does = format!(
            "lists of all kinds for {} callers in a loop, with {} topics that hold a message, \
             beside a ping-pong",
            self.callers,
            grouped(self.topics as f64)
        );
        let more = json!({ "callers": self.callers, "topics": self.topics });
        let others = self.load().connections();
        let mut sheet = self.base.sheet("asked", &does, others, more).with(
            &[
                "open the idle clients, and publish a retained message to each topic",
                "measure the round trips of two clients through the server",
                "measure them again while callers ask for all lists by HTTP, each on a connection \
                 that it keeps, and begins with another one",
                "measure them a third time, quiet again",
                "ask the server for the longest time on a processor that a turn has given to \
                 questions",
            ],
            &BARS,
        );
        sheet.needs.stored = self.topics;
        sheet
    }

    fn leg(
        &mut self,
        subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let mut leg = self.base.leg();
        let idle = self.base.crowd(running, progress)?;
        let run = run_id();
        self.fill(running, &run, progress)?;
        let api = HttpApi::open(running)?;
        let mut load = self.load();
        let (trio, came) = {
            let mut measure = || load.leg(subject, running, progress);
            Trio::measure(&mut measure, || self.ask(&api, &run), ClientThreads::end)?
        };
        trio.tell(&mut leg, &P99);
        leg.push(TURN, turn_us(running));
        let answers: u64 = came.iter().map(|came| came.answers).sum();
        let busy: u64 = came.iter().map(|came| came.busy).sum();
        let seconds = (self.base.warmup + self.base.seconds).as_secs_f64();
        leg.push(ANSWERS, answers as f64 / seconds);
        leg.push(BUSY, busy as f64);
        leg.failed += came.iter().map(|came| came.failed).sum::<u64>();
        leg.behind = came.into_iter().find_map(|came| came.why);
        trio.end(&mut leg);
        idle.end(&mut leg)?;
        Ok(leg)
    }
}

impl Asked {
    fn load(&self) -> PingPong {
        let base = &self.base;
        PingPong::across(base.version, base.warmup, base.seconds)
    }

    /// Has topics hold a message, a thousand below each name.
    fn fill(&self, running: &Running, run: &str, progress: &Progress) -> Result<(), BenchError> {
        let (endpoint, login) = (running.endpoint.clone(), running.login.clone());
        let (version, topics, run) = (self.base.version, self.topics, run.to_owned());
        let now = || format!("filling {} topics", grouped(topics as f64));
        load::run("publisher", progress, &now, move || {
            let fill = Fill {
                endpoint: &endpoint,
                login: &login,
                version,
                client_id: format!("p-{run}"),
                retain: true,
                round: Round::New,
                payload: 100,
                count: topics,
                topic: &|number| topic(&run, number),
            };
            fill.run()
        })?;
        Ok(())
    }

    fn ask(&self, api: &HttpApi, run: &str) -> Result<ClientThreads<Came>, BenchError> {
        let mut threads = ClientThreads::new();
        for caller in 0..self.callers {
            let (at, some) = (api.clone(), topic(run, 0));
            threads.add("caller", move |stop| call(&at, caller, &some, stop))?;
        }
        Ok(threads)
    }
}

fn topic(run: &str, number: u64) -> String {
    format!("bench/{run}/{}/{}", number / 1_000, number % 1_000)
}

/// What the questions of one caller came to.
#[derive(Debug, Default)]
struct Came {
    answers: u64,
    /// Refused, since the server was busy with others.
    busy: u64,
    failed: u64,
    why: Option<String>,
}

/// Asks for one list after the other.
fn call(api: &HttpApi, caller: usize, some: &str, stop: &Stop) -> Result<Came, BenchError> {
    let mut http = api.connect()?;
    let mut came = Came::default();
    for list in LISTS.iter().cycle().skip(caller * 3) {
        if stop.is_set() {
            break;
        }
        let path = format!("/api/v1/{}", list.replace("SOME", some));
        let answer = http.get(&path)?;
        match answer.status {
            200 => came.answers += 1,
            503 => came.busy += 1,
            status => {
                came.failed += 1;
                let told = answer.json()["detail"].to_string();
                let why = || format!("{path} is answered with the status {status}: {told}");
                came.why.get_or_insert_with(why);
            }
        }
    }
    Ok(came)
}

/// The longest time on a processor that a turn has given to questions.
fn turn_us(running: &Running) -> Option<f64> {
    running.status()?["long_turns"]["asked_max_micros"].as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Verbs that look at one thing, or wait for something; `verify` reads all files.
    const NOT_LISTS: [&str; 16] = [
        "health",
        "clients/show",
        "sessions/queue",
        "rooms/show",
        "why",
        "traces/read",
        "users/show",
        "roles/show",
        "retained/history",
        "retained/verify",
        "config/diff",
        "log/show",
        "metrics",
        "subscribe",
        "me",
        "problems",
    ];

    #[test]
    fn all_lists_are_asked_for() {
        let text = include_str!("../../../../../docs/openapi.json");
        let document: Value = serde_json::from_str(text).expect("it is JSON");
        let paths = document["paths"].as_object().expect("paths");
        let looks = paths
            .iter()
            .filter(|(_, methods)| methods.get("get").is_some());
        let names = looks.filter_map(|(path, _)| path.strip_prefix("/api/v1/"));
        let is_asked = |name: &str| {
            let mut lists = LISTS.iter();
            lists.any(|list| list.split('?').next() == Some(name))
        };
        for name in names.filter(|name| !name.ends_with("/stream")) {
            assert!(
                is_asked(name) != NOT_LISTS.contains(&name),
                "{name} is a list, or it is not"
            );
        }
        for list in LISTS {
            let (name, query) = list.split_once('?').unwrap_or((list, ""));
            let methods = &paths[&format!("/api/v1/{name}")];
            let known = methods["get"]["parameters"].as_array();
            for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                let key = pair.split('=').next();
                let mut known = known.into_iter().flatten();
                let is_known = known.any(|it| it["name"].as_str() == key);
                assert!(is_known, "{list}: {pair}");
            }
        }
    }
}
