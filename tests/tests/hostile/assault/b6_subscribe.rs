//! One SUBSCRIBE with thousands of filters, each of which has to be compared with all that is
//! retained.

use stentor_tests::Version;
use stentor_tests::raw::publish;

use super::{MIB, granted, login, subscribe_all};
use crate::bystander::Scene;

const NAMES: usize = 2_000;
const FILTERS: usize = 10_000;

/// 109 KB that match nothing.
#[test]
fn b6_a_subscribe_of_many_filters_with_much_retained() {
    let mut scene = Scene::new("");
    scene.endures(32 * MIB, |server| {
        let mut publisher = login(server, "publisher");
        for number in 0..NAMES {
            let topic = format!("retained/{:>031}", number);
            publisher.send(&publish(Version::V5, &topic, b"v", 0, true));
        }
        publisher.ping();
        let mut subscriber = login(server, "subscriber");
        let filters = (0..FILTERS).map(|number| format!("+/z{number}"));
        let subscribe = subscribe_all(&[], filters);
        assert_eq!(granted(&mut subscriber, &subscribe), FILTERS);
        subscriber.ping();
    });
}
