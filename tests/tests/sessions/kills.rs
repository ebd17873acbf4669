//! kill -9 again and again, while clients of all kinds publish and take messages: also while the
//! server starts, while it writes its sessions again, and while backlogs drain.
//!
//! What clients were told is known outside, and has to hold: every acknowledged message arrives, at
//! QoS 2 once, in the order of its publisher and topic, and each will once or never.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one. `STENTOR_SOAK=1` kills hundreds of
//! times.

mod oracle;
mod publisher;
mod subscriber;

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stentor_tests::raw::{eventually, packet, string};
use stentor_tests::{Plan, Raw, Server, Version, process, server};

use oracle::Oracle;
use publisher::Publisher;
use subscriber::{SUBSCRIBERS, Subscriber};

/// The receiver of private messages, who has two sessions.
const USER: &str = "ann";
/// What large messages add.
const LARGE_BYTES: usize = 60_000;
/// A life of the server ends then, however little was acknowledged.
const LIFE_MAX: Duration = Duration::from_secs(5);

/// SplitMix64.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What all clients know together.
#[derive(Debug, Default)]
struct Shared {
    oracle: Mutex<Oracle>,
    /// Nobody publishes anything new any more.
    concludes: AtomicBool,
}

impl Shared {
    fn with<T>(&self, look: impl FnOnce(&mut Oracle) -> T) -> T {
        look(&mut self.oracle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A CONNECT whose session lasts, of a user or of nobody, perhaps with a will of QoS 2.
struct Login<'a> {
    version: Version,
    client_id: &'a str,
    user: Option<&'a str>,
    will: Option<&'a str>,
}

impl Login<'_> {
    /// Connects. Returns whether the session was there; `None` if the server is gone.
    fn connect(&self, address: &str) -> Option<(Raw, bool)> {
        let stream = std::net::TcpStream::connect(address);
        drop(stream.ok()?);
        let mut client = Raw::tcp(address);
        client.speaks(self.version);
        let is_v5 = self.version == Version::V5;
        let will_flags = self.will.map_or(0, |_| 0b0001_0100);
        let user_flags = self.user.map_or(0, |_| 0b1100_0000);
        let level = if is_v5 { 5 } else { 4 };
        let mut body = [&string("MQTT")[..], &[level, will_flags | user_flags, 0, 0]].concat();
        if is_v5 {
            body.extend([5, 0x11, 0, 0, 0x0E, 0x10]);
        }
        body.extend(string(self.client_id));
        if let Some(will) = self.will {
            body.extend([0].iter().take(usize::from(is_v5)));
            body.extend([string("wills"), string(will)].concat());
        }
        if let Some(user) = self.user {
            body.extend([string(user), string(user)].concat());
        }
        client.try_send(&packet(0x10, &body)).ok()?;
        let connack = client.try_receive()?;
        assert_eq!((connack.kind(), connack.body[1]), (2, 0), "{connack:?}");
        Some((client, connack.body[0] == 1))
    }
}

/// A packet that only has an id: an acknowledgement.
fn with_id(first: u8, packet_id: u16) -> Vec<u8> {
    let [high, low] = packet_id.to_be_bytes();
    vec![first, 2, high, low]
}

/// One server after the other, with everything that is to be so in all of them.
struct Run {
    random: Random,
    shared: Arc<Shared>,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    wills: u32,
    has_large: bool,
}

impl Run {
    fn new(seed: u64) -> (Self, Server) {
        let mut random = Random(seed);
        let sync = ["never", "interval", "interval", "always"][random.below(4) as usize];
        let has_large = random.chance(40);
        // Backlogs go to the disk when they are longer than 64 KiB.
        let memory = ["0", "256MiB"][random.below(2) as usize];
        eprintln!("seed {seed}: sync = {sync}, memory = {memory}, large messages: {has_large}");
        let config = format!(
            "[sessions]\nsync = \"{sync}\"\nsync_interval = \"20ms\"\nmemory = \"{memory}\"\n\
             will_grace = \"200ms\"\n"
        );
        let server = Plan::new().tcp().anonymous().config(&config).start();
        add_user(&server);
        let shared = Arc::new(Shared::default());
        let run = Self {
            publishers: Publisher::all(),
            subscribers: SUBSCRIBERS.iter().map(Subscriber::new).collect(),
            random,
            shared,
            wills: 0,
            has_large,
        };
        let address = server.address("mqtt");
        for subscriber in &run.subscribers {
            subscriber.begin(&address);
        }
        (run, server)
    }

    /// Clients do what they do until so many messages are acknowledged; then the server is killed.
    fn live(&mut self, server: Server, is_last: bool) -> Plan {
        let address = server.address("mqtt");
        let (shared, random) = (Arc::clone(&self.shared), &mut self.random);
        let has_large = self.has_large;
        let after = shared.with(|it| it.acknowledged()) + 1 + random.below(800);
        for subscriber in &mut self.subscribers {
            // Some stay away, or leave in the middle.
            subscriber.patience = match is_last {
                true => u64::MAX,
                false => [0, 5, 50, u64::MAX, u64::MAX][random.below(5) as usize],
            };
        }
        shared.concludes.store(is_last, Ordering::Relaxed);
        self.wills += 1;
        let wills = Wills::begin(&address, self.wills, &shared);
        thread::scope(|scope| {
            let (publishers, subscribers) = (&mut self.publishers, &mut self.subscribers);
            for publisher in publishers {
                let (address, shared) = (&address, &shared);
                scope.spawn(move || publisher.run(address, shared, has_large));
            }
            for (who, subscriber) in subscribers.iter_mut().enumerate() {
                let (address, shared) = (&address, &shared);
                scope.spawn(move || subscriber.run(who, address, shared));
            }
            let begun = Instant::now();
            if is_last {
                eventually("what was acknowledged arrives", || {
                    shared.with(|it| it.is_complete() || it.is_wrong())
                });
            } else {
                eventually("something is acknowledged, or time passes", || {
                    shared.with(|it| it.acknowledged()) >= after || begun.elapsed() > LIFE_MAX
                });
            }
            let plan = server.kill();
            drop(wills);
            plan
        })
    }

    /// A start with another number of shards, perhaps after some that are killed in the middle.
    fn start(&mut self, plan: Plan) -> Server {
        let shards = (1 + self.random.below(3)).to_string();
        let plan = plan.variable("STENTOR_SHARDS", &shards);
        while self.random.chance(30) {
            let mut command = plan.command();
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut child = command.spawn().expect("stentor starts");
            // There is nothing to wait for: any moment will do, and the seed chooses it.
            let moment = Instant::now() + Duration::from_millis(self.random.below(150));
            while Instant::now() < moment {
                thread::park_timeout(moment.saturating_duration_since(Instant::now()));
            }
            child.kill().expect("a server can be killed");
            child.wait().expect("a killed server ends");
        }
        plan.start()
    }
}

fn add_user(server: &Server) {
    let file = server.folder().join("password");
    std::fs::write(&file, USER).expect("a file can be written");
    let mut command = server::stentor();
    command
        .args(["user", "add", USER, "--password-file"])
        .arg(file);
    command.arg("--data-dir").arg(server.data_dir());
    process::run(&mut command).success();
}

/// Clients with wills: one that is there when the server is killed and never comes back, and one
/// that has left in order. Dropped after the kill.
struct Wills(#[expect(dead_code, reason = "the connection is held")] Option<Raw>);

impl Wills {
    fn begin(address: &str, number: u32, shared: &Shared) -> Self {
        let [stays, leaves] = ["stays", "leaves"].map(|what| format!("{what}-{number}"));
        let connect = |id: &str| {
            let version = Version::V5;
            let (client_id, will) = (id, Some(id));
            let login = Login {
                version,
                client_id,
                user: None,
                will,
            };
            login.connect(address).map(|(client, _)| client)
        };
        if let Some(mut client) = connect(&leaves) {
            client.send(&[0xE0, 0]);
            client.closed();
            shared.with(|it| it.withdraws(leaves));
        }
        let client = connect(&stays);
        if client.is_some() {
            shared.with(|it| it.leaves_a_will(stays));
        }
        Self(client)
    }
}

fn run(seed: u64, kills: u64) {
    let (mut all, mut server) = Run::new(seed);
    for _ in 0..kills {
        let plan = all.live(server, false);
        server = all.start(plan);
        let log = server.log();
        assert!(!log.contains("damage"), "a kill damages nothing: {log}");
    }
    // Everything arrives; and after another start, nothing of it comes again.
    let plan = all.live(server, true);
    server = all.start(plan);
    let plan = all.live(server, true);
    all.shared.with(|it| it.check(seed));
    drop(plan);
}

#[test]
fn what_clients_were_told_holds_however_often_the_server_is_killed() {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return run(seed.parse().expect("STENTOR_SEED is a number"), 20);
    }
    let (seeds, kills) = match std::env::var_os("STENTOR_SOAK").is_some() {
        true => (30, 20),
        false => (2, 4),
    };
    for seed in 1..=seeds {
        run(seed, kills);
    }
}
