//! Keys of JSON web tokens: key sets, and issuers side by side.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};
use stentor_tests::{Plan, Server};

use crate::jwt::{claims, login};

const LISTENER: &str = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";

/// A key of Ed25519, and how a key set names it.
fn ed25519(id: &str) -> (EncodingKey, Value) {
    let pair = KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key can be made");
    let key = EncodingKey::from_ed_pem(pair.serialize_pem().as_bytes()).expect("a key that signs");
    let x = URL_SAFE_NO_PAD.encode(pair.der_bytes());
    let public = json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": x });
    (key, public)
}

/// A key of P-256, and how a key set names it.
fn p256(id: &str) -> (EncodingKey, Value) {
    let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key can be made");
    let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).expect("a key that signs");
    let point = pair.der_bytes();
    assert_eq!((point.len(), point[0]), (65, 4), "an uncompressed point");
    let (x, y) = point[1..].split_at(32);
    let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
    let public = json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y });
    (key, public)
}

fn signed(algorithm: Algorithm, id: Option<&str>, key: &EncodingKey, changes: Value) -> String {
    let claims = claims(changes);
    let header = Header {
        kid: id.map(str::to_owned),
        ..Header::new(algorithm)
    };
    encode(&header, &claims, key).expect("a token is signed")
}

/// A server whose issuer has a key set.
fn server(set: &Value) -> Server {
    let plan = Plan::new();
    let file = plan.folder().join("keys.json");
    fs::write(&file, set.to_string()).expect("a file can be written");
    let config = format!("{LISTENER}[[jwt]]\njwks_file = \"{}\"\n", file.display());
    plan.config(&config).start()
}

fn put(server: &Server, text: &str) {
    let draft = server.folder().join("keys.draft");
    fs::write(&draft, text).expect("a file can be written");
    fs::rename(draft, server.folder().join("keys.json")).expect("it can be renamed");
}

#[test]
fn a_key_set_is_searched_by_the_name_of_the_key() {
    let ((one, one_public), (two, two_public)) = (ed25519("one"), p256("two"));
    let server = server(&json!({ "keys": [one_public, two_public] }));
    let plain = || json!({});
    for (what, token, code) in [
        (
            "the first",
            signed(Algorithm::EdDSA, Some("one"), &one, plain()),
            0,
        ),
        (
            "the second",
            signed(Algorithm::ES256, Some("two"), &two, plain()),
            0,
        ),
        (
            "without a name",
            signed(Algorithm::ES256, None, &two, plain()),
            0,
        ),
        (
            "another name",
            signed(Algorithm::ES256, Some("one"), &two, plain()),
            0x86,
        ),
        (
            "no such name",
            signed(Algorithm::EdDSA, Some("three"), &one, plain()),
            0x86,
        ),
    ] {
        assert_eq!(login(&server, &token).0, code, "{what}");
    }
}

#[test]
fn a_key_set_is_read_again_on_reload() {
    let ((one, one_public), (two, two_public)) = (ed25519("one"), ed25519("two"));
    let server = server(&json!({ "keys": [one_public] }));
    let one = signed(Algorithm::EdDSA, Some("one"), &one, json!({}));
    let two = signed(Algorithm::EdDSA, Some("two"), &two, json!({}));
    assert_eq!(login(&server, &one).0, 0);
    assert_eq!(login(&server, &two).0, 0x86);
    put(&server, &json!({ "keys": [two_public] }).to_string());
    server.control(&["reload"]).success();
    assert_eq!(login(&server, &two).0, 0);
    assert_eq!(login(&server, &one).0, 0x86);
    // What is no key set is refused, and the old one holds.
    for broken in [
        "",
        "[]",
        "{\"keys\": [{\"kty\": \"oct\"}]}",
        "{\"keys\": 1}",
    ] {
        put(&server, broken);
        let refusal = server.control(&["reload"]).refusal();
        assert!(refusal.contains("keys.json"), "{refusal}");
        assert_eq!(login(&server, &two).0, 0);
    }
}

/// What one issuer may say, another may not.
#[test]
fn known_users_is_a_matter_of_each_issuer() {
    let plan = Plan::new();
    let mut config = LISTENER.to_owned();
    for (issuer, known) in [("strict", true), ("open", false)] {
        let file = plan.folder().join(issuer);
        let secret = format!("a secret of {issuer}, of at least thirty-two bytes");
        fs::write(&file, secret).expect("a file can be written");
        config += &format!(
            "[[jwt]]\nissuer = \"{issuer}\"\nkey_file = \"{}\"\nalgorithms = [\"HS256\"]\n\
             known_users = {known}\n",
            file.display()
        );
    }
    let server = plan.config(&config).start();
    let token = |issuer: &str| {
        let secret = format!("a secret of {issuer}, of at least thirty-two bytes");
        let key = EncodingKey::from_secret(secret.as_bytes());
        signed(Algorithm::HS256, None, &key, json!({ "iss": issuer }))
    };
    assert_eq!(login(&server, &token("open")).0, 0);
    assert_eq!(login(&server, &token("strict")).0, 0x86);
    let add = ["user", "add", "ann", "--no-password"];
    server.control(&add).success();
    assert_eq!(login(&server, &token("strict")).0, 0);
    server.control(&["user", "disable", "ann"]).success();
    assert_eq!(
        login(&server, &token("open")).0,
        0x86,
        "who is shut out stays out"
    );
}
