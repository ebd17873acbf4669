//! Failures are slowed down, and nobody is shut out by them.

use std::fs;
use std::time::Instant;

use serde_json::json;
use stentor_tests::raw::connect_as;
use stentor_tests::{Plan, Raw, Server, Version};

use crate::{authenticate, jwt};

/// A server behind a proxy, so that a test chooses the addresses of its clients.
fn behind_proxy() -> Server {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nproxies = [\"127.0.0.1\"]\n\
                  [auth]\nremember = \"0s\"\n";
    let server = Plan::new().config(config).start();
    let file = server.folder().join("password");
    fs::write(&file, "pencil").expect("a file can be written");
    let file = file.to_str().expect("plain names");
    for name in ["ann", "bob"] {
        let add = ["user", "add", name, "--password-file", file];
        server.control(&add).success();
    }
    server
}

fn ask(server: &Server, address: &str, user: &str, password: &str) -> Raw {
    let mut client = server.dial();
    let header = format!("PROXY TCP4 {address} 192.0.2.2 4711 1883\r\n");
    let hello = connect_as(Version::V5, user, true, Some((user, password)));
    client.send(&[header.as_bytes(), &hello].concat());
    client
}

/// The answer, and how long it took in milliseconds.
fn attempt(server: &Server, address: &str, user: &str, password: &str) -> (u8, u128) {
    let begun = Instant::now();
    let code = ask(server, address, user, password).expect(2).body[1];
    (code, begun.elapsed().as_millis())
}

#[test]
fn guesses_wait_and_the_user_does_not() {
    let server = behind_proxy();
    assert_eq!(attempt(&server, "203.0.113.1", "ann", "pencil").0, 0);
    // The first ones are answered as quickly as any; what follows waits 0.25, 0.5, 1 s at least.
    for _ in 0..3 {
        assert_eq!(attempt(&server, "198.51.100.9", "ann", "wrong").0, 0x86);
    }
    let mut waited = 0;
    for _ in 0..4 {
        let (code, millis) = attempt(&server, "198.51.100.9", "ann", "wrong");
        assert_eq!(code, 0x86);
        waited += millis;
    }
    assert!(
        waited >= 1_700,
        "seven guesses were answered within {waited} ms"
    );
    // Many at once are no quicker: some wait for each other, and the rest are told so.
    let mut guesses: Vec<Raw> = (0..40)
        .map(|_| ask(&server, "198.51.100.9", "ann", "wrong"))
        .collect();
    // She herself is let in meanwhile, at once and every time, from where she has been before.
    for _ in 0..3 {
        let (code, _) = attempt(&server, "203.0.113.1", "ann", "pencil");
        assert_eq!(code, 0);
    }
    // Another user of the stranger's address is not touched by so few failures.
    assert_eq!(attempt(&server, "198.51.100.9", "bob", "pencil").0, 0);
    let codes: Vec<u8> = guesses
        .iter_mut()
        .map(|guess| guess.expect(2).body[1])
        .collect();
    let refused = codes.iter().filter(|code| **code == 0x86).count();
    assert!(refused < 20, "{codes:x?}");
    assert!(codes.iter().all(|code| *code != 0), "{codes:x?}");
    // And from an address that nobody has seen, she waits a little and is let in.
    assert_eq!(attempt(&server, "203.0.113.77", "ann", "pencil").0, 0);
}

/// Every attempt is answered, and none is let in.
#[track_caller]
fn fail(mut guesses: Vec<Raw>) {
    for guess in &mut guesses {
        assert_ne!(guess.expect(2).body[1], 0);
    }
}

/// Many addresses guess ann's password, more of them at once than could ever be served in time.
#[test]
fn who_is_attacked_from_everywhere_gets_in_from_a_new_address() {
    let server = behind_proxy();
    let bots: Vec<String> = (1..=40).map(|bot| format!("203.0.113.{bot}")).collect();
    let guess = |bot: &String| ask(&server, bot, "ann", "wrong");
    for _ in 0..2 {
        fail(bots.iter().map(guess).collect());
    }
    let flood: Vec<Raw> = bots.iter().cycle().take(400).map(guess).collect();
    for number in 1..=3 {
        let (code, _) = attempt(&server, &format!("198.51.100.{number}"), "ann", "pencil");
        assert_eq!(code, 0, "attempt {number}");
    }
    fail(flood);
}

/// One address guesses for many names without pause, and somebody comes from there for the first
/// time.
#[test]
fn who_is_new_at_an_attackers_address_gets_in() {
    let server = behind_proxy();
    let names: Vec<String> = (0..10).map(|number| format!("u{number}")).collect();
    let guess = |name: &String| ask(&server, "203.0.113.1", name, "wrong");
    for _ in 0..4 {
        fail(names.iter().map(guess).collect());
    }
    let flood: Vec<Raw> = names.iter().cycle().take(200).map(guess).collect();
    for name in ["ann", "bob"] {
        assert_eq!(attempt(&server, "203.0.113.1", name, "pencil").0, 0);
    }
    // And whoever is attacked there comes from elsewhere without waiting.
    assert_eq!(attempt(&server, "198.51.100.1", "ann", "pencil").0, 0);
    fail(flood);
}

/// A thousand guesses at once are admitted before the first has failed, and still wait.
#[test]
fn many_first_guesses_at_once_are_no_quicker() {
    let server = behind_proxy();
    let guesses: Vec<Raw> = (0..200)
        .map(|_| ask(&server, "203.0.113.1", "ann", "wrong"))
        .collect();
    let mut refused = 0;
    for mut guess in guesses {
        refused += u32::from(guess.expect(2).body[1] == 0x86);
    }
    assert!(
        (3..30).contains(&refused),
        "{refused} guesses were compared"
    );
    assert_eq!(attempt(&server, "198.51.100.1", "ann", "pencil").0, 0);
}

#[test]
fn it_can_be_turned_off() {
    let server = behind_proxy();
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nproxies = [\"127.0.0.1\"]\n\
                  [auth]\nremember = \"0s\"\nslow_failures = false\n";
    server.reconfigure(config);
    server.control(&["reload"]).success();
    let mut guesses: Vec<Raw> = (0..40)
        .map(|_| ask(&server, "198.51.100.9", "ann", "wrong"))
        .collect();
    // None is turned away for want of patience: every password is looked at.
    for guess in &mut guesses {
        assert_eq!(guess.expect(2).body[1], 0x86);
    }
}

/// All at one address and without a name, as behind a balancer without a PROXY header.
#[test]
fn bad_web_tokens_slow_themselves_only() {
    let server = jwt::server(jwt::SECRET, "HS256");
    let now = jwt::now();
    let hello = |id: &str, token: &str| {
        let mut client = server.dial();
        client.send(&authenticate::connect(id, "JWT", token.as_bytes()));
        client
    };
    let good = |name: &str| {
        let begun = Instant::now();
        let token = jwt::signed(json!({ "sub": name }));
        let code = hello(name, &token).expect(2).body[1];
        assert_eq!(code, 0, "{name}");
        begun.elapsed().as_millis()
    };
    good("before");
    let expired = jwt::signed(json!({ "sub": "old", "exp": now - 60 }));
    let (text, _) = expired.rsplit_once('.').expect("three parts");
    let forged = format!("{text}.AAAA");
    let mut bad: Vec<Raw> = (0..30)
        .flat_map(|number| {
            let id = format!("bad{number}");
            [hello(&id, &expired), hello(&id, &forged)]
        })
        .collect();
    // The device that was there before, some that are new, and the one with the old token.
    let slowest = ["before", "new1", "new2", "new3", "old"].map(good);
    let slowest = slowest.iter().max().expect("there are five");
    assert!(*slowest < 4_000, "{slowest} ms");
    let codes: Vec<u8> = bad.iter_mut().map(|bad| bad.expect(2).body[1]).collect();
    let busy = codes.iter().filter(|code| **code == 0x9F).count();
    assert!(busy >= 20, "those wait for each other: {codes:x?}");
    let known = |code: &u8| matches!(code, 0x86 | 0x9F);
    assert!(codes.iter().all(known), "{codes:x?}");
}
