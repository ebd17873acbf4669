//! What every store has to do, whatever it is made of.

use std::future::Future;
use std::sync::Arc;

use serde_json::json;
use stentor_auth::model::{
    ADMIN, Credential, DEFAULT_ZONE, MEMBER, Quotas, Role, User, UserKey, ZoneRecord, initial_roles,
};
use stentor_auth::store::{Directory, DirectoryOptions, Order, OrderError, Record, Store, Who};

use tokio::runtime::{Builder, Runtime};

use crate::Bench;

pub(crate) fn user(zone: &str, name: &str) -> User {
    User {
        zone: zone.into(),
        name: name.into(),
        credentials: vec![Credential::new(format!("$argon2id$of-{name}"))],
        roles: vec![MEMBER.into()],
        disabled: false,
        foreign: false,
    }
}

thread_local! {
    /// Connections belong to the runtime that made them, so a test has one for all its steps.
    static RUNTIME: Runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
}

/// Runs what a store does.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(work))
}

fn opened(bench: &Bench) -> &Arc<dyn Store> {
    run(bench.books.open()).expect("the store opens");
    &bench.books.store
}

pub(crate) fn a_new_store_has_the_initial_roles(bench: &Bench) {
    let store = opened(bench);
    run(async {
        let mut roles = store.roles().await.unwrap();
        let mut expected = initial_roles();
        roles.sort_by(|a, b| a.name.cmp(&b.name));
        expected.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(roles, expected);
        // An administrator who deletes one does not find it again at the next start.
        assert!(store.delete_role(None, ADMIN, &[]).await.unwrap());
        store.open().await.unwrap();
        assert_eq!(
            store.roles().await.unwrap().len(),
            initial_roles().len() - 1
        );
    });
}

pub(crate) fn users_are_kept_as_they_are(bench: &Bench) {
    let store = opened(bench);
    let mut odd = user("game", "Ünï'\";-- 用戶 \\%_");
    odd.disabled = true;
    odd.foreign = true;
    odd.roles = vec!["a b".into(), "c,d".into()];
    odd.credentials.push(Credential {
        label: "a label".into(),
        created_at_secs: 1_700_000_000,
        expires_at_secs: Some(u64::from(u32::MAX) * 2),
        ..Credential::new("token:0123")
    });
    let none = User {
        credentials: Vec::new(),
        roles: Vec::new(),
        ..user(DEFAULT_ZONE, "none")
    };
    run(async {
        assert!(store.insert(&[odd.clone(), none.clone()]).await.unwrap());
        let found = store.find(&[odd.key(), none.key()]).await.unwrap();
        for expected in [&odd, &none] {
            let record = found
                .iter()
                .find(|record| record.user.key() == expected.key())
                .unwrap();
            assert_eq!(record.user, *expected);
        }
        // Adding is all or nothing.
        let both = [user("game", "new"), odd.clone()];
        assert!(!store.insert(&both).await.unwrap());
        assert!(store.find(&[both[0].key()]).await.unwrap().is_empty());
        // Replacing is not asked whether it exists.
        let changed = User {
            disabled: false,
            ..odd.clone()
        };
        store
            .put(&[changed.clone(), both[0].clone()])
            .await
            .unwrap();
        let found = store.find(&[changed.key()]).await.unwrap();
        assert_eq!(found[0].user, changed);
        assert_eq!(store.count(None).await.unwrap(), 3);
        assert_eq!(store.count(Some("game")).await.unwrap(), 2);
        assert!(store.delete(&odd.key()).await.unwrap());
        assert!(!store.delete(&odd.key()).await.unwrap());
        assert!(store.find(&[odd.key()]).await.unwrap().is_empty());
    });
}

pub(crate) fn users_are_listed_in_pages(bench: &Bench) {
    let store = opened(bench);
    let users: Vec<User> = (0..250)
        .map(|n| user(DEFAULT_ZONE, &format!("u{n:03}")))
        .collect();
    run(async {
        store.insert(&users).await.unwrap();
        store
            .insert(&[user("game", "u"), user("a", "u")])
            .await
            .unwrap();
        let first = store.list(None, None, 2).await.unwrap();
        assert_eq!(
            first.iter().map(|user| &*user.zone).collect::<Vec<_>>(),
            ["a", DEFAULT_ZONE]
        );
        let mut seen = Vec::new();
        let mut after: Option<UserKey> = None;
        loop {
            let page = store
                .list(Some(DEFAULT_ZONE), after.as_ref(), 100)
                .await
                .unwrap();
            after = page.last().map(User::key);
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= 100);
            seen.extend(page);
        }
        assert_eq!(seen, users);
    });
}

pub(crate) fn a_lost_race_is_told(bench: &Bench) {
    let store = opened(bench);
    let ann = user(DEFAULT_ZONE, "ann");
    run(async {
        let gone = Record {
            user: ann.clone(),
            revision: 1,
        };
        assert!(
            !store.update(&gone).await.unwrap(),
            "who is not there is not changed"
        );
        store.insert(std::slice::from_ref(&ann)).await.unwrap();
        let read = store.find(&[ann.key()]).await.unwrap().remove(0);
        let mut mine = read.clone();
        mine.user.disabled = true;
        assert!(store.update(&mine).await.unwrap());
        let now = store.find(&[ann.key()]).await.unwrap().remove(0);
        assert!(now.user.disabled);
        // A file has one writer at a time and no revisions.
        if now.revision != read.revision {
            assert!(
                !store.update(&read).await.unwrap(),
                "the first change stays"
            );
        }
    });
}

pub(crate) fn roles_and_zones_are_kept(bench: &Bench) {
    let store = opened(bench);
    let role = Role {
        zone: Some("game".into()),
        name: "player".into(),
        rules: vec!["allow publish a/{user}/#".parse().unwrap()],
        quotas: Quotas {
            bytes_per_sec: Some(u64::from(u32::MAX) * 3),
            ..Quotas::default()
        },
    };
    run(async {
        store.put_role(&role).await.unwrap();
        let mut changed = role.clone();
        changed.rules.push("deny both a/secret".parse().unwrap());
        store.put_role(&changed).await.unwrap();
        let roles = store.roles().await.unwrap();
        assert_eq!(roles.len(), initial_roles().len() + 1);
        assert!(roles.contains(&changed) && !roles.contains(&role));
        assert!(!store.delete_role(None, "player", &[]).await.unwrap());
        assert!(
            store
                .delete_role(Some("game"), "player", &[])
                .await
                .unwrap()
        );

        let zone = ZoneRecord {
            connections: Some(5),
            ..ZoneRecord::new("game")
        };
        store.put_zone(&ZoneRecord::new("game")).await.unwrap();
        store.put_zone(&ZoneRecord::new("chat")).await.unwrap();
        store.put_zone(&zone).await.unwrap();
        assert_eq!(
            store.zones().await.unwrap(),
            [ZoneRecord::new("chat"), zone]
        );
        assert!(store.delete_zone("game").await.unwrap());
        assert!(!store.delete_zone("game").await.unwrap());
    });
}

/// All or nothing: one user who is not as expected keeps the role, and everybody's, where it is.
pub(crate) fn a_role_goes_with_its_bearers_or_stays(bench: &Bench) {
    let store = opened(bench);
    let [ann, bob] = ["ann", "bob"].map(|name| user(DEFAULT_ZONE, name));
    let keys = [ann.key(), bob.key()];
    run(async {
        store.insert(&[ann.clone(), bob.clone()]).await.unwrap();
        let mut bearers = store.find(&keys).await.unwrap();
        bearers.iter_mut().for_each(|one| one.user.roles.clear());
        let still_there = async || {
            let users = store.find(&keys).await.unwrap();
            let roles = store.roles().await.unwrap().len();
            roles == initial_roles().len() && users.iter().all(|one| one.user.roles == ann.roles)
        };
        let gone = Record {
            user: user(DEFAULT_ZONE, "gone"),
            revision: 1,
        };
        let with_gone = [&bearers[..], &[gone]].concat();
        assert!(!store.delete_role(None, MEMBER, &with_gone).await.unwrap());
        assert!(still_there().await);
        assert!(!store.delete_role(None, "none", &bearers).await.unwrap());
        assert!(still_there().await);
        assert!(store.delete_role(None, MEMBER, &bearers).await.unwrap());
        let users = store.find(&keys).await.unwrap();
        assert!(users.iter().all(|one| one.user.roles.is_empty()));
        assert_eq!(
            store.roles().await.unwrap().len(),
            initial_roles().len() - 1
        );
    });
}

pub(crate) fn the_first_start_is_remembered(bench: &Bench) {
    let store = opened(bench);
    run(async {
        assert!(!store.is_started().await.unwrap());
        let (ann, bob) = (user(DEFAULT_ZONE, "ann"), user(DEFAULT_ZONE, "bob"));
        assert!(store.insert(std::slice::from_ref(&ann)).await.unwrap());
        // All or nothing.
        assert!(!store.start(&[bob.clone(), ann]).await.unwrap());
        assert!(!store.is_started().await.unwrap());
        assert!(store.find(&[bob.key()]).await.unwrap().is_empty());
        assert!(store.start(std::slice::from_ref(&bob)).await.unwrap());
        assert!(store.start(&[]).await.unwrap());
        assert!(store.is_started().await.unwrap());
        assert_eq!(store.find(&[bob.key()]).await.unwrap().len(), 1);
    });
}

pub(crate) fn names_are_told_apart_exactly(bench: &Bench) {
    let store = opened(bench);
    run(async {
        store
            .insert(&[user(DEFAULT_ZONE, "ann"), user(DEFAULT_ZONE, "é")])
            .await
            .unwrap();
        for name in ["Ann", "ann ", "e", "e\u{301}", "ann\u{0}", "", "an_", "%"] {
            let key = UserKey::new(DEFAULT_ZONE, name);
            let found = bench.books.find(&[key]).await;
            // PostgreSQL takes no NUL in a text, so the answer may be an error, but never a user.
            assert!(found.unwrap_or_default().is_empty(), "{name:?}");
        }
        store.insert(&[user(DEFAULT_ZONE, "Ann")]).await.unwrap();
        assert_eq!(store.count(None).await.unwrap(), 3);
    });
}

pub(crate) fn many_are_found_at_once(bench: &Bench) {
    let store = opened(bench);
    let users: Vec<User> = (0..1_000)
        .map(|n| user(DEFAULT_ZONE, &format!("u{n}")))
        .collect();
    let keys: Vec<UserKey> = (500..1_500)
        .map(|n| UserKey::new(DEFAULT_ZONE, format!("u{n}")))
        .collect();
    run(async {
        store.insert(&users).await.unwrap();
        assert_eq!(bench.books.find(&keys).await.unwrap().len(), 500);
        assert!(store.find(&[]).await.unwrap().is_empty());
    });
}

/// Orders go through a directory, as commands give them.
pub(crate) fn orders_do_what_they_say(bench: &Bench) {
    let directory =
        Directory::start(bench.books.clone(), DirectoryOptions::default()).expect("it starts");
    let ask = |order: serde_json::Value| -> Result<serde_json::Value, OrderError> {
        directory.order(Who::new("the test"), Order::parse(order).expect("an order"))
    };
    let code = |order| ask(order).unwrap_err().code;
    let add = json!({ "verb": "user.add", "name": "ann", "credentials": [{ "text": "$7$x" }] });
    let ann = ask(add.clone()).unwrap();
    assert_eq!(
        (&ann["roles"][0], &ann["credentials"][0]["kind"]),
        (&json!("member"), &json!("7"))
    );
    assert!(!ann.to_string().contains("$7$x"), "no hash is shown: {ann}");
    assert_eq!(code(add), "exists");
    assert_eq!(
        code(json!({ "verb": "user.add", "name": "a+b" })),
        "bad-request"
    );
    assert_eq!(
        code(json!({ "verb": "user.add", "name": "game/bob" })),
        "not-found"
    );
    ask(json!({ "verb": "zone.add", "name": "game" })).unwrap();
    ask(json!({ "verb": "user.add", "name": "game/bob" })).unwrap();
    assert_eq!(
        code(json!({ "verb": "zone.remove", "name": "game" })),
        "conflict"
    );
    assert_eq!(
        code(json!({ "verb": "grant", "name": "ann", "roles": ["boss"] })),
        "not-found"
    );
    let role = json!({
        "verb": "role.add",
        "name": "boss",
        "rules": [{ "effect": "allow", "action": "both", "pattern": "boss/#" }],
    });
    ask(role.clone()).unwrap();
    assert_eq!(code(role), "exists");
    let ann = ask(json!({ "verb": "grant", "name": "ann", "roles": ["boss", "boss"] })).unwrap();
    assert_eq!(ann["roles"], json!(["member", "boss"]));
    let ann = ask(json!({ "verb": "revoke", "name": "ann", "roles": ["member"] })).unwrap();
    assert_eq!(ann["roles"], json!(["boss"]));
    assert_eq!(
        code(json!({ "verb": "revoke", "name": "ann", "roles": ["member"] })),
        "not-found"
    );

    let token = json!({ "text": "token:0123456789abcdef", "label": "sensor" });
    let create = json!({ "verb": "token.create", "name": "ann", "credential": token });
    assert_eq!(ask(create.clone()).unwrap()["id"], "0123456789ab");
    assert_eq!(code(create), "exists");
    let password = json!({
        "verb": "user.set-password", "name": "ann", "credentials": [{ "text": "$argon2id$y" }],
    });
    let ann = ask(password).unwrap();
    assert_eq!(
        ann["credentials"].as_array().unwrap().len(),
        2,
        "tokens stay: {ann}"
    );
    ask(json!({ "verb": "token.revoke", "name": "ann", "id": "sensor" })).unwrap();
    let tokens = ask(json!({ "verb": "token.list", "name": "ann" })).unwrap();
    assert_eq!(tokens["tokens"], json!([]));

    assert_eq!(
        ask(json!({ "verb": "user.disable", "name": "ann" })).unwrap()["disabled"],
        true
    );
    let list = ask(json!({ "verb": "user.list", "limit": 1 })).unwrap();
    assert_eq!((&list["next"], &list["total"]), (&json!("ann"), &json!(2)));
    let rest = ask(json!({ "verb": "user.list", "after": "ann" })).unwrap();
    assert_eq!(
        (&rest["users"][0]["login"], &rest["next"]),
        (&json!("game/bob"), &json!(null))
    );
    let users = ask(json!({ "verb": "user.export" })).unwrap();
    assert_eq!(users["users"][0]["credentials"][0]["text"], "$argon2id$y");
    let import = |replace: bool| {
        ask(json!({ "verb": "user.import", "replace": replace, "users": users["users"] }))
    };
    assert_eq!(import(false).unwrap_err().code, "exists");
    assert_eq!(import(true).unwrap()["imported"], 2);
    ask(json!({ "verb": "user.delete", "name": "ann" })).unwrap();
    assert_eq!(
        code(json!({ "verb": "user.show", "name": "ann" })),
        "not-found"
    );
    ask(json!({ "verb": "user.delete", "name": "game/bob" })).unwrap();
    ask(json!({ "verb": "zone.remove", "name": "game" })).unwrap();
}
