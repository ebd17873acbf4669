//! No file names a registry's host: which one is used is the business of each machine.

use super::Finding;
use crate::tree::Tree;

// Put together here, so that this file does not break its own rule.
const HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("registry.", "yarnpkg.com"),
    concat!("pypi.", "org"),
    concat!("files.", "pythonhosted.org"),
    concat!("proxy.", "golang.org"),
    concat!("sum.", "golang.org"),
    concat!("registry-1.", "docker.io"),
];
const CANONICAL: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Finds hosts of registries, and lock files that say where packages came from.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let is_npm = path.ends_with("package-lock.json");
        let is_cargo = path.ends_with("Cargo.lock");
        for (index, line) in text.lines().enumerate() {
            let host = HOSTS.iter().find(|host| line.contains(**host));
            let source = line.trim().strip_prefix("source = ").filter(|_| is_cargo);
            let message = if let Some(host) = host {
                format!("this names the registry {host}; leave it to each machine's settings")
            } else if is_npm && line.contains("\"resolved\": \"http") {
                "this names a registry; run npm with --omit-lockfile-registry-resolved".to_owned()
            } else if source.is_some_and(|source| source.trim_matches('"') != CANONICAL) {
                "a dependency comes from elsewhere than the usual registry".to_owned()
            } else {
                continue;
            };
            findings.push(Finding::new(path, index + 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_sources_are_found() {
        let host = format!("a\nhttps://{}/x\n", HOSTS[2]);
        let lock = format!("source = \"{CANONICAL}\"\nsource = \"git+https://example.org/x\"\n");
        let tree = Tree::from([
            ("docs/a.md", &*host),
            ("Cargo.lock", &*lock),
            (
                "tests/package-lock.json",
                "\"resolved\": \"https://mirror.example/x\"\n",
            ),
            ("x.toml", "source = \"anything\"\n"),
        ]);
        let found: Vec<(String, usize)> = check(&tree)
            .into_iter()
            .map(|finding| (finding.path, finding.line))
            .collect();
        let expected = [
            ("Cargo.lock", 2),
            ("docs/a.md", 2),
            ("tests/package-lock.json", 1),
        ];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }
}
