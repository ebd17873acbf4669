//! Zones, and their administrators.

use serde_json::json;
use stentor_tests::Server;

use super::{done, is_noted, place, refused};
use crate::api::{get, post, token};

/// Two zones with an administrator each.
fn games(server: &Server, root: &str) -> (String, String) {
    for name in ["game", "shop"] {
        let added = done(server, "zones/add", root, &json!({ "name": name }));
        assert_eq!(added, json!({ "name": name, "connections": null }));
    }
    let gus = token(server, "game/gus", &["admin"]);
    let sue = token(server, "shop/sue", &["admin"]);
    (gus, sue)
}

#[test]
fn zones_come_and_go() {
    let (server, root) = place();
    let game = json!({ "name": "game", "connections": 10 });
    done(&server, "zones/add", &root, &game);
    is_noted(&server, "zone.add", "game", "done");
    let (_, listed) = get(&server, "zones/ls", &root);
    let all = listed["zones"].as_array().expect("a list");
    let shown = all.iter().find(|zone| zone["name"] == "game");
    let shown = shown.unwrap_or_else(|| panic!("it is listed: {listed}"));
    assert_eq!(
        (&shown["connections"], &shown["users"]),
        (&json!(10), &json!(0))
    );
    let ann = json!({ "name": "ann", "zone": "game" });
    let added = done(&server, "users/add", &root, &ann);
    assert_eq!(added["login"], "game/ann", "{added}");
    let name = json!({ "name": "game" });
    refused(&server, ("zones/rm", &root), &name, (409, "conflict"));
    done(&server, "users/rm", &root, &json!({ "name": "game/ann" }));
    let removed = done(&server, "zones/rm", &root, &name);
    assert_eq!(removed["retained_messages"], json!(0), "{removed}");
    is_noted(&server, "zone.remove", "game", "done");
    refused(&server, ("zones/rm", &root), &name, (404, "not-found"));
    let default = json!({ "name": "default" });
    refused(&server, ("zones/rm", &root), &default, (409, "refused"));
    let none = json!({ "name": "new", "connections": 0 });
    refused(&server, ("zones/add", &root), &none, (400, "bad-request"));
}

#[test]
fn an_administrator_of_a_zone_has_its_users_alone() {
    let (server, root) = place();
    let (gus, sue) = games(&server, &root);
    done(&server, "users/add", &root, &json!({ "name": "ann" }));
    let hero = json!({ "name": "hero", "password": "p" });
    let added = done(&server, "users/add", &gus, &hero);
    assert_eq!(added["login"], "game/hero", "{added}");
    let (_, listed) = get(&server, "users/ls", &gus);
    let users = listed["users"].as_array().expect("a list");
    assert!(users.iter().all(|user| user["zone"] == "game"), "{listed}");
    assert_eq!(listed["total"], json!(2), "{listed}");
    for path in [
        "users/show?name=ann",
        "users/show?name=sue",
        "tokens/ls?name=root",
    ] {
        let (status, problem) = get(&server, path, &gus);
        assert_eq!(status, 404, "{path}: {problem}");
    }
    for path in [
        "users/ls?zone=shop",
        "users/show?name=sue&zone=shop",
        "roles/ls?zone=shop",
    ] {
        let (status, problem) = get(&server, path, &gus);
        assert_eq!(
            (status, &problem["code"]),
            (403, &json!("other-zone")),
            "{path}"
        );
    }
    for path in ["users/disable", "users/enable", "users/rm"] {
        let shop = json!({ "name": "sue", "zone": "shop" });
        refused(&server, (path, &gus), &shop, (403, "other-zone"));
        let shop = json!({ "name": "shop/sue" });
        refused(&server, (path, &gus), &shop, (400, "bad-request"));
        refused(
            &server,
            (path, &gus),
            &json!({ "name": "ann" }),
            (404, "not-found"),
        );
    }
    let mine = json!({ "name": "shop/sue", "password": "mine" });
    refused(
        &server,
        ("users/set-password", &gus),
        &mine,
        (400, "bad-request"),
    );
    let steal = json!({ "name": "shop/sue" });
    refused(
        &server,
        ("tokens/create", &gus),
        &steal,
        (400, "bad-request"),
    );
    refused(
        &server,
        ("zones/add", &gus),
        &json!({ "name": "x" }),
        (403, "other-zone"),
    );
    refused(
        &server,
        ("zones/rm", &gus),
        &json!({ "name": "shop" }),
        (403, "other-zone"),
    );
    assert_eq!(
        get(&server, "users/show?name=sue", &sue).1["disabled"],
        json!(false)
    );
    done(&server, "users/rm", &gus, &json!({ "name": "game/hero" }));
    is_noted(&server, "user.delete", "game/hero", "done");
}

#[test]
fn an_administrator_of_a_zone_makes_roles_of_the_zone_alone() {
    let (server, root) = place();
    let (gus, _sue) = games(&server, &root);
    let most = json!({ "name": "most", "rules": ["allow both #", "allow both $#"] });
    let added = done(&server, "roles/add", &gus, &most);
    assert_eq!(added["zone"], "game", "{added}");
    let (_, global) = get(&server, "roles/show?name=most", &root);
    assert_eq!(global["code"], "not-found", "{global}");
    // Those of other zones are not listed.
    let other = json!({ "name": "till", "zone": "shop" });
    done(&server, "roles/add", &root, &other);
    let (_, listed) = get(&server, "roles/ls", &gus);
    let all = listed["roles"].as_array().expect("a list").iter();
    let names: Vec<&str> = all.filter_map(|role| role["name"].as_str()).collect();
    assert!(
        names.contains(&"most") && names.contains(&"member"),
        "{listed}"
    );
    assert!(!names.contains(&"till"), "{listed}");
    assert_eq!(get(&server, "roles/show?name=till", &gus).0, 404);
    // Roles for all zones that were made later are for the administrators of the server. Nobody
    // hears whether there is one.
    let global = json!({ "name": "clerk", "rules": ["allow both bank/#"] });
    done(&server, "roles/add", &root, &global);
    let (_, listed) = get(&server, "roles/ls", &gus);
    assert!(!listed.to_string().contains("clerk"), "{listed}");
    let (_, listed) = get(&server, "roles/ls?zone=game", &root);
    assert!(listed.to_string().contains("clerk"), "{listed}");
    for (made, path) in [("clerk", "users/add"), ("clerk", "users/grant")] {
        let missing = |name: &str| {
            let ben = json!({ "name": "ben", "roles": [name] });
            let (status, problem) = post(&server, path, &gus, &ben);
            let detail = problem["detail"].to_string().replace(name, "");
            (status, problem["code"].clone(), detail)
        };
        assert_eq!(missing(made), missing("nosuch"), "{path}");
        assert_eq!(missing(made).0, 404, "{path}");
        let shown = |name: &str| {
            let (status, problem) = get(&server, &format!("roles/show?name={name}"), &gus);
            (status, problem["detail"].to_string().replace(name, ""))
        };
        assert_eq!(shown(made), shown("nosuch"));
    }
    let ben = json!({ "name": "game/ben", "roles": ["clerk"] });
    done(&server, "users/add", &root, &ben);
    let (_, shown) = get(&server, "users/show?name=ben", &gus);
    assert_eq!(shown["roles"], json!(["clerk"]), "{shown}");
    done(&server, "users/rm", &root, &json!({ "name": "game/ben" }));
    // The role for all zones is shown, and stays as it is.
    let (_, member) = get(&server, "roles/show?name=member", &gus);
    assert_eq!(member["zone"], json!(null), "{member}");
    let change = json!({ "name": "member", "add": ["allow both $#"] });
    refused(&server, ("roles/change", &gus), &change, (404, "not-found"));
    let remove = json!({ "name": "viewer", "force": true });
    refused(&server, ("roles/rm", &gus), &remove, (404, "not-found"));
    assert_eq!(get(&server, "roles/show?name=member", &root).1, member);
    // All rights in a zone are no rights in another one, nor to the whole server.
    let max = json!({ "name": "max", "roles": ["most", "admin"] });
    done(&server, "users/add", &gus, &max);
    let made = done(&server, "tokens/create", &gus, &json!({ "name": "max" }));
    let max = made["token"].as_str().expect("a token");
    for path in [
        "status",
        "zones/ls",
        "users/ls?zone=default",
        "clients/ls?zone=shop",
    ] {
        let (status, problem) = get(&server, path, max);
        assert_eq!(
            (status, &problem["code"]),
            (403, &json!("other-zone")),
            "{path}"
        );
    }
    let (_, listed) = get(&server, "users/ls", max);
    assert_eq!(listed["total"], json!(2), "{listed}");
}
