//! Users in CSV, as RFC 4180 has it.

use std::fmt;
use std::sync::Arc;

use stentor_auth::credential::Stored;
use stentor_auth::model::{DEFAULT_ZONE, Login};

use super::{Place, Row};
use crate::accounts::secret::dated;

/// What is in the column of roles for a user who has none.
const NO_ROLES: &str = "-";

/// The columns that a file may have.
const COLUMNS: [&str; 6] = [
    "name",
    "password",
    "credential",
    "zone",
    "roles",
    "disabled",
];

pub(super) fn parse(text: &str) -> Result<Vec<Row>, String> {
    let mut records = records(text)?.into_iter();
    let (_, head) = records.next().ok_or("the file is empty")?;
    let head: Vec<String> = head.iter().map(|name| name.trim().to_lowercase()).collect();
    let known = COLUMNS.join(", ");
    // Without it, the first line is most likely a user already, whose password nobody is shown.
    if !head.iter().any(|name| name == "name") {
        return Err(format!(
            "line 1: the column \"name\" is missing; the first line has the names of the columns, \
             of {known}"
        ));
    }
    if let Some(name) = head.iter().find(|name| !COLUMNS.contains(&name.as_str())) {
        return Err(format!(
            "line 1: there is no column {name:?}; there are {known}"
        ));
    }
    let twice = |(at, name): &(usize, &String)| head[..*at].contains(name);
    if let Some((_, name)) = head.iter().enumerate().find(twice) {
        return Err(format!("line 1: there are two columns {name:?}"));
    }
    let mut rows = Vec::new();
    for (line, record) in records {
        if record.len() != head.len() {
            let name = head.iter().position(|column| column == "name");
            let name = name.and_then(|at| record.get(at));
            return Err(format!(
                "line {line}, user {:?}: it has {} columns, and the first line {}; a comma in a \
                 value needs quotes around that",
                name.map_or("", String::as_str),
                record.len(),
                head.len()
            ));
        }
        let value = |name: &str| {
            let at = head.iter().position(|column| column == name)?;
            Some(record[at].as_str()).filter(|value| !value.is_empty())
        };
        rows.push(row(line, value)?);
    }
    Ok(rows)
}

fn row<'a>(line: usize, value: impl Fn(&str) -> Option<&'a str>) -> Result<Row, String> {
    let place = Place::Line(line);
    let login = Login::parse(value("name").unwrap_or_default());
    let wrong = |column: &str, reason: &dyn fmt::Display| {
        let name = value("name").unwrap_or_default();
        format!("{place}, user {name:?}, column {column}: {reason}")
    };
    let zone = value("zone").unwrap_or(login.zone);
    if login.zone != DEFAULT_ZONE && login.zone != zone {
        return Err(wrong("zone", &"the name begins with another zone"));
    }
    // The columns have no room for the labels and ends of tokens, so those that there are stay.
    let mut row = Row::new(
        place,
        zone,
        login.name,
        value("password").map(str::to_owned),
    );
    row.user.credentials = match value("credential") {
        None => None,
        Some(texts) => {
            let parsed = texts.split_whitespace().map(|text| {
                Stored::parse(text).map_err(|error| wrong("credential", &error))?;
                Ok(dated(text))
            });
            Some(parsed.collect::<Result<_, String>>()?)
        }
    };
    row.user.disabled = match value("disabled") {
        None => None,
        Some("true" | "1" | "yes") => Some(true),
        Some("false" | "0" | "no") => Some(false),
        Some(_) => return Err(wrong("disabled", &"it is true or false")),
    };
    row.user.roles = match value("roles").map(str::trim_ascii) {
        None | Some("") => None,
        Some(NO_ROLES) => Some(Vec::new()),
        Some(text) => Some(words(text).ok_or_else(|| wrong("roles", &"a quote is not closed"))?),
    };
    Ok(row)
}

/// Takes CSV apart as RFC 4180 has it: fields in quotes may contain commas, line feeds and doubled
/// quotes. Each record comes with the number of its first line; empty lines are passed over.
pub(super) fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    let (mut line, mut chars) = (1, text.chars().peekable());
    while chars.peek().is_some() {
        let first = line;
        let mut record = Vec::new();
        loop {
            let mut field = String::new();
            if chars.next_if_eq(&'"').is_some() {
                loop {
                    match chars.next() {
                        None => return Err(format!("line {first}: a quote is not closed")),
                        Some('"') if chars.next_if_eq(&'"').is_none() => break,
                        Some(char) => {
                            line += usize::from(char == '\n');
                            field.push(char);
                        }
                    }
                }
            }
            while let Some(char) = chars.next_if(|char| !matches!(char, ',' | '\n')) {
                field.push(char);
            }
            if chars.peek() != Some(&',') && field.ends_with('\r') {
                field.pop();
            }
            record.push(field);
            if chars.next_if_eq(&',').is_none() {
                break;
            }
        }
        if chars.next_if_eq(&'\n').is_some() {
            line += 1;
        }
        if record != [""] {
            records.push((first, record));
        }
    }
    Ok(records)
}

/// A field that is read as it was.
pub(in crate::accounts) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) || field.starts_with(' ') {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Roles in one column, as [`words`] reads them.
pub(in crate::accounts) fn in_words(roles: &[Arc<str>]) -> String {
    if roles.is_empty() {
        return NO_ROLES.to_owned();
    }
    // Other white space than what separates words is part of a name, and gets quotes too: a
    // program that the file goes through may take it for a space.
    let needs_quotes = |role: &str| role.contains(|c: char| c.is_whitespace() || c == '"');
    let word = |role: &Arc<str>| match needs_quotes(role) || **role == *NO_ROLES {
        true => format!("\"{}\"", role.replace('"', "\"\"")),
        false => role.to_string(),
    };
    roles.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Takes words apart that are separated by the white space of ASCII; any other is part of a word,
/// as names may have it. In quotes, all is part of the word, and two quotes are one. `None` if a
/// quote is not closed.
fn words(text: &str) -> Option<Vec<Arc<str>>> {
    let (mut words, mut chars) = (Vec::new(), text.chars().peekable());
    loop {
        while chars.next_if(char::is_ascii_whitespace).is_some() {}
        if chars.peek().is_none() {
            return Some(words);
        }
        let mut word = String::new();
        if chars.next_if_eq(&'"').is_some() {
            loop {
                match chars.next()? {
                    '"' if chars.next_if_eq(&'"').is_none() => break,
                    char => word.push(char),
                }
            }
        }
        while let Some(char) = chars.next_if(|char| !char.is_ascii_whitespace()) {
            word.push(char);
        }
        words.push(word.into());
    }
}
