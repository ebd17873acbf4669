//! The result of a call, and how the caller receives it.

use std::io::Write as _;

use stentor_call_protocol::{Answer, Refusal, Status, Verdict};

use crate::args::{Changed, Options, Source, beside};
use crate::fault::Fault;
use crate::platform::{self, Deadline};
use crate::profile::Profile;

/// The text for a sender about a call without a verdict.
const NOT_NOW: &str = "the message cannot be checked now";

/// What comes of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    verdict: Verdict,
    /// The SMTP reply code; 0 if the procedure has no wish.
    reply_code: u16,
    /// The enhanced status code; empty if the procedure has no wish.
    enhanced: String,
    text: String,
    result: Vec<u8>,
}

impl Outcome {
    /// What an answer says. Where the call itself went wrong, `--on-error` decides, or the
    /// server's advice for this procedure.
    ///
    /// # Errors
    /// When the call went wrong and nobody but the default decides.
    pub(crate) fn of_answer(
        answer: &Answer<'_>,
        on_error: Option<Verdict>,
        profile: Profile,
        deadline: &Deadline,
    ) -> Result<Self, Fault> {
        let verdict = match (answer.status, answer.verdict, on_error) {
            (Status::Done, Some(verdict), _) | (_, _, Some(verdict)) => verdict,
            (_, Some(advice @ (Verdict::Accept | Verdict::Reject | Verdict::Tempfail)), None) => {
                advice
            }
            (status, _, None) => {
                return Err(Fault::Refused(status, answer.text.to_owned()));
            }
        };
        let is_done = answer.status == Status::Done;
        if !is_done {
            complain(
                profile,
                &format!("{}: {}", answer.status.name(), answer.text),
                deadline,
            );
        }
        Ok(Self {
            verdict,
            reply_code: answer.reply_code,
            enhanced: answer.enhanced.to_owned(),
            // Why a procedure failed is the operator's affair, not the sender's.
            text: if is_done { answer.text } else { NOT_NOW }.to_owned(),
            result: answer.result.to_vec(),
        })
    }

    /// What a fault means.
    pub(crate) fn of_fault(fault: &Fault, on_error: Option<Verdict>) -> Self {
        let text = match fault {
            Fault::Refused(..)
            | Fault::Timeout
            | Fault::TooLarge
            | Fault::Usage(_)
            | Fault::NoTls(_) => NOT_NOW,
            Fault::File(_) => "the message cannot be read",
            Fault::Delivery(_) => "the message cannot be passed on now",
            _ => "the message cannot be checked: the server does not answer",
        };
        Self {
            verdict: on_error.unwrap_or(Verdict::Tempfail),
            reply_code: 0,
            enhanced: String::new(),
            text: text.to_owned(),
            result: Vec::new(),
        }
    }

    /// The message goes on its way.
    pub(crate) const fn passes(&self) -> bool {
        matches!(self.verdict, Verdict::Accept | Verdict::Modified)
    }

    /// Tells the caller; returns the exit code.
    pub(crate) fn finish(mut self, options: &Options, deadline: &Deadline) -> i32 {
        let is_filter = options.changed == Changed::Printed;
        self.verdict = options.profile.told(self.verdict, is_filter);
        let mut code = options.profile.exit_code(self.verdict);
        match options.profile {
            Profile::XmailSmtp if !self.passes() => {
                if !self.write_reply(options, deadline) && self.verdict == Verdict::Tempfail {
                    // Without the reply beside the message XMail would refuse it for good.
                    code = 0;
                }
            }
            Profile::XmailQueue
            | Profile::XmailSmtp
            | Profile::Xmail2002
            | Profile::XmailExternal
            | Profile::Procmail => {}
            Profile::Sysexits | Profile::PostfixPipe | Profile::Exim | Profile::Plain => {
                let shown = self.shown(options);
                let written = if is_filter {
                    // The message has standard output for itself.
                    if !shown.is_empty() {
                        platform::complain(&shown, deadline);
                    }
                    true
                } else {
                    print(&shown, deadline)
                };
                if !written && code == 0 {
                    code = options.profile.exit_code(Verdict::Tempfail);
                }
            }
        }
        code
    }

    /// What is printed.
    fn shown(&self, options: &Options) -> Vec<u8> {
        if !self.result.is_empty() && self.passes() {
            return self.result.clone();
        }
        if self.verdict == Verdict::Discard && options.profile.shows_output_to_senders() {
            return Vec::new();
        }
        if options.profile.prints_status_code() && !self.passes() {
            let refusal = self.refusal();
            return format!("{} {}\n", refusal.status, refusal.text).into_bytes();
        }
        let mut shown = match self.text.as_str() {
            "" => Vec::new(),
            text => format!("{text}\n").into_bytes(),
        };
        if options.profile == Profile::Plain {
            // People and scripts read on; a mail server would send it to somebody.
            shown.extend_from_slice(&self.result);
        }
        shown
    }

    /// What is said about a message that does not pass.
    fn refusal(&self) -> Refusal<'_> {
        Refusal::of(self.verdict, self.reply_code, &self.enhanced, &self.text)
    }

    /// Puts the SMTP reply into the file beside the message; whether that worked.
    fn write_reply(&self, options: &Options, deadline: &Deadline) -> bool {
        let Source::File(path) = &options.source else {
            complain(
                options.profile,
                "xmail-smtp needs a --file to put the reply beside",
                deadline,
            );
            return false;
        };
        let line = format!("{}\r\n", self.refusal());
        let reply = beside(path.as_os_str(), ".rej");
        let written = platform::overwrite(&reply).and_then(|mut file| {
            file.write_all(line.as_bytes()).inspect_err(|_| {
                // Without room it would stay empty or torn, and XMail would show that.
                let _ = std::fs::remove_file(&reply);
            })
        });
        match written {
            Ok(()) => true,
            Err(error) => {
                let reason = format!("cannot write {}: {error}", reply.display());
                complain(options.profile, &reason, deadline);
                false
            }
        }
    }
}

/// Writes to standard output; whether that worked before the deadline.
pub(crate) fn print(bytes: &[u8], deadline: &Deadline) -> bool {
    let mut out = platform::Output(deadline);
    out.write_all(bytes).and_then(|()| out.flush()).is_ok()
}

/// Tells the operator something: by a line on standard error for the mail server's log, or by the
/// system's log, where standard error goes to the sender of the message.
pub(crate) fn complain(profile: Profile, text: &str, deadline: &Deadline) {
    if profile.shows_output_to_senders() {
        platform::log(text);
    } else {
        platform::complain(format!("stentor-call: {text}\n").as_bytes(), deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(verdict: Verdict, enhanced: &str) -> Outcome {
        Outcome {
            verdict,
            reply_code: 0,
            enhanced: enhanced.to_owned(),
            text: String::new(),
            result: Vec::new(),
        }
    }

    fn soon() -> Deadline {
        platform::Clock::start().deadline(std::time::Duration::from_secs(60))
    }

    #[test]
    fn status_codes_have_the_class_of_the_verdict() {
        for (verdict, wished, code) in [
            (Verdict::Reject, "", "5.7.1"),
            (Verdict::Reject, "5.2.3", "5.2.3"),
            (Verdict::Reject, "4.2.3", "5.7.1"),
            (Verdict::Tempfail, "5.2.3", "4.7.1"),
            (Verdict::Tempfail, "4.3.1", "4.3.1"),
        ] {
            assert_eq!(outcome(verdict, wished).refusal().status, code);
        }
    }

    #[test]
    fn the_option_goes_before_the_advice_and_that_before_the_default() {
        let failed = |verdict| Answer {
            verdict,
            ..Answer::of(Status::Failed, "broke")
        };
        let verdict = |advice, option| {
            Outcome::of_answer(&failed(advice), option, Profile::Plain, &soon())
                .map(|outcome| outcome.verdict)
        };
        let (accept, reject) = (Some(Verdict::Accept), Some(Verdict::Reject));
        assert!(matches!(verdict(accept, reject), Ok(Verdict::Reject)));
        assert!(matches!(verdict(accept, None), Ok(Verdict::Accept)));
        assert!(matches!(verdict(None, accept), Ok(Verdict::Accept)));
        let fault = verdict(None, None).unwrap_err();
        let outcome = Outcome::of_fault(&fault, None);
        assert_eq!(outcome.verdict, Verdict::Tempfail);
        // A verdict is not overruled.
        let done = Answer {
            status: Status::Done,
            ..failed(accept)
        };
        let outcome = Outcome::of_answer(&done, reject, Profile::Plain, &soon()).unwrap();
        assert_eq!(outcome.verdict, Verdict::Accept);
    }
}
