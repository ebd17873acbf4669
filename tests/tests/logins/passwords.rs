//! mosquitto's password file as the source of users.

use std::fs;

use stentor_tests::raw::connect_as;
use stentor_tests::{Plan, Server, Version, server};

fn plan(text: &str) -> Plan {
    let plan = Plan::new();
    let file = plan.folder().join("passwd");
    fs::write(&file, text).expect("a file can be written");
    plan.config(&format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"mosquitto:{}\"\n",
        file.display()
    ))
}

fn code(server: &Server, user: &str, password: &str) -> u8 {
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, "c", true, Some((user, password))));
    client.expect(2).body[1]
}

#[test]
fn a_bad_line_shuts_out_its_user_alone() {
    let hash = server::hash_password("pencil");
    let text = format!("ann:{hash}\nbob hush\ncat:hush\ndan:{hash}\n");
    let server = plan(&text).start();
    for (user, password, expected) in [
        ("ann", "pencil", 0),
        ("dan", "pencil", 0),
        ("bob hush", "", 0x86),
        ("cat", "hush", 0x86),
    ] {
        assert_eq!(code(&server, user, password), expected, "{user}");
    }
    let log = server.wait_log(0, "are passed over");
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("passwd:"))
        .collect();
    let [line] = lines[..] else {
        panic!("one line tells of all: {log}");
    };
    assert!(
        line.contains("passwd:2: ") && line.contains("passwd:3: "),
        "{line}"
    );
    assert!(!line.contains("hush"), "{line}");
}

#[test]
fn a_file_without_a_good_line_is_refused() {
    let refusal = plan("bob\ncat:hush\n").refused().refusal();
    assert!(refusal.contains("no line of it names a user"), "{refusal}");
    assert!(!refusal.contains("hush"), "{refusal}");
}
