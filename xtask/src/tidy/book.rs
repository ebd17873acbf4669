//! Every page below `docs/` has its place in the book.

use super::Finding;
use crate::tree::Tree;

/// The table of contents, as mdBook reads it.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks that the summary lists each page below `docs/` once, and nothing else.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(SUMMARY).unwrap_or_default();
    let mut findings = Vec::new();
    let mut listed: Vec<String> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((_, rest)) = line.split_once("](") else {
            continue;
        };
        let target = rest.split(')').next().unwrap_or_default();
        let path = format!("docs/{target}");
        let is_page = target.ends_with(".md") && !target.contains("..") && tree.contains(&path);
        let message = if !is_page {
            format!("{target} is not a page below docs/")
        } else if listed.contains(&path) {
            format!("{target} is listed twice")
        } else {
            listed.push(path);
            continue;
        };
        findings.push(Finding::new(SUMMARY, index + 1, message));
    }
    for (path, _) in tree.texts_with(&["md"]) {
        let is_page = path.starts_with("docs/") && path != SUMMARY;
        if is_page && !listed.iter().any(|listed| listed == path) {
            findings.push(Finding::new(
                path,
                0,
                format!("list this page in {SUMMARY}"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(summary: &str) -> Vec<String> {
        let tree = Tree::from([
            (SUMMARY, summary),
            ("docs/a.md", ""),
            ("docs/b/README.md", ""),
            ("README.md", ""),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_page_is_listed_once() {
        assert_eq!(
            messages("# Book\n\n- [A](a.md)\n  - [B](b/README.md)\n"),
            [""; 0]
        );
        let found = messages("- [A](a.md)\n");
        assert!(found.len() == 1 && found[0].starts_with("docs/b/README.md: list"));
    }

    #[test]
    fn a_line_that_names_no_page_or_one_twice_is_found() {
        let good = "[A](a.md)\n[B](b/README.md)\n";
        for (line, words) in [
            ("[A](a.md)", "a.md is listed twice"),
            ("[C](c.md)", "c.md is not a page"),
            ("[R](../README.md)", "../README.md is not a page"),
        ] {
            let found = messages(&format!("{good}{line}\n"));
            assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
        }
    }
}
