//! Postfix asks about recipients.

use crate::{Site, open, script};

/// A procedure that the milter lets pass.
fn site(body: &str) -> Site {
    let manifest = "needs = \"envelope\"\ngrants = [\"store\"]";
    Site::start(&open(), &script(manifest, body))
}

#[test]
fn recipients_are_judged_one_by_one() {
    let site = site(
        "if call.rcpt[1] == 'no@here.test' then
            return reject('no such user', { code = 550, status = '5.1.1' })
        end
        if call.rcpt[1] == 'later@here.test' then return tempfail('busy', { code = 450 }) end
        if call.rcpt[1] == 'drop@here.test' then return discard() end
        if call.rcpt[1] == 'hold@here.test' then return quarantine('look at it') end
        if call.rcpt[1] == 'oops@here.test' then error('a secret of the script') end
        if call.size > 0 then return reject('announced ' .. call.size) end
        if call.client ~= '127.0.0.1' or call.helo ~= 'client.test' then error('who?') end
        return accept()",
    );
    let mailbox = site.delivered(&["--body", "for b"]);
    assert!(mailbox.contains("for b"), "{mailbox}");
    for (to, reply) in [
        ("no@here.test", "550 5.1.1"),
        ("later@here.test", "450 4.7.1"),
        ("oops@here.test", "451 4.7.1"),
    ] {
        site.refused(&["--to", to], reply);
    }
    site.send(&["--to", "drop@here.test"]).success();
    site.send(&["--to", "hold@here.test"]).success();
    assert_eq!(site.postfix.queued("hold"), 1);
    assert!(!site.server().log().is_empty());
    assert!(!site.postfix.log().text().contains("a secret of the script"));
}

/// The shipped greylisting, as Postfix asks it: first later, then welcome.
#[test]
fn greylisting_lets_pass_who_comes_back() {
    let greylist = std::fs::read_to_string(
        stentor_tests::tools::project().join("deploy/procedures/greylist.luau"),
    )
    .unwrap();
    let quick = crate::replaced(&greylist, "local DELAY = 60", "local DELAY = 0");
    let site = Site::start(&open(), &quick);
    site.refused(&[], "450 4.7.1");
    let mailbox = site.delivered(&["--body", "back again"]);
    assert!(mailbox.contains("back again"), "{mailbox}");
    // Another sender is another stranger.
    site.refused(&["--to", "c@here.test"], "450 4.7.1");
}

#[test]
fn without_a_server_postfix_says_so() {
    let mut site = Site::start_with(&open(), &open(), "smtpd_milters =\n");
    site.kill();
    site.refused(&[], "451 4.3.5");
}

/// What came with the shipped lines: one's own users may send anywhere, and are not greylisted.
#[test]
fn own_users_send_anywhere_and_are_not_asked_about() {
    let refusing = script("needs = \"envelope\"", "return reject('not for strangers')");
    // Elsewhere is the mailbox of the test: the transport `virtual` takes it.
    let more = "mynetworks = 127.0.0.0/8\nsmtpd_relay_restrictions = permit_mynetworks, \
                reject_unauth_destination\ntransport_maps = inline:{ elsewhere.example=discard }\n";
    let site = Site::start_with(&open(), &refusing, more);
    let from = site.postfix.log().text().len();
    site.send(&["--to", "carol@elsewhere.example"]).success();
    site.postfix.log().wait(from, "relay=none");
    // Strangers are asked about, and send nothing elsewhere.
    let site = Site::start(&open(), &refusing);
    site.refused(&["--to", "carol@elsewhere.example"], "554 5.7.1");
    site.refused(&[], "554 5.7.1");
}
