//! XMail's own lines for one recipient, emulated: `mailproc.tab`, `cmdaliases`, `custdomains`.
//!
//! Written from XMail's documentation and the sources of XMail 1.27 (`SMAILUtils.cpp`). A file has
//! a command in each line, and XMail runs them in their order. After `external`, the exit code 16
//! skips the rest, and every other code goes on. After `filter`, 4 drops, 5 may freeze, 6 bounces,
//! 7 says that the message was changed, and the flag 16 skips the rest. The file of a message may
//! be changed by filters only. A program gets a copy by `@@TMPFILE`, and has to delete it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stentor_tests::process;

use crate::{Calls, client, code, word};

const CALL: &str = "--[[ procedure
needs = \"headers\"
anonymous = true
]]
return function(call)
    local want = call:header('subject')
    if call.from ~= 'a@ext.test' or call.rcpt[1] ~= 'help@example.test' then
        return reject('wrong envelope')
    end
    if want == 'mark' then call:add_header('X-Seen', 'yes') return accept() end
    if want == 'refuse' then return reject('not wanted') end
    if want == 'later' then return tempfail('come back') end
    if want == 'drop' then return discard() end
    if want == 'hold' then return quarantine() end
    return accept()
end";

/// What has become of a message when its file of commands is done.
#[derive(Debug, Default, PartialEq, Eq)]
struct Done {
    /// What the commands below the calls did: `mailbox`, or `smtp` for a domain that is elsewhere.
    ran: Vec<String>,
    bounced: bool,
    dropped: bool,
    frozen: bool,
}

impl Done {
    fn is_over(&self) -> bool {
        self.bounced || self.dropped || self.frozen
    }
}

fn spool(subject: &str) -> String {
    format!(
        "[127.0.0.1]:19526;[127.0.0.1]:2525;Sat, 21 Nov 2026 01:32:07 -0000\r\n\
         example.test\r\nS2\r\nMAIL FROM: <a@ext.test>\r\n\
         RCPT TO: <help@example.test>\r\n<<MAIL-DATA>>\r\n\
         Subject: {subject}\r\nFrom: a@ext.test\r\n\r\nbody\r\n"
    )
}

/// The words of a line, each in quotes, with tabs between them.
fn words(line: &str) -> Vec<String> {
    let words = line.split('\t');
    let bare = |word: &str| {
        let inner = word
            .strip_prefix('"')
            .and_then(|word| word.strip_suffix('"'));
        inner.expect(line).to_owned()
    };
    words.map(bare).collect()
}

/// A copy of the message for `@@TMPFILE`, of which XMail knows nothing afterwards.
fn copy(file: &Path) -> PathBuf {
    let copy = file.with_extension("tmp");
    fs::copy(file, &copy).expect("a copy can be made");
    copy
}

/// Runs one program as XMail does: macros replaced, no shell, its signals.
fn run(line: &[String], file: &Path) -> i32 {
    assert!(line.join("\t").len() < 512, "XMail reads no longer lines");
    let mut words = line.iter().map(|word| match word.as_str() {
        "@@FILE" => file.display().to_string(),
        "@@TMPFILE" => copy(file).display().to_string(),
        "@@FROM" => "a@ext.test".to_owned(),
        "@@RCPT" | "@@RRCPT" => "help@example.test".to_owned(),
        // Unknown ones become empty.
        word if word.starts_with("@@") => String::new(),
        word => word.to_owned(),
    });
    let mut command = Command::new("env");
    command.args(["--block-signal=ALRM,TERM,INT,HUP", "--ignore-signal=PIPE"]);
    command.arg(words.next().expect("a program")).args(words);
    code(&process::run(&mut command)).expect("it is not killed")
}

/// Runs a file of commands about a message.
fn process_file(text: &str, file: &Path) -> Done {
    let mut done = Done::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let words = words(line);
        let is_call = matches!(words[0].as_str(), "external" | "filter");
        if !is_call {
            done.ran.push(words[0].clone());
            continue;
        }
        let mut code = run(&words[3..], file);
        if words[2] == "0" {
            // XMail does not wait for it.
            code = 0;
        }
        let is_filter = words[0] == "filter";
        match code & !16 {
            4 if is_filter => done.dropped = true,
            5 if is_filter => done.frozen = true,
            6 if is_filter => done.bounced = true,
            _ => {}
        }
        let stops = if is_filter {
            code & 16 != 0
        } else {
            code == 16
        };
        if done.is_over() || stops {
            return done;
        }
    }
    done
}

/// The lines of `deploy/mail`, with the path of the built client and the test's own socket.
fn shipped(name: &str, calls: &Calls) -> String {
    let path = stentor_tests::tools::project()
        .join("deploy/mail/xmail")
        .join(name);
    let text = fs::read_to_string(&path).expect("the file is shipped");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let program = client().get_program().to_owned();
    let program = program.to_str().expect("the path is text");
    let socket = calls.server.folder().join("call.sock");
    let known = format!("\"{program}\"\t\"-s\"\t\"{}\"", socket.display());
    let text = text.replace("\"/usr/bin/stentor-call\"", &known);
    assert!(text.contains(&known), "{path:?} calls stentor-call");
    text
}

fn names(ran: &[&str]) -> Vec<String> {
    ran.iter().map(|name| (*name).to_owned()).collect()
}

/// A user's own file: a filter judges before the mailbox.
#[test]
fn a_mailproc_judges_by_a_filter() {
    let calls = Calls::start(&[("judge.luau", CALL)]);
    let lines = shipped("mailproc.tab", &calls);
    for (subject, expected) in [
        (
            "test",
            Done {
                ran: names(&["mailbox"]),
                ..Done::default()
            },
        ),
        (
            "mark",
            Done {
                ran: names(&["mailbox"]),
                ..Done::default()
            },
        ),
        (
            "later",
            Done {
                ran: names(&["mailbox"]),
                ..Done::default()
            },
        ),
        (
            "refuse",
            Done {
                bounced: true,
                ..Done::default()
            },
        ),
        (
            "drop",
            Done {
                dropped: true,
                ..Done::default()
            },
        ),
        (
            "hold",
            Done {
                frozen: true,
                ..Done::default()
            },
        ),
    ] {
        let before = spool(subject);
        let file = calls.file("8a3f", before.as_bytes());
        assert_eq!(process_file(&lines, &file), expected, "{subject}");
        let after = fs::read_to_string(&file).expect("the file is there");
        let (preamble, _) = before.split_once("<<MAIL-DATA>>").expect("a marker");
        assert!(after.starts_with(preamble), "XMail freezes it otherwise");
        assert_eq!(after.contains("X-Seen: yes\r\n"), subject == "mark");
    }
}

/// An alias that is nothing but commands: an external command decides whether the rest runs.
#[test]
fn a_cmdalias_stops_by_an_external_command() {
    let calls = Calls::start(&[("judge.luau", CALL)]);
    let lines = shipped("cmdalias.tab", &calls);
    for (subject, goes_on) in [
        ("test", true),
        ("mark", true),
        ("later", true),
        ("refuse", false),
        ("drop", false),
        ("hold", false),
    ] {
        let before = spool(subject);
        let file = calls.file("8a3f", before.as_bytes());
        let ran = if goes_on {
            names(&["redirect"])
        } else {
            Vec::new()
        };
        let expected = Done {
            ran,
            ..Done::default()
        };
        assert_eq!(process_file(&lines, &file), expected, "{subject}");
        let after = fs::read_to_string(&file).expect("the file is there");
        assert_eq!(after, before, "an external command only reads it");
    }
}

/// A domain that is handled by commands: one is only told, with a copy that it deletes.
#[test]
fn a_custom_domain_tells_a_procedure_and_goes_on() {
    let calls = Calls::start(&[("judge.luau", CALL)]);
    let lines = shipped("custdomain.tab", &calls);
    for subject in ["test", "later", "refuse"] {
        let file = calls.file("8a3f", spool(subject).as_bytes());
        let done = process_file(&lines, &file);
        assert_eq!(done.ran, names(&["smtp"]), "{subject}");
        assert!(file.exists());
        assert!(!file.with_extension("tmp").exists(), "the copy is deleted");
    }
    // It is deleted too where nobody answers; XMail goes on with the next line.
    let file = calls.file("8a3f", spool("test").as_bytes());
    let folder = calls.server.folder();
    let nobody = lines.replace(word(&folder.join("call.sock")), word(&folder.join("none")));
    let done = process_file(&nobody, &file);
    assert_eq!(done.ran, names(&["smtp"]));
    assert!(!file.with_extension("tmp").exists(), "the copy is deleted");
    let log = calls.server.log();
    assert_eq!(log.matches("procedure=\"judge\"").count(), 3, "{log}");
}

/// A token file that cannot be read is a trouble like any other: the copy is deleted. After a
/// mistake on the command line it stays, for nobody knows what was meant.
#[test]
fn a_copy_is_deleted_where_the_token_cannot_be_read_but_not_after_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.tmp");
    let missing = folder.path().join("no-token");
    for (option, is_left) in [("--token-file", false), ("--tokenfile", true)] {
        fs::write(&copy, "a message").expect("a file can be written");
        let mut call = client();
        call.args(["--server", "127.0.0.1", option]).arg(&missing);
        call.args(["--delete-file", "--file"]).arg(&copy);
        let finished = process::run(call.arg("/judge"));
        assert!(!finished.status.success(), "{finished}");
        assert_eq!(copy.exists(), is_left, "{option}: {finished}");
    }
}
