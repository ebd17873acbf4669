//! Links inside the project lead somewhere.

use super::Finding;
use crate::tree::Tree;

/// Follows every link of every Markdown file that stays inside the project.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_with(&["md"]) {
        for (line, target) in links(text) {
            if let Some(message) = broken(tree, path, text, target) {
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

fn broken(tree: &Tree, path: &str, text: &str, target: &str) -> Option<String> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if is_elsewhere {
        return None;
    }
    let (file, fragment) = match target.split_once('#') {
        Some((file, fragment)) => (file, Some(fragment)),
        None => (target, None),
    };
    let (found, page) = if file.is_empty() {
        (path.to_owned(), Some(text))
    } else {
        let Some(found) = resolve(path, file) else {
            return Some(format!("the link {target} leads out of the project"));
        };
        if !tree.contains(&found) {
            return Some(format!(
                "the link {target} leads nowhere: there is no {found}"
            ));
        }
        let page = tree.text(&found);
        (found, page)
    };
    let (fragment, page) = (fragment?, page?);
    let is_page = found.ends_with(".md");
    let has_heading = headings(page).any(|slug| slug == fragment);
    (is_page && !has_heading).then(|| format!("{found} has no heading for #{fragment}"))
}

/// The path that a relative link means; nothing if it climbs out of the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The targets of inline links and of link definitions, outside code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence {
            continue;
        }
        if let Some((_, target)) = line.split_once("]: ").filter(|_| line.starts_with('[')) {
            links.extend(
                target
                    .split_whitespace()
                    .next()
                    .map(|target| (index + 1, target)),
            );
        }
        for (at, _) in line.match_indices("](") {
            let is_code = line[..at].matches('`').count() % 2 == 1;
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !is_code && rest.contains(')') {
                links.push((index + 1, target.trim_matches(['<', '>'])));
            }
        }
    }
    links
}

/// The anchors of a page's headings, as the common viewers make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let mut in_fence = false;
    text.lines().filter_map(move |line| {
        if line.starts_with("```") {
            in_fence = !in_fence;
        }
        let title = line.trim_start_matches('#');
        let is_heading = !in_fence && line.starts_with('#') && title.starts_with(' ');
        is_heading.then(|| {
            let kept = title.trim().chars().filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
                _ => None,
            });
            kept.collect()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::from([
            ("docs/a.md", text),
            (
                "docs/b.md",
                "# One `two`_three: four\n```sh\n# no heading\n```\n",
            ),
            ("README.md", ""),
            ("crates/x/src/lib.rs", ""),
        ]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn good_links_pass() {
        let text = "# Title\n[b](b.md) [r](../README.md) ![x](../crates/x \"t\") [s](#title)\n\
                    [h](b.md#one-two_three-four) [w](https://example.org/x) [root](/README.md)\n\
                    `[x](nowhere.md)`\n```\n[x](nowhere.md)\n```\n[def]: b.md\n";
        assert_eq!(messages(text), [""; 0]);
    }

    #[test]
    fn broken_links_are_found() {
        for (text, words) in [
            ("[x](c.md)", "there is no docs/c.md"),
            ("[x](../../x.md)", "leads out of the project"),
            ("[x](b.md#two)", "docs/b.md has no heading for #two"),
            ("[x](b.md#no-heading)", "no heading"),
            ("[x](#nothing)", "docs/a.md has no heading"),
            ("[x]: nowhere.md", "there is no docs/nowhere.md"),
        ] {
            let found = messages(text);
            assert!(
                found.len() == 1 && found[0].contains(words),
                "{text}: {found:?}"
            );
        }
    }
}
