use super::*;
use crate::credential::base64;

/// The exchange of RFC 7677, section 3.
#[test]
fn the_example_of_rfc_7677() {
    let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
    let client = ScramClient::new(Sha::Sha256, b"pencil");
    let (client, first) = client.first_with("user", nonce);
    assert_eq!(first, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");

    let salt = base64::decode("salt", "W22ZaJ0SNY7soEsUEjb6gQ==", 16).unwrap();
    let salted = SaltedPassword::derive(Sha::Sha256, b"pencil", &salt, 4096).unwrap();
    let first = ClientFirst::parse(&first).unwrap();
    assert_eq!(first.username, "user");
    let (server, challenge) = ScramServer::begin(
        &first,
        ScramSecret::of(&salted),
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    );
    assert_eq!(
        String::from_utf8(challenge.clone()).unwrap(),
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    );

    let (client, proof) = client.answer(&challenge).unwrap();
    assert_eq!(
        String::from_utf8(proof.clone()).unwrap(),
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    let last = server.finish(&proof).unwrap();
    assert_eq!(last, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert_eq!(client.finish(&last), Ok(()));
}

/// What came of an exchange: the server's verdict, and the client's.
fn exchange(
    client: ScramClient,
    name: &str,
    secret: &ScramSecret,
    meddle: impl Fn(usize, &mut Vec<u8>),
) -> (Result<(), ScramError>, Option<Result<(), ScramError>>) {
    let (client, mut first) = client.first(name).unwrap();
    meddle(0, &mut first);
    let first = match ClientFirst::parse(&first) {
        Ok(first) => first,
        Err(error) => return (Err(error), None),
    };
    let (server, mut challenge) =
        ScramServer::begin(&first, secret.clone(), &server_nonce().unwrap());
    meddle(1, &mut challenge);
    let (client, mut proof) = match client.answer(&challenge) {
        Ok(answered) => answered,
        Err(error) => return (Ok(()), Some(Err(error))),
    };
    meddle(2, &mut proof);
    let mut last = match server.finish(&proof) {
        Ok(last) => last,
        Err(error) => return (Err(error), None),
    };
    meddle(3, &mut last);
    (Ok(()), Some(client.finish(&last)))
}

const BOTH: [Sha; 2] = [Sha::Sha256, Sha::Sha512];

#[test]
fn the_right_password_convinces_both_sides() {
    for sha in BOTH {
        for (name, password) in [
            ("ann", "pencil"),
            ("a=b,c", "schön"),
            ("game/ann", "I\u{ad}X"),
        ] {
            let secret = ScramSecret::make(sha, password.as_bytes(), 4096).unwrap();
            let parsed = ScramSecret::parse(&secret.to_string()).unwrap();
            assert!(parsed == secret);
            let client = ScramClient::new(sha, password.as_bytes());
            let came_of_it = exchange(client, name, &secret, |_, _| {});
            assert_eq!(came_of_it, (Ok(()), Some(Ok(()))), "{name}");
        }
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_look_alike() {
    for sha in BOTH {
        let secret = ScramSecret::make(sha, b"pencil", 4096).unwrap();
        let nobody = ScramSecret::decoy(sha, b"key", "bob", 4096, 16);
        assert!(nobody == ScramSecret::decoy(sha, b"key", "bob", 4096, 16));
        assert!(nobody.salt != ScramSecret::decoy(sha, b"key", "eve", 4096, 16).salt);
        assert_eq!(nobody.salt.len(), secret.salt.len());
        for secret in [secret, nobody] {
            let client = ScramClient::new(sha, b"pencils");
            let came_of_it = exchange(client, "ann", &secret, |_, _| {});
            assert_eq!(came_of_it, (Err(ScramError::Proof), None));
        }
    }
}

#[test]
fn a_server_that_does_not_know_the_secret_is_found_out() {
    let secret = ScramSecret::make(Sha::Sha256, b"pencil", 4096).unwrap();
    let client = ScramClient::new(Sha::Sha256, b"pencil");
    let came_of_it = exchange(client, "ann", &secret, |step, message| {
        if step == 3 {
            message[5] ^= 1;
        }
    });
    assert!(matches!(came_of_it, (Ok(()), Some(Err(_)))));
}

#[test]
fn a_salted_password_is_used_again_unless_the_salt_has_changed() {
    let password = b"pencil";
    for salt in [&b"salt"[..], b"other"] {
        let salted = SaltedPassword::derive(Sha::Sha256, password, b"salt", 4096).unwrap();
        let theirs = SaltedPassword::derive(Sha::Sha256, password, salt, 4096).unwrap();
        let client = ScramClient::with_salted(salted, password);
        let came_of_it = exchange(client, "ann", &ScramSecret::of(&theirs), |_, _| {});
        assert_eq!(came_of_it, (Ok(()), Some(Ok(()))));
    }
}

#[test]
fn a_client_does_neither_too_few_rounds_nor_too_many() {
    for iterations in [1, 4095, 2_000_001, u32::MAX] {
        let client = ScramClient::new(Sha::Sha256, b"pencil");
        let (client, _) = client.first_with("ann", "abc".into());
        let challenge = format!("r=abcdef,s=c2FsdA==,i={iterations}");
        let error = client.answer(challenge.as_bytes()).unwrap_err();
        assert_eq!(error, ScramError::Iterations(iterations));
    }
}

#[test]
fn first_messages_are_read_or_refused() {
    let malformed = |message: &str| {
        matches!(
            ClientFirst::parse(message.as_bytes()),
            Err(ScramError::Malformed(_))
        )
    };
    let unsupported = |message: &str| {
        matches!(
            ClientFirst::parse(message.as_bytes()),
            Err(ScramError::Unsupported(_))
        )
    };
    for (message, name) in [
        ("n,,n=ann,r=abc", "ann"),
        ("y,,n=ann,r=abc", "ann"),
        ("n,a=ann,n=ann,r=abc", "ann"),
        ("n,,n=a=2Cb=3Dc,r=abc,x=unknown", "a,b=c"),
    ] {
        let first = ClientFirst::parse(message.as_bytes()).unwrap();
        assert_eq!(first.username, name, "{message}");
    }
    for message in [
        "",
        "n",
        "n,,",
        "n,,n=ann",
        "n,,n=ann,r=",
        "n,,r=abc,n=ann",
        "n,,n=,r=abc",
        "n,,n=a=2cb,r=abc",
        "n,,n=a=,r=abc",
        "x,,n=ann,r=abc",
        "n,b=ann,n=ann,r=abc",
        "n,,n=ann,r=a\u{e9}",
        "n,,n=ann,r=a b",
        "n,,n=a\0b,r=abc",
        "n,,n=a\u{85},r=abc",
    ] {
        assert!(malformed(message), "{message:?}");
    }
    assert!(malformed(&format!("n,,n=ann,r={}", "x".repeat(257))));
    assert!(malformed(&format!(
        "n,,n={},r=abc",
        "x".repeat(MESSAGE_BYTES_MAX)
    )));
    for message in [
        "p=tls-unique,,n=ann,r=abc",
        "n,,m=ext,n=ann,r=abc",
        "n,a=root,n=ann,r=abc",
    ] {
        assert!(unsupported(message), "{message}");
    }
}

#[test]
fn last_messages_of_another_exchange_are_refused() {
    let secret = ScramSecret::make(Sha::Sha256, b"pencil", 4096).unwrap();
    type Meddle = (&'static str, fn(&mut Vec<u8>), fn(&ScramError) -> bool);
    let cases: [Meddle; 6] = [
        ("empty", Vec::clear, |e| {
            matches!(e, ScramError::Malformed(_))
        }),
        (
            "no proof",
            |m| m.truncate(20),
            |e| matches!(e, ScramError::Malformed(_)),
        ),
        (
            "header",
            |m| m[5] = b'w',
            |e| matches!(e, ScramError::Malformed(_)),
        ),
        ("nonce", |m| m[10] ^= 1, |e| *e == ScramError::Nonce),
        (
            "short proof",
            |m| m.truncate(m.len() - 4),
            |e| matches!(e, ScramError::Malformed(_)),
        ),
        (
            "not UTF-8",
            |m| m[0] = 0xFF,
            |e| matches!(e, ScramError::Malformed(_)),
        ),
    ];
    for (what, change, expected) in cases {
        let client = ScramClient::new(Sha::Sha256, b"pencil");
        let came_of_it = exchange(client, "ann", &secret, |step, message| {
            if step == 2 {
                change(message);
            }
        });
        let (Err(error), None) = came_of_it else {
            panic!("{what}: {came_of_it:?}");
        };
        assert!(expected(&error), "{what}: {error:?}");
    }
}

#[test]
fn secrets_that_are_none_are_refused() {
    let good = ScramSecret::make(Sha::Sha256, b"pencil", 4096)
        .unwrap()
        .to_string();
    let bad = [
        good.replace("SHA-256", "SHA-1"),
        good.replace("SHA-256", "SHA-512"),
        good.replace("4096", "4095"),
        good.replace("4096", "10000001"),
        good.replace("4096", "-1"),
        good.replace("4096:", "4096"),
        format!("{good}$x"),
        good[..good.len() - 8].to_owned(),
        "SCRAM-SHA-256".to_owned(),
        "SCRAM-SHA-256$$".to_owned(),
    ];
    assert!(ScramSecret::parse(&good).is_ok());
    for text in bad {
        assert!(ScramSecret::parse(&text).is_err(), "{text}");
    }
}

#[test]
fn passwords_are_prepared_or_refused() {
    // RFC 4013: the soft hyphen is mapped to nothing, the Roman numeral nine to IX.
    let secret = ScramSecret::make(Sha::Sha256, "I\u{ad}X".as_bytes(), 4096).unwrap();
    assert!(secret.verify_password("\u{2168}".as_bytes()));
    assert!(!secret.verify_password(b"ix"));
    for bad in [&b"\xFF"[..], "a\u{7}".as_bytes()] {
        let made = ScramSecret::make(Sha::Sha256, bad, 4096);
        assert_eq!(made.unwrap_err(), MakeError::Prohibited);
        assert!(!secret.verify_password(bad));
    }
}
