//! The lower layers do no I/O: the compiler proves it, given these two attributes.

use super::Finding;
use super::layers::{LISTING, read};
use crate::tree::Tree;

/// Checks that every crate of layers 0 and 1 is `no_std` and forbids unsafe code.
pub(crate) fn sans_io(tree: &Tree) -> Vec<Finding> {
    let listing = tree.text(LISTING).unwrap_or_default();
    let mut findings = Vec::new();
    // A listing that cannot be read is the layers' finding.
    for room in read(listing)
        .unwrap_or_default()
        .iter()
        .filter(|room| room.layer <= 1)
    {
        let path = format!("crates/{}/src/lib.rs", room.name);
        let Some(text) = tree.text(&path) else {
            continue;
        };
        let has = |wanted: &str| list_without_comments(text).any(|line| line == wanted);
        if !has("#![no_std]") {
            let message = "layers 0 and 1 do no I/O; begin with #![no_std]";
            findings.push(Finding::new(&path, 0, message));
        }
        if !has("#![forbid(unsafe_code)]") {
            let message = "layers 0 and 1 have no unsafe code; add #![forbid(unsafe_code)]";
            findings.push(Finding::new(&path, 0, message));
        }
        let std = text
            .lines()
            .position(|line| line.trim() == "extern crate std;");
        let test_only = std.is_some_and(|index| {
            index > 0
                && text
                    .lines()
                    .nth(index - 1)
                    .is_some_and(|line| line.contains("cfg(test)"))
        });
        if let (Some(index), false) = (std, test_only) {
            let message = "std comes in for tests only: put #[cfg(test)] above";
            findings.push(Finding::new(&path, index + 1, message));
        }
    }
    findings
}

fn list_without_comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(layer: &str, text: &str) -> usize {
        let listing = format!("{layer} topic:\n");
        sans_io(&Tree::from([
            (LISTING, &*listing),
            ("crates/topic/src/lib.rs", text),
        ]))
        .len()
    }

    #[test]
    fn low_layers_have_both_attributes() {
        assert_eq!(
            findings("L0", "//! x\n#![no_std]\n#![forbid(unsafe_code)]\n"),
            0
        );
        assert_eq!(
            findings("L0", "// #![no_std]\n#![forbid(unsafe_code)]\n"),
            1
        );
        assert_eq!(findings("L1", ""), 2);
        assert_eq!(findings("L2", ""), 0);
    }

    #[test]
    fn std_comes_in_for_tests_only() {
        let head = "#![no_std]\n#![forbid(unsafe_code)]\n";
        assert_eq!(findings("L0", &format!("{head}extern crate std;\n")), 1);
        assert_eq!(
            findings("L0", &format!("{head}#[cfg(test)]\nextern crate std;\n")),
            0
        );
    }
}
