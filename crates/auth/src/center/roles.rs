//! From a user who has proved itself to an identity with rights, and to another one when those
//! change.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use stentor_hub::{Identity, Needs, Renewed, UserBound};
use stentor_session::{Limit, Tick};
use stentor_topic::Zone;

use super::login_record::{LoginRecord, Returned};
use super::password::valid;
use super::places::Registry;
use super::renewal::{Changes, Renewals};
use super::successors::Successors;
use super::zones::{SecondLogin, ZoneRules};
use super::{Grants, LoginAttempt, Proof, Returning};
use crate::ConnectionBound;
use crate::credential::TokenHash;
use crate::model::{ANONYMOUS, GUEST, MEMBER, Quotas, Role, Rule, User, UserKey, guest_role};
use crate::rights::{Book, Holder, Login, compile};
use crate::store::{Directory, Watch, ZoneNumbers, stands_alone};

/// Gives identities the rights of their roles, and their zones numbers.
///
/// What was changed is numbered: an identity knows the last change that is in it, so that a change
/// passes over those who logged in after it.
pub struct RoleGrants {
    directory: Arc<Directory>,
    book: ArcSwap<Book>,
    zones: ZoneNumbers,
    registry: Registry,
    /// How many changes there were.
    changes: AtomicU64,
    rules: ArcSwap<ZoneRules>,
    /// The rights of those without a name, where their client id makes no difference: with one
    /// that they chose, and without.
    anonymous: ArcSwap<[Option<Arc<LoginRecord>>; 2]>,
    successors: Successors,
}

impl fmt::Debug for RoleGrants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleGrants").finish_non_exhaustive()
    }
}

/// Where the rights of somebody come from.
struct Source<'s> {
    key: Option<&'s UserKey>,
    user: Option<&'s Arc<User>>,
    /// What the source last said of a user that it no longer has.
    left: Option<Arc<User>>,
    proof: Option<&'s Proof>,
    /// Whether a credential that somebody else keeps has let it in.
    is_theirs: bool,
    client_id: Option<Arc<str>>,
    /// The zone of somebody without a name.
    nameless_in: &'s Arc<str>,
}

impl Source<'_> {
    fn zone(&self) -> Arc<str> {
        Arc::clone(self.key.map_or(self.nameless_in, |key| &key.zone))
    }

    /// The names of its roles. They follow the user who has the name of somebody who is none, as
    /// far as the proof says nothing of roles.
    fn roles(&self) -> Vec<Arc<str>> {
        let of_proof = self.proof.and_then(|proof| proof.roles.clone());
        // A proof that has rules needs no role.
        let has_rules = self.proof.is_some_and(|proof| !proof.rules.is_empty());
        match (of_proof, self.user, self.key) {
            (Some(roles), ..) => roles,
            (None, Some(user), _) => user.roles.clone(),
            (None, None, Some(_)) => match &self.left {
                Some(left) if !left.roles.is_empty() => left.roles.clone(),
                _ if has_rules => Vec::new(),
                _ => vec![MEMBER.into()],
            },
            (None, None, None) => vec![ANONYMOUS.into()],
        }
    }

    fn rules(&self) -> Vec<Rule> {
        self.proof
            .map_or_else(Vec::new, |proof| proof.rules.clone())
    }
}

impl RoleGrants {
    /// With the roles of this directory, and zone numbers.
    #[must_use]
    pub fn new(directory: Arc<Directory>, zones: ZoneNumbers) -> Self {
        let book = Book::new(all_roles(&directory), None);
        Self {
            directory,
            book: ArcSwap::from_pointee(book),
            zones,
            registry: Registry::default(),
            changes: AtomicU64::new(0),
            rules: ArcSwap::default(),
            anonymous: ArcSwap::from_pointee([None, None]),
            successors: Successors::default(),
        }
    }

    /// Takes changes over that the directory has told, and says what becomes of those who are
    /// logged in: to be given to every shard.
    #[must_use]
    pub fn take_over(self: &Arc<Self>, changes: Changes) -> Arc<Renewals> {
        if changes.roles {
            let previous = self.book.load();
            let book = Book::new(all_roles(&self.directory), Some(&previous));
            self.book.store(Arc::new(book));
        }
        // A thread that reads this number from now on reads the book, the zones and the users
        // after it.
        let number = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
        self.anonymous.store(Arc::new([None, None]));
        Arc::new(Renewals::new(Arc::downgrade(self), number, changes))
    }

    /// All roles, compiled.
    #[must_use]
    pub fn book(&self) -> Arc<Book> {
        self.book.load_full()
    }

    /// The numbers of zones.
    #[must_use]
    pub const fn zones(&self) -> &ZoneNumbers {
        &self.zones
    }

    fn holder(&self, source: &Source<'_>) -> Arc<Holder> {
        let login = Login {
            user: source.key.map(|key| Arc::clone(&key.name)),
            client_id: source.client_id.clone(),
            zone: source.zone(),
        };
        let (names, rules) = (source.roles(), source.rules());
        let book = self.book.load();
        if rules.is_empty() {
            return book.holder(&names, login);
        }
        let own = Arc::new(Role {
            zone: None,
            name: "token".into(),
            rules,
            quotas: Quotas::default(),
        });
        let named = names.iter().filter_map(|name| book.role(&login.zone, name));
        let roles: Vec<Arc<Role>> = named.cloned().chain([own]).collect();
        compile(&roles, login)
    }

    fn needs(&self, source: &Source<'_>, holder: &Holder) -> Needs {
        let zone = source.zone();
        let zones = self.directory.zones();
        let record = zones.iter().find(|record| record.name == zone);
        let rule = self.rules.load().of(&zone);
        let of_zone = rule.connections;
        let of_user = match rule.second_login {
            SecondLogin::Refuse => Some((1, UserBound::SecondLogin)),
            SecondLogin::Allow | SecondLogin::Replace => {
                rule.user_connections.map(|max| (max, UserBound::Zone))
            }
        };
        let of_roles = holder.grant().quotas().connections;
        let of_roles = of_roles.map(|max| (max, UserBound::Roles));
        let of_user = of_user.into_iter().chain(of_roles);
        let of_user = of_user.min_by_key(|(max, _)| *max);
        let per_user = of_user.map(|(max, _)| max);
        let per_zone = of_zone.or_else(|| record.and_then(|record| record.connections));
        let mut needs = self.registry.needs(source.key, &zone, per_user, per_zone);
        needs.user_bound = of_user.map(|(_, bound)| bound).unwrap_or_default();
        if let (SecondLogin::Replace, Some(key)) = (rule.second_login, source.key) {
            needs.newest = Some(self.registry.newest(key));
            // The older connection of the user makes room.
            needs.user = None;
        }
        needs
    }

    /// What sets the limit of the connections that the users of a zone have together.
    fn bound_of_zone(&self, zone: &Arc<str>) -> Option<ConnectionBound> {
        let zone = Arc::clone(zone);
        if let Some(max) = self.rules.load().of(&zone).connections {
            return Some(ConnectionBound::Configured { zone, max });
        }
        let zones = self.directory.zones();
        let record = zones.iter().find(|record| record.name == zone)?;
        let max = record.connections?;
        Some(ConnectionBound::Added { zone, max })
    }

    /// What somebody has now. `as_of` was read before everything that this comes from.
    fn login_record(&self, source: &Source<'_>, as_of: u64) -> LoginRecord {
        let holder = self.holder(source);
        let proof = source.proof.filter(|proof| **proof != Proof::default());
        LoginRecord {
            needs: self.needs(source, &holder),
            holder,
            key: source.key.cloned(),
            user: source.user.cloned(),
            proof: proof.cloned().map(Box::new),
            is_theirs: source.is_theirs,
            returned: None,
            has_client_id: source.client_id.is_some(),
            zone: source.zone(),
            as_of,
            watch: self.watch(source),
        }
    }

    /// Has it told what becomes of a user, or of the name of a bearer who is none: an operator may
    /// give it to a user who is disabled.
    fn watch(&self, source: &Source<'_>) -> Option<Watch> {
        // Only web tokens end and need no user.
        let is_bearer = source
            .proof
            .is_some_and(|one| one.expires_at_secs.is_some());
        match (source.user, source.key) {
            (Some(user), _) => Some(self.directory.watch(user)),
            (None, Some(key)) if is_bearer => Some(self.directory.watch_absent(key)),
            _ => None,
        }
    }

    /// What the source last said of a user that it no longer has.
    fn left(&self, key: Option<&UserKey>, user: Option<&Arc<User>>) -> Option<Arc<User>> {
        match user {
            Some(_) => None,
            None => self.directory.left(key?),
        }
    }

    /// What becomes of somebody after a change.
    pub(super) fn renewed(
        &self,
        identity: &Identity,
        client_id: &str,
        number: u64,
        changes: &Changes,
    ) -> Renewed {
        let rights = identity.rights.as_any();
        let Some(login_record) = rights.and_then(|any| any.downcast_ref::<LoginRecord>()) else {
            return Renewed::Keep;
        };
        if login_record.as_of >= number {
            return Renewed::Keep;
        }
        if let Some(returned) = &login_record.returned {
            return self.renewed_returned(
                identity,
                login_record,
                returned,
                client_id,
                number,
                changes,
            );
        }
        let change = login_record
            .key
            .as_ref()
            .and_then(|key| changes.users.get(key));
        let user = match (change, &login_record.user) {
            (None, _) if !changes.has_all() => return Renewed::Keep,
            (None, user) => user.clone(),
            (Some(None), Some(_)) => return Renewed::Close { end_session: true },
            // A token that needs no user goes on without one.
            (Some(None), None) => None,
            (Some(Some(user)), _) => Some(Arc::clone(user)),
        };
        if login_record.is_theirs && user.as_deref().is_some_and(stands_without_them) {
            return Renewed::Close { end_session: true };
        }
        if user.as_ref().is_some_and(|user| user.disabled) {
            return Renewed::Close { end_session: false };
        }
        if is_withdrawn(login_record.proof.as_deref(), user.as_deref()) {
            return Renewed::Close { end_session: false };
        }
        let left = self.left(login_record.key.as_ref(), user.as_ref());
        if left.as_ref().is_some_and(|left| left.disabled) {
            return Renewed::Close { end_session: false };
        }
        let source = Source {
            key: login_record.key.as_ref(),
            user: user.as_ref(),
            left,
            proof: login_record.proof.as_deref(),
            is_theirs: login_record.is_theirs,
            client_id: login_record.has_client_id.then(|| client_id.into()),
            nameless_in: &login_record.zone,
        };
        let new = self.login_record(&source, number);
        if is_same(login_record, &new) {
            return Renewed::Keep;
        }
        Renewed::Replace(Arc::new(Identity {
            rights: Arc::new(new),
            ..identity.clone()
        }))
    }
}

impl RoleGrants {
    /// Whether these changes give somebody the password of this hash.
    pub(super) fn has_password(&self, identity: &Identity, changes: &Changes, hash: &str) -> bool {
        let login_record = identity.rights.as_any();
        let login_record = login_record.and_then(|any| any.downcast_ref::<LoginRecord>());
        let key = login_record.and_then(|login_record| login_record.key.as_ref());
        let user = key.and_then(|key| changes.users.get(key)?.as_ref());
        user.is_some_and(|user| passwords(user).any(|one| **one == *hash))
    }

    /// Whether somebody's password is another one after these changes.
    pub(super) fn has_other_password(&self, identity: &Identity, changes: &Changes) -> bool {
        let login_record = identity.rights.as_any();
        let Some(login_record) = login_record.and_then(|any| any.downcast_ref::<LoginRecord>())
        else {
            return false;
        };
        let change = login_record
            .key
            .as_ref()
            .and_then(|key| changes.users.get(key));
        let (Some(before), Some(Some(now))) = (&login_record.user, change) else {
            return false;
        };
        let now: Vec<_> = passwords(now).collect();
        let mut before = passwords(before).peekable();
        before.peek().is_some()
            && !before.any(|hash| self.successors.stands(hash, now.iter().copied()))
    }

    /// What becomes of somebody whose session was there before the start. As soon as the user
    /// database has told of its user, it is like any other.
    fn renewed_returned(
        &self,
        identity: &Identity,
        login_record: &LoginRecord,
        returned: &Returned,
        client_id: &str,
        number: u64,
        changes: &Changes,
    ) -> Renewed {
        let replaced = |rights: LoginRecord| {
            Renewed::Replace(Arc::new(Identity {
                rights: Arc::new(rights),
                ..identity.clone()
            }))
        };
        let mut source = Source {
            key: login_record.key.as_ref(),
            user: None,
            left: None,
            proof: login_record.proof.as_deref(),
            is_theirs: false,
            client_id: Some(client_id.into()),
            nameless_in: &login_record.zone,
        };
        let told = match source.key {
            Some(key) => changes.of(key).map(Option::as_ref),
            None => changes.zones_are_known.then_some(None),
        };
        let Some(user) = told else {
            if !changes.has_all() {
                return Renewed::Keep;
            }
            return replaced(LoginRecord {
                returned: Some(Box::new(returned.clone())),
                ..self.login_record(&source, number)
            });
        };
        // It may have been changed, or deleted, since it was found.
        let user = user.and_then(|user| self.directory.confirm(user));
        if user.as_ref().is_some_and(|user| user.disabled) {
            return Renewed::Close { end_session: false };
        }
        let needs_account = source.key.is_some() && !returned.has_no_account;
        let is_gone = || needs_account || !self.directory.has_zone(&login_record.zone);
        if user.is_none() && is_gone() {
            return Renewed::Close { end_session: true };
        }
        // Other roles follow the account, or what becomes of somebody without one.
        let bearer = source.proof.filter(|_| !needs_account).map(|proof| Proof {
            roles: None,
            ..proof.clone()
        });
        if !returned.roles_are_of_credential {
            source.proof = bearer.as_ref();
        }
        source.user = user.as_ref();
        source.left = self.left(source.key, source.user);
        if source.left.as_ref().is_some_and(|left| left.disabled) {
            return Renewed::Close { end_session: false };
        }
        replaced(self.login_record(&source, number))
    }
}

/// The roles of the user database, and the role of guests if that has none for all zones.
fn all_roles(directory: &Directory) -> Vec<Arc<Role>> {
    let mut roles: Vec<Arc<Role>> = directory.roles().iter().cloned().collect();
    let is_of_guests = |role: &Arc<Role>| *role.name == *GUEST && role.zone.is_none();
    if !roles.iter().any(is_of_guests) {
        roles.push(Arc::new(guest_role()));
    }
    roles
}

/// Whether a user is an administrator for whom foreign credentials prove nothing. A user who has
/// the role from the foreign source also has its credentials.
fn stands_without_them(user: &User) -> bool {
    stands_alone(user) && !user.credentials.iter().any(|one| one.foreign)
}

/// What is stored of a user's password.
fn passwords(user: &User) -> impl Iterator<Item = &Arc<str>> {
    let texts = user.credentials.iter().map(|one| &one.text);
    texts.filter(|text| TokenHash::parse(text).is_err())
}

/// Whether the token that somebody came with was taken away.
fn is_withdrawn(proof: Option<&Proof>, user: Option<&User>) -> bool {
    let token = proof.and_then(|proof| proof.token.as_ref());
    let has = |user: &User, text: &Arc<str>| user.credentials.iter().any(|one| one.text == *text);
    token.is_some_and(|token| user.is_some_and(|user| !has(user, token)))
}

/// Whether nothing would change by replacing one by the other.
fn is_same(before: &LoginRecord, now: &LoginRecord) -> bool {
    let places = |needs: &Needs| {
        let address = |places: &Arc<stentor_hub::Places>| Arc::as_ptr(places);
        (
            needs.user.as_ref().map(address),
            needs.zone.as_ref().map(address),
            needs.newest.as_ref().map(Arc::as_ptr),
        )
    };
    let same_user = match (&before.user, &now.user) {
        (Some(before), Some(now)) => Arc::ptr_eq(before, now),
        (None, None) => true,
        _ => false,
    };
    same_user
        && before.holder.grant().is_same(now.holder.grant())
        && places(&before.needs) == places(&now.needs)
}

impl Grants for RoleGrants {
    fn zone_name(&self, zone: Zone) -> Option<String> {
        self.zones.name(zone)
    }

    fn known_zone(&self, zone: &str) -> Option<Zone> {
        self.zones.known(zone)
    }

    fn has_zone(&self, zone: &str) -> bool {
        self.directory.has_zone(zone)
    }

    fn returning(&self, zone: &Arc<str>, who: &Returning<'_>) -> Option<Arc<Identity>> {
        let key = who.user.map(|user| UserKey::new(Arc::clone(zone), user));
        let proof = Proof {
            roles: Some(who.roles.clone()),
            // Only web tokens need no user. The session outlives them.
            expires_at_secs: who.has_no_account.then_some(u64::MAX),
            ..Proof::default()
        };
        let source = Source {
            key: key.as_ref(),
            user: None,
            left: None,
            proof: key.as_ref().map(|_| &proof),
            is_theirs: false,
            client_id: Some(who.client_id.into()),
            nameless_in: zone,
        };
        // Whatever has changed by now may tell of it.
        let login_record = self.login_record(&source, 0);
        let returned = Returned {
            roles: who.roles.clone(),
            has_no_account: who.has_no_account,
            roles_are_of_credential: who.roles_are_of_credential,
        };
        Some(Arc::new(Identity {
            user: key.map(|key| key.name),
            zone: who.zone,
            rights: Arc::new(LoginRecord {
                returned: Some(Box::new(returned)),
                ..login_record
            }),
            expires_at: Tick::NEVER,
            guest: None,
        }))
    }

    fn has_role(&self, zone: &str, role: &str) -> bool {
        self.book.load().role(zone, role).is_some()
    }

    fn connection_bound(
        &self,
        login_record: &LoginRecord,
        limit: Limit,
    ) -> Option<ConnectionBound> {
        match limit {
            Limit::ConnectionsPerUser => {
                let role = login_record.holder.grant().bounds_connections()?;
                Some(ConnectionBound::Role {
                    name: Arc::clone(&role.name),
                    zone: role.zone.clone(),
                    max: role.quotas.connections?,
                })
            }
            Limit::ConnectionsPerUserOfZone => {
                let zone = Arc::clone(&login_record.zone);
                let max = self.rules.load().of(&zone).user_connections?;
                Some(ConnectionBound::Configured { zone, max })
            }
            Limit::ConnectionsPerZone => self.bound_of_zone(&login_record.zone),
            _ => None,
        }
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    fn replaced(&self, outdated: &Arc<str>, better: &Arc<str>) {
        self.successors
            .note(Arc::clone(outdated), Arc::clone(better));
    }

    fn configure(&self, zones: &ZoneRules) {
        let before = self.rules.swap(Arc::new(zones.clone()));
        self.anonymous.store(Arc::new([None, None]));
        if *before != *zones {
            // Those who are connected are counted by the new rules too.
            self.directory.zones_have_changed();
        }
    }

    fn anonymous(&self, zone: &str, client_id: Option<Arc<str>>) -> io::Result<Arc<Identity>> {
        let number = self.zones.number(zone)?;
        let as_of = self.changes.load(Ordering::SeqCst);
        let which = usize::from(client_id.is_some());
        let known = self.anonymous.load();
        let is_default = number == Zone::DEFAULT;
        let rights = match &known[which] {
            Some(known) if is_default => Arc::clone(known),
            _ => {
                let zone = zone.into();
                let source = Source {
                    key: None,
                    user: None,
                    left: None,
                    proof: None,
                    is_theirs: false,
                    client_id,
                    nameless_in: &zone,
                };
                let new = Arc::new(self.login_record(&source, as_of));
                if is_default && !new.holder.grant().is_personal() {
                    let mut both = (**known).clone();
                    both[which] = Some(Arc::clone(&new));
                    // Another thread may have changed it in the meantime; then this is made again.
                    self.anonymous.compare_and_swap(&known, Arc::new(both));
                }
                new
            }
        };
        Ok(Arc::new(Identity {
            user: None,
            zone: number,
            rights,
            expires_at: Tick::NEVER,
            guest: None,
        }))
    }

    fn zone_number(&self, zone: &str) -> io::Result<Zone> {
        self.zones.number(zone)
    }

    fn identity(
        &self,
        login: &LoginAttempt,
        user: Option<&Arc<User>>,
        mut proof: Proof,
        expires_at: Tick,
    ) -> io::Result<Option<Arc<Identity>>> {
        let as_of = self.changes.load(Ordering::SeqCst);
        // It may have been changed, or deleted, while its password was compared.
        let current = user.map(|user| self.directory.confirm(user));
        let user = match current {
            Some(None) => return Ok(None),
            Some(Some(user)) if user.disabled => return Ok(None),
            current => current.flatten(),
        };
        let secret = proof.secret.take();
        let shown = secret.as_ref().or(proof.token.as_ref());
        let is_theirs = match (shown, &user) {
            (Some(shown), Some(user)) => match valid(user).find(|one| one.text == *shown) {
                Some(credential) => credential.foreign,
                None => return Ok(None),
            },
            _ => false,
        };
        let left = self.left(Some(&login.key), user.as_ref());
        if left.as_ref().is_some_and(|left| left.disabled) {
            return Ok(None);
        }
        let source = Source {
            key: Some(&login.key),
            user: user.as_ref(),
            left,
            proof: Some(&proof),
            is_theirs,
            client_id: login.client_id.clone(),
            nameless_in: &login.key.zone,
        };
        Ok(Some(Arc::new(Identity {
            user: Some(Arc::clone(&login.key.name)),
            zone: self.zones.number(&login.key.zone)?,
            rights: Arc::new(self.login_record(&source, as_of)),
            expires_at,
            guest: None,
        })))
    }
}

#[cfg(test)]
mod tests;
