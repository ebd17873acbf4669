//! What a mail server asks on a listener.

use stentor_call_protocol::limits::{NAME_BYTES_MAX, PROCEDURE_BYTES_MAX};

/// A procedure with its arguments, as they would be given to `stentor-call`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The procedure's name, without the slash.
    pub procedure: String,
    /// Names, without their dashes, and values.
    pub arguments: Vec<(String, String)>,
}

impl Question {
    /// Reads `/NAME -key value …`; values have no spaces.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let form = "it is /NAME -key value …, as in /sizecheck -max 10000000";
        let name = words.next().and_then(|word| word.strip_prefix('/'));
        let procedure = name.ok_or_else(|| form.to_owned())?;
        if !is_name(procedure, PROCEDURE_BYTES_MAX) {
            return Err(format!(
                "\"{procedure}\" cannot be a procedure's name; {form}"
            ));
        }
        let mut arguments = Vec::new();
        while let Some(word) = words.next() {
            let key = word.strip_prefix('-').unwrap_or_default();
            let key = key.strip_prefix('-').unwrap_or(key);
            if !is_name(key, NAME_BYTES_MAX) {
                return Err(format!("\"{word}\" is not the name of an argument; {form}"));
            }
            let value = words
                .next()
                .ok_or_else(|| format!("{word} has no value; {form}"))?;
            arguments.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self {
            procedure: procedure.to_owned(),
            arguments,
        })
    }
}

fn is_name(name: &str, max: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=max).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_a_caller_writes_it() {
        let question = Question::parse(" /size.check -max 7  --b c ").unwrap();
        assert_eq!(question.procedure, "size.check");
        let expected = [("max", "7"), ("b", "c")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(question.arguments, expected);
        for (text, reason) in [
            ("", "/NAME"),
            ("sizecheck", "/NAME"),
            ("/", "cannot be a procedure's name"),
            ("/a/b", "cannot be a procedure's name"),
            ("/a b c", "\"b\" is not the name of an argument"),
            ("/a -", "\"-\" is not the name of an argument"),
            ("/a -max", "-max has no value"),
        ] {
            let error = Question::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
