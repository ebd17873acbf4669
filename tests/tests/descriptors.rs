//! File descriptors, as the kernel counts them for each thread.

use stentor_tests::raw::holds_in_time;
use stentor_tests::server::descriptors;
use stentor_tests::{Plan, Raw, Server, Version};

fn three_shards() -> Server {
    Plan::new()
        .tcp()
        .listen("ws://127.0.0.1:0")
        .anonymous()
        .arg("--shards")
        .arg("3")
        .start()
}

fn is_shard(name: &str) -> bool {
    name.starts_with("shard-")
}

fn clients(server: &Server, count: usize) -> Vec<Raw> {
    (0..count)
        .map(|number| server.client(Version::V5, &format!("c{number}")))
        .collect()
}

/// What each thread sees once every shard is at work: a shard that starts still closes what is not
/// its own.
#[track_caller]
fn settled(server: &Server) -> Vec<(String, usize)> {
    let status = server.json(&["status"]);
    assert_eq!(status["shards_answering"], 3, "{status}");
    descriptors(server.pid())
}

/// Waits until every thread that there was sees as few descriptors as before.
#[track_caller]
fn flat(server: &Server, before: &[(String, usize)]) {
    let mut seen = Vec::new();
    let flat = holds_in_time(|| {
        seen = descriptors(server.pid());
        let mut pairs = seen.iter().zip(before);
        pairs.all(|((_, seen), (_, before))| seen <= before)
    });
    assert!(
        flat,
        "descriptors were left open\nbefore: {before:?}\n after: {seen:?}"
    );
}

/// A connection takes one descriptor of one shard, and no other thread sees it.
#[test]
fn each_shard_has_a_table_of_its_own() {
    let server = three_shards();
    let status = server.json(&["status"]);
    if status["descriptor_tables"] != "private" {
        // The system refuses private tables, as some containers do; the start has warned.
        server.wait_log(0, "descriptor");
        return;
    }
    let before = settled(&server);
    let _clients = clients(&server, 90);
    // A shard that passed a connection on closes its own copy later than the other one answers.
    let mut seen = Vec::new();
    let settles = holds_in_time(|| {
        seen = descriptors(server.pid());
        let sum = |threads: &[(String, usize)]| -> usize {
            let shards = threads.iter().filter(|(name, _)| is_shard(name));
            shards.map(|(_, count)| count).sum()
        };
        sum(&seen) == sum(&before) + 90
    });
    assert!(settles, "before: {before:?}\n after: {seen:?}");
    for ((name, before), (_, after)) in before.iter().zip(&seen) {
        // That all ninety come to one of three shards has a probability of 3^-89.
        let most = if is_shard(name) { before + 89 } else { *before };
        assert!(*after <= most, "{name} sees {after}, and saw {before}");
    }
}

#[test]
fn closed_connections_leave_no_descriptors() {
    let server = three_shards();
    let before = settled(&server);
    for _ in 0..5 {
        let connected = clients(&server, 100);
        for number in 0..20 {
            // Take-overs across shards send sockets from one table into another.
            let _ = server.client(Version::V5, &format!("c{number}"));
            drop(Raw::tcp(&server.address("ws")));
        }
        server.json(&["status"]);
        drop(connected);
    }
    flat(&server, &before);
}

#[test]
fn reloaded_listeners_leave_no_descriptors() {
    let base = "allow_anonymous = true\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let server = Plan::new().config(base).arg("--shards").arg("3").start();
    let before = settled(&server);
    for _ in 0..5 {
        server.reconfigure(&format!(
            "{base}[[listener]]\nurl = \"mqtt://127.0.0.2:0\"\n"
        ));
        server.control(&["reload"]).success();
        server.reconfigure(base);
        server.control(&["reload"]).success();
    }
    flat(&server, &before);
}
