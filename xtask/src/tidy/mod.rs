//! The project's own rules. Each check is a function from the files to what it finds.

mod book;
mod crates;
pub(crate) mod english;
mod hub;
pub(crate) mod layers;
mod links;
mod outputs;
mod phrases;
mod registries;
mod requirements;
mod sizes;
mod tour;
mod tuples;
mod unsafety;
mod words;

use std::fmt;
use std::path::Path;

use crate::tree::Tree;

/// Something that breaks a rule, or that soon will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub(crate) line: usize,
    pub(crate) message: String,
    /// It is worth a look but does not fail the check.
    pub(crate) is_warning: bool,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
            is_warning: false,
        }
    }

    pub(crate) fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            ..Self::new(path, line, message)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_warning { "warning: " } else { "" };
        match self.line {
            0 => write!(f, "{mark}{}: {}", self.path, self.message),
            line => write!(f, "{mark}{}:{line}: {}", self.path, self.message),
        }
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    sizes::file_lengths,
    sizes::function_lengths,
    sizes::line_widths,
    words::banned,
    layers::check,
    crates::sans_io,
    hub::folders,
    hub::type_sizes,
    tuples::parameters,
    unsafety::check,
    outputs::check,
    links::check,
    registries::check,
    requirements::check,
    tour::check,
    book::check,
    english::check,
    phrases::check,
    crate::events::check,
];

/// Runs all checks and prints what they find.
///
/// # Errors
/// A closing line, when a rule is broken.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let tree = Tree::read(root)?;
    let findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    for finding in &findings {
        eprintln!("{finding}");
    }
    let (warnings, failures): (Vec<_>, Vec<_>) = findings.iter().partition(|f| f.is_warning);
    let (warnings, failures) = (warnings.len(), failures.len());
    if failures == 0 {
        let files = tree.paths().count();
        Ok(format!(
            "tidy: {} checks over {files} files, {warnings} warnings",
            CHECKS.len()
        ))
    } else {
        Err(format!(
            "tidy: {failures} rules are broken, {warnings} warnings"
        ))
    }
}

/// The lines of a list file that hold something, split into words; `#` begins a comment.
pub(crate) fn list(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text.lines().enumerate().map(|(index, line)| {
        let content = line.split('#').next().unwrap_or_default();
        (index + 1, content.split_whitespace().collect::<Vec<_>>())
    });
    lines.filter(|(_, words)| !words.is_empty())
}

/// Whether a file holds tests only.
pub(crate) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.split('/')
        .any(|part| part == "tests" || part == "fuzz")
        || name == "tests.rs"
}
