//! Which crate may use which: the layers, and the golden listing of who uses whom.

use std::collections::BTreeSet;

use super::{Finding, list};
use crate::tree::Tree;

/// The listing: one crate per line, in the order of the layers, with the crates of the workspace
/// that it uses.
pub(crate) const LISTING: &str = "xtask/layers.txt";

/// A line of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) layer: u8,
    pub(crate) name: String,
    pub(crate) uses: BTreeSet<String>,
    line: usize,
}

/// Reads the listing.
///
/// # Errors
/// The line that cannot be read.
pub(crate) fn read(text: &str) -> Result<Vec<Room>, usize> {
    let rooms = list(text).map(|(line, words)| match words.as_slice() {
        [layer, name, uses @ ..] => {
            let layer = layer
                .strip_prefix('L')
                .and_then(|number| number.parse().ok());
            let name = name.trim_end_matches(':').to_owned();
            let uses = uses.iter().map(|name| name.to_string()).collect();
            layer
                .map(|layer| Room {
                    layer,
                    name,
                    uses,
                    line,
                })
                .ok_or(line)
        }
        _ => Err(line),
    });
    rooms.collect()
}

/// The crates of the workspace that a manifest uses, outside tests.
pub(crate) fn used_by(manifest: &str) -> Option<BTreeSet<String>> {
    let manifest: toml::Table = manifest.parse().ok()?;
    let mut tables = vec![&manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    let sections = ["dependencies", "build-dependencies"];
    let dependencies = tables.into_iter().flat_map(|table| {
        sections
            .iter()
            .filter_map(|name| table.get(*name)?.as_table())
    });
    let names = dependencies.flat_map(toml::Table::keys);
    Some(
        names
            .filter_map(|name| name.strip_prefix("stentor-").map(str::to_owned))
            .collect(),
    )
}

/// The crates in `crates/` with the text of their manifests.
pub(crate) fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts().filter_map(|(path, text)| {
        let folder = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!folder.contains('/')).then_some((folder, text))
    })
}

/// Checks that the manifests agree with the listing, and the listing with the rule: a crate uses
/// lower layers and, in its own, those listed above it.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rooms = match read(tree.text(LISTING).unwrap_or_default()) {
        Ok(rooms) => rooms,
        Err(line) => {
            return vec![Finding::new(
                LISTING,
                line,
                "write: L0 crate: crates it uses",
            )];
        }
    };
    let mut findings = Vec::new();
    for (index, room) in rooms.iter().enumerate() {
        let may_use = |used: &String| {
            rooms
                .iter()
                .position(|other| other.name == *used)
                .is_some_and(|place| {
                    rooms[place].layer < room.layer
                        || (rooms[place].layer == room.layer && place < index)
                })
        };
        for used in room.uses.iter().filter(|used| !may_use(used)) {
            let message = format!("{} (L{}) may not use {used}", room.name, room.layer);
            findings.push(Finding::new(LISTING, room.line, message));
        }
        if !manifests(tree).any(|(folder, _)| folder == room.name) {
            let message = format!("there is no crate {}; remove it", room.name);
            findings.push(Finding::new(LISTING, room.line, message));
        }
    }
    for (folder, manifest) in manifests(tree) {
        let path = format!("crates/{folder}/Cargo.toml");
        if !manifest.contains(&format!("name = \"stentor-{folder}\"")) {
            let message = format!("the package of this folder is called stentor-{folder}");
            findings.push(Finding::new(&path, 0, message));
        }
        match (
            rooms.iter().find(|room| room.name == folder),
            used_by(manifest),
        ) {
            (_, None) => findings.push(Finding::new(&path, 0, "this is not valid TOML")),
            (None, _) => {
                let message = format!("give the new crate its layer in {LISTING}");
                findings.push(Finding::new(&path, 0, message));
            }
            (Some(room), Some(uses)) if room.uses != uses => {
                let message = format!(
                    "the crates it uses have changed; run `cargo xtask gen`, and give {LISTING} \
                     a look in the review"
                );
                findings.push(Finding::new(&path, 0, message));
            }
            (Some(_), Some(_)) => {}
        }
    }
    findings
}

/// The listing with its crates brought up to date; layers, order and comments stay.
pub(crate) fn refreshed(tree: &Tree) -> String {
    let mut out = String::new();
    for line in tree.text(LISTING).unwrap_or_default().lines() {
        let room = read(line).ok().and_then(|mut rooms| rooms.pop());
        let uses = room.as_ref().and_then(|room| {
            let (_, manifest) = manifests(tree).find(|(folder, _)| *folder == room.name)?;
            used_by(manifest)
        });
        match (room, uses) {
            (Some(room), Some(uses)) => {
                let uses: Vec<String> = uses.into_iter().collect();
                let line = format!("L{} {}: {}", room.layer, room.name, uses.join(" "));
                out.push_str(line.trim_end());
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str =
        "[package]\nname = \"stentor-topic\"\n[dev-dependencies]\nstentor-hub = 1\n";
    const HUB: &str = "[package]\nname = \"stentor-hub\"\n[dependencies]\nserde = \"1\"\n\
                       stentor-topic.workspace = true\n";

    fn messages(listing: &str, topic: &str, hub: &str) -> String {
        let tree = Tree::from([
            (LISTING, listing),
            ("crates/topic/Cargo.toml", topic),
            ("crates/hub/Cargo.toml", hub),
        ]);
        check(&tree)
            .iter()
            .map(|finding| format!("{finding}\n"))
            .collect()
    }

    #[test]
    fn the_listing_agrees_with_the_manifests() {
        assert_eq!(
            messages("# rooms\nL0 topic:\nL1 hub: topic\n", TOPIC, HUB),
            ""
        );
        assert!(messages("L0 topic:\nL1 hub:\n", TOPIC, HUB).contains("run `cargo xtask gen`"));
        assert!(messages("L0 topic:\n", TOPIC, HUB).contains("give the new crate its layer"));
        let gone = "L0 topic:\nL1 hub: topic\nL2 auth:\n";
        assert!(messages(gone, TOPIC, HUB).contains("there is no crate auth"));
        assert!(messages("nonsense", TOPIC, HUB).contains("write: L0"));
    }

    #[test]
    fn uses_go_down_or_up_the_page() {
        assert!(messages("L0 hub: topic\nL0 topic:\n", TOPIC, HUB).contains("may not use topic"));
        assert!(messages("L1 topic:\nL0 hub: topic\n", TOPIC, HUB).contains("hub (L0) may not"));
        assert_eq!(messages("L0 topic:\nL0 hub: topic\n", TOPIC, HUB), "");
    }

    #[test]
    fn all_kinds_of_dependencies_but_tests_count() {
        let manifest = "[dependencies]\nstentor-a = 1\n[build-dependencies]\nstentor-b = 1\n\
                        [target.'cfg(unix)'.dependencies]\nstentor-c = 1\n\
                        [dev-dependencies]\nstentor-d = 1\n";
        let used: Vec<String> = used_by(manifest).expect("valid").into_iter().collect();
        assert_eq!(used, ["a", "b", "c"]);
    }

    #[test]
    fn refreshing_keeps_comments_and_order() {
        let tree = Tree::from([
            (LISTING, "# rooms\nL0 topic: x\n\nL1 hub:\n"),
            ("crates/topic/Cargo.toml", TOPIC),
            ("crates/hub/Cargo.toml", HUB),
        ]);
        assert_eq!(refreshed(&tree), "# rooms\nL0 topic:\n\nL1 hub: topic\n");
    }
}
