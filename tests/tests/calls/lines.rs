//! The log line of each verdict, and procedures that are only observed.

use serde_json::Value;
use stentor_tests::Server;

use crate::{Calls, code, plan, word};

const JUDGE: &str =
    "--[[ procedure\nversion = \"2.1\"\nanonymous = true\nneeds = \"headers\"\nMODE]]
    return function(call)
        local want = call.args.want
        if want == 'reject' then return reject('not this', { code = 550, result = 'r' }) end
        if want == 'modified' then call:add_header('X-Seen', 'yes') return accept('changed') end
        if want == 'error' then error('broken') end
        return _G[want]('because')
    end";

fn start() -> Calls {
    let (own, observed) = (
        JUDGE.replace("MODE", ""),
        JUDGE.replace("MODE", "mode = \"observe\"\non_error = \"reject\"\n"),
    );
    let slow = "--[[ procedure\nanonymous = true\ndeadline = \"20ms\"\non_error = \"accept\"\n]]
        return function() while true do end end";
    let files = [
        ("judge.luau", &*own),
        ("trial.luau", &*observed),
        ("slow.luau", slow),
    ];
    Calls {
        server: plan(&files).arg("--log-format").arg("json").start(),
    }
}

const MESSAGE: &[u8] = b"Message-ID: <1@a>\r\nSubject: s\r\n\r\nbody";

/// The line about the call with that queue id.
fn line(server: &Server, queue_id: &str) -> Value {
    let log = server.wait_log(0, queue_id);
    let mut lines = log.lines().filter(|line| line.contains(queue_id));
    let first = lines.next().expect("there is a line");
    assert_eq!(lines.next(), None, "one line for each verdict");
    serde_json::from_str(first).expect("it is JSON")
}

#[test]
fn each_verdict_has_one_line_with_everything() {
    let calls = start();
    let file = calls.file("m", MESSAGE);
    for (at, (want, verdict)) in [
        ("accept", "accept"),
        ("modified", "modified"),
        ("reject", "reject"),
        ("tempfail", "tempfail"),
        ("discard", "discard"),
        ("quarantine", "quarantine"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("QUEUE{at}");
        let copy = calls.file("copy", MESSAGE);
        let words = ["--deadline", "60s", "--in-place", "--file", word(&copy)];
        let asked = ["/judge", "-want", want, "-queue-id", &id];
        let envelope = ["-from", "a@ext.test", "-rcpt", "b@c", "-rcpt", "d@e"];
        calls.by_unix(&[&words[..], &asked, &envelope].concat());
        let line = line(&calls.server, &id);
        let about = &line;
        for (name, value) in [
            ("procedure", "judge"),
            ("version", "2.1"),
            ("status", "done"),
            ("verdict", verdict),
            ("queue_id", &id),
            ("message_id", "<1@a>"),
            ("from", "a@ext.test"),
            ("rcpt", "b@c, d@e"),
        ] {
            assert_eq!(about[name], value, "{name}: {line}");
        }
        assert_eq!(about["size"], MESSAGE.len(), "{line}");
        assert_eq!(about["observe"], false, "{line}");
        assert_eq!(about["level"], "INFO", "{line}");
        assert!(about["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
        let text = match want {
            "reject" => "not this",
            "modified" => "changed",
            _ => "because",
        };
        assert_eq!(about["message"], text, "{line}");
    }
    // Calls that came to no verdict have a line as well, with the advice.
    for (id, words, status, verdict) in [
        ("ERROR", ["/judge", "-want", "error"], "failed", "tempfail"),
        ("LATE", ["/slow", "-a", "b"], "timed-out", "accept"),
    ] {
        let file = ["--deadline", "60s", "--file", word(&file)];
        calls.by_tcp(&[&file[..], &words, &["-queue-id", id]].concat());
        let line = line(&calls.server, id);
        assert_eq!(line["status"], status, "{line}");
        assert_eq!(line["verdict"], verdict, "{line}");
        assert_eq!(line["caller"], "127.0.0.1", "{line}");
        // Nobody else may notice that a procedure fails on every mail.
        assert_eq!(line["level"], "WARN", "{line}");
    }
}

/// What strangers say begins no line of its own.
#[test]
fn a_sender_cannot_write_lines() {
    let calls = Calls::start(&[("judge.luau", &JUDGE.replace("MODE", ""))]);
    let file = calls.file("m.eml", b"Subject: hello\r\n\r\n");
    let words = ["--file", word(&file), "/judge", "-want", "accept"];
    let from = [
        "-queue-id",
        "QUEUE",
        "-from",
        "a\nforged line\x1b[31m\n\"x=1",
    ];
    calls.by_unix(&[&words[..], &from].concat()).success();
    let log = calls.server.wait_log(0, "QUEUE");
    let is_forged = |line: &str| line.starts_with("forged") || line.contains('\x1b');
    assert!(!log.lines().any(is_forged), "{log}");
}

/// Under `mode = "observe"` the verdict stands in the log and the figures, and mail passes as it
/// is.
#[test]
fn an_observed_procedure_changes_nothing() {
    let calls = start();
    for run in [Calls::by_unix, Calls::by_tcp] {
        for want in [
            "reject",
            "tempfail",
            "discard",
            "quarantine",
            "modified",
            "error",
        ] {
            let file = calls.file("m", MESSAGE);
            let words = ["--profile", "sysexits", "--deadline", "60s", "--in-place"];
            let asked = ["--file", word(&file), "/trial", "-want", want];
            let finished = run(&calls, &[&words[..], &asked].concat());
            assert_eq!(code(&finished), Some(0), "{want}: {finished}");
            assert_eq!(std::fs::read(&file).expect("it is there"), MESSAGE);
        }
    }
    let parts = ["\"trial\"", "\"verdict\""];
    let log = calls.server.wait_lines(12, &parts);
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| parts.iter().all(|part| line.contains(part)))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let verdict = |line: &Value| line["verdict"].as_str().map(str::to_owned);
    let verdicts: Vec<_> = lines.iter().filter_map(verdict).collect();
    let once = [
        "reject",
        "tempfail",
        "discard",
        "quarantine",
        "modified",
        "reject",
    ];
    assert_eq!(verdicts, [once, once].concat(), "{log}");
    assert!(lines.iter().all(|line| line["observe"] == true));
    let status = calls.by_unix(&["/status", "-format", "json"]).success();
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let mut figures = status["procedures"].as_array().expect("a list").iter();
    let trial = figures.find(|one| one["procedure"] == "trial");
    let counted = &trial.expect("its figures")["verdicts"];
    for verdict in ["reject", "tempfail", "discard", "quarantine", "modified"] {
        assert!(
            counted.to_string().contains(&format!("[\"{verdict}\",2]")),
            "{counted}"
        );
    }
}
