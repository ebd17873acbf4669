//! What logins cost, and what happens where that is too much.

use super::*;

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
        // A client whose user is looked for hears that the server is unavailable.
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

/// Logins that wait when the center ends are answered, not forgotten.
#[test]
fn nobody_is_left_without_an_answer() {
    let world = world(vec![user("ann", &[cheap("pencil")])]);
    let (sender, receiver) = mpsc::channel();
    let answer = Answer::new(move |decision| sender.send(outcome(&decision)).unwrap());
    let far = Instant::now() + Duration::from_secs(3600);
    let put = world.center.0.delays.put(far, Cause::Others, answer, drop);
    assert!(put.is_ok());
    drop(world);
    assert_eq!(receiver.recv(), Ok(Outcome::Out(Refusal::Unavailable)));
}
