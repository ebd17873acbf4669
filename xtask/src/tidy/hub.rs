//! The shape of the hub: a core that stands alone, services around it, and no type that does
//! everything.

use std::collections::BTreeMap;

use super::{Finding, list};
use crate::masked::Masked;
use crate::tree::Tree;

const HUB: &str = "crates/hub/src/";
const METHODS_MAX: usize = 40;
const FIELDS_MAX: usize = 15;
/// The types that were larger when the rule came; the list may only shrink.
const EXCEPTIONS: &str = "xtask/large-types.txt";

/// What a folder of the hub does not name, so that nothing in it depends on that.
const FORBIDDEN: &[(&str, &str)] = &[
    ("core/", "crate::services"),
    ("core/", "crate::hub::Hub"),
    ("services/", "crate::hub"),
];

/// The core names no service, and neither of them the hub. Services use what the core offers.
pub(crate) fn folders(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in sources(tree) {
        let inside = path.trim_start_matches(HUB);
        for (folder, name) in FORBIDDEN {
            if !inside.starts_with(folder) {
                continue;
            }
            for (index, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                if code.contains(name) {
                    let message = format!("{folder} must not depend on {name}");
                    findings.push(Finding::new(path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Types have few methods and few fields, but for the named exceptions.
pub(crate) fn type_sizes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut exceptions = exceptions(tree, &mut findings);
    let (methods, fields) = count(tree);
    let methods = methods.into_iter().map(|it| (it, "methods", METHODS_MAX));
    let fields = fields.into_iter().map(|it| (it, "fields", FIELDS_MAX));
    for ((name, count), what, most) in methods.chain(fields) {
        match exceptions.remove(&(name.clone(), what)) {
            Some((line, allowed)) if count < allowed => {
                let message = match count > most {
                    true => format!("{name} has only {count} {what} now; lower it"),
                    false => format!("{name} is small now; remove it"),
                };
                findings.push(Finding::new(EXCEPTIONS, line, message));
            }
            Some((_, allowed)) if count == allowed => {}
            _ if count > most => {
                let message = format!("{name} has {count} {what}; divide it (at most {most})");
                findings.push(Finding::new(HUB, 0, message));
            }
            _ => {}
        }
    }
    for ((name, what), (line, _)) in exceptions {
        let message = format!("there is no {name} with {what}; remove it");
        findings.push(Finding::new(EXCEPTIONS, line, message));
    }
    findings
}

fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts_with(&["rs"])
        .filter(|(path, _)| path.starts_with(HUB))
}

type Counts = BTreeMap<String, usize>;

/// Of each type, the methods of its own impls and the fields. Sources are formatted: what stands
/// in the first column is an item.
fn count(tree: &Tree) -> (Counts, Counts) {
    let (mut methods, mut fields) = (Counts::new(), Counts::new());
    for (_, text) in sources(tree) {
        let tests = Masked::new(text).test_regions();
        let is_test = |line: &usize| tests.iter().any(|(from, to)| (from..=to).contains(&line));
        let (mut open, mut members) = (None, 0);
        for (index, line) in text.lines().enumerate() {
            if is_test(&(index + 1)) {
                continue;
            }
            if let Some(item) = Item::begun_by(line) {
                (open, members) = (Some(item), 0);
            } else if line == "}" {
                match open.take() {
                    Some(Item::Impl(name)) => *methods.entry(name).or_default() += members,
                    // Two may have the same name: the larger one counts.
                    Some(Item::Struct(name)) => {
                        let count = fields.entry(name).or_default();
                        *count = members.max(*count);
                    }
                    None => {}
                }
            } else {
                members += usize::from(is_member(line));
            }
        }
    }
    (methods, fields)
}

/// What has members.
enum Item {
    Impl(String),
    Struct(String),
}

impl Item {
    fn begun_by(line: &str) -> Option<Self> {
        let own = own_impl(line).map(Self::Impl);
        own.or_else(|| structure(line).map(Self::Struct))
    }
}

/// The type that a line begins an impl of, if that is not one of a trait.
fn own_impl(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let is_own = line.ends_with('{') && !line.contains(" for ");
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    is_own.then(|| word(rest))
}

fn structure(line: &str) -> Option<String> {
    let rest = unveiled(line).strip_prefix("struct ")?;
    line.ends_with('{').then(|| word(rest))
}

/// Whether a line begins a method or a field.
fn is_member(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ") else {
        return false;
    };
    let line = unveiled(line);
    let line = line.strip_prefix("const ").unwrap_or(line);
    if line.starts_with("fn ") {
        return true;
    }
    let name = word(line);
    !name.is_empty() && line[name.len()..].starts_with(": ")
}

/// Without its visibility.
fn unveiled(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else {
        return line;
    };
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(rest, |(_, rest)| rest),
        None => rest,
    };
    rest.trim_start()
}

fn word(text: &str) -> String {
    let is_end = |sign: char| !sign.is_alphanumeric() && sign != '_';
    text.split(is_end).next().unwrap_or_default().to_owned()
}

type Exceptions = BTreeMap<(String, &'static str), (usize, usize)>;

fn exceptions(tree: &Tree, findings: &mut Vec<Finding>) -> Exceptions {
    let mut exceptions = BTreeMap::new();
    for (line, words) in list(tree.text(EXCEPTIONS).unwrap_or_default()) {
        let what = match words.get(1) {
            Some(&"methods") => Some("methods"),
            Some(&"fields") => Some("fields"),
            _ => None,
        };
        let count = words.get(2).and_then(|count| count.parse().ok());
        match (words.as_slice(), what, count) {
            ([name, _, _], Some(what), Some(count)) => {
                exceptions.insert((name.to_string(), what), (line, count));
            }
            _ => findings.push(Finding::new(
                EXCEPTIONS,
                line,
                "write: type methods|fields count",
            )),
        }
    }
    exceptions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_core_names_no_service() {
        let tree = Tree::from([
            (
                "crates/hub/src/core/a.rs",
                "use crate::services::rooms;\n// crate::services\n",
            ),
            ("crates/hub/src/services/b.rs", "use crate::hub::Hub;\n"),
            (
                "crates/hub/src/hub/c.rs",
                "use crate::services::rooms;\nuse crate::core::Core;\n",
            ),
        ]);
        let found = texts(&folders(&tree));
        assert_eq!(
            found,
            [
                "crates/hub/src/core/a.rs:1: core/ must not depend on crate::services",
                "crates/hub/src/services/b.rs:1: services/ must not depend on crate::hub",
            ]
        );
    }

    fn large(methods: usize, fields: usize) -> String {
        let mut text = "pub(crate) struct Large<'a> {\n".to_owned();
        (0..fields).for_each(|at| text += &format!("    pub(crate) f{at}: u8,\n"));
        text += "}\n\nimpl<'a> Large<'a> {\n";
        (0..methods).for_each(|at| text += &format!("    pub(crate) const fn m{at}() {{}}\n"));
        text + "}\n\nimpl Clone for Large<'_> {\n    fn clone(&self) {}\n}\n"
    }

    fn check(source: &str, exceptions: &str) -> String {
        let tree = Tree::from([("crates/hub/src/a.rs", source), (EXCEPTIONS, exceptions)]);
        texts(&type_sizes(&tree)).join("\n")
    }

    #[test]
    fn large_types_fail() {
        assert_eq!(check(&large(40, 15), ""), "");
        assert!(check(&large(41, 1), "").contains("Large has 41 methods; divide it"));
        assert!(check(&large(1, 16), "").contains("Large has 16 fields; divide it"));
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", large(50, 50));
        assert_eq!(check(&test, ""), "");
    }

    #[test]
    fn the_list_of_exceptions_only_shrinks() {
        let found = |methods| check(&large(methods, 1), "# why\nLarge methods 50\n");
        assert_eq!(found(50), "");
        assert!(found(51).contains("has 51 methods; divide it"));
        assert!(found(45).contains("has only 45 methods now; lower it"));
        assert!(found(3).contains("Large is small now; remove it"));
        assert!(check("", "Large fields 20").contains("there is no Large with fields"));
        assert!(check("", "Large 20").contains("write: type methods|fields count"));
    }
}
