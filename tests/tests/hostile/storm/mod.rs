//! A machine that looks for what makes a server work too hard or remember too much: clients that do
//! what is dear, drawn from a seed, beside bystanders.
//!
//! It fails where the server says that a turn kept a processor busy for longer than 5 ms (four
//! times that in a development build, see [`BUSY_MAX`]), where a turn did more visits than it may,
//! where the server's accounts hold more than its limits let them, and where the process has more
//! memory than its accounts explain ([`Memory`]). It prints the seed, and what the clients did
//! last. `STENTOR_SEED=n` runs that one seed for long, `STENTOR_SOAK=1` many seeds, and without
//! either of them two run, for a short time.

mod act;
mod client;
mod name;
mod random;

use std::time::{Duration, Instant};

use serde_json::Value;
use stentor_tests::Server;
use stentor_tests::server::hash_password;

use crate::bystander::{BUSY_MAX, Scene, VISITS_MAX, busy};
use act::{Act, USERS};
use client::{Client, Entry};
use name::Bounds;
use random::Random;

const PASSWORD: &str = "secret";

/// Client ids; each may have a session, of which the server remembers one.
const CLIENTS: usize = 12;

/// Steps between two looks at the server's figures.
const STEPS: usize = 100;

const MIB: u64 = 1 << 20;

/// Bytes of what waits for each session, and of the filters that it subscribes to.
const QUEUE_BYTES: u64 = MIB;
const SUBSCRIPTION_BYTES: u64 = MIB;
const RETAINED_BYTES: u64 = 16 * MIB;

/// What the accounts hold at most by the limits. Four user names may stand behind each client id,
/// each with a session of its own. The index of what is retained is smaller than that; the shards
/// have 20 MiB for each other, and there are packets and work that are not finished.
const ACCOUNTS_MAX: u64 = {
    let sessions = (CLIENTS * (USERS.len() + 1)) as u64;
    sessions * (QUEUE_BYTES + SUBSCRIPTION_BYTES) + RETAINED_BYTES + 40 * MIB
};

/// The process may have a fifth more than its accounts, since pieces of memory are not as large as
/// what lies in them, and as much again as the allocator and the threads keep for themselves: a
/// shard keeps what it has freed for up to 30 seconds, longer than a short storm takes.
const SLACK_BYTES: u64 = 128 * MIB;

/// What the process has at most at any time, with what is retained in files that are mapped.
const MEMORY_MAX: u64 = ACCOUNTS_MAX * 6 / 5 + SLACK_BYTES + RETAINED_BYTES;

/// So many looks in a row find the process too large before that counts: what came and went between
/// two of them is in no account, and the allocator gives it back late.
const LOOKS: usize = 10;

/// A seed runs so often while a turn takes too long. Interrupts and the machine's other guests take
/// a processor away once in a while, and the system counts that as the time of the turn. A request
/// that is too dear is so each time.
const RUNS: usize = 3;

/// What looks at the server's accounts have found.
#[derive(Debug, Default)]
struct Memory {
    /// How many of the last looks, in a row, have found the process too large.
    too_large: usize,
}

impl Memory {
    /// Looks at the accounts in a status. What is wrong with them, if something is.
    fn check(&mut self, memory: &Value) -> Option<String> {
        let figure = |name: &str| memory[name].as_u64().expect("a number of bytes");
        let [held, resident, own] = ["held_bytes", "resident_bytes", "own_bytes"].map(figure);
        let most = own + held * 6 / 5 + SLACK_BYTES;
        self.too_large = if resident > most {
            self.too_large + 1
        } else {
            0
        };
        let is_well = held <= ACCOUNTS_MAX && self.too_large < LOOKS;
        (!is_well).then(|| {
            format!(
                "{held} B of {ACCOUNTS_MAX} in the accounts; {resident} B of {most} in the process \
                 at {} looks: {memory}",
                self.too_large
            )
        })
    }
}

/// How wide the limits are.
#[derive(Clone, Copy, Debug)]
enum Limits {
    /// As they come.
    Default,
    /// As wide as an operator can set them.
    Wide,
}

impl Limits {
    const fn bounds(self) -> Bounds {
        match self {
            Self::Default => Bounds {
                bytes: 4_096,
                levels: 32,
                wildcards: 8,
            },
            Self::Wide => Bounds {
                bytes: 65_535,
                levels: 256,
                wildcards: 40,
            },
        }
    }

    fn config(self) -> String {
        let wide = match self {
            Self::Default => "",
            Self::Wide => "topic_bytes = 65535\ntopic_levels = 256\n",
        };
        let hash = hash_password(PASSWORD);
        let user = |name| format!("[[user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\n");
        format!(
            "[limits]\nqueue_bytes = {QUEUE_BYTES}\npacket_bytes = {}\n\
             subscription_bytes_per_client = {SUBSCRIPTION_BYTES}\n{wide}\
             [retained]\nbytes = {RETAINED_BYTES}\n\
             [[policy]]\nfilter = \"a/#\"\nqos0 = \"drop-oldest\"\n\
             [[policy]]\nfilter = \"b/#\"\nqos0 = \"conflate\"\n{}",
            QUEUE_BYTES / 2,
            USERS.map(user).concat()
        )
    }
}

/// The clients, and what they have done.
struct Storm<'a> {
    server: &'a Server,
    address: String,
    bounds: Bounds,
    random: Random,
    clients: Vec<Client>,
    memory: Memory,
    step: usize,
}

impl<'a> Storm<'a> {
    fn new(server: &'a Server, seed: u64, bounds: Bounds) -> Self {
        Self {
            server,
            address: server.address("mqtt"),
            bounds,
            random: Random::new(seed),
            clients: (0..CLIENTS)
                .map(|number| Client::new(format!("storm-{number}")))
                .collect(),
            memory: Memory::default(),
            step: 0,
        }
    }

    /// One of them does something.
    fn step(&mut self) {
        self.step += 1;
        let (step, random) = (self.step, &mut self.random);
        let index = random.below(CLIENTS);
        // Drawn in any case, so that what follows does not depend on who is connected.
        let entry = Entry::draw(random, self.bounds);
        let act = Act::draw(random, self.bounds);
        let fate = random.below(30);
        let client = &mut self.clients[index];
        match fate {
            0 => client.leave(step, true),
            1 => client.leave(step, false),
            2 => client.connect(step, &self.address, &entry),
            _ if !client.is_connected() => client.connect(step, &self.address, &entry),
            _ => client.act(step, &act),
        }
        for client in &mut self.clients {
            client.go_on();
        }
    }

    /// Asks the server how it fares. What happened, if a turn took too long.
    ///
    /// # Panics
    /// If a turn did too many visits, or memory is not as it should be.
    fn look(&mut self) -> Result<(), String> {
        let status = self.server.json(&["status", "--sample-ms", "0"]);
        let turns = &status["long_turns"];
        let memory = self.memory.check(&status["memory"]);
        let is_bounded = turns["visits_max"].as_u64() <= Some(VISITS_MAX) && memory.is_none();
        if is_bounded && busy(turns) <= BUSY_MAX {
            return Ok(());
        }
        let stories: String = self.clients.iter().map(Client::story).collect();
        let what = format!(
            "step {}: at most {BUSY_MAX:?} and {VISITS_MAX} visits: {turns}\n{}\n{stories}",
            self.step,
            memory.unwrap_or_default()
        );
        assert!(is_bounded, "{what}");
        Err(what)
    }
}

/// Runs a storm of a seed, again while a turn takes too long.
fn run(seed: u64, steps: usize, time: Duration) {
    let slow: Vec<String> = (0..RUNS)
        .map_while(|_| run_once(seed, steps, time).err())
        .inspect(|what| eprintln!("{what}"))
        .collect();
    assert!(slow.len() < RUNS, "a turn took too long {RUNS} times");
}

/// Runs a storm of a seed for so many steps, or for so long. What happened, if a turn is too long.
fn run_once(seed: u64, steps: usize, time: Duration) -> Result<(), String> {
    let limits = if seed.is_multiple_of(2) {
        Limits::Default
    } else {
        Limits::Wide
    };
    eprintln!("STENTOR_SEED={seed} ({limits:?})");
    let mut scene = Scene::new(&limits.config()).however_long();
    let end = Instant::now() + time;
    scene.endures(MEMORY_MAX, |server| {
        let mut storm = Storm::new(server, seed, limits.bounds());
        while storm.step < steps && Instant::now() < end {
            storm.step();
            if storm.step.is_multiple_of(STEPS) {
                storm.look()?;
            }
        }
        storm.look()
    })
}

#[test]
fn a_storm_of_dear_requests_is_weathered() {
    let long = Duration::from_secs(120);
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return run(
            seed.parse().expect("STENTOR_SEED is a number"),
            50_000,
            long,
        );
    }
    let (seeds, steps) = match std::env::var_os("STENTOR_SOAK") {
        Some(_) => (20, 20_000),
        None => (2, 2_000),
    };
    (0..seeds).for_each(|seed| run(seed, steps, long));
}
