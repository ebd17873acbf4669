//! Requests and answers of the control socket.

use serde::Deserialize;
use serde_json::{Value, json};

/// The version of the protocol. Verbs and keys may be added to it; what is there keeps its meaning.
pub(super) const VERSION: u32 = 1;

/// One request. Keys that a verb does not know are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    /// What is asked for.
    pub(super) verb: String,
    /// For `clients.show`, `clients.kick` and `why`.
    #[serde(default)]
    pub(super) client_id: Option<String>,
    /// A zone: the default one if it is not given; for verbs about a client, the only one that has
    /// it.
    #[serde(default)]
    pub(super) zone: Option<ZoneWord>,
    /// For `clients.kick`: whether the session ends too.
    #[serde(default)]
    pub(super) end_session: bool,
    /// For `why`: a topic.
    #[serde(default)]
    pub(super) topic: Option<String>,
    /// For `why`: the client that is to get what `client_id` publishes.
    #[serde(default)]
    pub(super) to: Option<String>,
    /// For `adaptor.reload`: whether what the running versions have kept is left behind.
    #[serde(default)]
    pub(super) fresh: bool,
    /// For `adaptor.reload`: the file that is meant; all if it is not given.
    #[serde(default)]
    pub(super) file: Option<String>,
    /// For `clients.ls` and `topics`: only what contains this text.
    #[serde(default)]
    pub(super) containing: String,
    /// For `clients.ls` and `topics`: at most this many entries.
    #[serde(default)]
    pub(super) limit: Option<usize>,
    /// For `clients.ls` and `topics`: how many entries to pass over.
    #[serde(default)]
    pub(super) offset: usize,
    /// For `status`: over how many milliseconds the rates are measured; 0 leaves them out.
    #[serde(default)]
    pub(super) sample_ms: u64,
}

/// How a request names a zone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum ZoneWord {
    /// By its number, which `zones` tells.
    Number(u32),
    /// By its name.
    Name(String),
}

/// Why a request failed: a code for programs, a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// `bad-request`, `unknown-verb`, `version`, `not-found`, `reload-failed` or `unavailable`; or
    /// the code of an order to the Auth Center.
    pub(super) code: &'static str,
    /// A sentence with a remedy.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl Request {
    /// Which entries of a list are wanted: from the first number up to the second.
    pub(super) fn page(&self) -> (usize, usize) {
        const USUAL: usize = 1_000;
        const MAX: usize = 1_000_000;
        let limit = self.limit.unwrap_or(USUAL).min(MAX);
        (self.offset, self.offset.saturating_add(limit))
    }
}

/// What a verb answers.
pub(super) type Answer = Result<Value, Failure>;

/// The line that carries an answer, with its end.
pub(super) fn line(answer: &Answer) -> String {
    let object = match answer {
        Ok(value) => json!({ "v": VERSION, "ok": value }),
        Err(Failure { code, message }) => {
            json!({ "v": VERSION, "error": message, "code": code })
        }
    };
    format!("{object}\n")
}

/// What every request has.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    v: u32,
    /// What is asked for.
    pub(super) verb: String,
}

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

/// Reads a request.
pub(super) fn parse(line: &[u8]) -> Result<Request, Failure> {
    head(line)?;
    read(line)
}

fn read<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, Failure> {
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
    use super::*;

    #[test]
    fn requests_are_read_and_answers_written() {
        let request = parse(br#"{"v":1,"verb":"clients.kick","client_id":"a","new":1}"#).unwrap();
        assert_eq!(
            (request.verb.as_str(), request.client_id.as_deref()),
            ("clients.kick", Some("a"))
        );
        assert_eq!(
            (request.zone, request.end_session, request.limit),
            (None, false, None)
        );
        assert_eq!(
            parse(br#"{"v":2,"verb":"status"}"#).unwrap_err().code,
            "version"
        );
        assert_eq!(parse(b"status").unwrap_err().code, "bad-request");
        assert_eq!(line(&Ok(json!({}))), "{\"v\":1,\"ok\":{}}\n");
        let failure = Failure::new("not-found", "there is no \"a\"");
        let text = line(&Err(failure));
        assert!(
            text.contains(r#""code":"not-found""#) && text.ends_with("}\n"),
            "{text}"
        );
    }
}
