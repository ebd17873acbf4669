//! Each way to log in.

use super::*;

#[test]
fn passwords_let_their_users_in() {
    let mut shut_out = user("eve", &[cheap("pencil")]);
    shut_out.disabled = true;
    let world = world(vec![
        user("ann", &[cheap("pencil")]),
        user("game/ann", &[cheap("other")]),
        user("bob", &[cheap("one"), "garbage".into(), cheap("two")]),
        user("kim", &[]),
        shut_out,
    ]);
    for (name, password, expected) in [
        ("ann", "pencil", named("ann")),
        ("default/ann", "pencil", named("ann")),
        ("game/ann", "other", named("ann")),
        ("bob", "one", named("bob")),
        ("bob", "two", named("bob")),
        ("ann", "other", WRONG),
        ("ann", "", WRONG),
        ("game/ann", "pencil", WRONG),
        ("bob", "garbage", WRONG),
        ("kim", "", WRONG),
        ("eve", "pencil", DISABLED),
        ("eve", "other", DISABLED),
        ("nobody", "pencil", WRONG),
        ("", "", WRONG),
    ] {
        assert_eq!(
            world.password(name, password),
            expected,
            "{name} {password}"
        );
    }
    let long = "x".repeat(PASSWORD_BYTES_MAX + 1);
    assert_eq!(world.password("ann", &long), WRONG);
    assert_eq!(world.password(&long, "pencil"), WRONG);
    let bare = LoginRequest {
        username: Some("ann".into()),
        ..LoginRequest::default()
    };
    assert_eq!(world.login(bare), WRONG);
}

#[test]
fn nameless_clients_need_a_listener_that_lets_them_in() {
    let world = world(Vec::new());
    let request = |anonymous| LoginRequest {
        anonymous,
        ..LoginRequest::default()
    };
    assert_eq!(world.login(request(true)), Outcome::In(None));
    assert_eq!(
        world.login(request(false)),
        Outcome::Out(Refusal::LoginRequired)
    );
    let named = LoginRequest {
        anonymous: true,
        ..with_password("ann", "x")
    };
    assert_eq!(world.login(named), WRONG);
    let password_alone = |anonymous| LoginRequest {
        password: Some(Secret::new(b"x".to_vec())),
        ..request(anonymous)
    };
    // An empty name is none, whatever comes with it.
    assert_eq!(world.login(password_alone(true)), Outcome::In(None));
    assert_eq!(
        world.login(password_alone(false)),
        Outcome::Out(Refusal::LoginRequired)
    );
}

#[test]
fn tokens_let_in_until_they_expire() {
    let (good, old, other) = (
        Token::generate().unwrap(),
        Token::generate().unwrap(),
        Token::generate().unwrap(),
    );
    let mut ann = user("ann", &[good.hash().to_string(), old.hash().to_string()]);
    ann.credentials[0].expires_at_secs = Some(NOW_ISH);
    ann.credentials[1].expires_at_secs = Some(1);
    let world = world(vec![ann]);
    let decision = world.begin(with_password("ann", good.reveal()));
    let Decision::Accepted(identity, None) = decision else {
        panic!("{decision:?}");
    };
    // The connection ends with the token.
    assert!(identity.expires_at > Tick::from_secs(1) && identity.expires_at < Tick::NEVER);
    assert_eq!(world.password("ann", old.reveal()), WRONG);
    assert_eq!(world.password("ann", other.reveal()), WRONG);
    assert_eq!(world.password("bob", good.reveal()), WRONG);
}

#[test]
fn scram_lets_in_and_tells_nobody_who_exists() {
    let sha256 = ScramSecret::make(Sha::Sha256, b"pencil", 4096).unwrap();
    let world = world(vec![
        user("ann", &[sha256.to_string()]),
        user("kim", &[cheap("pencil")]),
    ]);
    let scram = |sha, name: &str, password: &str| world.scram(sha, name, password);
    assert_eq!(scram(Sha::Sha256, "ann", "pencil"), (named("ann"), true));
    assert_eq!(
        scram(Sha::Sha256, "default/ann", "pencil"),
        (named("ann"), true)
    );
    // No password, no such user, no secret of that kind: all are asked, and then refused.
    for (sha, name, password) in [
        (Sha::Sha256, "ann", "pencils"),
        (Sha::Sha512, "ann", "pencil"),
        (Sha::Sha256, "kim", "pencil"),
        (Sha::Sha256, "nobody", "pencil"),
        (Sha::Sha256, "game/ann", "pencil"),
    ] {
        assert_eq!(scram(sha, name, password), (WRONG, false), "{name}");
    }
    // A user with only a SCRAM secret can still log in where there is no AUTH.
    assert_eq!(world.password("ann", "pencil"), named("ann"));
}

#[test]
fn methods_that_are_not_there_and_broken_messages_are_refused() {
    let world = world(Vec::new());
    let method = |name: &str, data: &[u8], username: Option<&str>| {
        world.login(LoginRequest {
            username: username.map(Into::into),
            method: Some(Method {
                name: name.into(),
                data: Secret::new(data.to_vec()),
            }),
            ..LoginRequest::default()
        })
    };
    let first = b"n,,n=ann,r=abc";
    let unknown = Outcome::Out(Refusal::Method);
    for name in [
        "",
        "PLAIN",
        "SCRAM-SHA-1",
        "SCRAM-SHA-256-PLUS",
        "JWT",
        "scram-sha-256",
    ] {
        assert_eq!(method(name, first, None), unknown, "{name}");
    }
    let broken = Outcome::Out(Refusal::Protocol);
    assert_eq!(method("SCRAM-SHA-256", b"", None), broken);
    assert_eq!(method("SCRAM-SHA-256", b"n,,m=x,n=ann,r=abc", None), broken);
    assert_eq!(method("SCRAM-SHA-256", first, Some("ann")), Outcome::Asked);
    assert_eq!(method("SCRAM-SHA-256", first, Some("bob")), WRONG);
}

#[test]
fn certificates_log_in_as_the_user_they_name() {
    let world = world(vec![user("ann", &[cheap("pencil")])]);
    let certified = |name: &str, username: Option<&str>, password: Option<&str>| {
        world.login(LoginRequest {
            username: username.map(Into::into),
            password: password.map(|password| Secret::new(password.into())),
            certificate_name: Some(name.into()),
            ..LoginRequest::default()
        })
    };
    assert_eq!(certified("ann", None, None), named("ann"));
    assert_eq!(certified("ann", Some("ann"), None), named("ann"));
    assert_eq!(certified("bob", None, None), WRONG);
    assert_eq!(certified("bob", Some("ann"), None), WRONG);
    assert_eq!(certified("bob", Some("ann"), Some("pencil")), named("ann"));
    // A password without a name makes nobody of somebody.
    assert_eq!(certified("ann", None, Some("any")), named("ann"));
    let anonymous = |name: &str| {
        world.login(LoginRequest {
            password: Some(Secret::new("any".into())),
            certificate_name: Some(name.into()),
            anonymous: true,
            ..LoginRequest::default()
        })
    };
    assert_eq!(anonymous("bob"), WRONG);
    assert_eq!(certified("ann", Some("ann"), Some("wrong")), WRONG);
    // A client that guesses ann's password from the same address does not hold it up.
    let ann = LoginAttempt::named("ann");
    let (throttle, now) = (&world.center.0.throttle, Instant::now());
    for _ in 0..20 {
        throttle.failed(now, &ann);
    }
    while throttle.admit(now, &ann) != Admission::Never {}
    let slowed = Outcome::Out(Refusal::Slowed);
    assert_eq!(world.password("ann", "pencil"), slowed);
    assert_eq!(certified("ann", None, None), named("ann"));
}
