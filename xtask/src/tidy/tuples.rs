//! No parameter is a tuple: a struct names its parts, and a call then cannot swap two of them.

use super::{Finding, is_test_file};
use crate::masked::Masked;
use crate::tree::Tree;

/// Finds the functions of the crates that take a tuple, or a reference to one.
pub(crate) fn parameters(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_with(&["rs"]) {
        let is_source = path.starts_with("crates/") && path.split('/').nth(2) == Some("src");
        if !is_source || is_test_file(path) {
            continue;
        }
        let masked = Masked::new(text);
        let tests = masked.test_regions();
        for at in masked.words("fn") {
            let line = masked.line(at);
            let is_test = tests.iter().any(|(a, b)| (*a..=*b).contains(&line));
            let parameter = tuple_parameter(&masked.code()[at + 2..]);
            if let (Some(parameter), false) = (parameter, is_test) {
                let message = format!("{parameter:?} is a tuple: take a struct with named fields");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

/// The first parameter that is a tuple, given the code after the word `fn`.
fn tuple_parameter(code: &str) -> Option<String> {
    let rest = code.trim_start();
    let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics[inside(generics).len()..].strip_prefix('>')?,
        None => rest,
    };
    let list = inside(rest.trim_start().strip_prefix('(')?);
    let found = pieces(list, ',')
        .into_iter()
        // A type stands behind the first colon, the rest of a path behind two of them.
        .find(|parameter| pieces(parameter, ':').into_iter().skip(1).any(is_tuple))?;
    Some(found.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Whether a type is a tuple or refers to one. `()` and `(dyn A + B)` are none.
fn is_tuple(written: &str) -> bool {
    let mut rest = written.trim_start();
    while let Some(target) = rest.strip_prefix('&') {
        let target = target.trim_start();
        let target = match target.strip_prefix('\'') {
            Some(lifetime) => lifetime.trim_start_matches(|c: char| !c.is_whitespace()),
            None => target,
        };
        let target = target.trim_start();
        rest = target.strip_prefix("mut ").unwrap_or(target).trim_start();
    }
    rest.strip_prefix('(')
        .is_some_and(|fields| pieces(inside(fields), ',').len() > 1)
}

/// The code up to the bracket that closes one opened before it.
fn inside(code: &str) -> &str {
    let end = outside(code).find(|place| place.closes);
    &code[..end.map_or(code.len(), |place| place.at)]
}

/// The pieces between the separators that stand in no bracket.
fn pieces(code: &str, separator: char) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    for place in outside(code).filter(|place| place.character == separator) {
        pieces.push(&code[begin..place.at]);
        begin = place.at + place.character.len_utf8();
    }
    pieces.push(&code[begin..]);
    pieces
}

/// A character that stands in no bracket.
struct Place {
    at: usize,
    character: char,
    /// It closes a bracket that was opened before the code began.
    closes: bool,
}

fn outside(code: &str) -> impl Iterator<Item = Place> {
    let mut depth = 0_usize;
    let mut before = ' ';
    code.char_indices().filter_map(move |(at, character)| {
        // The heads of `->` and `=>` are no brackets.
        let is_arrow = character == '>' && matches!(before, '-' | '=');
        before = character;
        let opens = matches!(character, '(' | '[' | '{' | '<');
        let ends = matches!(character, ')' | ']' | '}' | '>') && !is_arrow;
        let closes = ends && depth == 0;
        let place = (depth == 0).then_some(Place {
            at,
            character,
            closes,
        });
        match () {
            () if opens => depth += 1,
            () if ends => depth = depth.saturating_sub(1),
            () => {}
        }
        place
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, code: &str) -> Vec<String> {
        parameters(&Tree::from([(path, code)]))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_parameter_that_is_a_tuple_is_found() {
        assert_eq!(
            found("crates/a/src/b.rs", "\n\nfn f(a: u8, pair: (u8,\n  u8)) {}"),
            [
                "crates/a/src/b.rs:3: \"pair: (u8, u8)\" is a tuple: take a struct with named \
                fields"
            ]
        );
        for code in [
            "fn f((a, b): (u8, u8)) {}",
            "fn f<F: Fn(u8) -> u8>(f: F, pair: &(u8, u8)) {}",
            "fn f<'a>(&self, pair: &'a mut (u8, Vec<u8>)) {}",
            "trait T {\n    fn f(one: (u8,));\n}",
            "impl T for X {\n    fn f(&self, a::B(b): a::B, pair: (u8, u8)) {}\n}",
        ] {
            assert_eq!(found("crates/a/src/b.rs", code).len(), 1, "{code}");
        }
    }

    #[test]
    fn tuples_elsewhere_are_fine() {
        for code in [
            "fn f() { a.map(|(a, b): (u8, u8)| a + b); }",
            "fn f(a: u8) -> (u8, u8) { (a, a) }",
            "fn f<T: Into<(u8, u8)>>(a: T) where T: From<(u8, u8)> {}",
            "fn f(pairs: &[(u8, u8)], map: Vec<(u8, u8)>) {}",
            "fn f(unit: (), each: &mut (dyn FnMut(u8, u8) + Send)) {}",
            "trait T {\n    fn f(&self, each: impl Fn((u8, u8)) -> (u8, u8));\n}",
            "fn f(call: fn((u8, u8))) {}",
            "// fn f(a: (u8, u8)) {}\nconst A: &str = \"fn f(a: (u8, u8)) {}\";",
            "fn f(a: /* (u8, u8) */ u8) {}",
            "#[cfg(test)]\nmod tests {\n    fn f(a: (u8, u8)) {}\n}",
        ] {
            assert_eq!(found("crates/a/src/b.rs", code), [""; 0], "{code}");
        }
    }

    #[test]
    fn tests_benches_and_examples_may_take_tuples() {
        let code = "fn f(a: (u8, u8)) {}";
        for path in [
            "crates/a/src/tests.rs",
            "crates/a/src/tests/b.rs",
            "crates/a/tests/b.rs",
            "crates/a/benches/b.rs",
            "crates/a/examples/b.rs",
            "xtask/src/b.rs",
        ] {
            assert_eq!(found(path, code), [""; 0], "{path}");
        }
    }
}
