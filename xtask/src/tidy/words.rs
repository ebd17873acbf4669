//! Words that do not merge, each with what to do instead.

use super::{Finding, is_test_file};
use crate::masked::Masked;
use crate::tree::Tree;

/// Where a banned word counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Anywhere in a file, comments included.
    Text,
    /// In Rust code, outside comments and literals.
    Code,
    /// In code of tests, Rust or Python.
    Tests,
}

// The words are put together here, so that this file does not break its own rule.
const BANNED: &[(&str, Place, &str)] = &[
    (
        concat!("FIX", "ME"),
        Place::Text,
        "mend it, or open an issue",
    ),
    (concat!("TO", "DO"), Place::Text, "do it, or open an issue"),
    (concat!("XX", "X"), Place::Text, "say what is meant"),
    (
        "#[ignore",
        Place::Code,
        "a test runs or is deleted; assert today's behaviour",
    ),
    ("todo!", Place::Code, "write it"),
    ("unimplemented!", Place::Code, "write it"),
    ("dbg!", Place::Code, "use tracing"),
    ("set_var(", Place::Code, "hand the environment in"),
    (
        "sleep(",
        Place::Tests,
        "wait for the event itself, or use the virtual clock",
    ),
];

/// Finds banned words.
pub(crate) fn banned(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let extensions = &[
        "rs", "py", "js", "mjs", "ts", "sh", "toml", "c", "yml", "service",
    ];
    for (path, text) in tree.texts_with(extensions) {
        let is_rust = path.ends_with(".rs");
        let masked = Masked::new(if is_rust { text } else { "" });
        let code = if is_rust { masked.code() } else { text };
        let mut test_lines = masked.test_regions();
        if is_test_file(path) {
            test_lines.push((1, usize::MAX));
        }
        let is_test = |line: usize| test_lines.iter().any(|(a, b)| (*a..=*b).contains(&line));
        for (word, place, instead) in BANNED {
            let searched = if *place == Place::Text { text } else { code };
            if *place == Place::Code && !is_rust {
                continue;
            }
            for (index, line) in searched.lines().enumerate() {
                let line_number = index + 1;
                let counts = *place != Place::Tests || is_test(line_number);
                if counts && has_word(line, word) {
                    let message = format!("{word:?} does not merge: {instead}");
                    findings.push(Finding::new(path, line_number, message));
                }
            }
        }
    }
    findings
}

/// Whether a line has the word, not as the tail or head of another.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let ends_open = word.ends_with(is_part);
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].ends_with(is_part) && word.starts_with(is_part);
        let after = ends_open && line[at + word.len()..].starts_with(is_part);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        banned(&Tree::from([(path, text)]))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn notes_to_self_are_found_everywhere() {
        let note = format!("a\n// {}: later\n{}S", BANNED[0].0, BANNED[1].0);
        assert_eq!(lines("a.rs", &note), [2]);
        assert_eq!(lines("a.py", &note), [2]);
        assert_eq!(lines("a.md", &note), [0; 0]);
    }

    #[test]
    fn macros_count_in_code_only() {
        assert_eq!(
            lines("a.rs", "// todo!\nlet x = \"todo!\";\ntodo!()\n"),
            [3]
        );
        assert_eq!(lines("a.rs", "#[ignore]\n#[ignore = \"slow\"]\n"), [1, 2]);
    }

    #[test]
    fn tests_do_not_sleep() {
        let text =
            "thread::sleep(x);\n#[cfg(test)]\nmod tests {\n    sleep(x);\n    no_sleep(x);\n}\n";
        assert_eq!(lines("src/a.rs", text), [4]);
        assert_eq!(lines("tests/a.rs", text), [1, 4]);
        assert_eq!(lines("tests/a.py", "time.sleep(1)\n"), [1]);
    }
}
