//! What others notice of a client: a bystander on each shard pings all the time, and the server
//! says how long its turns took and how much memory it has.
//!
//! What fails a test are the server's own figures: the busiest turn, without the time in which its
//! thread waited for a processor, the visits of a turn, and resident memory. Pings depend on what
//! else the machine does, so their bound is wide; a shard that hangs is far beyond it.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;
use stentor_tests::{Plan, Raw, Server, Version};

/// The server of a scene has so many.
pub(crate) const SHARDS: usize = 2;

/// How long a turn may keep a processor busy. What `cargo test` builds takes up to four times as
/// long for the same work as what users run, which is held to 5 ms.
pub(crate) const BUSY_MAX: Duration =
    Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 5 });

/// The visits of a turn: 16,384 for each of its three parts, 4,096 for what goes on from earlier
/// turns, and what the last packet of each adds. A retained message with a name of 64 KiB and a
/// payload of 512 KiB is 10,240.
pub(crate) const VISITS_MAX: u64 = 24 * 4_096;

/// A 99th percentile of pings below this is never too slow: two bystanders, two shards and who
/// disturbs them may have two processors, which other tests use as well. The time of a turn on its
/// processor is held to [`BUSY_MAX`]; this finds a shard that stands still.
const PING_FLOOR: Duration = Duration::from_secs(1);

/// How long a bystander waits after an answer.
const PING_PAUSE: Duration = Duration::from_millis(1);

/// Pings that make a percentile.
const PINGS: usize = 300;

/// Held by the scene that is played: one at a time.
static STAGE: Mutex<()> = Mutex::new(());

/// A server with bystanders, who have been measured while nothing else went on.
pub(crate) struct Scene {
    pub(crate) server: Server,
    bystanders: Vec<Raw>,
    /// The 99th percentile of the slower one's pings.
    quiet: Duration,
    /// The same of what was endured last.
    slow: Duration,
    base_bytes: u64,
    /// How long a turn may be on its processor.
    busy_max: Duration,
    _stage: MutexGuard<'static, ()>,
}

impl Scene {
    /// A server that lets everybody in, with these lines of configuration.
    pub(crate) fn new(config: &str) -> Self {
        Self::of(Plan::new().config(config).tcp())
    }

    /// The same with a TLS listener as well.
    pub(crate) fn with_tls(config: &str) -> Self {
        let (plan, _) = Plan::new().config(config).tcp().certificates();
        Self::of(plan.listen("mqtts://127.0.0.1:0"))
    }

    fn of(plan: Plan) -> Self {
        // Another scene that failed does not matter here.
        let stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let shards = format!("--shards={SHARDS}");
        let server = plan.anonymous().arg(shards).start();
        let bystanders = (0..SHARDS)
            .map(|shard| server.client(Version::V5, &name_on(&server, shard, "bystander")))
            .collect();
        let mut scene = Self {
            server,
            bystanders,
            quiet: Duration::ZERO,
            slow: Duration::ZERO,
            base_bytes: 0,
            busy_max: BUSY_MAX,
            _stage: stage,
        };
        (scene.quiet, ()) = scene.pings_beside(|_| ());
        scene.base_bytes = peak_bytes(&scene.server);
        scene
    }

    /// The store writes much to the disk. Each time it flushes pages, the system interrupts all
    /// processors of the process, which counts as the time of whatever turn runs there.
    pub(crate) fn beside_the_disk(mut self) -> Self {
        self.busy_max = 5 * BUSY_MAX;
        self
    }

    /// The caller looks itself at how long turns take.
    pub(crate) fn however_long(mut self) -> Self {
        self.busy_max = Duration::MAX;
        self
    }

    /// A client id whose session is at home on a shard.
    pub(crate) fn name_on(&self, shard: usize, prefix: &str) -> String {
        name_on(&self.server, shard, prefix)
    }

    /// Lets a client do its worst. The bystanders must hardly notice, and the server must not have
    /// needed more than so many bytes for it.
    ///
    /// # Panics
    /// If they notice, or it has.
    pub(crate) fn endures<T>(&mut self, bytes_max: u64, trigger: impl FnOnce(&Server) -> T) -> T {
        let (slow, done) = self.pings_beside(trigger);
        self.slow = slow;
        let bytes = peak_bytes(&self.server).saturating_sub(self.base_bytes);
        let turns = turns(&self.server);
        let what = format!("pings {slow:?}, quiet {:?}; {bytes} B; {turns}", self.quiet);
        eprintln!("{what}");
        assert!(
            busy(&turns) <= self.busy_max,
            "a turn took too long: {what}"
        );
        let visits = turns["visits_max"].as_u64();
        assert!(visits <= Some(VISITS_MAX), "a turn did too much: {what}");
        assert!(bytes <= bytes_max, "more than {bytes_max} B: {what}");
        let slow_max = (3 * self.quiet).max(PING_FLOOR);
        assert!(slow <= slow_max, "more than {slow_max:?}: {what}");
        done
    }

    /// The 99th percentile of the slowest bystander's pings in what was endured last, for a bound
    /// that depends on what was done.
    pub(crate) const fn slow(&self) -> Duration {
        self.slow
    }

    /// The 99th percentile of the slowest bystander's pings while something is done.
    fn pings_beside<T>(&mut self, act: impl FnOnce(&Server) -> T) -> (Duration, T) {
        let (server, bystanders) = (&self.server, &mut self.bystanders);
        thread::scope(|scope| {
            let mut stops = Vec::new();
            let mut pinging = Vec::new();
            for bystander in bystanders {
                let (stop, stopped) = mpsc::channel();
                stops.push(stop);
                pinging.push(scope.spawn(move || ping(bystander, &stopped)));
            }
            let done = act(server);
            drop(stops);
            let slowest = pinging
                .into_iter()
                .map(|pinging| pinging.join().expect("a bystander is served"))
                .max();
            (slowest.unwrap_or_default(), done)
        })
    }
}

/// What the server says of its turns.
pub(crate) fn turns(server: &Server) -> Value {
    server.json(&["status", "--sample-ms", "0"])["long_turns"].take()
}

/// How long the busiest turn kept a processor busy.
pub(crate) fn busy(turns: &Value) -> Duration {
    let busiest = &turns["busiest"];
    let micros = |key: &str| busiest[key].as_u64();
    let took = micros("micros").unwrap_or_default();
    let took = took.saturating_sub(micros("waited_micros").unwrap_or_default());
    Duration::from_micros(micros("ran_micros").map_or(took, |ran| ran.min(took)))
}

/// The most memory that the server has had at a time, without what it has of files now: a disk that
/// is busy with other tests has journals keep more of them for a while, and the system takes their
/// pages back when it needs them.
fn peak_bytes(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid()));
    let status = status.expect("the server runs");
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.expect("the system tells how much memory a process has")
    };
    kib("VmHWM:").saturating_sub(kib("RssFile:")) * 1_024
}

/// Pings until nobody holds the other end of `stopped`, and often enough. Returns the 99th
/// percentile of the answers' times. A slow answer counts for all pings that would have been sent
/// while it was awaited.
fn ping(bystander: &mut Raw, stopped: &Receiver<()>) -> Duration {
    let mut times = Vec::new();
    let mut is_over = false;
    while !is_over || times.len() < PINGS {
        let sent = Instant::now();
        bystander.ping();
        let mut took = sent.elapsed();
        times.push(took);
        while let Some(left) = took.checked_sub(PING_PAUSE) {
            took = left;
            times.push(took);
        }
        let waited = stopped.recv_timeout(PING_PAUSE);
        is_over = waited == Err(RecvTimeoutError::Disconnected);
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// A client id whose session is at home on a shard: a keyed hash of it decides.
fn name_on(server: &Server, shard: usize, prefix: &str) -> String {
    let sessions = || {
        let status = server.json(&["status", "--sample-ms", "0"]);
        status["shards"][shard]["clients_connected"].as_u64()
    };
    (0..64)
        .map(|number| format!("{prefix}-{shard}-{number}"))
        .find(|name| {
            let before = sessions();
            let mut client = server.client(Version::V5, name);
            let is_there = sessions() > before;
            client.send(&[0xE0, 0]);
            client.closed();
            is_there
        })
        .expect("one of 64 names is at home there")
}
