//! A full disk: publishers get an error, what is there stays, and it works again by itself.

use std::path::Path;
use std::process::Command;

use stentor_tests::disk::small_disk;
use stentor_tests::raw::{self, eventually};
use stentor_tests::{Plan, Raw, Version};

use crate::support::keep;

/// Publishes a retained message with QoS 1; the reason code of the acknowledgement.
fn try_keep(client: &mut Raw, topic: &str, payload: &[u8]) -> u8 {
    client.send(&raw::publish(Version::V5, topic, payload, 1, true));
    let answer = client.expect(4);
    answer.body.get(2).copied().unwrap_or(0)
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let Some(disk) = small_disk(folder.path(), "12m") else {
        return;
    };
    for sync in ["interval", "always"] {
        let config = format!(
            "[retained]\ndir = \"{}\"\nsync = \"{sync}\"\n",
            folder.path().join(sync).display()
        );
        let server = Plan::new().tcp().anonymous().config(&config).start();
        let mut client = server.client(Version::V5, "p");
        keep(&mut client, Version::V5, "first", b"stays");
        let payload = [b'x'; 3_000];
        let refused = (0..20_000)
            .map(|i| (i, try_keep(&mut client, &format!("t/{i}"), &payload)))
            .find(|(_, reason)| *reason != 0);
        let (kept, reason) = refused.expect("12 MiB do not hold 20,000 messages");
        assert_eq!(reason, 0x97, "the publisher is told why");
        assert!(kept > 100, "only {kept} were kept");
        server.wait_log(0, "retained messages are in trouble");
        let log = server.wait_log(0, "a message was refused: the retained store cannot write");
        assert!(
            !log.contains("`retained.bytes`"),
            "no quota is used up: {log}"
        );
        // The first thing that an operator looks at says it too, as long as somebody is refused.
        let mut text = String::new();
        eventually("a status that tells", || {
            try_keep(&mut client, "t/more", &payload);
            text = server.control(&["status", "--sample-ms", "0"]).success();
            text.contains("cannot write since")
        });
        let told = "with RETAIN refused, because the disk was full";
        assert!(text.contains(told), "{text}");
        assert!(!text.contains("no message was lost"), "{text}");
        let mut reader = server.client(Version::V5, "r");
        reader.subscribe("first", 0);
        assert_eq!(reader.message().1, b"stays");
        let last = format!("t/{}", kept - 1);
        reader.subscribe(&last, 0);
        assert_eq!(reader.message().1, payload);
        disk.grow(if sync == "interval" { "24m" } else { "64m" });
        eventually("messages are kept again", || {
            try_keep(&mut client, &format!("t/{kept}"), &payload) == 0
        });
        server.wait_log(0, "retained messages are kept again");
        let text = server.control(&["status"]).success();
        assert!(!text.contains("cannot write since"), "{text}");
        drop((client, reader));
        // Killed, so that nothing is tidied up.
        let server = server.kill().start();
        let mut reader = server.client(Version::V5, "r");
        reader.subscribe(&format!("t/{kept}"), 0);
        assert_eq!(reader.message().1, payload);
    }
}

/// A folder in which nothing can be made, not even by root.
struct Sealed<'a>(&'a Path);

impl<'a> Sealed<'a> {
    fn seal(folder: &'a Path) -> Option<Self> {
        change_attribute(folder, "+i").then_some(Self(folder))
    }
}

impl Drop for Sealed<'_> {
    fn drop(&mut self) {
        change_attribute(self.0, "-i");
    }
}

fn change_attribute(folder: &Path, change: &str) -> bool {
    let changed = Command::new("chattr").arg(change).arg(folder).status();
    changed.is_ok_and(|status| status.success())
}

#[test]
fn a_lost_permission_refuses_and_recovers() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let messages = folder.path().join("messages");
    let config = format!("[retained]\ndir = \"{}\"\n", messages.display());
    let server = Plan::new().tcp().anonymous().config(&config).start();
    let mut client = server.client(Version::V5, "p");
    keep(&mut client, Version::V5, "first", b"stays");
    let Some(sealed) = Sealed::seal(&messages) else {
        eprintln!("skipped: this user or file system has no immutable folders");
        return;
    };
    let payload = [b'x'; 3_000];
    let refused = (0..20_000)
        .map(|i| (i, try_keep(&mut client, &format!("t/{i}"), &payload)))
        .find(|(_, reason)| *reason != 0);
    let (kept, reason) = refused.expect("there is no room without new files");
    assert_eq!(reason, 0x83, "the publisher is told");
    server.wait_log(0, "retained messages are in trouble");
    // What is there may change, and is read.
    keep(&mut client, Version::V5, "first", b"moves");
    let mut reader = server.client(Version::V5, "r");
    reader.subscribe("first", 0);
    assert_eq!(reader.message().1, b"moves");
    let status = server.json(&["retained", "count"]);
    assert_ne!(
        status["troubles"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );
    drop(sealed);
    eventually("messages are kept again", || {
        try_keep(&mut client, &format!("t/{kept}"), &payload) == 0
    });
    server.wait_log(0, "retained messages are kept again");
}

/// A folder that can only be read from now on. The system refuses that for a whole file system in
/// which files are mapped for writing, so the folder is laid over itself, for reading.
struct ReadOnly<'a>(&'a Path);

impl<'a> ReadOnly<'a> {
    fn lay(folder: &'a Path) -> Self {
        let mount = |options: &[&str]| {
            let mut command = Command::new("mount");
            let status = command.args(options).arg(folder).status();
            assert!(
                status.is_ok_and(|status| status.success()),
                "who may mount a disk may mount a folder"
            );
        };
        let path = folder.to_str().expect("a temporary path is text");
        mount(&["--bind", path]);
        let laid = Self(folder);
        mount(&["-o", "remount,bind,ro"]);
        laid
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        // If it fails, the disk below cannot be unmounted, and the test says so.
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// A disk that has errors turns read-only under a running server.
#[test]
fn a_file_system_that_turns_read_only_refuses_and_recovers() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let Some(_disk) = small_disk(folder.path(), "64m") else {
        return;
    };
    for sync in ["interval", "always"] {
        let messages = folder.path().join(sync);
        let config = format!(
            "[retained]\ndir = \"{}\"\nsync = \"{sync}\"\n",
            messages.display()
        );
        let server = Plan::new().tcp().anonymous().config(&config).start();
        let mut client = server.client(Version::V5, "p");
        keep(&mut client, Version::V5, "first", b"stays");
        let read_only = ReadOnly::lay(&messages);
        let payload = [b'x'; 3_000];
        let refused = (0..20_000)
            .map(|i| (i, try_keep(&mut client, &format!("t/{i}"), &payload)))
            .find(|(_, reason)| *reason != 0);
        let (kept, reason) = refused.expect("there is no room without new files");
        assert_eq!(reason, 0x83, "the publisher is told");
        let log = server.wait_log(0, "retained messages are in trouble");
        assert!(log.contains("ead-only"), "{log}");
        // What is there may change, and is read.
        keep(&mut client, Version::V5, "first", b"moves");
        let mut reader = server.client(Version::V5, "r");
        reader.subscribe("first", 0);
        assert_eq!(reader.message().1, b"moves");
        drop(read_only);
        eventually("messages are kept again", || {
            try_keep(&mut client, &format!("t/{kept}"), &payload) == 0
        });
        server.wait_log(0, "retained messages are kept again");
        drop((client, reader));
        let server = server.kill().start();
        let mut reader = server.client(Version::V5, "r");
        reader.subscribe(&format!("t/{kept}"), 0);
        assert_eq!(reader.message().1, payload);
        server.control(&["retained", "verify"]).success();
    }
}

#[test]
fn a_file_system_for_reading_only_is_told_at_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let Some(disk) = small_disk(folder.path(), "4m") else {
        return;
    };
    disk.remount("ro");
    let config = format!(
        "[retained]\ndir = \"{}\"\n",
        folder.path().join("m").display()
    );
    let refused = Plan::new().tcp().anonymous().config(&config).refused();
    let text = refused.refusal();
    assert!(
        text.contains("ead-only") && text.contains("retained.dir"),
        "{text}"
    );
}
