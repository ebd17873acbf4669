//! How long a page of 100 clients takes, in any order.
//!
//! A server may keep what it has found out about all clients for some seconds. So each round waits
//! until that is old, asks for one page, and then for others as quickly as they come. Where nothing
//! is kept, both cost the same.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::Base;
use crate::clock::{as_ns, now_ns, sleep_until_ns};
use crate::error::BenchError;
use crate::http::{Answer, Http, HttpApi};
use crate::load;
use crate::load::histogram;
use crate::measure::{Leg, Metric, Unit};
use crate::progress::Progress;
use crate::target::Running;
use crate::workload::{Bar, Limit, Sheet, Workload};

/// Clients of a page.
const PAGE: usize = 100;
/// After this time nothing is kept any more.
const OLD: Duration = Duration::from_millis(2_500);
/// As long as this it is.
const WARM: Duration = Duration::from_millis(1_500);
/// Pages of a round.
const PAGES_MAX: usize = 500;
/// A text that some client ids contain.
const CONTAINING: &str = "7";

const P50: Metric = Metric::new("page_warm_p50_us", "page, warm: p50", Unit::Micros);
const P99: Metric = Metric::new("page_warm_p99_us", "page, warm: p99", Unit::Micros);
const NEW: Metric = Metric::new("page_new_max_us", "page, cold: longest", Unit::Micros);
const CONTROL: Metric = Metric::new("page_control_ratio", "warm to warm", Unit::Ratio);
const PAGES: Metric = Metric::new("pages_count", "pages", Unit::Count);

const BARS: [Bar; 2] = [
    Bar {
        key: P99.key,
        limit: Limit::AtMost(20_000.0),
        control: Some(CONTROL.key),
    },
    Bar {
        key: NEW.key,
        limit: Limit::AtMost(500_000.0),
        control: None,
    },
];

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) base: Base,
    /// As many as there are orders if `None`.
    pub(super) rounds: Option<usize>,
}

impl Workload for Pages {
    fn sheet(&self) -> Sheet {
        let does = format!("a page of {PAGE} clients in each order, and of those with a text");
        let more = json!({ "rounds": self.rounds });
        let mut sheet = self.base.sheet("pages", &does, 0, more).with(
            &[
                "open the idle clients, and ask the server which orders of clients there are",
                "ask for a page in one of the orders: all clients are looked through again",
                "ask for pages in all orders in turn, of all clients and of some, for 1.5 s: warm",
                "wait 2.5 s, and begin again with the next order",
            ],
            &BARS,
        );
        sheet.pairs = 3;
        sheet
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let mut leg = self.base.leg();
        let idle = self.base.crowd(running, progress)?;
        let api = HttpApi::open(running)?;
        let (clients, rounds, warm) = (self.base.clients, self.rounds, self.base.seconds);
        let now = || "turning pages".to_owned();
        let seen = load::run("reader", progress, &now, move || {
            let mut reader = Reader {
                http: api.connect()?,
                clients,
                seen: Seen::default(),
            };
            reader.read(rounds, warm.min(WARM))?;
            Ok(reader.seen)
        })?;
        seen.push(&mut leg);
        idle.end(&mut leg)?;
        Ok(leg)
    }
}

/// What the pages have come to.
#[derive(Debug)]
struct Seen {
    /// In nanoseconds: every other warm page, and those between.
    warm: [Histogram<u64>; 2],
    new_max: Duration,
    failed: u64,
    why: Option<String>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            warm: [histogram(), histogram()],
            new_max: Duration::ZERO,
            failed: 0,
            why: None,
        }
    }
}

impl Seen {
    fn push(self, leg: &mut Leg) {
        let [mut all, other] = self.warm;
        let p99 = |of: &Histogram<u64>| of.value_at_quantile(0.99) as f64 / 1e3;
        let is_known = !all.is_empty() && !other.is_empty();
        let control = is_known.then(|| p99(&other) / p99(&all));
        // Both have the same bounds, which is all that can go wrong.
        let _ = all.add(&other);
        leg.push(
            P50,
            is_known.then(|| all.value_at_quantile(0.5) as f64 / 1e3),
        );
        leg.push(P99, is_known.then(|| p99(&all)));
        leg.push(NEW, self.new_max.as_secs_f64() * 1e6);
        leg.push(CONTROL, control);
        leg.push(PAGES, all.len() as f64);
        leg.failed += self.failed;
        leg.behind = self.why;
    }
}

struct Reader {
    http: Http,
    /// That are connected at least.
    clients: usize,
    seen: Seen,
}

impl Reader {
    fn read(&mut self, rounds: Option<usize>, warm: Duration) -> Result<(), BenchError> {
        let orders = self.orders()?;
        let paths: Vec<String> = ["", CONTAINING]
            .iter()
            .flat_map(|text| orders.iter().map(move |order| path(order, text)))
            .collect();
        for round in 0..rounds.unwrap_or(orders.len()) {
            if round > 0 {
                sleep_until_ns(now_ns() + as_ns(OLD));
            }
            let took = self.page(&paths[round % orders.len()])?;
            self.seen.new_max = self.seen.new_max.max(took);
            let begun = Instant::now();
            for (number, path) in paths.iter().cycle().skip(round).take(PAGES_MAX).enumerate() {
                // Two at least: one of each kind.
                if number >= 2 && begun.elapsed() > warm {
                    break;
                }
                let took = self.page(path)?;
                self.seen.warm[number % 2].saturating_record(as_ns(took));
            }
        }
        Ok(())
    }

    /// The orders of clients that the server describes.
    fn orders(&mut self) -> Result<Vec<String>, BenchError> {
        let document = self.http.get("/api/v1/openapi.json")?.json();
        let orders = orders_of(&document);
        match orders.is_empty() {
            true => Err(BenchError::broken("the server names no order of clients")),
            false => Ok(orders),
        }
    }

    /// Asks for a page; how long that took.
    fn page(&mut self, path: &str) -> Result<Duration, BenchError> {
        let begun = Instant::now();
        let answer = self.http.get(path)?;
        let took = begun.elapsed();
        if let Some(wrong) = wrong(&answer, self.clients, path.contains("containing")) {
            self.seen.failed += 1;
            let why = || format!("{path}: {wrong}");
            self.seen.why.get_or_insert_with(why);
        }
        Ok(took)
    }
}

fn path(order: &str, text: &str) -> String {
    let filter = match text {
        "" => String::new(),
        text => format!("&containing={text}"),
    };
    format!("/api/v1/clients/ls?limit={PAGE}&by={order}{filter}")
}

/// What is wrong with a page of this number of clients, or of some of them.
fn wrong(answer: &Answer, clients: usize, is_filtered: bool) -> Option<String> {
    if answer.status != 200 {
        return Some(format!("the status {}", answer.status));
    }
    let page = answer.json();
    let shown = page["clients"].as_array().map_or(0, Vec::len);
    let is_whole = is_filtered || shown == clients.min(PAGE);
    (!is_whole || shown > PAGE).then(|| format!("{shown} clients on a page, of {clients}"))
}

/// The values of the parameter `by` of `clients.ls`.
fn orders_of(document: &Value) -> Vec<String> {
    let parameters = &document["paths"]["/api/v1/clients/ls"]["get"]["parameters"];
    let mut parameters = parameters.as_array().into_iter().flatten();
    let by = parameters.find(|parameter| parameter["name"] == "by");
    let choices = by.and_then(|by| by["schema"]["oneOf"].as_array());
    let words = choices
        .into_iter()
        .flatten()
        .filter_map(|it| it["const"].as_str());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_orders_are_those_of_the_document() {
        let text = include_str!("../../../../../docs/openapi.json");
        let document = serde_json::from_str(text).expect("it is JSON");
        let orders = orders_of(&document);
        for order in ["id", "bytes", "sent-bytes", "lost"] {
            assert!(orders.iter().any(|it| it == order), "{order}: {orders:?}");
        }
        assert_eq!(orders_of(&json!({})), Vec::<String>::new());
    }

    #[test]
    fn a_page_that_misses_clients_is_wrong() {
        let answer = |status, shown: usize| Answer {
            status,
            body: json!({ "clients": vec![0; shown] })
                .to_string()
                .into_bytes(),
        };
        for (status, shown, clients, is_filtered, is_wrong) in [
            (200, 100, 80_000, false, false),
            (200, 99, 80_000, false, true),
            (200, 7, 7, false, false),
            (200, 7, 80_000, true, false),
            (200, 101, 80_000, true, true),
            (503, 100, 80_000, false, true),
        ] {
            let found = wrong(&answer(status, shown), clients, is_filtered);
            assert_eq!(found.is_some(), is_wrong, "{status} {shown}: {found:?}");
        }
    }
}
