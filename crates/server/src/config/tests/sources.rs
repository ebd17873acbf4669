//! Precedence: flag > environment > file > default.

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
fn unknown_variables_are_errors_when_they_are_meant_for_us() {
    for (name, words) in [
        ("STENTOR_LOG__LEVLE", "did you mean \"level\"?"),
        ("STENTOR_NOTHING__AT_ALL", "no such key"),
        (
            "STENTOR_LISTENER__URL",
            "write it like STENTOR_LISTENER__N__URL",
        ),
        (
            "STENTOR_LISTENER__X__URL",
            "\"x\" is not the number of an entry",
        ),
        ("STENTOR_LOG__0__LEVEL", "write it like STENTOR_LOG__LEVEL"),
        ("STENTOR___SHARDS", "no such key"),
        ("STENTOR_A__B__C__D", "no such key"),
        ("STENTOR_LISTENER__0__KEY_FILE", "no such key"),
    ] {
        let message = Case::default().variable(name, "1").bad();
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[test]
fn other_programs_variables_are_passed_over() {
    let config = Case::default()
        .variable("STENTOR_PORT_1883_TCP_ADDR", "10.0.0.1")
        .variable("STENTOR_SERVICE_HOST", "10.0.0.1")
        .variable("PATH", "/bin")
        .good();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let config = Case::default().variable("STENTOR_SHARD", "3").good();
    assert_eq!(
        config.warnings,
        ["environment variable STENTOR_SHARD names no key; did you mean STENTOR_SHARDS?"]
    );
}

#[test]
fn a_secret_comes_from_a_file_that_a_variable_names() {
    let hash = "$argon2id$v=19$x";
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
