//! Names, filters and shared subscriptions, by table.

use stentor_topic::{
    FilterError, NameError, Subscription, TOPIC_BYTES_MAX, levels, literal_prefix, matches,
    validate_filter, validate_name,
};

/// [MQTT-4.7.3-1..3] [MQTT-3.3.2-2]
#[test]
fn names_are_checked() {
    let longest = "x".repeat(TOPIC_BYTES_MAX);
    let too_long = "x".repeat(TOPIC_BYTES_MAX + 1);
    let cases = [
        ("", Err(NameError::Empty)),
        ("a", Ok(())),
        ("/", Ok(())),
        ("a//b/", Ok(())),
        ("$SYS/broker", Ok(())),
        (" ", Ok(())),
        ("a b/ä/日本/🦀", Ok(())),
        ("\u{FEFF}", Ok(())),
        (&longest, Ok(())),
        (&too_long, Err(NameError::TooLong)),
        ("a\0b", Err(NameError::Nul)),
        ("a/+", Err(NameError::Wildcard)),
        ("a+", Err(NameError::Wildcard)),
        ("#", Err(NameError::Wildcard)),
        ("0123456789abcdef#", Err(NameError::Wildcard)),
    ];
    for (name, expected) in cases {
        assert_eq!(validate_name(name), expected, "{name:.40?}");
    }
}

/// A forbidden character is found wherever it stands, also across the lanes of the scan.
#[test]
fn forbidden_characters_are_found_at_every_offset() {
    for len in 1..70 {
        for at in 0..len {
            for (character, error) in [
                ('\0', NameError::Nul),
                ('+', NameError::Wildcard),
                ('#', NameError::Wildcard),
            ] {
                let mut name: Vec<char> = vec!['x'; len];
                name[at] = character;
                let name: String = name.into_iter().collect();
                assert_eq!(validate_name(&name), Err(error), "{name:?}");
            }
        }
    }
}

/// [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1..3]
#[test]
fn filters_are_checked() {
    let too_long = "x".repeat(TOPIC_BYTES_MAX + 1);
    let cases = [
        ("", Err(FilterError::Empty)),
        ("a/b", Ok(())),
        ("/", Ok(())),
        ("#", Ok(())),
        ("/#", Ok(())),
        ("sport/tennis/#", Ok(())),
        ("sport/tennis#", Err(FilterError::PartialLevelHash)),
        ("sport/#tennis", Err(FilterError::PartialLevelHash)),
        ("sport/tennis/#/ranking", Err(FilterError::HashNotLast)),
        ("#/", Err(FilterError::HashNotLast)),
        ("##", Err(FilterError::PartialLevelHash)),
        ("+", Ok(())),
        ("+/tennis/#", Ok(())),
        ("sport+", Err(FilterError::PartialLevelPlus)),
        ("sport/+x/a", Err(FilterError::PartialLevelPlus)),
        ("++", Err(FilterError::PartialLevelPlus)),
        ("+#", Err(FilterError::PartialLevelPlus)),
        ("sport/+/player1", Ok(())),
        ("/+", Ok(())),
        ("+/+/+", Ok(())),
        ("a\0", Err(FilterError::Nul)),
        ("a/+/\0", Err(FilterError::Nul)),
        ("$SYS/#", Ok(())),
        (&too_long, Err(FilterError::TooLong)),
    ];
    for (filter, expected) in cases {
        assert_eq!(validate_filter(filter), expected, "{filter:.40?}");
    }
}

/// [MQTT-4.8.2-1] [MQTT-4.8.2-2]
#[test]
fn shared_subscriptions_are_taken_apart() {
    let shared = |share, filter| {
        Ok(Subscription {
            share: Some(share),
            filter,
        })
    };
    let plain = |filter| {
        Ok(Subscription {
            share: None,
            filter,
        })
    };
    let too_long = format!("$share/g/{}", "x".repeat(TOPIC_BYTES_MAX - 8));
    let cases = [
        // The other spelling, which also asks for a queue.
        ("$queue/group/a/b", shared("group", "a/b")),
        ("$queue//a", Err(FilterError::ShareNameEmpty)),
        ("$queue/g", Err(FilterError::ShareFilterMissing)),
        ("$queue", plain("$queue")),
        ("$queues/g/a", plain("$queues/g/a")),
        ("$share/group/a/b", shared("group", "a/b")),
        ("$share/group//", shared("group", "/")),
        ("$share/g/#", shared("g", "#")),
        ("$share/g/$SYS/#", shared("g", "$SYS/#")),
        ("$share/g/$share/g/x", shared("g", "$share/g/x")),
        ("$share", plain("$share")),
        ("$shared/x", plain("$shared/x")),
        ("x/$share/g/a", plain("x/$share/g/a")),
        ("$share/", Err(FilterError::ShareNameEmpty)),
        ("$share//a", Err(FilterError::ShareNameEmpty)),
        ("$share/+/a", Err(FilterError::ShareNameWildcard)),
        ("$share/g#/a", Err(FilterError::ShareNameWildcard)),
        ("$share/#", Err(FilterError::ShareNameWildcard)),
        ("$share/g", Err(FilterError::ShareFilterMissing)),
        ("$share/g/", Err(FilterError::ShareFilterMissing)),
        ("$share/g\0/a", Err(FilterError::Nul)),
        ("$share/g/a#", Err(FilterError::PartialLevelHash)),
        (&too_long, Err(FilterError::TooLong)),
        ("", Err(FilterError::Empty)),
    ];
    for (text, expected) in cases {
        assert_eq!(Subscription::parse(text), expected, "{text:.40?}");
    }
}

/// [MQTT-4.7.1-1..3] [MQTT-4.7.2-1] [MQTT-4.7.3-4]; the examples of section 4.7 among them.
#[test]
fn filters_match_names() {
    let cases = [
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        (
            "sport/tennis/player1/#",
            "sport/tennis/player1/ranking",
            true,
        ),
        (
            "sport/tennis/player1/#",
            "sport/tennis/player1/score/wimbledon",
            true,
        ),
        ("sport/tennis/player1/#", "sport/tennis/player10", false),
        ("sport/#", "sport", true),
        ("sport/#", "sport/", true),
        ("sport/tennis/+", "sport/tennis/player1", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false),
        ("sport/+", "sport", false),
        ("sport/+", "sport/", true),
        ("+/+", "/finance", true),
        ("/+", "/finance", true),
        ("+", "/finance", false),
        ("#", "/", true),
        ("/#", "/", true),
        ("/#", "a", false),
        ("#", "$SYS/x", false),
        ("+/monitor/Clients", "$SYS/monitor/Clients", false),
        ("$SYS/#", "$SYS/", true),
        ("$SYS/#", "$SYS", true),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
        ("+/+", "a/$b", true),
        ("a/#", "a/$b", true),
        ("a/b", "a/b", true),
        ("a/b", "a/B", false),
        ("a/b", "a/b/", false),
        ("a/b/", "a/b", false),
        ("a//b", "a/b", false),
        ("a/+/b", "a//b", true),
        ("+/+/#", "a", false),
        ("+/+/#", "a/b", true),
        ("é", "e\u{301}", false),
    ];
    for (filter, name, expected) in cases {
        assert_eq!(matches(filter, name), expected, "{filter:?} {name:?}");
    }
}

#[test]
fn literal_prefixes_end_before_the_first_wildcard() {
    let cases = [
        ("a/b", "a/b", 2),
        ("a/b/", "a/b/", 3),
        ("a/b/#", "a/b", 3),
        ("a/+/b/#", "a", 4),
        ("+", "", 1),
        ("#", "", 1),
        ("+/a", "", 2),
        ("/+", "", 2),
        ("//+", "/", 3),
        ("/a/+", "/a", 3),
        ("$SYS/#", "$SYS", 2),
    ];
    for (filter, prefix, count) in cases {
        assert_eq!(literal_prefix(filter), prefix, "{filter:?}");
        assert_eq!(levels(filter), count, "{filter:?}");
    }
}
