//! What a command about rooms says: its fields, read one by one, so that what makes no sense is
//! told by its name, with the value that it has and what it may be.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::{Map, Value};

use crate::range::Range;
use crate::room::HistoryBounds;
use crate::strict;

/// What is wrong with a command that makes no sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadWord {
    /// The field, with dots between levels; empty if it is the whole.
    pub(crate) part: String,
    /// What it is, what it has to be.
    pub(crate) text: String,
}

impl BadWord {
    /// A field whose value cannot be.
    fn value(part: &str, value: &Value, wanted: &str) -> Self {
        Self {
            part: part.into(),
            text: format!("{part} is {}: {wanted}", shown(value)),
        }
    }

    /// A field that is missing.
    pub(crate) fn missing(part: &str, what: &str) -> Self {
        Self {
            part: part.into(),
            text: format!("it needs {part}: {what}"),
        }
    }

    /// Fields that do not go together.
    pub(crate) fn other(part: &str, text: impl Into<String>) -> Self {
        Self {
            part: part.into(),
            text: text.into(),
        }
    }
}

/// A value as its sender gets it back.
fn shown(value: &Value) -> String {
    /// Characters; longer ones are cut.
    const SHOWN_MAX: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A text as its sender gets it back.
pub(crate) fn quoted(text: &str) -> String {
    shown(&text.into())
}

/// The fields of one command. Reading one takes it out; null is as good as not given, but where
/// [`any`](Self::any) reads it.
#[derive(Debug, Default)]
pub(crate) struct Words {
    fields: Map<String, Value>,
}

impl Words {
    /// Reads a payload, which may be empty.
    pub(crate) fn read(payload: &[u8], allowed: &[&str]) -> Result<Self, BadWord> {
        if payload.is_empty() {
            return Ok(Self::default());
        }
        let fields = strict::read_object(payload).map_err(|problem| {
            let text = format!("the payload has to be one JSON object: {problem}");
            BadWord::other("", text)
        })?;
        known("", &fields, allowed)?;
        Ok(Self { fields })
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    /// Whether a field is given and has not been read.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|value| !value.is_null())
    }

    /// Any value, null too.
    pub(crate) fn any(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name)
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, BadWord> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(BadWord::value(name, &other, "it has to be a text")),
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, BadWord> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(BadWord::value(name, &other, "it has to be true or false")),
        }
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, BadWord> {
        number(name, self.take(name), u64::MAX)
    }

    /// A number of users.
    pub(crate) fn count(&mut self, name: &str) -> Result<Option<u32>, BadWord> {
        self.count_up_to(name, u32::MAX)
    }

    /// A count up to a bound.
    pub(crate) fn count_up_to(&mut self, name: &str, max: u32) -> Result<Option<u32>, BadWord> {
        let count = number(name, self.take(name), max.into())?;
        // It is not larger.
        Ok(count.and_then(|count| u32::try_from(count).ok()))
    }

    /// Properties, none of which is null.
    pub(crate) fn properties(&mut self, name: &str) -> Result<Map<String, Value>, BadWord> {
        let properties = match self.take(name) {
            None => Map::new(),
            Some(Value::Object(properties)) => properties,
            Some(other) => {
                let wanted = "it has to be an object of names and values";
                return Err(BadWord::value(name, &other, wanted));
            }
        };
        match properties.iter().find(|(_, value)| value.is_null()) {
            Some((property, value)) => {
                let wanted = "a property has a value, or is left out";
                Err(BadWord::value(&below(name, property), value, wanted))
            }
            None => Ok(properties),
        }
    }

    /// A range of numbers of users.
    pub(crate) fn members(&mut self) -> Result<Range, BadWord> {
        let name = "members";
        let Some(range) = self.take(name) else {
            return Ok(Range::default());
        };
        for end in ["min", "max"] {
            let value = range.get(end).filter(|value| !value.is_null()).cloned();
            number(&below(name, end), value, u32::MAX.into())?;
        }
        read_range(name, range)
    }

    /// Ranges of properties that are numbers, by name.
    pub(crate) fn ranges(&mut self, at_most: usize) -> Result<Vec<(String, Range)>, BadWord> {
        let name = "ranges";
        let ranges = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Object(ranges)) => ranges,
            Some(other) => {
                let wanted = r#"it has to be an object, like {"level": {"min": 3, "max": 5}}"#;
                return Err(BadWord::value(name, &other, wanted));
            }
        };
        if ranges.len() > at_most {
            let count = ranges.len();
            let text = format!("{name} has {count} properties: a room has at most {at_most}");
            return Err(BadWord::other(name, text));
        }
        let ranges = ranges.into_iter();
        ranges
            .map(|(property, range)| {
                let range = read_range(&below(name, &property), range)?;
                Ok((property, range))
            })
            .collect()
    }

    /// How much is kept of what is said.
    pub(crate) fn history(&mut self) -> Result<Option<HistoryBounds>, BadWord> {
        let name = "history";
        let mut history = match self.take(name) {
            None => return Ok(None),
            Some(Value::Object(history)) => history,
            Some(other) => {
                let wanted = r#"it has to be an object, like {"count": 20}"#;
                return Err(BadWord::value(name, &other, wanted));
            }
        };
        known(name, &history, &["count", "bytes", "age_secs"])?;
        let mut read = |field: &str| {
            let value = history.remove(field).filter(|value| !value.is_null());
            number(&below(name, field), value, u64::MAX)
        };
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Some(HistoryBounds {
            count: read("count")?.map_or(0, whole),
            bytes: read("bytes")?.map_or(usize::MAX, whole),
            age: read("age_secs")?.map(Duration::from_secs),
        }))
    }
}

/// A range, which has at least one end.
fn read_range(part: &str, value: Value) -> Result<Range, BadWord> {
    let Value::Object(mut ends) = value else {
        let wanted = r#"it has to be a range, like {"min": 3, "max": 5}"#;
        return Err(BadWord::value(part, &value, wanted));
    };
    known(part, &ends, &["min", "max"])?;
    let mut end = |name: &str| match ends.remove(name).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => {
                let wanted = "it has to be a number";
                Err(BadWord::value(&below(part, name), &value, wanted))
            }
        },
    };
    let range = Range {
        min: end("min")?,
        max: end("max")?,
    };
    if range == Range::default() {
        let text = format!("{part} has no bound: give min, max or both");
        return Err(BadWord::other(part, text));
    }
    if range.is_empty() {
        let text = format!("{part} has no number in it: min is larger than max");
        return Err(BadWord::other(part, text));
    }
    Ok(range)
}

/// A field of a field.
pub(crate) fn below(part: &str, name: &str) -> String {
    if part.is_empty() {
        name.to_string()
    } else {
        format!("{part}.{name}")
    }
}

fn number(part: &str, value: Option<Value>, max: u64) -> Result<Option<u64>, BadWord> {
    let Some(value) = value else {
        return Ok(None);
    };
    match value.as_u64().filter(|number| *number <= max) {
        Some(number) => Ok(Some(number)),
        None => {
            let wanted = format!("it has to be a whole number from 0 to {max}");
            Err(BadWord::value(part, &value, &wanted))
        }
    }
}

fn known(part: &str, fields: &Map<String, Value>, allowed: &[&str]) -> Result<(), BadWord> {
    let Some((name, value)) = fields.iter().find(|(name, _)| !allowed.contains(&&***name)) else {
        return Ok(());
    };
    let allowed: Vec<&str> = allowed.to_vec();
    let wanted = if allowed.is_empty() {
        "there is no such field, nor any other".into()
    } else {
        format!("there is no such field, but {}", allowed.join(", "))
    };
    Err(BadWord::value(&below(part, name), value, &wanted))
}
