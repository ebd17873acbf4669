//! A verdict in JSON, as HTTP endpoints and MQTT clients say it.

use serde::Deserialize;
use stentor_call_protocol::Verdict;
use stentor_call_protocol::limits::RESULT_BYTES_MAX;

use crate::answer::Outcome;

/// A verdict as it comes.
#[derive(Deserialize)]
struct Said {
    verdict: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    code: u16,
    #[serde(default)]
    status: String,
    #[serde(default)]
    result: String,
}

/// What somebody outside came to.
///
/// # Errors
/// Why this is not a verdict: what comes from outside may be anything.
pub(crate) fn outcome(json: &[u8]) -> Result<Outcome, String> {
    let said: Said = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let verdict = match Verdict::from_name(&said.verdict) {
        Some(Verdict::Modified) | None => return Err(format!("\"{}\"", said.verdict)),
        Some(verdict) => verdict,
    };
    let mut outcome = Outcome::of(verdict, &said.text);
    outcome.reply_code = match said.code {
        0 | 400..=599 => said.code,
        code => return Err(format!("the code {code}, not 400 to 599")),
    };
    outcome.set_enhanced(&said.status);
    if said.result.len() > RESULT_BYTES_MAX {
        return Err(format!("a result of more than {RESULT_BYTES_MAX} bytes"));
    }
    outcome.result = said.result.into_bytes();
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_with_all_it_says() {
        let json = br#"{"verdict":"reject","text":"no","code":550,"status":"5.7.1","result":"r"}"#;
        let outcome = outcome(json).unwrap();
        assert_eq!(outcome.verdict, Verdict::Reject);
        assert_eq!((outcome.reply_code, &*outcome.enhanced), (550, "5.7.1"));
        assert_eq!((&*outcome.text, &outcome.result[..]), ("no", &b"r"[..]));
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!(
            r#"{{"verdict":"accept","result":"{}"}}"#,
            "x".repeat(RESULT_BYTES_MAX + 1)
        );
        for (json, reason) in [
            ("", "EOF"),
            ("ok", "expected"),
            ("[]", "length"),
            ("{}", "verdict"),
            (r#"{"verdict":"maybe"}"#, "maybe"),
            (r#"{"verdict":"modified"}"#, "modified"),
            (r#"{"verdict":"accept","code":200}"#, "200"),
            (r#"{"verdict":"accept","code":70000}"#, "u16"),
            (&long, "bytes"),
        ] {
            let error = outcome(json.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{json:.60}: {error}");
        }
    }
}
