//! XMail's contract, emulated: spool files, macros, signals, exit codes, reply files.
//!
//! XMail starts a filter by fork and exec without a shell, with SIGPIPE ignored and four signals
//! blocked, and reads the raw exit code: in the queue 4 drops, 5 may freeze, 6 bounces, 7 says that
//! the message was changed; while the SMTP client waits, 3 refuses with the line in `FILE.rej`.
//! Everything else delivers.

use std::fs;
use std::path::Path;
use std::process::Command;

use stentor_tests::process;

use crate::{Calls, client, word};

const MESSAGE: &str = "Subject: test\r\nFrom: a@ext.test\r\n\r\nbody\r\n";

fn spool(message: &str) -> String {
    format!(
        "[127.0.0.1]:19526;[127.0.0.1]:2525;Sat, 21 Nov 2026 01:32:07 -0000\r\n\
         xmailserver.test\r\nS2\r\nmail FROM:<a@ext.test> size=86\r\n\
         RCPT TO:<xmailuser@xmailserver.test>\r\n<<MAIL-DATA>>\r\n{message}"
    )
}

/// What XMail does with a message after a filter.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Delivered,
    DeliveredChanged,
    Dropped,
    Frozen,
    Bounced,
    Refused(String),
}

/// Runs a line of a filter file as XMail does: macros replaced, no shell, its signals.
fn filter(line: &[&str], file: &Path) -> i32 {
    let mut words = line.iter().map(|word| match *word {
        "@@FILE" => file.display().to_string(),
        "@@FROM" => "a@ext.test".to_owned(),
        "@@RCPT" => "xmailuser@xmailserver.test".to_owned(),
        // Unknown ones become empty.
        word if word.starts_with("@@") => String::new(),
        word => word.to_owned(),
    });
    let mut command = Command::new("env");
    command.args(["--block-signal=ALRM,TERM,INT,HUP", "--ignore-signal=PIPE"]);
    command.arg(words.next().expect("a program")).args(words);
    let finished = process::run(&mut command);
    finished
        .status
        .code()
        .expect("a filter that is killed delivers and skips the others")
}

/// The queue's reading of a code. The preamble must not change, or XMail freezes the message.
fn queue(code: i32, before: &str, file: &Path) -> Fate {
    let after = fs::read_to_string(file).expect("the file is there");
    let preamble = before.split_once("<<MAIL-DATA>>").expect("a spool file").0;
    match code & !16 {
        4 => Fate::Dropped,
        5 => Fate::Frozen,
        6 => Fate::Bounced,
        7 if !after.starts_with(preamble) => Fate::Frozen,
        7 => Fate::DeliveredChanged,
        _ => Fate::Delivered,
    }
}

/// The SMTP server's reading of a code.
fn smtp(code: i32, file: &Path) -> Fate {
    let name = file.file_name().expect("a file has a name");
    let reply = file.with_file_name(format!("{}.rej", name.display()));
    if code & !16 != 3 {
        return Fate::Delivered;
    }
    let line = fs::read_to_string(&reply).unwrap_or_else(|_| "554 refused".to_owned());
    let _ = fs::remove_file(reply);
    assert!(line.len() < 512, "XMail reads at most 512 bytes");
    Fate::Refused(line.lines().next().unwrap_or_default().to_owned())
}

const POLICY: &str = "--[[ procedure\nneeds = \"headers\"\nanonymous = true\n]]
    return function(call)
        local want = call:header('subject')
        if call.from ~= 'a@ext.test' or call.rcpt[1] ~= 'xmailuser@xmailserver.test' then
            return reject('wrong envelope')
        end
        if want == 'mark' then call:add_header('X-Seen', 'yes') return accept() end
        if want == 'refuse' then return reject('not wanted', { code = 550, status = '5.7.1' }) end
        if want == 'later' then return tempfail('come back') end
        if want == 'drop' then return discard() end
        if want == 'hold' then return quarantine() end
        return accept()
    end";

#[test]
fn each_verdict_has_its_fate() {
    let calls = Calls::start(&[("policy.luau", POLICY)]);
    let socket = calls.server.folder().join("call.sock");
    let program = client().get_program().to_owned();
    let program = program.to_str().unwrap();
    let refused = |line: &str| Fate::Refused(line.to_owned());
    for (subject, in_queue, at_smtp) in [
        ("test", Fate::Delivered, Fate::Delivered),
        ("mark", Fate::DeliveredChanged, Fate::Delivered),
        ("refuse", Fate::Bounced, refused("550 5.7.1 not wanted")),
        ("later", Fate::Delivered, refused("451 4.7.1 come back")),
        ("drop", Fate::Dropped, refused("554 5.7.1 message refused")),
        ("hold", Fate::Frozen, refused("554 5.7.1 message refused")),
    ] {
        let before = spool(&MESSAGE.replace("test\r\nFrom", &format!("{subject}\r\nFrom")));
        for profile in ["xmail-queue", "xmail-smtp"] {
            let file = calls.file("8a3f.xtmp", before.as_bytes());
            let line = [
                program,
                "-s",
                word(&socket),
                "--profile",
                profile,
                "--file",
                "@@FILE",
                "/policy",
                "-from",
                "@@FROM",
                "-rcpt",
                "@@RCPT",
                "-size",
                "@@SIZE",
            ];
            let code = filter(&line, &file);
            let after = fs::read_to_string(&file).unwrap();
            if subject == "mark" {
                let marker = "<<MAIL-DATA>>\r\n";
                let wanted = before.replace(marker, &format!("{marker}X-Seen: yes\r\n"));
                assert_eq!(after, wanted);
            } else {
                assert_eq!(after, before);
            }
            if profile == "xmail-queue" {
                assert_eq!(queue(code, &before, &file), in_queue, "{subject}: {code}");
            } else {
                assert_eq!(smtp(code, &file), at_smtp, "{subject}: {code}");
            }
        }
    }
}

/// Without a server, mail is delivered from the queue and refused for now at SMTP time.
#[test]
fn a_server_that_is_gone_costs_no_mail() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.xtmp");
    let before = spool(MESSAGE);
    fs::write(&file, &before).unwrap();
    let program = client().get_program().to_owned();
    let line = |profile: &'static str| {
        let program = program.to_str().unwrap().to_owned();
        [
            program,
            "-s".into(),
            "/nonexistent/sock".into(),
            "--profile".into(),
            profile.into(),
        ]
    };
    let run = |profile: &'static str| {
        let line = line(profile);
        let mut words: Vec<&str> = line.iter().map(String::as_str).collect();
        words.extend(["--file", "@@FILE", "/policy"]);
        filter(&words, &file)
    };
    assert_eq!(queue(run("xmail-queue"), &before, &file), Fate::Delivered);
    let fate = smtp(run("xmail-smtp"), &file);
    assert!(
        matches!(&fate, Fate::Refused(line) if line.starts_with("451 4.")),
        "{fate:?}"
    );
    // In 2002 there was another table: 96 delivers.
    assert_eq!(run("xmail-2002"), 96);
}
