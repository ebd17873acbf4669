//! Links that log a browser in as the owner of the server. Each works once, and only for a minute.
//!
//! A link is 256 random bits, of which only the hash is kept. So nobody finds one by guessing; that
//! wrong ones are counted keeps such attempts out of the way. A right link always works, since
//! any page of the web can make a browser on this machine open wrong ones.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use stentor_auth::credential::{Token, TokenHash};
use stentor_control::Failure;
use stentor_control::login::Made;
use stentor_session::Tick;

/// For how long a link works.
const LIFETIME: Duration = Duration::from_secs(60);

/// Links that wait to be opened. For another one, the oldest one ends.
const LINKS_MAX: usize = 16;

/// Wrong links of one address within [`GUESS_TIME`] that are answered as such.
const GUESSES_MAX: u32 = 10;

/// After how long an address may open wrong links again.
const GUESS_TIME: Duration = Duration::from_secs(60);

/// Addresses whose wrong links are counted, the newest ones.
const ADDRESSES_MAX: usize = 256;

/// Where a link leads.
const PATH: &str = "/login?once=";

/// See the module.
#[derive(Default)]
pub(crate) struct Links {
    /// The addresses of HTTP, the best one for a browser on this machine first.
    bases: OnceLock<Vec<String>>,
    open: Mutex<Open>,
}

/// The links that wait, and the wrong ones.
#[derive(Debug, Default)]
struct Open {
    links: VecDeque<Link>,
    guesses: VecDeque<Guesses>,
}

#[derive(Debug)]
struct Link {
    mark: String,
    ends_at: Tick,
    maker: String,
}

#[derive(Debug)]
struct Guesses {
    address: Option<IpAddr>,
    since: Tick,
    count: u32,
}

/// Why a link does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// There is none, or it was opened, or its time is over.
    Unknown,
    /// Too many wrong ones came from this address.
    TooMany,
}

impl Links {
    /// Remembers where HTTP is spoken.
    pub(super) fn announce(&self, bases: Vec<String>) {
        // There is one start.
        let _ = self.bases.set(bases);
    }

    /// Makes a link for somebody.
    ///
    /// # Errors
    /// When no browser could open it, or the system gives no random bytes.
    pub(crate) fn make(&self, now: Tick, maker: String) -> Result<Made, Failure> {
        let Some(base) = self.bases.get().and_then(|bases| bases.first()) else {
            let text = "the server has no address of HTTP that a browser can open; set http.listen \
                        in its configuration, or start it with --http http://127.0.0.1:18083";
            return Err(Failure::new("refused", text));
        };
        let secret = Token::generate().map_err(|error| {
            let text = format!("no link can be made: {error}; try again");
            Failure::new("unavailable", text)
        })?;
        let path = format!("{PATH}{}", secret.reveal());
        self.lock().add(now, mark(secret.reveal()), maker);
        Ok(Made {
            url: format!("{base}{path}"),
            path,
            expires_secs: LIFETIME.as_secs(),
        })
    }

    /// Opens a link: who has made it.
    pub(super) fn open(
        &self,
        now: Tick,
        secret: &str,
        address: Option<IpAddr>,
    ) -> Result<String, Wrong> {
        self.lock().open(now, &mark(secret), address)
    }

    /// A link or a count is put in, changed or taken out in one step.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn add(&mut self, now: Tick, mark: String, maker: String) {
        self.links.retain(|link| link.ends_at > now);
        if self.links.len() >= LINKS_MAX {
            self.links.pop_front();
        }
        self.links.push_back(Link {
            mark,
            ends_at: now.after(LIFETIME),
            maker,
        });
    }

    fn open(&mut self, now: Tick, mark: &str, address: Option<IpAddr>) -> Result<String, Wrong> {
        self.links.retain(|link| link.ends_at > now);
        let found = self.links.iter().position(|link| link.mark == mark);
        match found.and_then(|at| self.links.remove(at)) {
            Some(link) => Ok(link.maker),
            None => Err(self.guessed(now, address)),
        }
    }

    /// Counts a wrong link.
    fn guessed(&mut self, now: Tick, address: Option<IpAddr>) -> Wrong {
        self.guesses.retain(|one| now.since(one.since) < GUESS_TIME);
        if let Some(one) = self.guesses.iter_mut().find(|one| one.address == address) {
            one.count = one.count.saturating_add(1);
            return match one.count > GUESSES_MAX {
                true => Wrong::TooMany,
                false => Wrong::Unknown,
            };
        }
        if self.guesses.len() >= ADDRESSES_MAX {
            self.guesses.pop_front();
        }
        self.guesses.push_back(Guesses {
            address,
            since: now,
            count: 1,
        });
        Wrong::Unknown
    }
}

/// What a link is remembered by.
fn mark(secret: &str) -> String {
    TokenHash::of(secret.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const START: Tick = Tick::from_secs(100);

    fn address(last: u32) -> Option<IpAddr> {
        Some(Ipv4Addr::from_bits(last).into())
    }

    fn links() -> Links {
        let links = Links::default();
        links.announce(vec!["http://localhost:1".to_owned()]);
        links
    }

    fn secret(made: &Made) -> &str {
        made.path.strip_prefix(PATH).expect("a link has a secret")
    }

    #[test]
    fn a_link_works_once_and_for_a_minute() {
        let links = links();
        let make = || links.make(START, "uid 1".to_owned()).expect("it is made");
        let made = make();
        assert_eq!(made.url, format!("http://localhost:1{}", made.path));
        let open = |now, secret: &str| links.open(now, secret, None);
        assert_eq!(open(START, secret(&made)), Ok("uid 1".to_owned()));
        assert_eq!(open(START, secret(&made)), Err(Wrong::Unknown));
        let (early, late) = (make(), make());
        let almost = START.after(LIFETIME - Duration::from_micros(1));
        assert!(open(almost, secret(&early)).is_ok());
        let over = START.after(LIFETIME);
        assert_eq!(open(over, secret(&late)), Err(Wrong::Unknown));
    }

    #[test]
    fn few_links_wait() {
        let links = links();
        let make = |_| links.make(START, String::new()).expect("it is made");
        let all: Vec<Made> = (0..=LINKS_MAX).map(make).collect();
        let open = |made: &Made| links.open(START, secret(made), None).is_ok();
        assert!(!open(&all[0]));
        assert!(all[1..].iter().all(open));
    }

    #[test]
    fn wrong_links_are_slowed_down_and_right_ones_work() {
        let links = links();
        let guess = |now, who| links.open(now, "x", address(who)).expect_err("it is wrong");
        for _ in 0..GUESSES_MAX {
            assert_eq!(guess(START, 1), Wrong::Unknown);
        }
        assert_eq!(guess(START, 1), Wrong::TooMany);
        assert_eq!(guess(START, 2), Wrong::Unknown, "each has a count");
        let made = links.make(START, "me".to_owned()).expect("it is made");
        assert!(links.open(START, secret(&made), address(1)).is_ok());
        assert_eq!(guess(START.after(GUESS_TIME), 1), Wrong::Unknown);
        for who in 0..2 * ADDRESSES_MAX as u32 {
            guess(START, who);
        }
        assert!(links.lock().guesses.len() <= ADDRESSES_MAX);
    }

    #[test]
    fn without_an_address_there_is_no_link() {
        let links = Links::default();
        let failure = links.make(START, String::new()).expect_err("HTTP is off");
        assert!(failure.message.contains("http.listen"), "{failure:?}");
    }
}
