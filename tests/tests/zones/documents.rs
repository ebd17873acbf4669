//! The examples of `docs/zones.md` and `docs/adaptors.md`, typed as they stand.

use std::fs;
use std::process::{Child, Command};

use stentor_tests::{DEADLINE, Plan, Server, process, server, tools};

/// The code of the blocks in this language on a page.
fn code(page: &str, language: &str) -> Vec<String> {
    let path = tools::project().join("docs").join(page);
    let text = fs::read_to_string(path).expect("the page can be read");
    let fence = format!("```{language}\n");
    let code = |part: &str| part.split("\n```").next().map(str::to_owned);
    text.split(&fence).skip(1).filter_map(code).collect()
}

/// The code of the blocks about zones, for a server on this port.
fn blocks(language: &str, port: &str) -> Vec<String> {
    let blocks = code("zones.md", language).into_iter();
    blocks.map(|code| code.replace("1883", port)).collect()
}

/// What the examples of rooms print among other things.
const HEARD: &str = "$room/tea/say/alice hello";
const DONE: &str = r#"$reply/1 {"status":"done","result":{"version":1}}"#;

/// Each of these begins a line.
#[track_caller]
fn check(said: &str, expected: &[&str]) {
    for line in expected {
        let is_said = said.lines().any(|said| said.starts_with(line));
        assert!(is_said, "{line:?} is not among: {said}");
    }
}

/// The same program without its arguments.
fn program(command: &Command) -> Command {
    Command::new(command.get_program())
}

#[test]
fn the_python_examples_work() {
    let server = super::start();
    let blocks = blocks("python", &server.port("mqtt"));
    let expected = [
        &["from alice hello", "response 0"][..],
        &["join 1", HEARD, DONE][..],
    ];
    assert_eq!(blocks.len(), expected.len());
    for (block, expected) in blocks.into_iter().zip(expected) {
        let path = server.folder().join("example.py");
        fs::write(&path, block).expect("a file can be written");
        let mut command = program(&tools::python(""));
        check(&process::run(command.arg(&path)).success(), expected);
    }
}

/// A client that is not let in is told so, and does not wait for ever.
#[test]
fn the_python_examples_end_where_nobody_has_their_user() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let server = Plan::new().config(config).start();
    let pages = ["zones.md", "procedures.md"].into_iter();
    for block in pages.flat_map(|page| code(page, "python")) {
        let block = block.replace("1883", &server.port("mqtt"));
        let path = server.folder().join("example.py");
        fs::write(&path, block).expect("a file can be written");
        let mut command = program(&tools::python(""));
        let refused = process::run(command.arg(&path)).refusal();
        assert!(refused.contains("not let in: "), "{refused}");
    }
}

#[test]
fn the_javascript_examples_work() {
    let server = super::start();
    let blocks = blocks("js", &server.port("mqtt"));
    let expected = [
        &["$private/from/alice hello", r#"$reply/1 {"code":0,"#][..],
        &[HEARD, DONE][..],
    ];
    assert_eq!(blocks.len(), expected.len());
    for (block, expected) in blocks.into_iter().zip(expected) {
        // Modules are looked for from the script's own folder upwards.
        let mut command = program(&tools::node(""));
        command.current_dir(tools::folder().join("js"));
        command.args(["--input-type=module", "-e", &block]);
        check(&process::run(&mut command).success(), expected);
    }
}

/// What makes the examples name this server: they mean the one of this machine.
const SHELL: &str = r#"
stentor() {
    word=$1; shift
    if [ "$word" = room ]; then word="room $1"; shift; fi
    "$STENTOR" $word -L "$URL" "$@"
}
for tool in mosquitto_sub mosquitto_pub mosquitto_rr; do
    eval "$tool() { command $tool -h 127.0.0.1 -p $PORT \"\$@\"; }"
done
"#;

/// A line of an example; `more` are options that let it end.
fn line(server: &Server, line: &str, more: &str) -> Command {
    let code = line.split("  #").next().unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{SHELL}\n{code} {more}")]);
    shell.current_dir(server.folder());
    shell
        .env("STENTOR", server::binary())
        .env("STENTOR_PASSWORD", super::PASSWORD);
    shell
        .env("URL", server.url("mqtt"))
        .env("PORT", server.port("mqtt"));
    shell
}

/// Whether a line waits for something that another one does.
fn listens(line: &str) -> bool {
    ["stentor inbox", "room join", "mosquitto_sub"]
        .iter()
        .any(|word| line.contains(word))
}

/// Each block: what listens hears something, and everything else succeeds.
#[test]
fn the_shell_examples_work() {
    let server = super::start();
    fs::write(server.folder().join("message.eml"), "Subject: x\n\nhello\n").expect("a file");
    drop(tools::find("mosquitto_rr"));
    let blocks = blocks("sh", "1883");
    assert!(blocks.len() >= 5, "{blocks:?}");
    for block in blocks {
        let (waiting, doing): (Vec<&str>, Vec<&str>) =
            block.lines().partition(|line| listens(line));
        let start = |text: &&str| process::start(&mut line(&server, text, "-C 1"));
        let mut listeners: Vec<Child> = waiting.iter().map(start).collect();
        let is_over = |child: &mut Child| child.try_wait().expect("a child can be asked").is_some();
        if listeners.is_empty() {
            doing
                .iter()
                .for_each(|text| drop(process::run(&mut line(&server, text, "")).success()));
        }
        // What is sent before they listen is not heard.
        while !doing.is_empty() && !listeners.iter_mut().all(is_over) {
            for text in &doing {
                process::run(&mut line(&server, text, ""));
            }
        }
        for listener in listeners {
            process::finish(listener, DEADLINE).success();
        }
    }
}

/// The blocks in this language on a page, which are as many as the test knows.
fn known<const N: usize>(page: &str, language: &str) -> [String; N] {
    <[String; N]>::try_from(code(page, language))
        .unwrap_or_else(|blocks| panic!("{N} blocks were expected: {blocks:?}"))
}

/// The zone, the room, the listener and the adaptor of the pages in one configuration.
#[test]
fn the_configuration_examples_work() {
    let ([zone], [adaptor]) = (known("zones.md", "toml"), known("adaptors.md", "toml"));
    let [moderate, _, _] = known("adaptors.md", "lua");
    let plan = Plan::new();
    fs::write(plan.folder().join("moderate.luau"), moderate).expect("a file can be written");
    let zone = zone.replace("0.0.0.0:1884", "127.0.0.1:0");
    let more = format!(
        "[[room]]\nzone = \"game\"\nname = \"tea\"\n[[user]]\nname = \"alice\"\n\
         zone = \"game\"\npassword_hash = \"{}\"\n",
        super::hash()
    );
    let server = plan.config(&format!("{zone}\n{adaptor}\n{more}")).start();
    // The listener makes her one of the zone.
    let run = |code: &str| process::run(&mut line(&server, code, "-u alice"));
    let hall = run("stentor room show hall").success();
    assert!(hall.contains("100"), "{hall}");
    let denied = run("stentor room say tea damn");
    assert!(denied.stderr.contains("mind your words"), "{denied}");
    run("stentor room say tea hello").success();
    let denied = run("stentor room create den");
    assert!(denied.stderr.contains("administrators"), "{denied}");
    let mut guest = line(&server, "stentor room say tea hello", "-u guest");
    process::run(guest.env_remove("STENTOR_PASSWORD")).success();
}

/// What stands on the page does what its tests say, and so does what `stentor adaptor new` writes.
#[test]
fn the_adaptor_examples_work() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // The hook `call` is one of the adaptor on top of the page.
    let [own, call, test] = known("adaptors.md", "lua");
    let own = own.replace("return adaptor", &format!("{call}\nreturn adaptor"));
    for (name, text) in [("own.luau", own), ("own.test.luau", test)] {
        fs::write(folder.path().join(name), text).expect("a file can be written");
    }
    let [made] = known("adaptors.md", "sh");
    for code in [
        &*made,
        "stentor adaptor check own.luau",
        "stentor adaptor test own.luau",
    ] {
        let mut shell = Command::new("sh");
        let code = format!("stentor() {{ \"$STENTOR\" \"$@\"; }}\n{code}");
        shell.args(["-c", &code]).current_dir(&folder);
        process::run(shell.env("STENTOR", server::binary())).success();
    }
}

/// What comes with the server can be written to files, where its tests pass.
#[test]
fn a_built_in_adaptor_can_be_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let run = |args: &[&str]| process::run(server::stentor().args(args).current_dir(&folder));
    run(&["adaptor", "new", "chess", "--from", "turns"]).success();
    let told = run(&["adaptor", "test", "chess.luau"]).success();
    assert!(told.contains("ok      moves go round"), "{told}");
    let refused = run(&["adaptor", "new", "other", "--from", "chess"]).refusal();
    let reason = "no adaptor \"chess\" comes with the server; these do: turns";
    assert!(refused.contains(reason), "{refused}");
}

/// What is there stays as it is, and the command says what to do.
#[test]
fn a_new_adaptor_replaces_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let make = || {
        process::run(
            server::stentor()
                .args(["adaptor", "new", "greet"])
                .current_dir(&folder),
        )
    };
    make().success();
    let refused = make().refusal();
    for part in [
        "./greet.luau is there already",
        "`stentor adaptor new greet-2`",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
}
