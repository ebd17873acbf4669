use std::sync::mpsc::channel;
use std::sync::{LazyLock, Mutex, PoisonError};

use stentor_hub::Renewal;

use super::*;
use crate::center::tests::options;
use crate::center::{Center, CenterSettings};
use crate::credential::{Cost, PasswordHash};
use crate::model::Credential;
use crate::store::{
    Books, Change, DirectoryOptions, Found, Order, OrderError, Source as Others, Task, TextStore,
    Who,
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
    assert!(directory.on_change(move |change: Change| changed.lock().unwrap().add(change)));
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
        let visitor = Visitor {
            key: key.clone(),
            says_zone: false,
            zone: None,
            client_id: None,
            address: None,
            again: None,
            is_disabled: false,
        };
        let found = move |user: Result<Option<Arc<User>>, _>| {
            let proof = Proof {
                expires_at_secs: Some(u64::MAX),
                ..Proof::default()
            };
            let identity = grants.identity(&visitor, user.unwrap().as_ref(), proof, Tick::NEVER);
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
    // Who asks behind it is answered behind it.
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
            // Whoever has lost the password there is connected still.
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
