use super::*;

const PASSWORD: &[u8] = b"correct horse";

/// Hashes that other programs made: Python's hashlib, libxcrypt, libargon2 and mosquitto_passwd.
const THEIRS: [(&str, &[u8]); 11] = [
    (
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        b"password",
    ),
    (
        "$pbkdf2-sha256$i=1000,l=32$AAECAwQFBgcICQoLDA0ODw$\
         yRTMTwbMbo9G0VfjobWqerzuuxe7BETNTErBbKKumGQ",
        PASSWORD,
    ),
    (
        "$pbkdf2-sha512$1500$................$sBamS6hXDA3eJrqIaVnoiciiuCw7nLMj0f816PtTp.\
         7TH2r3ye/0N8gZlHwfbjihErCWM4UOETa1SFU0bisMGA",
        PASSWORD,
    ),
    (
        "$scrypt$ln=10,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$\
         nfkj3u1fRTHCea+fVr03sWV770kp5wLOLoEakziKhqE",
        PASSWORD,
    ),
    (
        "$7$101$l/x0f/9AGiBZmMqu$KuGel46Y8LJ3a7UtCfAQOmgf+ra2yCdfCSKr5QhH6XxknQFoyXQB5Wh0zjR2U0+\
         ON+LCK9EIxkOzYpVPPALlaw==",
        PASSWORD,
    ),
    (
        "$7$7$AAECAwQ=$uQ8hTa1EQ9r3St7PveszfaJGO/VGrl25nKQVMZ8h/DK0KbLJRnWlhW9N9loD1TkfH0QUvUoXR6\
         FqQoyhnOO2RA==",
        PASSWORD,
    ),
    (
        "$6$AAECAwQFBgcICQoL$5W8GCQ9GLgmhmQvoa8jmRaPnsh82mRigdSv6mQsK0sMIII/WznlQb1g+RWddfoAKTMzB\
         JP1deJU+Rp/1QZ0zZg==",
        PASSWORD,
    ),
    (
        "$2a$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2",
        PASSWORD,
    ),
    (
        "$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2",
        PASSWORD,
    ),
    (
        "$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2",
        PASSWORD,
    ),
    // bcrypt sees 72 bytes.
    (
        "$2b$05$abcdefghijklmnopqrstuujf8SX2ahXLwp9w/B.Y5XdysS6yR576q",
        &[b'x'; 100],
    ),
];

#[test]
fn hashes_of_other_programs_are_verified_and_written_back() {
    for (text, password) in THEIRS {
        let hash = PasswordHash::parse(text).unwrap();
        assert_eq!(hash.to_string(), text);
        assert_ne!(
            hash.verify(password, Cost::DEFAULT),
            Verdict::Wrong,
            "{text}"
        );
        for wrong in [&password[..7], b"", b"correct horsf"] {
            assert_eq!(hash.verify(wrong, Cost::DEFAULT), Verdict::Wrong, "{text}");
        }
    }
}

/// Every function, as cheap as it gets.
const CHEAP: [Cost; 5] = [
    Cost::CHEAPEST,
    Cost::Pbkdf2 {
        digest: Sha::Sha256,
        iterations: 2,
    },
    Cost::Pbkdf2 {
        digest: Sha::Sha512,
        iterations: 2,
    },
    Cost::Scrypt {
        log_n: 2,
        r: 1,
        p: 1,
    },
    Cost::Bcrypt { log_rounds: 4 },
];

#[test]
fn what_is_made_is_right_and_never_twice_the_same() {
    for cost in CHEAP {
        let hash = PasswordHash::make(PASSWORD, cost).unwrap();
        let again = PasswordHash::make(PASSWORD, cost).unwrap();
        assert_ne!(hash.to_string(), again.to_string());
        let parsed = PasswordHash::parse(&hash.to_string()).unwrap();
        assert!(
            parsed == hash || matches!(cost, Cost::Bcrypt { .. }),
            "{cost:?}"
        );
        assert_eq!(parsed.verify(PASSWORD, cost), Verdict::Right, "{cost:?}");
        assert_eq!(parsed.verify(b"wrong", cost), Verdict::Wrong, "{cost:?}");
        assert_eq!(
            parsed.verify(PASSWORD, Cost::DEFAULT),
            Verdict::RightButOutdated
        );
    }
}

/// A client that shows these bytes and something else behind them is let in, and may not be the one
/// who decides what the password is.
#[test]
fn what_bcrypt_does_not_look_at_replaces_nothing() {
    let bcrypt = Cost::Bcrypt { log_rounds: 4 };
    let verdict = |made_of: &[u8], shown: &[u8]| {
        let hash = PasswordHash::make(made_of, bcrypt).unwrap();
        hash.verify(shown, Cost::CHEAPEST)
    };
    let long = [b'a'; 75];
    assert_eq!(verdict(&long[..72], &long), Verdict::Right);
    assert_eq!(verdict(&long[..72], &long[..72]), Verdict::Right);
    assert_eq!(verdict(&long[..71], &long[..71]), Verdict::RightButOutdated);
    assert_eq!(verdict(&long[..71], &long[..72]), Verdict::Wrong);
}

#[test]
fn weaker_parameters_and_other_functions_are_outdated() {
    let argon2 = |memory_kib, passes| Cost::Argon2 {
        kind: Argon2Kind::Id,
        memory_kib,
        passes,
        lanes: 1,
    };
    let pbkdf2 = |digest, iterations| Cost::Pbkdf2 { digest, iterations };
    for (stored, wanted, outdated) in [
        (argon2(8, 1), argon2(8, 1), false),
        (argon2(16, 2), argon2(8, 1), false),
        (argon2(8, 2), argon2(16, 1), true),
        (argon2(16, 1), argon2(8, 2), true),
        (pbkdf2(Sha::Sha512, 5), pbkdf2(Sha::Sha512, 5), false),
        (pbkdf2(Sha::Sha512, 4), pbkdf2(Sha::Sha512, 5), true),
        (pbkdf2(Sha::Sha256, 9), pbkdf2(Sha::Sha512, 5), true),
        (Cost::BCRYPT, Cost::DEFAULT, true),
        (Cost::BCRYPT, Cost::BCRYPT, false),
        (Cost::SCRYPT, Cost::SCRYPT, false),
        (Cost::Sha512, Cost::PBKDF2_SHA512, true),
    ] {
        assert_eq!(stored.is_below(wanted), outdated, "{stored:?} {wanted:?}");
    }
}

#[test]
fn the_defaults_are_within_the_bounds() {
    for cost in [
        Cost::DEFAULT,
        Cost::PBKDF2_SHA256,
        Cost::PBKDF2_SHA512,
        Cost::SCRYPT,
        Cost::BCRYPT,
        Cost::CHEAPEST,
    ] {
        assert_eq!(cost.check(), Ok(cost));
    }
}

#[test]
fn hashes_that_eat_memory_or_time_are_refused() {
    const SALT: &str = "AAECAwQFBgcICQoLDA0ODw";
    let hash = super::super::base64::bare(&[7; 32]);
    for parameters in [
        "argon2id$v=19$m=262145,t=1,p=1",
        "argon2id$v=19$m=4294967295,t=1,p=1",
        "argon2id$v=19$m=262144,t=17,p=1",
        "argon2id$v=19$m=8,t=4294967295,p=1",
        "argon2id$v=19$m=8,t=1,p=17",
        "argon2id$v=19$m=8,t=1,p=2",
        "argon2id$v=19$m=0,t=1,p=1",
        "argon2id$v=19$m=8,t=0,p=1",
        "argon2id$v=19$m=8,t=1,p=0",
        "pbkdf2-sha256$i=0",
        "pbkdf2-sha256$i=10000001",
        "pbkdf2-sha512$10000001",
        "scrypt$ln=22,r=8,p=1",
        "scrypt$ln=255,r=1,p=1",
        "scrypt$ln=256,r=1,p=1",
        "scrypt$ln=18,r=9,p=1",
        "scrypt$ln=17,r=8,p=65",
        "scrypt$ln=17,r=0,p=1",
        "scrypt$ln=0,r=8,p=1",
        "scrypt$ln=1,r=4294967295,p=4294967295",
        "7$0",
        "7$10000001",
    ] {
        let text = format!("${parameters}${SALT}${hash}");
        let error = PasswordHash::parse(&text).unwrap_err();
        assert!(
            matches!(error, CredentialError::OutOfBounds { .. }),
            "{text}: {error}"
        );
        assert!(error.to_string().contains("must be from"), "{error}");
    }
    for text in ["$2b$03$", "$2b$17$", "$2b$99$"] {
        let text = format!("{text}abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2");
        let error = PasswordHash::parse(&text).unwrap_err();
        assert!(
            matches!(error, CredentialError::OutOfBounds { .. }),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_hash_is_refused() {
    let long = super::super::base64::bare(&[7; 300]);
    let hash = super::super::base64::bare(&[7; 32]);
    for text in [
        "argon2id".to_owned(),
        "$argon2id$".to_owned(),
        format!("$argon2id$v=16$m=8,t=1,p=1$c29tZXNhbHQ${hash}"),
        format!("$argon2id$v=19$m=8,t=1$c29tZXNhbHQ${hash}"),
        format!("$argon2id$v=19$m=8,t=1,p=1,p=1$c29tZXNhbHQ${hash}"),
        format!("$argon2id$v=19$m=8,t=1,q=1$c29tZXNhbHQ${hash}"),
        format!("$argon2id$v=19$m=+8,t=1,p=1$c29tZXNhbHQ${hash}"),
        format!("$argon2id$v=19$m=99999999999,t=1,p=1$c29tZXNhbHQ${hash}"),
        format!("$argon2id$v=19$m=8,t=1,p=1$c29t${hash}"),
        format!("$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ${hash}$"),
        "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$".to_owned(),
        "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$!!!!".to_owned(),
        format!("$argon2id$v=19$m=8,t=1,p=1${long}${hash}"),
        format!("$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ${long}"),
        format!("$pbkdf2-sha256$i=1000,l=31$c29tZXNhbHQ${hash}"),
        format!("$pbkdf2-sha256$l=32$c29tZXNhbHQ${hash}"),
        "$7$101$c29tZXNhbHQ$AAAA".to_owned(),
        format!("$6$c29tZXNhbHQ${hash}"),
        "$7$".to_owned(),
        "$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy".to_owned(),
        "$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2x".to_owned(),
        "$2b$05$abcdefghijklmnopqrst!uHNbAKRhpaujgo33bRWs.NLUTJO3lOy2".to_owned(),
        "$2b$05$abcdefghijklmnopqrst\u{e9}HNbAKRhpaujgo33bRWs.NLUTJO3lOy2".to_owned(),
        "$2x$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2".to_owned(),
    ] {
        assert!(PasswordHash::parse(&text).is_err(), "{text}");
    }
}

/// A broken line of a password file must not stop the server.
#[test]
fn no_text_makes_the_parser_panic() {
    use proptest::prelude::*;
    let piece = prop_oneof![
        "[$=,.:a-z0-9A-Z/+]{0,20}",
        prop::sample::select(vec!["$argon2id$v=19$", "$7$", "$6$", "$2b$05$", "$scrypt$"])
            .prop_map(str::to_owned),
        prop::sample::select(vec![
            "m=8,t=1,p=1$",
            "ln=4,r=8,p=1$",
            "101$",
            "c29tZXNhbHQ$"
        ])
        .prop_map(str::to_owned),
        "\\PC{0,5}",
    ];
    proptest!(|(pieces in prop::collection::vec(piece, 0..6))| {
        let text = pieces.concat();
        if let Ok(hash) = PasswordHash::parse(&text) {
            let again = PasswordHash::parse(&hash.to_string()).unwrap();
            prop_assert!(again == hash);
        }
    });
}
