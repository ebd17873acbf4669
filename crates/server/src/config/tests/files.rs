//! Tables of good and bad files.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use stentor_hub::SlowPolicy;

use super::Case;
use crate::config::check::DEFAULT_LISTENERS;
use crate::config::{Format, Level};

const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo";

#[test]
fn nothing_given_is_a_working_configuration() {
    let config = Case::default().good();
    assert_eq!(config.general.data_dir, Path::new("data"));
    assert_eq!(config.general.shards, 0);
    assert_eq!(config.log.level, Level::Info);
    assert_eq!(
        config.limits.session_expiry_max,
        Duration::from_secs(7 * 86_400)
    );
    assert!(
        config
            .listeners
            .iter()
            .all(|listener| !listener.allows_anonymous())
    );
    let urls: Vec<String> = config.listeners.iter().map(|l| l.url.to_string()).collect();
    assert_eq!(urls, DEFAULT_LISTENERS);
}

/// A full disk, a template or a slow copy leaves such a file; the defaults would close every
/// listener.
#[test]
fn a_file_without_any_key_is_refused() {
    for text in [
        "",
        "\n",
        "# shards = 3\n",
        "[log]\n",
        "[log]\n[limits]\n# memory = 0\n",
    ] {
        let message = Case::file(text).bad();
        assert!(
            message.starts_with("etc/stentor.toml:1: there is no key"),
            "{message}"
        );
    }
    Case::file("shards = 3\n").good();
    Case::file("[log]\nlevel = \"debug\"\n").good();
}

#[test]
fn a_full_file_is_read() {
    let text = format!(
        r#"
        data_dir = "/var/lib/stentor"
        shards = 3
        coalesce = "250us"
        [log]
        level = "debug"
        format = "json"
        [limits]
        packet_bytes = 65536
        queue_bytes = "1 MiB"
        session_expiry_max = "never"
        keep_alive_max = 0
        [[listener]]
        url = "wss://0.0.0.0:8084"
        certificate = "server.crt"
        key = "/keys/server.key"
        path = "/mqtt"
        allowed_origins = ["https://example.org"]
        [[listener]]
        url = "unix:run/stentor.sock"
        mode = "0600"
        group = "mail"
        [[policy]]
        filter = "ticks/#"
        qos0 = "drop-oldest"
        [[user]]
        name = "alice"
        password_hash = "{HASH}"
        admin = true
        "#
    );
    let config = Case::file(&text).good();
    assert_eq!(config.general.coalesce, Duration::from_micros(250));
    assert_eq!(config.log.format, Format::Json);
    assert_eq!(config.limits.packet_bytes, 65_536);
    assert_eq!(config.limits.queue_bytes, 1 << 20);
    assert_eq!(config.limits.session_expiry_max, Duration::MAX);
    // Relative paths start at the folder of the file.
    assert_eq!(
        config.listeners[0].certificate.as_deref(),
        Some(Path::new("etc/server.crt"))
    );
    assert_eq!(
        config.listeners[0].key.as_deref(),
        Some(Path::new("/keys/server.key"))
    );
    assert_eq!(
        config.listeners[1].url.unix_path(),
        Some(Path::new("etc/run/stentor.sock"))
    );
    assert_eq!(config.listeners[1].mode, 0o600);
    assert_eq!(config.policies[0].qos0, SlowPolicy::DropOldest);
    assert_eq!(config.policies[0].qos1, SlowPolicy::Disconnect);
    assert_eq!(
        config.users[0]
            .password_hash
            .as_ref()
            .map(|hash| hash.reveal()),
        Some(HASH)
    );
}

/// Each bad file and what its message has to say; the first word is the line.
const BAD: &[(&str, &[&str])] = &[
    ("packet_bytes = 1", &["toml:1:", "\"limits.packet_bytes\""]),
    (
        "\nshard = 3",
        &["toml:2:", "no key \"shard\"", "did you mean \"shards\"?"],
    ),
    (
        "[log]\nlevle = \"info\"",
        &["toml:2:", "in log", "\"level\""],
    ),
    (
        "[limits]\nshards = 1",
        &["toml:2:", "\"shards\" belongs above the first [section]"],
    ),
    (
        "[[listener]]\nurl = \"mqtt://[::1]:1\"\ndata_dir = \"x\"",
        &["toml:3:", "\"data_dir\" belongs above the first [section]"],
    ),
    (
        "[limit]\ninflight = 1",
        &["toml:1:", "no section [limit]", "[limits]"],
    ),
    ("[[listeners]]\nurl = \"mqtt://[::1]:1\"", &["[[listener]]"]),
    (
        "[zebra]\n",
        &["no section [zebra]", "docs/configuration.md"],
    ),
    ("log = 3", &["toml:1:", "log is a section", "[log]"]),
    (
        "[listener]\nurl = \"mqtt://[::1]:1\"",
        &["[[listener]]", "double brackets"],
    ),
    ("listener = [1]", &["[[listener]]"]),
    (
        "shards = 65",
        &[
            "toml:1: shards = 65: the value is too large",
            "from 0 to 64",
        ],
    ),
    ("shards = -1", &["shards = -1: the number is negative"]),
    ("shards = \"3\"", &["shards = \"3\": this is not a number"]),
    (
        "shards = 3.5",
        &[
            "toml:1: shards = 3.5: this is not a whole number",
            "a whole number from 0 to 64",
        ],
    ),
    (
        "[[policy]]\nfilter = \"a\"\nmax_rate = 1.0",
        &[
            "max_rate = 1.0: this is not a whole number",
            "a whole number from 0 to 1000000",
        ],
    ),
    (
        "shards = nan",
        &["shards = nan: this is not a whole number"],
    ),
    (
        "shards = 99999999999999999999",
        &["shards = 99999999999999999999: the number is too large"],
    ),
    (
        "shards = 0x7fffffffffffffffffffff",
        &["0x7fffffffffffffffffffff: the number is too large"],
    ),
    ("shards = 1\nshards = 2", &["toml:2:", "not valid TOML"]),
    ("shards =", &["toml:1:", "not valid TOML"]),
    ("data_dir = \"\"", &["the path is empty"]),
    (
        "allow_anonymous = 1",
        &["neither true nor false", "true or false"],
    ),
    (
        "[log]\nlevel = \"loud\"",
        &["\"loud\"", "\"error\", \"warn\""],
    ),
    (
        "[sys]\ninterval = 10",
        &["interval = 10: the unit is missing", "1m30s"],
    ),
    (
        "[sys]\ninterval = \"2 parsecs\"",
        &["\"parsecs\" is not a unit of time"],
    ),
    (
        "[limits]\npacket_bytes = \"1 GiB\"",
        &["too large", "1KiB to 256MiB"],
    ),
    (
        "[limits]\nlogin_timeout = \"never\"",
        &["whole number", "1s to 5m"],
    ),
    (
        "[limits]\nqueue_bytes = \"64KiB\"",
        &["toml:2:", "limits.queue_bytes is less than"],
    ),
    (
        "[[listener]]\npath = \"/\"",
        &["toml:1:", "listener.url is missing"],
    ),
    (
        "[[listener]]\nurl = \"tcp://[::1]:1\"",
        &["\"tcp\" is not a scheme", "mqtt://HOST:PORT"],
    ),
    (
        "[[listener]]\nurl = \"mqtts://[::1]:1\"",
        &[
            "toml:2:",
            "mqtts://[::1]:1 needs a certificate",
            "--tls-certificate",
        ],
    ),
    (
        "[[listener]]\nurl = \"mqtts://[::1]:1\"\ncertificate = \"x\"",
        &["toml:2:", "one half", "`key`"],
    ),
    (
        "[[listener]]\nurl = \"mqtt://[::1]:1\"\nkey = \"x\"",
        &["not encrypted", "mqtts://"],
    ),
    (
        "[[listener]]\nurl = \"mqtt://[::1]:1\"\nclient_certificates = \"required\"",
        &["toml:3:", "`client_certificates`", "encrypted"],
    ),
    (
        "[[listener]]\nurl = \"mqtts://[::1]:1\"\ncertificate = \"x\"\nkey = \"x\"\n\
         client_certificates = \"required\"",
        &["toml:5:", "`client_certificates`", "give `client_ca`"],
    ),
    (
        "[[listener]]\nurl = \"mqtts://[::1]:1\"\ncertificate = \"x\"\nkey = \"x\"\n\
         client_ca = \"x\"",
        &["toml:5:", "`client_ca`", "\"required\""],
    ),
    (
        "[[listener]]\nurl = \"mqtts://[::1]:1\"\ncertificate = \"x\"\nkey = \"x\"\n\
         certificate_user = \"cn\"",
        &["toml:5:", "`certificate_user`", "\"required\""],
    ),
    (
        "[[listener]]\nurl = \"mqtt://[::1]:1\"\nproxies = [\"localhost\"]",
        &["toml:3:", "not an address or a network", "10.0.0.0/8"],
    ),
    (
        "[[listener]]\nurl = \"unix:x\"\nproxies = [\"127.0.0.1\"]",
        &["toml:3:", "`proxies`", "network"],
    ),
    (
        "[[listener]]\nurl = \"mqtt://[::1]:1\"\npath = \"/x\"",
        &["toml:3:", "`path`", "WebSocket"],
    ),
    (
        "[[listener]]\nurl = \"mqtt://[::1]:1\"\nmode = \"0600\"",
        &["toml:3:", "`mode`"],
    ),
    (
        "[[listener]]\nurl = \"unix:x\"\nmode = \"0999\"",
        &["is not a file mode", "octal"],
    ),
    (
        "[[listener]]\nurl = \"unix:x\"\nmode = 660",
        &["not a text", "\"0660\""],
    ),
    (
        "[[listener]]\nurl = \"ws://[::1]:1\"\npath = \"mqtt\"",
        &["is not a path of a URL"],
    ),
    (
        "[[listener]]\nurl = \"ws://[::1]:1\"\nallowed_origins = [\"example.org\"]",
        &["\"example.org\" is not an origin"],
    ),
    (
        "[[listener]]\nurl = \"ws://[::1]:1\"\nallowed_origins = [1]",
        &["1 is not a text"],
    ),
    (
        "[[listener]]\nurl = \"mqtt://[::1]:1\"\n[[listener]]\nurl = \"ws://[::1]:1\"",
        &["toml:4:", "there already", "toml:2)"],
    ),
    (
        "allow_anonymous = true\n[[listener]]\nurl = \"mqtt://0.0.0.0:1\"",
        &[
            "toml:3:",
            "mqtt://0.0.0.0:1",
            "`anonymous = true`",
            "STENTOR_LISTENER__0__ANONYMOUS",
        ],
    ),
    (
        "[[policy]]\nfilter = \"a/#/b\"",
        &["toml:2:", "policy.filter", "topic filter"],
    ),
    (
        "[[policy]]\nfilter = \"a\"\n[[policy]]\nfilter = \"a\"",
        &["toml:4:", "there already"],
    ),
    (
        "[[policy]]\nfilter = \"a\"\ndelay = \"2s\"",
        &["policy.delay", "1s"],
    ),
    (
        "[[policy]]\nfilter = \"a\"\nkeep = \"last\"\nhistory_age = \"1h\"",
        &["toml:4:", "history_age", "keep = \"all\""],
    ),
    (
        "[[policy]]\nfilter = \"a\"\nkeep = \"all\"\nhistory = 0",
        &["toml:4:", "policy.history", "from 1 to 1000000"],
    ),
    (
        "[[policy]]\nfilter = \"a\"\nkeep = \"all\"\nhistory_bytes = 10",
        &["policy.history_bytes", "from 1KiB"],
    ),
    (
        "[[policy]]\nfilter = \"a\"\nkeep = \"all\"\nhistory_age = \"20000d\"",
        &["policy.history_age"],
    ),
    ("[[queue]]\nname = \"a\"", &["queue.filter"]),
    (
        "[[queue]]\nname = \"a/b\"\nfilter = \"a\"",
        &["queue.name", "a/b"],
    ),
    (
        "[[queue]]\nname = \"a\"\nfilter = \"a\"\n[[queue]]\nname = \"a\"\nfilter = \"a\"",
        &["toml:5:", "there already"],
    ),
    (
        "[[queue]]\nname = \"a\"\nfilter = \"$SYS/#\"",
        &["queue.filter", "$SYS/#", "server's own"],
    ),
    (
        "[sessions]\nenabled = false\n[[queue]]\nname = \"a\"\nfilter = \"a\"",
        &["sessions.enabled = true"],
    ),
    (
        "[[policy]]\nfilter = \"a\"\nqos0 = \"spool\"",
        &["\"spool\"", "\"drop-newest\""],
    ),
    (
        "[[user]]\nname = \"a/b\"\npassword_hash = \"x\"",
        &["toml:2:", "'/'", "toml:3:", "(secret)"],
    ),
    ("[[user]]\nname = \"a\"", &["user a has no password"]),
    (
        "[[adaptor]]\nzone = \"game\"",
        &["`file = \"SCRIPT.luau\"`", "`builtin = \"turns\"`"],
    ),
    (
        "[[adaptor]]\nfile = \"a.luau\"\nbuiltin = \"turns\"",
        &["toml:3:", "either `file` or `builtin`"],
    ),
    (
        "[[adaptor]]\nbuiltin = \"chess\"",
        &["toml:2:", "no adaptor \"chess\"", "these do: turns"],
    ),
    (
        "[[adaptor]]\nbuiltin = \"turns\"\nroom = \"tea\"",
        &["toml:3:", "needs `zone`"],
    ),
    (
        "[[adaptor]]\nbuiltin = \"turns\"\nzone = \"a\"\n\
         [[adaptor]]\nbuiltin = \"turns\"\nzone = \"b\"\n\
         [[adaptor]]\nbuiltin = \"turns\"\nzone = \"b\"\nroom = \"tea\"",
        &["toml:8:", "\"turns\"", "toml:5", "different zones or rooms"],
    ),
    (
        "[[user]]\nname = \"a\"\npassword = \"x\"",
        &["toml:3:", "`password_hash`", "`stentor hash-password`"],
    ),
    ("coalesce = \"1.5ms\"", &["whole numbers", "1500us"]),
    (
        "[tls]\ncertificate = \"a.crt\"\n[[listener]]\nurl = \"mqtts://[::1]:1\"",
        &["not its key", "--tls-key"],
    ),
    (
        "[tls]\nkey = \"a.key\"\n[[listener]]\nurl = \"mqtts://[::1]:1\"",
        &["not its certificate", "--tls-certificate"],
    ),
    (
        "[[user]]\nname = \"a\"\npassword_file = \"x\"",
        &["cannot read etc/x"],
    ),
    (
        "response_information = \"\"\"a\nb\"\"\"",
        &["control characters"],
    ),
];

#[test]
fn bad_files_are_refused_with_place_reason_and_remedy() {
    for (text, words) in BAD {
        let message = Case::file(text).bad();
        for word in *words {
            assert!(message.contains(word), "{text}\n{message}\nlacks {word}");
        }
    }
}

/// Keys below a header of the wrong form are keys: the file was not cut off.
#[test]
fn single_brackets_are_one_problem() {
    let message = Case::file("[listener]\nurl = \"mqtt://[::1]:1\"\n").bad();
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn all_problems_are_told_in_the_order_of_the_file() {
    let message = Case::file("zzz = 1\nshards = 99\n[log]\nlevel = 3\n").bad();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 3, "{message}");
    for (line, place) in lines.iter().zip(["toml:1:", "toml:2:", "toml:4:"]) {
        assert!(line.contains(place), "{message}");
    }
}

#[test]
fn anonymous_access_to_the_network_is_refused_in_one_sentence() {
    let listeners = "[[listener]]\nurl = \"mqtt://0.0.0.0:1\"\n[[listener]]\nurl = \"ws://[::]:2\"";
    let message = Case::file(listeners)
        .variable("STENTOR_ALLOW_ANONYMOUS", "yes")
        .bad();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.contains("mqtt://0.0.0.0:1 and ws://[::]:2"),
        "{message}"
    );

    let open = format!("{listeners}\nanonymous = true");
    let config = Case::file(&open).good();
    assert!(!config.listeners[0].allows_anonymous() && config.listeners[1].allows_anonymous());
}

#[test]
fn local_listeners_follow_allow_anonymous() {
    let text = "allow_anonymous = true\n[[listener]]\nurl = \"unix:x\"\n[[listener]]\n\
                url = \"mqtt://localhost:1\"\nanonymous = false";
    let config = Case::file(text).good();
    assert!(config.listeners[0].allows_anonymous() && !config.listeners[1].allows_anonymous());
}

#[test]
fn encrypted_listeners_share_the_certificate_of_the_tls_section() {
    let text = "[tls]\ncertificate = \"a.crt\"\nkey = \"a.key\"\n[[listener]]\n\
                url = \"mqtts://[::1]:1\"\n[[listener]]\nurl = \"mqtt://[::1]:2\"";
    let config = Case::file(text).good();
    assert_eq!(
        config.listeners[0].key.as_deref(),
        Some(Path::new("etc/a.key"))
    );
    assert_eq!(config.listeners[1].key, None);
}

#[test]
fn a_password_file_gives_the_hash() {
    let text = "[[user]]\nname = \"a\"\npassword_file = \"a.hash\"";
    let config = Case::file(text)
        .with("etc/a.hash", &format!("{HASH}\n"))
        .good();
    assert_eq!(
        config.users[0]
            .password_hash
            .as_ref()
            .map(|hash| hash.reveal()),
        Some(HASH)
    );
    assert!(
        !format!("{config:?}").contains(HASH),
        "a secret is not shown"
    );

    let message = Case::file(text).with("etc/a.hash", "hunter2\n").bad();
    assert!(
        message.contains("unknown kind of credential") && !message.contains("hunter2"),
        "{message}"
    );
}

#[test]
fn a_missing_file_is_one_clear_sentence() {
    let sources = crate::config::Sources {
        file: Some("nowhere.toml".into()),
        environment: Vec::new(),
        flags: Vec::new(),
        read_file: Box::new(|_| Err(std::io::ErrorKind::NotFound.into())),
    };
    let message = crate::config::Config::load(&sources)
        .expect_err("no file")
        .to_string();
    assert_eq!(
        message,
        "nowhere.toml: the configuration file cannot be read: entity not found"
    );
}

/// A piece of text that is likely to be TOML about our keys.
fn fragment() -> impl Strategy<Value = String> {
    let keys: Vec<String> = crate::config::keys()
        .map(|key| key.name.to_owned())
        .collect();
    let headers: Vec<String> = crate::config::SECTIONS.iter().map(|s| s.header()).collect();
    let value = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}")),
        "[ -~]{0,12}".prop_map(|text| format!("{text:?}")),
        Just("true".to_owned()),
        Just("[[], {a = 1}]".to_owned()),
        Just("1979-05-27".to_owned()),
        "[0-9]{1,4} ?(us|s|KiB|MB|d)?".prop_map(|text| format!("{text:?}")),
    ];
    prop_oneof![
        (proptest::sample::select(keys), value).prop_map(|(key, value)| format!("{key} = {value}")),
        proptest::sample::select(headers),
        "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = Case::file(&text).load();
    }

    #[test]
    fn no_toml_makes_the_reader_panic(lines in proptest::collection::vec(fragment(), 0..12)) {
        let _ = Case::file(&lines.join("\n")).load();
    }

    #[test]
    fn no_environment_makes_the_reader_panic(name in "[A-Z_0-9]{0,30}", value in "\\PC{0,20}") {
        let _ = Case::default().variable(&format!("STENTOR_{name}"), &value).load();
    }
}
