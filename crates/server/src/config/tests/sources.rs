//! Precedence: flag > environment > file > default.

use std::path::Path;

use super::Case;
use crate::config::Level;

#[test]
fn a_flag_goes_before_the_environment_and_that_before_the_file() {
    let file = "shards = 1\n[log]\nlevel = \"error\"";
    assert_eq!(Case::file(file).good().general.shards, 1);
    let case = Case::file(file).variable("STENTOR_SHARDS", "2");
    assert_eq!(case.good().general.shards, 2);
    let case = Case::file(file)
        .variable("STENTOR_SHARDS", "2")
        .flag("shards", "3");
    let config = case.variable("STENTOR_LOG__LEVEL", "debug").good();
    assert_eq!(config.general.shards, 3);
    assert_eq!(config.log.level, Level::Debug);
}

#[test]
fn a_value_that_another_source_covers_is_not_read() {
    let config = Case::file("shards = 99").flag("shards", "3").good();
    assert_eq!(config.general.shards, 3);
}

#[test]
fn problems_name_their_source() {
    let message = Case::default().variable("STENTOR_SHARDS", "many").bad();
    assert!(message.starts_with("environment variable STENTOR_SHARDS: shards = \"many\""));
    let message = Case::default().flag("log.level", "loud").bad();
    assert!(
        message.starts_with("--log-level: log.level = \"loud\""),
        "{message}"
    );
    assert!(
        Case::default()
            .flag("nonsense", "1")
            .bad()
            .contains("no key \"nonsense\"")
    );
}

#[test]
fn variables_reach_into_lists_by_number() {
    let file = "[[listener]]\nurl = \"mqtt://0.0.0.0:1\"";
    let config = Case::file(file)
        .variable("STENTOR_LISTENER__1__URL", "ws://[::]:2")
        .variable("STENTOR_LISTENER__0__ANONYMOUS", "true")
        .variable("STENTOR_LISTENER__1__ALLOWED_ORIGINS", "http://a, http://b")
        .good();
    assert!(config.listeners[0].allows_anonymous());
    assert_eq!(config.listeners[1].url.to_string(), "ws://[::]:2");
    assert_eq!(
        config.listeners[1].allowed_origins,
        ["http://a", "http://b"]
    );

    let message = Case::file(file)
        .variable("STENTOR_LISTENER__2__URL", "ws://[::]:2")
        .bad();
    assert!(
        message.contains("leave a gap; the next one is number 1"),
        "{message}"
    );
}

#[test]
fn unknown_variables_are_errors_with_a_suggestion() {
    for (name, words) in [
        ("STENTOR_LOG__LEVLE", "did you mean STENTOR_LOG__LEVEL?"),
        ("STENTOR_LOG_LEVEL", "did you mean STENTOR_LOG__LEVEL?"),
        ("STENTOR_LOGLEVEL", "did you mean STENTOR_LOG__LEVEL?"),
        (
            "STENTOR_LIMITS_PACKET_BYTES",
            "did you mean STENTOR_LIMITS__PACKET_BYTES?",
        ),
        (
            "STENTOR_LIMIT__INFLIGHT",
            "did you mean STENTOR_LIMITS__INFLIGHT?",
        ),
        ("STENTOR_SHARD", "did you mean STENTOR_SHARDS?"),
        ("STENTOR_DATADIR", "did you mean STENTOR_DATA_DIR?"),
        (
            "STENTOR_LISTENER_3_URL",
            "did you mean STENTOR_LISTENER__3__URL?",
        ),
        (
            "STENTOR_AUTH_PASSWORD_FILE",
            "did you mean STENTOR_AUTH__PASSWORD_FILE?",
        ),
        (
            "STENTOR_AUTH_DATABASE_FILE",
            "did you mean STENTOR_AUTH__DATABASE_FILE?",
        ),
        (
            "STENTOR_NOTHING__AT_ALL",
            "no such key; docs/configuration.md lists all",
        ),
        (
            "STENTOR_WHATEVER_THIS_IS",
            "no such key; docs/configuration.md lists all",
        ),
        (
            "STENTOR_LISTENER__URL",
            "write it like STENTOR_LISTENER__N__URL",
        ),
        (
            "STENTOR_LISTENER__X__URL",
            "\"x\" is not the number of an entry",
        ),
        ("STENTOR_LOG__0__LEVEL", "write it like STENTOR_LOG__LEVEL"),
        ("STENTOR___SHARDS", "did you mean STENTOR_SHARDS?"),
        ("STENTOR_A__B__C__D", "no such key"),
        (
            "STENTOR_LISTENER__0__KEY_FILE",
            "did you mean STENTOR_LISTENER__0__KEY?",
        ),
        // Kubernetes would say `tcp://10.0.0.1:1883`.
        ("STENTOR_PORT", "no such key"),
    ] {
        let message = Case::default().variable(name, "1").bad();
        assert!(message.contains(words), "{name}: {message}");
        assert!(message.contains(name), "{name}: {message}");
    }
}

#[test]
fn variables_of_others_are_passed_over() {
    let links = [
        ("STENTOR_PORT", "tcp://10.0.0.1:1883"),
        ("STENTOR_PORT_1883_TCP", "tcp://10.0.0.1:1883"),
        ("STENTOR_PORT_1883_TCP_PROTO", "tcp"),
        ("STENTOR_PORT_1883_TCP_PORT", "1883"),
        ("STENTOR_PORT_1883_TCP_ADDR", "10.0.0.1"),
        ("STENTOR_SERVICE_HOST", "10.0.0.1"),
        ("STENTOR_SERVICE_PORT", "1883"),
        ("STENTOR_SERVICE_PORT_MQTT", "1883"),
        ("STENTOR_WEB_UI_SERVICE_HOST", "10.0.0.1"),
        ("STENTOR_WEB_UI_PORT_80_TCP_ADDR", "10.0.0.1"),
    ];
    let ours = ["PASSWORD", "TOKEN", "SOAK", "CONFIG", "RCPT", "ARG_MAX"];
    let mut case = Case::default().variable("PATH", "/bin");
    for (name, value) in links {
        case = case.variable(name, value);
    }
    for name in ours {
        case = case.variable(&format!("STENTOR_{name}"), "x");
    }
    case.good();
}

#[test]
fn a_secret_comes_from_a_file_that_a_variable_names() {
    let hash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo";
    let case = || {
        Case::default()
            .variable("STENTOR_USER__0__NAME", "alice")
            .variable("STENTOR_USER__0__PASSWORD_HASH_FILE", "/run/alice")
    };
    let config = case().with("/run/alice", &format!("{hash}\n")).good();
    assert_eq!(
        config.users[0]
            .password_hash
            .as_ref()
            .map(|hash| hash.reveal()),
        Some(hash)
    );
    assert!(case().bad().contains("cannot read the file \"/run/alice\""));
    let both = case()
        .with("/run/alice", hash)
        .variable("STENTOR_USER__0__PASSWORD_HASH", hash);
    assert!(both.bad().contains("with and without _FILE"));
}

#[test]
fn listen_flags_replace_the_listeners_of_the_file() {
    let file = "[[listener]]\nurl = \"mqtt://0.0.0.0\"\nanonymous = true\n[[listener]]\n\
                url = \"ws://[::1]:1\"";
    let config = Case::file(file)
        .flag("listener.url", "mqtt://127.0.0.1:0")
        .flag("listener.url", "mqtt://0.0.0.0:1883")
        .good();
    let urls: Vec<String> = config.listeners.iter().map(|l| l.url.to_string()).collect();
    assert_eq!(urls, ["mqtt://127.0.0.1:0", "mqtt://0.0.0.0:1883"]);
    assert!(!config.listeners[0].allows_anonymous());
    assert!(
        config.listeners[1].allows_anonymous(),
        "the entry of the file lends its other keys"
    );
}

#[test]
fn a_variable_opens_a_listener_of_the_command_line() {
    let flags = |case: Case| {
        case.flag("listener.url", "mqtt://0.0.0.0:1")
            .flag("allow_anonymous", "true")
    };
    assert!(flags(Case::default()).bad().contains("anonymous = true"));
    let case = Case::default().variable("STENTOR_LISTENER__0__ANONYMOUS", "true");
    assert!(flags(case).good().listeners[0].allows_anonymous());
    // A variable does not go before the flag.
    let case = Case::default().variable("STENTOR_LISTENER__0__URL", "mqtt://[::1]:2");
    let config = case.flag("listener.url", "mqtt://[::1]:1").good();
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].url.to_string(), "mqtt://[::1]:1");
}

#[test]
fn several_listeners_on_free_ports_are_no_duplicates() {
    let case = Case::default().flag("listener.url", "mqtt://127.0.0.1:0");
    assert_eq!(
        case.flag("listener.url", "mqtt://127.0.0.1:0")
            .good()
            .listeners
            .len(),
        2
    );
}

#[test]
fn the_data_folder_is_told_whatever_else_is_wrong() {
    let check = |case: Case, expected: Result<&str, &str>| match (case.data_dir(), expected) {
        (Ok(folder), Ok(expected)) => assert_eq!(folder, Path::new(expected)),
        (Err(message), Err(words)) => assert!(message.contains(words), "{message}"),
        (found, expected) => panic!("{found:?}, and not {expected:?}"),
    };
    let file = "data_dir = \"/srv/s\"\nshards = 99\nlimt = 1\n[auth]\npassword_hash = 1";
    check(Case::default(), Ok("data"));
    check(Case::file(""), Err("no key"));
    check(Case::file("").flag("data_dir", "f"), Ok("f"));
    check(Case::file("data_dir = \"d\""), Ok("etc/d"));
    check(Case::file(file), Ok("/srv/s"));
    let variable = || Case::file(file).variable("STENTOR_DATA_DIR", "v");
    check(variable(), Ok("v"));
    check(variable().flag("data_dir", "f"), Ok("f"));
    check(Case::file("= no").flag("data_dir", "f"), Ok("f"));
    check(
        Case::default().variable("STENTOR_NONSENSE", "1"),
        Ok("data"),
    );
    // Where the folder may have been meant to stand.
    check(Case::file("= no"), Err("valid TOML"));
    check(Case::file("data_dri = \"d\""), Err("data_dri"));
    check(Case::file("data_dir = 7"), Err("data_dir = 7"));
}
