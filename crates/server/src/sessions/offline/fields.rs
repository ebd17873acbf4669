//! The fields of a JSON object, each looked at once. What is not known is refused, so that nothing
//! is lost without anybody knowing.

use serde_json::{Map, Value};

/// Characters of a wrong value that are shown.
const SHOWN_MAX: usize = 100;

/// See the module.
pub(super) struct Fields<'v> {
    map: &'v Map<String, Value>,
    /// What the object is, for messages.
    what: &'static str,
    known: Vec<&'static str>,
}

/// A sentence that says what is wrong with a field.
pub(super) fn wrong(name: &str, value: &Value, expected: &str) -> String {
    let text = value.to_string();
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{name} cannot be {shown}{more}: {expected}")
}

impl<'v> Fields<'v> {
    pub(super) fn of(value: &'v Value, what: &'static str) -> Result<Self, String> {
        let map = value.as_object();
        let map = map.ok_or_else(|| wrong(what, value, "it is a JSON object"))?;
        Ok(Self {
            map,
            what,
            known: Vec::new(),
        })
    }

    /// A field, if it is there.
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'v Value> {
        self.known.push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn needed<T>(&self, name: &str, value: Option<T>) -> Result<T, String> {
        value.ok_or_else(|| format!("{} has no {name}", self.what))
    }

    /// A text without U+0000, of this many bytes at most.
    pub(super) fn text(
        &mut self,
        name: &'static str,
        bytes_max: usize,
    ) -> Result<Option<&'v str>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        text_of(name, value, bytes_max).map(Some)
    }

    /// The same where there has to be one.
    pub(super) fn a_text(
        &mut self,
        name: &'static str,
        bytes_max: usize,
    ) -> Result<&'v str, String> {
        let text = self.text(name, bytes_max)?;
        self.needed(name, text)
    }

    /// A whole number from one bound to the other.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        min: u64,
        max: u64,
    ) -> Result<Option<u64>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let number = value.as_u64().filter(|number| (min..=max).contains(number));
        let expected = || format!("it is a whole number from {min} to {max}");
        let number = number.ok_or_else(|| wrong(name, value, &expected()))?;
        Ok(Some(number))
    }

    /// The same where there has to be one.
    pub(super) fn a_number(
        &mut self,
        name: &'static str,
        min: u64,
        max: u64,
    ) -> Result<u64, String> {
        let number = self.number(name, min, max)?;
        self.needed(name, number)
    }

    /// A number that fits into 32 bits.
    pub(super) fn small(
        &mut self,
        name: &'static str,
        min: u32,
        max: u32,
    ) -> Result<Option<u32>, String> {
        let number = self.number(name, min.into(), max.into())?;
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    }

    /// Whether something is so; it is not if nothing is said.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, String> {
        let Some(value) = self.get(name) else {
            return Ok(false);
        };
        let flag = value.as_bool();
        flag.ok_or_else(|| wrong(name, value, "it is true or false"))
    }

    /// A list with this many entries at most; none if it is not there.
    pub(super) fn list(
        &mut self,
        name: &'static str,
        len_max: usize,
    ) -> Result<&'v [Value], String> {
        let Some(value) = self.get(name) else {
            return Ok(&[]);
        };
        let list = value.as_array();
        let list = list.ok_or_else(|| wrong(name, value, "it is a list"))?;
        match list.len() > len_max {
            true => Err(format!(
                "{name} has {} entries, and there can be {len_max}",
                list.len()
            )),
            false => Ok(list),
        }
    }

    /// All fields were looked at.
    pub(super) fn end(self) -> Result<(), String> {
        let is_unknown = |name: &&String| !self.known.contains(&name.as_str());
        match self.map.keys().find(is_unknown) {
            None => Ok(()),
            Some(name) => Err(format!("nothing of {} is called {name:?}", self.what)),
        }
    }
}

/// A value as a text without U+0000, of this many bytes at most.
pub(super) fn text_of<'v>(
    name: &str,
    value: &'v Value,
    bytes_max: usize,
) -> Result<&'v str, String> {
    let text = value.as_str().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| wrong(name, value, "it is a text without U+0000"))?;
    match text.len() > bytes_max {
        true => Err(format!(
            "{name} has {} bytes, and there can be {bytes_max}",
            text.len()
        )),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_field_has_a_bound_and_unknown_ones_are_refused() {
        let value = json!({"text": "abc", "number": 7, "flag": true, "list": [1, 2], "null": null});
        let mut fields = Fields::of(&value, "a thing").unwrap();
        assert_eq!(fields.a_text("text", 3).unwrap(), "abc");
        assert_eq!(
            fields.text("text", 2).unwrap_err(),
            "text has 3 bytes, and there can be 2"
        );
        assert_eq!(fields.small("number", 7, 7).unwrap(), Some(7));
        assert_eq!(
            fields.number("number", 8, 9).unwrap_err(),
            "number cannot be 7: it is a whole number from 8 to 9"
        );
        assert!(fields.flag("flag").unwrap() && !fields.flag("null").unwrap());
        assert_eq!(fields.list("list", 2).unwrap().len(), 2);
        assert_eq!(
            fields.list("list", 1).unwrap_err(),
            "list has 2 entries, and there can be 1"
        );
        assert_eq!(
            fields.a_number("none", 0, 1).unwrap_err(),
            "a thing has no none"
        );
        fields.end().unwrap();
        let unknown = Fields::of(&value, "a thing").unwrap().end().unwrap_err();
        assert!(
            unknown.starts_with("nothing of a thing is called \""),
            "{unknown}"
        );
        assert!(Fields::of(&json!(1), "a thing").is_err());
    }

    #[test]
    fn a_wrong_value_is_shown_in_part() {
        let text = wrong("x", &json!("y".repeat(1_000)), "it is short");
        assert!(
            text.len() < 200 && text.ends_with("…: it is short"),
            "{text}"
        );
        let nul = json!("a\0b");
        assert!(text_of("x", &nul, 9).unwrap_err().contains("U+0000"));
    }
}
