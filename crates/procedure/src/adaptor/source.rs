//! Where the text of an adaptor comes from.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::file::read_regular;

/// Adaptors that come with the server, each with its name, its text and its tests.
const BUILTINS: &[Builtin] = &[Builtin {
    name: "turns",
    text: include_str!("../../../../deploy/adaptors/turns.luau"),
    tests: include_str!("../../../../deploy/adaptors/turns.test.luau"),
}];

/// An adaptor that comes with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Builtin {
    /// Its name, as a configuration gives it.
    pub name: &'static str,
    /// Its text in Luau.
    pub text: &'static str,
    /// Its tests in Luau.
    pub tests: &'static str,
}

impl Builtin {
    /// The one of this name.
    ///
    /// # Errors
    /// If no adaptor of this name comes with the server: which ones do.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = BUILTINS.iter().find(|one| one.name == name);
        found.copied().ok_or_else(|| {
            let names: Vec<_> = BUILTINS.iter().map(|one| one.name).collect();
            let names = names.join(", ");
            format!("no adaptor {name:?} comes with the server; these do: {names}")
        })
    }
}

/// Where the text of an adaptor comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A file, which may change while the adaptor runs.
    File(PathBuf),
    /// The server itself.
    Builtin(Builtin),
}

impl Source {
    /// The file, if the adaptor is in one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Builtin(_) => None,
        }
    }

    /// What messages call it: the last part of the path, or the name of one that is built in.
    pub(super) fn label(&self) -> String {
        match self {
            Self::File(path) => label(path),
            Self::Builtin(_) => self.to_string(),
        }
    }

    /// The text.
    ///
    /// # Errors
    /// If the file cannot be read, or is too large.
    pub(super) fn read(&self) -> Result<String, String> {
        match self {
            Self::File(path) => read(path),
            Self::Builtin(builtin) => Ok(builtin.text.to_owned()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Builtin(builtin) => write!(f, "builtin:{}", builtin.name),
        }
    }
}

/// Reads a file up to the limit of its size.
pub(super) fn read(path: &Path) -> Result<String, String> {
    read_regular(path).map_err(|reason| format!("{}: {reason}", path.display()))
}

/// What messages call a file.
pub(super) fn label(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
