//! Subscribers in processes of their own, as the published ones were on machines of their own.
//!
//! A group gets a line of JSON for each step on its standard input: what to open, when to measure,
//! and how much was published in the end. It answers with a line when its subscribers are there,
//! with one when it knows when to measure, and with one that has all figures. Without its input it
//! ends.

use std::io::{self, BufRead, BufReader, Lines, StdinLock, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use stentor_client::Url;

use super::load::Opening;
use super::{Fanout, Rate};
use crate::clock::{SECOND_NS, sleep_until_ns};
use crate::error::{BenchError, Doing};
use crate::interrupt::{self, Kept};
use crate::link::Endpoint;
use crate::load::receiver::{self, Received};
use crate::load::shared::Shared;
use crate::load::{histogram, join};
use crate::measure::{Leg, Metric, Unit, processors};
use crate::meter::{GeneratorMeter, GeneratorUse};
use crate::process;
use crate::progress::Progress;
use crate::sequence::Faults;
use crate::target::Running;
use crate::wire::{Login, Version};

/// The published clients' machines.
const NAMES: [&str; 2] = ["B", "C"];

const CPU: [Metric; 2] = [
    Metric::new("generator_b_cpu_percent", "B CPU", Unit::Percent),
    Metric::new("generator_c_cpu_percent", "C CPU", Unit::Percent),
];
const MACHINE_CPU: [Metric; 2] = [
    Metric::new(
        "generator_b_machine_cpu_percent",
        "B CPU of machine",
        Unit::Percent,
    ),
    Metric::new(
        "generator_c_machine_cpu_percent",
        "C CPU of machine",
        Unit::Percent,
    ),
];
const RSS: [Metric; 2] = [
    Metric::new("generator_b_rss_bytes", "B RSS", Unit::Bytes),
    Metric::new("generator_c_rss_bytes", "C RSS", Unit::Bytes),
];
const BYTES: [Metric; 2] = [
    Metric::new(
        "generator_b_payload_bytes_per_s",
        "B payload",
        Unit::BytesPerSecond,
    ),
    Metric::new(
        "generator_c_payload_bytes_per_s",
        "C payload",
        Unit::BytesPerSecond,
    ),
];

/// What was published of each: the share of its machine's processors in percent, and KB.
pub(super) fn published(cpu: [f64; 2], kb: [f64; 2]) -> [(&'static str, f64); 4] {
    [
        (MACHINE_CPU[0].key, cpu[0]),
        (MACHINE_CPU[1].key, cpu[1]),
        (RSS[0].key, kb[0] * 1_024.0),
        (RSS[1].key, kb[1] * 1_024.0),
    ]
}

/// How this many subscribers are divided as `parts` are, at least one in each; `None` if there are
/// too few.
pub(super) fn split(subscribers: usize, parts: [usize; 2]) -> Option<[usize; 2]> {
    let first = subscribers * parts[0] / (parts[0] + parts[1]);
    let first = first.max(1);
    let rest = subscribers.checked_sub(first).filter(|rest| *rest > 0)?;
    Some([first, rest])
}

/// What one group came to in the measured time.
#[derive(Clone, Debug)]
pub(super) struct Came {
    pub(super) deliveries: u64,
    /// Deliveries of each second.
    pub(super) counts: Vec<u64>,
    pub(super) cpu_s: f64,
    pub(super) used: GeneratorUse,
}

impl Came {
    /// Adds the figures of the group of that number, whose messages have `payload` bytes.
    pub(super) fn push(&self, leg: &mut Leg, number: usize, payload: usize) {
        let percent = self.used.cpu_percent;
        leg.push(CPU[number], percent);
        leg.push(MACHINE_CPU[number], percent / processors());
        leg.push(RSS[number], self.used.rss.map(|rss| rss as f64));
        let rate = self.deliveries as f64 / self.used.seconds;
        leg.push(BYTES[number], rate * payload as f64);
    }

    fn object(&self) -> Value {
        json!({
            "deliveries": self.deliveries,
            "counts": self.counts,
            "cpu_s": self.cpu_s,
            "seconds": self.used.seconds,
            "cpu_percent": self.used.cpu_percent,
            "busiest_thread": self.used.busiest_thread,
            "rss": self.used.rss,
        })
    }

    fn read(object: &Value) -> Option<Self> {
        let number = |key: &str| object[key].as_f64();
        let counts = object["counts"].as_array()?.iter().map(Value::as_u64);
        Some(Self {
            deliveries: object["deliveries"].as_u64()?,
            counts: counts.collect::<Option<_>>()?,
            cpu_s: number("cpu_s")?,
            used: GeneratorUse {
                seconds: number("seconds")?,
                cpu_percent: number("cpu_percent")?,
                busiest_thread: number("busiest_thread")?,
                rss: object["rss"].as_u64(),
            },
        })
    }
}

/// A process of subscribers. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Group {
    name: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    answers: mpsc::Receiver<String>,
    #[expect(dead_code, reason = "held until it is dropped")]
    kept: Kept,
}

impl Drop for Group {
    fn drop(&mut self) {
        process::forget_helper(self.child.id());
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Group {
    /// Starts the group of that number, which opens `count` subscribers behind the first ones.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub(super) fn start(
        number: usize,
        first: usize,
        count: usize,
        plan: &Fanout,
        run: &str,
        running: &Running,
    ) -> Result<Self, BenchError> {
        let own = std::env::current_exe().doing("find this program")?;
        let mut command = Command::new(own);
        command
            .arg("group")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let (mut child, kept) =
            interrupt::spawn(&mut command).doing("start a group of subscribers")?;
        process::note_helper(child.id());
        let (sender, answers) = mpsc::channel();
        let lines = child.stdout.take().map(BufReader::new);
        // A group that was dropped has no receiver any more.
        thread::spawn(move || {
            let lines = lines.into_iter().flat_map(|lines| lines.lines());
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let orders = child.stdin.take();
        let mut group = Self {
            name: NAMES[number],
            child,
            orders,
            answers,
            kept,
        };
        let (url, trusted) = running.place();
        group.order(&json!({
            "url": url,
            "trusted": trusted.map(|file| file.display().to_string()),
            "username": running.login.username,
            "password": running.login.password,
            "run": run,
            "first": first,
            "count": count,
            "subscribers": plan.subscribers,
            "publishers": plan.publishers,
            "version": plan.version.as_str(),
            "qos": plan.qos,
            "payload": plan.payload,
            "grace_ms": plan.grace.as_millis() as u64,
        }))?;
        Ok(group)
    }

    fn order(&mut self, order: &Value) -> Result<(), BenchError> {
        let sent = match &mut self.orders {
            Some(orders) => writeln!(orders, "{order}").and_then(|()| orders.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        // Whatever the pipe says: nobody reads it any more.
        sent.map_err(|_| self.gone())
    }

    fn gone(&self) -> BenchError {
        let name = self.name;
        BenchError::server(format!("the group {name} of subscribers ended early"))
    }

    /// Waits for its next answer, which says what went wrong if something did.
    fn answer(&self, progress: &Progress, what: &str) -> Result<Value, BenchError> {
        let line = progress.receive(|| what.to_owned(), &self.answers);
        let answer = line.and_then(|line| serde_json::from_str::<Value>(&line).ok());
        let answer = answer.ok_or_else(|| self.gone())?;
        match answer["failed"].as_str() {
            Some(why) => Err(BenchError::server(why)),
            None => Ok(answer),
        }
    }

    /// Waits until its subscribers are there.
    ///
    /// # Errors
    /// When they did not all come.
    pub(super) fn wait_ready(&self, progress: &Progress) -> Result<(), BenchError> {
        self.answer(progress, "connecting").map(|_| ())
    }

    /// Tells it when to measure, and how many messages of a publisher there will be at most.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn begin(
        &mut self,
        from_ns: u64,
        to_ns: u64,
        published_max: u64,
    ) -> Result<(), BenchError> {
        self.order(&json!({
            "from_ns": from_ns,
            "to_ns": to_ns,
            "published_max": published_max,
        }))
    }

    /// Tells it how many messages there were of each publisher.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn end(&mut self, published: &[u64]) -> Result<(), BenchError> {
        self.order(&json!({ "published": published }))
    }

    /// Waits until it knows that. A group that is late makes the publishers late, which counts as
    /// the generator's.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn wait_begun(&self, progress: &Progress) -> Result<(), BenchError> {
        self.answer(progress, "connected").map(|_| ())
    }

    /// Waits for what it has got, after it was told the end.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn finish(self, progress: &Progress) -> Result<(Received, Came), BenchError> {
        let answer = self.answer(progress, "waiting for the last messages")?;
        let read = received(&answer).zip(Came::read(&answer["came"]));
        read.ok_or_else(|| BenchError::server("a group of subscribers has answered nonsense"))
    }
}

/// What a group has got, as JSON.
fn object(received: &Received, came: &Came) -> Value {
    let latency = received.latency.iter_recorded();
    let latency = latency.map(|bucket| {
        json!([
            bucket.value_iterated_to(),
            bucket.count_since_last_iteration()
        ])
    });
    let faults = received.faults;
    json!({
        "latency": latency.collect::<Vec<_>>(),
        "lost": faults.lost,
        "duplicated": faults.duplicated,
        "reordered": faults.reordered,
        "corrupt": faults.corrupt,
        "disconnected": received.disconnected,
        "after_end": received.after_end,
        "came": came.object(),
    })
}

fn received(answer: &Value) -> Option<Received> {
    let count = |key: &str| answer[key].as_u64();
    let mut latency: Histogram<u64> = histogram();
    for bucket in answer["latency"].as_array()? {
        latency.saturating_record_n(bucket[0].as_u64()?, bucket[1].as_u64()?);
    }
    Some(Received {
        latency,
        faults: Faults {
            lost: count("lost")?,
            duplicated: count("duplicated")?,
            reordered: count("reordered")?,
            corrupt: count("corrupt")?,
        },
        disconnected: count("disconnected")?,
        after_end: count("after_end")?,
    })
}

/// The process of a group: `stentor-bench group`.
///
/// # Errors
/// When its orders make no sense, or nobody reads its answers.
pub(crate) fn run() -> Result<(), BenchError> {
    // Whatever becomes of the benchmark, no subscriber stays.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let mut lines = io::stdin().lock().lines();
    let orders = next(&mut lines).ok_or_else(nonsense)?;
    let opening = opening(&orders)?.ok_or_else(nonsense)?;
    let opened = match opening.subscribers() {
        Ok(opened) => opened,
        Err(error) => return tell(&json!({ "failed": error.to_string() })),
    };
    tell(&json!({ "ready": true }))?;
    let Some(order) = next(&mut lines) else {
        // Called off.
        return Ok(());
    };
    let number = |key: &str| order[key].as_u64().ok_or_else(nonsense);
    let (from_ns, to_ns) = (number("from_ns")?, number("to_ns")?);
    let published_max = number("published_max")?;
    let publishers = opening.plan.publishers;
    let shared = Arc::new(Shared::new(publishers, 1));
    for publisher in 0..publishers {
        shared.set_published(publisher, published_max);
    }
    shared.set_interval(from_ns, to_ns);
    tell(&json!({ "begun": true }))?;
    let (poll, clients) = opened;
    let orders = opening.orders(Arc::clone(&shared), 0, 0);
    // In the one descriptor table of this process, which the sockets were opened in.
    let receiver = thread::Builder::new().name("receiver".into());
    let receiver = receiver.spawn(move || receiver::run(poll, clients, orders));
    let receiver = receiver.doing("start a thread")?;
    let came = measure(&shared, from_ns, to_ns);
    if let Some(order) = next(&mut lines) {
        let counts = order["published"].as_array().into_iter().flatten();
        for (publisher, count) in counts.take(publishers).enumerate() {
            shared.set_published(publisher, count.as_u64().unwrap_or(0));
        }
    }
    shared.finish();
    tell(&object(&join(receiver)?, &came))
}

/// Counts what comes from the first to the last measured second.
fn measure(shared: &Shared, from_ns: u64, to_ns: u64) -> Came {
    sleep_until_ns(from_ns);
    let meter = GeneratorMeter::start();
    let (begun_s, first) = (process::own_cpu_s(), shared.delivered());
    let mut counts = Vec::new();
    let mut before = first;
    let mut next_ns = from_ns + SECOND_NS;
    while next_ns <= to_ns {
        sleep_until_ns(next_ns);
        let now = shared.delivered();
        counts.push(now - before);
        before = now;
        next_ns += SECOND_NS;
    }
    sleep_until_ns(to_ns);
    let deliveries = shared.delivered() - first;
    let cpu_s = process::own_cpu_s() - begun_s;
    Came {
        deliveries,
        counts,
        cpu_s,
        used: meter.stop(),
    }
}

fn next(lines: &mut Lines<StdinLock<'_>>) -> Option<Value> {
    serde_json::from_str(&lines.next()?.ok()?).ok()
}

fn tell(answer: &Value) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    let told = writeln!(out, "{answer}").and_then(|()| out.flush());
    told.doing("answer the benchmark")
}

fn nonsense() -> BenchError {
    BenchError::usage("bench group is started by bench fanout, which tells it what to do")
}

/// What the orders ask for; `None` if something is missing in them.
fn opening(orders: &Value) -> Result<Option<Opening>, BenchError> {
    let trusted = orders["trusted"].as_str().map(PathBuf::from);
    let url = orders["url"].as_str().map(str::parse::<Url>);
    let Some(Ok(url)) = url else {
        return Ok(None);
    };
    let endpoint = Endpoint::resolve(&url, trusted.as_deref())?;
    Ok(opening_at(orders, endpoint))
}

fn opening_at(orders: &Value, endpoint: Endpoint) -> Option<Opening> {
    let count = |key: &str| usize::try_from(orders[key].as_u64()?).ok();
    let text = |key: &str| orders[key].as_str().map(str::to_owned);
    let version = match orders["version"].as_str()? {
        "3.1.1" => Version::V311,
        _ => Version::V5,
    };
    let publishers = count("publishers")?;
    let plan = Fanout {
        qos: u8::try_from(count("qos")?).ok()?,
        payload: count("payload")?,
        grace: Duration::from_millis(orders["grace_ms"].as_u64()?),
        ..Fanout::bare(publishers, count("subscribers")?, Rate::Paced(1.0), version)
    };
    Some(Opening {
        plan,
        run: Arc::new(text("run")?),
        login: Login {
            username: text("username"),
            password: text("password"),
        },
        endpoint,
        first: count("first")?,
        count: count("count")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_divided_as_published() {
        for (subscribers, parts, expected) in [
            (3_000, [1_500, 1_500], Some([1_500, 1_500])),
            (3_000, [500, 2_500], Some([500, 2_500])),
            (7, [1_500, 1_500], Some([3, 4])),
            (4, [500, 2_500], Some([1, 3])),
            (2, [500, 2_500], Some([1, 1])),
            (1, [1_500, 1_500], None),
        ] {
            assert_eq!(split(subscribers, parts), expected, "{subscribers}");
        }
    }

    /// What a group has got is the same on the other side of the pipe.
    #[test]
    fn figures_cross_a_pipe_whole() {
        let mut latency = histogram();
        latency.saturating_record_n(1_234_567, 7);
        latency.saturating_record(99_000_000);
        let sent = Received {
            latency,
            faults: Faults {
                lost: 1,
                duplicated: 2,
                reordered: 3,
                corrupt: 4,
            },
            disconnected: 5,
            after_end: 6,
        };
        let came = Came {
            deliveries: 1_000,
            counts: vec![400, 600],
            cpu_s: 0.5,
            used: GeneratorUse {
                seconds: 2.0,
                cpu_percent: 25.0,
                busiest_thread: 0.25,
                rss: Some(4_096),
            },
        };
        let answer: Value = serde_json::from_str(&object(&sent, &came).to_string()).unwrap();
        let got = received(&answer).unwrap();
        assert_eq!(
            (got.faults, got.disconnected, got.after_end),
            (sent.faults, 5, 6)
        );
        assert_eq!(got.latency, sent.latency);
        let mut leg = Leg::default();
        Came::read(&answer["came"]).unwrap().push(&mut leg, 1, 100);
        for (key, expected) in [
            ("generator_c_cpu_percent", 25.0),
            ("generator_c_machine_cpu_percent", 25.0 / processors()),
            ("generator_c_rss_bytes", 4_096.0),
            ("generator_c_payload_bytes_per_s", 50_000.0),
        ] {
            assert_eq!(leg.figure(key), Some(expected), "{key}");
        }
    }

    #[test]
    fn orders_without_sense_are_no_orders() {
        let endpoint = Endpoint::Unix("none".into());
        assert!(opening_at(&json!({ "version": "5" }), endpoint).is_none());
        assert!(opening(&json!({ "url": "http://h" })).is_ok_and(|it| it.is_none()));
    }
}
