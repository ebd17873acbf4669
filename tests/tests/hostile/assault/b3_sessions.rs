//! Sessions that somebody makes and leaves behind.

use stentor_tests::Version;
use stentor_tests::raw::{connect, connect_as};
use stentor_tests::server::hash_password;

use super::MIB;
use crate::bystander::Scene;

const SESSIONS: usize = 300;

/// An anonymous client makes all sessions that the server may have, and more, for an hour each. A
/// client with an account gets one nevertheless.
#[test]
fn b3_sessions_for_everybody() {
    let hash = hash_password("secret");
    let config = format!(
        "[limits]\nsessions = {SESSIONS}\n[[user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\n"
    );
    let mut scene = Scene::new(&config);
    // Two threads check passwords, with 19 MiB each.
    scene.endures(64 * MIB, |server| {
        for number in 0..SESSIONS + 100 {
            let mut client = server.dial();
            client.send(&connect(Version::V5, &format!("left-{number}"), false));
            client.speaks(Version::V5);
            client.expect(2);
        }
        for number in 0..20 {
            let mut client = server.dial();
            let login = Some(("ann", "secret"));
            client.send(&connect_as(
                Version::V5,
                &format!("ann-{number}"),
                false,
                login,
            ));
            client.speaks(Version::V5);
            assert_eq!(client.expect(2).body[1], 0, "ann is let in");
        }
    });
}
