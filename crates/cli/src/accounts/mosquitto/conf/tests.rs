use super::limits::DEFAULTS;
use super::*;
use crate::accounts::mosquitto::Trouble;

fn taken(text: &str) -> (Plan, Elsewhere) {
    let mut plan = Plan::default();
    let elsewhere = take(&lines("m.conf", text), &mut plan);
    (plan, elsewhere)
}

#[test]
fn without_a_listener_it_is_open_to_this_machine() {
    let (plan, _) = taken("");
    assert!(
        plan.config
            .contains("url = \"mqtt://127.0.0.1:1883\"\nanonymous = true")
    );
    let (plan, _) = taken("allow_anonymous false\n");
    assert!(!plan.config.contains("anonymous"), "{}", plan.config);
}

/// As mosquitto reads its file: a section ends where an option belongs to no bridge.
#[test]
fn what_stands_behind_a_bridge_counts() {
    let (plan, elsewhere) = taken(
        "connection far\naddress far:1883\ntopic # both 0\nremote_username u\n\
         notifications false\nacl_file /a\npassword_file /p\nallow_anonymous false\n\
         max_inflight_messages 5\n",
    );
    let lines: Vec<usize> = plan.troubles.iter().map(|trouble| trouble.number).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5]);
    assert_eq!(elsewhere.passwords, Some("/p".into()));
    assert_eq!(elsewhere.acl, Some("/a".into()));
    assert!(plan.config.contains("inflight = 5"), "{}", plan.config);
    assert!(!plan.config.contains("anonymous"), "{}", plan.config);
}

#[test]
fn listeners_keep_their_options() {
    let (plan, elsewhere) = taken(
        "password_file /p\nacl_file /a\nmax_inflight_messages 5\nlistener 1884 ::1\n\
         listener 9001\nprotocol websockets\nlistener 8883\ncafile /ca\ncertfile /c\n\
         keyfile /k\nrequire_certificate true\nuse_identity_as_username true\n\
         max_connections 7\nsys_interval 60\npersistent_client_expiration 2w\n",
    );
    // What names in certificates come to is carried, and told.
    let told: Vec<&str> = plan.troubles.iter().map(|told| &*told.text).collect();
    let expected = ["protocol websockets", "use_identity_as_username true"];
    assert_eq!(told, expected);
    for part in [
        "url = \"mqtt://[::1]:1884\"\n\n",
        "url = \"ws://0.0.0.0:9001\"\n\n",
        "url = \"mqtts://0.0.0.0:8883\"\ncertificate = \"/c\"\nkey = \"/k\"\n\
         client_certificates = \"required\"\nclient_ca = \"/ca\"\ncertificate_user = \"cn\"\n\
         max_connections = 7\n",
        "inflight = 5\nsession_expiry_max = \"14d\"\n",
        "[sys]\ninterval = \"60s\"",
    ] {
        assert!(plan.config.contains(part), "{part}\n{}", plan.config);
    }
    assert_eq!(elsewhere.passwords, Some("/p".into()));
    assert_eq!(elsewhere.acl, Some("/a".into()));
}

#[test]
fn a_listener_without_an_address_is_on_ipv6_too() {
    let urls = |text: &str| {
        let mut plan = Plan {
            has_ipv6: true,
            ..Plan::default()
        };
        take(&lines("m.conf", text), &mut plan);
        let urls = plan
            .config
            .lines()
            .filter_map(|line| line.strip_prefix("url = "));
        let urls: Vec<String> = urls.map(str::to_owned).collect();
        assert_eq!(urls.len(), plan.listeners, "{text}");
        urls.join(" ")
    };
    for (text, expected) in [
        (
            "listener 1884\n",
            "\"mqtt://0.0.0.0:1884\" \"mqtt://[::]:1884\"",
        ),
        (
            "port 9001\nprotocol websockets\n",
            "\"ws://0.0.0.0:9001\" \"ws://[::]:9001\"",
        ),
        ("listener 1884 192.0.2.1\n", "\"mqtt://192.0.2.1:1884\""),
        ("listener 0 /run/m.sock\n", "\"unix:/run/m.sock\""),
        ("listener 1884\nbind_address ::1\n", "\"mqtt://[::1]:1884\""),
        ("", "\"mqtt://127.0.0.1:1883\""),
        (
            "listener 1884\nsocket_domain ipv4\n",
            "\"mqtt://0.0.0.0:1884\"",
        ),
        (
            "listener 1884\nsocket_domain ipv6\n",
            "\"mqtt://[::]:1884\"",
        ),
        (
            "listener 1884 localhost\nsocket_domain ipv6\n",
            "\"mqtt://[::1]:1884\"",
        ),
    ] {
        assert_eq!(urls(text), expected, "{text}");
    }
    // What belongs to one belongs to both.
    let mut plan = Plan {
        has_ipv6: true,
        ..Plan::default()
    };
    take(
        &lines("m.conf", "listener 1884\nmax_connections 7\n"),
        &mut plan,
    );
    let bound = plan.config.matches("max_connections = 7\n").count();
    assert_eq!(bound, 2, "{}", plan.config);
}

/// One bounds packets, the other what is in them.
#[test]
fn a_bound_of_payloads_is_no_bound_of_packets() {
    for (text, expected, told) in [
        ("max_packet_size 5000\n", "packet_bytes = 5000\n", 0),
        (
            "max_packet_size 0\n",
            "packet_bytes = 268435456\nqueue_bytes = 268435456\n",
            0,
        ),
        ("max_packet_size 20\n", "packet_bytes = 1024\n", 1),
        ("message_size_limit 5000\n", "packet_bytes = 136072\n", 1),
        (
            "message_size_limit 268435455\n",
            "packet_bytes = 268435456\n",
            1,
        ),
        (
            "message_size_limit 9000000\nmax_packet_size 5000\n",
            "packet_bytes = 5000\n",
            1,
        ),
        (
            "max_inflight_messages 0\nmax_queued_messages 0\n",
            "inflight = 4096\nqueue_messages = 1000000\n",
            0,
        ),
        ("max_queued_bytes 5000000\n", "queue_bytes = 5000000\n", 0),
        ("max_queued_bytes 0\n", "queue_bytes = 17179869184\n", 0),
        ("max_queued_bytes 20\n", "queue_bytes = 2097152\n", 1),
        (
            "max_queued_bytes 5000\nmax_packet_size 4000\n",
            "packet_bytes = 4000\nqueue_bytes = 5000\n",
            0,
        ),
    ] {
        let (plan, _) = taken(text);
        assert!(plan.config.contains(expected), "{text}{}", plan.config);
        assert_eq!(plan.troubles.len(), told, "{text}");
        let bytes = |key: &str| {
            let mut lines = plan.config.lines();
            let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            value.map(|value| value.parse::<u64>().unwrap())
        };
        // Or the server would not take the file.
        let packet = bytes("packet_bytes").unwrap_or(DEFAULTS.0);
        assert!(
            bytes("queue_bytes").unwrap_or(DEFAULTS.1) >= packet,
            "{text}"
        );
    }
    let (plan, _) = taken("message_size_limit 0\n");
    assert!(!plan.config.contains("packet_bytes"), "{}", plan.config);
}

#[test]
fn a_listener_without_a_port_is_listed_and_its_options_go_with_it() {
    for line in [
        "listener",
        "port",
        "listener 99999",
        "listener x 127.0.0.1",
        "listener 0",
        "listener 0 sock",
        "listener 1885 foo bar",
        "listener 1885 fe80::1%eth0",
    ] {
        let text = format!(
            "per_listener_settings true\nlistener 1884\n{line}\nallow_anonymous true\n\
             protocol websockets\n"
        );
        let (plan, _) = taken(&text);
        let numbers: Vec<usize> = plan.troubles.iter().map(|one| one.number).collect();
        assert_eq!((numbers, plan.listeners), (vec![3], 1), "{line}");
        let config = plan.config;
        assert!(
            config.contains("url = \"mqtt://0.0.0.0:1884\"\n"),
            "{config}"
        );
        assert!(!config.contains("anonymous"), "{config}");
        // Where it was the only one, nobody is let in whom it did not let in.
        let (plan, _) = taken(&format!("{line}\n"));
        assert!(
            plan.config.contains("mqtt://127.0.0.1:1883"),
            "{}",
            plan.config
        );
        assert!(!plan.config.contains("anonymous"), "{}", plan.config);
    }
}

/// Nobody is to find MQTT, and perhaps no password, where there was something else.
#[test]
fn a_listener_of_another_protocol_is_listed_and_left_out() {
    for (protocol, remedy) in [("http_api", "--json"), ("mqttsn", "[[listener]]")] {
        let text = format!(
            "per_listener_settings true\nlistener 1884\nlistener 8080\nprotocol {protocol}\n\
             bind_address 127.0.0.1\nallow_anonymous true\nlistener 1885\n"
        );
        let (plan, _) = taken(&text);
        let told: Vec<_> = plan
            .troubles
            .iter()
            .map(|one| (one.number, &one.remedy))
            .collect();
        assert_eq!((told.len(), told[0].0), (1, 4), "{told:?}");
        assert!(told[0].1.contains(remedy), "{told:?}");
        assert_eq!(plan.listeners, 2);
        assert!(!plan.config.contains("8080"), "{}", plan.config);
        assert!(!plan.config.contains("anonymous"), "{}", plan.config);
    }
}

#[test]
fn a_line_that_is_no_utf8_costs_nothing_but_itself() {
    let text = b"listener 1884\nlog_type \xe9\nlistener 1885 \xe9\nprotocol websockets\n\
                 listener 1886\nbind_address a b\ncertfile\nmax_connections 4294967295\n\
                 listener 1887\n";
    let mut plan = Plan::default();
    take(&lines("m.conf", text), &mut plan);
    let numbers: Vec<usize> = plan.troubles.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 3, 6, 7], "{:?}", plan.troubles);
    let urls = plan.config.lines().filter(|line| line.starts_with("url"));
    let urls: Vec<&str> = urls.collect();
    let expected = [
        "url = \"mqtt://0.0.0.0:1884\"",
        "url = \"mqtt://0.0.0.0:1887\"",
    ];
    assert_eq!(urls, expected);
}

/// What mosquitto does by this option happens here in any case.
#[test]
fn persistence_is_named_whatever_it_says() {
    for (value, told) in [("true", "messages that wait"), ("false", "always survive")] {
        let (plan, _) = taken(&format!("listener 1884\npersistence {value}\n"));
        let trouble = plan.troubles.first().expect("it is told");
        assert_eq!((trouble.number, plan.troubles.len()), (2, 1));
        assert!(trouble.reason.contains(told), "{trouble:?}");
    }
    let (plan, _) = taken("persistence_location /var/lib/mosquitto/\n");
    let remedy = &plan.troubles[0].remedy;
    assert!(
        remedy.contains("stentor retained import --from"),
        "{remedy}"
    );
}

#[test]
fn an_option_without_a_key_says_what_holds_instead() {
    for (line, told) in [
        ("tls_version tlsv1.3", "TLS 1.2 and 1.3 are always on"),
        ("autosave_interval 1800", "retained.sync"),
        ("connection_messages true", "always logged"),
        ("memory_limit 0", "limits.memory"),
        ("retain_available false", "Stentor has no counterpart"),
        ("global_max_clients 10", "limits.connections_per_address"),
        ("autosaave_interval 1800", "check its spelling"),
    ] {
        let (plan, _) = taken(&format!("{line}\n"));
        let text = plan.troubles[0].to_string();
        assert!(text.contains(told), "{text}");
    }
}

/// The most talkative line counts; what is the default here is not written.
#[test]
fn a_kind_of_log_lines_becomes_a_level() {
    for (lines, level) in [
        ("log_type error\n", "level = \"error\""),
        ("log_type error\nlog_type warning\n", "level = \"warn\""),
        ("log_type all\nlog_type error\n", "level = \"debug\""),
        ("log_type error\nlog_type notice\n", ""),
    ] {
        let (plan, _) = taken(lines);
        assert!(plan.troubles.is_empty(), "{lines}");
        let text = plan.config;
        assert_eq!(text.contains("[log]"), !level.is_empty(), "{text}");
        assert!(text.contains(level), "{text}");
    }
}

/// Eleven lines of one bridge are not eleven times the same sentence.
#[test]
fn a_bridge_is_explained_once() {
    let (plan, _) = taken("connection far\naddress far:1883\ntopic # both 0\n");
    let told = |trouble: &&Trouble| trouble.reason.contains("makes no bridges");
    assert_eq!(plan.troubles.iter().filter(told).count(), 1);
    assert!(plan.troubles[1].remedy.contains("`connection`"));
}

#[test]
fn what_is_not_carried_is_listed() {
    let (plan, _) = taken(
        "connection up\naddress example.com\nremote_password hush\nlistener 1883\n\
         mount_point x/\nplugin /usr/lib/other.so\nmax_inflight_messages many\n\
         use_identity_as_username true\n",
    );
    let numbers: Vec<usize> = plan.troubles.iter().map(|trouble| trouble.number).collect();
    assert_eq!(numbers, [1, 2, 3, 5, 6, 7, 8]);
    assert!(
        plan.troubles
            .iter()
            .all(|trouble| !trouble.text.contains("hush"))
    );
}

/// A listener that mosquitto kept shut is not opened.
#[test]
fn a_listener_that_would_let_in_more_is_listed_and_left_out() {
    const TLS: &str = "cafile /ca\ncertfile /c\nkeyfile /k\n";
    for (options, key) in [
        (
            "capath /ca\ncertfile /c\nkeyfile /k\nrequire_certificate true\n",
            "capath",
        ),
        (
            "certfile /c\nkeyfile /k\nrequire_certificate true\n",
            "require_certificate",
        ),
        ("psk_hint hint\n", "psk_hint"),
        ("cafile /ca\ncertfile /c\n", "certfile"),
        (
            "cafile /ca\ncertfile /c\nrequire_certificate true\n",
            "certfile",
        ),
        ("keyfile /k\n", "keyfile"),
        ("bind_interface lo\n", "bind_interface"),
        (
            &format!("{TLS}require_certificate true\ncrlfile /crl\n"),
            "crlfile",
        ),
        (
            &format!("{TLS}use_identity_as_username true\n"),
            "use_identity_as_username",
        ),
    ] {
        let text = format!("allow_anonymous true\nlistener 1884\n{options}listener 1885\n");
        let (plan, _) = taken(&text);
        let told = plan.troubles.last().expect("it is told");
        assert!(told.text.starts_with(key), "{options}{told:?}");
        assert!(told.reason.contains("left out"), "{told:?}");
        assert_eq!(plan.listeners, 1, "{options}{}", plan.config);
        assert!(!plan.config.contains("1884"), "{}", plan.config);
        assert!(plan.config.contains("1885"), "{}", plan.config);
        // Where it was the only one, nobody is let in elsewhere either.
        let (plan, _) = taken(&format!("allow_anonymous true\nlistener 1884\n{options}"));
        assert!(!plan.config.contains("anonymous"), "{}", plan.config);
    }
    let (plan, _) = taken(&format!("listener 8883\n{TLS}require_certificate true\n"));
    assert!(plan.config.contains("required"), "{}", plan.config);
    assert!(plan.troubles.is_empty(), "{:?}", plan.troubles);
}

#[test]
fn who_may_say_any_name_is_listed() {
    let anybody = |text: &str| taken(text).1.anybody.map(|line| line.number);
    assert_eq!(anybody("listener 1884\nallow_anonymous true\n"), Some(2));
    assert_eq!(anybody("listener 1884\nallow_anonymous false\n"), None);
    let plugin = "listener 1884\nplugin /x.so\nallow_anonymous true\n";
    assert_eq!(anybody(plugin), None);
}

#[test]
fn pages_of_other_origins_are_listed() {
    let (plan, _) = taken("listener 9001\nprotocol websockets\n");
    let told = plan.troubles.first().expect("it is told");
    assert!(told.remedy.contains("allowed_origins"), "{told:?}");
}
