//! Wildcards fork the walk through the index: each two of them make twice as many nodes that one
//! topic can reach.

use stentor_tests::Version;
use stentor_tests::raw::publish;

use super::{MIB, WIDE_OPEN, granted, login, send_and_await, subscribe_all};
use crate::bystander::{SHARDS, Scene};

/// Levels that are `a` or `+`; as many filters as there are ways to choose.
const FORKS: u32 = 10;
const LEVELS: usize = 256;
const PUBLISHES: usize = 300;

/// `{a,+}/…/+/…/z`, deep: no message ever reaches it.
fn filters() -> impl Iterator<Item = String> {
    (0..1_u32 << FORKS).map(|choice| {
        let forks = (0..FORKS).map(|fork| if choice >> fork & 1 == 0 { "a/" } else { "+/" });
        let rest = LEVELS - FORKS as usize - 1;
        forks.collect::<String>() + &"+/".repeat(rest) + "z"
    })
}

/// A session on each shard, half a megabyte of filters, and messages of 523 bytes.
#[test]
fn a2_wildcards_in_deep_filters() {
    let config = format!("{WIDE_OPEN}topic_wildcards = 255\n");
    let mut scene = Scene::new(&config);
    let names: Vec<String> = (0..SHARDS)
        .map(|shard| scene.name_on(shard, "forker"))
        .collect();
    scene.endures(64 * MIB, |server| {
        let mut sessions = Vec::new();
        for name in &names {
            let mut session = login(server, name);
            let subscribe = subscribe_all(&[], filters());
            assert_eq!(granted(&mut session, &subscribe), 1 << FORKS);
            sessions.push(session);
        }
        let levels = "a/".repeat(LEVELS - 1);
        let messages: Vec<u8> = (0..PUBLISHES)
            // Equal topics would be found in a cache.
            .flat_map(|number| publish(Version::V5, &format!("{levels}{number}"), b"", 0, false))
            .collect();
        send_and_await(&mut login(server, "publisher"), &messages);
    });
}

/// By default such filters are refused, and the connection goes on.
#[test]
fn a2_filters_with_many_wildcards_are_refused() {
    let server = stentor_tests::Server::open();
    let mut client = login(&server, "forker");
    let few = ["+/a/+/b/+", "+/+/+/+/#"].map(str::to_owned);
    assert_eq!(granted(&mut client, &subscribe_all(&[], few)), 2);
    let many = ["+/".repeat(9) + "z", "+/".repeat(31) + "z"];
    assert_eq!(granted(&mut client, &subscribe_all(&[], many)), 0);
    client.ping();
}
