//! Procedures that ask a running spamd (SpamAssassin), in its own protocol.
//!
//! `CHECK SPAMC/1.5` is answered with the score in the `Spam:` line. What becomes of the message is
//! decided here, so that it is the same for every caller.

use std::fmt::Write as _;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use stentor_call_protocol::{Status, Verdict, headers_end};

use crate::answer::{Answer, Change, Outcome, line};
use crate::call::Call;
use crate::manifest::{Manifest, SpamdOptions};
use crate::mime;
use crate::net::{Stream, is_late};
use crate::queue::Runner;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Places of a message that are changed one by one; where there are more, all that is between them
/// is written again.
const PLACES_MAX: usize = 1000;

/// How the names of the headers begin in which SpamAssassin says what it thinks.
const OWN_HEADERS: &[u8] = b"X-Spam-";

/// Asks a spamd.
pub(crate) struct SpamdRunner {
    pub(crate) options: SpamdOptions,
    pub(crate) manifest: Arc<Manifest>,
}

impl Runner for SpamdRunner {
    fn run(&mut self, call: &Call) -> Answer {
        let end = call.deadline.min(Instant::now() + self.manifest.deadline);
        let asked = call.message.read().and_then(|message| {
            let report = self.ask(&message, end)?;
            Ok((report, message))
        });
        match asked {
            Ok((Some(report), message)) => self.outcome(call, &message, &report),
            Ok((None, _)) => Answer::failed(Status::Failed, "spamd's answer makes no sense"),
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
    fn ask(&self, message: &[u8], end: Instant) -> std::io::Result<Option<Report>> {
        let mut request = format!("CHECK SPAMC/1.5\r\nContent-length: {}\r\n", message.len());
        if let Some(user) = &self.options.user {
            // Writing into a string does not fail.
            let _ = write!(request, "User: {}\r\n", line(user, 64));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(message);
        let mut stream = Stream::connect(&self.options.server, end)?;
        stream.write_all(&bytes)?;
        stream.finish()?;
        let answer = stream.read_all(ANSWER_BYTES_MAX)?;
        Ok(parse(&String::from_utf8_lossy(&answer)))
    }

    fn outcome(&self, call: &Call, message: &[u8], report: &Report) -> Answer {
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
        let status = format!("{flag}, {shown}");
        let mut outcome = Outcome::of(Verdict::Accept, &status);
        if call.can_edit {
            let mark = report.is_spam.then_some(status.as_str());
            outcome.changes = changes(message, call.message.start(), mark);
        }
        if !outcome.changes.is_empty() {
            outcome.verdict = Verdict::Modified;
        }
        Answer::done(outcome)
    }
}

/// What is changed in a message that begins at `start`: spam gets a mark, and what stands there as
/// if SpamAssassin had said it goes, since whoever sent the message wrote it.
fn changes(message: &[u8], start: u64, mark: Option<&str>) -> Vec<Change> {
    let mark = mark.map(|status| {
        let end = mime::line_end(message);
        let headers = format!("X-Spam-Flag: YES{end}X-Spam-Status: {status}{end}");
        Change {
            offset: start,
            deleted: 0,
            inserted: headers.into_bytes(),
        }
    });
    let head = &message[..headers_end(message).unwrap_or(message.len())];
    let is_forged = |header: &Range<usize>| {
        let name = head[header.clone()].get(..OWN_HEADERS.len());
        name.is_some_and(|name| name.eq_ignore_ascii_case(OWN_HEADERS))
    };
    let mut forged: Vec<Range<usize>> = Vec::new();
    for header in mime::headers(head).filter(is_forged) {
        match forged.last_mut() {
            Some(last) if last.end == header.start => last.end = header.end,
            _ => forged.push(header),
        }
    }
    let deleted = |range: &Range<usize>, inserted| Change {
        offset: start + range.start as u64,
        deleted: range.len() as u64,
        inserted,
    };
    let changes = match (forged.first(), forged.last()) {
        (Some(first), Some(last)) if forged.len() > PLACES_MAX => {
            let honest = forged.windows(2);
            let honest = honest.map(|pair| &head[pair[0].end..pair[1].start]);
            vec![deleted(
                &(first.start..last.end),
                honest.collect::<Vec<_>>().concat(),
            )]
        }
        _ => forged
            .iter()
            .map(|range| deleted(range, Vec::new()))
            .collect(),
    };
    mark.into_iter().chain(changes).collect()
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

    /// Whatever the sender wrote is not SpamAssassin's word, however it is written.
    #[test]
    fn forged_headers_go() {
        let changed = |message: &str, mark| {
            let mut changed = String::new();
            let mut at = 0;
            for change in changes(message.as_bytes(), 7, mark) {
                let from = change.offset as usize - 7;
                changed.push_str(&message[at..from]);
                changed.push_str(&String::from_utf8(change.inserted).unwrap());
                at = from + change.deleted as usize;
            }
            changed + &message[at..]
        };
        let forged = "X-Spam-Flag: NO\r\nFrom: a\r\nx-SPAM-status : No,\r\n\tscore=-9\r\n \r\n\
                      X-Spam-: x\r\nX-Spamd: mine\r\nA: b\r\n X-Spam-Flag: YES\r\n\
                      X-Spam-Level:\r\n\r\nX-Spam-Flag: in the body\r\n";
        let honest = "From: a\r\nX-Spamd: mine\r\nA: b\r\n X-Spam-Flag: YES\r\n\r\n\
                      X-Spam-Flag: in the body\r\n";
        assert_eq!(changed(forged, None), honest);
        let mark = "X-Spam-Flag: YES\r\nX-Spam-Status: Yes, score=9\r\n";
        let marked = format!("{mark}{honest}");
        assert_eq!(changed(forged, Some("Yes, score=9")), marked);
        // As the message has its lines.
        let bare = changed("X-Spam-Flag: NO\nA: b\n\nc\n", Some("Yes"));
        assert_eq!(bare, "X-Spam-Flag: YES\nX-Spam-Status: Yes\nA: b\n\nc\n");
        for nothing in ["", "\r\nX-Spam-Flag: NO\r\n", "X-Spam"] {
            assert_eq!(changes(nothing.as_bytes(), 0, None), []);
        }
        // However many there are, the list of changes is short.
        for honest in ["", "A: b\r\n"] {
            let many = format!("X-Spam-Flag: NO\r\n{honest}").repeat(9000) + "\r\nbody";
            let clean = honest.repeat(9000) + "\r\nbody";
            assert_eq!(changed(&many, None), clean);
            assert_eq!(
                changed(&many, Some("Yes, score=9")),
                format!("{mark}{clean}")
            );
            assert_eq!(changes(many.as_bytes(), 0, None).len(), 1);
        }
        // All headers, and no body.
        assert_eq!(changed("A: b\r\nX-Spam-Flag: NO", None), "A: b\r\n");
    }

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
