//! Topic aliases make eight bytes stand for 64 KiB, on their way to another shard too.

use stentor_tests::Raw;

use super::{MIB, WIDE_OPEN, by_alias, login, send_and_await, set_alias};
use crate::bystander::{SHARDS, Scene};

const ATTACKERS: usize = 6;
const MESSAGES: usize = 1_500;

/// 460 KB in all, of which the names are most. The bound: 20 MiB between each two shards, and two
/// queues of 4 MiB, with as much again for what is in pieces.
#[test]
fn a1_aliased_long_topics_across_shards() {
    let mut scene = Scene::new(WIDE_OPEN);
    // They do not read what comes.
    let _subscribers: Vec<Raw> = (0..SHARDS)
        .map(|shard| {
            let mut subscriber = login(&scene.server, &scene.name_on(shard, "subscriber"));
            subscriber.subscribe("t/#", 0);
            subscriber
        })
        .collect();
    let bytes = [
        set_alias(&format!("t/{}", "x".repeat(65_000)), false, b""),
        by_alias(false, b"").repeat(MESSAGES),
    ];
    let bytes = bytes.concat();
    scene.endures(100 * MIB, |server| {
        std::thread::scope(|scope| {
            for number in 0..ATTACKERS {
                let mut attacker = login(server, &format!("attacker-{number}"));
                let bytes = &bytes;
                scope.spawn(move || send_and_await(&mut attacker, bytes));
            }
        });
    });
}
