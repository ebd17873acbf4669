//! Damaged files: found, told by topic, and no reason not to start.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Server, Version, process, server};

use crate::support::{keep, snapshot};

fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join("retained")).expect("the folder is there");
    let paths = files.map(|file| file.expect("a file").path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "seg"))
        .collect()
}

fn filled() -> Plan {
    let server = Server::open();
    let mut client = server.client(Version::V4, "p");
    for i in 0..200 {
        let (topic, payload) = (format!("t/{i}"), format!("payload {i}."));
        keep(&mut client, Version::V4, &topic, payload.as_bytes());
    }
    drop(client);
    server.stop_for_restart()
}

#[test]
fn a_damaged_message_is_told_by_its_topic_and_skipped() {
    let plan = filled();
    let mut changed = 0;
    for path in segments(&plan.data_dir()) {
        let mut bytes = fs::read(&path).expect("a file can be read");
        let needle = b"payload 77.";
        let found = bytes.windows(needle.len()).position(|part| part == needle);
        if let Some(at) = found {
            bytes[at + 3] ^= 0x10;
            fs::write(&path, &bytes).expect("a file can be written");
            changed += 1;
        }
    }
    assert_eq!(changed, 1, "one file has the message");
    let server = plan.start();
    let log = server.wait_log(0, "damage was found");
    assert!(log.contains("t/77"), "{log}");
    let found = snapshot(&server, "#");
    assert_eq!(found.len(), 199);
    assert!(!found.contains_key("t/77"));
    let verified = server.control(&["retained", "verify"]);
    assert_eq!(verified.status.code(), Some(1), "{verified}");
    let text = &verified.stdout;
    assert!(text.contains("199 whole, 0 damaged"), "{text}");
    assert!(text.contains("t/77"), "{text}");
    assert!(verified.stderr.contains("publish them again"), "{verified}");
    // The topic works as before, and nothing is lost any more.
    let mut client = server.client(Version::V4, "p");
    keep(&mut client, Version::V4, "t/77", b"again");
    let verified = server.control(&["retained", "verify"]).success();
    assert!(verified.contains("lost, published again"), "{verified}");
    let plan = server.kill();
    assert_eq!(snapshot(&plan.start(), "#").len(), 200);
}

/// A running server remembers what was lost when it started.
#[test]
fn a_lost_file_is_told_by_a_running_server() {
    let zeros: fn(&Path) = |path| {
        let len = fs::metadata(path).expect("a file is there").len();
        let len = usize::try_from(len).expect("a file is small");
        fs::write(path, vec![0; len]).expect("a file can be written");
    };
    let removed: fn(&Path) = |path| fs::remove_file(path).expect("a file can be removed");
    for spoil in [zeros, removed] {
        let plan = filled();
        let path = &segments(&plan.data_dir())[0];
        spoil(path);
        let server = plan.start();
        let verified = server.control(&["retained", "verify", "--json"]);
        assert_eq!(verified.status.code(), Some(1), "{verified}");
        let told: serde_json::Value =
            serde_json::from_str(&verified.stdout).expect("the answer is JSON");
        assert!(told["losses"].as_u64() > Some(0), "{told}");
        assert_eq!(told["damaged"], 0, "{told}");
        let name = path.file_name().and_then(|name| name.to_str());
        let is_it = |report: &serde_json::Value| {
            report["file"].as_str() == name && report["outcome"] == "lost"
        };
        let reports = told["reports"].as_array().expect("there is a list");
        assert!(reports.iter().any(is_it), "{told}");
        assert!(verified.stderr.contains("publish them again"), "{verified}");
        let server = server.stop_for_restart().start();
        server.control(&["retained", "verify"]).success();
    }
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder.join("retained")).expect("the folder is there");
    let paths = files.map(|file| file.expect("a file").path());
    paths
        .map(|path| {
            let bytes = fs::read(&path).expect("a file can be read");
            (path, bytes)
        })
        .collect()
}

/// While no server runs, reading commands read: damage is told each time, and nothing is mended.
#[test]
fn verifying_files_changes_none_of_them() {
    let plan = filled();
    let folder = plan.data_dir();
    let retained = |args: &[&str]| {
        let mut command = server::stentor();
        command.arg("retained").args(args).arg("--data-dir");
        process::run(command.arg(&folder))
    };
    retained(&["verify"]).success();
    for path in segments(&folder) {
        let mut bytes = fs::read(&path).expect("a file can be read");
        for number in 50..60 {
            let needle = format!("payload {number}.");
            let found = bytes
                .windows(needle.len())
                .position(|part| part == needle.as_bytes());
            if let Some(at) = found {
                bytes[at] ^= 1;
            }
        }
        fs::write(&path, &bytes).expect("a file can be written");
    }
    let before = files(&folder);
    for _ in 0..2 {
        let verified = retained(&["verify", "--json"]);
        assert_eq!(verified.status.code(), Some(1), "{verified}");
        let told: serde_json::Value =
            serde_json::from_str(&verified.stdout).expect("the answer is JSON");
        assert_eq!(told["whole"], 190, "{told}");
        let reports = told["reports"].as_array().expect("there is a list");
        assert_eq!(reports.len(), 10);
        assert!(reports.iter().all(|report| report["outcome"] == "lost"));
    }
    retained(&["ls"]).success();
    retained(&["count"]).success();
    retained(&["export"]).success();
    assert!(files(&folder) == before, "nothing was written");
    assert_eq!(snapshot(&plan.start(), "#").len(), 190);
}

/// Damage that cost nothing is told, and is no failure: neither of the files nor of a server.
#[test]
fn damage_that_cost_nothing_is_no_failure() {
    let plan = filled();
    let folder = plan.data_dir();
    let path = &segments(&folder)[0];
    let mut bytes = fs::read(path).expect("a file can be read");
    // The head is made anew.
    bytes[10] ^= 1;
    fs::write(path, &bytes).expect("a file can be written");
    let mut command = server::stentor();
    command.args(["retained", "verify", "--data-dir"]);
    let offline = process::run(command.arg(&folder)).success();
    let server = plan.start();
    let online = server.control(&["retained", "verify"]).success();
    for text in [offline, online] {
        assert!(text.starts_with("200 whole, 0 damaged; 1 places"), "{text}");
        assert!(text.contains("mended"), "{text}");
    }
}

/// Files that have changed places, or have grown, have lost nothing.
#[test]
fn files_of_other_names_and_lengths_are_no_failure() {
    let plan = filled();
    let folder = plan.data_dir();
    let paths = segments(&folder);
    let between = folder.join("between");
    for (from, to) in [
        (&paths[0], &between),
        (&paths[1], &paths[0]),
        (&between, &paths[1]),
    ] {
        fs::rename(from, to).expect("a file can be renamed");
    }
    let mut bytes = fs::read(&paths[2]).expect("a file can be read");
    bytes.extend([7; 5_000]);
    fs::write(&paths[2], &bytes).expect("a file can be written");
    let before = files(&folder);
    let mut command = server::stentor();
    command.args(["retained", "verify", "--data-dir"]);
    let offline = process::run(command.arg(&folder)).success();
    assert!(files(&folder) == before, "nothing was written");
    let server = plan.start();
    let online = server.control(&["retained", "verify"]).success();
    for text in [offline, online] {
        assert!(text.starts_with("200 whole, 0 damaged; 3 places"), "{text}");
        assert!(text.contains("mended") && !text.contains("lost"), "{text}");
    }
    let server = server.kill().start();
    let again = server.control(&["retained", "verify"]).success();
    assert!(
        again.starts_with("200 whole, 0 damaged; 0 places"),
        "{again}"
    );
}

#[test]
fn no_damaged_file_prevents_the_start() {
    let empty: fn(&mut Vec<u8>) = Vec::clear;
    let cut: fn(&mut Vec<u8>) = |bytes| bytes.truncate(bytes.len() / 2 + 13);
    let zeros: fn(&mut Vec<u8>) = |bytes| bytes.fill(0);
    let noise: fn(&mut Vec<u8>) = |bytes| {
        let mut state = 1_u32;
        for byte in bytes {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
    };
    for spoil in [empty, cut, zeros, noise] {
        for name in ["store", "segments"] {
            let plan = filled();
            let paths = if name == "store" {
                vec![plan.data_dir().join("retained/store")]
            } else {
                segments(&plan.data_dir())
            };
            for path in paths {
                let mut bytes = fs::read(&path).expect("a file can be read");
                spoil(&mut bytes);
                fs::write(&path, &bytes).expect("a file can be written");
            }
            let server = plan.start();
            eventually("damage is counted", || {
                let count = server.json(&["retained", "count"]);
                count["damaged"].as_u64() > Some(0)
            });
            let mut client = server.client(Version::V4, "p");
            keep(&mut client, Version::V4, "t/new", b"works");
            let found = snapshot(&server, "#");
            assert!(found.contains_key("t/new"));
            if name == "store" {
                assert_eq!(found.len(), 201, "the messages are whole");
            }
        }
    }
}
