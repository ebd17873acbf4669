//! `stentor import mosquitto`: a real mosquitto and the server that took over from it are asked the
//! same questions.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually, publish, subscribe};
use stentor_tests::{Plan, Raw, Version, process, server, tools};

/// Users with a password, which is their name; the last has no rules of its own.
const USERS: usize = 9;

/// Everything that is asked about.
fn topics() -> Vec<String> {
    let mut topics: Vec<String> = Vec::new();
    for first in ["a", "b", "c", "d", "p", "q"] {
        topics.push(first.to_owned());
        for second in ["b", "c", "u1", "c-u2"] {
            topics.push(format!("{first}/{second}"));
            topics.push(format!("{first}/{second}/c"));
        }
    }
    topics
}

/// Rules that overlap in every way, without chance.
fn acl() -> String {
    const WORDS: [&str; 5] = ["read ", "write ", "readwrite ", "", "deny "];
    const FILTERS: [&str; 11] = [
        "a/#", "+/b", "b/+/c", "c", "d/#", "a/b/c", "+/+/c", "#", "+", "b/#", "a/+",
    ];
    let mut text = String::from("topic read a/#\ntopic write b/+\ntopic deny a/b\n");
    for user in 0..USERS - 1 {
        text += &format!("user u{user}\n");
        for rule in 0..3 + user % 3 {
            let word = WORDS[(user * 7 + rule * 3) % WORDS.len()];
            let filter = match FILTERS[(user * 5 + rule * 4 + user * rule) % FILTERS.len()] {
                // Everybody has to hear the end.
                "#" | "+" if word == "deny " => "+/c",
                filter => filter,
            };
            text += &format!("topic {word}{filter}\n");
        }
    }
    text + "user root\ntopic readwrite #\n\
            pattern readwrite p/%u/#\npattern read q/%c\npattern write q/%u/c\n\
            pattern read end\npattern write end\n"
}

/// A mosquitto on a Unix socket.
struct Mosquitto {
    child: Child,
    config: PathBuf,
    socket: PathBuf,
}

/// Users u0, u1, … and root, whose passwords are their names, in mosquitto's form; its file.
#[track_caller]
fn passwords(folder: &Path) -> PathBuf {
    let names = (0..USERS).map(|user| format!("u{user}"));
    let users: String = names
        .chain(["root".to_owned()])
        .map(|name| format!("{name}:{name}\n"))
        .collect();
    let path = file(folder, "passwords", &users);
    process::run(tools::mosquitto("mosquitto_passwd").arg("-U").arg(&path)).success();
    path
}

#[track_caller]
fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file can be written");
    path
}

impl Mosquitto {
    /// Starts it with these lines in its configuration, beside those of an included file.
    #[track_caller]
    fn start(folder: &Path, lines: &str) -> Self {
        let socket = folder.join("m.sock");
        let more = folder.join("conf.d");
        fs::create_dir(&more).expect("a folder can be made");
        // Started by root it would serve as another user, who may not read these files.
        file(&more, "more.conf", "user root\nallow_anonymous true\n");
        let listener = format!("listener 0 {}", socket.display());
        let text = format!("include_dir {}\n{listener}\n{lines}", more.display());
        let config = file(folder, "mosquitto.conf", &text);
        let mut command = tools::mosquitto("mosquitto");
        command.arg("-c").arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn();
        let child = child.expect("mosquitto starts");
        let mosquitto = Self {
            child,
            config,
            socket,
        };
        eventually("a listening mosquitto", || {
            UnixStream::connect(&mosquitto.socket).is_ok()
        });
        mosquitto
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of either server, who is let in.
#[track_caller]
fn log_in(dial: &dyn Fn() -> Raw, user: Option<&str>, role: &str) -> Raw {
    let mut client = dial();
    let id = format!("c-{}{role}", user.unwrap_or("nobody"));
    let login = user.map(|user| (user, user));
    client.send(&connect_as(Version::V4, &id, true, login));
    assert_eq!(client.expect(2).body[1], 0, "{user:?}");
    client.speaks(Version::V4);
    client
}

/// The topics of messages up to the one that ends them.
#[track_caller]
fn until_end(client: &mut Raw, from: &str) -> BTreeSet<String> {
    let mut heard = BTreeSet::new();
    loop {
        let (topic, payload) = client.message();
        if payload != from.as_bytes() {
            continue;
        }
        if topic == "end" {
            return heard;
        }
        heard.insert(topic);
    }
}

/// What every user may, by asking.
#[track_caller]
fn ask(dial: &dyn Fn() -> Raw) -> BTreeSet<String> {
    let mut permitted = BTreeSet::new();
    let topics = topics();
    let mut root = log_in(dial, Some("root"), "");
    root.subscribe("#", 0);
    let names: Vec<String> = (0..USERS).map(|user| format!("u{user}")).collect();
    let users = names.iter().map(|name| Some(name.as_str())).chain([None]);
    for user in users {
        let shown = user.unwrap_or("nobody");
        let mut client = log_in(dial, user, "");
        for topic in &topics {
            client.send(&publish(Version::V4, topic, shown.as_bytes(), 0, false));
        }
        client.publish("end", shown.as_bytes());
        for topic in until_end(&mut root, shown) {
            permitted.insert(format!("{shown} publishes {topic}"));
        }
        for topic in topics.iter().map(String::as_str).chain(["end"]) {
            client.send(&subscribe(Version::V4, 1, topic, 0));
            // One server refuses what the other one keeps to itself.
            client.expect(9);
        }
        let marker = format!("to {shown}");
        for topic in topics.iter().map(String::as_str).chain(["end"]) {
            root.publish(topic, marker.as_bytes());
        }
        for topic in until_end(&mut client, &marker) {
            permitted.insert(format!("{shown} receives {topic}"));
        }
        let _ = until_end(&mut root, &marker);
    }
    permitted
}

/// Takes over from a running mosquitto, and asks both the same. `lost` are the lines that are told
/// not to be carried, `remedies` the changes of roles that the report proposes.
#[track_caller]
fn check(folder: &Path, lines: &str, lost: &[&str], remedies: &[&[&str]]) {
    assert!(topics().len() * (USERS + 1) * 2 >= 1_000);
    let plan = Plan::new();
    let mosquitto = Mosquitto::start(folder, lines);
    let output = folder.join("stentor.toml");
    let import = |dry: bool| {
        let mut command = server::stentor();
        command.args(["import", "mosquitto", "--json"]);
        command.arg(&mosquitto.config).arg("--output").arg(&output);
        command.arg("--data-dir").arg(plan.data_dir());
        if dry {
            command.arg("--dry-run");
        }
        let text = process::run(&mut command).success();
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        answer
    };
    let planned = import(true);
    assert!(!output.exists() && !plan.data_dir().exists());
    let done = import(false);
    assert_eq!(planned["not_carried"], done["not_carried"]);
    assert_eq!(done["users"], USERS + 1);
    let troubles = done["not_carried"].as_array().expect("a list");
    let told: Vec<&str> = troubles
        .iter()
        .filter_map(|one| one["text"].as_str())
        .collect();
    assert_eq!(told, lost, "{done}");
    for remedy in remedies {
        let mut command = server::stentor();
        command.args(["role", "change"]).args(*remedy);
        process::run(command.arg("--data-dir").arg(plan.data_dir())).success();
    }
    let config = fs::read_to_string(&output).expect("it was written");
    assert!(config.contains("m.sock"), "{config}");
    let stentor = plan
        .config(&config)
        .arg("--listen")
        .arg("mqtt://127.0.0.1:0")
        .anonymous()
        .start();
    let here = ask(&|| stentor.dial());
    let there = ask(&|| Raw::unix(&mosquitto.socket));
    let differ: Vec<&String> = here.symmetric_difference(&there).collect();
    assert!(differ.is_empty(), "{differ:?}");
    assert!(here.len() > 200, "{}", here.len());
}

#[test]
fn both_servers_answer_the_same_thousand_questions() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let passwords = passwords(folder.path());
    let acl = file(folder.path(), "acl", &acl());
    let lines = format!(
        "password_file {}\nacl_file {}\n",
        passwords.display(),
        acl.display()
    );
    check(folder.path(), &lines, &["user root"], &[]);
}

/// A rule as the plugin for dynamic security keeps it. Those that deny come first.
fn rule(kind: &str, topic: &str, allow: bool) -> Value {
    let priority = i32::from(!allow);
    json!({ "acltype": kind, "topic": topic, "priority": priority, "allow": allow })
}

fn both(topic: &str) -> Vec<Value> {
    let kinds = [
        "publishClientSend",
        "publishClientReceive",
        "subscribePattern",
    ];
    kinds.map(|kind| rule(kind, topic, true)).to_vec()
}

/// The rules of a user alone, without chance.
fn own_rules(number: usize) -> Vec<Value> {
    const FILTERS: [&str; 8] = ["a/#", "+/b", "b/+/c", "c", "d/#", "+/+/c", "b/#", "a/+"];
    let mut rules = Vec::new();
    for at in 0..3 + number % 3 {
        let topic = FILTERS[(number * 5 + at * 3) % FILTERS.len()];
        match (number * 7 + at * 2) % 5 {
            0 => rules.push(rule("publishClientSend", topic, true)),
            1 => rules.push(rule("subscribePattern", topic, true)),
            2 => rules.push(rule("publishClientSend", topic, false)),
            3 => rules.push(rule("publishClientReceive", topic, false)),
            _ => rules.extend(both(topic)),
        }
    }
    rules
}

/// Clients, groups and roles as the plugin for dynamic security keeps them: each client has a role
/// of its own, and two groups give more.
fn dynamic_security(passwords: &str) -> Value {
    let named = |name: &str| json!({ "rolename": name, "priority": 0 });
    let (own, nobody) = ([both("p/u1/#"), both("q/c-u2")], [both("a/#"), both("end")]);
    let mut roles = vec![
        json!({ "rolename": "everything", "acls": both("#") }),
        json!({ "rolename": "end", "acls": both("end") }),
        json!({ "rolename": "own", "acls": own.concat() }),
        json!({ "rolename": "nobody", "acls": nobody.concat() }),
    ];
    let mut clients = Vec::new();
    for line in passwords.lines() {
        let (name, hash) = line.split_once(':').expect("a name and a hash");
        let [_, _, iterations, salt, hash] = hash.split('$').collect::<Vec<_>>()[..] else {
            panic!("no $7$ in {line}");
        };
        let number: usize = name.trim_start_matches('u').parse().unwrap_or(0);
        let acls = own_rules(number);
        let role = match name {
            "root" => "everything",
            name => {
                roles.push(json!({ "rolename": format!("of-{name}"), "acls": acls }));
                &format!("of-{name}")
            }
        };
        let iterations: u32 = iterations.parse().expect("a number");
        clients.push(json!({
            "username": name, "password": hash, "salt": salt, "iterations": iterations,
            "roles": [named(role)],
        }));
    }
    let members: Vec<Value> = (0..USERS)
        .map(|user| json!({ "username": format!("u{user}") }))
        .collect();
    json!({
        "defaultACLAccess": {
            "publishClientSend": false, "publishClientReceive": true, "subscribe": false,
            "unsubscribe": true,
        },
        "clients": clients,
        "groups": [
            { "groupname": "all", "roles": [named("end")], "clients": members },
            { "groupname": "some", "roles": [named("own")], "clients": members[..4] },
            { "groupname": "guests", "roles": [named("nobody")], "clients": [] },
        ],
        "roles": roles,
        "anonymousGroup": "guests",
    })
}

#[test]
fn dynamic_security_answers_the_same_thousand_questions() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let passwords = passwords(folder.path());
    let text = fs::read_to_string(passwords).expect("the file is there");
    let json = dynamic_security(&text).to_string();
    let json = file(folder.path(), "dynamic-security.json", &json);
    let plugin = tools::mosquitto_plugin("mosquitto_dynamic_security.so");
    let lines = format!(
        "plugin {}\nplugin_opt_config_file {}\n",
        plugin.display(),
        json.display()
    );
    check(folder.path(), &lines, &["user root"], &[]);
}

/// Some users are of the plugin and of the files, the others of the files alone.
#[test]
fn dynamic_security_beside_files_answers_the_same_thousand_questions() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let passwords = passwords(folder.path());
    let text = fs::read_to_string(&passwords).expect("the file is there");
    let is_of_plugin = |line: &&str| !matches!(&line[..2], "u6" | "u7" | "u8");
    let of_plugin: Vec<&str> = text.lines().filter(is_of_plugin).collect();
    let json = dynamic_security(&of_plugin.join("\n")).to_string();
    let json = file(folder.path(), "dynamic-security.json", &json);
    // There the plugin is asked before a line that denies.
    let acl = acl();
    let acl = acl.lines().filter(|line| !line.contains(" deny "));
    let acl = acl.map(|line| format!("{line}\n")).collect::<String>();
    let acl = file(folder.path(), "acl", &acl);
    let plugin = tools::mosquitto_plugin("mosquitto_dynamic_security.so");
    let lines = format!(
        "plugin {}\nplugin_opt_config_file {}\npassword_file {}\nacl_file {}\n",
        plugin.display(),
        json.display(),
        passwords.display(),
        acl.display()
    );
    let known = of_plugin.iter().map(|line| {
        let (name, _) = line.split_once(':').expect("a name and a hash");
        format!("{name}:…")
    });
    let known: Vec<String> = known.collect();
    let lost = ["user root"]
        .into_iter()
        .chain(known.iter().map(String::as_str));
    let lost: Vec<&str> = lost.chain(["beside dynamic security"]).collect();
    let everything = ["--add", "allow subscribe #"];
    let remedies =
        ["mosquitto-default", "anonymous"].map(|role| [&[role], &everything[..]].concat());
    check(folder.path(), &lines, &lost, &[&remedies[0], &remedies[1]]);
}

/// What fails leaves no configuration behind that looks like the work of one that did not.
#[test]
fn an_import_that_fails_writes_no_configuration() {
    let plan = Plan::new();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let acl = file(
        folder.path(),
        "acl",
        "user ann\ntopic read a/#\ntopic frobnicate x\ntopic a b\n",
    );
    let text = format!("listener 1883\nacl_file {}\n", acl.display());
    let config = file(folder.path(), "mosquitto.conf", &text);
    let output = folder.path().join("stentor.toml");
    let run = |args: &[&str]| {
        let mut command = server::stentor();
        command.args(args).arg("--data-dir").arg(plan.data_dir());
        process::run(&mut command)
    };
    let config = config.to_str().expect("plain names");
    let out = output.to_str().expect("plain names");
    let import = ["import", "mosquitto", config, "--output", out];
    run(&["user", "add", "ann", "--no-password"]).success();
    for dry in [&["--dry-run"][..], &[]] {
        let refusal = run(&[&import[..], dry].concat()).refusal();
        assert!(
            refusal.contains("user \"ann\"") && refusal.contains("--replace"),
            "{refusal}"
        );
    }
    // Nor has a role become of it.
    run(&["role", "show", "mosquitto-ann"]).refusal();
    let audit = fs::read_to_string(plan.data_dir().join("audit.log")).expect("it is there");
    assert_eq!(audit.lines().count(), 1, "{audit}");
    let left = fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(left.count(), 2, "nothing but what was there");
    let told = run(&[&import[..], &["--replace"]].concat()).success();
    assert!(output.exists());
    for part in ["acl:3: topic frobnicate x", "acl:4: topic a b", "readwrite"] {
        assert!(told.contains(part), "{told}");
    }
    // Nothing of them has become a rule.
    let shown = run(&["role", "show", "mosquitto-ann"]).success();
    assert!(
        !shown.contains("frobnicate") && !shown.contains("a b"),
        "{shown}"
    );
    let before = fs::read_to_string(&output).expect("it was written");
    let refusal = run(&[&import[..], &["--replace"]].concat()).refusal();
    assert!(refusal.contains("exists"), "{refusal}");
    let after = fs::read_to_string(&output).expect("it is still there");
    assert_eq!(before, after);
    let left = fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(left.count(), 3, "no draft is left");
}

/// What strangers may is as much somebody's work as any other role, unless it is as it was shipped.
#[test]
fn a_role_of_strangers_that_was_changed_is_not_overwritten() {
    let plan = Plan::new();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let acl = file(folder.path(), "acl", "topic read news/#\n");
    let text = format!(
        "listener 1883\nallow_anonymous true\nacl_file {}\n",
        acl.display()
    );
    let config = file(folder.path(), "mosquitto.conf", &text);
    let run = |args: &[&str]| {
        let mut command = server::stentor();
        command.args(args).arg("--data-dir").arg(plan.data_dir());
        process::run(&mut command)
    };
    let import = |output: &str, more: &[&str]| {
        let output = folder.path().join(output);
        let words = [&config, &output].map(|path| path.to_str().expect("plain names"));
        let [config, output] = words;
        run(&[
            &["import", "mosquitto", config, "--output", output][..],
            more,
        ]
        .concat())
    };
    // A store of its own, with the roles that every one has.
    run(&["user", "add", "ann", "--no-password"]).success();
    import("first.toml", &[]).success();
    let shown = || run(&["role", "show", "anonymous"]).success();
    let taken = shown();
    assert!(taken.contains("news/#"), "{taken}");
    run(&["role", "change", "anonymous", "--add", "deny both secret/#"]).success();
    let changed = shown();
    let refusal = import("second.toml", &[]).refusal();
    assert!(refusal.contains("role \"anonymous\""), "{refusal}");
    assert_eq!(shown(), changed);
    import("second.toml", &["--replace"]).success();
    assert_eq!(shown(), taken);
    // That there is none is somebody's work too.
    run(&["role", "delete", "anonymous"]).success();
    let refusal = import("third.toml", &[]).refusal();
    assert!(
        refusal.contains("role \"anonymous\" (deleted here)"),
        "{refusal}"
    );
    run(&["role", "show", "anonymous"]).refusal();
    import("third.toml", &["--replace"]).success();
    assert_eq!(shown(), taken);
}

/// Two servers become one: what both imports make of it is made once.
#[test]
fn a_second_import_finds_what_both_have_as_it_is() {
    for patterns in ["", "pattern p/%u\n"] {
        let plan = Plan::new();
        let folder = tempfile::tempdir().expect("a folder can be made");
        let run = |args: &[&str]| {
            let mut command = server::stentor();
            command.args(args).arg("--data-dir").arg(plan.data_dir());
            process::run(&mut command)
        };
        let import = |user: &str, patterns: &str| {
            let rules = format!("topic read news\nuser {user}\ntopic a\n{patterns}");
            let acl = file(folder.path(), &format!("{user}.acl"), &rules);
            let text = format!("listener 1883\nacl_file {}\n", acl.display());
            let config = file(folder.path(), &format!("{user}.conf"), &text);
            let output = folder.path().join(format!("{user}.toml"));
            let words = [&config, &output].map(|path| path.to_str().expect("plain names"));
            run(&["import", "mosquitto", words[0], "--output", words[1]])
        };
        for user in ["ann", "bob"] {
            import(user, patterns).success();
            run(&["role", "show", &format!("mosquitto-{user}")]).success();
        }
        // Without patterns there is no role of them.
        let shown = run(&["role", "show", "mosquitto-patterns"]);
        assert_eq!(shown.status.success(), !patterns.is_empty(), "{shown}");
        // What is not the same is told.
        let refusal = import("cid", "pattern q/%u\n").refusal();
        assert!(refusal.contains("role \"anonymous\""), "{refusal}");
        let is_told = refusal.contains("role \"mosquitto-patterns\"");
        assert_eq!(is_told, !patterns.is_empty(), "{refusal}");
        run(&["user", "show", "cid"]).refusal();
    }
}

/// What `mosquitto_ctrl dynsec init` makes has a role and a user `admin`, as Stentor has.
#[test]
fn the_administrator_of_dynamic_security_takes_nobodys_place() {
    let plan = Plan::new();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let json = folder.path().join("d.json");
    let mut init = tools::mosquitto("mosquitto_ctrl");
    init.args(["dynsec", "init"]).arg(&json);
    process::run(init.args(["admin", "secret"])).success();
    let lines = format!("listener 1883\nplugin_opt_config_file {}\n", json.display());
    let config = file(folder.path(), "mosquitto.conf", &lines);
    let run = |args: &[&str]| {
        let mut command = server::stentor();
        command.args(args).arg("--data-dir").arg(plan.data_dir());
        process::run(&mut command)
    };
    let import = |more: &[&str]| {
        let config = config.to_str().expect("plain names");
        let told = run(&[&["import", "mosquitto", config][..], more].concat()).success();
        for part in ["role admin", "user admin"] {
            assert!(told.contains(part), "{told}");
        }
    };
    let first = folder.path().join("first.toml");
    let first = ["--output", first.to_str().expect("plain names")];
    import(&[&first[..], &["--dry-run"]].concat());
    assert!(!plan.data_dir().exists());
    import(&first);
    let second = folder.path().join("second.toml");
    let second = [
        "--output",
        second.to_str().expect("plain names"),
        "--replace",
    ];
    // Once without and once with an administrator of Stentor's.
    for more in [None, Some(&second)] {
        let role = run(&["role", "show", "admin"]).success();
        assert!(
            role.contains("both #") && !role.contains("$CONTROL"),
            "{role}"
        );
        let role = run(&["role", "show", "mosquitto-admin"]).success();
        assert!(role.contains("$CONTROL/dynamic-security/#"), "{role}");
        run(&["user", "show", "mosquitto-admin"]).success();
        if let Some(more) = more {
            run(&["user", "add", "admin", "--no-password", "--role", "admin"]).success();
            import(more);
        }
    }
    let user = run(&["user", "show", "admin", "--json"]).success();
    let user: Value = serde_json::from_str(&user).expect("JSON");
    assert_eq!(user["roles"], json!(["admin"]));
    assert_eq!(user["credentials"], json!([]));
    let stentor = plan.tcp().start();
    let mut client = stentor.dial();
    let login = Some(("mosquitto-admin", "secret"));
    client.send(&connect_as(Version::V4, "c", true, login));
    assert_eq!(client.expect(2).body[1], 0);
}
