//! Bans: who may not connect, by client id, user, address or zone, until when and why.
//!
//! Shards look at each new connection, by hash. The control plane changes the list, and writes it
//! into the data folder before a change counts.

mod file;
mod flapping;
mod index;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use stentor_auth::Authenticator;
use stentor_auth::calendar::Utc;
use stentor_auth::model::DEFAULT_ZONE;
use stentor_control::bans::{Ban, Target};
use stentor_control::{Failure, Network};
use stentor_session::Tick;
use stentor_topic::Zone;
use tracing::{error, info};

pub(crate) use flapping::{Counts, Flapper, Flapping, Rule};
pub(crate) use index::{Entry, Party};
use index::{Index, Key};

/// Bans that there may be.
const BANS_MAX: usize = 10_000;

/// Bytes of a client id, a user name and a reason in a ban.
const TEXT_BYTES_MAX: usize = 1_024;

/// The file in the data folder.
const FILE: &str = "bans.json";

/// This machine: who bans it may ban himself.
const THIS_MACHINE: [&str; 2] = ["127.0.0.0/8", "::1"];

/// The bans that hold.
pub(crate) struct Bans {
    index: ArcSwap<Index>,
    list: Mutex<Vec<Ban>>,
    path: PathBuf,
    zones: Arc<dyn Authenticator>,
}

/// The time in both ways of saying it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Of the server's clock.
    tick: Tick,
    /// In seconds since 1970.
    secs: u64,
}

impl Now {
    pub(crate) fn at(tick: Tick) -> Self {
        let since = SystemTime::UNIX_EPOCH.elapsed();
        let secs = since.map_or(0, |since| since.as_secs());
        Self { tick, secs }
    }

    /// In seconds since 1970.
    pub(crate) const fn secs(self) -> u64 {
        self.secs
    }

    /// A time of the wall clock by the server's, which nobody sets.
    fn tick_of(self, secs: Option<u64>) -> Tick {
        secs.map_or(Tick::NEVER, |secs| {
            let left = Duration::from_secs(secs.saturating_sub(self.secs));
            self.tick.after(left)
        })
    }
}

impl Bans {
    /// Reads the bans of a data folder. A file that cannot be read is put aside: a server that does
    /// not start would keep out everybody.
    pub(crate) fn open(data_dir: &Path, zones: &Arc<dyn Authenticator>, now: Now) -> Self {
        let path = data_dir.join(FILE);
        let list = file::read(&path).unwrap_or_else(|reason| {
            tell_damaged(&path, &reason);
            Vec::new()
        });
        let bans = Self {
            index: ArcSwap::default(),
            list: Mutex::new(list),
            path,
            zones: Arc::clone(zones),
        };
        let mut list = bans.lock();
        list.retain(|ban| is_in_force(ban, now));
        bans.apply(&list, now);
        if !list.is_empty() {
            info!(bans = list.len(), "bans are in force");
        }
        drop(list);
        bans
    }

    /// The ban of an address.
    pub(crate) fn of_address(&self, now: Tick, address: Option<IpAddr>) -> Option<Arc<Entry>> {
        let address = address?;
        self.index.load().by_address(now, address).cloned()
    }

    /// The ban of somebody by name.
    pub(crate) fn of_party(&self, now: Tick, party: Party<'_>) -> Option<Arc<Entry>> {
        self.index.load().by_party(now, party).cloned()
    }

    /// The bans that hold, the oldest first.
    pub(crate) fn list(&self, now: Now) -> Vec<Ban> {
        let list = self.lock();
        let all = list.iter().filter(|ban| is_in_force(ban, now));
        all.cloned().collect()
    }

    /// Keeps somebody out; whether there was a ban for the same target. It counts as soon as this
    /// returns, for connections that come from then on.
    ///
    /// # Errors
    /// When there are too many, or the list cannot be written.
    pub(crate) fn add(&self, ban: &Ban, now: Now) -> Result<bool, Failure> {
        let mut list = self.lock();
        let mut new = list.clone();
        new.retain(|one| is_in_force(one, now));
        let before = new.len();
        new.retain(|one| one.target != ban.target);
        let replaced = new.len() < before;
        if new.len() >= BANS_MAX {
            let message = format!(
                "there are {BANS_MAX} bans, and there can be no more; `stentor ban rm` removes one, \
                 and a ban of a network such as 192.0.2.0/24 replaces many"
            );
            return Err(Failure::new("too-many", message));
        }
        new.push(ban.clone());
        self.store(&mut list, new, now)?;
        Ok(replaced)
    }

    /// Lets somebody in again; `None` if there is no such ban.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub(crate) fn remove(&self, target: &Target, now: Now) -> Result<Option<Ban>, Failure> {
        let mut list = self.lock();
        let mut new = list.clone();
        new.retain(|one| is_in_force(one, now));
        let Some(at) = new.iter().position(|one| one.target == *target) else {
            return Ok(None);
        };
        let removed = new.remove(at);
        self.store(&mut list, new, now)?;
        Ok(Some(removed))
    }

    fn store(&self, list: &mut Vec<Ban>, new: Vec<Ban>, now: Now) -> Result<(), Failure> {
        file::write(&self.path, &new).map_err(|error| {
            let message = format!(
                "cannot write {}: {error}; nothing was changed: free space on the disk, or correct \
                 the error, and try again",
                self.path.display()
            );
            Failure::new("unavailable", message)
        })?;
        *list = new;
        self.apply(list, now);
        Ok(())
    }

    fn apply(&self, list: &[Ban], now: Now) {
        let entry = |ban: &Ban| {
            let until = now.tick_of(ban.until);
            let ban = ban.clone();
            Some((self.key(&ban.target)?, Arc::new(Entry { ban, until })))
        };
        let index = Index::of(list.iter().filter_map(entry));
        self.index.store(Arc::new(index));
    }

    /// `None` if the target is in a zone that does not exist any more.
    fn key(&self, target: &Target) -> Option<Key> {
        let zone = target.zone.as_deref().map(|name| self.zone(name));
        match target {
            Target {
                address: Some(address),
                ..
            } => address.parse::<Network>().ok().map(Key::Network),
            Target {
                client_id: Some(client_id),
                ..
            } => Some(match zone {
                None => Key::Client(client_id.clone(), None),
                Some(zone) => Key::Client(client_id.clone(), Some(zone?)),
            }),
            Target {
                user: Some(user), ..
            } => Some(Key::User(
                user.clone(),
                zone.unwrap_or(Some(Zone::DEFAULT))?,
            )),
            _ => zone?.map(Key::Zone),
        }
    }

    /// A zone that nobody has used yet gets its number now.
    fn zone(&self, name: &str) -> Option<Zone> {
        let zones = &self.zones;
        let new = || zones.has_zone(name).then(|| zones.zone_number(name).ok())?;
        zones.known_zone(name).or_else(new)
    }

    /// The list is replaced in one step.
    fn lock(&self) -> MutexGuard<'_, Vec<Ban>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_in_force(ban: &Ban, now: Now) -> bool {
    ban.until.is_none_or(|until| now.secs < until)
}

fn tell_damaged(path: &Path, reason: &str) {
    let place = path.display();
    match file::put_aside(path) {
        Ok(aside) => {
            let aside = aside.display();
            error!(
                "{place} cannot be read ({reason}), so nobody is banned now; it is kept as {aside}: \
                 add the bans again by `stentor ban add`, or correct that file, put it back and \
                 restart"
            );
        }
        Err(failed) => {
            error!(
                "{place} cannot be read ({reason}) nor put aside ({failed}), so nobody is banned \
                 now; the next change replaces it: correct it and restart before"
            );
        }
    }
}

impl Entry {
    /// What the log says when it refuses somebody, with the command that ends the ban.
    pub(crate) fn told(&self) -> String {
        let Ban {
            target,
            until,
            reason,
            by,
            ..
        } = &self.ban;
        let until = until.map_or_else(String::new, |until| format!(" until {}", utc(until)));
        let reason = match reason.is_empty() {
            true => String::new(),
            false => format!(" ({reason:?})"),
        };
        format!(
            "{target} is banned{until}{reason}, by {by}; `stentor ban ls` shows all bans, `stentor \
             ban rm` ends one"
        )
    }
}

/// A time in seconds since 1970, as people write it.
fn utc(secs: u64) -> String {
    let utc = Utc::new(secs);
    format!("{}T{}Z", utc.date(), utc.clock())
}

/// The target in the one form that it is kept in.
///
/// # Errors
/// When it is not one, or concerns those who must not be banned by accident.
pub(crate) fn checked(target: &Target, force: bool) -> Result<Target, Failure> {
    let bad = |message: String| Failure::new("bad-request", message);
    let mut target = target.clone();
    let parts = [&target.client_id, &target.user, &target.address];
    let named = parts.iter().filter(|part| part.is_some()).count();
    check_texts(&target)?;
    match named {
        0 if target.zone.is_none() => {
            return Err(bad(
                "a ban needs a client id, a user, an address or a zone: `stentor ban add --client \
                 ID`, --user NAME, --address ADDRESS or --zone NAME"
                    .to_owned(),
            ));
        }
        0 if target.zone.as_deref() == Some(DEFAULT_ZONE) && !force => {
            return Err(bad(
                "a ban of the zone \"default\" keeps out everybody who has no other zone; --force \
                 bans it all the same"
                    .to_owned(),
            )
            .about("zone"));
        }
        0 | 1 => {}
        _ => {
            return Err(bad(
                "a ban is about a client id, a user or an address, and not about several; make a \
                 ban of each"
                    .to_owned(),
            ));
        }
    }
    if let Some(address) = &target.address {
        target.address = Some(network(address, target.zone.is_some(), force)?);
    }
    if let Some((zone, user)) = target.user.as_deref().and_then(|user| user.split_once('/')) {
        if target.zone.as_deref().is_some_and(|said| said != zone) {
            return Err(bad(format!(
                "the user {zone}/{user} is in the zone {zone:?}, and the ban is for another one; \
                 leave --zone out"
            ))
            .about("zone"));
        }
        (target.zone, target.user) = (Some(zone.to_owned()), Some(user.to_owned()));
    }
    if target.user.is_some() && target.zone.is_none() {
        target.zone = Some(DEFAULT_ZONE.to_owned());
    }
    Ok(target)
}

/// Refuses names that are empty, or longer than a ban keeps.
fn check_texts(target: &Target) -> Result<(), Failure> {
    let parts = [
        ("client_id", &target.client_id),
        ("user", &target.user),
        ("address", &target.address),
        ("zone", &target.zone),
    ];
    for (field, text) in parts {
        let Some(text) = text else { continue };
        if !(1..=TEXT_BYTES_MAX).contains(&text.len()) {
            let message = format!(
                "{text:?} has {} bytes; a ban needs a name of 1 to {TEXT_BYTES_MAX}: ban the user \
                 or the address instead",
                text.len()
            );
            return Err(Failure::new("bad-request", message).about(field));
        }
    }
    Ok(())
}

fn network(text: &str, has_zone: bool, force: bool) -> Result<String, Failure> {
    let bad = |message: String| Failure::new("bad-request", message).about("address");
    let network = text
        .parse::<Network>()
        .map_err(|error| bad(format!("{text:?} cannot be banned: {error}")))?;
    if has_zone {
        return Err(bad(format!(
            "the address {network} is banned before anybody knows the zone of a client; leave \
             --zone out"
        ))
        .about("zone"));
    }
    let is_own = |own: &str| own.parse::<Network>().is_ok_and(|own| own.meets(network));
    if !force && THIS_MACHINE.iter().any(|own| is_own(own)) {
        return Err(bad(format!(
            "{network} has addresses of this machine itself, such as those of its own clients and \
             of proxies; --force bans it all the same"
        )));
    }
    Ok(network.to_string())
}

/// The reason of a ban, if it is short enough.
///
/// # Errors
/// When it is longer.
pub(crate) fn checked_reason(reason: &str) -> Result<String, Failure> {
    match reason.len() {
        0..=TEXT_BYTES_MAX => Ok(reason.to_owned()),
        bytes => Err(Failure::new(
            "bad-request",
            format!(
                "the reason has {bytes} bytes, and a ban keeps up to {TEXT_BYTES_MAX}: shorten it"
            ),
        )
        .about("reason")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoZones;

    impl Authenticator for NoZones {
        fn begin(
            &self,
            _: stentor_auth::LoginRequest,
            _: stentor_auth::Answer,
        ) -> stentor_auth::Begun {
            unreachable!("nobody logs in")
        }

        fn proceed(
            &self,
            _: stentor_auth::Exchange,
            _: Vec<u8>,
            _: stentor_auth::Answer,
        ) -> stentor_auth::Begun {
            unreachable!("nobody logs in")
        }

        fn waiting(&self) -> usize {
            0
        }
    }

    const NOW: Now = Now {
        tick: Tick::from_secs(100),
        secs: 1_000,
    };

    fn open(folder: &Path, now: Now) -> Bans {
        let zones: Arc<dyn Authenticator> = Arc::new(NoZones);
        Bans::open(folder, &zones, now)
    }

    fn client(client_id: &str, until: Option<u64>) -> Ban {
        Ban {
            target: Target {
                client_id: Some(client_id.into()),
                ..Target::default()
            },
            until,
            ..Ban::default()
        }
    }

    fn is_out(bans: &Bans, secs: u64, client_id: &str) -> bool {
        let party = Party {
            zone: Zone::DEFAULT,
            client_id,
            user: None,
        };
        bans.of_party(Tick::from_secs(secs), party).is_some()
    }

    #[test]
    fn bans_outlive_the_server_and_end_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let bans = open(folder.path(), NOW);
        assert_eq!(bans.add(&client("a", Some(1_060)), NOW), Ok(false));
        assert_eq!(bans.add(&client("a", Some(1_090)), NOW), Ok(true));
        bans.add(&client("b", None), NOW).unwrap();
        assert!(is_out(&bans, 189, "a") && !is_out(&bans, 190, "a"));
        drop(bans);
        // The new server's clock begins again.
        let later = Now {
            tick: Tick::ZERO,
            secs: 1_080,
        };
        let bans = open(folder.path(), later);
        assert!(is_out(&bans, 9, "a") && !is_out(&bans, 10, "a") && is_out(&bans, 99, "b"));
        let target = client("b", None).target;
        assert!(bans.remove(&target, later).unwrap().is_some());
        assert_eq!(bans.remove(&target, later), Ok(None));
        assert!(!is_out(&bans, 0, "b"));
        let end = Now {
            tick: Tick::ZERO,
            secs: 1_090,
        };
        assert_eq!(bans.list(end), []);
    }

    #[test]
    fn a_damaged_file_stops_no_server_and_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, "{\"v\":1,").unwrap();
        let bans = open(folder.path(), NOW);
        assert!(bans.list(NOW).is_empty());
        let aside = folder.path().join("bans.json.damaged");
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "{\"v\":1,");
        bans.add(&client("a", None), NOW).unwrap();
        assert!(is_out(&open(folder.path(), NOW), 0, "a"));
    }

    #[test]
    fn there_are_not_more_than_so_many() {
        let folder = tempfile::tempdir().unwrap();
        let bans = open(folder.path(), NOW);
        *bans.lock() = (0..BANS_MAX)
            .map(|at| client(&at.to_string(), None))
            .collect();
        let refused = bans.add(&client("x", None), NOW).unwrap_err();
        assert_eq!(refused.code, "too-many");
        assert_eq!(bans.add(&client("7", Some(2_000)), NOW), Ok(true));
    }

    #[test]
    fn a_target_has_one_form_and_nobody_bans_himself() {
        let target = |key: &str, text: &str| {
            let text = Some(text.to_owned());
            let mut target = Target::default();
            match key {
                "client" => target.client_id = text,
                "user" => target.user = text,
                "address" => target.address = text,
                _ => target.zone = text,
            }
            target
        };
        let form = |key: &str, text: &str, force: bool| {
            let checked = checked(&target(key, text), force);
            checked.map(|target| target.to_string())
        };
        for (key, text, shown) in [
            ("client", "pump", "the client id \"pump\""),
            ("user", "ann", "the user \"ann\" in the zone \"default\""),
            ("user", "game/ann", "the user \"ann\" in the zone \"game\""),
            ("address", "192.0.2.7/24", "the address 192.0.2.0/24"),
            ("address", "2001:db8::1", "the address 2001:db8::/64"),
            ("zone", "game", "the zone \"game\""),
        ] {
            assert_eq!(form(key, text, false).as_deref(), Ok(shown));
        }
        for (key, text) in [
            ("address", "127.0.0.1"),
            ("address", "0.0.0.0/0"),
            ("address", "::1"),
            ("address", "::/0"),
            ("zone", "default"),
        ] {
            let refused = form(key, text, false).unwrap_err();
            assert!(refused.message.contains("--force"), "{}", refused.message);
            assert!(form(key, text, true).is_ok(), "{text}");
        }
        for (key, text) in [
            ("client", ""),
            ("address", "pump"),
            ("user", &"x".repeat(2_000)),
        ] {
            assert!(form(key, text, true).is_err(), "{text}");
        }
        let two = Target {
            user: Some("ann".into()),
            ..target("client", "pump")
        };
        assert!(checked(&two, true).is_err());
        assert!(checked(&Target::default(), true).is_err());
        let elsewhere = Target {
            zone: Some("game".into()),
            ..target("address", "192.0.2.7")
        };
        assert!(checked(&elsewhere, true).is_err());
    }
}
