//! Checks that the hub compiles without any one of its services, and without all of them.
//!
//! Each service is a feature of the crate. One that names another, or a core that names one, does
//! not compile where that one is left out.

use std::path::Path;
use std::process::Command;

use crate::tree::Tree;

const MANIFEST: &str = "crates/hub/Cargo.toml";
const PACKAGE: &str = "stentor-hub";

/// # Errors
/// What the compiler says, with the service that is left out, or a manifest that cannot be read.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let tree = Tree::read(root)?;
    let services = services(tree.text(MANIFEST).unwrap_or_default())?;
    for (left_out, features) in selections(&services) {
        check(root, &features).map_err(|said| format!("{PACKAGE} without {left_out}:\n{said}"))?;
    }
    let names = services.join(", ");
    Ok(format!("{PACKAGE} compiles without any one of {names}"))
}

/// The services of a manifest: its default features.
fn services(manifest: &str) -> Result<Vec<String>, String> {
    let manifest: toml::Table = manifest
        .parse()
        .map_err(|error| format!("{MANIFEST}: {error}"))?;
    let features = manifest.get("features").and_then(toml::Value::as_table);
    let features = features.ok_or_else(|| format!("{MANIFEST} has no features"))?;
    let default = features.get("default").and_then(toml::Value::as_array);
    let default = default.into_iter().flatten().filter_map(|it| it.as_str());
    let default: Vec<String> = default.map(str::to_owned).collect();
    let others = features.keys().filter(|name| *name != "default");
    match others.filter(|name| !default.contains(name)).count() {
        0 if !default.is_empty() => Ok(default),
        _ => Err(format!(
            "{MANIFEST}: each feature is a service and a default"
        )),
    }
}

/// What is left out, and the features that stay: each alone, and all.
fn selections(services: &[String]) -> Vec<(String, String)> {
    let without = |out: &String| {
        let rest = services.iter().filter(|name| *name != out);
        let rest: Vec<&str> = rest.map(String::as_str).collect();
        (out.clone(), rest.join(","))
    };
    let mut all: Vec<_> = services.iter().map(without).collect();
    all.push(("all of them".to_owned(), String::new()));
    all
}

/// Compiles with these features. Nothing may be said, since warnings count.
fn check(root: &Path, features: &str) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["check", "--quiet"]);
    command.args(["--package", PACKAGE, "--no-default-features"]);
    command.args(["--features", features]);
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() && said.trim().is_empty() {
        return Ok(());
    }
    Err(said.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_is_left_out_once_and_all_at_the_end() {
        let manifest = "[features]\ndefault = [\"a\", \"b\", \"c\"]\na = []\nb = []\nc = []\n";
        let selections = selections(&services(manifest).unwrap());
        let features: Vec<&str> = selections.iter().map(|(_, rest)| rest.as_str()).collect();
        assert_eq!(features, ["b,c", "a,c", "a,b", ""]);
    }

    #[test]
    fn a_feature_that_is_no_default_is_refused() {
        let manifest = "[features]\ndefault = [\"a\"]\na = []\nb = []\n";
        assert!(services(manifest).is_err());
        assert!(services("[package]\n").is_err());
    }
}
