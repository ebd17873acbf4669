//! Exit codes, as each kind of caller understands them.
//!
//! One table would be wrong for somebody: exit code 75 makes Postfix try again later and XMail
//! deliver. So a caller is named by its profile.

use stentor_call_protocol::Verdict;

/// The mail server whose exit codes are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// XMail since 1.16, `filters.in.tab` and `filters.out.tab`.
    XmailQueue,
    /// XMail since 1.19, filters while the SMTP client waits.
    XmailSmtp,
    /// XMail before 1.16.
    Xmail2002,
    /// XMail's command `external` in `mailproc.tab`, `cmdaliases` and `custdomains`.
    XmailExternal,
    /// The codes of `sysexits.h`.
    Sysexits,
    /// Postfix `pipe`: those codes, and a status code at the beginning of the output.
    PostfixPipe,
    /// Exim `${run}`.
    Exim,
    /// procmail and maildrop.
    Procmail,
    /// Shell scripts.
    Plain,
}

impl Profile {
    /// All, with their names.
    pub(crate) const ALL: [(Self, &'static str); 9] = [
        (Self::XmailQueue, "xmail-queue"),
        (Self::XmailSmtp, "xmail-smtp"),
        (Self::Xmail2002, "xmail-2002"),
        (Self::XmailExternal, "xmail-external"),
        (Self::Sysexits, "sysexits"),
        (Self::PostfixPipe, "postfix-pipe"),
        (Self::Exim, "exim"),
        (Self::Procmail, "procmail"),
        (Self::Plain, "plain"),
    ];

    /// The profile of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(profile, _)| *profile)
    }

    /// The name that somebody may have meant who wrote this one.
    pub(crate) fn near(name: &str) -> Option<&'static str> {
        let names = Self::ALL.iter().map(|(_, known)| *known);
        let nearest = names.min_by_key(|known| edits(name, known))?;
        (edits(name, nearest) <= NEAR_EDITS_MAX).then_some(nearest)
    }

    /// The files of this caller are XMail's spool files.
    pub(crate) const fn is_xmail(self) -> bool {
        self.lets_change() || matches!(self, Self::XmailExternal)
    }

    /// It gives its files away to be changed. An external command of XMail may only read them.
    pub(crate) const fn lets_change(self) -> bool {
        matches!(self, Self::XmailQueue | Self::XmailSmtp | Self::Xmail2002)
    }

    /// What is printed comes before the text: a status code, for callers that look for one.
    pub(crate) const fn prints_status_code(self) -> bool {
        matches!(self, Self::Sysexits | Self::PostfixPipe)
    }

    /// What this caller's programs write goes back to whoever sent the message, from standard error
    /// as from standard output. Postfix even reads the status code at the beginning of both.
    pub(crate) const fn shows_output_to_senders(self) -> bool {
        matches!(self, Self::PostfixPipe | Self::Exim)
    }

    /// What this caller gets instead of a verdict that it cannot carry out: the next one that
    /// loses no mail and sends no refusal to whoever is named as the sender. What a filter prints
    /// is delivered, so a filter has no way to discard.
    pub(crate) const fn told(self, verdict: Verdict, is_filter: bool) -> Verdict {
        match (self, verdict, is_filter) {
            (Self::PostfixPipe | Self::Exim, Verdict::Quarantine, _)
            | (Self::PostfixPipe | Self::Exim, Verdict::Discard, true) => Verdict::Tempfail,
            _ => verdict,
        }
    }

    /// The exit code for a verdict.
    ///
    /// Where a caller has no code for a verdict, it gets the next more careful one that loses no
    /// mail: what was to be discarded or put aside is refused. XMail's queue filters have no way to
    /// say "later", so such mail is delivered. Transports that end here have thrown a message away
    /// when they say that they delivered it; what they cannot put aside stays in the queue.
    pub(crate) const fn exit_code(self, verdict: Verdict) -> i32 {
        match self {
            Self::XmailQueue => match verdict {
                Verdict::Accept | Verdict::Tempfail => 0,
                Verdict::Modified => 7,
                Verdict::Reject => 6,
                Verdict::Discard => 4,
                Verdict::Quarantine => 5,
            },
            // With the reply in a file beside the message; see `Outcome::finish`.
            Self::XmailSmtp => match verdict {
                Verdict::Accept | Verdict::Modified => 0,
                Verdict::Reject | Verdict::Tempfail | Verdict::Discard | Verdict::Quarantine => 3,
            },
            Self::Xmail2002 => match verdict {
                Verdict::Accept | Verdict::Tempfail => 96,
                Verdict::Modified => 100,
                Verdict::Reject => 99,
                Verdict::Discard => 97,
                Verdict::Quarantine => 98,
            },
            // The commands that follow are skipped. XMail knows no other code.
            Self::XmailExternal => match verdict {
                Verdict::Accept | Verdict::Modified | Verdict::Tempfail => 0,
                Verdict::Reject | Verdict::Discard | Verdict::Quarantine => STOP,
            },
            Self::Sysexits => match verdict {
                Verdict::Accept | Verdict::Modified => 0,
                Verdict::Reject => EX_UNAVAILABLE,
                Verdict::Tempfail => EX_TEMPFAIL,
                Verdict::Discard => DISCARD,
                Verdict::Quarantine => QUARANTINE,
            },
            Self::PostfixPipe | Self::Exim => match verdict {
                Verdict::Accept | Verdict::Modified | Verdict::Discard => 0,
                Verdict::Reject => EX_UNAVAILABLE,
                Verdict::Tempfail | Verdict::Quarantine => EX_TEMPFAIL,
            },
            Self::Procmail => match verdict {
                Verdict::Accept | Verdict::Modified => 0,
                Verdict::Reject => EX_NOPERM,
                Verdict::Tempfail => EX_TEMPFAIL,
                Verdict::Discard => DISCARD,
                Verdict::Quarantine => QUARANTINE,
            },
            Self::Plain => match verdict {
                Verdict::Accept | Verdict::Modified => 0,
                Verdict::Reject => 1,
                Verdict::Tempfail => 2,
                Verdict::Discard => 3,
                Verdict::Quarantine => 4,
            },
        }
    }
}

/// The most mistakes in a name that leave it recognizable.
const NEAR_EDITS_MAX: usize = 2;

/// How many letters have to be added, removed or replaced to make one name of the other.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

/// `SMAIL_EXTERNAL_EXIT_BREAK` of XMail.
const STOP: i32 = 16;
const EX_UNAVAILABLE: i32 = 69;
/// Of `sysexits.h`, as those beside it.
const EX_TEMPFAIL: i32 = 75;
const EX_NOPERM: i32 = 77;
/// Outside `sysexits.h`, for scripts that want to tell it apart; mail servers bounce the mail.
const DISCARD: i32 = 99;
/// As [`DISCARD`].
const QUARANTINE: i32 = 98;

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the documentation, row by row: accept, modified, reject, tempfail, discard,
    /// quarantine.
    #[test]
    fn every_profile_has_its_codes() {
        for (profile, codes) in [
            (Profile::XmailQueue, [0, 7, 6, 0, 4, 5]),
            (Profile::XmailSmtp, [0, 0, 3, 3, 3, 3]),
            (Profile::Xmail2002, [96, 100, 99, 96, 97, 98]),
            (Profile::XmailExternal, [0, 0, 16, 0, 16, 16]),
            (Profile::Sysexits, [0, 0, 69, 75, 99, 98]),
            (Profile::PostfixPipe, [0, 0, 69, 75, 0, 75]),
            (Profile::Exim, [0, 0, 69, 75, 0, 75]),
            (Profile::Procmail, [0, 0, 77, 75, 99, 98]),
            (Profile::Plain, [0, 0, 1, 2, 3, 4]),
        ] {
            for (verdict, code) in Verdict::ALL.iter().zip(codes) {
                assert_eq!(profile.exit_code(*verdict), code, "{profile:?} {verdict:?}");
            }
        }
    }

    #[test]
    fn names_lead_to_their_profiles() {
        for (profile, name) in Profile::ALL {
            assert_eq!(Profile::from_name(name), Some(profile));
        }
        assert_eq!(Profile::from_name("xmail"), None);
        for (name, near) in [
            ("xmail-queu", Some("xmail-queue")),
            ("xmail_smtp", Some("xmail-smtp")),
            ("postfixpipe", Some("postfix-pipe")),
            ("", None),
            ("sendmail", None),
        ] {
            assert_eq!(Profile::near(name), near, "{name}");
        }
    }
}
