//! The commands of the README are run by a test, so that they keep working.
//!
//! Each shell block of the README has a comment on the line above it (an empty line may stand
//! between): `<!-- tour -->` says that the black-box test of the tour runs it, and
//! `<!-- not run: REASON -->` says why it does not.

use super::Finding;
use crate::tree::Tree;

const README: &str = "README.md";

/// Checks that each shell block says whether the tour runs it, and that each mark has its block.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let lines: Vec<&str> = tree
        .text(README)
        .unwrap_or_default()
        .lines()
        .map(str::trim)
        .collect();
    let mut findings = Vec::new();
    let mut mark = None;
    let mut in_fence = false;
    for (index, line) in lines.iter().enumerate() {
        let line_number = index + 1;
        if in_fence {
            in_fence = *line != "```";
            continue;
        }
        in_fence = line.starts_with("```");
        let is_shell = matches!(
            line.strip_prefix("```"),
            Some("sh" | "bash" | "shell" | "console")
        );
        match (is_mark(line), is_shell) {
            (true, _) => mark = Some(line_number),
            (false, true) if mark.take().is_none() => {
                let message = "put <!-- tour --> or <!-- not run: REASON --> above this block";
                findings.push(Finding::new(README, line_number, message));
            }
            (false, false) if !line.is_empty() => {
                if let Some(marked) = mark.take() {
                    let message = "no shell block follows this mark";
                    findings.push(Finding::new(README, marked, message));
                }
            }
            _ => {}
        }
    }
    findings
}

fn is_mark(line: &str) -> bool {
    line == "<!-- tour -->"
        || line
            .strip_prefix("<!-- not run: ")
            .is_some_and(|reason| reason.len() > " -->".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Tree::from([(README, text)]))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn shell_blocks_are_marked() {
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
}
