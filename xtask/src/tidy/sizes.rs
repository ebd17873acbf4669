//! How long files, functions and lines may be.

use std::collections::BTreeMap;

use super::{Finding, is_test_file, list};
use crate::masked::Masked;
use crate::tree::Tree;

const CODE: &[&str] = &["rs", "py", "js", "mjs", "ts", "sh", "c"];
const FILE_LINES_LOOK: usize = 800;
const FILE_LINES_MAX: usize = 1200;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;
/// The functions that were longer when the rule came; the list may only shrink.
const EXCEPTIONS: &str = "xtask/long-functions.txt";

/// Files are short, but for generated ones and tables, which say so in their first lines.
pub(crate) fn file_lengths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_with(CODE) {
        let is_exempt = text.lines().take(5).any(|line| {
            line.contains("Written by `cargo xtask gen`") || line.contains("tidy: table")
        });
        let lines = text.lines().count();
        if is_exempt || lines <= FILE_LINES_LOOK {
            continue;
        }
        if lines > FILE_LINES_MAX {
            let message = format!("{lines} lines; split it (at most {FILE_LINES_MAX})");
            findings.push(Finding::new(path, 0, message));
        } else {
            let message = format!("{lines} lines; think of splitting it");
            findings.push(Finding::warning(path, 0, message));
        }
    }
    findings
}

/// Functions are short, but for the named exceptions. Tests may be tables and are not measured.
pub(crate) fn function_lengths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut exceptions = exceptions(tree, &mut findings);
    for (path, text) in tree
        .texts_with(&["rs"])
        .filter(|(path, _)| !is_test_file(path))
    {
        let masked = Masked::new(text);
        let tests = masked.test_regions();
        for function in masked.functions() {
            let first = function.first_line;
            let lines = function.last_line - first + 1;
            if tests
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&first))
            {
                continue;
            }
            match exceptions.remove(&(path.to_owned(), function.name.clone())) {
                Some((line, allowed)) if lines < allowed => {
                    let message = match lines > FUNCTION_LINES_MAX {
                        true => format!("{} has only {lines} lines now; lower it", function.name),
                        false => format!("{} is short now; remove it", function.name),
                    };
                    findings.push(Finding::new(EXCEPTIONS, line, message));
                }
                Some((_, allowed)) if lines == allowed => {}
                _ if lines > FUNCTION_LINES_MAX => {
                    let name = function.name;
                    let message = format!(
                        "{name} has {lines} lines; split it (at most {FUNCTION_LINES_MAX})"
                    );
                    findings.push(Finding::new(path, first, message));
                }
                _ => {}
            }
        }
    }
    for ((path, name), (line, _)) in exceptions {
        let message = format!("there is no function {name} in {path}; remove it");
        findings.push(Finding::new(EXCEPTIONS, line, message));
    }
    findings
}

type Exceptions = BTreeMap<(String, String), (usize, usize)>;

fn exceptions(tree: &Tree, findings: &mut Vec<Finding>) -> Exceptions {
    let mut exceptions = BTreeMap::new();
    for (line, words) in list(tree.text(EXCEPTIONS).unwrap_or_default()) {
        match words.as_slice() {
            [path, name, lines] if lines.parse::<usize>().is_ok() => {
                let lines = lines.parse().unwrap_or(0);
                exceptions.insert((path.to_string(), name.to_string()), (line, lines));
            }
            _ => findings.push(Finding::new(EXCEPTIONS, line, "write: path function lines")),
        }
    }
    exceptions
}

/// Lines fit into 100 columns, unless they cannot be broken: a long link, or a long text in them.
pub(crate) fn line_widths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_with(CODE) {
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            let content = line.trim_start_matches(['/', '!', '#', '*', '"', ' ']);
            let has_long_text = line
                .split('"')
                .skip(1)
                .step_by(2)
                .any(|text| text.len() > 40);
            if columns > LINE_COLUMNS_MAX && content.contains(' ') && !has_long_text {
                let message = format!("{columns} columns; at most {LINE_COLUMNS_MAX}");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_warn_then_fail() {
        let check = |lines: usize, head: &str| {
            let text = format!("{head}\n{}", "x\n".repeat(lines));
            file_lengths(&Tree::from([("a.rs", text.as_str())]))
                .pop()
                .map(|f| f.is_warning)
        };
        assert_eq!(check(700, ""), None);
        assert_eq!(check(900, ""), Some(true));
        assert_eq!(check(1300, ""), Some(false));
        assert_eq!(check(1300, "// tidy: table"), None);
        assert_eq!(check(1300, "// Written by `cargo xtask gen`"), None);
    }

    fn long(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "x;\n".repeat(lines - 2))
    }

    fn check_functions(source: &str, exceptions: &str) -> Vec<String> {
        let tree = Tree::from([("a.rs", source), (EXCEPTIONS, exceptions)]);
        function_lengths(&tree)
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn long_functions_fail() {
        assert!(check_functions(&long("f", 70), "").is_empty());
        let found = check_functions(&long("f", 71), "");
        assert_eq!(found, ["a.rs:1: f has 71 lines; split it (at most 70)"]);
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long("f", 100));
        assert!(check_functions(&test, "").is_empty());
    }

    #[test]
    fn the_list_of_exceptions_only_shrinks() {
        let found = |source: &str| check_functions(source, "# why\na.rs f 80\n").join("");
        assert_eq!(found(&long("f", 80)), "");
        assert!(found(&long("f", 81)).contains("has 81 lines; split it"));
        assert!(found(&long("f", 75)).contains("has only 75 lines now; lower it"));
        assert!(found(&long("f", 20)).contains("f is short now; remove it"));
        assert!(found("").contains("there is no function f in a.rs"));
        assert!(
            check_functions("", "a.rs f")
                .join("")
                .contains("write: path function lines")
        );
    }

    #[test]
    fn wide_lines_fail_unless_they_cannot_be_broken() {
        let word = "x".repeat(120);
        let tree = Tree::from([
            ("a.rs", &*format!("// {word}\n")),
            ("b.rs", &*format!("let x = {word};\n")),
            ("c.md", &*format!("a {word}\n")),
            ("d.rs", &*format!("check(\"{word}\");\n")),
        ]);
        let found: Vec<String> = line_widths(&tree).iter().map(|f| f.path.clone()).collect();
        assert_eq!(found, ["b.rs"]);
    }
}
