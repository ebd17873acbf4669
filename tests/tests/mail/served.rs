//! Mail servers ask, and a connected MQTT client answers.

use stentor_tests::raw::{connect_as, publish};
use stentor_tests::{Version, process};

use crate::{Site, path_text, script};

/// Postfix waits in the middle of a conversation by milter for what the client says.
#[test]
fn a_connected_client_judges_what_postfix_shows() {
    let open = script("needs = \"envelope\"", "return accept()");
    let site = Site::start(&open, &open);
    let server = site.server();
    let procedures = site.folder.path().join("procedures");
    std::fs::remove_file(procedures.join("attachments.luau")).expect("it is there");
    let log = server.wait_log(0, "procedure /attachments removed");
    let manifest = "kind = \"client\"\nversion = \"3\"\ndeadline = \"60s\"\n";
    std::fs::write(procedures.join("attachments.toml"), manifest).expect("it can be written");
    server.wait_log(log.len(), "procedure /attachments loaded");
    let password = site.folder.path().join("password");
    std::fs::write(&password, "secret\n").expect("it can be written");
    let rule = "allow subscribe $serve/attachments/#";
    server
        .control(&["role", "add", "judge", "--rule", rule])
        .success();
    let account = ["--password-file", path_text(&password), "--role", "judge"];
    let words = [&["user", "add", "worker"][..], &account].concat();
    server.control(&words).success();
    // Nobody serves it: the message comes later, at once.
    site.refused(
        &["--body", "x"],
        "451 4.7.1 the message cannot be checked now",
    );
    let mut worker = server.dial();
    let login = Some(("worker", "secret"));
    worker.send(&connect_as(Version::V5, "w", true, login));
    worker.speaks(Version::V5);
    assert_eq!(worker.expect(2).body[1], 0, "it is let in");
    worker.subscribe("$serve/attachments/+", 0);
    for (body, verdict, reply) in [
        (
            "to be refused",
            r#"{"verdict":"reject","text":"no","code":552,"status":"5.3.4"}"#,
            Some("552 5.3.4 no"),
        ),
        (
            "to come later",
            r#"{"verdict":"tempfail","text":"soon"}"#,
            Some("451 4.7.1 soon"),
        ),
        ("to be taken", r#"{"verdict":"accept"}"#, None),
    ] {
        let sending = process::start(&mut site.swaks(&["--body", body]));
        let (topic, mail) = worker.message();
        let number = topic.strip_prefix("$serve/attachments/").expect(&topic);
        assert!(String::from_utf8_lossy(&mail).contains(body));
        let answer = format!("$answer/{number}");
        worker.send(&publish(Version::V5, &answer, verdict.as_bytes(), 1, false));
        assert_eq!(worker.expect(4).body.get(2).copied().unwrap_or(0), 0);
        let sent = process::finish(sending, stentor_tests::DEADLINE);
        match reply {
            Some(reply) => assert!(sent.stdout.contains(reply), "{sent}"),
            None => assert!(sent.status.success(), "{sent}"),
        }
    }
    server.wait_lines(1, &["verdict=\"reject\"", "version=\"3\""]);
}
