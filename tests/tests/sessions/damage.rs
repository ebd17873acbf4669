//! Files that are damaged, missing, or of a later version.

use std::fs;
use std::path::{Path, PathBuf};

use stentor_tests::raw::eventually;
use stentor_tests::{Server, Version};

use crate::{come_back, status};

/// Three sessions and the folder with their files, after a kill.
fn killed() -> (stentor_tests::Plan, PathBuf) {
    let server = Server::open();
    for id in ["first", "victim", "last"] {
        come_back(&server, Version::V5, id).0.subscribe(id, 1);
    }
    let folder = server.data_dir().join("sessions");
    (server.kill(), folder)
}

/// Changes a byte of what was written of the victim. Returns the files.
fn damage(folder: &Path) -> Vec<PathBuf> {
    let mut damaged = Vec::new();
    for file in fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("it can be listed").path();
        if path.is_dir() {
            continue;
        }
        let mut bytes = fs::read(&path).expect("the file is there");
        let places: Vec<usize> = (0..bytes.len().saturating_sub(6))
            .filter(|at| bytes[*at..].starts_with(b"victim"))
            .collect();
        for place in &places {
            bytes[*place] ^= 1;
        }
        if !places.is_empty() {
            fs::write(&path, bytes).expect("a file can be written");
            damaged.push(path);
        }
    }
    assert!(!damaged.is_empty(), "the victim is in a file");
    damaged
}

#[test]
fn damage_is_told_and_costs_nobody_else() {
    let (plan, folder) = killed();
    let damaged = damage(&folder);
    let server = plan.start();
    let log = server.wait_log(0, "damage was found among the sessions");
    assert!(log.contains("a damaged place among the sessions"), "{log}");
    assert!(status(&server)["session_store"]["damaged_at_start"].as_u64() > Some(0));
    for (id, expected) in [("first", true), ("victim", false), ("last", true)] {
        assert_eq!(come_back(&server, Version::V5, id).1, expected, "{id}");
    }
    // It is told until the files of the earlier start have gone.
    eventually("the earlier files go", || {
        damaged.iter().all(|file| !file.exists())
    });
    let server = server.kill().start();
    assert_eq!(status(&server)["session_store"]["damaged_at_start"], 0);
}

#[test]
fn a_server_starts_without_the_manifest() {
    let (plan, folder) = killed();
    for file in ["journal", "journal.copy"] {
        fs::remove_file(folder.join(file)).unwrap();
    }
    let server = plan.start();
    server.wait_log(0, "a file of the sessions is not as it was left");
    for id in ["first", "victim", "last"] {
        assert!(come_back(&server, Version::V5, id).1, "{id}");
    }
}

/// CRC-32 (IEEE).
pub(crate) fn crc(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => crc >> 1 ^ 0xEDB8_8320,
        })
    })
}

#[test]
fn files_of_a_later_version_are_left_alone() {
    let (plan, folder) = killed();
    let mut manifest = fs::read(folder.join("journal")).unwrap();
    manifest[8] = 2;
    let checked = manifest[..12].iter().chain(&manifest[16..]).copied();
    let checksum = crc(checked).to_le_bytes();
    manifest[12..16].copy_from_slice(&checksum);
    fs::write(folder.join("journal"), &manifest).unwrap();
    let refusal = plan.refused();
    assert_eq!(refusal.status.code(), Some(73));
    for part in ["has format 2", "sessions.dir", "move this one away"] {
        assert!(refusal.stderr.contains(part), "{part}: {refusal}");
    }
    assert_eq!(fs::read(folder.join("journal")).unwrap(), manifest);
}
