//! What goes wrong: with scripts, with versions, with the server, with too many at once.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use stentor_tests::process;
use stentor_tests::raw::{Raw, Version, eventually};

use crate::{Calls, client, code, plan, word};

const HOSTILE: &str = "--[[ procedure\nanonymous = true\ndeadline = \"200ms\"\nmemory = \"2MiB\"
    concurrency = 2\n]]
    return function(call)
        if call.args.way == 'loop' then while true do end end
        if call.args.way == 'bomb' then local s = 'x' while true do s = s .. s end end
        if call.args.way == 'error' then error('oops') end
        return accept('fine')
    end";

#[test]
fn a_script_ends_its_own_call_only() {
    let calls = Calls::start(&[("hostile.luau", HOSTILE)]);
    for (way, reason) in [
        ("loop", "timed-out: "),
        ("bomb", "failed: hostile.luau: the script ran out of memory"),
        ("error", "failed: hostile.luau:10: oops"),
    ] {
        for run in [Calls::by_unix, Calls::by_tcp] {
            let words = [
                "--profile",
                "sysexits",
                "--deadline",
                "60s",
                "/hostile",
                "-way",
                way,
            ];
            let finished = run(&calls, &words);
            assert_eq!(code(&finished), Some(75), "{finished}");
            assert!(finished.stderr.contains(reason), "{finished}");
        }
    }
    assert_eq!(calls.by_unix(&["/hostile"]).success(), "fine\n");
}

/// A bad version changes nothing and says why; a good one is taken over without being told.
#[test]
fn a_changed_file_is_taken_over() {
    let calls = Calls::start(&[("p.luau", "return function() return accept('one') end")]);
    assert_eq!(calls.by_unix(&["/p"]).success(), "one\n");
    let from = calls.server.log().len();
    fs::write(calls.procedure("p.luau"), "return function( return 1 end").unwrap();
    calls.server.wait_log(from, "p.luau:1:");
    assert_eq!(calls.by_unix(&["/p"]).success(), "one\n");
    fs::write(
        calls.procedure("p.luau"),
        "return function() return accept('two') end",
    )
    .unwrap();
    calls.server.wait_log(from, "procedure /p loaded");
    assert_eq!(calls.by_unix(&["/p"]).success(), "two\n");
    fs::remove_file(calls.procedure("p.luau")).unwrap();
    calls.server.wait_log(from, "procedure /p removed");
    let gone = calls.by_unix(&["--profile", "sysexits", "/p"]);
    assert!(gone.stderr.contains("not-found"), "{gone}");
}

/// It is taken, since only its author knows whether calls come to that line; the log tells before
/// the first of them fails.
#[test]
fn a_file_that_lacks_a_grant_is_told_of() {
    let text = "return function(call)\nif call.args.x then store.set('a', 'b') end\n\
                return accept() end";
    let calls = Calls::start(&[("p.luau", text)]);
    let parts = [
        "WARN",
        "p.luau:2: it uses `store`, which is not granted",
        "grants = [\"store\"]",
    ];
    calls.server.wait_lines(1, &parts);
    assert_eq!(code(&calls.by_unix(&["/p"])), Some(0));
    let failed = calls.by_unix(&["--profile", "sysexits", "/p", "-x", "1"]);
    assert_eq!(code(&failed), Some(75), "{failed}");
}

/// A test without an end: the start waits for it no longer than it may take, and says so; MQTT
/// clients are served meanwhile, and the other procedures as soon as callers are.
#[test]
fn an_endless_test_holds_up_the_start_for_a_while_only() {
    let endless = "return { call = function() end, test = function() while true do end end }";
    let quick = "--[[ procedure\nanonymous = true\n]] return function() return accept('here') end";
    let plan = plan(&[("endless.luau", endless), ("quick.luau", quick)]).anonymous();
    let mqtt = plan.folder().join("mqtt.sock");
    let plan = plan.listen(&format!("mqtt+unix:{}", mqtt.display()));
    let is_started = AtomicBool::new(false);
    let calls = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            eventually("the listener is open", || {
                UnixStream::connect(&mqtt).is_ok()
            });
            Raw::unix(&mqtt).login(Version::V5, "early", true);
            !is_started.load(Ordering::SeqCst)
        });
        let server = plan.start();
        is_started.store(true, Ordering::SeqCst);
        assert!(client.join().expect("a client"), "it is served before");
        Calls { server }
    });
    assert_eq!(calls.by_unix(&["/quick"]).success(), "here\n");
    for said in [": its own test takes long", " not loaded"] {
        calls
            .server
            .wait_log(0, &format!("procedure /endless{said}"));
    }
    let status = calls.by_unix(&["/status"]).success();
    assert!(status.contains("endless.luau"), "{status}");
    let gone = calls.by_unix(&["--profile", "sysexits", "/endless"]);
    assert!(gone.stderr.contains("not-found"), "{gone}");
}

/// What no procedure gets to see has a line too: the caller, a mail server say, may tell nobody.
#[test]
fn calls_that_come_to_nothing_are_in_the_log() {
    let calls = Calls::start(&[]);
    let none = calls.by_unix(&["--profile", "xmail-queue", "/sizechek"]);
    assert_eq!(code(&none), Some(0), "XMail delivers: {none}");
    calls.server.wait_log(0, "there is no procedure /sizechek");
    let token = calls.file("token", b"guess");
    let guessed = calls.by_tcp(&["--token-file", word(&token), "/noop"]);
    assert!(
        guessed.stderr.contains("nobody has this token"),
        "{guessed}"
    );
    let log = calls.server.wait_log(0, "nobody has this token");
    assert!(log.contains("caller=\"127.0.0.1\""), "{log}");
    let file = calls.file("m", b"no spool file");
    let words = ["--format", "xmail", "--file", word(&file), "/noop"];
    for (run, status) in [
        (
            Calls::by_unix as fn(&Calls, &[&str]) -> _,
            "procedure=\"noop\"",
        ),
        (Calls::by_tcp, "caller=\"127.0.0.1\""),
    ] {
        let from = calls.server.log().len();
        let bad = run(&calls, &words);
        assert!(bad.stderr.contains("<<MAIL-DATA>>"), "{bad}");
        let log = calls.server.wait_log(from, "status=\"bad-call\"");
        assert!(log.contains(status), "{log}");
    }
}

/// A server that is killed while it works on a call: the mail is deferred, not lost.
/// What may hang is opened by the procedure that is called, not by who serves all callers. The
/// kernel's own files stand for it: they come from no disk.
#[test]
fn a_file_from_no_disk_is_opened_by_its_procedure() {
    let headers = "--[[ procedure\nanonymous = true\nneeds = \"headers\"\n]]
        return function() return accept('read') end";
    let calls = Calls::start(&[("headers.luau", headers)]);
    for file in ["/proc/version", "/proc/self/mounts"] {
        assert_eq!(
            calls.by_unix(&["--file", file, "/headers"]).success(),
            "read\n"
        );
        calls.by_unix(&["--file", file, "/noop"]).success();
    }
    let folder = calls.by_unix(&["--profile", "sysexits", "--file", "/proc", "/noop"]);
    assert_eq!(code(&folder), Some(75), "{folder}");
}

#[test]
fn a_killed_server_means_later() {
    let slow = "--[[ procedure\nanonymous = true\ndeadline = \"60s\"\ngrants = [\"log\"]\n]]
        return function() log('it runs') while true do end end";
    let mut calls = Calls::start(&[("slow.luau", slow)]);
    let socket = calls.server.folder().join("call.sock");
    let file = calls.file("m", b"T: u\n\n");
    let child = client()
        .arg("-s")
        .arg(socket)
        .args([
            "--profile",
            "sysexits",
            "--deadline",
            "60s",
            "--file",
            word(&file),
            "/slow",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    calls.server.wait_log(0, "it runs");
    calls.server.signal(Signal::SIGKILL);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75));
    // It ended as the test wanted.
    calls.server.ended();
}

/// A folder that is gone is told once, and what was loaded stays.
#[test]
fn a_folder_that_is_gone_changes_nothing() {
    let calls = Calls::start(&[("p.luau", "return function() return accept('one') end")]);
    let folder = calls.server.folder().join("procedures");
    let aside = calls.server.folder().join("aside");
    let from = calls.server.log().len();
    fs::rename(&folder, &aside).unwrap();
    calls
        .server
        .wait_log(from, "the procedures stay as they are");
    assert_eq!(calls.by_unix(&["/p"]).success(), "one\n");
    fs::write(
        aside.join("q.luau"),
        "return function() return accept('two') end",
    )
    .unwrap();
    fs::rename(&aside, &folder).unwrap();
    let log = calls.server.wait_log(from, "procedure /q loaded");
    assert!(log.contains("can be read again"), "{log}");
    assert_eq!(log.matches("the procedures stay").count(), 1, "{log}");
}

#[test]
fn a_program_is_called_by_many_at_once() {
    let program = "kind = \"program\"\ncommand = [\"/bin/sh\", \"-c\", \"echo $STENTOR_SIZE\"]\n\
                   anonymous = true\ndeadline = \"60s\"\nmemory = \"512MiB\"\nqueue = 1000";
    let calls = Calls::start(&[("program.toml", program), ("hostile.luau", HOSTILE)]);
    let file = calls.file("m", b"T: u\n\n");
    let before = open_files(calls.server.pid());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let words = ["--deadline", "60s", "--file", word(&file), "/program"];
                    assert_eq!(calls.by_unix(&words).success(), "6\n");
                    assert_eq!(calls.by_tcp(&words).success(), "6\n");
                    let words = ["--deadline", "60s", "--file", word(&file), "/noop"];
                    assert_eq!(code(&calls.by_tcp(&words)), Some(0));
                }
            });
        }
    });
    // Nothing that was received stays open; a connection closes after its client has gone.
    eventually("that all descriptors are closed", || {
        open_files(calls.server.pid()) <= before
    });
}

fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("the server runs")
        .count()
}

/// What a script keeps is there after a restart.
#[test]
fn the_store_survives() {
    let count = "--[[ procedure\nanonymous = true\ngrants = [\"store\"]\n]]
        return function() return accept(tostring(store.add('n', 1))) end";
    let calls = Calls::start(&[("count.luau", count)]);
    assert_eq!(calls.by_unix(&["/count"]).success(), "1\n");
    assert_eq!(calls.by_unix(&["/count"]).success(), "2\n");
    let Calls { mut server } = calls;
    assert!(server.stop().success());
    let again = process::run(
        std::process::Command::new("ls").arg(server.data_dir().join("procedures.redb")),
    );
    again.success();
}
