use super::memory::{COUNTS_MAX, FAILURES};
use super::*;

fn login(name: &str, address: &str) -> LoginAttempt {
    LoginAttempt {
        says_zone: true,
        address: (!address.is_empty()).then(|| address.parse().unwrap()),
        ..LoginAttempt::named(name)
    }
}

fn device(name: &str, address: &str, client_id: &str) -> LoginAttempt {
    LoginAttempt {
        client_id: Some(client_id.into()),
        ..login(name, address)
    }
}

fn wait(throttle: &Throttle, now: Instant, login: &LoginAttempt) -> Option<Duration> {
    match throttle.admit(now, login) {
        Admission::Free | Admission::Now => Some(Duration::ZERO),
        Admission::At(time, _) => Some(time - now),
        Admission::Never => None,
    }
}

/// Attempts that are made at their time and fail, under a clock that the test moves.
#[derive(Default)]
struct Attackers {
    waiting: Vec<(Instant, LoginAttempt)>,
    failures: usize,
}

impl Attackers {
    /// Fails for whoever's time has come.
    fn advance(&mut self, throttle: &Throttle, now: Instant) {
        let due = self.waiting.extract_if(.., |(at, _)| *at <= now);
        for (_, login) in due.collect::<Vec<_>>() {
            throttle.failed(now, &login);
            self.failures += 1;
        }
    }

    /// Tries, whether or not others of them wait already.
    fn attempt(&mut self, throttle: &Throttle, now: Instant, login: LoginAttempt) {
        match throttle.admit(now, &login) {
            Admission::Free | Admission::Now => self.waiting.push((now, login)),
            Admission::At(at, _) => self.waiting.push((at, login)),
            Admission::Never => {}
        }
    }
}

/// Runs an attack for ten minutes, with all attackers trying every 100 ms; how many guesses were
/// made. `check` is called every second.
fn attack(
    throttle: &Throttle,
    start: Instant,
    mut attackers: impl FnMut(u32) -> Vec<LoginAttempt>,
    mut check: impl FnMut(Instant),
) -> usize {
    let mut crowd = Attackers::default();
    for step in 0..6_000 {
        let now = start + Duration::from_millis(100) * step;
        crowd.advance(throttle, now);
        for login in attackers(step) {
            crowd.attempt(throttle, now, login);
        }
        if step % 10 == 9 {
            check(now);
        }
    }
    crowd.failures
}

#[test]
fn failures_are_slowed_after_some_and_bounded() {
    let throttle = Throttle::default();
    let mut now = Instant::now();
    let ann = login("ann", "192.0.2.1");
    let mut waits = Vec::new();
    for _ in 0..12 {
        let waited = wait(&throttle, now, &ann).unwrap();
        waits.push(waited.as_millis());
        now += waited;
        throttle.failed(now, &ann);
    }
    assert_eq!(waits[..7], [0, 0, 0, 250, 500, 1000, 2000]);
    assert_eq!(waits[11], 8000);
    // A client with the right password is through, and starts anew.
    throttle.succeeded(now, &ann);
    assert_eq!(wait(&throttle, now, &ann), Some(Duration::ZERO));
}

#[test]
fn many_attempts_at_once_wait_one_after_the_other() {
    let throttle = Throttle::default();
    let now = Instant::now();
    let ann = login("ann", "192.0.2.1");
    for _ in 0..6 {
        throttle.failed(now, &ann);
    }
    let waits: Vec<_> = (0..100).map(|_| wait(&throttle, now, &ann)).collect();
    let admitted = waits.iter().flatten().count();
    assert!((2..10).contains(&admitted), "{admitted}");
    assert!(
        waits
            .windows(2)
            .all(|pair| pair[1].is_none() || pair[0] < pair[1])
    );
}

/// 500 addresses try one account without pause; its user comes from an address that is new.
#[test]
fn who_is_attacked_from_everywhere_gets_in_from_a_new_address() {
    let throttle = Throttle::default();
    let start = Instant::now();
    let bots = |_| {
        (0..500u16)
            .map(|bot| login("ann", &format!("203.0.{}.{}", bot / 250, bot % 250)))
            .collect()
    };
    let mut number = 0;
    let guesses = attack(&throttle, start, bots, |now| {
        // Twice mistaken, then right.
        let address = format!("198.51.{}.{}", number / 250, number % 250);
        number += 1;
        let mut now = now;
        let ann = login("ann", &address);
        for attempt in 0..3 {
            let waited = wait(&throttle, now, &ann).expect("ann is never turned away");
            assert!(waited <= ACCOUNT.longest, "{waited:?}");
            now += waited;
            match attempt {
                0 | 1 => throttle.failed(now, &ann),
                _ => throttle.succeeded(now, &ann),
            }
        }
    });
    // Each has its first guesses, and all together one in two seconds besides.
    assert!(guesses <= 4 * 500 + 600 / 2, "{guesses}");
    assert!(guesses >= 3 * 500, "the attack took place: {guesses}");
}

/// One address tries ever new names, and the user's too.
#[test]
fn many_accounts_tried_from_one_address_keep_nobody_elsewhere_out() {
    let throttle = Throttle::default();
    let start = Instant::now();
    let guess = |step| {
        (0..20)
            .map(|number| match number {
                0 => login("ann", "203.0.113.9"),
                number => login(&format!("user{step}-{number}"), "203.0.113.9"),
            })
            .collect()
    };
    let guesses = attack(&throttle, start, guess, |now| {
        let ann = login("ann", "198.51.100.7");
        assert_eq!(wait(&throttle, now, &ann), Some(Duration::ZERO));
    });
    // 12,000 without a throttle in the first minute alone; now four in a second.
    assert!(guesses <= 4 * 600 + 200, "{guesses}");
}

/// The attackers sit at the user's own address.
#[test]
fn neighbours_of_an_attacker_get_in() {
    let throttle = Throttle::default();
    let start = Instant::now();
    let here = "203.0.113.9";
    let (ann, bob) = (device("ann", here, "ann-phone"), login("bob", here));
    throttle.succeeded(start, &ann);
    throttle.succeeded(start, &bob);
    // A device with an old password is slowed, and nobody for its sake.
    for _ in 0..10_000 {
        throttle.failed(start, &login("printer", here));
    }
    let carl = login("carl", here);
    assert_eq!(wait(&throttle, start, &carl), Some(Duration::ZERO));
    // Names that are known by heart, with ann's and bob's among them.
    let guess = |_| {
        let names = (0..20).map(|number| login(&format!("user{number}"), here));
        names.chain([login("ann", here)]).collect()
    };
    let mut number = 0;
    attack(&throttle, start, guess, |now| {
        for known in [&ann, &bob] {
            assert_eq!(wait(&throttle, now, known), Some(Duration::ZERO));
            throttle.succeeded(now, known);
        }
        // Somebody who was never here waits behind nobody who has failed.
        number += 1;
        let new = login(&format!("new{number}"), here);
        let waited = wait(&throttle, now, &new).expect("room for who is new");
        // The attackers have their first guesses first.
        let is_settled = now - start > Duration::from_secs(30);
        assert!(
            !is_settled || waited <= Duration::from_secs(1),
            "{waited:?}"
        );
        throttle.succeeded(now + waited, &new);
    });
}

/// A long wait in one line makes another line no longer.
#[test]
fn a_place_far_back_in_one_line_holds_no_other_up() {
    let throttle = Throttle::default();
    let now = Instant::now();
    for number in 0..20 {
        for _ in 0..8 {
            throttle.failed(now, &login(&format!("u{number}"), "203.0.113.9"));
        }
    }
    // Each of them would wait eight seconds for itself.
    let later = now + Duration::from_secs(4);
    let first = wait(&throttle, later, &login("u0", "203.0.113.9")).unwrap();
    let second = wait(&throttle, later, &login("u1", "203.0.113.9")).unwrap();
    assert!(second - first < ADDRESS.longest, "{first:?} {second:?}");
}

#[test]
fn why_somebody_waits_is_told() {
    let throttle = Throttle::default();
    let now = Instant::now();
    for number in 0..60 {
        throttle.failed(now, &login("ann", &format!("203.0.113.{number}")));
    }
    let cause = |login: &LoginAttempt| match throttle.admit(now, login) {
        Admission::At(_, cause) => cause,
        other => panic!("{other:?}"),
    };
    let stranger = login("ann", "203.0.113.1");
    assert_eq!(cause(&login("ann", "198.51.100.7")), Cause::Others);
    for _ in 0..3 {
        throttle.failed(now, &stranger);
    }
    assert_eq!(cause(&stranger), Cause::Own);
}

#[test]
fn one_address_guesses_slowly_whatever_the_account() {
    let throttle = Throttle::default();
    let now = Instant::now();
    let mut slowed = 0;
    for number in 0..60 {
        // The whole of a /64 is one address.
        let guess = login(&format!("user{number}"), &format!("2001:db8::{number:x}"));
        slowed += u32::from(wait(&throttle, now, &guess) != Some(Duration::ZERO));
        throttle.failed(now, &guess);
    }
    assert!(slowed >= 39, "{slowed}");
    let other = login("ann", "2001:db8:0:1::1");
    assert_eq!(wait(&throttle, now, &other), Some(Duration::ZERO));
    // An address of version 4 in the form of version 6 is that address.
    let mapped = network("::ffff:192.0.2.1".parse().unwrap());
    assert_eq!(mapped, "192.0.2.1".parse::<IpAddr>().unwrap());
}

/// Tokens that do not hold: of devices of one address, with signatures of nobody, without pause.
#[test]
fn bad_tokens_make_nobody_else_wait() {
    let throttle = Throttle::default();
    let now = Instant::now();
    let here = "203.0.113.9";
    let unproven = Bearer::Unproven(Some(here.parse().unwrap()));
    let expired = Bearer::Proven(login("ann", here));
    let mut never = 0;
    for bearer in [&unproven, &expired] {
        for attempt in 0..100 {
            let admission = throttle.admit_bearer(now, bearer);
            match admission {
                Admission::Free => assert!(attempt < 3, "{attempt}"),
                Admission::Now => {}
                Admission::At(_, cause) => assert_eq!(cause, Cause::Own),
                Admission::Never => never += 1,
            }
            throttle.bearer_failed(now, bearer);
        }
    }
    assert!(never > 150, "they have lines of their own: {never}");
    // Passwords of others at that address, new ones too, and the bearer's elsewhere.
    for other in [login("bob", here), login("ann", "198.51.100.7")] {
        assert_eq!(throttle.admit(now, &other), Admission::Free);
    }
    for number in 0..50 {
        let new = login(&format!("new{number}"), here);
        assert_eq!(throttle.admit(now, &new), Admission::Free);
    }
    let elsewhere = Bearer::Unproven(Some("198.51.100.7".parse().unwrap()));
    let other = Bearer::Proven(login("bob", here));
    for bearer in [elsewhere, other] {
        assert_eq!(throttle.admit_bearer(now, &bearer), Admission::Free);
    }
    // A token that holds makes amends for the signatures, and its bearer's own.
    assert_ne!(throttle.admit_bearer(now, &unproven), Admission::Free);
    throttle.bearer_succeeded(Some(here.parse().unwrap()));
    assert_eq!(throttle.admit_bearer(now, &unproven), Admission::Free);
    assert_ne!(throttle.admit_bearer(now, &expired), Admission::Free);
    throttle.succeeded(now, &login("ann", here));
    assert_eq!(throttle.admit_bearer(now, &expired), Admission::Free);
}

#[test]
fn failures_are_forgotten() {
    let throttle = Throttle::default();
    let now = Instant::now();
    let ann = login("ann", "");
    for _ in 0..10 {
        throttle.failed(now, &ann);
    }
    let (soon, later) = (now + FAILURES, now + 2 * FAILURES);
    throttle.failed(soon, &login("x", ""));
    throttle.failed(later, &login("x", ""));
    assert_eq!(wait(&throttle, later, &ann), Some(Duration::ZERO));
}

#[test]
fn memory_is_bounded() {
    let throttle = Throttle::default();
    let now = Instant::now();
    for number in 0..COUNTS_MAX {
        throttle.failed(now, &login(&number.to_string(), "192.0.2.1"));
    }
    assert!(throttle.lock().failures.len() <= COUNTS_MAX + 3);
}
