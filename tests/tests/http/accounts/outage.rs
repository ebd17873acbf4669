//! A user database that is another server, and goes away.

use serde_json::json;
use stentor_tests::Plan;
use stentor_tests::database::{Database, Kind};
use stentor_tests::raw::eventually;

use super::{done, is_noted, refused};
use crate::api::{get, post, token};

fn check(kind: Kind) {
    let mut database = Database::start(kind);
    let url = database.create("users");
    let config =
        format!("[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\ndatabase = \"{url}\"\n");
    let plan = Plan::new().config(&config);
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    let server = plan.opens(1).start();
    let root = token(&server, "root", &["admin"]);
    done(&server, "zones/add", &root, &json!({ "name": "game" }));
    let ann = json!({ "name": "ann", "zone": "game", "password": "p" });
    done(&server, "users/add", &root, &ann);
    let role = json!({ "name": "plant", "rules": ["allow both plant/#"] });
    done(&server, "roles/add", &root, &role);
    let grant = json!({ "name": "game/ann", "roles": ["plant"] });
    done(&server, "users/grant", &root, &grant);
    let (_, shown) = get(&server, "users/show?name=game/ann", &root);
    assert_eq!(shown["roles"], json!(["member", "plant"]), "{shown}");
    database.kill();
    // The token is known, so its bearer hears why nothing is done.
    for (path, body) in [
        ("users/add", json!({ "name": "bob", "password": "p" })),
        ("users/disable", json!({ "name": "game/ann" })),
        ("tokens/create", json!({ "name": "game/ann" })),
        ("roles/ls", json!({})),
    ] {
        let detail = refused(&server, (path, &root), &body, (503, "unavailable"));
        assert!(detail.len() > 20, "{path}: {detail}");
    }
    is_noted(&server, "user.add", "bob", "refused");
    database.restart();
    eventually("changes are made again", || {
        post(&server, "users/add", &root, &json!({ "name": "bob" })).0 == 200
    });
}

#[test]
fn an_outage_of_postgres_is_told() {
    check(Kind::Postgres);
}

#[test]
fn an_outage_of_mariadb_is_told() {
    check(Kind::MariaDb);
}
