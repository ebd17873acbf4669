//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of the configuration file, counted from 1.
    File(PathBuf, usize),
    /// The configuration file as a whole.
    WholeFile(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A command line flag, without its dashes.
    Flag(&'static str),
    /// Nowhere: the default holds.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::WholeFile(path) => path.display().fmt(f),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Default => f.write_str("configuration"),
        }
    }
}

/// One thing that is wrong: where, what, and how to correct it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub origin: Origin,
    /// What is wrong, and the remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// Everything that is wrong with a configuration: at least one problem, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The problems in the order in which they were found.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
