//! The procedures that are shipped: each is loaded as it is, and does what it says.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use stentor_procedure::{
    Answer, Call, Caller, Content, Envelope, Format, Message, Outcome, Registry, Settings, Verdict,
};

struct Place {
    registry: Registry,
    _folder: tempfile::TempDir,
}

fn shipped() -> PathBuf {
    // At run time: objects may be shared between checkouts, and this one is meant.
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&crate_folder).join("../../deploy/procedures")
}

fn place() -> Place {
    place_with(shipped())
}

fn place_with(procedures: PathBuf) -> Place {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = Settings {
        folder: Some(procedures),
        store: Some(folder.path().join("store.redb")),
        ..Settings::default()
    };
    let (registry, loaded) = Registry::open(settings).expect("the folder can be read");
    assert_eq!(loaded.refused, [], "every example can be loaded");
    Place {
        registry,
        _folder: folder,
    }
}

fn call(procedure: &str, message: &str, arguments: &[(&str, &str)]) -> Call {
    let arguments: Vec<_> = arguments
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let content = Content::Bytes(message.as_bytes().to_vec());
    Call {
        procedure: procedure.to_owned(),
        envelope: Envelope::of_arguments(&arguments),
        arguments,
        caller: Caller::User {
            zone: "default".to_owned(),
            name: "mail".to_owned(),
        },
        message: Message::new(content, 0, Format::Message)
            .expect("a message")
            .0,
        deadline: Instant::now() + Duration::from_secs(60),
        can_edit: true,
        is_clients: false,
        outlet: None,
    }
}

impl Place {
    fn answer(&self, call: Call) -> Answer {
        let (send, receive) = channel();
        self.registry
            .call(call, move |answer, _| drop(send.send(answer)));
        receive.recv().expect("every call is answered")
    }

    fn outcome(&self, call: Call) -> Outcome {
        let answer = self.answer(call);
        let shown = format!("{answer:?}");
        answer.outcome.expect(&shown)
    }
}

/// The message as the outcome would have it.
fn changed(message: &str, outcome: &Outcome) -> String {
    let mut new = String::new();
    let mut at = 0;
    for change in &outcome.changes {
        new.push_str(&message[at..change.offset as usize]);
        new.push_str(std::str::from_utf8(&change.inserted).expect("text"));
        at = (change.offset + change.deleted) as usize;
    }
    new.push_str(&message[at..]);
    new
}

const LETTER: &str = "From: a@ext.test\r\nTo: Bob <bob@here.test>\r\nSubject: hi\r\n\
                      Message-ID: <1@ext.test>\r\n\r\nbody\r\n";

const AWAY: [(&str, &str); 3] = [
    ("from", "a@ext.test"),
    ("rcpt", "bob@here.test"),
    ("text", "I am away."),
];

#[test]
fn autoreply_answers_once() {
    let place = place();
    let first = place.outcome(call("autoreply", LETTER, &AWAY));
    assert_eq!(first.verdict, Verdict::Accept);
    let answer = String::from_utf8(first.result).unwrap();
    let start = "From: <bob@here.test>\nTo: <a@ext.test>\nSubject: Re: hi\n";
    assert!(answer.starts_with(start), "{answer:?}: {}", first.text);
    assert!(
        answer.contains("\nAuto-Submitted: auto-replied\n"),
        "{answer}"
    );
    assert!(answer.contains("\nIn-Reply-To: <1@ext.test>\n"), "{answer}");
    assert!(answer.ends_with("\n\nI am away.\n"), "{answer}");
    let second = place.outcome(call("autoreply", LETTER, &AWAY));
    assert_eq!(
        (second.verdict, second.result.as_slice()),
        (Verdict::Accept, &b""[..])
    );
    // Another user answers for themselves.
    let letter = LETTER.replace("bob", "eve");
    let other = [AWAY[0], ("rcpt", "eve@here.test"), AWAY[2]];
    assert!(
        !place
            .outcome(call("autoreply", &letter, &other))
            .result
            .is_empty()
    );
}

/// A copy of the shipped script whose users have texts.
fn autoreply_of(texts: &str) -> (tempfile::TempDir, Place) {
    let script = std::fs::read_to_string(shipped().join("autoreply.luau")).expect("it is shipped");
    let none = "local TEXTS = {";
    assert!(script.contains(none), "{script}");
    let script = script.replace(none, &format!("{none}\n{texts}"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("autoreply.luau"), script).expect("it can be written");
    let place = place_with(folder.path().to_owned());
    (folder, place)
}

#[test]
fn autoreply_has_a_text_for_each_user() {
    let (_folder, place) = autoreply_of(
        "['bob@here.test'] = 'Bob is away.',
        ['eve@here.test'] = function(call) return 'Eve got ' .. call:header('subject') end,
        ['ann@here.test'] = function() error('oops') end,",
    );
    let ask = |from: &str, to: &str, text: &[(&str, &str)]| {
        let letter = LETTER.replace("Bob <bob@here.test>", to);
        let arguments = [&[("from", from), ("rcpt", to)], text].concat();
        place.answer(call("autoreply", &letter, &arguments))
    };
    let result = |answer: Answer| {
        let shown = format!("{answer:?}");
        String::from_utf8(answer.outcome.expect(&shown).result).expect("text")
    };
    assert!(result(ask("a@x", "bob@here.test", &[])).ends_with("\n\nBob is away.\n"));
    assert!(result(ask("a@x", "Eve@here.test", &[])).ends_with("\n\nEve got hi\n"));
    assert_eq!(result(ask("a@x", "tom@here.test", &[])), "");
    assert!(result(ask("a@x", "tom@here.test", &[AWAY[2]])).ends_with("\n\nI am away.\n"));
    let broken = ask("a@x", "ann@here.test", &[]);
    let place = "autoreply.luau:";
    assert!(
        broken.reason.starts_with(place) && broken.reason.contains("oops"),
        "{broken:?}"
    );
    assert_eq!(broken.advice, Some(Verdict::Accept));
    // One person gets one answer from one person, by whatever addresses.
    for (from, to) in [
        ("a@x", "bob+1@here.test"),
        ("a@x", "BOB+2@Here.test"),
        ("a+3@x", "bob@here.test"),
    ] {
        assert_eq!(result(ask(from, to, &[])), "", "{from} to {to}");
    }
    assert_ne!(result(ask("b@x", "bob+1@here.test", &[])), "");
}

/// A subject of any language comes back whole, in words that every mail program can read.
#[test]
fn autoreply_speaks_any_language() {
    let place = place();
    let subject = |subject: &str, from: &str| {
        let letter = LETTER.replace("Subject: hi", &format!("Subject: {subject}"));
        let arguments = [("from", from), AWAY[1], AWAY[2]];
        let answer = place.outcome(call("autoreply", &letter, &arguments));
        let answer = String::from_utf8(answer.result).expect("text");
        assert!(answer.contains("\nMIME-Version: 1.0\n"), "{answer}");
        let headers = answer.split_once("\n\n").expect("a body").0;
        assert!(headers.is_ascii(), "{headers}");
        assert!(headers.lines().all(|line| line.len() <= 76), "{headers}");
        let (_, rest) = headers.split_once("\nSubject: Re: ").expect("a subject");
        rest.split_once("\nAuto-")
            .expect("more headers")
            .0
            .to_owned()
    };
    assert_eq!(subject("hi =", "a@x"), "hi =");
    assert_eq!(
        subject("=?iso-8859-1?Q?Gr=FC=DFe?=", "b@x"),
        "=?utf-8?B?R3LDvMOfZQ==?="
    );
    let long = subject(&"\u{00fc}".repeat(60), "c@x");
    let words: Vec<_> = long.split("\n ").collect();
    assert_eq!(words.len(), 4, "{long}");
    assert_eq!(words[3], format!("=?utf-8?B?{}?=", "w7zDvMO8".repeat(4)));
    // What looks like an encoded word is not read as one by whoever gets the answer.
    assert_eq!(
        subject("=?utf-8?B?PT94Pz0=?=", "d@x"),
        "=?utf-8?B?PT94Pz0=?="
    );
}

/// A message to several people is answered by each who is away, once; one text that is broken
/// harms nobody else.
#[test]
fn autoreply_answers_for_each_recipient() {
    let (_folder, place) = autoreply_of(
        "['ann@here.test'] = function() error('oops') end,
        ['bob@here.test'] = 'Bob is away.',",
    );
    let letter = LETTER.replace("Bob <bob@here.test>", "ann@here.test, Bob <bob@here.test>");
    let ask = |recipients: &[&str]| {
        let mut arguments = vec![("from", "a@ext.test"), ("send", "yes")];
        arguments.extend(recipients.iter().map(|to| ("rcpt", *to)));
        place.answer(call("autoreply", &letter, &arguments))
    };
    // There is no relay here; what it would be sent by says so, for each person once.
    let answer = ask(&["bob+1@here.test", "bob+2@here.test"]);
    assert!(answer.reason.contains("relay"), "{answer:?}");
    let answer = ask(&["ann@here.test", "tom@here.test"]);
    assert!(answer.reason.contains("oops"), "{answer:?}");
}

/// Two of them that write to each other say one thing each, and what machines send gets none.
#[test]
fn autoreply_makes_no_loops() {
    let place = place();
    let header = |line: &str| format!("{line}\r\n{LETTER}");
    for letter in [
        header("Auto-Submitted: auto-replied"),
        header("Precedence: bulk"),
        // Another one of the same name stands before it.
        header("Auto-Submitted: no\r\nAuto-Submitted: auto-generated"),
        header("Precedence: first-class\r\nPrecedence: (x) List"),
        header("Auto-Submitted: (x) auto-notified; y=no"),
        header("Precedence: auto_reply"),
        header("Return-Path: <>"),
        header("Return-Path: <a@ext.test>\r\nReturn-Path: < >"),
        header("Content-Type: multipart/report; report-type=delivery-status; boundary=b"),
        header("List-Id: <l.ext.test>"),
        header("X-Loop: x"),
        header("X-Auto-Response-Suppress: All"),
        LETTER.replace("Bob <bob@here.test>", "undisclosed-recipients:;"),
    ] {
        let outcome = place.outcome(call("autoreply", &letter, &AWAY));
        assert_eq!(outcome.result, b"", "{letter}: {}", outcome.text);
    }
    for from in [
        "",
        "<>",
        "MAILER-DAEMON@x",
        "noreply@x",
        "owner-list@x",
        "bounce+1-a=b@x",
        "bob+x@here.test",
        "bob@here.test",
    ] {
        let arguments = [("from", from), AWAY[1], AWAY[2]];
        let outcome = place.outcome(call("autoreply", LETTER, &arguments));
        assert_eq!(outcome.result, b"", "{from}: {}", outcome.text);
    }
    // What says that a person has sent it is answered.
    for (from, line) in [
        ("ann@ext.test", "Auto-Submitted: No (by hand)"),
        ("eve@ext.test", "Return-Path: <eve@ext.test>"),
    ] {
        let arguments = [("from", from), AWAY[1], AWAY[2]];
        let outcome = place.outcome(call("autoreply", &header(line), &arguments));
        assert_ne!(outcome.result, b"", "{line}: {}", outcome.text);
    }
    let own = place.outcome(call("autoreply", LETTER, &AWAY)).result;
    let own = String::from_utf8(own).unwrap();
    let back = [("from", "bob@here.test"), ("rcpt", "a@ext.test")];
    assert_eq!(place.outcome(call("autoreply", &own, &back)).result, b"");
}

#[test]
fn signature_goes_after_the_plain_text() {
    let place = place();
    let text = [("text", "-- \nbye")];
    let outcome = place.outcome(call("signature", LETTER, &text));
    assert_eq!(outcome.verdict, Verdict::Modified);
    let new = changed(LETTER, &outcome);
    assert_eq!(
        new,
        format!("X-Signature-Added: yes\r\n{LETTER}\r\n-- \r\nbye\r\n")
    );
    // Once is enough.
    let again = place.outcome(call("signature", &new, &text));
    assert_eq!(again.verdict, Verdict::Accept);
    let parts = "Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\
                 Content-Type: text/plain\r\n\r\nhello\r\n--b\r\nContent-Type: text/html\r\n\r\n\
                 <p>hello\r\n--b--\r\n";
    let outcome = place.outcome(call("signature", parts, &text));
    let new = changed(parts, &outcome);
    assert!(
        new.contains("hello\r\n-- \r\nbye\r\n\r\n--b\r\nContent-Type: text/html"),
        "{new}"
    );
    for kind in ["multipart/signed; boundary=b", "application/pkcs7-mime"] {
        let signed = parts.replace("multipart/alternative; boundary=b", kind);
        let outcome = place.outcome(call("signature", &signed, &text));
        assert_eq!(outcome.verdict, Verdict::Accept, "{kind}");
    }
    // In whatever it is packed; what is not signed there may be changed.
    let signed = parts.replace("multipart/alternative", "Multipart/Signed");
    let packed = |more: &str| {
        format!(
            "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\n{signed}\r\n{more}--o--\r\n"
        )
    };
    let outcome = place.outcome(call("signature", &packed(""), &text));
    assert_eq!(outcome.verdict, Verdict::Accept, "{}", outcome.text);
    let open = packed("--o\r\n\r\nfooter\r\n");
    let new = changed(&open, &place.outcome(call("signature", &open, &text)));
    assert!(
        new.contains(&signed) && new.contains("footer\r\n-- \r\nbye"),
        "{new}"
    );
    // Where there is no text, the text would be a header, or stand before one.
    for none in ["", "Subject: s\r\n"] {
        let outcome = place.outcome(call("signature", none, &text));
        assert_eq!(
            outcome.verdict,
            Verdict::Accept,
            "{none:?}: {}",
            outcome.text
        );
        assert_eq!(outcome.text, "no text to sign");
    }
}

/// The sender of a message chooses what is in it: none passes for being hard to read.
#[test]
fn what_is_too_much_to_be_read_is_refused() {
    let place = place();
    let outer = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
                 Content-Disposition: attachment; filename=a.exe\r\n\r\nhello\r\n";
    let many = format!("{outer}{}", "--b\r\n\r\n\r\n".repeat(1001));
    let deep = format!(
        "{outer}--b\r\n{}",
        "Content-Type: message/rfc822\r\n\r\n".repeat(30)
    );
    let long = format!("{outer}--b\r\nA: {}\r\n\r\n", "x".repeat(70_000));
    let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(15);
    let large = format!("{nested}\r\n{}", "x".repeat(6 << 20));
    for (letter, name) in [
        (many, "many"),
        (deep, "deep"),
        (long, "long"),
        (large, "large"),
    ] {
        let outcome = place.outcome(call("attachments", &letter, &[]));
        assert_eq!(outcome.verdict, Verdict::Reject, "{name}: {}", outcome.text);
    }
    // A forward of a forward of a document is not too much.
    let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(2);
    let forwarded = format!("{nested}\r\n{}", "x".repeat(6 << 20));
    let outcome = place.outcome(call("attachments", &forwarded, &[]));
    assert_eq!(outcome.verdict, Verdict::Accept, "{}", outcome.text);
}

#[test]
fn attachments_that_run_are_refused() {
    let place = place();
    let letter = |name: &str, content: &str| {
        format!(
            "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsee there\r\n--b\r\n\
             Content-Type: application/octet-stream; name=\"{name}\"\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{content}\r\n--b--\r\n"
        )
    };
    for (name, content, verdict) in [
        ("notes.txt", "aGVsbG8=", Verdict::Accept),
        ("invoice.pdf.EXE", "aGVsbG8=", Verdict::Reject),
        ("macro.vbs ", "aGVsbG8=", Verdict::Reject),
        ("=?utf-8?B?YS5leGU=?=", "aGVsbG8=", Verdict::Reject),
        ("a.exe::$DATA", "aGVsbG8=", Verdict::Reject),
        ("a\u{ff0e}e\u{200b}xe", "aGVsbG8=", Verdict::Reject),
        (
            "a.txt\"; x=y filename=a.exe; y=\"",
            "aGVsbG8=",
            Verdict::Reject,
        ),
        // A program under another name.
        ("photo.jpg", "TVqQAAM=", Verdict::Reject),
    ] {
        let outcome = place.outcome(call("attachments", &letter(name, content), &[]));
        assert_eq!(outcome.verdict, verdict, "{name}: {}", outcome.text);
    }
    assert_eq!(
        place.outcome(call("attachments", LETTER, &[])).verdict,
        Verdict::Accept
    );
}

/// What mail administrators block, some with a minus sign or braces in the ending; and what has
/// such an ending only at the first look.
#[test]
fn endings_that_run_are_refused() {
    let place = place();
    let refused = "a.ws a.wsb a.wsf a.jnlp a.xll a.iso a.img a.vhd a.vhdx a.url a.reg a.scf a.msix \
                   a.appx a.lnk a.hta a.cpl a.msc a.ps1 a.psm1 a.dmg a.apk a.mjs a.msu a.website \
                   a.appref-ms a.search-ms a.library-ms a.SettingContent-ms a.appcontent-ms \
                   a.{645FF040-5081-101B-9F08-00AA002F954E} a.pdf.ISO a.ex_ winmail.dat";
    let accepted = "a.pdf a.docx a.zip a.png a.tar.gz a.isometric a-ms a.exe-b exe ws README a.txt";
    for (names, verdict) in [(refused, Verdict::Reject), (accepted, Verdict::Accept)] {
        for name in names.split_whitespace() {
            let letter = format!(
                "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsee there\r\n--b\r\n\
                 Content-Disposition: attachment; filename=\"{name}\"\r\n\r\nhello\r\n--b--\r\n"
            );
            let outcome = place.outcome(call("attachments", &letter, &[]));
            assert_eq!(outcome.verdict, verdict, "{name}: {}", outcome.text);
        }
    }
}

/// Messages that keep from the procedure what their reader will see.
#[test]
fn what_cannot_be_judged_is_refused() {
    let place = place();
    let base64 = "Content-Transfer-Encoding: base64\r\n\r\n";
    let uuencoded = "begin 644 a.exe\r\n#35H`\r\n`\r\nend\r\n";
    let program = "Content-Type: a/b; name=a.exe\r\n\r\nx";
    // --b␍␊Content-Type: a/b; name=a.exe␍␊␍␊x␍␊--b--
    let container = "LS1iDQpDb250ZW50LVR5cGU6IGEvYjsgbmFtZT1hLmV4ZQ0KDQp4DQotLWItLQ==";
    // Content-Type: a/b; name=a.exe␍␊␍␊x
    let message = "Q29udGVudC1UeXBlOiBhL2I7IG5hbWU9YS5leGUNCg0KeA==";
    for (letter, reason) in [
        (
            "Content-Type: message/partial; id=x; number=1; total=2\r\n\r\nMIME-Version: 1.0"
                .into(),
            "pieces of a message",
        ),
        (
            "Content-Type: message/external-body; access-type=URL\r\n\r\nContent-Type: a/b".into(),
            "elsewhere",
        ),
        (
            "Content-Type: application/ms-tnef\r\n\r\nx".into(),
            "winmail.dat",
        ),
        (
            format!("Content-Type: a/b\r\n{base64}eJ8+IgE="),
            "winmail.dat",
        ),
        (format!("Content-Type: x/y\r\n\r\n{uuencoded}"), "type .exe"),
        (
            format!(
                "Content-Transfer-Encoding: x-uuencode\r\nContent-Type: x/y\r\n\r\n{uuencoded}"
            ),
            "type .exe",
        ),
        (
            format!("Content-Type: multipart/mixed; boundary=b\r\n{base64}{container}"),
            "type .exe",
        ),
        (
            format!("Content-Type: message/rfc822\r\n{base64}{message}"),
            "type .exe",
        ),
        // It says that it is encoded, and is not.
        (
            format!("Content-Type: message/rfc822\r\n{base64}{program}"),
            "type .exe",
        ),
        // Two boundaries, of which each mail program takes one.
        (
            format!(
                "Content-Type: multipart/mixed; boundary=B; boundary*=us-ascii''A\r\n\r\n\
                 --A\r\n\r\nharmless\r\n--A--\r\n--B\r\n{program}\r\n--B--\r\n"
            ),
            "type .exe",
        ),
    ] {
        let letter: String = letter;
        let outcome = place.outcome(call("attachments", &letter, &[]));
        assert_eq!(outcome.verdict, Verdict::Reject, "{letter}");
        assert!(outcome.text.contains(reason), "{letter}: {}", outcome.text);
    }
}

/// The front guard asked about a message of this sender; the outcome with its reply code.
fn guarded(place: &Place, (client, from): (&str, &str), more: &[(&str, &str)]) -> (Verdict, u16) {
    let usual = [
        ("client", client),
        ("from", from),
        ("rcpt", "bob@here.test"),
    ];
    let arguments = [&usual[..], more].concat();
    let outcome = place.outcome(call("vanguard", "", &arguments));
    (outcome.verdict, outcome.reply_code)
}

const LATER: (Verdict, u16) = (Verdict::Tempfail, 450);
const NEVER: (Verdict, u16) = (Verdict::Reject, 550);
const WELCOME: (Verdict, u16) = (Verdict::Accept, 0);

#[test]
fn the_front_guard_trusts_who_has_come_back() {
    let place = place();
    let ann = ("192.0.2.1", "ann@ext.test");
    assert_eq!(guarded(&place, ann, &[]), LATER);
    assert_eq!(guarded(&place, ann, &[]), LATER);
    for _ in 0..2 {
        // The time has passed.
        assert_eq!(guarded(&place, ann, &[("delay", "0")]), WELCOME);
    }
    // From now on other recipients get its mail at once, from any server of its network.
    let other = [("rcpt", "eve@here.test")];
    assert_eq!(guarded(&place, ("192.0.2.9", ann.1), &other), WELCOME);
    // Its name alone is worth nothing.
    assert_eq!(guarded(&place, ("198.51.100.1", ann.1), &[]), LATER);
    // Nor does trust let anybody send without end.
    assert_eq!(guarded(&place, ann, &[("rate", "0")]), LATER);
    let own = [("user", "bob"), ("rate", "0")];
    assert_eq!(guarded(&place, ("203.0.113.1", "x@y"), &own), WELCOME);
}

#[test]
fn the_front_guard_refuses_whom_others_complain_of() {
    let place = place();
    let (spammer, neighbour) = (("192.0.2.1", "x@spam.test"), ("192.0.2.2", "ann@ext.test"));
    let report = |what| guarded(&place, spammer, &[("report", what)]);
    assert_eq!(report("spam"), WELCOME);
    assert_eq!(
        guarded(&place, spammer, &[]),
        LATER,
        "once may be a mistake"
    );
    report("spam");
    assert_eq!(guarded(&place, spammer, &[]), NEVER);
    assert_eq!(guarded(&place, neighbour, &[]), LATER);
    report("spam");
    assert_eq!(guarded(&place, neighbour, &[]), NEVER, "the whole network");
    assert_eq!(guarded(&place, ("198.51.100.1", spammer.1), &[]), LATER);
    report("good");
    report("good");
    assert_eq!(guarded(&place, spammer, &[]), WELCOME);
    let wrong = [("client", "192.0.2.1"), ("report", "maybe")];
    let answer = place.answer(call("vanguard", "", &wrong));
    assert!(answer.outcome.is_none(), "{answer:?}");
    // Without an address there is nothing to guard against, and nobody shall believe so.
    let answer = place.answer(call("vanguard", "", &[("from", "a@b")]));
    assert!(answer.reason.contains("-client ADDRESS"), "{answer:?}");
}

/// IPv6 addresses have many spellings, and `::` stands for groups like others.
#[test]
fn the_front_guard_knows_networks_by_any_spelling() {
    for (spammer, same, other) in [
        ("2001:db9::1:2", "2001:db9::77", "2001:db9:1:2::77"),
        ("2001:dba::5", "2001:dba::6", "2001:dba:0:1::6"),
        ("2001:db8::", "2001:DB8:0:0:1::", "2001:db8:0:1::"),
        ("::1:2:3:4", "::2", "1:2:3:4::"),
        ("::ffff:192.0.2.1", "192.0.2.2", "::ffff:198.51.100.1"),
        ("192.0.2.1", "::FFFF:C000:203", "198.51.100.1"),
        ("fe80::1%eth0", "fe80::2%eth1", "fe80:1::1"),
    ] {
        let place = place();
        for _ in 0..3 {
            guarded(&place, (spammer, "s@s"), &[("report", "spam")]);
        }
        assert_eq!(guarded(&place, (same, "t@t"), &[]), NEVER, "{same}");
        assert_eq!(guarded(&place, (other, "s@s"), &[]), LATER, "{other}");
    }
    // What may always send comes as IPv6 from a socket of both kinds.
    let own = [("rate", "0")];
    for client in ["::1", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"] {
        assert_eq!(
            guarded(&place(), (client, "a@b"), &own),
            WELCOME,
            "{client}"
        );
    }
}

/// Postfix asks about each recipient, and tells the queue id from the second one on.
#[test]
fn the_front_guard_counts_a_message_once() {
    let place = place();
    let ask = |id: &str, rate: &str| {
        let more = [("queue-id", id), ("rate", rate), ("delay", "0")];
        guarded(&place, ("192.0.2.1", "a@b.test"), &more)
    };
    assert_eq!(ask("A", "2"), LATER);
    for _ in 0..5 {
        assert_eq!(ask("A", "2"), WELCOME);
    }
    assert_eq!(ask("B", "2"), WELCOME);
    assert_eq!(ask("C", "2"), LATER, "the third message");
    // Postfix names a message before it has a queue id.
    let ask = |instance: &str, rate: &str| {
        let more = [("instance", instance), ("rate", rate), ("delay", "0")];
        guarded(&place, ("203.0.113.1", "a@b.test"), &more)
    };
    assert_eq!(ask("1.2.0", "1"), LATER);
    assert_eq!([ask("1.2.0", "1"), ask("1.2.0", "1")], [WELCOME, WELCOME]);
    assert_eq!(ask("1.3.0", "1"), LATER, "the second message");
    // Without either, nothing says that calls belong together.
    let ask = || {
        let more = [("rate", "2"), ("delay", "0")];
        guarded(&place, ("198.51.100.1", "a@b.test"), &more)
    };
    assert_eq!([ask(), ask(), ask()], [LATER, WELCOME, LATER]);
}

/// What the tables at the beginning of the front guard are for.
#[test]
fn the_front_guard_has_lists() {
    let text = std::fs::read_to_string(shipped().join("vanguard.luau")).expect("it is shipped");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut edited = text;
    for (from, to) in [
        ("-- [\"old-name@example.org\"]", "[\"trap@here.test\"]"),
        ("-- [\"postmaster@example.org\"]", "[\"help@here.test\"]"),
        (
            "clients = {},\n    senders = {}",
            "clients = { \"198.51.100.\" }, senders = { \"@bad.test\" }",
        ),
        ("senders = {}", "senders = { \"@friend.test\" }"),
    ] {
        assert!(edited.contains(from), "{from}");
        edited = edited.replacen(from, to, 1);
    }
    std::fs::write(folder.path().join("vanguard.luau"), edited).expect("it can be written");
    let place = place_with(folder.path().to_owned());
    let ask = |client: &str, from: &str, rcpt: &str| {
        let mut asked = call("vanguard", "", &[("client", client), ("from", from)]);
        asked.envelope.recipients = vec![rcpt.to_owned()];
        let outcome = place.outcome(asked);
        (outcome.verdict, outcome.reply_code)
    };
    let bob = "bob@here.test";
    assert_eq!(ask("198.51.100.7", "a@b.test", bob), NEVER);
    assert_eq!(ask("192.0.2.1", "A@Bad.test", bob), NEVER);
    assert_eq!(ask("198.51.100.7", "a@friend.test", bob), WELCOME);
    assert_eq!(ask("192.0.2.1", "a@b.test", "help@here.test"), WELCOME);
    // A sender that writes to a trap has lost its name.
    assert_eq!(ask("192.0.2.1", "a@b.test", bob), LATER);
    assert_eq!(ask("192.0.2.1", "a@b.test", "Trap@here.test"), NEVER);
    assert_eq!(ask("192.0.2.1", "a@b.test", bob), NEVER);
}

#[test]
fn greylisting_lets_those_in_who_come_back() {
    let place = place();
    let try_from = |client: &str, delay: &str| {
        let arguments = [
            ("from", "a@ext.test"),
            ("rcpt", "bob@here.test"),
            ("client", client),
            ("delay", delay),
        ];
        place.outcome(call("greylist", "", &arguments))
    };
    let first = try_from("192.0.2.1", "3600");
    assert_eq!((first.verdict, first.reply_code), (Verdict::Tempfail, 450));
    assert_eq!(try_from("192.0.2.1", "3600").verdict, Verdict::Tempfail);
    // The time has passed; servers of one network are one sender.
    assert_eq!(try_from("192.0.2.9", "0").verdict, Verdict::Accept);
    assert_eq!(try_from("192.0.2.1", "3600").verdict, Verdict::Accept);
    assert_eq!(try_from("198.51.100.1", "3600").verdict, Verdict::Tempfail);
    for (first, again, other) in [
        ("2001:db8:1:2::3", "2001:db8:1:2::4", "2001:db8:1:3::3"),
        ("2001:db9::1:2", "2001:DB9::77", "2001:db9:1:2::77"),
        ("::ffff:203.0.113.1", "203.0.113.2", "::ffff:203.0.114.1"),
    ] {
        assert_eq!(try_from(first, "3600").verdict, Verdict::Tempfail);
        assert_eq!(try_from(other, "0").verdict, Verdict::Tempfail, "{other}");
        assert_eq!(try_from(again, "0").verdict, Verdict::Accept, "{again}");
    }
    let own = [("from", "x@y"), ("rcpt", "z@y"), ("user", "bob")];
    assert_eq!(
        place.outcome(call("greylist", "", &own)).verdict,
        Verdict::Accept
    );
}
