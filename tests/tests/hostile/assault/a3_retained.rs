//! Retained messages with long names that have nearly everything in common.

use stentor_tests::Version;
use stentor_tests::raw::publish;

use super::{MIB, WIDE_OPEN, by_alias, granted, login, send_and_await, set_alias, subscribe_all};
use crate::bystander::Scene;

const NAMES: usize = 600;
const NAME_BYTES: usize = 65_400;
const CHANGES: usize = 1_000;
const FILTERS: usize = 500;

/// The bound: the names are the server's to keep, in memory and in a file that is mapped, and each
/// change is written to that file; with half as much again while the file is tidied.
#[test]
fn a3_long_retained_names() {
    let mut scene = Scene::new(WIDE_OPEN);
    let kept = (2 * (NAMES + CHANGES) * NAME_BYTES) as u64;
    scene.endures(kept * 3 / 2 + 32 * MIB, |server| {
        let mut publisher = login(server, "publisher");
        let name = |number: usize| format!("r/{}{number:04}", "x".repeat(NAME_BYTES));
        for number in 0..NAMES {
            publisher.send(&publish(Version::V5, &name(number), b"v", 0, true));
        }
        publisher.ping();
        let change = [by_alias(true, b""), by_alias(true, b"v")].concat();
        let changes = [
            set_alias(&name(NAMES / 2), true, b"v"),
            change.repeat(CHANGES),
        ];
        send_and_await(&mut publisher, &changes.concat());
        // Nothing matches, but all of it is looked at.
        let filters = || (0..FILTERS).map(|number| format!("+/zz{number}"));
        let mut subscriber = login(server, "subscriber");
        for _ in 0..2 {
            let subscribe = subscribe_all(&[], filters());
            assert_eq!(granted(&mut subscriber, &subscribe), FILTERS);
        }
        subscriber.ping();
    });
}
