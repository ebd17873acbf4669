//! How many messages a second are published by HTTP, on connections that are kept.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;
use stentor_client::{Client, Options, SubscribeOptions};

use super::Base;
use super::beside::{ClientThreads, Stop};
use crate::clock::{as_ns, now_ns, sleep_until_ns};
use crate::error::BenchError;
use crate::http::{Http, HttpApi};
use crate::load::{histogram, join, spawn};
use crate::measure::{Leg, Metric, Unit, push_cpu, push_latency};
use crate::meter::GeneratorMeter;
use crate::process::CpuMeter;
use crate::progress::Progress;
use crate::scenario::run_id;
use crate::target::Running;
use crate::workload::{Bar, Limit, Sheet, Workload};

/// Bytes of a message.
const PAYLOAD: usize = 100;
/// Threads of this program that have the connections.
const THREADS: usize = 2;
/// After so long without a message, those that are missing do not come any more.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often somebody looks whether they have.
const LOOK: Duration = Duration::from_millis(20);

const RATE: Metric = Metric::new("publishes_per_s", "publishes/s", Unit::PerSecond);
const CONTROL: Metric = Metric::new("publishes_control_ratio", "half to half", Unit::Ratio);
const CPU: Metric = Metric::new("cpu_per_publish_us", "CPU/publish", Unit::Micros);
const P50: Metric = Metric::new("answer_p50_us", "answer p50", Unit::Micros);
const P99: Metric = Metric::new("answer_p99_us", "p99", Unit::Micros);

const BARS: [Bar; 1] = [Bar {
    key: RATE.key,
    limit: Limit::AtLeast(20_000.0),
    control: Some(CONTROL.key),
}];

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Publish {
    pub(super) base: Base,
    /// At once.
    pub(super) callers: usize,
}

impl Workload for Publish {
    fn sheet(&self) -> Sheet {
        let does = format!(
            "messages of {PAYLOAD} B by HTTP, on {} connections",
            self.callers
        );
        let more = json!({ "callers": self.callers, "payload_bytes": PAYLOAD });
        self.base.sheet("publish", &does, 1, more).with(
            &[
                "a client subscribes to the topic",
                "publish to it by POST /api/v1/publish with QoS 0: each connection is kept, and \
                 sends the next message as soon as it has the answer",
                "count answers and messages that came: each message that was taken has to come",
            ],
            &BARS,
        )
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
        let topic = format!("bench/{}", run_id());
        let mut reader = ClientThreads::new();
        let mut client = subscriber(running, &topic)?;
        let received = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&received);
        reader.add("subscriber", move |stop| count(&mut client, &counter, stop))?;
        let came = self.measure(&mut leg, &api, &topic, running, progress)?;
        push_latency(&mut leg, came.latency, &[(P50, 0.5), (P99, 0.99)]);
        leg.failed += came.failed;
        leg.behind = came.why;
        let received = all_of(&received, came.taken);
        reader.end()?;
        leg.faults.lost = came.taken.saturating_sub(received);
        leg.faults.duplicated = received.saturating_sub(came.taken);
        idle.end(&mut leg)?;
        Ok(leg)
    }
}

impl Publish {
    /// Publishes for so long as is measured, and adds what it has cost.
    fn measure(
        &self,
        leg: &mut Leg,
        api: &HttpApi,
        topic: &str,
        running: &Running,
        progress: &Progress,
    ) -> Result<Came, BenchError> {
        let from_ns = now_ns() + as_ns(self.base.warmup);
        let to_ns = from_ns + as_ns(self.base.seconds);
        let mut threads = Vec::new();
        for share in shares(self.callers) {
            let (at, topic) = (api.clone(), topic.to_owned());
            let work = move || publish(&at, share, &topic, from_ns..to_ns);
            threads.push(spawn("publisher", work)?);
        }
        progress.wait("warming up", from_ns);
        let (meter, generator) = (CpuMeter::start(running.pid()), GeneratorMeter::start());
        progress.wait("publishing", to_ns);
        let (used_s, generator) = (meter.used_s(), generator.stop());
        let mut came = Came::default();
        for thread in threads {
            came.add(join(thread)??);
        }
        let seconds = self.base.seconds.as_secs_f64();
        let [first, second] = came.halves.map(|half| half as f64);
        let answers = first + second;
        leg.push(RATE, answers / seconds);
        leg.push(CONTROL, (first > 0.0).then(|| second / first));
        leg.push(CPU, used_s.map(|used| used * 1e6 / answers.max(1.0)));
        push_cpu(leg, used_s, seconds);
        generator.push(leg, used_s);
        Ok(came)
    }
}

/// Of this number of connections, those of each thread.
fn shares(callers: usize) -> impl Iterator<Item = usize> {
    let share = move |thread| callers * (thread + 1) / THREADS - callers * thread / THREADS;
    (0..THREADS).map(share).filter(|share| *share > 0)
}

/// A client that is subscribed.
fn subscriber(running: &Running, topic: &str) -> Result<Client, BenchError> {
    let (url, _) = running.place();
    let url = url
        .parse()
        .map_err(|e| BenchError::server(format!("{url}: {e}")))?;
    let mut options = Options::new(url);
    options.client_id = "bench-subscriber".into();
    let client = Client::connect(&options);
    let mut client = client.map_err(|e| BenchError::server(e.to_string()))?;
    let granted = client.subscribe(&[(topic, SubscribeOptions::default())]);
    granted.map_err(|e| BenchError::server(e.to_string()))?;
    Ok(client)
}

/// Counts what comes.
fn count(client: &mut Client, received: &AtomicU64, stop: &Stop) -> Result<(), BenchError> {
    while !stop.is_set() {
        let message = client.receive(Some(LOOK));
        if message
            .map_err(|e| BenchError::broken(e.to_string()))?
            .is_some()
        {
            received.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Waits until this number has come, or nothing comes any more; how many have.
fn all_of(received: &AtomicU64, expected: u64) -> u64 {
    let (mut seen, mut last_ns) = (0, now_ns());
    loop {
        let now = received.load(Ordering::Relaxed);
        if now > seen {
            (seen, last_ns) = (now, now_ns());
        }
        if now >= expected || now_ns() - last_ns > as_ns(PATIENCE) {
            return now;
        }
        sleep_until_ns(now_ns() + as_ns(LOOK));
    }
}

/// What publishing has come to.
#[derive(Debug)]
struct Came {
    /// Answers within each half of what is measured.
    halves: [u64; 2],
    /// Messages that the server has taken, before it was measured too.
    taken: u64,
    latency: Histogram<u64>,
    failed: u64,
    why: Option<String>,
}

impl Default for Came {
    fn default() -> Self {
        Self {
            halves: [0, 0],
            taken: 0,
            latency: histogram(),
            failed: 0,
            why: None,
        }
    }
}

impl Came {
    fn add(&mut self, other: Self) {
        for (own, other) in self.halves.iter_mut().zip(other.halves) {
            *own += other;
        }
        self.taken += other.taken;
        // Both have the same bounds, which is all that can go wrong.
        let _ = self.latency.add(&other.latency);
        self.failed += other.failed;
        self.why = self.why.take().or(other.why);
    }

    /// Notes an answer to what was sent at a time.
    fn note(&mut self, status: u16, sent_ns: u64, measured_ns: &Range<u64>) {
        let now = now_ns();
        if status != 200 {
            self.failed += 1;
            let why = || format!("a message is answered with the status {status}");
            self.why.get_or_insert_with(why);
            return;
        }
        self.taken += 1;
        if measured_ns.contains(&now) {
            let middle_ns = measured_ns.start.midpoint(measured_ns.end);
            self.halves[usize::from(now >= middle_ns)] += 1;
            self.latency.saturating_record(now - sent_ns);
        }
    }
}

/// Publishes on some connections, which take turns, until the time is over.
fn publish(
    api: &HttpApi,
    connections: usize,
    topic: &str,
    measured_ns: Range<u64>,
) -> Result<Came, BenchError> {
    let body = json!({ "topic": topic, "payload": "x".repeat(PAYLOAD) }).to_string();
    let mut callers: Vec<(Http, u64)> = Vec::new();
    for _ in 0..connections {
        callers.push((api.connect()?, 0));
    }
    let request = callers
        .first()
        .map(|(http, _)| http.request("/api/v1/publish", Some(&body)))
        .unwrap_or_default();
    let mut came = Came::default();
    for (http, sent_ns) in &mut callers {
        *sent_ns = now_ns();
        http.send(&request)?;
    }
    while now_ns() < measured_ns.end {
        for (http, sent_ns) in &mut callers {
            let status = http.receive()?.status;
            came.note(status, *sent_ns, &measured_ns);
            *sent_ns = now_ns();
            http.send(&request)?;
        }
    }
    for (http, sent_ns) in &mut callers {
        let status = http.receive()?.status;
        came.note(status, *sent_ns, &measured_ns);
    }
    Ok(came)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND_NS;

    #[test]
    fn all_connections_have_a_thread() {
        for (callers, expected) in [(1, &[1][..]), (2, &[1, 1]), (5, &[2, 3]), (16, &[8, 8])] {
            let shares: Vec<usize> = shares(callers).collect();
            assert_eq!(shares, expected, "{callers}");
        }
    }

    #[test]
    fn only_what_is_answered_in_time_counts() {
        let mut came = Came::default();
        let now = now_ns();
        came.note(200, now, &(now..now + 10 * SECOND_NS));
        came.note(200, now, &(0..now));
        came.note(200, now, &(0..now + SECOND_NS));
        came.note(503, now, &(now..now + 10 * SECOND_NS));
        assert_eq!((came.halves, came.taken, came.failed), ([1, 1], 3, 1));
        assert_eq!(came.latency.len(), 2);
    }
}
