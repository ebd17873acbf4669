//! The configuration file: TOML into given values, each with its line.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::givens::{Entry, Givens};
use super::keys::{SECTIONS, find_section, keys};
use super::problem::Origin;
use super::suggest::nearest;
use super::table::Section;
use super::value::{Given, Raw};

/// Reads the text of a configuration file into `givens`.
pub(super) fn read(path: &Path, text: &str, givens: &mut Givens) {
    let lines = Lines::new(text);
    let mut document = Document {
        path,
        lines,
        givens,
        has_key: false,
    };
    match DeTable::parse(text) {
        Ok(table) => {
            document.top(table.get_ref());
            if !document.has_key {
                let message = "there is no key in this file: it may have been cut off while it was \
                               written; to start with the defaults, name no file";
                let origin = document.origin(0);
                document.givens.problem(origin, message);
            }
        }
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let origin = document.origin(start);
            let message = error.message().trim_end();
            document
                .givens
                .problem(origin, format!("this is not valid TOML: {message}"));
        }
    }
}

/// Where the lines of a text end: a file of many entries asks for the line of each key, and must
/// not be counted through each time.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The line that a byte of the text is in, counted from 1. O(log lines).
    fn at(&self, byte: usize) -> usize {
        1 + self.0.partition_point(|end| *end < byte)
    }
}

struct Document<'a> {
    path: &'a Path,
    lines: Lines,
    givens: &'a mut Givens,
    /// A key was met, known or not. A file without any would close every listener.
    has_key: bool,
}

impl Document<'_> {
    fn origin(&self, at: usize) -> Origin {
        Origin::File(self.path.to_owned(), self.lines.at(at))
    }

    fn top(&mut self, table: &DeTable<'_>) {
        let general = SECTIONS.iter().find(|section| section.name.is_empty());
        for (name, value) in table {
            let origin = self.origin(name.span().start);
            let name = name.get_ref().as_ref();
            // The name of the top section is empty, which no header can write.
            let section = find_section(name).filter(|section| !section.name.is_empty());
            match (section, general.and_then(|section| section.key(name))) {
                (Some(section), _) if section.repeated => self.list(section, value, origin),
                (Some(section), _) => self.plain(section, value, origin),
                (None, Some(key)) => {
                    self.has_key = true;
                    let given = Given {
                        raw: raw(value),
                        origin,
                    };
                    self.givens
                        .plain(key.section)
                        .values
                        .insert(key.name, given);
                }
                (None, None) => {
                    self.has_key = true;
                    let message = unknown("", name, value.get_ref());
                    self.givens.problem(origin, message);
                }
            }
        }
    }

    fn plain(&mut self, section: &'static Section, value: &Spanned<DeValue<'_>>, origin: Origin) {
        let DeValue::Table(table) = value.get_ref() else {
            self.has_key = true;
            let name = section.name;
            let message =
                format!("{name} is a section, not a value; write [{name}] and its keys below it");
            return self.givens.problem(origin, message);
        };
        let mut entry = Entry::new(origin);
        self.fill(section, table, &mut entry);
        *self.givens.plain(section.name) = entry;
    }

    fn list(&mut self, section: &'static Section, value: &Spanned<DeValue<'_>>, origin: Origin) {
        let name = section.name;
        let DeValue::Array(items) = value.get_ref() else {
            self.has_key = true;
            let message = format!(
                "{name} is a list of entries; write [[{name}]] above each, with double brackets"
            );
            return self.givens.problem(origin, message);
        };
        for item in items.iter() {
            let origin = self.origin(item.span().start);
            let DeValue::Table(table) = item.get_ref() else {
                let message = format!("an entry of {name} is a table; write [[{name}]] above it");
                self.givens.problem(origin, message);
                continue;
            };
            let mut entry = Entry::new(origin);
            self.fill(section, table, &mut entry);
            self.givens.entries_mut(section.name).push(entry);
        }
    }

    fn fill(&mut self, section: &'static Section, table: &DeTable<'_>, entry: &mut Entry) {
        self.has_key |= !table.is_empty();
        for (name, value) in table {
            let origin = self.origin(name.span().start);
            let name = name.get_ref().as_ref();
            match section.key(name) {
                Some(key) => {
                    entry.values.insert(
                        key.name,
                        Given {
                            raw: raw(value),
                            origin,
                        },
                    );
                }
                None => {
                    let message = unknown(section.name, name, value.get_ref());
                    self.givens.problem(origin, message);
                }
            }
        }
    }
}

fn raw(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Raw::Integer(number),
            Err(_) => Raw::Number(number.to_string()),
        },
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Array(items) => Raw::List(items.iter().map(raw).collect()),
        DeValue::Float(number) => Raw::Number(number.to_string()),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

/// The message about a key or section that does not exist, with the nearest that does.
fn unknown(section: &str, name: &str, value: &DeValue<'_>) -> String {
    let shown: String = name.chars().take(80).collect();
    let what = match (section, value) {
        ("", DeValue::Table(_)) => format!("there is no section [{shown}]"),
        ("", _) => format!("there is no key {shown:?}"),
        _ => format!("there is no key {shown:?} in {section}"),
    };
    if stands_on_top(section, name) {
        return format!("{what}; {shown:?} belongs above the first [section]: move it there");
    }
    if (section, name) == ("user", "password") {
        return format!(
            "{what}, since passwords are not kept readable; use `password_hash`, made by `stentor \
             hash-password`"
        );
    }
    match suggestion(section, name) {
        Some(known) => format!("{what}; did you mean {known}?"),
        None => format!("{what}; docs/configuration.md lists all keys"),
    }
}

/// Whether this is a key above all sections that stands below one.
fn stands_on_top(section: &str, name: &str) -> bool {
    let top = find_section("").and_then(|top| top.key(name));
    !section.is_empty() && top.is_some()
}

/// What was probably meant by `name` in `section`: a key of that section, another section, or a
/// key of another section.
fn suggestion(section: &str, name: &str) -> Option<String> {
    let here = find_section(section)?.keys.iter().map(|key| key.name);
    if let Some(near) = nearest(name, here) {
        return Some(format!("\"{near}\""));
    }
    if section.is_empty() {
        let names = SECTIONS
            .iter()
            .map(|section| section.name)
            .filter(|name| !name.is_empty());
        let near = nearest(name, names).and_then(find_section);
        if let Some(near) = near {
            return Some(near.header());
        }
    }
    let near = nearest(name, keys().map(|key| key.name))?;
    keys()
        .find(|key| key.name == near)
        .map(|key| format!("\"{}\"", key.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text is gone when the lines are asked for: nothing can count through it again.
    #[test]
    fn lines_are_found_without_the_text() {
        let text = "a\n\nbc\n".repeat(20_000);
        let expected: Vec<usize> = text
            .bytes()
            .scan(1, |line, byte| {
                let at = *line;
                *line += usize::from(byte == b'\n');
                Some(at)
            })
            .collect();
        let lines = Lines::new(&text);
        drop(text);
        for (byte, line) in expected.into_iter().enumerate() {
            assert_eq!(lines.at(byte), line, "byte {byte}");
        }
        assert_eq!(Lines::new("").at(0), 1);
        assert_eq!(Lines::new("a\nb").at(9), 2, "behind the end");
    }
}
