//! What roles allow and deny, as clients meet it.

use stentor_tests::raw::{self, publish, subscribe};
use stentor_tests::{Raw, Version, process, tools};

use crate::place::Place;

/// Not authorized.
const DENIED: u8 = 0x87;

/// The reason code of a SUBACK.
#[track_caller]
fn subscribed(client: &mut Raw, filter: &str) -> u8 {
    client.send(&subscribe(Version::V5, 7, filter, 0));
    *client.expect(9).body.last().expect("a reason code")
}

/// The reason code of a PUBACK; one without any is a success.
#[track_caller]
fn published(client: &mut Raw, topic: &str) -> u8 {
    client.send(&publish(Version::V5, topic, b"x", 1, false));
    client.expect(4).body.get(2).copied().unwrap_or(0)
}

/// Success, or nobody listens.
#[track_caller]
fn is_permitted(client: &mut Raw, topic: &str) -> bool {
    match published(client, topic) {
        0 | 0x10 => true,
        DENIED => false,
        code => panic!("{topic}: {code:#x}"),
    }
}

fn role(place: &Place, name: &str, rules: &[&str]) {
    let mut args = vec!["role", "add", name];
    for rule in rules {
        args.extend(["--rule", rule]);
    }
    place.run(&args).success();
}

#[test]
fn a_new_user_may_what_member_says() {
    let place = Place::running();
    place.add("ann", &[]);
    let mut ann = place.login("ann");
    assert_eq!(subscribed(&mut ann, "#"), 0);
    assert_eq!(subscribed(&mut ann, "$private/from/+"), 0);
    assert_eq!(subscribed(&mut ann, "$unknown/#"), DENIED);
    // Retained figures follow.
    assert_eq!(subscribed(&mut ann, "$SYS/#"), 0);
    place.add("bob", &[]);
    let mut bob = place.login("bob");
    assert!(is_permitted(&mut bob, "any/thing"));
    assert!(!is_permitted(&mut bob, "$SYS/broker/uptime"));
}

#[test]
fn roles_allow_deny_wins_and_the_rest_is_denied() {
    let place = Place::running();
    role(
        &place,
        "sensor",
        &[
            "allow publish sensors/{user}/#",
            "allow both lab/#",
            "deny publish lab/+/locked",
        ],
    );
    role(&place, "guard", &["deny both lab/vault/#"]);
    place.add("ann", &["sensor", "guard"]);
    let mut ann = place.login("ann");
    for (topic, expected) in [
        ("sensors/ann/1", true),
        ("sensors/ann", true),
        ("sensors/bob/1", false),
        ("lab/a", true),
        ("lab/a/locked", false),
        ("lab/vault/gold", false),
        ("other", false),
    ] {
        assert_eq!(is_permitted(&mut ann, topic), expected, "{topic}");
    }
    for (filter, expected) in [
        ("lab/a/#", 0),
        ("lab/#", 0),
        ("#", 0),
        ("lab/vault/#", DENIED),
        ("sensors/ann/#", DENIED),
        ("$share/g/lab/vault/+", DENIED),
    ] {
        assert_eq!(subscribed(&mut ann, filter), expected, "{filter}");
    }
}

#[test]
fn a_name_that_means_something_in_topics_expands_no_placeholder() {
    let place = Place::running();
    role(
        &place,
        "own",
        &[
            "allow both dev/{client}/#",
            "allow both all/#",
            "deny both all/{client}",
        ],
    );
    place.add("ann", &["own"]);
    let mut plain = place.login_as("ann", "c1");
    assert!(is_permitted(&mut plain, "dev/c1/x"));
    assert!(!is_permitted(&mut plain, "dev/c2/x"));
    assert!(is_permitted(&mut plain, "all/c2"));
    assert!(!is_permitted(&mut plain, "all/c1"));
    for client_id in ["+", "#", "c1/x"] {
        let mut sly = place.login_as("ann", client_id);
        assert!(!is_permitted(&mut sly, "dev/c1/x"), "{client_id}");
        assert_eq!(subscribed(&mut sly, "dev/#"), DENIED, "{client_id}");
        assert!(!is_permitted(&mut sly, "all/c2"), "{client_id}");
    }
}

/// The same for the names of users, which other people's tables and tokens may choose.
#[test]
fn a_user_name_that_means_something_in_topics_expands_no_placeholder() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let hash = stentor_tests::server::hash_password("pencil");
    let users: String = ["plain", "+", "a#", "a+b", "$SYS", "{client}"]
        .map(|name| format!("{name}:{hash}\n"))
        .concat();
    let passwords = folder.path().join("passwd");
    std::fs::write(&passwords, users).expect("a file can be written");
    let place = Place::with(&format!(
        "[auth]\nsource = \"mosquitto:{}\"\nrole = \"own\"\n",
        passwords.display()
    ));
    role(
        &place,
        "own",
        &[
            "allow both dev/{user}/#",
            "allow both all/#",
            "deny both all/{user}",
        ],
    );
    let login = |name: &str| {
        let (code, client) = place.connect("victim", (name, "pencil"));
        assert_eq!(code, 0, "{name}");
        client
    };
    let mut plain = login("plain");
    assert!(is_permitted(&mut plain, "dev/plain/x"));
    assert!(!is_permitted(&mut plain, "dev/other/x"));
    assert!(is_permitted(&mut plain, "all/other"));
    for name in ["+", "a#", "a+b"] {
        let mut sly = login(name);
        assert!(!is_permitted(&mut sly, "dev/plain/x"), "{name}");
        assert_eq!(subscribed(&mut sly, "dev/#"), DENIED, "{name}");
        assert!(!is_permitted(&mut sly, "all/other"), "{name}");
    }
    // These are names like any other, and no placeholder is looked for in them again.
    for name in ["$SYS", "{client}"] {
        let mut odd = login(name);
        assert!(is_permitted(&mut odd, &format!("dev/{name}/x")), "{name}");
        assert!(!is_permitted(&mut odd, "dev/victim/x"), "{name}");
    }
}

/// A user without a role here has those that somebody else's tables say, so the last one is not
/// taken.
#[test]
fn the_last_role_of_a_user_whom_others_keep_is_not_taken_without_effect() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let hash = stentor_tests::server::hash_password("pencil");
    let passwords = folder.path().join("passwd");
    std::fs::write(&passwords, format!("ann:{hash}\n")).expect("a file can be written");
    let place = Place::with(&format!(
        "[auth]\nsource = \"mosquitto:{}\"\nrole = \"wide\"\n",
        passwords.display()
    ));
    role(&place, "wide", &["allow both #"]);
    role(&place, "narrow", &["allow both dev/#"]);
    let roles = || place.json(&["user", "show", "ann"])["roles"].clone();
    for (refused, name) in [
        (&["revoke", "ann", "wide"][..], "wide"),
        (&["role", "delete", "narrow", "--force"][..], "narrow"),
        (&["revoke", "ann", "narrow"][..], "narrow"),
    ] {
        if name == "narrow" && roles() != serde_json::json!(["narrow"]) {
            place.run(&["grant", "ann", "narrow"]).success();
            place.run(&["revoke", "ann", "wide"]).success();
        }
        let refusal = place.run(refused).refusal();
        for part in ["without a role here", "wide", "stentor user disable ann"] {
            assert!(refusal.contains(part), "{refusal}");
        }
        assert_eq!(roles(), serde_json::json!([name]), "{refused:?}");
    }
    let (code, mut ann) = place.connect("c1", ("ann", "pencil"));
    assert_eq!(code, 0);
    assert!(is_permitted(&mut ann, "dev/x"));
    assert!(!is_permitted(&mut ann, "other"));
}

/// Every way in which a rule that denies can lie across a subscription.
#[test]
fn what_is_denied_is_withheld_however_the_filter_lies_across_it() {
    let place = Place::running();
    role(
        &place,
        "board",
        &[
            "allow both #",
            "deny subscribe +/secret/#",
            "deny subscribe a/b/c",
        ],
    );
    place.add("ann", &["board"]);
    place.add("bob", &[]);
    let mut bob = place.login("bob");
    let topics = [
        "a/b/c",
        "a/b/d",
        "a/secret",
        "a/secret/x",
        "secret/a",
        "x/secret/y",
        "end",
    ];
    for (filter, wanted) in [
        ("#", &["a/b/d", "secret/a", "end"][..]),
        ("a/#", &["a/b/d"]),
        ("a/+/c", &[]),
        ("a/b/+", &["a/b/d"]),
        ("+/+/+", &["a/b/d"]),
        ("+/#", &["a/b/d", "secret/a", "end"]),
    ] {
        let mut ann = place.login("ann");
        // Of `a/+/c` all but one topic of each level is permitted.
        assert_eq!(subscribed(&mut ann, filter), 0, "{filter}");
        assert_eq!(subscribed(&mut ann, "fence"), 0);
        for topic in topics {
            bob.publish_surely(topic, b"x");
        }
        bob.publish_surely("fence", b"x");
        let mut heard = Vec::new();
        loop {
            match ann.message().0 {
                // `#` hears it a second time.
                topic if topic == "fence" => break,
                topic => heard.push(topic),
            }
        }
        assert_eq!(heard, wanted, "{filter}");
    }
}

#[test]
fn a_subscription_that_is_wider_delivers_what_is_permitted() {
    let place = Place::running();
    role(
        &place,
        "board",
        &["allow subscribe #", "deny subscribe secret/#"],
    );
    place.add("ann", &["board"]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    bob.send(&publish(Version::V5, "secret/old", b"retained", 1, true));
    bob.expect(4);
    assert_eq!(subscribed(&mut ann, "#"), 0);
    for topic in ["secret/a", "secret", "open/a"] {
        bob.publish_surely(topic, topic.as_bytes());
    }
    // What is withheld would have come before.
    assert_eq!(ann.message().0, "open/a");
}

#[test]
fn under_strict_a_subscription_that_is_wider_is_refused() {
    let place = Place::with("[auth]\nsubscribe = \"strict\"\n");
    role(
        &place,
        "board",
        &["allow subscribe #", "deny subscribe secret/#"],
    );
    place.add("ann", &["board"]);
    let mut ann = place.login("ann");
    assert_eq!(subscribed(&mut ann, "#"), DENIED);
    assert_eq!(subscribed(&mut ann, "+/x"), DENIED);
    assert_eq!(subscribed(&mut ann, "open/#"), 0);
    assert_eq!(subscribed(&mut ann, "secret/#"), DENIED);
}

#[test]
fn a_command_answers_what_a_user_may_and_which_rule_decides() {
    let place = Place::running();
    role(
        &place,
        "board",
        &["allow subscribe #", "deny subscribe secret/#"],
    );
    place.add("ann", &["board"]);
    let ask = |args: &[&str]| {
        let args: Vec<&str> = ["user", "test", "ann"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let mut command = stentor_tests::server::stentor();
        command.args(&args).arg("--json");
        let finished = process::run(command.arg("--data-dir").arg(place.data_dir()));
        let text = finished.stdout.clone();
        let answer: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {finished}"));
        answer
    };
    let open = ask(&["subscribe", "open/a"]);
    assert_eq!(
        (&open["allowed"], &open["access"]),
        (&true.into(), &"all".into())
    );
    assert_eq!(open["rule"], "allow subscribe #");
    let wide = ask(&["subscribe", "#"]);
    assert_eq!(
        (&wide["allowed"], &wide["access"]),
        (&true.into(), &"part".into())
    );
    let secret = ask(&["subscribe", "secret/a"]);
    assert_eq!(secret["allowed"], false);
    assert_eq!(secret["rule"], "deny subscribe secret/#");
    assert_eq!(secret["role"], "board");
    let publish = ask(&["publish", "open/a"]);
    assert_eq!(
        (&publish["allowed"], &publish["rule"]),
        (&false.into(), &serde_json::Value::Null)
    );
    let told = place
        .run(&["user", "test", "ann", "subscribe", "x"])
        .success();
    assert!(
        told.contains("ann may subscribe to x: role board: allow subscribe #"),
        "{told}"
    );
    place
        .run(&["user", "test", "ann", "publish", "a/#"])
        .refusal();
    place
        .run(&["user", "test", "nobody", "publish", "a"])
        .refusal();
}

/// What `docs/conformance` says of acknowledgements: a reason string where there is more to say
/// than the code does, to clients that want it, and never a user property.
#[test]
fn acknowledgements_carry_reason_strings_and_no_user_properties() {
    const REASON_STRING: u8 = 0x1F;
    let place = Place::running();
    place
        .run(&["role", "add", "open", "--rule", "allow both open/#"])
        .success();
    place.add("ann", &["open"]);
    // Request Problem Information: asked for, not said, not wanted [MQTT-3.1.2.11.7].
    for (properties, is_told) in [(&[0x17, 1][..], true), (&[], true), (&[0x17, 0], false)] {
        let mut body = raw::string("MQTT");
        body.extend([5, 0xC2, 0, 0]);
        body.push(u8::try_from(properties.len()).expect("two bytes at most"));
        body.extend(properties);
        for text in ["c", "ann", "ann"] {
            body.extend(raw::string(text));
        }
        let mut client = place.server().dial();
        client.send(&raw::packet(0x10, &body));
        client.speaks(Version::V5);
        assert_eq!(client.expect(2).body[1], 0);
        client.send(&publish(Version::V5, "closed", b"x", 1, false));
        // Packet identifier, reason code, and then, if there are any, properties.
        let body = client.expect(4).body;
        let told = body.get(3..).unwrap_or_default();
        assert_eq!(body[2], 0x87, "{body:?}");
        assert_eq!(!told.is_empty(), is_told, "{body:?}");
        if is_told {
            let text = "the right to publish to this topic is missing";
            let expected = [&[REASON_STRING][..], &raw::string(text)].concat();
            assert_eq!(told[1..], expected, "it alone: {body:?}");
        }
    }
}

/// The same as a client shows it that nobody here wrote.
#[test]
fn mosquitto_shows_why_a_publish_is_refused() {
    let place = Place::running();
    place
        .run(&["role", "add", "open", "--rule", "allow both open/#"])
        .success();
    place.add("ann", &["open"]);
    let mut command = tools::mosquitto("mosquitto_pub");
    command.args(["-V", "5", "-q", "1", "-u", "ann", "-P", "ann"]);
    command.args(["-h", "127.0.0.1", "-p", &place.server().port("mqtt")]);
    command.args(["-t", "closed", "-m", "x"]);
    let told = process::run(&mut command);
    let told = format!("{}{}", told.stdout, told.stderr);
    assert!(told.contains("the right to publish"), "{told}");
}
