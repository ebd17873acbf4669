//! Given values into typed settings.

use std::path::Path;

use super::givens::{Entry, Givens};
use super::problem::{Origin, Problem};
use super::table::{Fallback, Key, Section};
use super::url::ListenUrl;
use super::value::{Given, Raw, Setting, Value};

/// Reads the values of one section or entry and collects what is wrong with them.
pub(super) struct Reader<'a> {
    entry: &'a Entry,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    /// The value of a key, or its default. After a problem the result is a placeholder.
    pub(super) fn value<T: Setting>(&mut self, section: &Section, name: &'static str) -> T {
        let value = section.key(name).and_then(|key| self.read(key));
        let setting = value.and_then(T::from_value);
        setting.unwrap_or_default()
    }

    fn read(&mut self, key: &Key) -> Option<Value> {
        let (raw, origin) = match (self.entry.values.get(key.name), key.fallback) {
            (Some(Given { raw, origin }), _) => (raw.clone(), origin.clone()),
            (None, Fallback::Value(text)) => (Raw::Words(text.to_owned()), Origin::Default),
            (None, Fallback::Unset(_)) => return Some(Value::Unset),
            (None, Fallback::Required(example)) => {
                let message = format!(
                    "{} is missing; add it, for example {} = {}",
                    key.path(),
                    key.name,
                    key.kind.toml(example)
                );
                self.problem(self.entry.origin.clone(), message);
                return None;
            }
        };
        match key.kind.parse(&raw) {
            Ok(value) => Some(at_folder(value, key, &origin)),
            Err(reason) => {
                let shown = if key.is_secret() {
                    "(secret)".to_owned()
                } else {
                    raw.show()
                };
                let expects = key.kind.expects();
                let message = format!("{} = {shown}: {reason}; give {expects}", key.path());
                self.problem(origin, message);
                None
            }
        }
    }

    fn problem(&mut self, origin: Origin, message: String) {
        self.problems.push(Problem { origin, message });
    }
}

/// A relative path in the file starts at the file's folder; elsewhere, where the server starts.
fn at_folder(value: Value, key: &Key, origin: &Origin) -> Value {
    let folder = match origin {
        Origin::File(file, _) => file.parent().unwrap_or_else(|| Path::new("")),
        _ => return value,
    };
    match value {
        Value::Text(path) if key.kind == super::kind::Kind::Path => {
            Value::Text(folder.join(path).to_string_lossy().into_owned())
        }
        Value::Url(ListenUrl::Unix(path)) => Value::Url(ListenUrl::Unix(folder.join(path))),
        Value::Url(ListenUrl::AskUnix(asker, path)) => {
            Value::Url(ListenUrl::AskUnix(asker, folder.join(path)))
        }
        value => value,
    }
}

impl Givens {
    /// Reads all entries of a section with `read`.
    pub(super) fn read_all<T>(
        &mut self,
        section: &Section,
        read: fn(&mut Reader<'_>) -> T,
    ) -> Vec<T> {
        let mut problems = Vec::new();
        let entries = self.entries(section.name).iter();
        let settings = entries
            .map(|entry| {
                read(&mut Reader {
                    entry,
                    problems: &mut problems,
                })
            })
            .collect();
        self.problems.append(&mut problems);
        settings
    }

    /// Reads a section that is not a list.
    pub(super) fn read_one<T>(&mut self, section: &Section, read: fn(&mut Reader<'_>) -> T) -> T {
        let mut problems = Vec::new();
        let empty = Entry::new(Origin::Default);
        let entry = self.entries(section.name).first().unwrap_or(&empty);
        let setting = read(&mut Reader {
            entry,
            problems: &mut problems,
        });
        self.problems.append(&mut problems);
        setting
    }
}
