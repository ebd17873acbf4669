//! The files of the project, as the checks see them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// All files that belong to the project (tracked, or new and not ignored), by their path from the
/// root, with `/` between the parts. Files that are not text have no content here.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the project below `root`: what git lists or, in an unpacked archive, what is there.
    ///
    /// # Errors
    /// A sentence, when the folder cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        let mut tree = Self::default();
        for path in paths {
            // A file that was deleted but is still tracked is no longer there to be checked.
            if let Ok(bytes) = fs::read(root.join(&path)) {
                tree.files.insert(path, String::from_utf8(bytes).ok());
            }
        }
        Ok(tree)
    }

    /// Every path.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Every text file with its content.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text files with one of these extensions.
    pub(crate) fn texts_with<'a>(
        &'a self,
        extensions: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(|(path, _)| {
            path.rsplit_once('.')
                .is_some_and(|(_, extension)| extensions.contains(&extension))
        })
    }

    /// The content of one text file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is a file or a folder of that name.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Tree {
    fn from(files: [(&str, &str); N]) -> Self {
        let files = files.map(|(path, text)| (path.to_owned(), Some(text.to_owned())));
        Self {
            files: files.into(),
        }
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()?;
    let listing = String::from_utf8(output.stdout).ok()?;
    // Outside a repository, git says so and lists nothing.
    let listed = output.status.success() && !listing.is_empty();
    listed.then(|| listing.split_terminator('\0').map(str::to_owned).collect())
}

/// Folders that hold what tools made, in a project without git.
const SKIPPED: &[&str] = &[
    "target",
    "data",
    ".git",
    "node_modules",
    ".venv",
    "__pycache__",
];

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> Result<(), String> {
    let entries = fs::read_dir(root.join(folder));
    for entry in entries.map_err(|error| format!("read folder {folder:?}: {error}"))? {
        let entry = entry.map_err(|error| format!("read folder {folder:?}: {error}"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        if !entry.path().is_dir() {
            paths.push(path);
        } else if !SKIPPED.contains(&name.as_str()) {
            walk(root, &path, paths)?;
        }
    }
    Ok(())
}
