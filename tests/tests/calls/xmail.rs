//! XMail's contract, emulated: spool files, macros, signals, exit codes, reply files.
//!
//! XMail starts a filter by fork and exec without a shell, with SIGPIPE ignored and four signals
//! blocked, and reads the raw exit code: in the queue 4 drops, 5 may freeze, 6 bounces, 7 says that
//! the message was changed; while the SMTP client waits, 3 refuses with the line in `FILE.rej`.
//! Everything else delivers. Before XMail 1.16, in 2002, 97 to 99 refused and 100 said "changed".

use std::fs;
use std::path::Path;
use std::process::Command;

use stentor_tests::process;

use crate::{Calls, client, code, word};

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

/// The fate that XMail of 2002 had for a code: no flags, and files without a line about the
/// connection.
fn in_2002(code: i32) -> Fate {
    match code {
        97 => Fate::Dropped,
        98 => Fate::Frozen,
        99 => Fate::Bounced,
        100 => Fate::DeliveredChanged,
        _ => Fate::Delivered,
    }
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

#[test]
fn filters_of_2002_have_their_own_codes() {
    let calls = Calls::start(&[("policy.luau", POLICY)]);
    let socket = calls.server.folder().join("call.sock");
    let program = client().get_program().to_owned();
    let program = program.to_str().unwrap();
    for (subject, fate) in [
        ("test", Fate::Delivered),
        ("mark", Fate::DeliveredChanged),
        ("refuse", Fate::Bounced),
        ("later", Fate::Delivered),
        ("drop", Fate::Dropped),
        ("hold", Fate::Frozen),
    ] {
        let whole = spool(&MESSAGE.replace("test\r\nFrom", &format!("{subject}\r\nFrom")));
        let (_, before) = whole.split_once("\r\n").unwrap();
        let file = calls.file("S1", before.as_bytes());
        let profile = ["--profile", "xmail-2002", "--file", "@@FILE", "/policy"];
        let line = [&[program, "-s", word(&socket)][..], &profile].concat();
        let code = filter(&line, &file);
        assert_eq!(in_2002(code), fate, "{subject}: {code}");
        let after = fs::read_to_string(&file).unwrap();
        let preamble = before.split_once("<<MAIL-DATA>>").unwrap().0;
        assert!(after.starts_with(preamble), "{after}");
        assert_eq!(after.contains("X-Seen: yes\r\n"), subject == "mark");
        assert!(!file.with_file_name("S1.rej").exists());
    }
}

/// Lines that were written for the client of 2002 are understood, whatever XMail runs them.
#[test]
fn an_old_line_lets_nothing_too_large_pass() {
    let calls = Calls::start(&[]);
    let socket = calls.server.folder().join("call.sock");
    let program = client().get_program().to_owned();
    let program = program.to_str().unwrap();
    let whole = spool(MESSAGE);
    let (_, of_2002) = whole.split_once("\r\n").unwrap();
    for (max, in_queue, at_smtp) in [
        ("1000", Fate::Delivered, Fate::Delivered),
        (
            "10",
            Fate::Bounced,
            Fate::Refused("552 5.3.4 the message has 41 bytes; the limit is 10".to_owned()),
        ),
    ] {
        let line = [
            &[program, "-s", word(&socket), "/sizecheck"][..],
            &["-file", "@@FILE", "-rrcpt", "@@RRCPT", "-max", max],
        ]
        .concat();
        let file = calls.file("S2", whole.as_bytes());
        assert_eq!(queue(filter(&line, &file), &whole, &file), in_queue);
        let file = calls.file("S1", of_2002.as_bytes());
        assert_eq!(in_2002(filter(&line, &file)), in_queue);
        let file = calls.file("8a41.xtmp", whole.as_bytes());
        assert_eq!(smtp(filter(&line, &file), &file), at_smtp);
    }
}

/// What is neither the old spelling nor the new one does not pass as an argument.
#[test]
fn a_half_old_line_lets_nothing_pass() {
    let calls = Calls::start(&[("policy.luau", POLICY)]);
    let file = calls.file("S1", spool(MESSAGE).as_bytes());
    let line = ["/sizecheck", "-f", word(&file), "-rrcpt", "c@d"];
    let finished = calls.by_unix(&line);
    assert_eq!(code(&finished), Some(2), "{finished}");
    let told = "-f after the procedure is not understood: write --file, or `-- -f VALUE`";
    assert!(finished.stderr.contains(told), "{finished}");
    let line = ["--profile", "xmail-queue", "--on-error", "reject"];
    let finished = calls.by_unix(&[&line[..], &["/sizecheck", "-stdin"]].concat());
    assert_eq!(code(&finished), Some(6), "{finished}");
    // No message at all.
    let finished = calls.by_unix(&["--profile", "xmail-smtp", "/sizecheck", "-rrcpt", "c@d"]);
    assert!(
        finished.stderr.contains("no message to look at"),
        "{finished}"
    );
    let line = ["--profile", "xmail-queue", "--on-error", "reject"];
    let finished = calls.by_unix(&[&line[..], &["/sizecheck", "-rrcpt", "c@d"]].concat());
    assert_eq!(code(&finished), Some(6), "{finished}");
    // The same of a procedure that would accept it without a look.
    for run in [Calls::by_unix, Calls::by_tcp] {
        let finished = run(&calls, &["/policy", "-File", word(&file)]);
        assert_eq!(code(&finished), Some(2), "{finished}");
        let told = "the procedure needs its headers or body; stentor-call shows one by --file";
        assert!(finished.stderr.contains(told), "{finished}");
    }
    let line = ["/echo", "-a", "b", "--", "-file", "x", "-s", "y"];
    let finished = calls.by_unix(&line);
    assert_eq!(finished.stdout, "a=b\nfile=x\ns=y\nsize=0\n", "{finished}");
}

/// Without room for the reply there is none: an empty one would be what the sender is told.
#[test]
fn half_a_reply_is_no_reply() {
    let calls = Calls::start(&[("policy.luau", POLICY)]);
    let socket = calls.server.folder().join("call.sock");
    let program = client().get_program().to_owned();
    let message = spool(&MESSAGE.replace("test\r\nFrom", "refuse\r\nFrom"));
    let file = calls.file("8a3f.xtmp", message.as_bytes());
    let mut command = Command::new("sh");
    // No file may grow, and what tries is told so rather than killed: like a full disk.
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
    command
        .arg(program)
        .args(["-s", word(&socket), "--profile"]);
    command.args(["xmail-smtp", "--file", word(&file), "/policy"]);
    command.args(["-from", "a@ext.test", "-rcpt", "xmailuser@xmailserver.test"]);
    let finished = process::run(&mut command);
    assert_eq!(
        smtp(code(&finished).expect("an exit"), &file),
        Fate::Refused("554 refused".to_owned())
    );
    assert!(!file.with_file_name("8a3f.xtmp.rej").exists());
    let complaint = &finished.stderr;
    assert!(
        complaint.contains("cannot write") && complaint.contains(".rej"),
        "{complaint}"
    );
}

/// Filters that run at RCPT and before DATA see a file with an envelope and no message. At RCPT
/// the recipient in question stands in its macro alone; the file has those that were taken.
#[test]
fn an_envelope_is_judged_before_the_message() {
    let judge = "--[[ procedure\nneeds = \"envelope\"\nanonymous = true\n]]
        return function(call)
            local to = table.concat(call.rcpt, ' ')
            if call.size ~= 0 or call.can_edit then return reject('a message') end
            if call.from == 'b@ext.test' then return tempfail(to) end
            return reject(to, { code = 550, status = '5.1.1' })
        end";
    let calls = Calls::start(&[("judge.luau", judge)]);
    let socket = calls.server.folder().join("call.sock");
    let program = client().get_program().to_owned();
    let program = program.to_str().unwrap();
    let info = "[127.0.0.1]:19526;[127.0.0.1]:2525;[192.0.2.1]:25;x;y;Sat, 21 Nov 2026";
    let envelope = format!(
        "{info}\r\nxmailserver.test\r\nS2\r\nMAIL FROM:<a@ext.test> size=86\r\n\
         RCPT TO:<alias@xmailserver.test> {{ra=x@xmailserver.test}}\r\nRCPT TO:<y@z>\r\n"
    );
    for (from, rcpt, reply) in [
        ("a@ext.test", None, "550 5.1.1 alias@xmailserver.test y@z"),
        ("b@ext.test", None, "451 4.7.1 alias@xmailserver.test y@z"),
        ("a@ext.test", Some("q@z"), "550 5.1.1 q@z"),
    ] {
        let file = calls.file("9c.xtmp", envelope.replace("a@ext.test", from).as_bytes());
        let mut line = vec![program, "-s", word(&socket), "--profile", "xmail-smtp"];
        line.extend(["--file", "@@FILE", "/judge"]);
        if let Some(rcpt) = rcpt {
            line.extend(["-rcpt", rcpt]);
        }
        let code = filter(&line, &file);
        assert_eq!(smtp(code, &file), Fate::Refused(reply.to_owned()), "{code}");
        let after = fs::read_to_string(&file).unwrap();
        assert_eq!(after, envelope.replace("a@ext.test", from));
    }
}

/// An envelope that is longer than is read is told as such, and `--on-error` holds.
#[test]
fn an_envelope_may_be_too_long() {
    let calls = Calls::start(&[("policy.luau", POLICY)]);
    let recipients = "RCPT TO:<somebody@xmailserver.test>\r\n".repeat(2_000);
    let long = spool(MESSAGE).replace("<<MAIL", &format!("{recipients}<<MAIL"));
    let file = calls.file("8a40.xtmp", long.as_bytes());
    let profile = ["--profile", "xmail-queue", "--on-error", "reject"];
    let words = [&profile[..], &["--file", word(&file), "/policy"]].concat();
    for run in [Calls::by_unix, Calls::by_tcp] {
        let finished = run(&calls, &words);
        assert_eq!(code(&finished), Some(6), "{finished}");
        let told = "line <<MAIL-DATA>> is not in its first 65536 bytes, the most that may";
        assert!(finished.stderr.contains(told), "{finished}");
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
