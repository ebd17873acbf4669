//! The callers on the call listeners, and what the Auth Center lets each do.

use std::fs;

use stentor_tests::raw::eventually;
use stentor_tests::{Finished, Plan};

use crate::{Calls, code, word};

const SCRIPT: &str = "return function(call) return accept('I am ' .. call.caller) end";
const OPEN: &str = "--[[ procedure\nanonymous = true\n]]
    return function(call) return accept('I am ' .. call.caller) end";
const LISTED: &str = "--[[ procedure\nallow_users = [\"filter\"]\n]]
    return function(call) return accept('I am ' .. call.caller) end";

/// A server where this user of the machine is `filter` on the Unix socket.
fn start(name: &str) -> Calls {
    let files = [
        ("closed.luau", SCRIPT),
        ("open.luau", OPEN),
        ("listed.luau", LISTED),
    ];
    let plan = Plan::new();
    let folder = plan.folder().join("procedures");
    fs::create_dir(&folder).expect("a folder can be made");
    for (file, text) in files {
        fs::write(folder.join(file), text).expect("a file can be written");
    }
    // What is given on the command line would take the place of these.
    let config = format!(
        "[procedures]\nfolder = \"{}\"\n[[listener]]\nurl = \"call://127.0.0.1:0\"\n\
         [[listener]]\nurl = \"call+unix:{}\"\nallow_uid = \"{}={name}\"\n",
        folder.display(),
        plan.folder().join("named.sock").display(),
        nix::unistd::Uid::effective(),
    );
    Calls {
        server: plan.config(&config).start(),
    }
}

impl Calls {
    fn named(&self, words: &[&str]) -> Finished {
        let socket = self.server.folder().join("named.sock");
        let words = [&["-s", word(&socket), "--profile", "sysexits"], words].concat();
        stentor_tests::process::run(crate::client().args(words))
    }

    fn run(&self, args: &[&str]) -> String {
        self.server.control(args).success()
    }

    /// A token of the Auth Center in a file, as `--token-file` takes it.
    fn token(&self, user: &str, label: &str) -> std::path::PathBuf {
        let token = self.run(&["token", "create", user, "--label", label]);
        self.file(label, format!("{user}:{token}").as_bytes())
    }
}

/// Waits until a call is refused with this reason.
#[track_caller]
fn refused(reason: &str, call: impl Fn() -> Finished) {
    eventually(reason, || {
        let finished = call();
        let is_refused = code(&finished) == Some(75);
        assert!(is_refused || code(&finished) == Some(0), "{finished}");
        is_refused && finished.stderr.contains(&format!("not-allowed: {reason}"))
    });
}

#[test]
fn a_user_of_this_machine_has_the_rights_of_its_name() {
    let calls = start("filter");
    let closed = || calls.named(&["/closed"]);
    // Whom nobody has added is a member.
    assert_eq!(closed().success(), "I am filter\n");
    assert_eq!(calls.named(&["/listed"]).success(), "I am filter\n");
    let rule = "deny publish $call/closed";
    calls.run(&["role", "change", "member", "--add", rule]);
    refused("the right to call this procedure is missing", closed);
    calls.run(&["role", "change", "member", "--remove", rule]);
    eventually("the right is back", || code(&closed()) == Some(0));
    // An account of its own, with rules of its own.
    calls.run(&["role", "add", "quiet", "--rule", "allow publish $call/noop"]);
    calls.run(&["user", "add", "filter", "--no-password", "--role", "quiet"]);
    refused("the right to call this procedure is missing", closed);
    assert_eq!(code(&calls.named(&["/noop"])), Some(0));
    calls.run(&["role", "change", "quiet", "--add", "allow publish $call/#"]);
    eventually("it has the right", || code(&closed()) == Some(0));
    // Disabled, it may do what everybody may.
    calls.run(&["user", "disable", "filter"]);
    refused("this user is disabled", closed);
    assert_eq!(calls.named(&["/open"]).success(), "I am\n");
    calls.run(&["user", "enable", "filter"]);
    eventually("it is let in again", || code(&closed()) == Some(0));
    // What was refused stands in the log like every other verdict.
    let log = calls.server.wait_log(0, "not-allowed");
    let line = log.lines().find(|line| line.contains("not-allowed"));
    let line = line.expect(&log);
    assert!(
        line.contains("procedure=\"closed\"") && line.contains("caller=\"filter\""),
        "{line}"
    );
}

#[test]
fn a_name_of_another_zone_is_another_user() {
    let calls = start("game/filter");
    assert_eq!(calls.named(&["/closed"]).success(), "I am game/filter\n");
    let listed = calls.named(&["/listed"]);
    assert!(listed.stderr.contains("may not call"), "{listed}");
    calls.run(&["zone", "add", "game"]);
    calls.run(&["user", "add", "filter", "--no-password"]);
    calls.run(&["user", "disable", "filter"]);
    assert_eq!(code(&calls.named(&["/closed"])), Some(0));
}

#[test]
fn tokens_of_the_auth_center_are_good_for_calls() {
    let calls = start("filter");
    calls.run(&["user", "add", "relay", "--no-password"]);
    let (one, two) = (calls.token("relay", "one"), calls.token("relay", "two"));
    let with = |file: &std::path::Path| {
        let words = [
            "--profile",
            "sysexits",
            "--token-file",
            word(file),
            "/closed",
        ];
        calls.by_tcp(&words)
    };
    assert_eq!(with(&one).success(), "I am relay\n");
    assert_eq!(with(&two).success(), "I am relay\n");
    calls.run(&["token", "revoke", "relay", "one"]);
    refused("nobody has this token", || with(&one));
    assert_eq!(code(&with(&two)), Some(0), "the other one is good");
    // Somebody else's name makes it nobody's.
    let token = fs::read_to_string(&two).expect("the file is there");
    let stolen = calls.file("stolen", token.replace("relay:", "filter:").as_bytes());
    assert!(with(&stolen).stderr.contains("nobody has this token"));
    calls.run(&[
        "role",
        "change",
        "member",
        "--add",
        "deny publish $call/closed",
    ]);
    refused("the right to call this procedure is missing", || with(&two));
    calls.run(&[
        "role",
        "change",
        "member",
        "--remove",
        "deny publish $call/closed",
    ]);
    eventually("the right is back", || code(&with(&two)) == Some(0));
    calls.run(&["user", "disable", "relay"]);
    refused("nobody has this token", || with(&two));
    let token = token.trim().rsplit_once(':').expect("a name and a token").1;
    assert!(
        !calls.server.log().contains(token),
        "no token is in the log"
    );
}

#[test]
fn who_owns_the_server_may_call_everything() {
    let calls = Calls::start(&[("closed.luau", SCRIPT)]);
    let rule = "deny publish $call/#";
    calls
        .server
        .control(&["role", "change", "member", "--add", rule])
        .success();
    // Without `allow_uid` this is the server's own user.
    assert_eq!(code(&calls.by_unix(&["/closed"])), Some(0));
    assert_eq!(code(&calls.by_tcp(&["/closed"])), Some(2));
    let config = "[[listener]]\nurl = \"call+unix:s\"\nallow_uid = \"0=a+b\"\n";
    let refused = Plan::new().config(config).refused();
    assert!(refused.stderr.contains("a+b"), "{refused}");
}
