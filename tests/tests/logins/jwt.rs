//! JSON web tokens: as a password and by AUTH.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually, publish, subscribe};
use stentor_tests::{Plan, Raw, Server, Version};

use crate::authenticate::{AGAIN, auth, connect};

pub(crate) const SECRET: &[u8] =
    b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is after 1970").as_secs()
}

/// Claims that hold, with some changed; null takes one away.
pub(crate) fn claims(changes: Value) -> Value {
    // Every test may be the first one that signs.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    let mut claims = json!({
        "iss": "https://id.example", "aud": "stentor", "sub": "ann", "exp": now() + 3_600,
    });
    for (name, value) in changes.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    let all = claims.as_object_mut().expect("an object");
    all.retain(|_, value| !value.is_null());
    claims
}

pub(crate) fn signed(changes: Value) -> String {
    let key = EncodingKey::from_secret(SECRET);
    encode(&Header::new(Algorithm::HS256), &claims(changes), &key).expect("a token is signed")
}

/// A server that takes the tokens of one issuer.
pub(crate) fn server(key: &[u8], algorithm: &str) -> Server {
    let plan = Plan::new();
    let file = plan.folder().join("key");
    fs::write(&file, key).expect("a key can be written");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[[jwt]]\nissuer = \"https://id.example\"\n\
         key_file = \"{}\"\nalgorithms = [\"{algorithm}\"]\nleeway = \"0s\"\n",
        file.display()
    );
    plan.config(&config).start()
}

pub(crate) fn login(server: &Server, token: &str) -> (u8, Raw) {
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, "c", true, Some(("ann", token))));
    client.speaks(Version::V5);
    let code = client.expect(2).body[1];
    (code, client)
}

#[test]
fn a_token_that_does_not_hold_is_refused() {
    let server = server(SECRET, "HS256");
    assert_eq!(login(&server, &signed(json!({}))).0, 0);
    let unsigned = format!(
        "{}.",
        signed(json!({})).rsplit_once('.').expect("three parts").0
    );
    let other = EncodingKey::from_secret(b"another secret of thirty-two bytes");
    let forged = encode(&Header::new(Algorithm::HS256), &claims(json!({})), &other);
    let weaker = encode(
        &Header::new(Algorithm::HS384),
        &claims(json!({})),
        &EncodingKey::from_secret(SECRET),
    );
    let long = "x".repeat(20_000);
    for (what, token) in [
        ("audience", signed(json!({ "aud": "elsewhere" }))),
        ("no audience", signed(json!({ "aud": null }))),
        ("issuer", signed(json!({ "iss": "https://evil.example" }))),
        ("expired", signed(json!({ "exp": now() - 5 }))),
        ("for ever", signed(json!({ "exp": null }))),
        ("not yet", signed(json!({ "nbf": now() + 600 }))),
        ("somebody else", signed(json!({ "sub": "bob" }))),
        ("nobody", signed(json!({ "sub": "" }))),
        (
            "a rule that is none",
            signed(json!({ "rights": ["allow everything"] })),
        ),
        ("too long", signed(json!({ "x": long }))),
        ("without a signature", unsigned),
        ("another key", forged.expect("a token is signed")),
        ("another algorithm", weaker.expect("a token is signed")),
    ] {
        assert_eq!(login(&server, &token).0, 0x86, "{what}");
    }
}

/// Why a token does not hold is the operator's to know: every bearer is told the same.
#[test]
fn only_the_log_tells_why_a_token_is_refused() {
    let server = server(SECRET, "HS256");
    let other = EncodingKey::from_secret(b"another secret of thirty-two bytes");
    let forged = encode(&Header::new(Algorithm::HS256), &claims(json!({})), &other);
    let expired = signed(json!({ "exp": now() - 5 }));
    let is_told = |from: usize, token: &str, why: &str| {
        let log = &server.wait_log(from, why)[from..];
        let (_, signature) = token.rsplit_once('.').expect("three parts");
        assert!(!log.contains(signature), "{log}");
        assert!(!log.contains("wrong user name"), "{log}");
    };
    let mut answers = Vec::new();
    for (token, why) in [
        (&expired, "it has expired"),
        (
            &signed(json!({ "aud": "elsewhere" })),
            "its audience is not this server",
        ),
        (
            &forged.expect("a token is signed"),
            "its signature is wrong",
        ),
        (
            &signed(json!({ "sub": "bob" })),
            "belongs to another user than its user name",
        ),
    ] {
        let from = server.log().len();
        let mut client = server.dial();
        client.send(&connect_as(Version::V5, "c", true, Some(("ann", token))));
        client.speaks(Version::V5);
        answers.push(client.expect(2).body);
        is_told(from, token, why);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
    // By AUTH of a client that is connected, too.
    let mut client = server.dial();
    client.send(&connect("d", "JWT", signed(json!({})).as_bytes()));
    assert_eq!(client.expect(2).body[1], 0);
    let from = server.log().len();
    client.send(&auth(AGAIN, "JWT", expired.as_bytes()));
    assert_eq!(client.expect(14).body[0], 0x87);
    is_told(from, &expired, "it has expired");
}

#[test]
fn rights_in_a_token_are_those_of_its_bearer() {
    let server = server(SECRET, "HS256");
    let rights = json!(["allow publish up/{user}", "allow subscribe down/#"]);
    let (code, mut client) = login(&server, &signed(json!({ "rights": rights })));
    assert_eq!(code, 0);
    let mut published = |topic: &str| {
        client.send(&publish(Version::V5, topic, b"", 1, false));
        client.expect(4).body.get(2).copied().unwrap_or(0)
    };
    assert_ne!(published("up/ann"), 0x87);
    assert_eq!(published("up/bob"), 0x87);
    client.send(&subscribe(Version::V5, 7, "down/a", 0));
    assert_eq!(client.expect(9).body.last(), Some(&0));
    client.send(&subscribe(Version::V5, 8, "up/#", 0));
    assert_eq!(client.expect(9).body.last(), Some(&0x87));
}

#[test]
fn a_connection_ends_with_its_token_unless_it_is_renewed() {
    let server = server(SECRET, "HS256");
    let soon = |secs: u64| signed(json!({ "exp": now() + secs }));
    let (code, mut client) = login(&server, &soon(2));
    assert_eq!(code, 0);
    // Nothing is sent: the end comes by itself.
    client.expect(14);
    client.closed();
    let mut client = server.dial();
    client.send(&connect("c", "JWT", soon(3).as_bytes()));
    assert_eq!(client.expect(2).body[1], 0);
    client.send(&auth(AGAIN, "JWT", soon(3_600).as_bytes()));
    assert_eq!(client.expect(15).body[0], 0);
    client.send(&auth(
        AGAIN,
        "JWT",
        signed(json!({ "sub": "bob" })).as_bytes(),
    ));
    assert_eq!(client.expect(14).body[0], 0x87, "it is somebody else");
    client.closed();
}

#[test]
fn public_keys_check_signatures() {
    for (name, algorithm, made) in [
        ("EdDSA", Algorithm::EdDSA, &rcgen::PKCS_ED25519),
        ("ES256", Algorithm::ES256, &rcgen::PKCS_ECDSA_P256_SHA256),
        ("RS256", Algorithm::RS256, &rcgen::PKCS_RSA_SHA256),
    ] {
        let pair = KeyPair::generate_for(made).expect("a key can be made");
        let pem = pair.serialize_pem();
        let key = match algorithm {
            Algorithm::EdDSA => EncodingKey::from_ed_pem(pem.as_bytes()),
            Algorithm::ES256 => EncodingKey::from_ec_pem(pem.as_bytes()),
            _ => EncodingKey::from_rsa_pem(pem.as_bytes()),
        };
        let key = key.expect("a key that signs");
        let token = encode(&Header::new(algorithm), &claims(json!({})), &key);
        let public = pair.public_key_pem();
        let server = server(public.as_bytes(), name);
        assert_eq!(login(&server, &token.expect("it is signed")).0, 0, "{name}");
        // The public key is no secret: what is signed with it as one is forged.
        let forged = encode(
            &Header::new(Algorithm::HS256),
            &claims(json!({})),
            &EncodingKey::from_secret(public.as_bytes()),
        );
        assert_eq!(
            login(&server, &forged.expect("it is signed")).0,
            0x86,
            "{name}"
        );
    }
}

/// Banned: the user may not be here any more.
const BANNED: u8 = 0x98;

/// An operator shuts somebody out who comes with a token that still holds.
#[test]
fn a_bearer_who_is_disabled_is_sent_away() {
    let server = server(SECRET, "HS256");
    for is_known in [true, false] {
        let name = if is_known { "ann" } else { "bob" };
        let add = ["user", "add", name, "--no-password"];
        if is_known {
            server.control(&add).success();
        }
        let token = signed(json!({ "sub": name }));
        let hello = connect_as(Version::V5, name, true, Some((name, &token)));
        let mut client = server.dial();
        client.speaks(Version::V5);
        client.send(&hello);
        assert_eq!(client.expect(2).body[1], 0);
        client.ping();
        let disable = match is_known {
            true => vec!["user", "disable", name],
            // Nobody has that name yet: somebody who is shut out gets it.
            false => [&add[..], &["--disabled"]].concat(),
        };
        server.control(&disable).success();
        assert_eq!(client.expect(14).body[0], BANNED, "{name}");
        client.closed();
        let mut again = server.dial();
        again.send(&hello);
        assert_eq!(again.expect(2).body[1], 0x86, "{name}");
    }
}

/// A client that came with a token and was no user is one when somebody adds it, also while it is
/// connected.
#[test]
fn a_bearer_has_the_roles_of_a_user_who_is_added() {
    let server = server(SECRET, "HS256");
    let rule = ["--rule", "allow publish quiet/#"];
    let role = ["role", "add", "quiet"];
    server.control(&[&role[..], &rule].concat()).success();
    let connected = |name: &str, changes: Value| {
        let mut claims = json!({ "sub": name });
        for (key, value) in changes.as_object().expect("an object") {
            claims[key] = value.clone();
        }
        let mut client = server.dial();
        client.speaks(Version::V5);
        let token = signed(claims);
        client.send(&connect_as(Version::V5, name, true, Some((name, &token))));
        assert_eq!(client.expect(2).body[1], 0, "{name}");
        client
    };
    let published = |client: &mut Raw, topic: &str| {
        client.send(&publish(Version::V5, topic, b"", 1, false));
        client.expect(4).body.get(2) != Some(&0x87)
    };
    let mut cleo = connected("cleo", json!({}));
    let mut dora = connected("dora", json!({ "roles": ["member"] }));
    let mut emil = connected("emil", json!({ "rights": ["allow publish own/#"] }));
    assert!(published(&mut cleo, "a") && published(&mut dora, "a"));
    assert!(published(&mut emil, "own/a") && !published(&mut emil, "quiet/a"));
    for name in ["cleo", "dora", "emil"] {
        let add = ["user", "add", name, "--no-password", "--role", "quiet"];
        server.control(&add).success();
    }
    eventually("cleo has the role quiet alone", || {
        !published(&mut cleo, "a")
    });
    eventually("emil has it too", || published(&mut emil, "quiet/a"));
    assert!(published(&mut cleo, "quiet/a") && published(&mut emil, "own/a"));
    // A token that names roles says what counts.
    assert!(published(&mut dora, "a"));
    let grant = ["grant", "cleo", "member"];
    server.control(&grant).success();
    eventually("cleo is a member again", || published(&mut cleo, "a"));
}

/// A token makes neither a zone nor a name that no command could speak of.
#[test]
fn a_token_of_what_there_cannot_be_is_refused() {
    let server = server(SECRET, "HS256");
    let by_token = |changes: Value| {
        let mut client = server.dial();
        client.send(&connect("c", "JWT", signed(changes).as_bytes()));
        client.expect(2).body[1]
    };
    let long = "x".repeat(256);
    for (changes, why) in [
        (
            json!({ "zone": "nowhere" }),
            "the zone of its JSON web token",
        ),
        (json!({ "zone": "a/b" }), "must not contain '/'"),
        (
            json!({ "sub": "https://id.example/ann" }),
            "must not contain '/'",
        ),
        (json!({ "sub": "a+b" }), "must not contain '+'"),
        (json!({ "sub": " ann" }), "white space"),
        (json!({ "sub": "a\u{7f}b" }), "U+007F"),
        (json!({ "sub": long }), "at most 255 bytes"),
    ] {
        let from = server.log().len();
        assert_eq!(by_token(changes.clone()), 0x86, "{changes}");
        server.wait_log(from, why);
    }
    server.control(&["zone", "add", "nowhere"]).success();
    assert_eq!(by_token(json!({ "zone": "nowhere" })), 0);
}

/// A client that gives a bare name is judged in the zone of its token, by that zone's adaptor.
#[test]
fn the_zone_of_a_token_judges_a_bare_name() {
    let plan = Plan::new();
    let (key, script) = (plan.folder().join("key"), plan.folder().join("login.luau"));
    fs::write(&key, SECRET).expect("a key can be written");
    let text = "local a = {}\nfunction a.login(e)\n  log(`asked about {e.zone}/{e.user}`)\n  \
                if e.user == \"eve\" then return deny(\"not eve\") end\n  \
                return nil\nend\nreturn a\n";
    fs::write(&script, text).expect("a file can be written");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[[zone]]\nname = \"game\"\n[[jwt]]\n\
         key_file = \"{}\"\nalgorithms = [\"HS256\"]\n[[adaptor]]\nfile = \"{}\"\n\
         zone = \"game\"\n",
        key.display(),
        script.display()
    );
    let server = plan.config(&config).start();
    let login = |user: &str, changes: Value| {
        let mut client = server.dial();
        let token = signed(changes);
        client.send(&connect_as(Version::V5, "c", true, Some((user, &token))));
        client.speaks(Version::V5);
        client.expect(2).body[1]
    };
    for user in ["eve", "game/eve", ""] {
        let code = login(user, json!({ "sub": "eve", "zone": "game" }));
        assert_eq!(code, 0x87, "{user:?}");
    }
    assert_eq!(login("eve", json!({ "sub": "eve" })), 0, "another zone's");
    assert_eq!(login("game/ann", json!({ "zone": "game" })), 0);
    server.wait_log(0, "asked about game/ann");
    let asked = server.log().matches("asked about game/ann").count();
    assert_eq!(asked, 1, "who was judged once is not judged again");
}
