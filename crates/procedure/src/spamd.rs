//! Procedures that ask a running spamd (SpamAssassin), in its own protocol.
//!
//! `HEADERS SPAMC/1.5` is answered with the message's headers as SpamAssassin would have them: the
//! score is in the `Spam:` line, and the report in what it added.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Change, Outcome, line};
use crate::call::Call;
use crate::manifest::{Manifest, SpamdOptions};
use crate::net::{Stream, is_late};
use crate::queue::Runner;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Asks a spamd.
pub(crate) struct SpamdRunner {
    pub(crate) options: SpamdOptions,
    pub(crate) manifest: Arc<Manifest>,
}

impl Runner for SpamdRunner {
    fn run(&mut self, call: &Call) -> Answer {
        let end = call.deadline.min(Instant::now() + self.manifest.deadline);
        match self.ask(call, end) {
            Ok(Some(report)) => self.outcome(call, &report),
            Ok(None) => Answer::failed(Status::Failed, "spamd's answer makes no sense"),
            Err(error) if is_late(&error) => {
                Answer::failed(Status::TimedOut, "spamd did not answer in time")
            }
            Err(error) => {
                let reason = format!("spamd at {}: {error}", self.options.server);
                Answer::failed(Status::Failed, &reason)
            }
        }
    }
}

/// What spamd thinks.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    is_spam: bool,
    score_tenths: i64,
    threshold_tenths: i64,
}

impl SpamdRunner {
    fn ask(&self, call: &Call, end: Instant) -> std::io::Result<Option<Report>> {
        let message = call.message.read()?;
        let mut request = format!("CHECK SPAMC/1.5\r\nContent-length: {}\r\n", message.len());
        if let Some(user) = &self.options.user {
            // Writing into a string does not fail.
            let _ = write!(request, "User: {}\r\n", line(user, 64));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(&message);
        let mut stream = Stream::connect(&self.options.server, end)?;
        stream.write_all(&bytes)?;
        stream.finish()?;
        let answer = stream.read_all(ANSWER_BYTES_MAX)?;
        Ok(parse(&String::from_utf8_lossy(&answer)))
    }

    fn outcome(&self, call: &Call, report: &Report) -> Answer {
        let shown = format!(
            "score={} required={}",
            tenths(report.score_tenths),
            tenths(report.threshold_tenths)
        );
        if self
            .options
            .reject_tenths
            .is_some_and(|least| report.score_tenths >= least)
        {
            let mut outcome = Outcome::of(Verdict::Reject, &format!("spam: {shown}"));
            outcome.set_enhanced("5.7.1");
            return Answer::done(outcome);
        }
        let flag = if report.is_spam { "Yes" } else { "No" };
        if !report.is_spam || !call.can_edit {
            return Answer::done(Outcome::of(Verdict::Accept, &format!("{flag}, {shown}")));
        }
        let mut outcome = Outcome::of(Verdict::Modified, &format!("{flag}, {shown}"));
        let header = format!("X-Spam-Flag: YES\r\nX-Spam-Status: {flag}, {shown}\r\n");
        outcome.changes.push(Change {
            offset: call.message.start(),
            deleted: 0,
            inserted: header.into_bytes(),
        });
        Answer::done(outcome)
    }
}

fn tenths(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}.{}", value.abs() / 10, value.abs() % 10)
}

/// Reads `SPAMD/1.1 0 EX_OK` and `Spam: True ; 15.3 / 5.0`.
pub(crate) fn parse(answer: &str) -> Option<Report> {
    let mut lines = answer.lines();
    let mut first = lines.next()?.split_whitespace();
    if !first.next()?.starts_with("SPAMD/") || first.next()? != "0" {
        return None;
    }
    let spam = lines
        .take_while(|line| !line.is_empty())
        .find_map(|line| line.strip_prefix("Spam:"))?;
    let (flag, scores) = spam.split_once(';')?;
    let (score, threshold) = scores.split_once('/')?;
    let number = |text: &str| {
        let value: f64 = text.trim().parse().ok()?;
        value
            .is_finite()
            .then_some((value.clamp(-1e6, 1e6) * 10.0).round() as i64)
    };
    Some(Report {
        is_spam: matches!(flag.trim(), "True" | "Yes"),
        score_tenths: number(score)?,
        threshold_tenths: number(threshold)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let good = "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 15.3 / 5.0\r\n\r\n";
        let report = Report {
            is_spam: true,
            score_tenths: 153,
            threshold_tenths: 50,
        };
        assert_eq!(parse(good), Some(report));
        let ham = "SPAMD/1.1 0 EX_OK\r\nContent-length: 0\r\nSpam: False ; -0.1 / 5.0\r\n\r\n";
        assert_eq!(parse(ham).unwrap().score_tenths, -1);
        assert_eq!(tenths(-1), "-0.1");
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n\r\n",
            "SPAMD/1.0 76 Bad header line\r\n",
            "SPAMD/1.1 0 EX_OK\r\n\r\nSpam: True ; 1 / 5\r\n",
            "SPAMD/1.1 0 EX_OK\r\nSpam: True\r\n\r\n",
            "SPAMD/1.1 0 EX_OK\r\nSpam: True ; x / 5\r\n\r\n",
            "SPAMD/1.1 0 EX_OK\r\nSpam: True ; inf / 5\r\n\r\n",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
