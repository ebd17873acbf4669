//! One message goes to each group of a shared subscription, and a client may be in many.

use stentor_tests::raw::publish;
use stentor_tests::{Raw, Server, Version};

use super::{MIB, QUEUE, granted, login, subscribe_all};
use crate::bystander::Scene;

const SESSIONS: usize = 10;
const GROUPS: usize = 500;
const ROUNDS: usize = 10;
const PUBLISHES: usize = 10;

/// A session that is in so many groups, all of the topic `t`.
fn member(server: &Server, number: usize) -> (Raw, usize) {
    let mut member = login(server, &format!("member-{number}"));
    let filters = (0..GROUPS).map(|group| format!("$share/g{number}-{group}/t"));
    let granted = granted(&mut member, &subscribe_all(&[], filters));
    (member, granted)
}

/// Five thousand groups of ten sessions that read what comes. The bound: what a queue holds of
/// each, and a quarter more.
#[test]
fn a4_many_share_groups_on_one_topic() {
    let config = format!(
        "{QUEUE}shared_subscriptions_per_client = 10000\nshare_groups_per_filter = 10000\n"
    );
    let mut scene = Scene::new(&config);
    scene.endures(SESSIONS as u64 * 5 * MIB + 32 * MIB, |server| {
        let mut members = Vec::new();
        for number in 0..SESSIONS {
            let (member, granted) = member(server, number);
            assert_eq!(granted, GROUPS);
            members.push(member);
        }
        let mut publisher = login(server, "publisher");
        let messages = publish(Version::V5, "t", b"", 0, false).repeat(PUBLISHES);
        for _ in 0..ROUNDS {
            publisher.send(&messages);
            publisher.ping();
            for member in &mut members {
                member.ping_among_messages();
            }
        }
    });
}

/// By default a session is in 256 groups at most, and a topic filter has 256.
#[test]
fn a4_groups_are_bounded() {
    let server = Server::open();
    let (_first, most) = member(&server, 0);
    assert_eq!(most, 256);
    let (mut second, none) = member(&server, 1);
    assert_eq!(none, 0);
    second.ping();
}
