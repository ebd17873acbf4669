//! Postfix shows messages to a procedure while the SMTP client waits.

use nix::sys::signal::Signal;
use stentor_tests::process;

use crate::{Site, open, script};

const POLICY: &str = "
    local want = call:header('subject')
    if call.from ~= 'a@ext.test' or call.helo ~= 'client.test' or call.client ~= '127.0.0.1' then
        return tempfail('wrong envelope: ' .. tostring(call.from) .. ' ' .. tostring(call.helo)
            .. ' ' .. tostring(call.client))
    end
    if want == 'refuse' then
        return reject('100% not wanted', { code = 552, status = '5.3.4' })
    end
    if want == 'later' then return tempfail('come back') end
    if want == 'drop' then return discard('dropped') end
    if want == 'hold' then return quarantine('suspicious') end
    if want == 'oops' then error('a secret of the script') end
    if want == 'mark' then
        call:add_header('X-Seen', call.rcpt[1])
        call:remove_header('X-Mailer')
        call:append('one line more\\r\\n')
        return accept('marked')
    end
    return accept(#call.rcpt .. ' recipients')";

fn site() -> Site {
    let manifest = "needs = \"body\"\ndeadline = \"60s\"";
    Site::start(&script(manifest, POLICY), &open())
}

/// The lines of the log about a verdict, of which there is one at least.
fn verdicts(site: &Site, verdict: &str) -> Vec<String> {
    let verdict = format!("verdict=\"{verdict}\"");
    let parts = ["procedure=\"attachments\"", &verdict];
    let log = site.server().wait_lines(1, &parts);
    let is_wanted = |line: &&str| parts.iter().all(|part| line.contains(part));
    log.lines().filter(is_wanted).map(str::to_owned).collect()
}

#[test]
fn verdicts_are_what_postfix_does() {
    let site = site();
    let subject = |want| ["--header", want];
    let mailbox = site.delivered(&["--to", "b@here.test,c@here.test", "--body", "as it is"]);
    assert!(mailbox.contains("\nas it is\n"), "{mailbox}");
    assert!(!mailbox.contains("X-Seen"), "{mailbox}");
    site.refused(&subject("Subject: refuse"), "552 5.3.4 100% not wanted");
    site.refused(&subject("Subject: later"), "451 4.7.1 come back");
    // A failure of the script is the operator's affair.
    let reply = "451 4.7.1 the message cannot be checked now";
    site.refused(&subject("Subject: oops"), reply);
    // Taken, and nothing arrives.
    site.send(&subject("Subject: drop")).success();
    assert_eq!(site.postfix.queued("hold"), 0);
    site.send(&subject("Subject: hold")).success();
    assert_eq!(site.postfix.queued("hold"), 1);
    let mailbox = site.delivered(&["--header", "Subject: mark", "--body", "to be marked"]);
    let marked = mailbox.rsplit("From a@ext.test").next().unwrap();
    assert!(marked.contains("\nX-Seen: b@here.test\n"), "{marked}");
    assert!(!marked.contains("X-Mailer"), "{marked}");
    assert!(marked.contains("to be marked\n"), "{marked}");
    assert!(marked.contains("\none line more\n"), "{marked}");
    assert!(!mailbox.contains("Subject: drop"), "{mailbox}");
    assert!(!mailbox.contains("Subject: hold"), "{mailbox}");
    for (verdict, text) in [
        ("accept", "2 recipients"),
        ("reject", "100% not wanted"),
        ("discard", "dropped"),
        ("quarantine", "suspicious"),
        ("modified", "marked"),
    ] {
        let lines = verdicts(&site, verdict);
        let line = lines.first().expect(verdict);
        for part in [
            "version=\"7\"",
            "status=\"done\"",
            "queue_id=\"",
            "message_id=\"<",
            "from=\"a@ext.test\"",
            "rcpt=\"b@here.test",
            "size=",
            "ms=",
            text,
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(!line.contains("queue_id=\"\""), "{line}");
    }
    assert!(verdicts(&site, "accept")[0].contains("rcpt=\"b@here.test, c@here.test\""));
}

/// A server that is killed while it works on a message: the client is told to come back, and the
/// mail passes once the server is there again.
#[test]
fn a_killed_server_defers_mail() {
    let slow = "log('it runs') while true do end";
    let manifest = "needs = \"body\"\ndeadline = \"120s\"\ngrants = [\"log\"]";
    let mut site = Site::start(&script(manifest, slow), &open());
    let client = process::start(&mut site.swaks(&[]));
    site.server().wait_log(0, "it runs");
    site.kill();
    let finished = process::finish(client, stentor_tests::DEADLINE);
    assert!(!finished.status.success(), "{finished}");
    let reply = "451 4.7.1 Service unavailable - try again later";
    assert!(finished.stdout.contains(reply), "{finished}");
    assert_eq!(site.postfix.mailbox(), "");
    // As long as there is no server.
    site.refused(&[], reply);
}

/// Large messages arrive whole, also in the file that keeps them; larger ones than are looked at
/// get what the manifest says.
#[test]
fn large_messages_are_seen_whole() {
    let manifest = "needs = \"body\"\ndeadline = \"60s\"\nmemory = \"64MiB\"\nmax_body = \"3MiB\"\n\
                    on_large = \"reject\"";
    let body = "local raw = call:raw()
        if #raw ~= call.size then return tempfail('short') end
        local _, lines = string.gsub(raw, 'xxxxxxxxxx\\r\\n', '')
        return reject(lines .. ' lines')";
    let site = Site::start(&script(manifest, body), &open());
    for (lines, reply) in [
        (10, "554 5.7.1 10 lines"),
        (200_000, "554 5.7.1 200000 lines"),
        (300_000, "554 5.7.1 not looked at: more than 3145728 bytes"),
    ] {
        let path = site.folder.path().join("body");
        std::fs::write(&path, "xxxxxxxxxx\n".repeat(lines)).unwrap();
        let file = format!("@{}", crate::path_text(&path));
        site.refused(&["--body", &file], reply);
    }
}

/// The end of a server ends its connections, and Postfix does without it.
#[test]
fn a_server_stops_in_the_middle_of_a_conversation() {
    let site = site();
    let raw = std::net::TcpStream::connect(("127.0.0.1", site.postfix.port())).unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(raw));
    // Postfix has shown the connection to the filter before it greets.
    assert!(lines.next().unwrap().unwrap().starts_with("220"));
    site.server().signal(Signal::SIGTERM);
    let mut site = site;
    let mut server = site.server.take().unwrap();
    assert!(server.ended().success());
}
