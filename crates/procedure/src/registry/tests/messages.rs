//! What procedures see of messages, and what they make of them.

use super::*;

#[test]
fn changes_become_edits_of_the_callers_file() {
    let place = good(&[(
        "change.luau",
        "--[[ procedure\nneeds = \"body\"\n]]
        return function(call)
            call:remove_header('x-old')
            call:append('-- \\r\\nbye\\r\\n')
            call:add_header('X-New', 'yes')
            return 'accept'
        end",
    )]);
    // What is added at the top stands before the header that is taken away there.
    let text = "x-old: 0\r\nT: u\r\nX-Old: 1\r\n \r\n 2\r\nx-OLD: 3\r\nS: t\r\n\r\nbody\r\n";
    let outcome = place.outcome(with_message("change", text));
    assert_eq!(outcome.verdict, Verdict::Modified);
    let mut changed = String::new();
    let mut at = 0;
    for change in &outcome.changes {
        changed.push_str(&text[at..change.offset as usize]);
        changed.push_str(std::str::from_utf8(&change.inserted).unwrap());
        at = (change.offset + change.deleted) as usize;
    }
    changed.push_str(&text[at..]);
    let expected = "X-New: yes\r\nT: u\r\nS: t\r\n\r\nbody\r\n-- \r\nbye\r\n";
    assert_eq!(changed, expected);
    // In a spool file, offsets count from its beginning.
    let spool = format!("[::1]:1;x\r\nx\r\n<<MAIL-DATA>>\r\n{text}");
    let start = spool.len() - text.len();
    let content = Content::Bytes(spool.into_bytes());
    let mut call = empty_call("change");
    call.message = Message::new(content, 0, Format::XmailSpool).unwrap().0;
    let outcome = place.outcome(call);
    assert_eq!(outcome.changes[0].offset, start as u64);
    // One who cannot change anything makes it fail instead of passing unchanged.
    let mut call = with_message("change", text);
    call.can_edit = false;
    assert_eq!(place.call(call).status, Status::Failed);
}

/// A message as a caller passes it.
fn passed(path: &Path, is_prompt: bool) -> Message {
    let file = fs::File::open(path).expect("it is there");
    Message::later(file, 0, Format::Message, is_prompt, crate::Closer::new())
}

/// A file system may hang: whoever takes calls reads no files.
#[test]
fn files_are_read_by_the_procedures_own_threads() {
    let text = "--[[ procedure\nneeds = \"size\"\n]]
        return function(call) return accept(call.size .. ' ' .. tostring(call.args.x)) end";
    let place = good(&[("size.luau", text)]);
    let path = place.folder.path().join("m");
    fs::write(&path, "T: u\r\n\r\nbody").unwrap();
    for name in ["size", "noop", "echo", "sizecheck"] {
        let mut call = empty_call(name);
        call.message = passed(&path, false);
        let (send, answered) = channel();
        place.registry.call(call, move |answer, _| {
            let sent = send.send((answer, std::thread::current().id()));
            sent.expect("the test waits");
        });
        let (answer, thread) = answered.recv().unwrap();
        assert_eq!(answer.status, Status::Done, "{name}: {}", answer.reason);
        assert_ne!(thread, std::thread::current().id(), "{name}");
        // What is no message is told by the same thread.
        let mut call = empty_call(name);
        call.message = passed(place.folder.path(), false);
        let answer = place.call(call);
        assert_eq!(answer.status, Status::BadCall, "{name}");
        assert_eq!(answer.advice, Some(Verdict::Tempfail), "{name}");
    }
    let mut call = empty_call("sizecheck");
    call.arguments = vec![("max".into(), "11".into())];
    call.message = passed(&path, false);
    assert_eq!(place.outcome(call).verdict, Verdict::Reject);
}

/// Handing a call to another thread costs more than reading a file that waits for nobody.
#[test]
fn prompt_files_are_read_by_whoever_takes_the_call() {
    let place = good(&[]);
    let path = place.folder.path().join("m");
    fs::write(&path, "T: u\r\n\r\nbody").unwrap();
    for (max, verdict) in [("12", Verdict::Accept), ("11", Verdict::Reject)] {
        let mut call = empty_call("sizecheck");
        call.arguments = vec![("max".into(), max.into())];
        call.message = passed(&path, true);
        let (send, answered) = channel();
        place.registry.call(call, move |answer, _| {
            send.send(answer).expect("the test waits");
        });
        let answer = answered.try_recv().expect("it is answered at once");
        assert_eq!(answer.verdict(), Some(verdict), "{max}");
    }
    let mut call = empty_call("sizecheck");
    call.message = passed(place.folder.path(), true);
    assert_eq!(place.call(call).status, Status::BadCall);
}

/// A procedure that tells of each part its type, its name and this.
fn parts_and(field: &str) -> Place {
    let text = format!(
        "--[[ procedure\nneeds = \"body\"\n]]
        return function(call)
            local seen = {{}}
            for _, part in call:parts() do
                table.insert(seen, `{{part.type}} {{part.name}} {{{field}}}`)
            end
            return accept(table.concat(seen, '|'))
        end"
    );
    good(&[("parts.luau", &text)])
}

#[test]
fn parts_are_shown() {
    let place = parts_and("part.content");
    let text = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n--b\r\n\
                Content-Type: application/x-msdownload; name=a.exe\r\n\
                Content-Transfer-Encoding: base64\r\n\r\nTVo=\r\n--b--\r\n";
    let outcome = place.outcome(with_message("parts", text));
    assert_eq!(
        outcome.text,
        "text/plain nil hello|application/x-msdownload a.exe MZ"
    );
}

/// What hides in a forwarded message is shown, and no part is left out in silence.
#[test]
fn parts_of_parts_are_shown() {
    let place = parts_and("part.to ~= nil");
    let inner = "Content-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\n\r\nhello\r\n--i\r\n\
                 Content-Type: application/x-msdownload; name=a.exe\r\n\r\nMZ\r\n--i--\r\n";
    let text = format!(
        "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\n\
         Content-Type: message/rfc822\r\n\r\n{inner}\r\n--o--\r\n"
    );
    let outcome = place.outcome(with_message("parts", &text));
    assert_eq!(
        outcome.text,
        "message/rfc822 nil true|text/plain nil false|application/x-msdownload a.exe false"
    );
    let many = "--o\r\n\r\nx\r\n".repeat(1001);
    let text = format!("Content-Type: multipart/mixed; boundary=o\r\n\r\n{many}--o--\r\n");
    let answer = place.call(with_message("parts", &text));
    assert_eq!(answer.status, Status::Failed);
    assert!(answer.reason.contains("more than 1000 parts"), "{answer:?}");
}

#[test]
fn messages_that_are_too_large_are_not_looked_at() {
    let text = "--[[ procedure\nneeds = \"body\"\nmax_body = \"10B\"\non_large = \"reject\"\n]]
        return function() return accept() end";
    let place = good(&[("small.luau", text)]);
    let outcome = place.outcome(with_message("small", "T: u\n\nlong"));
    assert_eq!(outcome.verdict, Verdict::Accept);
    let outcome = place.outcome(with_message("small", "T: u\n\nlonger"));
    assert_eq!(outcome.verdict, Verdict::Reject);
    assert!(outcome.text.contains("10 bytes"));
}

#[test]
fn message_ids_are_found_on_the_line_after_their_name() {
    for (headers, id) in [
        ("A: b\r\nMessage-ID: <1@a>\r\nC: d", Some("<1@a>")),
        ("message-id:\r\n <1@a>\r\nC: d", Some("<1@a>")),
        ("Message-Id:\n\t<1\n @a>\n", Some("<1 @a>")),
        ("X-Message-ID: <1@a>\n", None),
        ("Message", None),
    ] {
        assert_eq!(message_id(headers.as_bytes()).as_deref(), id, "{headers:?}");
    }
}
