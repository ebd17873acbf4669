//! Bad tokens slow down whoever shows them, and nobody else at the same address.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;
use stentor_tests::raw::{packet, string};
use stentor_tests::{Raw, Server, Version};

use super::MIB;
use crate::bystander::Scene;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const FORGER: &[u8] = b"fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

const FORGED_FIRST: usize = 30;
const FORGED_BESIDE: usize = 4;
const LOGINS: usize = 20;

fn token(secret: &[u8], name: &str) -> String {
    // Every test may be the first one that signs.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let until = since.expect("it is after 1970").as_secs() + 3_600;
    let claims = json!({ "sub": name, "exp": until });
    let key = EncodingKey::from_secret(secret);
    encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token is signed")
}

/// Shows a token as the password, with no user name.
fn show(server: &Server, token: &str) -> Raw {
    let mut body = string("MQTT");
    body.extend([5, 0x42, 0, 0, 0]);
    body.extend(string(""));
    body.extend(string(token));
    let mut client: Raw = server.dial();
    client.send(&packet(0x10, &body));
    client.speaks(Version::V5);
    client
}

/// Bad tokens wait for their answers, which are slowed down; those that hold are let in meanwhile.
#[test]
fn b4_bad_tokens_are_their_bearers_trouble() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("key");
    std::fs::write(&file, SECRET).expect("a key can be written");
    let config = format!(
        "[[jwt]]\nkey_file = \"{}\"\nalgorithms = [\"HS256\"]\n",
        file.display()
    );
    let mut scene = Scene::new(&config);
    scene.endures(32 * MIB, |server| {
        let forge = |number| show(server, &token(FORGER, &format!("forged-{number}")));
        let mut waiting: Vec<Raw> = (0..FORGED_FIRST).map(forge).collect();
        for number in 0..LOGINS {
            waiting.extend((0..FORGED_BESIDE).map(forge));
            let mut device = show(server, &token(SECRET, &format!("device-{}", number % 5)));
            assert_eq!(device.expect(2).body[1], 0, "a token that holds is let in");
        }
        let refused = waiting[0].expect(2).body[1];
        assert_ne!(refused, 0, "a forged one is not");
    });
}
