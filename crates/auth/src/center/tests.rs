use std::collections::HashMap;
use std::sync::{Mutex, mpsc};

use super::*;
use crate::Method;
use crate::credential::jwt::{Algorithm, KeySource, Keys};
use crate::credential::password::work;
use crate::credential::scram::ScramClient;
use crate::credential::{PasswordHash, ScramSecret, Token};
use crate::model::{Credential, DEFAULT_ZONE};
use crate::rights::Unrestricted;
use crate::store::Unavailable;

const NOW_ISH: u64 = 4_000_000_000;

/// Whose hash, the outdated one, the better one.
type Upgrade = (UserKey, Arc<str>, Arc<str>);

/// Users in memory, found at once on the asking thread.
#[derive(Default)]
struct Memory {
    users: Mutex<HashMap<UserKey, Arc<User>>>,
    upgrades: Mutex<Vec<Upgrade>>,
    /// Whose credentials somebody else keeps.
    foreign: Mutex<Vec<&'static str>>,
    /// What is said of somebody who is no user any more.
    left: Mutex<Option<Arc<User>>>,
    mode: Mutex<Mode>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Up,
    Down,
    Full,
}

impl Accounts for Memory {
    fn look_up(&self, key: UserKey, found: Found) -> bool {
        match *self.mode.lock().unwrap() {
            Mode::Up => found(Ok(self.users.lock().unwrap().get(&key).cloned())),
            Mode::Down => found(Err(Unavailable)),
            Mode::Full => return false,
        }
        true
    }

    fn left(&self, key: &UserKey) -> Option<Arc<User>> {
        let left = self.left.lock().unwrap().clone();
        left.filter(|left| left.key() == *key)
    }

    fn keeps(&self, user: &User, _credential: &str) -> bool {
        !self.foreign.lock().unwrap().contains(&&*user.name)
    }

    fn upgrade(&self, key: UserKey, outdated: Arc<str>, better: Arc<str>) {
        self.upgrades.lock().unwrap().push((key, outdated, better));
    }

    fn waiting(&self) -> usize {
        0
    }
}

/// Everybody may everything; what the proof said is kept.
#[derive(Default)]
struct Everybody(Mutex<Vec<Proof>>);

impl Grants for Everybody {
    fn zone_name(&self, _zone: Zone) -> Option<String> {
        None
    }

    fn zone_number(&self, zone: &str) -> io::Result<Zone> {
        Ok(Zone(u32::from(zone != DEFAULT_ZONE)))
    }

    fn identity(
        &self,
        visitor: &Visitor,
        _user: Option<&Arc<User>>,
        proof: Proof,
        expires_at: Tick,
    ) -> io::Result<Option<Arc<Identity>>> {
        self.0.lock().unwrap().push(proof);
        Ok(Some(Arc::new(Identity {
            user: Some(Arc::clone(&visitor.key.name)),
            zone: Zone(u32::from(&*visitor.key.zone != DEFAULT_ZONE)),
            rights: Arc::new(Unrestricted::default()),
            expires_at,
            guest: None,
        })))
    }

    fn anonymous(&self, zone: &str, _client_id: Option<Arc<str>>) -> io::Result<Arc<Identity>> {
        Ok(Arc::new(Identity {
            user: None,
            zone: self.zone_number(zone)?,
            rights: Arc::new(Unrestricted::default()),
            expires_at: Tick::NEVER,
            guest: None,
        }))
    }
}

struct World {
    center: Center,
    memory: Arc<Memory>,
    grants: Arc<Everybody>,
}

fn settings() -> CenterSettings {
    CenterSettings {
        wanted: Cost::CHEAPEST,
        ..CenterSettings::default()
    }
}

/// One hash thread, on a clock that stands.
pub(super) fn options() -> CenterOptions {
    CenterOptions {
        hash_threads: 1,
        waiting_max: 100,
        at_hash_start: || {},
        hash_helper: None,
        clock: Box::new(|| Tick::from_secs(1)),
        decoy_key: DecoyKey::forgetful().unwrap(),
    }
}

fn world_with(settings: CenterSettings, users: Vec<User>) -> World {
    let memory = Arc::new(Memory::default());
    let keyed = users.into_iter().map(|user| (user.key(), Arc::new(user)));
    *memory.users.lock().unwrap() = keyed.collect();
    let grants = Arc::new(Everybody::default());
    let (accounts, granting) = (Arc::clone(&memory), Arc::clone(&grants));
    let center = Center::start(accounts, granting, settings, options()).unwrap();
    World {
        center,
        memory,
        grants,
    }
}

fn world(users: Vec<User>) -> World {
    world_with(settings(), users)
}

fn user(login: &str, credentials: &[String]) -> User {
    let key = UserKey::parse(login);
    let credential = |text: &String| Credential::new(text.as_str());
    User {
        zone: key.zone,
        name: key.name,
        credentials: credentials.iter().map(credential).collect(),
        roles: Vec::new(),
        disabled: false,
        foreign: false,
    }
}

fn hash(password: &str, cost: Cost) -> String {
    PasswordHash::make(password.as_bytes(), cost)
        .unwrap()
        .to_string()
}

fn cheap(password: &str) -> String {
    hash(password, Cost::CHEAPEST)
}

fn with_password(name: &str, password: &str) -> LoginRequest {
    LoginRequest {
        username: Some(name.into()),
        password: Some(Secret::new(password.into())),
        ..LoginRequest::default()
    }
}

/// How a log-in came out, in few words.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    In(Option<String>),
    Asked,
    Out(Refusal),
}

fn named(name: &str) -> Outcome {
    Outcome::In(Some(name.into()))
}

fn outcome(decision: &Decision) -> Outcome {
    match decision {
        Decision::Accepted(identity, _) => Outcome::In(identity.user.as_deref().map(Into::into)),
        Decision::Continue(..) => Outcome::Asked,
        Decision::Refused(refusal) => Outcome::Out(*refusal),
        // Which the client is not told.
        Decision::JwtRefused(_) => WRONG,
        Decision::Denied { text, .. } => panic!("nobody denies log-ins here: {text}"),
    }
}

impl World {
    fn begin(&self, request: LoginRequest) -> Decision {
        let (sender, receiver) = mpsc::channel();
        let answer = Answer::new(move |decision| sender.send(decision).unwrap());
        match self.center.begin(request, answer) {
            Begun::Decided(decision) => decision,
            Begun::Pending => receiver.recv().unwrap(),
        }
    }

    fn login(&self, request: LoginRequest) -> Outcome {
        outcome(&self.begin(request))
    }

    fn password(&self, name: &str, password: &str) -> Outcome {
        self.login(with_password(name, password))
    }

    /// A whole exchange; whether the server proved itself in the end.
    fn scram(&self, sha: Sha, name: &str, password: &str) -> (Outcome, bool) {
        let client = ScramClient::new(sha, password.as_bytes());
        let (client, first) = client.first(name).unwrap();
        let decision = self.begin(LoginRequest {
            method: Some(Method {
                name: sha.mechanism().into(),
                data: Secret::new(first),
            }),
            ..LoginRequest::default()
        });
        let Decision::Continue(exchange, challenge) = decision else {
            return (outcome(&decision), false);
        };
        let (client, proof) = client.answer(&challenge).unwrap();
        let answer = Answer::new(|_| unreachable!("decided at once"));
        let Begun::Decided(decision) = self.center.proceed(exchange, proof, answer) else {
            panic!("a proof is checked at once");
        };
        let proven = match &decision {
            Decision::Accepted(_, Some(signature)) => client.finish(signature).is_ok(),
            _ => false,
        };
        (outcome(&decision), proven)
    }
}

const WRONG: Outcome = Outcome::Out(Refusal::Credentials);
const DISABLED: Outcome = Outcome::Out(Refusal::Disabled);

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
    // Who has only a SCRAM secret can still log in where there is no AUTH.
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
    // Whoever guesses ann's password from the same address does not hold it up.
    let ann = Visitor {
        key: UserKey::parse("ann"),
        says_zone: false,
        zone: None,
        client_id: None,
        address: None,
        again: None,
        is_disabled: false,
    };
    let (throttle, now) = (&world.center.0.throttle, Instant::now());
    for _ in 0..20 {
        throttle.failed(now, &ann);
    }
    while throttle.admit(now, &ann) != Admission::Never {}
    let slowed = Outcome::Out(Refusal::Slowed);
    assert_eq!(world.password("ann", "pencil"), slowed);
    assert_eq!(certified("ann", None, None), named("ann"));
}

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Whoever signs with [`SECRET`].
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
    // Who was shut out stays out, though somebody else has forgotten that user.
    let mut gone = user("stranger", &[]);
    gone.disabled = true;
    *world.memory.left.lock().unwrap() = Some(Arc::new(gone));
    assert_eq!(by_method(&token(r#","sub":"stranger""#)), WRONG);
    *world.memory.left.lock().unwrap() = None;
    world.center.configure(with(true));
    assert_eq!(by_method(&token(r#","sub":"stranger""#)), WRONG);
    assert_eq!(by_method(&ann), named("ann"));
}

/// Whatever a known user's wrong password costs, an unknown user's costs too: the same functions,
/// with the same parameters, as often.
#[test]
fn a_wrong_name_takes_the_work_of_a_wrong_password() {
    let secret = |sha| {
        let secret = ScramSecret::make(sha, b"pencil", 4_096).unwrap();
        secret.to_string()
    };
    let bcrypt = || hash("pencil", Cost::Bcrypt { log_rounds: 4 });
    for (number, credentials) in [
        vec![cheap("pencil")],
        vec![bcrypt()],
        vec![cheap("pencil"), bcrypt()],
        // A secret beside a hash is of the same password.
        vec![secret(Sha::Sha512), bcrypt(), secret(Sha::Sha256)],
        vec![secret(Sha::Sha256), secret(Sha::Sha512)],
    ]
    .into_iter()
    .enumerate()
    {
        let mut shut_out = user("bob", &credentials);
        shut_out.disabled = true;
        let off = CenterSettings {
            slow_failures: false,
            ..settings()
        };
        let without = user("cat", &[Token::generate().unwrap().hash().to_string()]);
        let world = world_with(off, vec![user("ann", &credentials), shut_out, without]);
        let work = |name: &str| {
            let guess = format!("guess {number} of {name}");
            let refused = if name == "bob" { DISABLED } else { WRONG };
            assert_eq!(world.password(name, &guess), refused);
            work::of(&guess)
        };
        let expected = work("ann");
        assert_eq!(expected.len(), if number == 2 { 2 } else { 1 });
        for name in ["nobody", "bob", "cat", "game/ann", ""] {
            assert_eq!(work(name), expected, "{name}");
        }
    }
}

#[test]
fn no_password_is_hashed_for_a_client_that_has_gone() {
    let world = world(vec![user("ann", &[cheap("pencil")])]);
    let guess = |name: &str, guess: &str| {
        let (sender, receiver) = mpsc::channel();
        let asker = crate::Asker::default();
        let answer = Answer::new(move |decision| sender.send(decision).unwrap());
        let answer = answer.asked_by(&asker);
        drop(asker);
        let request = with_password(name, guess);
        assert!(matches!(
            world.center.begin(request, answer),
            Begun::Pending
        ));
        // Nobody hears it; that it comes says that the attempt is over.
        outcome(&receiver.recv().unwrap())
    };
    for name in ["ann", "nobody"] {
        let text = format!("a guess of {name} in vain");
        assert_eq!(guess(name, &text), Outcome::Out(Refusal::Busy));
        assert!(work::of(&text).is_empty());
    }
    assert_eq!(world.password("ann", "pencil"), named("ann"));
}

#[test]
fn an_outdated_hash_is_replaced_at_the_next_login() {
    let old = hash("pencil", Cost::Bcrypt { log_rounds: 4 });
    let world = world(vec![
        user("ann", std::slice::from_ref(&old)),
        user("bob", &[cheap("x")]),
        user("cat", std::slice::from_ref(&old)),
    ]);
    world.memory.foreign.lock().unwrap().push("cat");
    assert_eq!(world.password("ann", "wrong"), WRONG);
    assert_eq!(world.password("bob", "x"), named("bob"));
    // Nothing is made of what somebody else keeps.
    assert_eq!(world.password("cat", "pencil"), named("cat"));
    assert!(world.memory.upgrades.lock().unwrap().is_empty());
    assert_eq!(world.password("ann", "pencil"), named("ann"));
    // It is done when nobody waits any more.
    let start = Instant::now();
    let upgrades = loop {
        let upgrades = std::mem::take(&mut *world.memory.upgrades.lock().unwrap());
        if !upgrades.is_empty() || start.elapsed() > Duration::from_secs(60) {
            break upgrades;
        }
        std::thread::yield_now();
    };
    let [(key, outdated, better)] = &upgrades[..] else {
        panic!("{upgrades:?}");
    };
    assert_eq!((key, &**outdated), (&UserKey::parse("ann"), &*old));
    let better = PasswordHash::parse(better).unwrap();
    assert_eq!(
        better.verify(b"pencil", Cost::CHEAPEST),
        crate::credential::Verdict::Right
    );
}

/// A remembered password needs no hash thread: it is let in while that is busy.
#[test]
fn a_verified_password_is_remembered_unless_that_is_off() {
    for remember in [Duration::from_secs(600), Duration::ZERO] {
        let settings = CenterSettings {
            remember,
            ..settings()
        };
        let world = world_with(settings, vec![user("ann", &[cheap("pencil")])]);
        assert_eq!(world.password("ann", "pencil"), named("ann"));
        // The hash thread learns after it has answered; what it does next comes after that.
        assert_eq!(world.password("ann", "wrong"), WRONG);
        let (hold, held) = mpsc::channel::<()>();
        let blocked = world.center.0.hashes.submit((), move |()| {
            // Until the test drops its end.
            let _ = held.recv();
        });
        assert_eq!(blocked, Ok(()));
        let (sender, receiver) = mpsc::channel();
        let answer = Answer::new(move |decision| sender.send(outcome(&decision)).unwrap());
        let begun = world.center.begin(with_password("ann", "pencil"), answer);
        assert!(matches!(begun, Begun::Pending));
        let at_once = receiver.try_recv();
        drop(hold);
        if remember.is_zero() {
            assert!(at_once.is_err());
            assert_eq!(receiver.recv(), Ok(named("ann")));
        } else {
            assert_eq!(at_once, Ok(named("ann")));
        }
        // Another password is another thing, and so is a changed one.
        assert_eq!(world.password("ann", "pencils"), WRONG);
        let changed = user("ann", &[cheap("new")]);
        world
            .memory
            .users
            .lock()
            .unwrap()
            .insert(changed.key(), Arc::new(changed));
        assert_eq!(world.password("ann", "pencil"), WRONG);
    }
}

#[test]
fn a_directory_that_is_down_or_full_says_so() {
    let world = world(vec![user("ann", &[cheap("pencil")])]);
    let set = |mode| *world.memory.mode.lock().unwrap() = mode;
    set(Mode::Down);
    let unavailable = Outcome::Out(Refusal::Unavailable);
    assert_eq!(world.password("ann", "pencil"), unavailable);
    assert_eq!(world.scram(Sha::Sha256, "ann", "x").0, unavailable);
    set(Mode::Full);
    assert_eq!(world.password("ann", "pencil"), Outcome::Out(Refusal::Busy));
    set(Mode::Up);
    assert_eq!(world.password("ann", "pencil"), named("ann"));
}

#[test]
fn a_full_queue_of_hashes_is_busy_and_tokens_pass_it() {
    let token = Token::generate().unwrap();
    let credentials = [cheap("pencil"), token.hash().to_string()];
    let world = world(vec![user("ann", &credentials)]);
    let (hold, held) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let blocked = world.center.0.hashes.submit((), move |()| {
        begun.send(()).unwrap();
        // Until the test drops its end.
        let _ = held.recv();
    });
    assert_eq!(blocked, Ok(()));
    has_begun.recv().unwrap();
    let (sender, answers) = mpsc::channel();
    for _ in 0..100 {
        let sender = sender.clone();
        let answer = Answer::new(move |decision| sender.send(outcome(&decision)).unwrap());
        world.center.begin(with_password("ann", "pencil"), answer);
    }
    assert_eq!(world.center.waiting(), 100);
    assert_eq!(world.password("ann", "pencil"), Outcome::Out(Refusal::Busy));
    assert_eq!(world.password("ann", token.reveal()), named("ann"));
    drop(hold);
    for _ in 0..100 {
        assert_eq!(answers.recv(), Ok(named("ann")));
    }
}

/// The fourth wrong attempt waits, whatever it shows; nobody else does.
#[test]
fn failures_are_slowed_unless_that_is_off() {
    for slow_failures in [true, false] {
        let settings = CenterSettings {
            slow_failures,
            remember: Duration::ZERO,
            ..settings()
        };
        let world = world_with(settings, vec![user("ann", &[cheap("pencil")])]);
        for _ in 0..4 {
            assert_eq!(world.password("ann", "wrong"), WRONG);
        }
        let (sender, receiver) = mpsc::channel();
        let answer = Answer::new(move |decision| sender.send(outcome(&decision)).unwrap());
        world.center.begin(with_password("ann", "pencil"), answer);
        assert_eq!(world.center.0.delays.waiting() == 1, slow_failures);
        assert_eq!(world.password("bob", "x"), WRONG);
        assert_eq!(receiver.recv(), Ok(named("ann")));
    }
}

/// A name that a database cannot hold is not looked for, and counts as a failure.
#[test]
fn a_name_that_nobody_can_have_is_not_looked_for() {
    let scram = |name: &str| LoginRequest {
        method: Some(Method {
            name: Sha::Sha256.mechanism().into(),
            data: Secret::new(format!("n,,n={name},r=abc").into()),
        }),
        ..LoginRequest::default()
    };
    let protocol = Outcome::Out(Refusal::Protocol);
    for (make, name, expected) in [
        (&scram as &dyn Fn(&str) -> LoginRequest, "a\0b", protocol),
        (&scram, "a\u{7f}", Outcome::Out(Refusal::Protocol)),
        (&scram, "z\0/ann", Outcome::Out(Refusal::Protocol)),
        (&|name| with_password(name, "x"), "a\0b", WRONG),
        (&|name| with_password(name, "x"), "z\0/ann", WRONG),
    ] {
        let world = world(Vec::new());
        // Who is looked for is told that the server is unavailable.
        *world.memory.mode.lock().unwrap() = Mode::Down;
        for _ in 0..4 {
            assert_eq!(world.login(make(name)), expected, "{name:?}");
        }
        let answer = Answer::new(|_| {});
        world.center.begin(make(name), answer);
        assert_eq!(world.center.0.delays.waiting(), 1, "{name:?}");
    }
}

#[test]
fn an_exchange_of_somebody_else_is_refused() {
    let world = world(Vec::new());
    let answer = Answer::new(|_| unreachable!("decided at once"));
    let begun = world
        .center
        .proceed(Exchange::new("what?"), Vec::new(), answer);
    assert!(matches!(
        begun,
        Begun::Decided(Decision::Refused(Refusal::Protocol))
    ));
}

/// What waits when the center ends is answered, not forgotten.
#[test]
fn nobody_is_left_without_an_answer() {
    let world = world(vec![user("ann", &[cheap("pencil")])]);
    let (sender, receiver) = mpsc::channel();
    let answer = Answer::new(move |decision| sender.send(outcome(&decision)).unwrap());
    let far = Instant::now() + Duration::from_secs(3600);
    let put = world
        .center
        .0
        .delays
        .put((far, Cause::Others), answer, drop);
    assert!(put.is_ok());
    drop(world);
    assert_eq!(receiver.recv(), Ok(Outcome::Out(Refusal::Unavailable)));
}
