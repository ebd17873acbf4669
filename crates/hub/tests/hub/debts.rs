//! A client that leaves while it owes for work, and comes back, owes still.

use crate::world::{ConnectOptions, PING, World, clean, encoded_publish};
use stentor_hub::{Holding, Settings};
use stentor_mqtt::{Properties, Version};
use stentor_session::Tick;

/// Each message to [`dear`] visits that many nodes of the index, and more.
const LEVELS: u32 = 12;

/// A shard where messages are dear, and everything waits for the test.
fn world() -> World {
    let settings = Settings {
        topic_wildcards_max: 100,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let s = w.connect(Version::V5, "s", &clean());
    let filter = |bits: u32| {
        let level = |at| if bits >> at & 1 == 0 { "a/" } else { "+/" };
        (0..LEVELS).map(level).collect::<String>() + "z"
    };
    let filters: Vec<_> = (0..1 << LEVELS).map(filter).collect();
    w.subscribe_all(s, &filters);
    w.paused = true;
    w
}

fn dear() -> String {
    "a/".repeat(LEVELS as usize) + "y"
}

fn publish(topic: &str) -> Vec<u8> {
    encoded_publish(topic, b"x", Properties::EMPTY)
}

fn connect(w: &mut World, id: &str, options: &ConnectOptions<'_>) -> usize {
    let client = w.connect_only(Version::V5, id, options);
    w.flush(0);
    client
}

/// Whether something would be read from a client now.
fn is_read(w: &mut World, client: usize) -> bool {
    let key = w.clients[client].key.unwrap();
    w.hubs[0].begin_turn();
    w.hubs[0].receive(w.now, key, &PING) == PING.len()
}

/// Turns until no message is left to be routed.
fn route_all(w: &mut World) {
    while w.hubs[0].inspect().work_bytes() > 0 {
        w.go_on(0);
        w.tick();
    }
}

/// Has a client cause work until it pauses.
fn owe(w: &mut World, client: usize) {
    for _ in 0..100 {
        w.send_without_settling(client, &publish(&dear()));
        route_all(w);
        if !is_read(w, client) {
            return;
        }
    }
    panic!("it pauses");
}

fn after_secs(w: &mut World, secs: u64) {
    w.now = Tick::from_micros(w.now.as_micros() + secs * 1_000_000);
}

#[test]
fn a_debt_outlives_its_connection() {
    let all = [clean(), ConnectOptions::persistent()];
    for before in &all {
        for after in &all {
            for takes_over in [false, true] {
                let mut w = world();
                let p = connect(&mut w, "p", before);
                owe(&mut w, p);
                if !takes_over {
                    w.drop_link(p);
                }
                let mut again = connect(&mut w, "p", after);
                assert!(!is_read(&mut w, again), "it owes");
                let other = connect(&mut w, "q", after);
                assert!(is_read(&mut w, other), "nobody else does");
                w.drop_link(again);
                again = connect(&mut w, "p", after);
                assert!(!is_read(&mut w, again), "it owes as before");
                after_secs(&mut w, 10);
                assert!(is_read(&mut w, again), "it has paid");
                w.drop_link(again);
                again = connect(&mut w, "p", after);
                assert!(is_read(&mut w, again), "it has paid");
            }
        }
    }
}

/// Its messages are routed while it is away, or is back already.
#[test]
fn what_is_routed_after_its_publisher_has_gone_is_paid_for() {
    let all = [clean(), ConnectOptions::persistent()];
    for before in &all {
        for after in &all {
            for is_back in [false, true] {
                let mut w = world();
                let mut rounds = 0;
                loop {
                    let p = connect(&mut w, "p", before);
                    if !is_read(&mut w, p) {
                        break;
                    }
                    w.send_without_settling(p, &publish(&dear()));
                    assert!(w.hubs[0].inspect().work_bytes() > 0);
                    w.drop_link(p);
                    let p = is_back.then(|| connect(&mut w, "p", after));
                    route_all(&mut w);
                    if let Some(p) = p {
                        w.drop_link(p);
                    }
                    rounds += 1;
                    assert!(rounds < 100, "it pauses");
                }
                assert!(rounds > 4, "it has a credit: {rounds}");
            }
        }
    }
}

#[test]
fn a_client_pays_for_its_wills() {
    for mut options in [clean(), ConnectOptions::persistent()] {
        let mut w = world();
        let topic = dear();
        options.will = Some((&topic, "x", 0));
        let mut rounds = 0;
        loop {
            let p = connect(&mut w, "p", &options);
            if !is_read(&mut w, p) {
                break;
            }
            w.drop_link(p);
            route_all(&mut w);
            rounds += 1;
            assert!(rounds < 100, "it pauses");
        }
        assert!(rounds > 4, "it has a credit: {rounds}");
        let other = connect(&mut w, "q", &clean());
        assert!(is_read(&mut w, other));
    }
}
/// A private message is charged by what its recipient's sessions cost, wherever these are.
#[test]
fn a_private_message_to_very_many_sessions_is_paid_for() {
    for shards in [1, 2] {
        let mut w = World::new(shards);
        let user = |name| ConnectOptions {
            user: Some(name),
            ..clean()
        };
        let ids = (0..).map(|n| format!("s{n}"));
        let there: Vec<_> = ids
            .filter(|id| w.home(id) == shards - 1)
            .take(1_000)
            .collect();
        let filters = ["$private/from/+", "$private/#", "$private/from/ann"].map(String::from);
        for id in there {
            let s = w.connect(Version::V5, &id, &user("ben"));
            w.subscribe_all(s, &filters);
        }
        let mut ids = (0..).map(|n| format!("p{n}"));
        let here = ids.find(|id| w.home(id) == 0).unwrap();
        let p = w.connect(Version::V5, &here, &user("ann"));
        let mut rounds = 0;
        w.paused = true;
        while is_read(&mut w, p) {
            w.hubs[usize::from(shards) - 1].begin_turn();
            w.send_without_settling(p, &publish("$private/to/ben"));
            for pair in w.pairs_under_way() {
                w.deliver_one(pair);
            }
            let hub = &mut w.hubs[usize::from(shards) - 1];
            assert!((512..2_048).contains(&hub.turn().visits()));
            hub.begin_drain();
            hub.end_drain(w.now);
            w.settle();
            rounds += 1;
            assert!(rounds < 1_000, "it pauses");
        }
        assert!(rounds > 50, "it has a credit: {rounds}");
    }
}

/// What clients owe that have gone is held, too.
#[test]
fn debts_are_in_the_ledger() {
    let mut w = world();
    w.check_accounts();
    let before = w.ledger.of(Holding::Work);
    for n in 0..500 {
        let p = connect(&mut w, &format!("p{n}"), &clean());
        w.send_without_settling(p, &publish(&dear()));
        w.drop_link(p);
        route_all(&mut w);
    }
    w.check_accounts();
    let debts = w.ledger.of(Holding::Work) - before;
    assert!((500 * 16..500 * 256).contains(&debts), "{debts}");
}
