//! Leaves out the rules on which lasting sessions stand, one at a time, in a copy of the project,
//! and lets the simulation of the hub find that: a check of the check.
//!
//! Each rule is an entry of `xtask/mutations.toml`: a text of one file, and what stands there
//! instead. All tests named there have to pass without any of them, and one has to fail with each.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::tree::Tree;

/// Seeds in which the simulation has to find each.
const SEEDS: u32 = 100;
const MUTATIONS: &str = "xtask/mutations.toml";

/// A rule that can be left out.
#[derive(Debug, PartialEq, Eq)]
struct Mutation {
    name: String,
    /// What is left out, for people.
    rule: String,
    file: String,
    text: String,
    instead: String,
}

/// Tries those with these names, or all.
///
/// # Errors
/// If the simulation finds one of them in no seed or fails without any, or a name is unknown.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<String, String> {
    let tree = Tree::read(root)?;
    let (tests, mutations) = read(&tree)?;
    let mutations = chosen(mutations, names)?;
    let folder = root.join("target/mutants");
    let copy = Copy::of(root, &tree, &folder)?;
    eprintln!("nothing left out: {SEEDS} seeds have to pass (the first build takes minutes)");
    let output = copy.test(&tests)?;
    if !output.status.success() {
        return Err(format!(
            "the simulation fails without any:\n{}",
            text_of(&output)
        ));
    }
    let (mut found, mut missed) = (Vec::new(), Vec::new());
    for mutation in &mutations {
        eprintln!("{}: without this: {}", mutation.name, mutation.rule);
        copy.apply(&tree, mutation)?;
        let output = copy.test(&tests);
        copy.restore(&tree, mutation)?;
        match judge(&mutation.name, &output?) {
            Ok(seed) => {
                eprintln!("{}: found by seed {seed}", mutation.name);
                found.push(format!("{} by seed {seed}", mutation.name));
            }
            Err(why) => missed.push(why),
        }
    }
    match missed.is_empty() {
        true => Ok(format!("each was found: {}", found.join(", "))),
        false => Err(missed.join("\n")),
    }
}

/// The tests, and all mutations.
fn read(tree: &Tree) -> Result<(Vec<String>, Vec<Mutation>), String> {
    let text = tree
        .text(MUTATIONS)
        .ok_or_else(|| format!("{MUTATIONS} is missing"))?;
    let table: toml::Table = text.parse().map_err(|e| format!("{MUTATIONS}: {e}"))?;
    let list = |key: &str| table.get(key).and_then(toml::Value::as_array);
    let tests = list("tests").ok_or_else(|| format!("{MUTATIONS}: no tests"))?;
    let tests = tests.iter().filter_map(toml::Value::as_str).map(Into::into);
    let entries = list("mutation").ok_or_else(|| format!("{MUTATIONS}: no [[mutation]]"))?;
    let mutations = entries.iter().map(|entry| {
        let field = |key: &str| {
            let text = entry.get(key).and_then(toml::Value::as_str);
            let missing = || format!("{MUTATIONS}: a [[mutation]] without {key}");
            text.map(str::to_owned).ok_or_else(missing)
        };
        Ok(Mutation {
            name: field("name")?,
            rule: field("rule")?,
            file: field("file")?,
            text: field("text")?,
            instead: field("instead")?,
        })
    });
    Ok((tests.collect(), mutations.collect::<Result<_, String>>()?))
}

fn chosen(mutations: Vec<Mutation>, names: &[&str]) -> Result<Vec<Mutation>, String> {
    let known: Vec<String> = mutations.iter().map(|it| it.name.clone()).collect();
    let is_unknown = |name: &&&str| !known.iter().any(|it| it == *name);
    if let Some(name) = names.iter().find(is_unknown) {
        let known = known.join(", ");
        return Err(format!("no mutation is called {name:?}; there are {known}"));
    }
    let is_chosen = |it: &Mutation| names.is_empty() || names.contains(&&*it.name);
    Ok(mutations.into_iter().filter(is_chosen).collect())
}

/// The content of the file without the rule.
fn mutated(tree: &Tree, mutation: &Mutation) -> Result<String, String> {
    let Mutation {
        name, file, text, ..
    } = mutation;
    let before = tree
        .text(file)
        .ok_or_else(|| format!("{name}: {file} is missing"))?;
    match before.matches(text.as_str()).count() {
        1 => Ok(before.replacen(text.as_str(), &mutation.instead, 1)),
        count => Err(format!(
            "{name}: its text is {count} times in {file}, not once; correct {MUTATIONS}"
        )),
    }
}

/// The seed that has found it.
fn judge(name: &str, output: &Output) -> Result<u32, String> {
    let said = text_of(output);
    let seed = said.split_once("the seed was ").and_then(|(_, rest)| {
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    match (output.status.success(), seed) {
        (true, _) => Err(format!("{name}: none of {SEEDS} seeds has found it")),
        (false, Some(seed)) => Ok(seed),
        (false, None) => Err(format!(
            "{name}: it does not compile, or fails otherwise:\n{said}"
        )),
    }
}

fn text_of(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}{err}")
}

/// A copy of the project, in which files may change.
struct Copy {
    folder: PathBuf,
    build: PathBuf,
}

impl Copy {
    /// Brings the copy up to date. Files that are the same stay, so that little is compiled again.
    fn of(root: &Path, tree: &Tree, folder: &Path) -> Result<Self, String> {
        let copy = Self {
            folder: folder.join("tree"),
            build: folder.join("build"),
        };
        let paths: BTreeSet<&str> = tree.paths().collect();
        for path in &paths {
            let content = fs::read(root.join(path)).map_err(|e| format!("read {path}: {e}"))?;
            copy.write(path, &content)?;
        }
        Ok(copy)
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), String> {
        let to = self.folder.join(path);
        if fs::read(&to).is_ok_and(|before| before == content) {
            return Ok(());
        }
        let folder = to.parent().unwrap_or(&self.folder);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&to, content));
        written.map_err(|e| format!("write {}: {e}", to.display()))
    }

    fn apply(&self, tree: &Tree, mutation: &Mutation) -> Result<(), String> {
        self.write(&mutation.file, mutated(tree, mutation)?.as_bytes())
    }

    fn restore(&self, tree: &Tree, mutation: &Mutation) -> Result<(), String> {
        let before = tree.text(&mutation.file).unwrap_or_default();
        self.write(&mutation.file, before.as_bytes())
    }

    /// Runs the simulation.
    fn test(&self, tests: &[String]) -> Result<Output, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "--package", "stentor-hub", "--test", "hub", "--"]);
        command.args(tests).current_dir(&self.folder);
        command.env("CARGO_TARGET_DIR", &self.build);
        command.env("STENTOR_SEEDS", SEEDS.to_string());
        // The manifest of this program is another one.
        command.env_remove("CARGO_MANIFEST_DIR");
        for name in ["STENTOR_SEED", "STENTOR_SOAK"] {
            command.env_remove(name);
        }
        let output = command.output();
        output.map_err(|e| format!("cannot run {command:?}: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The author of a change to one of these lines sees that a mutation is about it.
    #[test]
    fn each_mutation_has_its_text_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::read(&root).unwrap();
        let (tests, mutations) = read(&tree).unwrap();
        assert!(!tests.is_empty());
        let names: BTreeSet<&str> = mutations.iter().map(|it| &*it.name).collect();
        assert_eq!(names.len(), mutations.len(), "{names:?}");
        for mutation in &mutations {
            let after = mutated(&tree, mutation).unwrap();
            assert_ne!(
                Some(&*after),
                tree.text(&mutation.file),
                "{}",
                mutation.name
            );
        }
    }

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_told() {
        let tree = Tree::from([("a.rs", "x x y")]);
        let mutation = |text: &str| Mutation {
            name: "m".into(),
            rule: String::new(),
            file: "a.rs".into(),
            text: text.into(),
            instead: "z".into(),
        };
        assert_eq!(mutated(&tree, &mutation("y")), Ok("x x z".to_owned()));
        for (text, count) in [("x", "2 times"), ("v", "0 times")] {
            let told = mutated(&tree, &mutation(text)).unwrap_err();
            assert!(told.contains(count), "{told}");
        }
        let told = chosen(vec![mutation("y")], &["other"]).unwrap_err();
        assert_eq!(told, "no mutation is called \"other\"; there are m");
    }
}
