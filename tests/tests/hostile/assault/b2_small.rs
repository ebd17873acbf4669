//! Small messages cost more than their bytes.

use stentor_tests::Version;
use stentor_tests::raw::publish;

use super::{MIB, QUEUE, login, send_and_await};
use crate::bystander::Scene;

const PAIRS: usize = 400_000;

/// 4 MB for a client that does not read. The bound: its queue of 4 MiB and a quarter more, and the
/// pieces that the sender is read in.
#[test]
fn b2_small_messages_in_a_full_queue() {
    let mut scene = Scene::new(QUEUE);
    scene.endures(12 * MIB, |server| {
        let mut lazy = login(server, "lazy");
        lazy.subscribe("a", 0);
        lazy.subscribe("b", 0);
        // In turn, so that they are not alike.
        let pair = ["a", "b"].map(|topic| publish(Version::V5, topic, b"", 0, false));
        send_and_await(
            &mut login(server, "publisher"),
            &pair.concat().repeat(PAIRS),
        );
    });
}
