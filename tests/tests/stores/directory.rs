//! The directory: joined look-ups, an outage, changes that are noticed.

use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stentor_auth::model::{Credential, DEFAULT_ZONE, User, UserKey, ZoneRecord, initial_roles};
use stentor_auth::store::{
    AuditLog, Books, Change, Directory, DirectoryOptions, Order, Source, StoreError, Task, Told,
    Unavailable, Who,
};
use stentor_tests::DEADLINE;
use stentor_tests::raw::eventually;
use tokio::sync::Semaphore;

use crate::suite::{run, user};
use crate::{sqlite, text};

/// Users whom somebody else keeps, and whose answers the test holds back or withholds.
struct Stubborn {
    /// A query goes on with one of these.
    permits: Semaphore,
    queries: AtomicUsize,
    there: AtomicBool,
    users: Mutex<Vec<User>>,
}

impl Stubborn {
    fn new(users: usize) -> Arc<Self> {
        let users = (0..users)
            .map(|n| user(DEFAULT_ZONE, &format!("u{n}")))
            .collect();
        Arc::new(Self {
            permits: Semaphore::new(0),
            queries: AtomicUsize::new(0),
            there: AtomicBool::new(true),
            users: Mutex::new(users),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<User>)) {
        change(&mut self.users.lock().unwrap());
    }
}

/// What the directory is given.
struct Shared(Arc<Stubborn>);

impl Source for Shared {
    fn describe(&self) -> String {
        "the test".to_owned()
    }

    fn open(&self) -> Task<'_, ()> {
        Box::pin(async {
            match self.0.there.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err(StoreError::Unavailable("unplugged".to_owned())),
            }
        })
    }

    fn find<'a>(&'a self, keys: &'a [UserKey]) -> Task<'a, Vec<User>> {
        Box::pin(async move {
            self.0.queries.fetch_add(1, Ordering::SeqCst);
            self.0
                .permits
                .acquire()
                .await
                .expect("nobody closes it")
                .forget();
            self.open().await?;
            // As a column does that holds fewer characters than there are.
            let is_odd = |name: &str| name.contains(['😀', '\0']);
            if keys
                .iter()
                .any(|key| is_odd(&key.zone) || is_odd(&key.name))
            {
                return Err(StoreError::Refused("illegal mix of collations".to_owned()));
            }
            let users = self.0.users.lock().unwrap();
            Ok(users
                .iter()
                .filter(|user| keys.contains(&user.key()))
                .cloned()
                .collect())
        })
    }
}

fn books(source: &Arc<Stubborn>) -> (Books, tempfile::TempDir) {
    let bench = text();
    let mut books = bench.books;
    books.source = Some(Arc::new(Shared(Arc::clone(source))));
    (books, bench.folder)
}

/// A directory beside a source that answers at once, its audit log, and the folder of both.
fn audited(source: &Arc<Stubborn>) -> (Directory, PathBuf, tempfile::TempDir) {
    let (books, folder) = books(source);
    source.permits.add_permits(100_000);
    let audit = folder.path().join("audit.log");
    let options = DirectoryOptions {
        audit: AuditLog::open(&audit),
        ..DirectoryOptions::default()
    };
    (Directory::start(books, options).unwrap(), audit, folder)
}

type Answer = Result<Option<Arc<User>>, Unavailable>;

fn look_up(directory: &Directory, name: &str) -> Receiver<Answer> {
    let (sender, receiver) = channel();
    let key = UserKey::parse(name);
    let found = Box::new(move |answer| sender.send(answer).expect("the test waits"));
    assert!(directory.look_up(key, found), "the queue is long enough");
    receiver
}

fn wait(receiver: &Receiver<Answer>) -> Answer {
    receiver.recv_timeout(DEADLINE).expect("an answer comes")
}

#[test]
fn look_ups_that_wait_share_a_query() {
    const LOGINS: usize = 3_000;
    let source = Stubborn::new(LOGINS);
    let (books, _folder) = books(&source);
    let directory = Directory::start(books, DirectoryOptions::default()).unwrap();
    let answers: Vec<_> = (0..=LOGINS)
        .map(|n| look_up(&directory, &format!("u{n}")))
        .collect();
    source.permits.add_permits(1_000);
    for (n, answer) in answers.iter().enumerate() {
        let found = wait(answer).unwrap();
        assert_eq!(
            found.map(|user| user.name.to_string()),
            (n < LOGINS).then(|| format!("u{n}"))
        );
    }
    let queries = source.queries.load(Ordering::SeqCst);
    assert!(queries <= 40, "{queries} queries for {LOGINS} logins");
}

/// A name that the operator's table cannot hold is nobody's, and nobody else's trouble.
#[test]
fn an_odd_name_is_refused_alone() {
    let source = Stubborn::new(20);
    source.change(|users| users.push(user(DEFAULT_ZONE, "jürgen")));
    let (books, _folder) = books(&source);
    let directory = Directory::start(books, DirectoryOptions::default()).unwrap();
    // The first query waits, and the others are joined behind it.
    let mut names = vec!["u0".to_owned()];
    for n in 0..20 {
        names.extend([format!("u{n}"), format!("😀{}", n % 4)]);
        names.push(format!("\0{}", n % 2));
    }
    names.push("\0/u1".to_owned());
    names.push("jürgen".to_owned());
    let answers: Vec<_> = names.iter().map(|name| look_up(&directory, name)).collect();
    source.permits.add_permits(100_000);
    for (name, answer) in names.iter().zip(&answers) {
        let found = wait(answer).unwrap();
        let is_odd = name.starts_with(['😀', '\0']);
        let expected = (!is_odd).then(|| name.clone());
        assert_eq!(found.map(|user| user.name.to_string()), expected);
    }
    // However many there are, the others are answered.
    let odd: Vec<_> = (0..1_000)
        .map(|n| look_up(&directory, &format!("😀{n}")))
        .collect();
    let found = wait(&look_up(&directory, "u1")).unwrap();
    assert!(found.is_some());
    for answer in &odd {
        assert!(!matches!(wait(answer), Ok(Some(_))));
    }
    let queries = source.queries.load(Ordering::SeqCst);
    assert!(queries < 1_000, "{queries} queries");
    assert!(directory.is_available());
}

#[test]
fn a_full_queue_is_told() {
    let source = Stubborn::new(1);
    let (books, _folder) = books(&source);
    let options = DirectoryOptions {
        waiting_max: 2,
        ..DirectoryOptions::default()
    };
    let directory = Directory::start(books, options).unwrap();
    let refused = AtomicUsize::new(0);
    for _ in 0..1_100 {
        let key = UserKey::new(DEFAULT_ZONE, "u0");
        if !directory.look_up(key, Box::new(|_| {})) {
            refused.fetch_add(1, Ordering::SeqCst);
        }
    }
    assert!(refused.load(Ordering::SeqCst) > 0);
    source.permits.add_permits(1_000);
}

#[test]
fn an_outage_is_answered_at_once_and_ends_by_itself() {
    let source = Stubborn::new(1);
    let (books, _folder) = books(&source);
    source.permits.add_permits(100_000);
    let directory = Directory::start(books, DirectoryOptions::default()).unwrap();
    let ann = wait(&look_up(&directory, "u0")).unwrap().unwrap();
    source.there.store(false, Ordering::SeqCst);
    assert_eq!(wait(&look_up(&directory, "u0")).unwrap_err(), Unavailable);
    assert!(!directory.is_available());
    let before = source.queries.load(Ordering::SeqCst);
    for _ in 0..100 {
        assert_eq!(wait(&look_up(&directory, "u0")).unwrap_err(), Unavailable);
    }
    assert_eq!(
        source.queries.load(Ordering::SeqCst),
        before,
        "nobody waits for the database"
    );
    // What is known stays known.
    assert_eq!(directory.cached(&ann.key()), Some(ann));
    assert_eq!(directory.roles().iter().count(), initial_roles().len());
    source.there.store(true, Ordering::SeqCst);
    while wait(&look_up(&directory, "u0")).is_err() {}
    assert!(directory.is_available());
}

#[test]
fn a_database_that_is_down_at_the_start_is_waited_for() {
    let source = Stubborn::new(1);
    let (books, _folder) = books(&source);
    source.permits.add_permits(100_000);
    source.there.store(false, Ordering::SeqCst);
    let directory = Directory::start(books, DirectoryOptions::default()).unwrap();
    assert_eq!(wait(&look_up(&directory, "u0")).unwrap_err(), Unavailable);
    source.there.store(true, Ordering::SeqCst);
    while wait(&look_up(&directory, "u0")).is_err() {}
}

#[test]
fn an_answer_that_does_not_come_counts_as_an_outage() {
    let source = Stubborn::new(1);
    let (books, _folder) = books(&source);
    let options = DirectoryOptions {
        timeout: Duration::from_millis(50),
        ..DirectoryOptions::default()
    };
    let directory = Directory::start(books, options).unwrap();
    assert_eq!(wait(&look_up(&directory, "u0")).unwrap_err(), Unavailable);
}

#[test]
fn changes_in_the_operators_tables_are_noticed() {
    let source = Stubborn::new(3);
    let (books, _folder) = books(&source);
    source.permits.add_permits(100_000);
    let options = DirectoryOptions {
        refresh: Duration::from_millis(5),
        ..DirectoryOptions::default()
    };
    let directory = Directory::start(books, options).unwrap();
    let (sender, changes) = channel();
    on_change(&directory, move |change| {
        // The test may have ended.
        let _ = sender.send(change);
    });
    let users: Vec<_> = ["u0", "u1", "u2"]
        .map(|name| wait(&look_up(&directory, name)).unwrap().unwrap())
        .into();
    let _watches: Vec<_> = users.iter().map(|user| directory.watch(user)).collect();
    source.change(|users| {
        users[0].disabled = true;
        users.remove(1);
    });
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match changes.recv_timeout(DEADLINE).expect("a change is told") {
            Change::User(key, user) => seen.push((key.name.to_string(), user.map(|u| u.disabled))),
            Change::Roles | Change::Zones => {}
        }
    }
    seen.sort();
    assert_eq!(
        seen,
        [("u0".to_owned(), Some(true)), ("u1".to_owned(), None)]
    );
    assert_eq!(
        directory.cached(&users[2].key()),
        Some(Arc::clone(&users[2]))
    );
}

/// Has somebody hear of each change.
fn on_change(directory: &Directory, hear: impl Fn(Change) + Send + Sync + 'static) {
    let hook = move |told| match told {
        Told::Changed(change) => hear(change),
        Told::Then(act) => act(),
    };
    assert!(directory.on_change(hook));
}

/// An order is answered by whoever takes changes over, after those that it has made.
#[test]
fn an_order_is_answered_after_its_changes_are_taken_over() {
    let bench = sqlite();
    run(bench.books.open()).unwrap();
    run(bench.books.store.insert(&[user(DEFAULT_ZONE, "ann")])).unwrap();
    let directory = Directory::start(bench.books, DirectoryOptions::default()).unwrap();
    let ann = wait(&look_up(&directory, "ann")).unwrap().unwrap();
    let _watch = directory.watch(&ann);
    let (sender, told) = channel();
    assert!(directory.on_change(move |told| sender.send(told).expect("the test waits")));
    let (answer, answered) = channel();
    let order = Order::parse(json!({ "verb": "user.delete", "name": "ann" })).unwrap();
    let answer = Box::new(move |result| answer.send(result).expect("the test waits"));
    directory.submit(Who::new("the test"), order, answer);
    let first = told.recv_timeout(DEADLINE).expect("a change is told");
    assert!(
        matches!(first, Told::Changed(Change::User(_, None))),
        "{first:?}"
    );
    let second = told.recv_timeout(DEADLINE).expect("the answer is told");
    assert!(answered.try_recv().is_err(), "the change is not taken over");
    match second {
        Told::Then(act) => act(),
        other => panic!("{other:?}"),
    }
    assert!(answered.try_recv().expect("it is answered").is_ok());
}

/// What is ordered of a user in the store needs nobody else: it is done, written down, and told to
/// whoever is connected.
#[test]
fn an_outage_of_the_source_hides_no_change() {
    let source = Stubborn::new(2);
    let (directory, audit, _folder) = audited(&source);
    let order = |order: Value| {
        let order = Order::parse(order).unwrap();
        directory.order(Who::new("the test"), order)
    };
    let token = json!({ "text": "token:0123456789ab", "label": "l" });
    order(json!({ "verb": "user.add", "name": "ann" })).unwrap();
    order(json!({ "verb": "token.create", "name": "u1", "credential": token })).unwrap();
    order(json!({ "verb": "user.enable", "name": "u0" })).unwrap();
    let names = ["ann", "u0", "u1"];
    let users = names.map(|name| wait(&look_up(&directory, name)).unwrap().unwrap());
    let _watches = users.each_ref().map(|user| directory.watch(user));
    let (sender, changes) = channel();
    on_change(&directory, move |change| {
        if let Change::User(key, user) = change {
            sender
                .send((key.to_string(), user))
                .expect("the test waits");
        }
    });
    source.there.store(false, Ordering::SeqCst);
    assert!(wait(&look_up(&directory, "u0")).is_err());
    for (verb, name) in [
        ("user.disable", "ann"),
        ("user.disable", "u0"),
        ("token.revoke", "u1"),
    ] {
        order(json!({ "verb": verb, "name": name, "id": "l" })).unwrap();
        let (key, user) = changes.recv_timeout(DEADLINE).expect("it is told");
        let user = user.expect("it is still a user");
        let is_out = match verb {
            "token.revoke" => user
                .credentials
                .iter()
                .all(|one| !one.text.starts_with("token:")),
            _ => user.disabled,
        };
        assert!(key == name && is_out, "{key}: {user:?}");
    }
    // What takes an answer of theirs is not done.
    let refusal = order(json!({ "verb": "user.delete", "name": "ann" })).unwrap_err();
    assert_eq!(refusal.code, "unavailable", "{refusal}");
    let log = std::fs::read_to_string(&audit).unwrap();
    let lines =
        ["user.disable", "token.revoke", "user.delete"].map(|what| log.matches(what).count());
    assert_eq!(lines, [2, 1, 0], "{log}");
}

/// Somebody who is shut out while the source thinks does not get in by what was read before.
#[test]
fn a_look_up_that_is_under_way_sees_what_was_changed() {
    let source = Stubborn::new(1);
    let (books, _folder) = books(&source);
    source.permits.add_permits(100_000);
    let options = DirectoryOptions {
        timeout: DEADLINE,
        ..DirectoryOptions::default()
    };
    let directory = Directory::start(books, options).unwrap();
    let order = |order| directory.order(Who::new("the test"), order).unwrap();
    let name = || "ann".to_owned();
    order(Order::parse(json!({ "verb": "user.add", "name": "ann" })).unwrap());
    // From now on the source thinks.
    let before = source.queries.load(Ordering::SeqCst);
    source.permits.forget_permits(usize::MAX >> 3);
    let answer = look_up(&directory, "ann");
    eventually("the source's query", || {
        source.queries.load(Ordering::SeqCst) > before
    });
    order(Order::UserDisable { name: name() });
    source.permits.add_permits(100_000);
    let ann = wait(&answer).unwrap().expect("there is still such a user");
    assert!(ann.disabled, "{ann:?}");
    let known = directory.cached(&ann.key());
    assert!(known.is_some_and(|known| known.disabled));
}

/// A user who is kept elsewhere is not deleted here, nor is what is said of that user here.
#[test]
fn a_refused_deletion_changes_nothing() {
    let source = Stubborn::new(1);
    let (directory, audit, _folder) = audited(&source);
    let order = |order| directory.order(Who::new("the test"), order);
    let name = || "u0".to_owned();
    order(Order::UserDisable { name: name() }).unwrap();
    let before = std::fs::read_to_string(&audit).unwrap();
    let refusal = order(Order::UserDelete { name: name() }).unwrap_err();
    assert_eq!(refusal.code, "refused", "{refusal}");
    let user = order(Order::UserShow { name: name() }).unwrap();
    assert_eq!(user["disabled"], true, "{user}");
    assert_eq!(std::fs::read_to_string(&audit).unwrap(), before);
    // When nobody keeps it elsewhere, what is said of it here goes.
    source.change(Vec::clear);
    order(Order::UserDelete { name: name() }).unwrap();
    let refusal = order(Order::UserDelete { name: name() }).unwrap_err();
    assert_eq!(refusal.code, "not-found", "{refusal}");
}

/// What is said here of a user who is kept elsewhere leaves its roles where they are, unless it is
/// about roles.
#[test]
fn only_what_is_about_roles_takes_them_over() {
    let source = Stubborn::new(1);
    let (books, _folder) = books(&source);
    source.permits.add_permits(100_000);
    let directory = Directory::start(books, DirectoryOptions::default()).unwrap();
    let order = |order| directory.order(Who::new("the test"), order);
    let name = || "u0".to_owned();
    let roles = |names: &[&str]| names.iter().copied().map(Arc::from).collect::<Vec<_>>();
    let shown = || order(Order::UserShow { name: name() }).unwrap()["roles"].clone();
    let revoke = |role: &str| {
        let (name, roles) = (name(), roles(&[role]));
        order(Order::Revoke { name, roles })
    };
    order(Order::UserDisable { name: name() }).unwrap();
    order(Order::UserEnable { name: name() }).unwrap();
    let credential = Credential::new("token:0123456789abcdef");
    let create = Order::TokenCreate {
        name: name(),
        credential,
    };
    order(create).unwrap();
    source.change(|users| users[0].roles = roles(&["member", "admin"]));
    assert_eq!(shown(), json!(["member", "admin"]));
    // What it does not have is told with what it has, from wherever.
    let refusal = revoke("anonymous").unwrap_err().to_string();
    assert!(refusal.contains("it has member, admin"), "{refusal}");
    let grant = Order::Grant {
        name: name(),
        roles: roles(&["anonymous"]),
    };
    order(grant).unwrap();
    revoke("admin").unwrap();
    source.change(|users| users[0].roles = roles(&["admin"]));
    assert_eq!(shown(), json!(["member", "anonymous"]));
}

/// What is said here of a user who is kept elsewhere makes nobody of who is not there any more.
#[test]
fn who_is_not_kept_elsewhere_any_more_is_nobody() {
    let source = Stubborn::new(2);
    let (directory, _audit, _folder) = audited(&source);
    let order = |order: Value| directory.order(Who::new("the test"), Order::parse(order).unwrap());
    let token = |name: &str| {
        let credential = json!({ "text": "token:0123456789abcdef" });
        json!({ "verb": "token.create", "name": name, "credential": credential })
    };
    // Somebody of ours, who is in their tables too, and one of theirs with roles from us.
    order(json!({ "verb": "user.add", "name": "u0" })).unwrap();
    order(token("u0")).unwrap();
    order(token("u1")).unwrap();
    order(json!({ "verb": "grant", "name": "u1", "roles": ["admin"] })).unwrap();
    let is_there = |name: &str| wait(&look_up(&directory, name)).unwrap().is_some();
    assert!(is_there("u0") && is_there("u1"));
    source.change(Vec::clear);
    assert!(is_there("u0") && !is_there("u1"));
    for refused in [
        json!({ "verb": "user.show", "name": "u1" }),
        json!({ "verb": "grant", "name": "u1", "roles": ["member"] }),
        token("u1"),
    ] {
        let refusal = order(refused).unwrap_err();
        assert_eq!(refusal.code, "not-found", "{refusal}");
        assert!(refusal.message.contains("user delete u1"), "{refusal}");
    }
    source.change(|users| users.push(user(DEFAULT_ZONE, "u1")));
    assert!(is_there("u1"));
    source.change(Vec::clear);
    // Whom we let prove itself is ours.
    let password = json!([{ "text": "$argon2id$of-u1" }]);
    let ours = json!([{ "name": "u1", "credentials": password }]);
    order(json!({ "verb": "user.import", "users": ours, "replace": true })).unwrap();
    assert!(is_there("u1"));
}

/// One bearer whose last role is not taken keeps the role for all of them.
#[test]
fn a_role_that_cannot_be_taken_from_one_is_taken_from_nobody() {
    let source = Stubborn::new(1);
    let (directory, audit, _folder) = audited(&source);
    let order = |order: Value| directory.order(Who::new("the test"), Order::parse(order).unwrap());
    order(json!({ "verb": "role.add", "name": "boss" })).unwrap();
    order(json!({ "verb": "user.add", "name": "ann", "roles": ["boss"] })).unwrap();
    order(json!({ "verb": "grant", "name": "u0", "roles": ["boss"] })).unwrap();
    order(json!({ "verb": "revoke", "name": "u0", "roles": ["member"] })).unwrap();
    let before = std::fs::read_to_string(&audit).unwrap();
    let delete = || order(json!({ "verb": "role.delete", "name": "boss", "force": true }));
    let refusal = delete().unwrap_err();
    assert_eq!(refusal.code, "refused", "{refusal}");
    assert!(refusal.message.contains("u0 is kept by"), "{refusal}");
    for name in ["ann", "u0"] {
        let user = order(json!({ "verb": "user.show", "name": name })).unwrap();
        assert_eq!(user["roles"], json!(["boss"]), "{name}");
    }
    order(json!({ "verb": "role.show", "name": "boss" })).unwrap();
    assert_eq!(std::fs::read_to_string(&audit).unwrap(), before);
    order(json!({ "verb": "grant", "name": "u0", "roles": ["member"] })).unwrap();
    assert_eq!(delete().unwrap()["taken_from"], 2);
    let ann = order(json!({ "verb": "user.show", "name": "ann" })).unwrap();
    assert_eq!(ann["roles"], json!([]));
}

#[test]
fn users_of_the_configuration_go_before_all_others() {
    let bench = sqlite();
    run(bench.books.open()).unwrap();
    run(bench.books.store.insert(&[user(DEFAULT_ZONE, "ann")])).unwrap();
    let directory = Directory::start(bench.books, DirectoryOptions::default()).unwrap();
    let mut pinned = user(DEFAULT_ZONE, "ann");
    pinned.roles = vec!["admin".into()];
    directory.pin(vec![pinned.clone()]);
    assert_eq!(*wait(&look_up(&directory, "ann")).unwrap().unwrap(), pinned);
    // Commands show it, and do nothing about it that would have no effect.
    let order = |order: Value| {
        let order = Order::parse(order).unwrap();
        directory.order(Who::new("the test"), order)
    };
    let shown = order(json!({ "verb": "user.show", "name": "ann" })).unwrap();
    assert_eq!(
        (&shown["roles"][0], &shown["kept_by"]),
        (&json!("admin"), &json!("the configuration"))
    );
    let logins = |filter: Value| {
        let list = order(filter).unwrap();
        let login = |user: &Value| user["login"].as_str().map(str::to_owned);
        let of = |list: &Value| list.as_array().unwrap().iter().filter_map(login).collect();
        let lists: [Vec<String>; 2] = [of(&list["configured"]), of(&list["users"])];
        lists
    };
    directory.pin(vec![
        pinned.clone(),
        user("game", "ann"),
        user(DEFAULT_ZONE, "bob"),
    ]);
    let all = ["ann", "bob", "game/ann"];
    assert_eq!(
        logins(json!({ "verb": "user.list" })),
        [all.to_vec(), vec!["ann"]]
    );
    let page = json!({ "verb": "user.list", "after": "aaa", "containing": "an" });
    assert_eq!(logins(page), [vec![], vec!["ann"]]);
    let an = json!({ "verb": "user.list", "zone": DEFAULT_ZONE, "containing": "an" });
    assert_eq!(logins(an), [vec!["ann"], vec!["ann"]]);
    directory.pin(vec![pinned]);
    let import = json!({ "verb": "user.import", "users": [{ "name": "ann" }], "replace": true });
    let refusal = order(import).unwrap_err().to_string();
    assert!(refusal.contains("is in the configuration"), "{refusal}");
    for verb in [
        "user.add",
        "user.disable",
        "user.set-password",
        "grant",
        "revoke",
    ] {
        let request =
            json!({ "verb": verb, "name": "ann", "roles": ["member"], "credentials": [] });
        let refusal = order(request).unwrap_err().to_string();
        assert!(
            refusal.contains("is in the configuration"),
            "{verb}: {refusal}"
        );
    }
    directory.pin(Vec::new());
    assert_eq!(
        *wait(&look_up(&directory, "ann")).unwrap().unwrap(),
        user(DEFAULT_ZONE, "ann")
    );
}

/// A client that logged in as somebody of the books is not the one whom the configuration calls so
/// later, and what becomes of the record is nothing to that one.
#[test]
fn who_takes_a_name_for_the_configuration_is_somebody_else() {
    let bench = sqlite();
    run(bench.books.open()).unwrap();
    run(bench.books.store.insert(&[user(DEFAULT_ZONE, "ann")])).unwrap();
    let store = Arc::clone(&bench.books.store);
    let directory = Directory::start(bench.books, DirectoryOptions::default()).unwrap();
    let (sender, told) = channel();
    on_change(&directory, move |change| {
        if let Change::User(key, user) = change {
            let known = (key.to_string(), user.map(|user| User::clone(&user)));
            sender.send(known).expect("the test waits");
        }
    });
    let before = wait(&look_up(&directory, "ann")).unwrap().unwrap();
    let _watch = directory.watch(&before);
    assert!(directory.confirm(&before).is_some());
    let mut pinned = user(DEFAULT_ZONE, "ann");
    pinned.roles = vec!["admin".into()];
    directory.pin(vec![pinned.clone()]);
    let all: Vec<_> = told.try_iter().collect();
    let ann = || "ann".to_owned();
    assert_eq!(all, [(ann(), None), (ann(), Some(pinned.clone()))]);
    // A login that was under way.
    assert!(directory.confirm(&before).is_none());
    let now = wait(&look_up(&directory, "ann")).unwrap().unwrap();
    assert_eq!(directory.confirm(&now).as_deref(), Some(&pinned));
    let order = |order: Value| {
        let order = Order::parse(order).unwrap();
        directory.order(Who::new("the test"), order)
    };
    let mut disabled = user(DEFAULT_ZONE, "ann");
    disabled.disabled = true;
    run(store.put(&[disabled])).unwrap();
    let _bearer = directory.watch_absent(&now.key());
    order(json!({ "verb": "auth.refresh" })).unwrap();
    order(json!({ "verb": "user.delete", "name": "ann" })).unwrap();
    assert_eq!(told.try_iter().count(), 0);
    // A reload that leaves it as it is ends nothing.
    directory.pin(vec![pinned.clone()]);
    assert!(directory.confirm(&now).is_some() && told.try_iter().next().is_none());
    directory.pin(Vec::new());
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(ann(), None)]);
}

#[test]
fn the_first_start_makes_an_administrator_whose_password_is_in_a_file() {
    use std::os::unix::fs::PermissionsExt;
    let bench = sqlite();
    let file = bench.folder.path().join("admin-password");
    let audit = bench.folder.path().join("audit.log");
    let start = || {
        let options = DirectoryOptions {
            admin_password: Some(file.clone()),
            audit: AuditLog::open(&audit),
            ..DirectoryOptions::default()
        };
        Directory::start(bench.books.clone(), options).unwrap()
    };
    let directory = start();
    let admin = wait(&look_up(&directory, "admin")).unwrap().unwrap();
    assert_eq!(admin.roles, ["admin".into()]);
    drop(directory);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let password = std::fs::read_to_string(&file).unwrap();
    assert!(password.trim().len() >= 20);
    let log = std::fs::read_to_string(&audit).unwrap();
    assert!(
        log.contains("user.add") && !log.contains(password.trim()),
        "{log}"
    );
    // Not again, even when it was deleted.
    std::fs::remove_file(&file).unwrap();
    run(bench.books.store.delete(&admin.key())).unwrap();
    let directory = start();
    assert!(wait(&look_up(&directory, "admin")).unwrap().is_none());
    assert!(!file.exists());
}

/// As after a start that was killed: nothing is lost that lets the administrator in.
#[test]
fn a_password_file_without_its_user_is_written_anew_and_one_with_it_is_kept() {
    let start = |books: &Books, file: &Path| {
        let options = DirectoryOptions {
            admin_password: Some(file.to_owned()),
            ..DirectoryOptions::default()
        };
        Directory::start(books.clone(), options).unwrap()
    };
    let bench = sqlite();
    let file = bench.folder.path().join("admin-password");
    std::fs::write(&file, "of a start that was killed\n").unwrap();
    let directory = start(&bench.books, &file);
    let admin = wait(&look_up(&directory, "admin")).unwrap().unwrap();
    drop(directory);
    let password = std::fs::read_to_string(&file).unwrap();
    assert_ne!(password, "of a start that was killed\n");

    let bench = sqlite();
    let file = bench.folder.path().join("admin-password");
    run(bench.books.open()).unwrap();
    run(bench.books.store.insert(&[User::clone(&admin)])).unwrap();
    std::fs::write(&file, &password).unwrap();
    drop(start(&bench.books, &file));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), password);
    assert!(run(bench.books.store.is_started()).unwrap());
}

/// Only somebody else writes such a row; nobody is let in by it, and the server runs.
#[test]
fn a_row_that_names_no_zone_is_left_out() {
    let bench = sqlite();
    run(async {
        let store = &bench.books.store;
        store.open().await.unwrap();
        for name in ["", "a/b", "game", "new\nline"] {
            store.put_zone(&ZoneRecord::new(name)).await.unwrap();
        }
    });
    let directory = Directory::start(bench.books.clone(), DirectoryOptions::default()).unwrap();
    assert_eq!(**directory.zones(), [ZoneRecord::new("game")]);
    let order = |order| directory.order(Who::new("test"), order).unwrap();
    let listed = order(Order::ZoneList {});
    let zones = listed["zones"].as_array().unwrap();
    let left_out = zones.iter().filter(|zone| !zone["left_out"].is_null());
    let names: Vec<_> = left_out.map(|zone| zone["name"].as_str()).collect();
    assert_eq!(names, ["", "a/b", "new\nline"].map(Some));
    for name in ["", "a/b", "new\nline"] {
        assert!(!directory.has_zone(name), "{name:?}");
        order(Order::ZoneRemove { name: name.into() });
    }
    assert!(directory.has_zone("game"));
    assert_eq!(
        order(Order::ZoneList {})["zones"].as_array().map(Vec::len),
        Some(2)
    );
}
