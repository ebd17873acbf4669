//! Whose the messages are, for how long, and which of them commands are about.

use std::fs;
use std::path::Path;

use stentor_tests::{Finished, Server, process, server};

/// A command on the data folder of a server that may be stopped.
#[track_caller]
fn stentor(folder: &Path, args: &[&str]) -> Finished {
    let mut command = server::stentor();
    command.args(args).arg("--data-dir").arg(folder);
    process::run(&mut command)
}

/// Whatever becomes of the data folder's list of zones.
#[test]
fn no_zone_gets_the_messages_of_another() {
    let server = Server::open();
    let folder = server.data_dir();
    let set = |topic, payload, zone| {
        let args = [
            "retained",
            "set",
            topic,
            payload,
            "--zone",
            zone,
            "--new-zones",
        ];
        stentor(&folder, &args).success();
    };
    let export = |zone| stentor(&folder, &["retained", "export", "--zone", zone]).success();
    set("a", "secret of alpha", "alpha");
    set("a", "beta", "beta");
    let mut plan = server.stop_for_restart();
    let list = folder.join("zones");
    for (text, is_contrary) in [
        (None, false),
        (Some(&b""[..]), false),
        (Some(b"\xFF\xFF\nbeta\n"), false),
        (Some(b"beta\nalpha\n"), true),
    ] {
        match text {
            None => fs::remove_file(&list),
            Some(text) => fs::write(&list, text),
        }
        .expect("the folder can be changed");
        let server = plan.start();
        set("b", "x", "beta");
        let (alpha, beta) = (export("alpha"), export("beta"));
        assert!(alpha.contains("secret of alpha"), "{text:?}: {alpha}");
        assert!(
            beta.contains("beta") && !beta.contains("secret"),
            "{text:?}: {beta}"
        );
        assert_eq!(folder.join("zones.damaged").exists(), is_contrary);
        plan = server.stop_for_restart();
        assert_eq!(export("alpha").lines().count(), 1, "{text:?}");
    }
    // Without either list nobody gets them.
    fs::remove_file(&list).expect("it is there");
    fs::remove_file(folder.join("retained/zones")).expect("it is there");
    let server = plan.start();
    server.wait_log(0, "names of 2 zones are lost");
    set("b", "x", "gamma");
    assert_eq!(export("gamma").lines().count(), 1);
    stentor(&folder, &["retained", "export", "--zone", "alpha"]).refusal();
}

#[test]
fn a_message_is_set_for_as_long_as_the_last_command_says() {
    let server = Server::open();
    let folder = server.data_dir();
    let left = || {
        let line = stentor(&folder, &["retained", "export", "a"]).success();
        let line: serde_json::Value = serde_json::from_str(&line).expect("a line is JSON");
        line["expiry_secs"].as_u64().expect("it expires")
    };
    for secs in ["400", "4000"] {
        stentor(&folder, &["retained", "set", "a", "x", "--expiry", secs]).success();
    }
    assert!(left() > 400);
    let file = server.folder().join("kept.jsonl");
    let path = file.to_str().expect("a temporary path is text");
    let import = |secs: u32| {
        let line = format!("{{\"topic\":\"a\",\"payload\":\"x\",\"expiry_secs\":{secs}}}\n");
        fs::write(&file, line).expect("a file can be written");
        stentor(&folder, &["retained", "import", path]).success()
    };
    import(9_000);
    assert!(left() > 4_000);
}

#[test]
fn topics_that_begin_with_a_dollar_are_exported_and_removed_with_their_zone() {
    let server = Server::open();
    let folder = server.data_dir();
    stentor(&folder, &["zone", "add", "game"]).success();
    for topic in ["plain", "$foo", "$foo/bar", "$more/x"] {
        let args = ["retained", "set", topic, "x", "--zone", "game"];
        stentor(&folder, &args).success();
    }
    let export = || stentor(&folder, &["retained", "export", "--zone", "game"]).success();
    assert_eq!(export().lines().count(), 4);
    stentor(&folder, &["zone", "remove", "game"]).success();
    stentor(&folder, &["zone", "add", "game"]).success();
    assert_eq!(export(), "");
    // The same of files.
    let args = ["retained", "set", "$foo/bar", "x", "--zone", "game"];
    stentor(&folder, &args).success();
    let plan = server.stop_for_restart();
    assert_eq!(export().lines().count(), 1);
    stentor(&folder, &["zone", "remove", "game"]).success();
    assert_eq!(export(), "");
    drop(plan);
}
