//! What a reload finds changed.

use super::Case;
use crate::config::{Reload, diff};

const HASH: &str = "password_hash = \"$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo\"";

/// A server with this file, or without a file if the text is empty.
fn case(text: &str) -> Case {
    if text.is_empty() {
        Case::default()
    } else {
        Case::file(text)
    }
}

fn check(old: &str, new: &str, expected: &[(&str, Reload)]) {
    let diff = diff(&case(old).good(), &case(new).good());
    let found: Vec<(&str, Reload)> = diff
        .changes
        .iter()
        .map(|change| (change.path.as_str(), change.reload))
        .collect();
    assert_eq!(found, expected, "{old}\n→\n{new}");
}

#[test]
fn changed_keys_are_found_with_their_class() {
    use Reload::{Live, NewConnections, Restart};
    check("", "# a comment\n[log]\nlevel = \"info\"", &[]);
    check("", "shards = 3", &[("shards", Restart)]);
    check("", "[log]\nlevel = \"warn\"", &[("log.level", Live)]);
    check(
        "[limits]\ninflight = 3",
        "[limits]\nqueue_bytes = \"9MiB\"",
        &[
            ("limits.inflight", NewConnections),
            ("limits.queue_bytes", Live),
        ],
    );
    check("", "[[policy]]\nfilter = \"a\"", &[("policy", Live)]);
    check(
        "[[policy]]\nfilter = \"a\"",
        "[[policy]]\nfilter = \"a\"\nqos0 = \"disconnect\"",
        &[("policy[a].qos0", Live)],
    );
    let queue = "[[queue]]\nname = \"jobs\"\nfilter = \"jobs/#\"";
    check("", queue, &[("queue", Restart)]);
    check(
        queue,
        &format!("{queue}\nmessages = 5"),
        &[("queue[jobs].messages", Restart)],
    );
    let delayed = "[[policy]]\nfilter = \"a\"\ndelay = \"1ms\"";
    check(
        "[[policy]]\nfilter = \"a\"",
        delayed,
        &[("policy[a].delay", Live)],
    );
    check(
        &format!("[[user]]\nname = \"a\"\n{HASH}\n[[user]]\nname = \"b\"\n{HASH}"),
        &format!("[[user]]\nname = \"b\"\nadmin = true\n{HASH}\n[[user]]\nname = \"c\"\n{HASH}"),
        &[
            ("user[c]", Live),
            ("user[a]", Live),
            ("user[b].admin", Live),
        ],
    );
}

#[test]
fn listeners_are_known_by_their_url() {
    let old = "[[listener]]\nurl = \"mqtt://[::1]:1\"\n[[listener]]\nurl = \"mqtt://[::1]:2\"";
    let new = "[[listener]]\nurl = \"unix:x\"\n[[listener]]\nurl = \"mqtt://[::1]:2\"\n\
               anonymous = true";
    check(
        old,
        new,
        &[
            ("listener[unix:etc/x]", Reload::Live),
            ("listener[mqtt://[::1]:1]", Reload::Live),
            ("listener[mqtt://[::1]:2].anonymous", Reload::NewConnections),
        ],
    );
    let diff = diff(&case(old).good(), &case(new).good());
    assert_eq!(diff.listeners_added, [0]);
    assert_eq!(diff.listeners_removed, [0]);
    assert_eq!(diff.listeners_kept, [(1, 1)]);
    assert!(!diff.is_empty());
}

#[test]
fn twins_on_free_ports_are_matched_one_to_one() {
    let flag = |case: Case| case.flag("listener.url", "mqtt://127.0.0.1:0");
    let two = flag(flag(Case::default())).good();
    let one = flag(Case::default()).good();
    assert!(diff(&two, &two).is_empty());
    let fewer = diff(&two, &one);
    assert_eq!(
        (fewer.listeners_kept, fewer.listeners_removed),
        (vec![(0, 0)], vec![1])
    );
}
