//! Postfix hands messages to `stentor-call`.

use crate::{Site, open, script};

/// A site whose pipe asks the procedure that the milter asks as well: it tells them apart by who
/// calls.
fn site(body: &str) -> Site {
    let body = format!("if call.caller == 'milter' then return accept() end\n{body}");
    let manifest = "needs = \"body\"\ndeadline = \"60s\"\ngrants = [\"log\"]";
    Site::start(&script(manifest, &body), &open())
}

/// Sends to a box of the archive and waits for what Postfix makes of it: a line of its log.
#[track_caller]
fn fate(site: &Site, name: &str, words: &[&str]) -> String {
    let to = format!("{name}@archive.example");
    site.send(&[&["--to", &to], words].concat()).success();
    outcome(site, &to)
}

/// The line about a delivery, which follows the one that names the recipient at once.
fn outcome(site: &Site, to: &str) -> String {
    let what = format!("to=<{to}>, relay=stentor");
    let log = site.postfix.log().wait(0, &what);
    let line = log.lines().find(|line| line.contains(&what));
    line.expect("it was waited for").to_owned()
}

#[test]
fn exit_codes_are_what_postfix_does() {
    let site = site(
        "if call.from ~= 'a@ext.test' or not string.find(call.rcpt[1], '@archive.example', 1, true) then
            return reject('wrong envelope')
        end
        if not call.queue_id then return reject('no queue id') end
        local want = call:header('subject')
        if want == 'refuse' then return reject('not wanted', { status = '5.7.9' }) end
        if want == 'later' then return tempfail('come back') end
        if want == 'drop' then return discard('gone') end
        if want == 'hold' then return quarantine('odd') end
        if want == 'break' then error('oops') end
        return accept()",
    );
    let line = fate(&site, "fine", &["--header", "Subject: fine"]);
    assert!(line.contains("dsn=2.0.0, status=sent"), "{line}");
    let line = fate(&site, "refused", &["--header", "Subject: refuse"]);
    assert!(
        line.contains("dsn=5.7.9, status=bounced (not wanted"),
        "{line}"
    );
    let line = fate(&site, "later", &["--header", "Subject: later"]);
    assert!(
        line.contains("dsn=4.7.1, status=deferred (come back"),
        "{line}"
    );
    // Neither of these bounces to whoever is named as the sender.
    let line = fate(&site, "dropped", &["--header", "Subject: drop"]);
    assert!(
        line.contains("dsn=2.0.0, status=sent") && !line.contains("gone"),
        "{line}"
    );
    let line = fate(&site, "held", &["--header", "Subject: hold"]);
    assert!(line.contains("dsn=4.7.1, status=deferred (odd"), "{line}");
    // What went wrong is in the server's log, and nowhere where the sender reads it.
    let line = fate(&site, "broken", &["--header", "Subject: break"]);
    let told = "dsn=4.7.1, status=deferred (the message cannot be checked now";
    assert!(line.contains(told) && !line.contains("oops"), "{line}");
    site.server().wait_log(0, "oops");
}

#[test]
fn each_recipient_of_a_message_is_delivered_to() {
    let site = site("return accept()");
    let both = ["one@archive.example", "two@archive.example"];
    site.send(&["--to", &both.join(",")]).success();
    for to in both {
        let line = outcome(&site, to);
        assert!(line.contains("dsn=2.0.0, status=sent"), "{line}");
    }
}

#[test]
fn a_killed_server_defers_mail() {
    let mut site = site("log('it runs') while true do end");
    let to = "box@archive.example";
    site.send(&["--to", to]).success();
    site.server().wait_log(0, "it runs");
    site.kill();
    let line = outcome(&site, to);
    assert!(line.contains("dsn=4."), "{line}");
    assert!(line.contains("status=deferred"), "{line}");
}
