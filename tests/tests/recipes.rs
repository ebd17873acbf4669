//! The recipes of `docs/recipes`, typed as they stand.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Server, Version, process, raw, server, tools};

/// The code of the blocks in this language on a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = tools::project().join("docs/recipes").join(page);
    let text = fs::read_to_string(path).expect("the page can be read");
    let fence = format!("```{language}\n");
    let code = |part: &str| part.split("\n```").next().map(str::to_owned);
    text.split(&fence).skip(1).filter_map(code).collect()
}

/// The only block in this language on a page.
#[track_caller]
fn block(page: &str, language: &str) -> String {
    let mut all = blocks(page, language);
    assert_eq!(
        all.len(),
        1,
        "{page} has other than one block in {language}"
    );
    all.remove(0)
}

/// The words of a command, without its quotes.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split(['\'', '"']).enumerate();
    let each = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    each.collect()
}

/// Types the commands of a block to this server, with the password of new users from a file.
fn type_lines(block: &str, server: &Server, password: &str) {
    for line in block.lines() {
        let mut words = words(line);
        assert_eq!(words.remove(0), "stentor", "{line}");
        if words.starts_with(&["user", "add"]) {
            words.extend(["--password-file", password]);
        }
        server.control(&words).success();
    }
}

/// A script of a page that talks to this server.
fn script(page: &str, language: &str, server: &Server) -> Command {
    let port = server.port("mqtt");
    let code = block(page, language)
        .replace("\"localhost\", 1883", &format!("\"127.0.0.1\", {port}"))
        .replace("localhost:1883", &format!("127.0.0.1:{port}"));
    if language == "js" {
        let mut command = Command::new(tools::node("").get_program());
        // Modules are looked for from the script's own folder upwards.
        command.current_dir(tools::folder().join("js"));
        command.args(["--input-type=module", "-e", &code]);
        return command;
    }
    let path = server.folder().join("example.py");
    fs::write(&path, code).expect("a file can be written");
    let mut command = Command::new(tools::python("").get_program());
    command.arg(path);
    command
}

/// Ends with the test, whatever becomes of that.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null());
        Self(command.spawn().expect("a program starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn user(name: &str) -> String {
    let hash = server::hash_password("secret");
    format!("[[user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\n")
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("a file can be written");
}

#[test]
fn the_index_lists_every_recipe() {
    let folder = tools::project().join("docs/recipes");
    let index = fs::read_to_string(folder.join("README.md")).expect("there is an index");
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("a name of ASCII");
        assert!(
            name == "README.md" || index.contains(&format!("]({name})")),
            "{name} is not in the index"
        );
    }
}

/// A block that is new needs a test that runs it, and then stands here.
#[test]
fn every_block_is_run_by_a_test() {
    for (page, expected) in [
        ("README.md", &[][..]),
        ("bridge.md", &["text", "text"]),
        (
            "game-logic.md",
            &["toml", "lua", "toml", "sh", "js", "python", "sh"],
        ),
        ("groups.md", &["sh", "sh"]),
        ("reason-strings.md", &["python", "js"]),
        ("snapshots.md", &["toml", "python", "js"]),
    ] {
        let path = tools::project().join("docs/recipes").join(page);
        let text = fs::read_to_string(path).expect("the page can be read");
        let languages = text.lines().filter_map(|line| line.strip_prefix("```"));
        let languages: Vec<&str> = languages.filter(|language| !language.is_empty()).collect();
        assert_eq!(languages, expected, "{page}");
    }
}

/// Both judges say the same about the same words.
#[test]
fn a_process_in_another_language_judges_what_is_said() {
    let plan = Plan::new();
    let procedures = plan.folder().join("procedures");
    fs::create_dir(&procedures).expect("a folder can be made");
    let [judge, config] = <[String; 2]>::try_from(blocks("game-logic.md", "toml"))
        .expect("a manifest and a configuration");
    write(&procedures, "judge.toml", &judge);
    write(plan.folder(), "judged.luau", &block("game-logic.md", "lua"));
    let listener = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let server = plan
        .config(&format!("{listener}{config}\n{}", user("alice")))
        .start();
    write(server.folder(), "password", "secret\n");
    let password = server.folder().join("password");
    let password = password.to_str().expect("a path of ASCII");
    let [made, tried] = <[String; 2]>::try_from(blocks("game-logic.md", "sh"))
        .expect("commands that make a judge, and some that try it");
    type_lines(&made, &server, password);
    // As they are typed, but to this server.
    let said: Vec<&str> = tried
        .lines()
        .filter(|line| line.starts_with("stentor room say"))
        .collect();
    assert_eq!(said.len(), 2, "{tried}");
    let say = |text: &str| {
        let line = said.iter().find(|line| line.ends_with(text));
        let line = line.unwrap_or_else(|| panic!("nobody says {text}: {tried}"));
        let mut command = server::stentor();
        command.args(line.split_whitespace().skip(1));
        command.args(["-L", server.url("mqtt")]);
        process::run(command.env("STENTOR_PASSWORD", "secret"))
    };
    assert!(say("hello").stderr.contains("the judge is away"));
    for language in ["js", "python"] {
        let _judge = Running::start(&mut script("game-logic.md", language, &server));
        eventually("the judge lets it pass", || say("hello").status.success());
        let refused = say("damn").refusal();
        assert!(
            refused.contains("alice, mind your words"),
            "{language}: {refused}"
        );
    }
}

#[test]
fn a_group_of_users_has_topics_of_its_own() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let server = Plan::new().config(config).start();
    write(server.folder(), "password", "secret\n");
    let password = server.folder().join("password");
    let password = password.to_str().expect("a path of ASCII");
    let [made, changed] = <[String; 2]>::try_from(blocks("groups.md", "sh"))
        .expect("commands that make groups, and some that change them");
    type_lines(&made, &server, password);
    let may = |user: &str, action: &str, topic: &str| {
        let tried = server.control(&["user", "test", user, action, topic]);
        match tried.status.code() {
            Some(0) => true,
            Some(1) => false,
            _ => panic!("no answer: {tried}"),
        }
    };
    assert!(may("acme/ann", "publish", "sales/ann/deal"));
    assert!(!may("acme/ann", "publish", "sales/bob/deal"));
    assert!(may("acme/ann", "subscribe", "sales/bob/deal"));
    assert!(!may("acme/ann", "subscribe", "plant/orders"));
    assert!(!may("acme/press-1", "subscribe", "sales/ann/deal"));
    assert!(may("acme/press-1", "publish", "plant/orders"));
    // A user of no group has what all users have.
    assert!(may("acme/eve", "publish", "shared/menu"));
    for topic in ["sales/ann/deal", "plant/orders"] {
        assert!(!may("acme/eve", "subscribe", topic), "{topic}");
    }
    assert!(!may("acme/eve", "publish", "plant/orders"));
    let [mut ann, mut bob] = ["acme/ann", "acme/bob"].map(|user| {
        let mut client = server.dial();
        client.speaks(Version::V5);
        client.send(&raw::connect_as(
            Version::V5,
            user,
            true,
            Some((user, "secret")),
        ));
        assert_eq!(client.expect(2).body[1], 0, "{user} is let in");
        client
    });
    ann.subscribe("sales/#", 1);
    bob.publish_surely("sales/bob/deal", b"100");
    assert_eq!(ann.message().0, "sales/bob/deal");
    type_lines(&changed, &server, password);
    assert!(may("acme/ann", "subscribe", "plant/orders"));
    ann.subscribe("plant/orders", 0);
    assert!(!may("acme/press-1", "publish", "plant/orders"));
    assert!(!may("acme/press-1", "publish", "sales/press-1/deal"));
}

#[test]
fn the_reasons_of_refusals_are_read() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let server = Plan::new().config(config).start();
    write(server.folder(), "password", "secret\n");
    let password = server.folder().join("password");
    let password = password.to_str().expect("a path of ASCII");
    let role = ["role", "add", "open", "--rule", "allow both open/#"];
    server.control(&role).success();
    let alice = ["user", "add", "alice", "--role", "open", "--password-file"];
    server
        .control(&[&alice[..], &[password]].concat())
        .success();
    for language in ["js", "python"] {
        let told = process::run(&mut script("reason-strings.md", language, &server)).success();
        for what in ["not subscribed:", "not published:"] {
            let line = told.lines().find(|line| line.contains(what));
            let line = line.unwrap_or_else(|| panic!("{language} is not told {what}: {told}"));
            assert!(line.contains("right to"), "{language}: {line}");
        }
    }
}

#[test]
fn a_snapshot_is_complete_in_both_languages() {
    let policy = block("snapshots.md", "toml");
    let config =
        format!("allow_anonymous = true\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n{policy}\n");
    let server = Plan::new().config(&config).start();
    let mut publisher = server.client(Version::V5, "publisher");
    for number in 0..20 {
        publisher.publish_surely(&format!("tick/{number}"), b"1");
    }
    for language in ["js", "python"] {
        let told = process::run(&mut script("snapshots.md", language, &server)).success();
        assert_eq!(told, "complete: 20 topics\n", "{language}");
    }
}

/// A recipe whose client is not let in, or may not do what it is about, says so and ends.
#[test]
fn a_client_that_is_refused_says_so_and_ends() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let server = Plan::new().config(config).start();
    for page in ["snapshots.md", "game-logic.md", "reason-strings.md"] {
        for language in ["js", "python"] {
            // Nobody has the user that the page names, or any.
            let told = process::run(&mut script(page, language, &server)).to_string();
            assert!(told.contains("not let in:"), "{page} {language}: {told}");
        }
    }
    write(server.folder(), "password", "secret\n");
    let password = server.folder().join("password");
    let password = password.to_str().expect("a path of ASCII");
    let role = ["role", "add", "little", "--rule", "allow both little/#"];
    server.control(&role).success();
    let judge = [
        "user",
        "add",
        "judge",
        "--role",
        "little",
        "--password-file",
    ];
    server
        .control(&[&judge[..], &[password]].concat())
        .success();
    for language in ["js", "python"] {
        let told = process::run(&mut script("game-logic.md", language, &server)).to_string();
        assert!(told.contains("may not serve:"), "{language}: {told}");
    }
}

#[test]
fn a_small_mosquitto_is_a_bridge() {
    let listener = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let start = |name| {
        let config = format!("allow_anonymous = true\n{listener}{}", user(name));
        Plan::new().config(&config).start()
    };
    let (here, there) = (start("bridge"), start("plant"));
    let [config, _] = <[String; 2]>::try_from(blocks("bridge.md", "text"))
        .expect("a configuration and a command");
    let config = config
        .replace("1884", &server::free_port().to_string())
        .replace("localhost:1883", &here.address("mqtt"))
        .replace("cloud.example:8883", &there.address("mqtt"));
    write(here.folder(), "bridge.conf", &config);
    let mut mosquitto = tools::mosquitto("mosquitto");
    mosquitto.arg("-c").arg(here.folder().join("bridge.conf"));
    let _bridge = Running::start(mosquitto.stdout(Stdio::null()).stderr(Stdio::null()));
    for (from, to, topic) in [(&here, &there, "out/a"), (&there, &here, "commands/a")] {
        let mut sender = from.client(Version::V5, "sender");
        let mut receiver = to.client(Version::V5, "receiver");
        receiver.subscribe(topic, 0);
        eventually("it arrives on the other side", || {
            // What comes before the bridge does is lost.
            sender.publish_surely(topic, b"x");
            let listed = to.json(&["clients", "show", "receiver"]);
            let sent = to.json(&["status"])["messages_out"].as_u64();
            listed["subscriptions"] == 1 && sent > Some(0)
        });
        assert_eq!(receiver.message().0, topic);
    }
}
