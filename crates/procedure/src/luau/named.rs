//! The name behind "attempt to call a nil value", which Luau does not tell.
//!
//! The words of the line are looked at. A name is certain if the script never gives it to anything
//! and nothing is installed under it; then it comes with "did you mean". A line with one call that
//! is not certain names that one.

use mlua::{Lua, Table, Value};

use super::{Script, Trouble, one_line};
use crate::lexer::{Word, words};
use crate::manifest::nearest;

/// What Luau says of a call of something that is not there.
const NIL_CALLED: &str = "attempt to call a nil value";

/// Words that may stand before `(` without being called.
const KEYWORDS: [&str; 16] = [
    "and", "do", "else", "elseif", "end", "for", "function", "if", "in", "local", "not", "or",
    "return", "then", "until", "while",
];

/// The trouble with the name of what was called, where that can be known.
pub(super) fn named(lua: &Lua, script: &Script, trouble: Trouble) -> Trouble {
    let Trouble::Mistake(text) = &trouble else {
        return trouble;
    };
    match line_of(text, script.name()).and_then(|line| called(lua, &script.text, line)) {
        Some(called) => Trouble::Mistake(one_line(&format!("{text}: {called}"))),
        None => trouble,
    }
}

/// The line of a call of nil in this script.
fn line_of(told: &str, name: &str) -> Option<usize> {
    let rest = told.strip_prefix(name)?.strip_prefix(':')?;
    let (line, said) = rest.split_once(": ")?;
    (said == NIL_CALLED).then(|| line.parse().ok())?
}

/// What was called in a line, as far as it can be known.
fn called(lua: &Lua, text: &str, line: usize) -> Option<String> {
    let words = words(text);
    let calls = calls(&words, line);
    let mut missing = calls.iter().filter(|call| call.is_missing(lua, &words));
    match (missing.next(), missing.next(), calls.as_slice()) {
        (Some(one), None, _) => Some(one.told(lua)),
        (None, None, [one]) if !one.path.is_empty() => Some(format!("`{}`", one.path)),
        _ => None,
    }
}

/// A call: the names before its parenthesis.
struct Call<'a> {
    /// As it is written, such as `string.uper`; empty if more than names stands there.
    path: String,
    /// The first name, and the one behind its dot.
    names: Option<(&'a str, Option<&'a str>)>,
}

/// The calls of a line.
fn calls<'a>(words: &[(usize, Word<'a>)], line: usize) -> Vec<Call<'a>> {
    let is_begun = |at: usize| {
        let next = words.get(at + 1).map(|(_, word)| *word);
        matches!(next, Some(Word::Mark("(" | "{") | Word::Literal))
    };
    let here = (0..words.len()).filter(|at| words[*at].0 == line && is_begun(*at));
    let call = |at: usize| match words[at].1 {
        Word::Name(name) if !KEYWORDS.contains(&name) => call_at(words, at),
        Word::Mark(")" | "]") if words.get(at + 1).map(|next| next.1) == Some(Word::Mark("(")) => {
            let (path, names) = (String::new(), None);
            Some(Call { path, names })
        }
        _ => None,
    };
    here.filter_map(call).collect()
}

/// The call whose last name stands at a place; none where a function is declared.
fn call_at<'a>(words: &[(usize, Word<'a>)], last: usize) -> Option<Call<'a>> {
    let word = |at: usize| words.get(at).map(|(_, word)| *word);
    let mut first = last;
    while first >= 2
        && let (Some(Word::Mark("." | ":")), Some(Word::Name(_))) =
            (word(first - 1), word(first - 2))
    {
        first -= 2;
    }
    let before = first.checked_sub(1).and_then(word);
    if before == Some(Word::Name("function")) {
        return None;
    }
    let written = words[first..=last].iter().map(|(_, word)| match word {
        Word::Name(text) | Word::Mark(text) => *text,
        Word::Literal => "",
    });
    let path: String = written.collect();
    let is_whole = !matches!(before, Some(Word::Mark("." | ":")));
    let names = match (word(first), last - first, word(first + 2)) {
        (Some(Word::Name(root)), 0, _) if is_whole => Some((root, None)),
        (Some(Word::Name(root)), 2, Some(Word::Name(field))) if is_whole => {
            Some((root, Some(field)))
        }
        _ => None,
    };
    Some(Call { path, names })
}

impl Call<'_> {
    /// Whether this is nil for certain: a name of nothing, or none of an installed table.
    fn is_missing(&self, lua: &Lua, words: &[(usize, Word<'_>)]) -> bool {
        let Some((root, field)) = self.names.filter(|(root, _)| !is_own(words, root)) else {
            return false;
        };
        match (lua.globals().get::<Value>(root), field) {
            (Ok(Value::Nil), None) => true,
            (Ok(Value::Table(table)), Some(field)) => {
                matches!(table.get::<Value>(field), Ok(Value::Nil))
            }
            _ => false,
        }
    }

    /// The name, and the one that was probably meant.
    fn told(&self, lua: &Lua) -> String {
        let Some((root, field)) = self.names else {
            return format!("`{}`", self.path);
        };
        let known = match field {
            None => names_in(installed(lua)),
            Some(_) => names_in(lua.globals().get(root).ok()),
        };
        let near = nearest(field.unwrap_or(root), known.iter().map(String::as_str));
        match (near, field) {
            (None, _) => format!("there is no `{}`", self.path),
            (Some(near), None) => format!("there is no `{root}`; did you mean `{near}`?"),
            (Some(near), Some(_)) => {
                format!("there is no `{}`; did you mean `{root}.{near}`?", self.path)
            }
        }
    }
}

/// The table of what is installed, which stands behind the one of a sandbox.
fn installed(lua: &Lua) -> Option<Table> {
    let globals = lua.globals();
    let behind = globals.metatable();
    let behind = behind.and_then(|metatable| metatable.raw_get::<Table>("__index").ok());
    Some(behind.unwrap_or(globals))
}

fn names_in(table: Option<Table>) -> Vec<String> {
    let pairs = table.into_iter().flat_map(|table| {
        let pairs = table.pairs::<String, Value>();
        pairs.filter_map(Result::ok).collect::<Vec<_>>()
    });
    pairs.map(|(name, _)| name).collect()
}

/// Whether a script may give this name to something. Where it is not called or indexed, that is
/// taken for granted.
fn is_own(words: &[(usize, Word<'_>)], name: &str) -> bool {
    let places = (0..words.len()).filter(|at| words[*at].1 == Word::Name(name));
    let word = |at: Option<usize>| at.and_then(|at| words.get(at)).map(|(_, word)| *word);
    let mut places = places.map(|at| (word(at.checked_sub(1)), word(Some(at + 1))));
    places.any(|(before, after)| match (before, after) {
        (Some(Word::Mark("." | ":")), _) => false,
        (Some(Word::Name("local" | "for" | "function")), _) => true,
        (Some(Word::Mark("(" | ",")), Some(Word::Mark(":"))) => true,
        (_, Some(Word::Mark("(" | "." | ":" | "[" | "{") | Word::Literal)) => false,
        _ => true,
    })
}
