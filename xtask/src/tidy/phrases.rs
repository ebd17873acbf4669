//! Phrases that are not plain English, in sentences of Rust code: strings and comments.
//!
//! The code has many of them still, so each crate may keep as many as [`LIST`] says, and no more.

use std::collections::BTreeMap;

use super::english::{OPENINGS, PHRASES, has};
use super::{Finding, is_test_file, list};
use crate::masked::Masked;
use crate::prose::bare;
use crate::tree::Tree;

/// How many phrases each crate has. The numbers may only shrink.
const LIST: &str = "xtask/phrases.txt";

/// Checks that no crate has more phrases than are listed for it.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, text) in sources(tree) {
        *counts.entry(crate_of(path)).or_default() += faults(text).len();
    }
    let mut findings = Vec::new();
    for (line, words) in list(tree.text(LIST).unwrap_or_default()) {
        let (name, listed) = match words.as_slice() {
            [name, number] => (*name, number.parse().unwrap_or(0)),
            _ => (words[0], 0),
        };
        findings.extend(judge(name, counts.remove(name).unwrap_or(0), listed, line));
    }
    let unlisted = counts.into_iter();
    findings.extend(unlisted.filter_map(|(name, count)| judge(name, count, 0, 0)));
    findings
}

/// What the tidy check counts in the files whose path begins with one of `paths`.
pub(crate) fn report(tree: &Tree, paths: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, text) in sources(tree) {
        if paths.iter().any(|start| path.starts_with(start)) {
            let faults = faults(text).into_iter();
            lines.extend(faults.map(|(line, message)| format!("{path}:{line}: {message}")));
        }
    }
    lines
}

fn judge(name: &str, count: usize, listed: usize, line: usize) -> Option<Finding> {
    let message = format!(
        "{name} has {count} phrases that are not plain English, {listed} are listed: `cargo xtask \
         english {name}/` shows them"
    );
    match count.cmp(&listed) {
        std::cmp::Ordering::Greater => Some(Finding::new(LIST, line, message)),
        std::cmp::Ordering::Less => {
            let message = format!("{message}; lower the number to {count}");
            Some(Finding::warning(LIST, line, message))
        }
        std::cmp::Ordering::Equal => None,
    }
}

/// The Rust files of the crates, without those of tests.
fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let files = tree.texts_with(&["rs"]);
    files.filter(|(path, _)| path.starts_with("crates/") && !is_test_file(path))
}

/// `crates/NAME` of a path below it.
fn crate_of(path: &str) -> &str {
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    slashes.nth(1).map_or(path, |at| &path[..at])
}

/// The phrases in comments and literals outside tests, with their lines.
fn faults(source: &str) -> Vec<(usize, String)> {
    let masked = Masked::new(source);
    let tests = masked.test_regions();
    let is_test = |line: usize| tests.iter().any(|(a, b)| (*a..=*b).contains(&line));
    let mut faults = Vec::new();
    for (line, words) in sentences(source, masked.code()) {
        if is_test(line) {
            continue;
        }
        let begin = words.iter().take(8).cloned().collect::<Vec<_>>().join(" ");
        let opening = words.first().map_or("", String::as_str);
        // A question may begin so; its mark is the last word then.
        let is_question = words.last().is_some_and(|word| word == "?");
        if OPENINGS.contains(&opening) && words.len() > 2 && !is_question {
            faults.push((line, format!("name the subject: {begin} …")));
        }
        let found = PHRASES.iter().filter(|(phrase, _)| has(&words, phrase));
        faults.extend(
            found.map(|(phrase, instead)| (line, format!("{phrase:?}: say {instead}: {begin} …"))),
        );
    }
    faults
}

/// The sentences of comments and literals as lists of words, each with the line that it begins on.
fn sentences(source: &str, code: &str) -> Vec<(usize, Vec<String>)> {
    let mut sentences: Vec<(usize, Vec<String>)> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut begins = 1;
    let mut ends = |words: &mut Vec<String>, begins: usize| {
        if !words.is_empty() {
            sentences.push((begins, std::mem::take(words)));
        }
    };
    for (index, (text, code)) in source.lines().zip(code.lines()).enumerate() {
        // Code, and the quotation marks of a literal, separate sentences.
        let text: String = text
            .chars()
            .zip(code.chars().chain(std::iter::repeat(' ')))
            .map(|(text, code)| if code == ' ' { text } else { '"' })
            .collect();
        for piece in text.split_inclusive('"') {
            for word in piece.split_whitespace() {
                let is_word = word.contains(char::is_alphanumeric);
                if is_word && words.is_empty() {
                    begins = index + 1;
                }
                words.extend(is_word.then(|| bare(word)));
                let open = word.trim_end_matches([')', ']', '"']);
                if open.ends_with('?') && !words.is_empty() {
                    words.push("?".to_owned());
                }
                if open.ends_with(['.', '!', '?', ';']) {
                    ends(&mut words, begins);
                }
            }
            if piece.ends_with('"') {
                ends(&mut words, begins);
            }
        }
        let is_blank = text.trim_matches(|c: char| c.is_whitespace() || c == '/' || c == '!');
        if is_blank.is_empty() {
            ends(&mut words, begins);
        }
    }
    ends(&mut words, begins);
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str) -> Vec<usize> {
        faults(source).iter().map(|(line, _)| *line).collect()
    }

    #[test]
    fn comments_and_strings_are_searched() {
        assert_eq!(lines("/// It is no\n/// file.\nfn is_no() {}\n"), [1]);
        assert_eq!(
            lines("let x = \"it is \\\n   no file\"; // made anew\n"),
            [1, 2]
        );
        assert_eq!(
            lines("// Who comes late waits.\n// Who may enter here?\n"),
            [1]
        );
    }

    #[test]
    fn sentences_end_where_text_does() {
        assert_eq!(
            lines("f(\"it is\", \"no file\"); // is\nlet no = 1;\n"),
            [0; 0]
        );
        assert_eq!(lines("// It is. No file. It is\n//\n// no\n"), [0; 0]);
    }

    #[test]
    fn tests_are_left_alone() {
        assert_eq!(lines("#[cfg(test)]\nmod tests {\n    // anew\n}\n"), [0; 0]);
        let tree = Tree::from([
            ("crates/a/tests/b.rs", "// anew"),
            ("xtask/src/c.rs", "// anew"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_crate_has_as_many_as_are_listed() {
        let found = |list: &str| {
            let tree = Tree::from([("crates/a/src/b.rs", "// Anew.\n// Anew.\n"), (LIST, list)]);
            let findings = check(&tree).into_iter();
            findings
                .map(|it| (it.line, it.is_warning))
                .collect::<Vec<_>>()
        };
        assert_eq!(found("crates/a 1\n"), [(1, false)]);
        assert_eq!(found("# none\n"), [(0, false)]);
        assert_eq!(found("crates/a 2\n"), []);
        assert_eq!(found("crates/a 3\n"), [(1, true)]);
        assert_eq!(
            found("crates/a 1\ncrates/gone 1\n"),
            [(1, false), (2, true)]
        );
    }

    #[test]
    fn the_report_shows_each_phrase() {
        let tree = Tree::from([("crates/a/src/b.rs", "// It is made anew.\n")]);
        let report = report(&tree, &["crates/a/"]);
        assert!(
            report[0].starts_with("crates/a/src/b.rs:1: \"anew\""),
            "{report:?}"
        );
    }
}
