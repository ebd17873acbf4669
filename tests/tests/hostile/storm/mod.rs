//! A machine that looks for what makes a server work too hard or remember too much: clients that do
//! what is dear, drawn from a seed, beside bystanders.
//!
//! It fails where the server says that a turn kept a processor busy for longer than 5 ms (four
//! times that in a development build, see [`BUSY_MAX`]), where a turn did more visits than it may,
//! and where the server has more memory than its limits account for. It prints the seed, and what
//! the clients did last. `STENTOR_SEED=n` runs that one seed for long, `STENTOR_SOAK=1` many seeds,
//! and without either of them two run, for a short time.

mod act;
mod client;
mod name;
mod random;

use std::time::{Duration, Instant};

use stentor_tests::Server;
use stentor_tests::server::hash_password;

use crate::bystander::{BUSY_MAX, Scene, VISITS_MAX, busy, resident_bytes, turns};
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

/// What waits for each session, and what it subscribes to.
const QUEUE_BYTES: u64 = MIB;
const SUBSCRIPTION_BYTES: u64 = MIB;
const RETAINED_BYTES: u64 = 16 * MIB;

/// What the limits account for. Four user names may stand behind each client id, each with a
/// session of its own. What is retained is in memory and in a file that is mapped; the shards have
/// 20 MiB for each other; and the server itself, with the sockets' pieces, takes the rest.
const MEMORY_MAX: u64 = {
    let sessions = (CLIENTS * (USERS.len() + 1)) as u64;
    let accounts = sessions * (QUEUE_BYTES + SUBSCRIPTION_BYTES) + 2 * RETAINED_BYTES + 40 * MIB;
    accounts * 6 / 5 + 64 * MIB
};

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

    /// Asks the server how it fares.
    fn look(&self) {
        let turns = turns(self.server);
        let bytes = resident_bytes(self.server);
        let is_well = busy(&turns) <= BUSY_MAX
            && turns["visits_max"].as_u64() <= Some(VISITS_MAX)
            && bytes <= MEMORY_MAX;
        if !is_well {
            let stories: String = self.clients.iter().map(Client::story).collect();
            panic!(
                "step {}: {bytes} B of {MEMORY_MAX}; at most {BUSY_MAX:?} and {VISITS_MAX} visits: \
                 {turns}\n{stories}",
                self.step
            );
        }
    }
}

/// Runs a storm of a seed for so many steps, or for so long.
fn run(seed: u64, steps: usize, time: Duration) {
    let limits = if seed.is_multiple_of(2) {
        Limits::Default
    } else {
        Limits::Wide
    };
    eprintln!("STENTOR_SEED={seed} ({limits:?})");
    let mut scene = Scene::new(&limits.config());
    let end = Instant::now() + time;
    scene.endures(MEMORY_MAX, |server| {
        let mut storm = Storm::new(server, seed, limits.bounds());
        while storm.step < steps && Instant::now() < end {
            storm.step();
            if storm.step.is_multiple_of(STEPS) {
                storm.look();
            }
        }
        storm.look();
    });
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
