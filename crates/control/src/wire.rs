//! Requests and answers as JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Request;

/// The version of the protocol. Verbs and keys may be added to it; what is there keeps its meaning.
pub const VERSION: u32 = 1;

/// What every request has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// The version of the protocol.
    pub v: u32,
    /// The name of the verb.
    pub verb: String,
}

/// Why a request failed: a code for programs, a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// `bad-request`, `unknown-verb`, `version`, `busy`, `not-found`, `not-connected`, `not-away`,
    /// `ambiguous`, `expired`, `exists`, `conflict`, `reload-failed`, `refused`, `queue`,
    /// `too-many`, `quota` or `unavailable`.
    pub code: &'static str,
    /// A sentence with a remedy.
    pub message: String,
    /// The key of the request that is wrong, if it is one. The control socket leaves it out.
    pub field: Option<&'static str>,
}

impl Failure {
    /// A failure with this code and sentence.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            field: None,
        }
    }

    /// The same about a key of the request.
    #[must_use]
    pub fn about(self, field: &'static str) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }
}

/// How a request names a zone. Its schema has names alone: numbers are for commands of earlier
/// versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(with = "String")]
pub enum ZoneWord {
    /// By its number, which `zones` tells.
    Number(u32),
    /// By its name.
    Name(String),
}

/// A request as it is sent, with its verb.
///
/// # Errors
/// When a value of it cannot be JSON.
pub fn asked<R: Request>(request: &R) -> Result<Value, serde_json::Error> {
    let mut whole = json!({ "verb": R::VERB.name() });
    let parts = serde_json::to_value(request)?;
    if let (Value::Object(whole), Value::Object(parts)) = (&mut whole, parts) {
        whole.extend(parts);
    }
    Ok(whole)
}

/// The line that carries an answer, with its end.
#[must_use]
pub fn told(answer: &Result<Value, Failure>) -> String {
    let object = match answer {
        Ok(value) => json!({ "v": VERSION, "ok": value }),
        Err(Failure { code, message, .. }) => {
            json!({ "v": VERSION, "error": message, "code": code })
        }
    };
    format!("{object}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Kick, Ls};

    #[test]
    fn a_request_begins_with_its_verb() {
        let kick = Kick {
            client_id: "a".into(),
            zone: Some(ZoneWord::Name("game".into())),
            end_session: true,
            away_secs: None,
        };
        let sent = asked(&kick).unwrap();
        let text = r#"{"verb":"clients.kick","client_id":"a","zone":"game","end_session":true}"#;
        assert_eq!(sent.to_string(), text);
        assert_eq!(serde_json::from_value::<Kick>(sent).unwrap(), kick);
    }

    #[test]
    fn what_is_not_said_has_its_default_and_what_is_not_known_is_ignored() {
        let ls: Ls = serde_json::from_str(r#"{"verb":"clients.ls","limit":null,"new":1}"#).unwrap();
        assert_eq!(ls, Ls::default());
        let zone: ZoneWord = serde_json::from_str("7").unwrap();
        assert_eq!(zone, ZoneWord::Number(7));
    }

    #[test]
    fn answers_are_lines() {
        assert_eq!(told(&Ok(json!({}))), "{\"v\":1,\"ok\":{}}\n");
        let failure = Failure::new("not-found", "there is no \"a\"");
        assert_eq!(
            told(&Err(failure)),
            "{\"v\":1,\"error\":\"there is no \\\"a\\\"\",\"code\":\"not-found\"}\n"
        );
    }
}
