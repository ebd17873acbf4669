//! Requests and answers of the control socket: the types are those of the crate `control`.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use stentor_control::{Head, Network, Request, VERSION};

pub(crate) use stentor_control::Failure;

/// The longest wait for more. Whoever wants to wait longer asks again.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Bytes of names in a page of a list, about: clients choose names, of up to 64 KiB each.
const NAMES_BYTES: usize = 4 << 20;

/// The bytes of the names in a page so far.
#[derive(Debug, Default)]
pub(super) struct Names(usize);

impl Names {
    /// Counts a name. Returns whether its entry fits into the page: the first one does.
    pub(super) const fn take(&mut self, bytes: usize) -> bool {
        let fits = self.0 < NAMES_BYTES;
        self.0 += bytes;
        fits
    }
}

/// How many entries of a list fit into a page, by the bytes of their names: one at least.
pub(super) fn fitting(names: impl IntoIterator<Item = usize>) -> usize {
    let mut page = Names::default();
    let fitting = names.into_iter().take_while(|bytes| page.take(*bytes));
    fitting.count()
}

/// What a verb answers.
pub(super) type Answer = Result<Value, Failure>;

/// Reads what every request has.
pub(super) fn head(line: &[u8]) -> Result<Head, Failure> {
    let head: Head = read(line)?;
    if head.v != VERSION {
        let message = format!(
            "this server speaks version {VERSION} of the control protocol, not {}; use the \
             `stentor` command of the same release",
            head.v
        );
        return Err(Failure::new("version", message));
    }
    Ok(head)
}

/// Reads a request, and answers it.
pub(super) fn answer<R: Request>(
    line: &[u8],
    carry_out: impl FnOnce(R) -> Result<R::Answer, Failure>,
) -> Answer {
    write(carry_out(read(line)?)?)
}

/// The address or network that a request is about, if it names one.
///
/// # Errors
/// `bad-request` for a text that is neither.
pub(super) fn network(text: Option<&str>) -> Result<Option<Network>, Failure> {
    let parsed = text.map(|text| {
        text.parse().map_err(|error| {
            let message = format!("{text:?} names no address: {error}");
            Failure::new("bad-request", message).about("address")
        })
    });
    parsed.transpose()
}

/// How long an answer waits for more, if a request asks for this many milliseconds.
pub(super) fn wait(millis: u64) -> Duration {
    Duration::from_millis(millis).min(WAIT_MAX)
}

pub(super) fn write(answer: impl serde::Serialize) -> Answer {
    serde_json::to_value(answer).map_err(|error| {
        let message = format!("the answer cannot be written: {error}; this is a bug of the server");
        Failure::new("unavailable", message)
    })
}

fn read<T: DeserializeOwned>(line: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(line).map_err(|error| {
        let example = r#"{"v":1,"verb":"status"}"#;
        Failure::new(
            "bad-request",
            format!("{error}; a request looks like {example}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use stentor_control::clients::{Kick, Kicked};

    use super::*;

    #[test]
    fn a_page_ends_where_its_names_are_long_enough() {
        assert_eq!(fitting([]), 0);
        assert_eq!(fitting([NAMES_BYTES, 1, 1]), 1);
        assert_eq!(fitting([1, NAMES_BYTES - 2, 1, 1]), 3);
        assert_eq!(fitting(vec![20; 10_000]), 10_000);
        assert_eq!(fitting(vec![65_535; 10_000]), 65);
    }

    #[test]
    fn requests_are_read_and_answers_written() {
        let line = br#"{"v":1,"verb":"clients.kick","client_id":"a","new":1}"#;
        let answer = answer(line, |request: Kick| {
            assert_eq!((&*request.client_id, request.zone), ("a", None));
            Ok(Kicked::default())
        });
        let written = r#"{"zone_name":"","was_connected":false,"session_ended":false}"#;
        assert_eq!(answer.unwrap().to_string(), written);
        let code = |line: &[u8]| head(line).unwrap_err().code;
        assert_eq!(code(br#"{"v":2,"verb":"status"}"#), "version");
        assert_eq!(code(b"status"), "bad-request");
        let missing = super::answer(br#"{"v":1,"verb":"clients.kick"}"#, |_: Kick| {
            Ok(Kicked::default())
        });
        assert!(missing.unwrap_err().message.contains("`client_id`"));
    }
}
