//! What tools make does not belong into the repository.

use super::Finding;
use crate::tree::Tree;

const FOLDERS: &[&str] = &["node_modules", "__pycache__", ".venv", "coverage"];
const EXTENSIONS: &[&str] = &[
    "a", "class", "dll", "dylib", "exe", "o", "profraw", "pyc", "rlib", "rmeta", "so", "log",
];

/// Finds build outputs among the project's files.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let is_output = |path: &str| {
        let extension = path
            .rsplit('/')
            .next()
            .and_then(|name| name.rsplit_once('.'));
        // `target` is a good name for a module, so cargo's folder is known by what it holds.
        let is_cargo = path.starts_with("target/")
            || ["/target/debug/", "/target/release/"]
                .iter()
                .any(|part| path.contains(part));
        is_cargo
            || path.split('/').any(|part| FOLDERS.contains(&part))
            || extension.is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
    };
    let outputs = tree.paths().filter(|path| is_output(path));
    outputs
        .map(|path| Finding::new(path, 0, "this is made by a tool; ignore it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_found() {
        let tree = Tree::from([
            ("crates/x/target/debug/x.d", ""),
            ("lib/libx.so", ""),
            ("tests/__pycache__/a.py", ""),
            ("src/target/x.rs", ""),
            ("docs/a.md", ""),
        ]);
        let found: Vec<String> = check(&tree)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(
            found,
            [
                "crates/x/target/debug/x.d",
                "lib/libx.so",
                "tests/__pycache__/a.py"
            ]
        );
    }
}
