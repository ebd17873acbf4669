//! The files of sessions.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Server, Version};

use crate::{come_back, status, with_will};

#[test]
fn nobody_else_reads_them() {
    let server = Server::open();
    come_back(&server, Version::V5, "c").0.subscribe("x", 1);
    let folder = server.data_dir().join("sessions");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        // The maintenance thread makes files and renames them.
        if let Ok(metadata) = file.metadata() {
            let usual = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(metadata.permissions().mode() & 0o777, usual, "{file:?}");
        }
    }
}

#[test]
fn they_may_be_elsewhere() {
    let plan = Plan::new().tcp().anonymous();
    let folder = plan.folder().join("elsewhere");
    let plan = plan.config(&format!("[sessions]\ndir = \"{}\"\n", folder.display()));
    let server = plan.start();
    assert_eq!(
        status(&server)["session_store"]["folder"],
        folder.display().to_string()
    );
    assert!(folder.join("journal").exists());
    assert!(!server.data_dir().join("sessions").exists());
}

#[test]
fn a_second_server_on_the_folder_is_refused() {
    let server = Server::open();
    let folder = server.data_dir().join("sessions");
    let plan = Plan::new().tcp().anonymous();
    let plan = plan.config(&format!("[sessions]\ndir = \"{}\"\n", folder.display()));
    let refusal = plan.refused();
    assert_eq!(refusal.status.code(), Some(75));
    assert!(
        refusal
            .stderr
            .contains("another server uses the folder of sessions"),
        "{refusal}"
    );
}

/// Clients that come and go write without end, and files are used again.
#[test]
fn they_stay_small_however_often_clients_come_and_go() {
    let plan = Plan::new().tcp().anonymous();
    let server = plan.arg("--shards").arg("1").start();
    come_back(&server, Version::V5, "other").0.subscribe("x", 1);
    let topic = "t".repeat(4_000);
    // 40 MB of wills.
    for _ in 0..10_000 {
        drop(with_will(&server, "c", &topic, 200));
    }
    eventually("older files are given up", || {
        status(&server)["session_store"]["bytes"].as_u64() <= Some(10 << 20)
    });
    let files = fs::read_dir(server.data_dir().join("sessions")).unwrap();
    let bytes: u64 = files
        .map(|file| file.unwrap().metadata().map_or(0, |it| it.len()))
        .sum();
    assert!(bytes <= 40 << 20, "{bytes} bytes");
    let server = server.kill().start();
    for id in ["c", "other"] {
        assert!(come_back(&server, Version::V5, id).1, "{id}");
    }
}

#[test]
fn nothing_is_written_where_that_is_not_wanted() {
    let config = "[sessions]\nenabled = false\n";
    let server = Plan::new().tcp().anonymous().config(config).start();
    come_back(&server, Version::V5, "c").0.subscribe("x", 1);
    assert_eq!(status(&server)["session_store"]["enabled"], false);
    assert!(!server.data_dir().join("sessions").exists());
    let server = server.stop_for_restart().start();
    assert!(!come_back(&server, Version::V5, "c").1);
}

#[test]
fn they_are_not_among_retained_messages() {
    let plan = Plan::new().tcp().anonymous();
    let folder = plan.data_dir().join("retained");
    let plan = plan.config(&format!("[sessions]\ndir = \"{}\"\n", folder.display()));
    let refusal = plan.refused();
    assert_eq!(refusal.status.code(), Some(73));
    assert!(
        refusal.stderr.contains("`retained.dir` is the same folder"),
        "{refusal}"
    );
}
