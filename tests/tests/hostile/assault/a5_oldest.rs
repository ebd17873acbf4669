//! The policy `drop-oldest`, where nearly everything that waits may not be dropped.

use stentor_tests::Version;
use stentor_tests::raw::publish;

use super::{MIB, QUEUE, login, send_and_await};
use crate::bystander::Scene;

/// Pairs of a PINGREQ and a small message: 3 MB of them fill a queue of 4 MiB.
const PAIRS: usize = 300_000;
const LARGE_BYTES: usize = 20_000;
const LARGE: usize = 300;

#[test]
fn a5_drop_oldest_behind_small_replies() {
    let mut scene = Scene::new(&format!(
        "{QUEUE}[[policy]]\nfilter = \"t\"\nqos0 = \"drop-oldest\"\n"
    ));
    let name = scene.name_on(0, "lazy");
    scene.endures(32 * MIB, |server| {
        let mut lazy = server.client(Version::V4, &name);
        lazy.subscribe("t", 0);
        let pair = [&[0xC0, 0][..], &publish(Version::V4, "t", b"", 0, false)].concat();
        // Its own answers do not fit into its socket any more, so it cannot know when all is done.
        lazy.send(&pair.repeat(PAIRS));
        let large = publish(Version::V5, "t", &[b'x'; LARGE_BYTES], 0, false);
        send_and_await(&mut login(server, "publisher"), &large.repeat(LARGE));
    });
}
