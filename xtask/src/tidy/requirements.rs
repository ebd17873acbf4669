//! The list of requirements names tests that exist.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::masked::Masked;
use crate::tree::Tree;

const LISTING: &str = "docs/conformance/requirements.toml";

/// Checks that every entry of every `tests = […]` is a test: its name alone, or after `::` with
/// the file's path, the module's or the crate's before it.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    // The list may come later than this check.
    let Some(text) = tree.text(LISTING) else {
        return Vec::new();
    };
    let document: toml::Table = match text.parse() {
        Ok(document) => document,
        Err(error) => return vec![Finding::new(LISTING, 0, format!("not valid TOML: {error}"))],
    };
    let mut named = BTreeSet::new();
    for value in document.values() {
        collect(value, &mut named);
    }
    let tests = tests(tree);
    let mut findings = unexplained(&document);
    for name in named {
        if !exists(tree, &tests, &name) {
            let line = text
                .lines()
                .position(|line| line.contains(&format!("\"{name}\"")));
            let message = format!("there is no test {name}");
            findings.push(Finding::new(
                LISTING,
                line.map_or(0, |index| index + 1),
                message,
            ));
        }
    }
    findings
}

/// A statement that concerns a server names a test or says why it has none.
fn unexplained(document: &toml::Table) -> Vec<Finding> {
    let entries = document.get("requirement").and_then(toml::Value::as_array);
    let entries = entries.into_iter().flatten();
    let has_none = |entry: &&toml::Value| {
        let text = |key| entry.get(key).and_then(toml::Value::as_str);
        let tests = entry.get("tests").and_then(toml::Value::as_array);
        text("side") != Some("client-only")
            && text("note").is_none()
            && tests.is_none_or(|tests| tests.is_empty())
    };
    entries
        .filter(has_none)
        .map(|entry| {
            let id = entry.get("id").and_then(toml::Value::as_str);
            let message = format!("{} names no test and has no note", id.unwrap_or("one"));
            Finding::new(LISTING, 0, message)
        })
        .collect()
}

fn collect(value: &toml::Value, named: &mut BTreeSet<String>) {
    match value {
        toml::Value::Array(items) => items.iter().for_each(|item| collect(item, named)),
        toml::Value::Table(table) => {
            for (key, value) in table {
                match value.as_array().filter(|_| key == "tests") {
                    Some(tests) => {
                        named.extend(
                            tests
                                .iter()
                                .filter_map(|test| test.as_str().map(str::to_owned)),
                        );
                    }
                    None => collect(value, named),
                }
            }
        }
        _ => {}
    }
}

fn exists(tree: &Tree, tests: &BTreeMap<String, BTreeSet<String>>, name: &str) -> bool {
    let (before, test) = name.rsplit_once("::").unwrap_or(("", name));
    let Some(files) = tests.get(test) else {
        return false;
    };
    // A path names the file itself; anything else is a module path, of which the first part that
    // looks like a file has to fit.
    let is_path = before.contains('/') || tree.contains(before) && before.contains('.');
    if before.is_empty() || !is_path {
        return true;
    }
    let file = before.split("::").next().unwrap_or_default();
    files
        .iter()
        .any(|found| found == file || found.strip_suffix(".rs") == Some(file))
}

/// The tests of the project: name to files. In Rust a function below an attribute that ends in
/// `test]`, or within `proptest!`; in Python `def test_…`; in JavaScript `test("…")`.
fn tests(tree: &Tree) -> BTreeMap<String, BTreeSet<String>> {
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in tree.texts_with(&["rs", "py", "js", "mjs"]) {
        let names = if path.ends_with(".rs") {
            rust_tests(&Masked::new(text))
        } else if path.ends_with(".py") {
            let lines = text.lines().map(str::trim_start);
            let definitions = lines.filter_map(|line| {
                line.strip_prefix("async ")
                    .unwrap_or(line)
                    .strip_prefix("def test_")
            });
            definitions
                .map(|rest| format!("test_{}", identifier(rest)))
                .collect()
        } else {
            let calls = text
                .lines()
                .filter_map(|line| line.trim_start().strip_prefix("test("));
            let names = calls.filter_map(|rest| rest.split(['"', '\'', '`']).nth(1));
            names.map(str::to_owned).collect()
        };
        for name in names {
            tests.entry(name).or_default().insert(path.to_owned());
        }
    }
    tests
}

fn rust_tests(masked: &Masked) -> Vec<String> {
    let code = masked.code();
    let mut names = Vec::new();
    for (at, _) in code
        .match_indices("test]")
        .chain(code.match_indices("test("))
    {
        let line_start = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let is_attribute = code[line_start..at].trim_start().starts_with("#[");
        let rest = code[at..].split_once("fn ").filter(|_| is_attribute);
        if let Some((between, rest)) = rest {
            // The function follows at once, but for other attributes and its qualifiers.
            if !between.contains('{') && !between.contains(';') {
                names.push(identifier(rest));
            }
        }
    }
    names
}

fn identifier(rest: &str) -> String {
    rest.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: &str = "#[test]\nfn one() {}\n#[test]\n#[expect(x)]\nfn two() {}\nfn no_test() {}\n\
                        proptest! {\n    #[test]\n    fn three(x in 0..1) {}\n}\n\
                        #[cfg(test)]\nmod tests {\n    fn helper() {}\n}\n";

    fn missing(entry: &str) -> bool {
        let listing = format!("[[requirement]]\nid = \"x\"\ntests = [\"{entry}\"]\n");
        let tree = Tree::from([
            (LISTING, &*listing),
            ("crates/hub/tests/a.rs", RUST),
            (
                "tests/paho/a.py",
                "class X:\n    async def test_four(self):\n        pass\n",
            ),
            ("tests/web/a.mjs", "test(\"it works\", () => {});\n"),
        ]);
        let found = check(&tree);
        assert!(found.iter().all(|finding| finding.line == 3), "{found:?}");
        !found.is_empty()
    }

    #[test]
    fn tests_are_found_by_name_module_or_file() {
        for entry in [
            "one",
            "two",
            "three",
            "hub::a::one",
            "crates/hub/tests/a.rs::one",
            "test_four",
            "tests/paho/a.py::test_four",
            "it works",
        ] {
            assert!(!missing(entry), "{entry}");
        }
        for entry in [
            "four",
            "no_test",
            "helper",
            "crates/hub/tests/b.rs::one",
            "hub::a",
            "test_x",
        ] {
            assert!(missing(entry), "{entry}");
        }
    }

    #[test]
    fn a_statement_without_tests_says_why() {
        let findings = |side: &str, rest: &str| {
            let entry = format!("[[requirement]]\nid = \"x\"\nside = \"{side}\"\n{rest}\n");
            check(&Tree::from([(LISTING, &*entry)])).len()
        };
        assert_eq!(findings("server", "tests = []"), 1);
        assert_eq!(findings("session", ""), 1);
        assert_eq!(findings("server", "note = \"because\"\ntests = []"), 0);
        assert_eq!(findings("client-only", "tests = []"), 0);
    }

    #[test]
    fn no_list_is_no_finding_and_a_broken_one_is() {
        assert!(check(&Tree::from([("a.rs", "")])).is_empty());
        assert_eq!(check(&Tree::from([(LISTING, "tests = [")])).len(), 1);
    }
}
