//! The examples of `docs/zones.md`, typed as they stand.

use std::fs;
use std::process::Command;

use stentor_tests::{process, tools};

/// The code of the blocks in this language, for a server on this port.
fn blocks(language: &str, port: &str) -> Vec<String> {
    let path = tools::project().join("docs/zones.md");
    let text = fs::read_to_string(path).expect("the page can be read");
    let fence = format!("```{language}\n");
    let code = |part: &str| part.split("\n```").next().map(str::to_owned);
    text.split(&fence)
        .skip(1)
        .filter_map(code)
        .map(|code| code.replace("1883", port))
        .collect()
}

/// The same program without its arguments.
fn program(command: &Command) -> Command {
    Command::new(command.get_program())
}

#[test]
fn the_python_examples_work() {
    let server = super::start();
    let blocks = blocks("python", &server.port("mqtt"));
    assert!(!blocks.is_empty());
    for block in blocks {
        let path = server.folder().join("example.py");
        fs::write(&path, block).expect("a file can be written");
        let mut command = program(&tools::python(""));
        let said = process::run(command.arg(&path)).success();
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["from alice hello", "response 0"]);
    }
}

#[test]
fn the_javascript_examples_work() {
    let server = super::start();
    let blocks = blocks("js", &server.port("mqtt"));
    assert!(!blocks.is_empty());
    for block in blocks {
        // Modules are looked for from the script's own folder upwards.
        let mut command = program(&tools::node(""));
        command.current_dir(tools::folder().join("js"));
        command.args(["--input-type=module", "-e", &block]);
        let said = process::run(&mut command).success();
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines[0], "$private/from/alice hello");
        assert!(lines[1].starts_with(r#"$reply/1 {"code":0,"#), "{said}");
    }
}
