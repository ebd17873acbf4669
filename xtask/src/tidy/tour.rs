//! Commands and files that pages show are run or checked, so that they keep working.
//!
//! Each code block says by a mark above it what becomes of it; [`crate::blocks`] lists the marks. A
//! black-box test runs the blocks of the README, and `cargo xtask pages` those of the pages below
//! `docs/`.

use super::Finding;
use crate::blocks::{Mark, blocks};
use crate::tree::Tree;

const README: &str = "README.md";

/// Checks that each code block says what becomes of it, and that each mark has its block.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_with(&["md"]) {
        if path == README || path.starts_with("docs/") {
            page(tree, path, text, &mut findings);
        }
    }
    findings
}

/// Whether a file of the project has these lines, one below the other.
fn has_part(tree: &Tree, path: &str, code: &str) -> bool {
    let code: Vec<&str> = code.lines().map(str::trim).collect();
    let file: Vec<&str> = tree.text(path).unwrap_or_default().lines().collect();
    let is_there = |part: &[&str]| part.iter().zip(&code).all(|(a, b)| a.trim() == *b);
    !code.is_empty() && file.windows(code.len()).any(is_there)
}

fn page(tree: &Tree, path: &str, text: &str, findings: &mut Vec<Finding>) {
    let (blocks, stray) = blocks(text);
    let stray = stray
        .into_iter()
        .map(|line| (line, "no code block follows this mark"));
    let mut messages: Vec<(usize, &str)> = stray.collect();
    let mut is_run = false;
    for block in &blocks {
        let needs_mark = block.is_shell() || (path != README && block.is_code());
        let message = match &block.mark {
            None if needs_mark => {
                Some("put <!-- tour -->, <!-- file: NAME --> or <!-- not run: REASON --> above it")
            }
            Some(Mark::Tour | Mark::Server) if !block.is_shell() => {
                Some("only shell blocks can be run")
            }
            Some(Mark::PartOf(file)) if !has_part(tree, file, &block.code) => {
                Some("the file that the mark names does not have these lines")
            }
            Some(Mark::Output) if !is_run => Some("no block that is run precedes this output"),
            Some(Mark::File(_) | Mark::Server) if path == README => {
                Some("the README's tour writes no files and starts its own server")
            }
            _ => None,
        };
        messages.extend(message.map(|message| (block.line, message)));
        is_run = block.is_run();
    }
    messages.sort_unstable();
    findings.extend(
        messages
            .into_iter()
            .map(|(line, message)| Finding::new(path, line, message)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::from([(path, text)]))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn shell_blocks_of_the_readme_are_marked() {
        let lines = |text| lines(README, text);
        assert_eq!(lines("<!-- tour -->\n```sh\nx\n```\n"), [0; 0]);
        assert_eq!(
            lines("<!-- not run: it needs root -->\n\n```sh\nx\n```\n"),
            [0; 0]
        );
        assert_eq!(lines("```sh\nx\n```\n```toml\nx\n```\n"), [1]);
        assert_eq!(lines("<!-- not run: -->\n```sh\nx\n```\n"), [2]);
        assert_eq!(lines("<!-- tour -->\ntext\n```sh\nx\n```\n"), [1, 3]);
        assert_eq!(lines("<!-- tour -->\n```sh\nx\n```\n```sh\ny\n```\n"), [5]);
    }

    #[test]
    fn code_of_the_book_is_marked() {
        let lines = |text| lines("docs/a.md", text);
        assert_eq!(lines("```toml\nx\n```\n```text\nx\n```\n"), [1]);
        assert_eq!(lines("<!-- file: a.toml -->\n```toml\nx\n```\n"), [0; 0]);
        assert_eq!(lines("<!-- tour -->\n```python\nx\n```\n"), [2]);
        assert_eq!(lines("<!-- output -->\n```text\nx\n```\n"), [2]);
        let output = "<!-- tour -->\n```sh\nx\n```\n<!-- output -->\n```text\nx\n```\n";
        assert_eq!(lines(output), [0; 0]);
    }

    #[test]
    fn parts_of_files_are_as_in_the_file() {
        let found = |code: &str| {
            let text = format!("<!-- part of: docs/x.py -->\n```python\n{code}\n```\n");
            let tree = Tree::from([("docs/a.md", &*text), ("docs/x.py", "a\n  b\n    c\nd\n")]);
            check(&tree).len()
        };
        assert_eq!(found("b\n  c"), 0);
        assert_eq!(found("b\nd"), 1);
        assert_eq!(found("d\ne"), 1);
        let tree = Tree::from([("docs/a.md", "<!-- part of: x -->\n```python\na\n```\n")]);
        assert_eq!(check(&tree).len(), 1);
    }
}
