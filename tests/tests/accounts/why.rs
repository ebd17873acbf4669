//! `stentor why`: what keeps a message from a client, as the server sees it.

use serde_json::Value;
use stentor_tests::raw::{connect_as, eventually, publish};
use stentor_tests::{Raw, Version};

use crate::place::Place;

/// The check of this name of one side of an answer.
#[track_caller]
pub(crate) fn check<'a>(answer: &'a Value, side: &str, what: &str) -> &'a Value {
    let checks = answer[side]["checks"].as_array().into_iter().flatten();
    let mut found = checks.filter(|check| check["what"] == what);
    found
        .next()
        .unwrap_or_else(|| panic!("nothing is said of {what}: {answer}"))
}

#[track_caller]
pub(crate) fn says(answer: &Value, side: &str, what: &str, (state, part): (&str, &str)) {
    let check = check(answer, side, what);
    assert_eq!(check["state"], state, "{what}: {answer}");
    let text = check["text"].as_str().unwrap_or_default();
    assert!(text.contains(part), "{what}: {text:?} has no {part:?}");
}

impl Place {
    /// The answer of `stentor why`, whatever its exit code says.
    #[track_caller]
    pub(crate) fn why(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = [&["why"], words, &["--json"]].concat();
        let finished = self.run(&words);
        let text = &finished.stdout;
        let answer: Value = serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {text} {finished:?}"));
        let code = i32::from(answer["gets"] == "no");
        assert_eq!(finished.status.code(), Some(code), "{answer}");
        answer
    }
}

#[test]
fn a_subscription_is_found_or_missed() {
    let place = Place::running();
    place.add("ann", &[]);
    let mut ann = place.login("ann");
    ann.subscribe("sensors/+/temperature", 1);
    ann.subscribe("$share/g/jobs/#", 1);
    let answer = place.why(&["ann", "sensors/attic/temperature"]);
    assert_eq!(answer["gets"], "yes", "{answer}");
    says(&answer, "subscriber", "connected", ("good", "mqtt://"));
    let by = ("good", "by sensors/+/temperature with QoS 1");
    says(&answer, "subscriber", "subscribed", by);
    let by = ("good", "role member: allow both #");
    says(&answer, "subscriber", "may receive", by);
    let missed = place.why(&["ann", "sensors/attic"]);
    let why = ("bad", "none of its 2 subscriptions matches");
    says(&missed, "subscriber", "subscribed", why);
    let shared = place.why(&["ann", "jobs/1"]);
    says(
        &shared,
        "subscriber",
        "subscribed",
        ("note", "may be another one"),
    );
    let nobody = place.why(&["nobody", "t"]);
    says(
        &nobody,
        "subscriber",
        "connected",
        ("bad", "has no session"),
    );
    // All zones were searched. Who is asked about on the other side is not who is meant.
    for side in ["subscriber", "publisher"] {
        let text = ("bad", "in any zone");
        let words: &[&str] = match side {
            "publisher" => &["anm", "t", "--to", "ann"],
            _ => &["anm", "t"],
        };
        let answer = place.why(words);
        let what = ["connected", "publisher"][usize::from(side == "publisher")];
        says(&answer, side, what, text);
        assert_eq!(answer[side]["zone"], Value::Null, "{answer}");
        let told = check(&answer, side, what)["text"].to_string();
        assert_eq!(
            told.contains("did you mean"),
            side == "subscriber",
            "{told}"
        );
    }
    let kicked = place.run(&["clients", "kick", "amn"]).refusal();
    assert!(kicked.contains("did you mean \"ann\"?"), "{kicked}");
    let misspelt = place.why(&["anm", "jobs/1", "--to", "amn"]);
    let meant = ("bad", "did you mean \"ann\"?");
    says(&misspelt, "publisher", "publisher", meant);
    says(&misspelt, "subscriber", "connected", meant);
    // One screen for people, with what to do.
    let text = place.run(&["why", "ann", "sensors/attic"]);
    assert_eq!(text.status.code(), Some(1));
    let text = text.stdout;
    assert!(text.lines().count() <= 24, "{text}");
    assert!(
        text.contains("✗  subscribed") && text.contains("WHAT TO DO\n  subscribed:"),
        "{text}"
    );
    let refused = place.run(&["why", "ann", "sensors/#"]);
    assert_eq!(refused.status.code(), Some(3), "a filter is no question");
    for empty in [
        ["why", "", "t", "--to", "ann"],
        ["why", "ann", "t", "--to", ""],
    ] {
        let refused = place.run(&empty);
        assert_eq!(refused.status.code(), Some(3), "{refused}");
        let text = refused.refusal();
        assert!(text.contains("the client id is empty"), "{text}");
    }
    // As long as a topic may be, and one byte longer, of which little is shown.
    let long = "t".repeat(65_535);
    assert_eq!(place.why(&["ann", &long])["gets"], "no");
    let refused = place.run(&["why", "ann", &format!("{long}t")]);
    assert_eq!(refused.status.code(), Some(3), "{}", refused.stderr.len());
    let text = refused.refusal();
    let shown = format!("\"{}\"… (65536 bytes) is not a topic", &long[..64]);
    assert!(text.contains(&shown) && text.len() < 400, "{text}");
}

#[test]
fn the_rule_that_denies_is_named_and_what_was_withheld_is_counted() {
    let place = Place::running();
    let rules = ["allow both #", "deny subscribe secret/#"];
    place
        .run(&[
            "role", "add", "reader", "--rule", rules[0], "--rule", rules[1],
        ])
        .success();
    place.add("ann", &["reader"]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    ann.subscribe("#", 1);
    bob.publish_surely("secret/a", b"x");
    bob.publish_surely("secret/b", b"x");
    bob.publish_surely("open", b"x");
    assert_eq!(ann.message().0, "open");
    let answer = place.why(&["ann", "secret/a"]);
    let why = ("bad", "role reader: deny subscribe secret/#");
    says(&answer, "subscriber", "may receive", why);
    let withheld = ("note", "2, 2 of them in the last minute");
    says(&answer, "subscriber", "withheld", withheld);
    let remedy = check(&answer, "subscriber", "may receive")["remedy"].to_string();
    // Another rule that allows it would change nothing.
    let undo = "role change reader --remove 'deny subscribe secret/#'";
    assert!(
        remedy.contains("user test ann subscribe 'secret/a'") && remedy.contains(undo),
        "{remedy}"
    );
    let shown = place.json(&["clients", "show", "ann"]);
    assert_eq!(shown["withheld"]["total"], 2, "{shown}");
    let listed = place.run(&["clients", "ls"]).success();
    assert!(listed.contains("withheld 2"), "{listed}");
    // It is remembered while the client is away, and what it may have is not in doubt.
    assert_eq!(place.why(&["ann", "open"])["gets"], "yes");
}

#[test]
fn both_sides_are_looked_at() {
    let place = Place::running();
    place
        .run(&[
            "role",
            "add",
            "pump",
            "--rule",
            "allow publish pumps/{user}/#",
        ])
        .success();
    for zone in ["game", "shop"] {
        place.run(&["zone", "add", zone]).success();
    }
    place.add("p1", &["pump"]);
    for user in ["ann", "game/bob", "game/eve", "shop/eve"] {
        place.add(user, &[]);
    }
    let mut pump = place.login("p1");
    let mut ann = place.login("ann");
    let _bob = place.login_as("game/bob", "bob");
    let _eves = (
        place.login_as("game/eve", "eve"),
        place.login_as("shop/eve", "eve"),
    );
    ann.subscribe("pumps/#", 0);
    let answer = place.why(&["p1", "pumps/p1/state", "--to", "ann"]);
    assert_eq!(answer["gets"], "yes", "{answer}");
    let by = ("good", "role pump: allow publish pumps/{user}/#");
    says(&answer, "publisher", "may publish", by);
    let denied = publish(Version::V5, "pumps/p2/state", b"x", 1, false);
    pump.send(&denied);
    pump.expect(4);
    let answer = place.why(&["p1", "pumps/p2/state", "--to", "ann"]);
    let why = ("bad", "no rule of its roles allows it");
    says(&answer, "publisher", "may publish", why);
    says(
        &answer,
        "publisher",
        "refused",
        ("note", "1 of its messages"),
    );
    let answer = place.why(&["p1", "pumps/p1/state", "--to", "bob"]);
    says(&answer, "publisher", "zone", ("bad", "in game"));
    let ambiguous = place.run(&["why", "eve", "t"]);
    assert_eq!(ambiguous.status.code(), Some(3), "{ambiguous:?}");
    let elsewhere = place.why(&["ann", "t", "--zone", "shop"]);
    let there = ("bad", "it is in the zone \"default\"");
    says(&elsewhere, "subscriber", "connected", there);
    let answer = place.why(&["eve", "t", "--zone", "shop"]);
    assert_eq!(answer["subscriber"]["zone_name"], "shop", "{answer}");
}

#[test]
fn a_pause_names_its_quota() {
    let place = Place::running();
    let rule = ["role", "add", "slow", "--rule", "allow both #"];
    place
        .run(&[&rule[..], &["--messages-per-sec", "1"]].concat())
        .success();
    place.add("ann", &["slow"]);
    place.add("bob", &[]);
    let mut ann = place.login("ann");
    let mut bob = place.login("bob");
    bob.subscribe("t", 0);
    let one = publish(Version::V5, "t", b"x", 0, false);
    // A minute's pause at most, which no machine is too slow to see.
    ann.send(&one.repeat(60));
    eventually("it is paused", || {
        let shown = place.json(&["clients", "show", "ann"]);
        shown["connection"]["paused"]["by"] == "messages_per_sec" && shown["pauses"]["total"] == 1
    });
    let answer = place.why(&["ann", "t", "--to", "bob"]);
    says(
        &answer,
        "publisher",
        "is read",
        ("note", "messages_per_sec"),
    );
    let listed = place.run(&["clients", "ls"]).success();
    assert!(listed.contains("paused by messages_per_sec"), "{listed}");
}

#[test]
fn conflation_is_no_loss_and_a_policy_is_named() {
    let place = Place::with("[[policy]]\nfilter = \"tick/#\"\nqos0 = \"conflate\"\nmax_rate = 1\n");
    place.add("ann", &[]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    ann.subscribe("tick/#", 0);
    // In one piece, so that they come within a second.
    let all = [b"1", b"2", b"3"].map(|one| publish(Version::V5, "tick/a", one, 0, false));
    bob.send(&all.concat());
    assert_eq!(ann.message().1, b"1");
    bob.ping();
    let answer = place.why(&["ann", "tick/a"]);
    assert_eq!(answer["gets"], "yes", "{answer}");
    says(&answer, "subscriber", "conflated", ("good", "1, 1 of them"));
    says(&answer, "subscriber", "policy", ("good", "\"tick/#\""));
    says(
        &answer,
        "subscriber",
        "policy",
        ("good", "at most one message in 1s"),
    );
    let shown = place.json(&["clients", "show", "ann"]);
    assert_eq!(shown["lost"]["total"], 0, "{shown}");
    // A zone is named, under one name and the one that it had before.
    assert_eq!(
        (&shown["zone"], &shown["zone_name"]),
        (&"default".into(), &"default".into())
    );
    let people = place.run(&["clients", "show", "ann"]).success();
    assert!(
        people.contains("conflated") && !people.contains("lost"),
        "{people}"
    );
    let status = place.run(&["status"]).success();
    assert!(status.contains("no message was lost"), "{status}");
}

/// A client that is there and acknowledges nothing is not well.
#[test]
fn a_client_that_acknowledges_nothing_is_noticed() {
    let place = Place::running();
    place.add("ann", &[]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    ann.subscribe("q", 1);
    bob.publish_surely("q", b"x");
    ann.expect(3);
    let answer = place.why(&["ann", "q"]);
    assert_eq!(answer["gets"], "yes", "{answer}");
    let unanswered = (
        "note",
        "1 not acknowledged, and nothing has come from it for",
    );
    says(&answer, "subscriber", "waiting", unanswered);
    let text = place.run(&["why", "ann", "q"]).success();
    assert!(text.contains("!  waiting"), "{text}");
}

/// A client that comes back, or is away for good.
#[test]
fn what_waits_for_a_client_that_is_away_is_told() {
    let place = Place::with("[limits]\nqueue_messages = 3\n");
    place.add("ann", &[]);
    place.add("bob", &[]);
    let login = |place: &Place| -> Raw {
        let mut client = place.server().dial();
        client.send(&connect_as(Version::V4, "a", false, Some(("ann", "ann"))));
        client.speaks(Version::V4);
        client.expect(2);
        client
    };
    let mut ann = login(&place);
    ann.subscribe("q/#", 1);
    ann.send(&[0xE0, 0]);
    ann.closed();
    let mut bob = place.login("bob");
    bob.publish_surely("q/1", b"x");
    let answer = place.why(&["a", "q/1"]);
    assert_eq!(answer["gets"], "later", "{answer}");
    says(
        &answer,
        "subscriber",
        "waiting",
        ("good", "1 of 3 messages"),
    );
    for _ in 0..4 {
        bob.publish_surely("q/1", b"x");
    }
    let answer = place.why(&["a", "q/1"]);
    says(
        &answer,
        "subscriber",
        "waiting",
        (
            "bad",
            "its queue is full: 3 messages wait for it, and 3 may",
        ),
    );
    says(&answer, "subscriber", "lost", ("note", "2, 2 of them"));
    let dropped = ("note", "so the newest message was dropped (drop-newest)");
    says(&answer, "subscriber", "lost", dropped);
    // The bound that was met is named, and no other.
    for what in ["waiting", "lost"] {
        let remedy = check(&answer, "subscriber", what)["remedy"].to_string();
        assert!(remedy.contains("`limits.queue_messages`"), "{remedy}");
        assert!(!remedy.contains("queue_bytes"), "{remedy}");
    }
    // Counted for the session, so it is known after the client has come back.
    let _ann = login(&place);
    let answer = place.why(&["a", "q/1"]);
    says(&answer, "subscriber", "lost", ("note", "2 of this topic"));
}

/// The log names the user, the rule and a command that can be pasted.
#[test]
fn what_is_not_permitted_is_logged_with_its_rule() {
    let place = Place::running();
    let rules = ["allow both open/#", "deny both open/secret/#"];
    place
        .run(&[
            "role", "add", "some", "--rule", rules[0], "--rule", rules[1],
        ])
        .success();
    place.run(&["zone", "add", "game"]).success();
    place.add("game/ann", &["some"]);
    let mut ann = place.login_as("game/ann", "a");
    for (topic, why) in [
        ("open/secret/x", "role some: deny both open/secret/#"),
        ("other", "no rule of its roles allows it"),
    ] {
        ann.send(&publish(Version::V5, topic, b"x", 1, false));
        ann.expect(4);
        let log = place
            .server()
            .wait_lines(1, &["publish not permitted", topic]);
        let mut lines = log.lines();
        let line =
            lines.find(|line| line.contains("publish not permitted") && line.contains(topic));
        let line = line.expect("it was waited for");
        for part in [
            "user=\"ann\"",
            why,
            &format!("`stentor user test game/ann publish {topic}`"),
        ] {
            assert!(line.contains(part), "{part:?} is not in {line}");
        }
    }
    ann.send(&stentor_tests::raw::subscribe(Version::V5, 1, "other/#", 0));
    ann.expect(9);
    let line = place
        .server()
        .wait_lines(1, &["subscribe not permitted", "other/#"]);
    assert!(
        line.contains("user test game/ann subscribe 'other/#'"),
        "{line}"
    );
}

/// Against a rule that denies, another one that allows does not help.
#[test]
fn the_log_names_the_rule_that_has_to_go() {
    let place = Place::with_general("allow_anonymous = true\n[log]\n");
    let deny = "deny publish no/#";
    place
        .run(&["role", "change", "anonymous", "--add", deny])
        .success();
    let mut client = place.server().client(Version::V5, "c");
    client.send(&publish(Version::V5, "no/x", b"x", 1, false));
    client.expect(4);
    let log = place
        .server()
        .wait_lines(1, &["publish not permitted", "no/x"]);
    let remedy = format!("`stentor role change anonymous --remove '{deny}'`");
    assert!(log.contains(&remedy), "{log}");
}
