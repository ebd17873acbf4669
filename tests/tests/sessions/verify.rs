//! `stentor sessions verify`: what is damaged, and which sessions lack something for that.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stentor_tests::raw::eventually;
use stentor_tests::{Finished, Plan, Server, Version, process, server};

use crate::{come_back, status};

#[track_caller]
fn verify(plan: &Plan, more: &[&str]) -> Finished {
    let mut command = server::stentor();
    command.args(["sessions", "verify"]).args(more);
    process::run(command.arg("--data-dir").arg(plan.data_dir()))
}

/// What `--json` says, and the exit code.
#[track_caller]
fn report(plan: &Plan) -> (Value, Option<i32>) {
    let done = verify(plan, &["--json"]);
    let told = serde_json::from_str(&done.stdout);
    (
        told.unwrap_or_else(|_| panic!("{done}")),
        done.status.code(),
    )
}

/// All files of a folder and those below it, and their bytes.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            all.extend(content(&path));
        } else if path.is_file() {
            // The control socket is none.
            let bytes = fs::read(&path).expect("the file is there");
            all.insert(path, bytes);
        }
    }
    all
}

/// Sessions with subscriptions, and a message for one of them, after a kill.
fn killed() -> Plan {
    let plan = Plan::new().tcp().anonymous();
    let server = plan.variable("STENTOR_SHARDS", "1").start();
    for id in ["first", "victim", "last"] {
        let (mut client, _) = come_back(&server, Version::V5, id);
        client.subscribe(&format!("filter-of-{id}"), 1);
        client.send(&[0xE0, 0]);
        client.closed();
    }
    let mut publisher = server.client(Version::V4, "publisher");
    publisher.publish_surely("filter-of-victim", b"a precious payload");
    publisher.publish_surely("filter-of-last", b"another one");
    server.kill()
}

/// Changes one byte where a text stands in a journal. Returns the name of the file, and the
/// place.
#[track_caller]
fn damage(plan: &Plan, text: &[u8]) -> (String, u64) {
    let folder = plan.data_dir().join("sessions");
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_none_or(|it| it != "log") {
            continue;
        }
        let mut bytes = fs::read(&path).expect("the file is there");
        let place = bytes.windows(text.len()).position(|part| part == text);
        if let Some(place) = place {
            bytes[place] ^= 1;
            fs::write(&path, bytes).expect("a file can be written");
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.expect("it has a name").to_owned();
            return (name, place as u64);
        }
    }
    panic!("{:?} is in no journal", String::from_utf8_lossy(text));
}

#[test]
fn what_a_kill_leaves_is_whole_and_nothing_is_changed() {
    let plan = killed();
    let before = content(plan.folder());
    let told = verify(&plan, &[]).success();
    assert!(
        told.starts_with("3 sessions whole, 0 that may lack something; 0 places found damaged"),
        "{told}"
    );
    assert!(told.contains("3 subscriptions, 2 messages"), "{told}");
    let (report, code) = report(&plan);
    assert_eq!(
        (code, &report["generations"]),
        (Some(0), &serde_json::json!([1]))
    );
    assert!(content(plan.folder()) == before, "files have changed");
    let server = plan.start();
    assert!(come_back(&server, Version::V5, "victim").1);
}

/// One byte of a message is wrong: that is lost, and its session is named.
#[test]
fn a_damaged_message_is_told_with_its_session() {
    let plan = killed();
    let (file, place) = damage(&plan, b"a precious payload");
    let before = content(plan.folder());
    let (report, code) = report(&plan);
    assert_eq!(code, Some(1));
    assert!(content(plan.folder()) == before, "files have changed");
    let found = &report["reports"][0];
    assert_eq!(
        (&report["found"], &found["file"]),
        (&1.into(), &file.into())
    );
    let from = found["offset"].as_u64().unwrap();
    let to = from + found["bytes"].as_u64().unwrap();
    assert!((from..to).contains(&place), "{report:#}");
    assert_eq!(found["names"], serde_json::json!(["victim"]));
    let harmed = report["harmed"].as_array().unwrap();
    assert_eq!(harmed[0]["client_id"], "victim", "{report:#}");
    assert_eq!(harmed[0]["outcome"], "named");
    // Others may have been told of there too.
    assert!(harmed[1..].iter().all(|it| it["outcome"] == "possible"));
    let text = verify(&plan, &[]);
    assert_eq!(text.status.code(), Some(1));
    assert!(
        text.stderr.contains("the next start goes round it"),
        "{text}"
    );
    let line = text.stdout.lines().find(|line| line.starts_with("victim "));
    assert!(line.is_some_and(|line| line.contains("named")), "{text}");
    // What a start says is the same.
    let server = plan.start();
    assert_eq!(status(&server)["session_store"]["damaged_at_start"], 1);
}

#[test]
fn a_damaged_subscription_is_told_with_its_session() {
    let plan = killed();
    damage(&plan, b"filter-of-victim");
    let (report, code) = report(&plan);
    assert_eq!(code, Some(1));
    let harmed = &report["harmed"][0];
    assert_eq!(
        (&harmed["client_id"], &harmed["outcome"]),
        (&"victim".into(), &"named".into())
    );
    assert!(
        harmed["places"][0].as_str().unwrap().contains(".log:"),
        "{report:#}"
    );
}

/// The only record of a session is damaged: it is gone, and is told all the same.
#[test]
fn a_session_that_is_gone_is_told() {
    let plan = killed();
    // The flag in front of the client id says that it has no user.
    damage(&plan, b"\x06victim");
    let (report, code) = report(&plan);
    assert_eq!(code, Some(1), "{report:#}");
    assert_eq!(
        (&report["sessions"], &report["costly"]),
        (&2.into(), &2.into())
    );
}

#[test]
fn a_damaged_copy_costs_nothing() {
    let plan = killed();
    let copy = plan.data_dir().join("sessions/journal.copy");
    let mut bytes = fs::read(&copy).unwrap();
    bytes[20] ^= 1;
    fs::write(&copy, bytes).unwrap();
    let (told, code) = report(&plan);
    assert_eq!(
        (code, &told["found"], &told["costly"]),
        (Some(0), &1.into(), &0.into())
    );
    fs::remove_file(plan.data_dir().join("sessions/journal")).unwrap();
    let (told, code) = report(&plan);
    assert_eq!((code, &told["sessions"]), (Some(0), &3.into()), "{told:#}");
}

/// Removes the files of journals with these numbers.
fn remove(plan: &Plan, numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        let file = plan.data_dir().join(format!("sessions/{number:08}.log"));
        fs::remove_file(file).expect("the file is there");
    }
}

/// The only file in which there was anything is gone: nobody knows which sessions there were.
#[test]
fn a_missing_file_is_told() {
    let plan = killed();
    remove(&plan, [1]);
    let (told, code) = report(&plan);
    let place = &told["reports"][0];
    assert_eq!(
        (code, &told["costly"], &place["file"]),
        (Some(1), &1.into(), &"00000001.log".into()),
        "{told:#}"
    );
    let server = plan.start();
    assert_eq!(status(&server)["session_store"]["damaged_at_start"], 1);
    assert!(!come_back(&server, Version::V5, "victim").1);
    // The start has told it, and a new one does not.
    let (told, code) = report(&server.stop_for_restart());
    assert_eq!((code, &told["found"]), (Some(0), &0.into()), "{told:#}");
}

/// All files are gone: how many there were is known after an orderly end.
#[test]
fn missing_files_are_counted() {
    let plan = killed().start().stop_for_restart();
    let journals = || {
        let all = fs::read_dir(plan.data_dir().join("sessions")).expect("the folder is there");
        let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".log")?.parse().ok())
    };
    let (_, code) = report(&plan);
    assert_eq!(code, Some(0));
    let numbers: Vec<u32> = journals().collect();
    remove(&plan, numbers.iter().copied());
    let (told, code) = report(&plan);
    let what = told["reports"][0]["what"].as_str().unwrap_or_default();
    let expected = format!("{} more files are missing", numbers.len());
    assert!(code == Some(1) && what.starts_with(&expected), "{told:#}");
}

/// What follows a missing file tells of sessions that nothing names.
#[test]
fn sessions_of_which_nothing_is_known_are_counted() {
    let plan = Plan::new().tcp().anonymous();
    let server = plan.variable("STENTOR_SHARDS", "1").start();
    for id in ["one", "two", "quiet"] {
        let (mut client, _) = come_back(&server, Version::V5, id);
        client.subscribe(&format!("for/{id}"), 1);
        client.send(&[0xE0, 0]);
        client.closed();
    }
    let mut publisher = server.client(Version::V4, "publisher");
    for id in ["one", "two"].repeat(4) {
        publisher.publish_surely(&format!("for/{id}"), &[b'x'; 500_000]);
    }
    let plan = server.kill();
    remove(&plan, [1]);
    let (told, code) = report(&plan);
    assert_eq!(
        (code, &told["nameless"], &told["sessions"]),
        (Some(1), &2.into(), &0.into()),
        "{told:#}"
    );
    let text = verify(&plan, &[]);
    let line = "2 sessions more, of which nothing is known";
    assert!(text.stdout.contains(line), "{text}");
}

/// A part of a long backlog is damaged, and another one is missing.
#[test]
fn damage_of_a_backlog_is_told_with_its_session() {
    const MESSAGES: usize = 2_000;
    let config = "[sessions]\nmemory = 0\n";
    let server = Plan::new().tcp().anonymous().config(config).start();
    let (mut absent, _) = come_back(&server, Version::V5, "absent");
    absent.subscribe("log", 1);
    absent.send(&[0xE0, 0]);
    absent.closed();
    let mut publisher = server.client(Version::V4, "publisher");
    for _ in 0..MESSAGES {
        publisher.publish_surely("log", &[b'x'; 1_000]);
    }
    eventually("most of it is on the disk", || {
        let told = status(&server);
        told["session_store"]["backlog_bytes"].as_u64() > Some(0)
    });
    let plan = server.kill();
    let (told, code) = report(&plan);
    assert_eq!(
        (code, &told["messages"]),
        (Some(0), &MESSAGES.into()),
        "{told:#}"
    );
    let spool = plan.data_dir().join("sessions/spool/00000001.spool");
    let mut bytes = fs::read(&spool).unwrap();
    bytes[100_000] ^= 1;
    fs::write(&spool, bytes).unwrap();
    let (told, code) = report(&plan);
    let harmed = &told["harmed"][0];
    assert_eq!(
        (code, &harmed["client_id"]),
        (Some(1), &"absent".into()),
        "{told:#}"
    );
    // A part of a backlog has 64 messages at most.
    let lost = harmed["lost_messages"].as_u64().unwrap();
    assert!(
        harmed["outcome"] == "lost" && (1..=64).contains(&lost),
        "{harmed}"
    );
    let place = harmed["places"][0].as_str().unwrap();
    assert!(place.starts_with("spool/00000001.spool:"), "{place}");
    fs::remove_file(&spool).unwrap();
    let (told, code) = report(&plan);
    assert_eq!(
        (code, &told["reports"][0]["what"]),
        (Some(1), &"the file is missing".into())
    );
}

/// The machine lost its power: the tail that no commit had promised is not damage.
#[test]
fn a_torn_tail_after_a_power_loss_is_not_damage() {
    let config = "[sessions]\nsync = \"never\"\n";
    let plan = Plan::new().tcp().anonymous().config(config);
    let server = plan.variable("STENTOR_SHARDS", "1").start();
    for id in ["first", "last"] {
        come_back(&server, Version::V5, id)
            .0
            .subscribe(&format!("filter-of-{id}"), 1);
    }
    let plan = server.kill();
    let folder = plan.data_dir().join("sessions");
    for name in ["journal", "journal.copy"] {
        // Without them, nobody knows which start of the machine it was.
        fs::remove_file(folder.join(name)).unwrap();
    }
    damage(&plan, b"filter-of-last");
    let (told, code) = report(&plan);
    assert_eq!(
        (code, &told["torn"], &told["costly"]),
        (Some(0), &1.into(), &0.into())
    );
    let text = verify(&plan, &[]).success();
    assert!(text.contains("this is not damage"), "{text}");
}

#[test]
fn a_folder_of_a_later_version_is_refused() {
    let server = Server::open();
    come_back(&server, Version::V5, "c").0.subscribe("x", 1);
    let plan = server.stop_for_restart();
    let journal = plan.data_dir().join("sessions/journal");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[8] = 2;
    let checked = bytes[..12].iter().chain(&bytes[16..]).copied();
    let checksum = crate::damage::crc(checked).to_le_bytes();
    bytes[12..16].copy_from_slice(&checksum);
    fs::write(&journal, &bytes).unwrap();
    let refused = verify(&plan, &[]).refusal();
    assert!(refused.contains("has format 2"), "{refused}");
}
