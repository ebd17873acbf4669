//! What `stentor pub` promises by its exit code: 0 means that the server has taken it.

use stentor_tests::{Plan, Server, process, server};

fn publish(server: &Server, args: &[&str]) -> process::Finished {
    let mut command = server::stentor();
    command.args(["pub", "-L", server.url("mqtt"), "-t", "t"]);
    process::run(command.args(args))
}

#[test]
fn what_the_server_does_not_take_is_no_success() {
    let limits = "[limits]\npacket_bytes = \"1KiB\"\ntopic_alias_maximum = 10\n";
    let server = Plan::new().config(limits).tcp().anonymous().start();
    let large = "x".repeat(2_000);
    let alias = |number| ["-D", "publish", "topic-alias", number, "-m", "x"];
    for (args, code, says) in [
        (&alias("500")[..], 0x94, "1 to 10"),
        (&alias("0"), 0x94, "1 to 10"),
        (&["-m", &large], 0x95, "1024"),
        (&["-m", &large, "-q", "1"], 0x95, "1024"),
        // 3.1.1 has no words for it: the server closes the connection.
        (&["-m", &large, "-V", "311"], 1, "-V 5"),
        (&["-m", &large, "-V", "311", "-q", "2"], 1, "-V 5"),
    ] {
        let finished = publish(&server, args);
        assert_eq!(finished.status.code(), Some(code), "{args:?}: {finished}");
        let text = finished.refusal();
        assert!(text.contains(says), "{text}");
    }
    for args in [&alias("10")[..], &["-m", "x"], &["-m", "x", "-V", "311"]] {
        publish(&server, args).success();
    }
}

#[test]
fn a_topic_alias_for_a_server_that_knows_none_is_refused() {
    let limits = "[limits]\ntopic_alias_maximum = 0\n";
    let server = Plan::new().config(limits).tcp().anonymous().start();
    let finished = publish(&server, &["-D", "publish", "topic-alias", "1", "-m", "x"]);
    assert_eq!(finished.status.code(), Some(0x94), "{finished}");
    assert!(finished.refusal().contains("takes none"));
}

/// One of many lines is too large: it counts, whatever its neighbours did.
#[test]
fn a_line_that_closes_the_connection_is_no_success() {
    let limits = "[limits]\npacket_bytes = \"1KiB\"\n";
    let server = Plan::new().config(limits).tcp().anonymous().start();
    let file = server.folder().join("lines");
    let lines = format!("first\n{}\n", "x".repeat(2_000));
    std::fs::write(&file, lines).expect("a file can be written");
    for version in ["5", "311"] {
        let mut command = server::stentor();
        command.args([
            "pub",
            "-L",
            server.url("mqtt"),
            "-t",
            "t",
            "-l",
            "-V",
            version,
        ]);
        command.stdin(std::fs::File::open(&file).expect("it was written"));
        let output = command.output().expect("stentor starts");
        assert!(!output.status.success(), "{version}: {output:?}");
    }
}
