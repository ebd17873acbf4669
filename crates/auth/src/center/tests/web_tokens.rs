//! JSON Web Tokens.

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// The issuer that signs with [`SECRET`].
fn issuer() -> Issuer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, SECRET).unwrap();
    Issuer {
        issuer: None,
        audience: Vec::new(),
        leeway_secs: 0,
        user_claim: "sub".into(),
        zone: None,
        known_users: false,
        keys: Keys::read(&KeySource::File(path), &[Algorithm::HS256]).unwrap(),
    }
}

fn signed(claims: &str, secret: &[u8]) -> String {
    use jsonwebtoken::{EncodingKey, Header, encode};
    let claims: serde_json::Value = serde_json::from_str(claims).unwrap();
    encode(
        &Header::default(),
        &claims,
        &EncodingKey::from_secret(secret),
    )
    .unwrap()
}

/// No name, one address: forged tokens, those of somebody else that have expired, and good ones.
#[test]
fn bad_web_tokens_do_not_hold_up_good_ones() {
    let settings = CenterSettings {
        issuers: vec![issuer()],
        ..settings()
    };
    let world = world_with(settings, Vec::new());
    let alone = |token: String| LoginRequest {
        password: Some(Secret::new(token.into())),
        ..LoginRequest::default()
    };
    let good = |name: &str| signed(&format!("{{\"exp\":{NOW_ISH},\"sub\":\"{name}\"}}"), SECRET);
    assert_eq!(world.login(alone(good("ann"))), named("ann"));
    let expired = signed(r#"{"exp":1,"sub":"eve"}"#, SECRET);
    let forged = signed(
        r#"{"exp":1,"sub":"ann"}"#,
        b"another secret of 32 bytes, or so",
    );
    for _ in 0..30 {
        for bad in [&expired, &forged] {
            let answer = Answer::new(|decision| {
                assert!(!matches!(decision, Decision::Accepted(..)));
            });
            let begun = world.center.begin(alone(bad.clone()), answer);
            assert!(matches!(begun, Begun::Pending));
        }
    }
    for name in ["ann", "bob", "eve"] {
        assert_eq!(world.login(alone(good(name))), named(name));
    }
    let waiting = world.center.0.delays.waiting();
    assert!(waiting >= 4, "bad ones wait for their turn: {waiting}");
}

#[test]
fn web_tokens_carry_roles_rules_and_an_end() {
    let issuer = issuer();
    let mut shut_out = user("eve", &[]);
    shut_out.disabled = true;
    let with = |known_users| CenterSettings {
        issuers: vec![Issuer {
            known_users,
            ..issuer.clone()
        }],
        ..settings()
    };
    let world = world_with(with(false), vec![user("ann", &[]), shut_out]);
    let token = |extra: &str| signed(&format!("{{\"exp\":{NOW_ISH}{extra}}}"), SECRET);
    let ann = token(r#","sub":"ann","rights":["allow publish a"]"#);
    assert_eq!(world.password("ann", &ann), named("ann"));
    let proof = world.grants.0.lock().unwrap().pop().unwrap();
    assert_eq!(proof.expires_at_secs, Some(NOW_ISH));
    assert_eq!((proof.roles, proof.rules.len()), (None, 1));
    assert_eq!(world.password("bob", &ann), WRONG);
    let alone = LoginRequest {
        password: Some(Secret::new(ann.clone().into())),
        ..LoginRequest::default()
    };
    assert_eq!(world.login(alone), named("ann"));
    let by_method = |data: &str| {
        world.login(LoginRequest {
            method: Some(Method {
                name: "JWT".into(),
                data: Secret::new(data.into()),
            }),
            ..LoginRequest::default()
        })
    };
    // A name without a zone leaves it to the token, but not to a listener of another one.
    let of_game = token(r#","sub":"ann","zone":"game""#);
    let at_listener = |zone: Option<&str>, name: &str, shown: &str| {
        world.login(LoginRequest {
            zone: zone.map(Into::into),
            ..with_password(name, shown)
        })
    };
    for (zone, name, expected) in [
        (None, "ann", named("ann")),
        (None, "game/ann", named("ann")),
        (None, "", named("ann")),
        (None, "default/ann", WRONG),
        (None, "bob", WRONG),
        (None, "game/bob", WRONG),
        (Some("game"), "ann", named("ann")),
        (Some("game"), "game/ann", named("ann")),
        (Some("chat"), "ann", WRONG),
    ] {
        assert_eq!(
            at_listener(zone, name, &of_game),
            expected,
            "{zone:?} {name}"
        );
    }
    assert_eq!(at_listener(None, "game/ann", &ann), WRONG);
    assert_eq!(by_method(&ann), named("ann"));
    assert_eq!(by_method("nothing"), WRONG);
    assert_eq!(by_method(&token(r#","sub":"eve""#)), WRONG);
    assert_eq!(by_method(&token(r#","sub":"stranger""#)), named("stranger"));
    let proof = world.grants.0.lock().unwrap().pop().unwrap();
    assert_eq!(proof.roles, None, "they follow who gets that name");
    // A user who was shut out stays out, though somebody else has forgotten that user.
    let mut gone = user("stranger", &[]);
    gone.disabled = true;
    *world.memory.left.lock().unwrap() = Some(Arc::new(gone));
    assert_eq!(by_method(&token(r#","sub":"stranger""#)), WRONG);
    *world.memory.left.lock().unwrap() = None;
    world.center.configure(with(true));
    assert_eq!(by_method(&token(r#","sub":"stranger""#)), WRONG);
    assert_eq!(by_method(&ann), named("ann"));
}
