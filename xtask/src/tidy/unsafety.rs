//! Unsafe code stands in named files only, and says why it is sound.

use std::collections::BTreeMap;

use super::{Finding, list};
use crate::masked::Masked;
use crate::tree::Tree;

const LISTING: &str = "xtask/unsafe.txt";
/// How far above an unsafe block its comment may begin.
const COMMENT_LINES: usize = 12;

/// Checks the files with unsafe code against the listing, and each block for its comment.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = list(tree.text(LISTING).unwrap_or_default());
    let mut listed: BTreeMap<&str, usize> = lines.map(|(line, words)| (words[0], line)).collect();
    for (path, text) in tree.texts_with(&["rs"]) {
        let masked = Masked::new(text);
        let original: Vec<&str> = text.lines().collect();
        let mut places = masked.words("unsafe").peekable();
        let is_listed = listed.remove(path).is_some();
        if let (Some(first), false) = (places.peek(), is_listed) {
            let message = format!("unsafe code stands only in the files that {LISTING} names");
            findings.push(Finding::new(path, masked.line(*first), message));
        }
        if let (None, true) = (places.peek(), is_listed) {
            let message = format!("{path} has no unsafe code; remove it");
            findings.push(Finding::new(LISTING, 0, message));
        }
        for at in places {
            let line = masked.line(at);
            let from = line.saturating_sub(1 + COMMENT_LINES);
            let is_explained = original[from..line]
                .iter()
                .any(|line| line.contains("SAFETY:") || line.contains("# Safety"));
            if !is_explained {
                let message = "say above it why this is sound (// SAFETY: …)";
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    for (path, line) in listed {
        findings.push(Finding::new(
            LISTING,
            line,
            format!("there is no file {path}; remove it"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(listing: &str, source: &str) -> String {
        let tree = Tree::from([(LISTING, listing), ("a.rs", source)]);
        check(&tree)
            .iter()
            .map(|finding| format!("{finding}\n"))
            .collect()
    }

    #[test]
    fn unsafe_code_is_listed_and_explained() {
        let good = "// SAFETY: it is fine.\nlet x = unsafe { y };\n";
        assert_eq!(messages("a.rs why\n", good), "");
        assert!(messages("", good).contains("a.rs:2: unsafe code stands only"));
        assert!(messages("a.rs", "let x = unsafe { y };").contains("say above it"));
        assert_eq!(
            messages(
                "",
                "// unsafe\n#![deny(unsafe_code)]\nlet x = \"unsafe\";\n"
            ),
            ""
        );
    }

    #[test]
    fn the_listing_has_no_dead_lines() {
        assert!(messages("a.rs", "").contains("has no unsafe code; remove it"));
        assert!(messages("b.rs", "").contains("xtask/unsafe.txt:1: there is no file b.rs"));
    }
}
