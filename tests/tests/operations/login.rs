//! The rules of logins.

use stentor_tests::raw::{connect_as, publish, string, subscribe};
use stentor_tests::server::hash_password;
use stentor_tests::{Plan, Server, Version};

fn with_alice() -> Server {
    let hash = hash_password("correct horse");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
         [[user]]\nname = \"alice\"\npassword_hash = \"{hash}\"\n"
    );
    Plan::new().config(&config).start()
}

/// The reason code of the CONNACK.
#[track_caller]
fn answer(server: &Server, version: Version, login: Option<(&str, &str)>) -> u8 {
    let mut client = server.dial();
    client.send(&connect_as(version, "c", true, login));
    let code = client.expect(2).body[1];
    if code != 0 {
        assert!(
            client.rest().is_empty(),
            "a refused client hears nothing more"
        );
    }
    code
}

#[test]
fn the_right_password_lets_a_user_in() {
    let server = with_alice();
    for version in stentor_tests::raw::VERSIONS {
        assert_eq!(
            answer(&server, version, Some(("alice", "correct horse"))),
            0
        );
    }
}

#[test]
fn a_wrong_password_is_refused_and_logged_with_a_remedy() {
    let server = with_alice();
    // 0x86 "bad user name or password"; 4 says the same in MQTT 3.1.1.
    assert_eq!(answer(&server, Version::V5, Some(("alice", "wrong"))), 0x86);
    assert_eq!(answer(&server, Version::V4, Some(("alice", "wrong"))), 4);
    assert_eq!(
        answer(&server, Version::V5, Some(("mallory", "correct horse"))),
        0x86
    );
    let log = server.wait_log(0, "refused");
    assert!(log.contains("alice"), "{log}");
    assert!(!log.contains("wrong\""), "a password is in the log: {log}");
}

#[test]
fn nobody_is_let_in_without_a_name() {
    let server = with_alice();
    assert_eq!(answer(&server, Version::V5, None), 0x87);
    assert_eq!(answer(&server, Version::V4, None), 5);
    server.wait_log(0, "--allow-anonymous");
    // An empty name is none.
    assert_eq!(answer(&server, Version::V5, Some(("", ""))), 0x87);
    let open = Server::open();
    assert_eq!(answer(&open, Version::V5, Some(("", ""))), 0);
    assert_eq!(answer(&open, Version::V4, Some(("", "left over"))), 0);
}

/// [MQTT-4.12.0-1] [MQTT-4.12.0-4]
#[test]
fn an_authentication_method_that_nobody_knows_is_refused() {
    let server = Server::open();
    let mut client = server.dial();
    let mut login = connect_as(Version::V5, "c", true, None);
    // An authentication method where there were no properties.
    let method = [&[0x15][..], &string("KERBEROS")].concat();
    login[1] += 11;
    login[12] = 11;
    login.splice(13..13, method);
    client.send(&login);
    assert_eq!(client.expect(2).body[1], 0x8C);
    assert!(client.rest().is_empty());
}

/// [MQTT-3.1.2-30] A client that was asked for more by AUTH publishes and subscribes to nothing.
#[test]
fn before_connack_an_authenticating_client_may_only_go_on_or_leave() {
    let server = with_alice();
    let property = |id: u8, text: &str| [vec![id], string(text)].concat();
    let method = property(0x15, "SCRAM-SHA-256");
    let first = property(0x16, "n,,n=alice,r=0123456789abcdef");
    let properties = [method, first].concat();
    let mut login = connect_as(Version::V5, "c", true, None);
    let length = u8::try_from(properties.len()).expect("a byte holds it");
    login[1] += length;
    login[12] = length;
    login.splice(13..13, properties);
    for packet in [
        publish(Version::V5, "kept", b"by an intruder", 0, true),
        subscribe(Version::V5, 1, "#", 0),
        vec![0xC0, 0],
    ] {
        let mut intruder = server.dial();
        intruder.send(&login);
        let asked = intruder.expect(15);
        assert_eq!(asked.body[0], 0x18, "{asked:?}");
        intruder.send(&packet);
        assert_eq!(intruder.expect(2).body[1], 0x82);
        assert!(intruder.rest().is_empty());
    }
    let mut alice = server.dial();
    alice.send(&connect_as(
        Version::V5,
        "a",
        true,
        Some(("alice", "correct horse")),
    ));
    alice.speaks(Version::V5);
    assert_eq!(alice.expect(2).body[1], 0);
    alice.subscribe("kept", 0);
    alice.ping();
    // DISCONNECT instead of an answer ends it without a word.
    let mut leaving = server.dial();
    leaving.send(&login);
    leaving.expect(15);
    leaving.send(&[0xE0, 0]);
    assert!(leaving.rest().is_empty());
}

#[test]
fn a_user_who_is_added_by_a_reload_gets_in() {
    let base = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let server = Plan::new().config(base).start();
    assert_eq!(answer(&server, Version::V5, Some(("bob", "b"))), 0x86);
    let user = format!(
        "{base}[[user]]\nname = \"bob\"\npassword_hash = \"{}\"\n",
        hash_password("b")
    );
    server.reconfigure(&user);
    server.control(&["reload"]).success();
    assert_eq!(answer(&server, Version::V5, Some(("bob", "b"))), 0);
}

/// What a reload does to rights is written down like what a command does.
#[test]
fn a_reload_that_changes_users_is_in_the_audit_log() {
    let base = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let hash = hash_password("b");
    let user = format!("{base}[[user]]\nname = \"bob\"\npassword_hash = \"{hash}\"\n");
    let bob = |more: &str| format!("{user}{more}");
    let server = Plan::new().config(&bob("")).start();
    let audit = server.data_dir().join("audit.log");
    for (config, expected) in [
        (bob("admin = true\n"), r#""users":{"bob":["admin"]}"#),
        (base.to_owned(), r#""users":{"bob":null}"#),
    ] {
        server.reconfigure(&config);
        server.control(&["reload"]).success();
        let log = std::fs::read_to_string(&audit).expect("there is a log");
        let last = log.lines().last().expect("it has lines");
        for part in ["config.reload", "user[bob]", expected] {
            assert!(last.contains(part), "{log}");
        }
    }
    let before = std::fs::read_to_string(&audit).expect("there is a log");
    server.control(&["reload"]).success();
    let after = std::fs::read_to_string(&audit).expect("there is a log");
    // Nothing has changed, and somebody has asked for it.
    let more = after.strip_prefix(&before).expect("it goes on");
    assert!(
        more.contains(r#""changed":[],"renewed":[],"users":{}"#),
        "{after}"
    );
    assert_eq!(more.lines().count(), 1, "{after}");
}

/// The files that the configuration names change who may come in, too.
#[test]
fn a_reload_that_reads_other_keys_of_tokens_is_in_the_audit_log() {
    let plan = Plan::new();
    let file = plan.folder().join("secret");
    std::fs::write(&file, "a".repeat(32)).expect("a file can be written");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[[jwt]]\nkey_file = \"{}\"\n\
         algorithms = [\"HS256\"]\n",
        file.display()
    );
    let server = plan.config(&config).start();
    let audit = || {
        let audit = server.data_dir().join("audit.log");
        std::fs::read_to_string(audit).expect("there is a log")
    };
    let before = audit();
    std::fs::write(&file, "b".repeat(32)).expect("a file can be written");
    let text = server.control(&["reload"]).success();
    assert!(text.contains("secret"), "{text}");
    let log = audit();
    let last = log.lines().last().expect("it has lines");
    for part in ["config.reload", "\"renewed\"", "secret"] {
        assert!(last.contains(part), "{log}");
    }
    server.control(&["reload"]).success();
    let after = audit();
    let more = after.strip_prefix(&log).expect("it goes on");
    assert!(more.contains(r#""changed":[],"renewed":[]"#), "{after}");
    assert_eq!(log.lines().count(), before.lines().count() + 1, "{log}");
}

/// 3.1.1 [MQTT-3.1.4-5], 5.0 [MQTT-3.1.4-6]: what was sent along with a refused CONNECT.
#[test]
fn nothing_after_a_refused_connect_is_processed() {
    let server = with_alice();
    for version in stentor_tests::raw::VERSIONS {
        let mut intruder = server.dial();
        let mut bytes = connect_as(version, "c", true, Some(("alice", "wrong")));
        bytes.extend(publish(version, "kept", b"by an intruder", 0, true));
        bytes.extend(subscribe(version, 1, "kept", 0));
        intruder.send(&bytes);
        assert_ne!(intruder.expect(2).body[1], 0);
        assert!(
            intruder.rest().is_empty(),
            "neither SUBACK nor anything else"
        );
        let mut alice = server.dial();
        let login = Some(("alice", "correct horse"));
        alice.send(&connect_as(version, "a", true, login));
        alice.speaks(version);
        assert_eq!(alice.expect(2).body[1], 0);
        alice.subscribe("kept", 0);
        // A retained message would come before this answer.
        alice.ping();
    }
}

/// 3.1.1 [MQTT-3.2.2-6]: there is no return code for a packet that breaks the rules.
#[test]
fn a_connect_without_a_fitting_return_code_is_closed_without_a_word() {
    let server = Server::open();
    let mut client = server.dial();
    let mut reserved = connect_as(Version::V4, "c", true, None);
    reserved[9] |= 1;
    client.send(&reserved);
    assert!(client.rest().is_empty());
}
