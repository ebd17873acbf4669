use std::sync::mpsc::channel;
use std::sync::{LazyLock, Mutex, PoisonError};

use stentor_hub::Renewal;

use super::*;
use crate::center::tests::options;
use crate::center::{Center, CenterSettings};
use crate::credential::{Cost, PasswordHash};
use crate::model::Credential;
use crate::store::{
    Books, DirectoryOptions, Found, Order, OrderError, Source as Others, Task, TextStore, Told, Who,
};
use crate::{Answer, Authenticator, Decision, LoginRequest, Refusal, Secret};

fn hash(password: &str, cost: Cost) -> String {
    let made = PasswordHash::make(password.as_bytes(), cost);
    made.unwrap().to_string()
}

/// What somebody else knows of each of the names.
static THEIRS: LazyLock<String> = LazyLock::new(|| hash("theirs", Cost::CHEAPEST));

/// Names that somebody else knows, or has forgotten.
struct Names(Arc<Mutex<Vec<&'static str>>>);

impl Others for Names {
    fn describe(&self) -> String {
        "the test".to_owned()
    }

    fn open(&self) -> Task<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn find<'a>(&'a self, keys: &'a [UserKey]) -> Task<'a, Vec<User>> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.iter().filter(|key| names.contains(&&*key.name));
        let user = |key: &UserKey| User {
            zone: Arc::clone(&key.zone),
            name: Arc::clone(&key.name),
            credentials: vec![Credential::new(THEIRS.as_str())],
            roles: vec![MEMBER.into()],
            disabled: false,
            foreign: true,
        };
        let users: Vec<User> = known.map(user).collect();
        Box::pin(std::future::ready(Ok(users)))
    }
}

struct World {
    grants: Arc<RoleGrants>,
    names: Arc<Mutex<Vec<&'static str>>>,
    changes: Arc<Mutex<Changes>>,
    _folder: tempfile::TempDir,
}

fn world(names: &[&'static str]) -> World {
    let folder = tempfile::tempdir().unwrap();
    let mut books = Books::of(TextStore::new(&folder.path().join("users.toml")));
    let names = Arc::new(Mutex::new(names.to_vec()));
    books.source = Some(Arc::new(Names(Arc::clone(&names))));
    let directory = Directory::start(books, DirectoryOptions::default()).unwrap();
    let changes: Arc<Mutex<Changes>> = Arc::default();
    let changed = Arc::clone(&changes);
    let hook = move |told: Told| match told {
        Told::Changed(change) => changed.lock().unwrap().add(change),
        Told::Then(act) => act(),
    };
    assert!(directory.on_change(hook));
    let grants = RoleGrants::new(Arc::new(directory), ZoneNumbers::forgetful());
    World {
        grants: Arc::new(grants),
        names,
        changes,
        _folder: folder,
    }
}

impl World {
    fn order(&self, json: &str) -> Result<(), OrderError> {
        let order = Order::parse(serde_json::from_str(json).unwrap())?;
        self.grants.directory.order(Who::server(), order).map(drop)
    }

    /// What has changed since the last time, taken over.
    fn renewals(&self) -> Arc<Renewals> {
        let changes = std::mem::take(&mut *self.changes.lock().unwrap());
        self.grants.take_over(changes)
    }

    /// Somebody with a web token, on the directory's thread as in the server.
    fn bearer(&self, name: &str) -> Option<Arc<Identity>> {
        let (sender, receiver) = channel();
        let (key, grants) = (UserKey::parse(name), Arc::clone(&self.grants));
        let login = LoginAttempt::named(name);
        let found = move |user: Result<Option<Arc<User>>, _>| {
            let proof = Proof {
                expires_at_secs: Some(u64::MAX),
                ..Proof::default()
            };
            let identity = grants.identity(&login, user.unwrap().as_ref(), proof, Tick::NEVER);
            sender.send(identity.unwrap()).unwrap();
        };
        assert!(self.grants.directory.look_up(key, Box::new(found)));
        receiver.recv().unwrap()
    }
}

#[test]
fn what_was_said_of_a_user_binds_who_comes_by_the_name_of_one_who_is_gone() {
    let world = world(&["bob", "dan"]);
    for order in [
        r#"{"verb":"user.disable","name":"bob"}"#,
        r#"{"verb":"role.add","name":"narrow","rules":
            [{"effect":"allow","action":"publish","pattern":"narrow/#"}]}"#,
        r#"{"verb":"grant","name":"dan","roles":["narrow"]}"#,
        r#"{"verb":"revoke","name":"dan","roles":["member"]}"#,
    ] {
        world.order(order).unwrap();
    }
    world.names.lock().unwrap().clear();
    world.renewals();
    let may = |identity: &Identity| ["narrow/x", "x"].map(|to| identity.rights.may_publish(to));
    assert_eq!(may(&world.bearer("dan").unwrap()), [true, false]);
    assert_eq!(may(&world.bearer("ann").unwrap()), [true, true]);
    assert!(world.bearer("bob").is_none());
    world
        .order(r#"{"verb":"user.enable","name":"bob"}"#)
        .unwrap();
    let bob = world.bearer("bob").expect("it is let in again");
    world.renewals();
    world
        .order(r#"{"verb":"user.disable","name":"bob"}"#)
        .unwrap();
    let renewed = world.renewals().renew(&bob, "c");
    assert!(matches!(renewed, Renewed::Close { .. }));
    assert!(world.bearer("bob").is_none());
    world.order(r#"{"verb":"user.add","name":"bob"}"#).unwrap();
    assert!(world.bearer("bob").is_some());
    let again = world.order(r#"{"verb":"user.add","name":"bob"}"#);
    assert_eq!(again.unwrap_err().code, "exists");
}

impl World {
    /// Adds a user with a password.
    fn add(&self, name: &str, password: &str) {
        let text = hash(password, Cost::CHEAPEST);
        let order =
            format!(r#"{{"verb":"user.add","name":"{name}","credentials":[{{"text":"{text}"}}]}}"#);
        self.order(&order).unwrap();
    }

    /// A user, as the directory has it.
    fn directory_user(&self, name: &str) -> Arc<User> {
        let (sender, receiver) = channel();
        let found: Found = Box::new(move |user| sender.send(user.unwrap()).unwrap());
        let key = UserKey::parse(name);
        assert!(self.grants.directory.look_up(key, found));
        receiver.recv().unwrap().expect("there is one")
    }

    fn set_password(&self, name: &str, password: &str) {
        let text = hash(password, Cost::CHEAPEST);
        let order = format!(
            r#"{{"verb":"user.set-password","name":"{name}","credentials":[{{"text":"{text}"}}]}}"#
        );
        self.order(&order).unwrap();
    }

    fn make_admin(&self, name: &str) {
        let order = format!(r#"{{"verb":"grant","name":"{name}","roles":["admin"]}}"#);
        self.order(&order).unwrap();
    }

    fn center(&self) -> Center {
        let settings = CenterSettings {
            wanted: Cost::CHEAPEST,
            slow_failures: false,
            ..CenterSettings::default()
        };
        let (accounts, grants) = (Arc::clone(&self.grants.directory), Arc::clone(&self.grants));
        Center::start(accounts, grants, settings, options()).unwrap()
    }
}

/// A login that is under way.
fn begin(center: &Center, name: &str, password: &str) -> std::sync::mpsc::Receiver<Decision> {
    let (sender, receiver) = channel();
    let request = LoginRequest {
        username: Some(name.into()),
        password: Some(Secret::new(password.into())),
        ..LoginRequest::default()
    };
    let _ = center.begin(request, Answer::new(move |it| sender.send(it).unwrap()));
    receiver
}

/// A login by a password, with what becomes of it while it is being compared.
fn login(center: &Center, (name, password): (&str, &str), meanwhile: impl FnOnce()) -> Decision {
    let (hold, held) = channel::<()>();
    let blocked = center.0.hashes.submit((), move |()| {
        // Until the other end is dropped.
        let _ = held.recv();
    });
    assert_eq!(blocked, Ok(()));
    let answer = begin(center, name, password);
    // A login behind it is answered behind it.
    let (sender, is_found) = channel();
    let found: Found = Box::new(move |_| sender.send(()).unwrap());
    let directory = &center.0.accounts;
    assert!(directory.look_up(UserKey::parse(name), found));
    is_found.recv().unwrap();
    meanwhile();
    drop(hold);
    answer.recv().unwrap()
}

fn accepted(decision: Decision) -> Arc<Identity> {
    match decision {
        Decision::Accepted(identity, _) => identity,
        refused => panic!("{refused:?}"),
    }
}

fn is_wrong(decision: &Decision) -> bool {
    matches!(decision, Decision::Refused(Refusal::Credentials))
}

#[test]
fn who_came_by_somebody_elses_password_does_not_become_an_administrator() {
    for is_gone in [false, true] {
        let world = world(&["ann"]);
        world.add("ann", "own");
        world.add("bob", "own");
        let center = world.center();
        let come = |name, password| accepted(login(&center, (name, password), || {}));
        let mut theirs = come("ann", "theirs");
        let [own, bob] = ["ann", "bob"].map(|name| come(name, "own"));
        world.renewals();
        if is_gone {
            // A user who has lost the password there is still connected.
            world.names.lock().unwrap().clear();
            accepted(login(&center, ("ann", "own"), || {}));
            match world.renewals().renew(&theirs, "a") {
                Renewed::Replace(identity) => theirs = identity,
                Renewed::Keep | Renewed::Close { .. } => panic!("it is another user by now"),
            }
            assert!(is_wrong(&login(&center, ("ann", "theirs"), || {})));
        }
        world.make_admin("ann");
        world.make_admin("bob");
        let renewals = world.renewals();
        let is_told = renewals.renew(&theirs, "a");
        assert!(matches!(is_told, Renewed::Close { end_session: true }));
        assert!(matches!(renewals.renew(&own, "b"), Renewed::Replace(_)));
        assert!(matches!(renewals.renew(&bob, "c"), Renewed::Replace(_)));
    }
}

#[test]
fn who_came_by_its_own_password_stays_when_that_is_changed_with_its_roles() {
    let world = world(&[]);
    world.add("bob", "own");
    let bob = accepted(login(&world.center(), ("bob", "own"), || {}));
    world.renewals();
    world.set_password("bob", "new");
    world.make_admin("bob");
    assert!(matches!(
        world.renewals().renew(&bob, "c"),
        Renewed::Replace(_)
    ));
}

#[test]
fn another_password_is_told_from_a_better_hash_of_the_same() {
    let world = world(&[]);
    world.add("ann", "own");
    let ann = world.bearer("ann").expect("it is let in");
    let grant = |role: &str| format!(r#"{{"verb":"{role}","name":"ann","roles":["admin"]}}"#);
    world.order(&grant("grant")).unwrap();
    assert!(
        !world.renewals().ends_password(&ann),
        "roles are no password"
    );
    let [before] = &world.directory_user("ann").credentials[..] else {
        panic!("there is one");
    };
    let better: Arc<str> = hash("own", Cost::CHEAPEST).into();
    world.grants.replaced(&before.text, &better);
    let order = Order::Upgrade {
        key: UserKey::parse("ann"),
        outdated: Arc::clone(&before.text),
        better,
    };
    world.grants.directory.order(Who::server(), order).unwrap();
    assert!(!world.renewals().ends_password(&ann));
    world.set_password("ann", "own");
    assert!(world.renewals().ends_password(&ann), "it was set again");
}

#[test]
fn a_password_that_proves_nothing_any_more_lets_nobody_in_who_is_just_logging_in() {
    let world = world(&["ann", "eve"]);
    world.add("ann", "own");
    world.add("bob", "own");
    let center = world.center();
    let ann = ("ann", "theirs");
    assert!(is_wrong(&login(&center, ann, || world.make_admin("ann"))));
    assert!(is_wrong(
        &login(&center, ("bob", "own"), || world.set_password("bob", "new"))
    ));
    let eve = r#"{"verb":"user.add","name":"eve","roles":["admin"]}"#;
    assert!(is_wrong(&login(&center, ("eve", "theirs"), || world
        .order(eve)
        .unwrap())));
    accepted(login(&center, ("ann", "own"), || world.make_admin("bob")));
}

#[test]
fn a_better_hash_of_the_same_password_refuses_nobody_who_is_just_logging_in() {
    let world = world(&[]);
    world.add("ann", "own");
    let center = world.center();
    let key = UserKey::parse("ann");
    let directory = &world.grants.directory;
    let upgrade = || {
        let outdated = directory.cached(&key).unwrap().credentials[0].text.clone();
        let better = hash("own", Cost::CHEAPEST).into();
        directory.upgrade_credential(key.clone(), outdated.clone(), better);
        // What is ordered behind it is done behind it.
        world.order(r#"{"verb":"user.add","name":"zoe"}"#).unwrap();
        let now = directory.cached(&key).unwrap();
        assert!(now.credentials[0].text != outdated);
    };
    accepted(login(&center, ("ann", "own"), upgrade));
}

impl World {
    /// Somebody whose session was there before the start.
    fn returned(&self, name: &str, roles: &[&str], has_no_account: bool) -> Arc<Identity> {
        self.returned_with(name, roles, (has_no_account, false))
    }

    /// The same as what was written down of an identity.
    fn returned_as(&self, name: &str, before: &Identity) -> Arc<Identity> {
        let rights = &before.rights;
        let kind = (rights.has_no_account(), rights.roles_are_of_credential());
        self.returned_with(name, &rights.roles(), kind)
    }

    fn returned_with(
        &self,
        name: &str,
        roles: &[&str],
        (has_no_account, roles_are_of_credential): (bool, bool),
    ) -> Arc<Identity> {
        let who = Returning {
            zone: Zone::DEFAULT,
            user: Some(name).filter(|name| !name.is_empty()),
            client_id: "c",
            roles: roles.iter().map(|role| Arc::from(*role)).collect(),
            has_no_account,
            roles_are_of_credential,
        };
        let zone = crate::model::DEFAULT_ZONE.into();
        self.grants.returning(&zone, &who).expect("it has a zone")
    }

    /// What the user database says of these names, as the changes that the shards hear of.
    fn told(&self, names: &[&str]) -> Arc<Renewals> {
        let mut changes = Changes::default();
        for name in names {
            let (sender, receiver) = channel();
            let found: Found = Box::new(move |user| sender.send(user.unwrap()).unwrap());
            let key = UserKey::parse(name);
            assert!(self.grants.directory.look_up(key.clone(), found));
            changes.add_returned(key, receiver.recv().unwrap());
        }
        self.grants.take_over(changes)
    }
}

fn replaced(renewed: Renewed) -> Arc<Identity> {
    match renewed {
        Renewed::Replace(identity) => identity,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_of_an_earlier_start_gets_the_rights_that_its_user_has_now() {
    let world = world(&[]);
    for order in [
        r#"{"verb":"role.add","name":"narrow","rules":
            [{"effect":"allow","action":"publish","pattern":"narrow"}]}"#,
        r#"{"verb":"user.add","name":"ann","roles":["narrow"]}"#,
        r#"{"verb":"user.add","name":"bob"}"#,
        r#"{"verb":"user.disable","name":"bob"}"#,
    ] {
        world.order(order).unwrap();
    }
    world.renewals();
    let [ann, bob, cleo] =
        ["ann", "bob", "cleo"].map(|name| world.returned(name, &[MEMBER], false));
    assert!(ann.rights.may_publish("x") && !ann.rights.is_confirmed());
    // Changes of other users, or of roles, do not confirm this user.
    world
        .order(r#"{"verb":"role.add","name":"more","rules":[]}"#)
        .unwrap();
    let ann = replaced(world.renewals().renew(&ann, "c"));
    assert!(!ann.rights.is_confirmed());
    assert_eq!(ann.rights.roles(), [MEMBER]);
    assert!(matches!(
        world.told(&["bob"]).renew(&ann, "c"),
        Renewed::Keep
    ));
    let told = world.told(&["ann", "bob", "cleo"]);
    let ann = replaced(told.renew(&ann, "c"));
    assert!(ann.rights.is_confirmed() && !ann.rights.has_no_account());
    let may = ["narrow", "x"].map(|topic| ann.rights.may_publish(topic));
    assert_eq!((may, ann.rights.roles()), ([true, false], vec!["narrow"]));
    let bob = told.renew(&bob, "c");
    assert!(matches!(bob, Renewed::Close { end_session: false }));
    let cleo = told.renew(&cleo, "c");
    assert!(matches!(cleo, Renewed::Close { end_session: true }));
    // It is watched like any other from now on.
    world
        .order(r#"{"verb":"user.delete","name":"ann"}"#)
        .unwrap();
    let gone = world.renewals().renew(&ann, "c");
    assert!(matches!(gone, Renewed::Close { end_session: true }));
}

/// A user who gets a name later is not the owner of the session.
#[test]
fn a_user_who_was_deleted_and_added_again_is_somebody_else() {
    let world = world(&[]);
    world.order(r#"{"verb":"user.add","name":"ann"}"#).unwrap();
    world.told(&["ann"]);
    let ann = world.returned("ann", &[MEMBER], false);
    world
        .order(r#"{"verb":"user.delete","name":"ann"}"#)
        .unwrap();
    world.order(r#"{"verb":"user.add","name":"ann"}"#).unwrap();
    let mut changes = std::mem::take(&mut *world.changes.lock().unwrap());
    let now = world.grants.directory.cached(&UserKey::parse("ann"));
    changes.add_returned(UserKey::parse("ann"), now);
    let renewed = world.grants.take_over(changes).renew(&ann, "c");
    assert!(matches!(renewed, Renewed::Close { end_session: true }));
}

#[test]
fn the_bearer_of_a_token_needs_no_account_after_a_restart_either() {
    let world = world(&[]);
    world
        .order(
            r#"{"verb":"role.add","name":"token","rules":
            [{"effect":"allow","action":"both","pattern":"secret"}]}"#,
        )
        .unwrap();
    let own = r#"{"effect":"allow","action":"publish","pattern":"own"}"#;
    let login = LoginAttempt::named("ann");
    let proof = Proof {
        expires_at_secs: Some(u64::MAX),
        rules: vec![serde_json::from_str(own).unwrap()],
        ..Proof::default()
    };
    let before = world.grants.identity(&login, None, proof, Tick::NEVER);
    let before = before.unwrap().expect("it needs no account");
    assert!(before.rights.may_publish("own") && before.rights.has_no_account());
    // A role of that name has nothing to do with the rules of a token.
    assert!(before.rights.roles().is_empty());
    assert!(before.rights.roles_are_of_credential());
    let ann = world.returned_as("ann", &before);
    let ann = replaced(world.told(&["ann"]).renew(&ann, "c"));
    assert!(ann.rights.is_confirmed() && ann.rights.has_no_account());
    let may = ["secret", "x"].map(|topic| ann.rights.may_publish(topic));
    assert_eq!(may, [false, false], "it has none of the roles of others");
    assert!(ann.rights.roles_are_of_credential());
    let bob = world.returned("bob", &[MEMBER], true);
    let bob = replaced(world.told(&["bob"]).renew(&bob, "c"));
    assert!(bob.rights.may_publish("x"));
}

/// The roles of a token stand instead of those of the account, after a restart too.
#[test]
fn the_roles_of_a_token_do_not_give_way_to_those_of_an_account() {
    let world = world(&[]);
    for order in [
        r#"{"verb":"role.add","name":"press","rules":
            [{"effect":"allow","action":"both","pattern":"news"}]}"#,
        r#"{"verb":"user.add","name":"bob","roles":[]}"#,
        r#"{"verb":"user.add","name":"dan"}"#,
    ] {
        world.order(order).unwrap();
    }
    world.renewals();
    let _ = world.told(&["bob", "dan"]);
    for name in ["bob", "dan"] {
        let user = world.grants.directory.cached(&UserKey::parse(name));
        let proof = Proof {
            expires_at_secs: Some(u64::MAX),
            roles: Some(vec!["press".into()]),
            ..Proof::default()
        };
        let before = world.grants.identity(
            &LoginAttempt::named(name),
            user.as_ref(),
            proof,
            Tick::NEVER,
        );
        let before = before.unwrap().expect("it has an account");
        assert!(!before.rights.has_no_account());
        let mut now = world.returned_as(name, &before);
        for _ in 0..2 {
            now = replaced(world.told(&[name]).renew(&now, "c"));
            let may = ["news", "x"].map(|topic| now.rights.may_publish(topic));
            assert_eq!(may, [true, false], "{name}");
            now = world.returned_as(name, &now);
        }
    }
    // Without its account, it has nobody's rights.
    world
        .order(r#"{"verb":"user.delete","name":"dan"}"#)
        .unwrap();
    let dan = world.returned_with("dan", &["press"], (false, true));
    let renewed = world.told(&["dan"]).renew(&dan, "c");
    assert!(matches!(renewed, Renewed::Close { end_session: true }));
}

/// Rules of a token are not written down. Without one that denies, its roles would allow more.
#[test]
fn nobody_may_do_more_after_a_restart_for_want_of_a_rule_that_denied_it() {
    let world = world(&[]);
    world
        .order(r#"{"verb":"user.add","name":"ann","roles":["member"]}"#)
        .unwrap();
    let _ = world.told(&["ann", "bob"]);
    // The first one has an account. The other one has the roles of its token.
    for (name, roles) in [("ann", None), ("bob", Some(vec![MEMBER.into()]))] {
        for (rule, before, after) in [
            ("deny publish secret", [true, false], [false, false]),
            ("allow publish $x/secret", [true, true], [true, true]),
        ] {
            let user = world.grants.directory.cached(&UserKey::parse(name));
            let proof = Proof {
                expires_at_secs: Some(u64::MAX),
                roles: roles.clone(),
                rules: vec![rule.parse().unwrap()],
                ..Proof::default()
            };
            let login = LoginAttempt::named(name);
            let found = world
                .grants
                .identity(&login, user.as_ref(), proof, Tick::NEVER);
            let mut who = found.unwrap().expect("it is let in");
            let may = |who: &Identity| ["open", "secret"].map(|it| who.rights.may_publish(it));
            assert_eq!(may(&who), before, "{name}: {rule}");
            for _ in 0..2 {
                who = world.returned_as(name, &who);
                assert_eq!(may(&who), after, "{name}: {rule}");
                who = replaced(world.told(&[name]).renew(&who, "c"));
                assert_eq!(may(&who), after, "{name}: {rule}");
            }
        }
    }
}

/// A bearer without an account whose token names no roles has those of an account that gets its
/// name.
#[test]
fn the_roles_of_a_bearer_follow_an_account_that_appears_later() {
    let world = world(&[]);
    world
        .order(r#"{"verb":"user.add","name":"bob","roles":[]}"#)
        .unwrap();
    let bob = world.returned("bob", &[MEMBER], true);
    let bob = replaced(world.told(&["bob"]).renew(&bob, "c"));
    assert!(!bob.rights.may_publish("x") && !bob.rights.has_no_account());
}

#[test]
fn who_has_no_name_waits_until_the_zones_are_known() {
    let world = world(&[]);
    let nobody = world.returned("", &[], false);
    assert!(nobody.user.is_none() && !nobody.rights.is_confirmed());
    assert!(matches!(
        world.told(&["ann"]).renew(&nobody, "c"),
        Renewed::Keep
    ));
    let mut changes = Changes::default();
    changes.zones_are_known();
    let told = world.grants.take_over(changes);
    assert!(replaced(told.renew(&nobody, "c")).rights.is_confirmed());
    // A zone that is gone.
    let who = Returning {
        zone: Zone(7),
        user: None,
        client_id: "c",
        roles: Vec::new(),
        has_no_account: false,
        roles_are_of_credential: false,
    };
    let nobody = world.grants.returning(&"game".into(), &who).unwrap();
    let renewed = told.renew(&nobody, "c");
    assert!(matches!(renewed, Renewed::Close { end_session: true }));
}
