//! JSON that means one thing to everybody.
//!
//! Of a name that an object has twice, some readers take the first and some the last; and a whole
//! number of more than 64 bits becomes another one where it is read as a floating-point number.
//! Both are refused, wherever they stand.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::{Map, Value};

/// The values of one object, those of its lists and objects included: each takes some 70 ns.
pub(crate) const VALUES_MAX: usize = 32_768;

/// Reads an object.
///
/// # Errors
/// Why it is none, or would not mean one thing, or that it has more than [`VALUES_MAX`] values.
pub(crate) fn read_object(text: &[u8]) -> Result<Map<String, Value>, String> {
    if commas(text) >= VALUES_MAX {
        return Err(format!("it has more than {VALUES_MAX} values"));
    }
    let value = serde_json::from_slice(text).map(|Unambiguous(value)| value);
    let Value::Object(fields) = value.map_err(|error| error.to_string())? else {
        return Err("it is not an object".into());
    };
    match inexact(text) {
        None => Ok(fields),
        Some(number) => Err(format!(
            "it has the number {number}: a whole number goes from {} to {}; write a larger one as a \
             text",
            i64::MIN,
            u64::MAX
        )),
    }
}

/// A JSON value whose objects name nothing twice: reading another one fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Unambiguous(pub Value);

impl Unambiguous {
    /// Reads the value that a line of a file holds.
    ///
    /// # Errors
    /// Why it is not JSON, and at which column, or what is ambiguous.
    pub fn from_line(line: &[u8]) -> Result<Value, String> {
        let read = serde_json::from_slice(line);
        read.map(|Self(value)| value).map_err(|error| told(&error))
    }
}

/// Why a line is not JSON, or is ambiguous. The error counts lines from the one that it was given.
fn told(error: &serde_json::Error) -> String {
    let column = error.column();
    let text = error.to_string();
    let place = format!(" at line {} column {column}", error.line());
    let what = text.strip_suffix(&place).unwrap_or(&text);
    match error.classify() {
        // Where that object ends helps nobody.
        Category::Data => what.to_owned(),
        _ => format!("it is not a JSON object: {what}, at column {column}"),
    }
}

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unambiguous(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, Unambiguous(value))) = map.next_entry::<String, Unambiguous>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("{name} is given twice")));
            }
            fields.insert(name, value);
        }
        Ok(fields.into())
    }
}

/// The commas between values. Lists and objects without any are bounded by their depth.
fn commas(text: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(byte) = text.get(at) {
        count += usize::from(*byte == b',');
        at += match byte {
            b'"' => text_len(&text[at..]),
            _ => 1,
        };
    }
    count
}

/// The first whole number in a valid JSON text that no integer of 64 bits can hold.
fn inexact(text: &[u8]) -> Option<&str> {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => text_len(&text[at..]),
            b'-' | b'0'..=b'9' => {
                let rest = &text[at..];
                let is_of_number =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let len = rest.iter().take_while(|byte| is_of_number(byte)).count();
                // It is ASCII.
                let number = core::str::from_utf8(&rest[..len]).unwrap_or_default();
                let is_whole = !number.contains(['.', 'e', 'E']);
                if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return Some(number);
                }
                len
            }
            _ => 1,
        };
    }
    None
}

/// How long a text in quotation marks is, with these.
fn text_len(text: &[u8]) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What some read one way and some another is told like what nobody can read.
    #[test]
    fn a_line_that_may_mean_two_things_is_unreadable() {
        for (line, reason) in [
            (
                r#"{"topic":"a","payload":"x","topic":"b"}"#,
                "topic is given twice",
            ),
            (
                r#"{"topic":"a","payload":"x","properties":{"user":[{"b":1,"b":1}]}}"#,
                "b is given twice",
            ),
            (
                "not json",
                "it is not a JSON object: expected ident, at column 2",
            ),
        ] {
            let error = Unambiguous::from_line(line.as_bytes()).unwrap_err();
            assert_eq!(error, reason, "{line}");
        }
    }

    #[test]
    fn what_means_one_thing_is_read_as_it_is() {
        for text in [
            "{}",
            r#"{"a":[1,-2,3.5,1e300,true,null,"x",{}],"b":{"a":{"a":18446744073709551615}}}"#,
            r#"{"a":-9223372036854775808,"b":100000000000000000000.0,"c":1E20,"d":-0}"#,
            r#"{"a":"99999999999999999999","\"99999999999999999999":"\\"}"#,
        ] {
            let fields = read_object(text.as_bytes()).expect(text);
            let expected: Value = serde_json::from_str(text).expect(text);
            assert_eq!(Value::Object(fields), expected, "{text}");
        }
    }

    #[test]
    fn what_does_not_is_refused() {
        for (text, reason) in [
            ("", "EOF"),
            ("[]", "it is not an object"),
            (r#"{"a":1} x"#, "trailing"),
            (r#"{"a":1,"a":1}"#, "a is given twice"),
            (r#"{"a":{"b":[{"c":1,"d":2,"c":3}]}}"#, "c is given twice"),
            (
                r#"{"a":18446744073709551616}"#,
                "the number 18446744073709551616:",
            ),
            (
                r#"{"a":[{"b":-9223372036854775809}]}"#,
                "the number -9223372036854775809:",
            ),
            (
                r#"{"a":"\\","b":99999999999999999999}"#,
                "write a larger one as a text",
            ),
        ] {
            let problem = read_object(text.as_bytes()).expect_err(text);
            assert!(problem.contains(reason), "{text}: {problem}");
        }
    }

    /// Of commas only those count that stand between values.
    #[test]
    fn values_are_bounded() {
        let of = |values| format!("{{\"a,,\":[{}1]}}", "1,".repeat(values - 1));
        assert!(read_object(of(VALUES_MAX).as_bytes()).is_ok());
        let problem = read_object(of(VALUES_MAX + 1).as_bytes()).expect_err("too many");
        assert!(problem.contains("more than 32768 values"), "{problem}");
    }

    /// As the reader that is used elsewhere has it.
    #[test]
    fn depth_is_bounded() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1000), "]".repeat(1000));
        let problem = read_object(deep.as_bytes()).expect_err("too deep");
        assert!(problem.contains("recursion limit"), "{problem}");
    }
}
