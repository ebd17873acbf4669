//! A full disk: nothing is acknowledged that could not be kept, and what is there goes on.

use stentor_tests::disk::small_disk;
use stentor_tests::raw::{self, eventually};
use stentor_tests::{Plan, Raw, Version};

use crate::{acknowledged, come_back, status};

/// Publishes at QoS 1. Returns the reason code of the acknowledgement.
#[track_caller]
fn try_publish(client: &mut Raw, topic: &str, payload: &[u8]) -> u8 {
    client.send(&raw::publish(Version::V5, topic, payload, 1, false));
    let answer = client.expect(4);
    answer.body.get(2).copied().unwrap_or(0)
}

fn message(number: usize) -> Vec<u8> {
    format!("{number} {}", "x".repeat(10_000)).into_bytes()
}

/// Messages that are numbered, until one is refused however often it is sent. Returns how many were
/// taken.
#[track_caller]
fn fill(publisher: &mut Raw, from: usize) -> usize {
    for number in from..5_000 {
        let mut reasons = (0..100).map(|_| try_publish(publisher, "log", &message(number)));
        // Older files may be given up in the meantime.
        if !reasons.any(|reason| reason == 0) {
            assert_eq!(try_publish(publisher, "log", &message(number)), 0x97);
            return number;
        }
    }
    panic!("the disk does not hold 5,000 messages");
}

/// Takes what waits, and checks that nothing is missing.
#[track_caller]
fn take(client: &mut Raw, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let payload = acknowledged(client);
        let word = payload.split(|byte| *byte == b' ').next();
        assert_eq!(word, Some(number.to_string().as_bytes()));
    }
}

#[test]
fn a_full_disk_refuses_what_it_could_not_keep_and_loses_nothing() {
    refuses_and_loses_nothing("12m", "1");
}

#[test]
fn so_does_a_full_disk_of_several_shards() {
    refuses_and_loses_nothing("40m", "3");
}

fn refuses_and_loses_nothing(size: &str, shards: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let Some(disk) = small_disk(folder.path(), size) else {
        return;
    };
    let config = format!(
        "[sessions]\ndir = \"{}\"\n[limits]\nqueue_bytes = \"64MiB\"\n",
        folder.path().join("sessions").display()
    );
    let plan = Plan::new().tcp().anonymous().config(&config);
    let server = plan.variable("STENTOR_SHARDS", shards).start();
    let (mut absent, _) = come_back(&server, Version::V5, "absent");
    absent.subscribe("log", 1);
    drop(absent);
    let mut publisher = server.client(Version::V5, "p");
    let kept = fill(&mut publisher, 0);
    assert!(kept > 50, "only {kept} were kept");
    // What nobody is owed who is away goes on, within a shard.
    if shards == "1" {
        let mut here = server.client(Version::V5, "here");
        here.subscribe("now", 1);
        assert_eq!(try_publish(&mut publisher, "now", b"1"), 0);
        assert_eq!(acknowledged(&mut here), b"1");
    }
    server.wait_log(0, "the disk of the sessions is full");
    eventually("the status tells", || {
        let troubles = status(&server)["session_store"]["troubles"].to_string();
        troubles.contains("No space left")
    });
    // The server starts on the full disk, several times, and has everything.
    let (mut server, mut taken) = (server.kill().start(), 0);
    for _ in 0..2 {
        let (mut absent, was_there) = come_back(&server, Version::V5, "absent");
        assert!(was_there);
        take(&mut absent, taken..taken + 20);
        // Acknowledgements are written at the end of a turn. The second answer is of a later one.
        absent.ping_among_messages();
        absent.ping_among_messages();
        taken += 20;
        server = server.kill().start();
    }
    let (mut absent, was_there) = come_back(&server, Version::V5, "absent");
    assert!(was_there);
    take(&mut absent, taken..kept);
    // That has made room. Nothing else has to be done.
    let mut publisher = server.client(Version::V5, "p");
    eventually("there is room again", || {
        try_publish(&mut publisher, "log", b"again x") == 0
    });
    assert!(acknowledged(&mut absent).starts_with(b"again"));
    drop(absent);
    let mut next = kept;
    eventually("the disk holds more again", || {
        if try_publish(&mut publisher, "log", &message(next)) == 0 {
            next += 1;
        }
        next >= kept + 50
    });
    let more = fill(&mut publisher, next);
    disk.grow("100m");
    eventually("the disk is larger", || {
        try_publish(&mut publisher, "log", b"later x") == 0
    });
    let server = server.stop_for_restart().start();
    let (mut absent, was_there) = come_back(&server, Version::V5, "absent");
    assert!(was_there);
    take(&mut absent, kept..more);
    assert!(acknowledged(&mut absent).starts_with(b"later"));
}
