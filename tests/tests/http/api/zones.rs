//! A user of another zone than the default one has that zone alone.

use serde_json::json;
use stentor_tests::raw::connect_as;
use stentor_tests::{Plan, Raw, Server, Version};

use super::{get, post, role, token};

fn place() -> Server {
    let config = "[[zone]]\nname = \"game\"\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
                  anonymous = true\n";
    let plan = Plan::new().config(config);
    // The variable that the harness sets goes before the file.
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    plan.opens(1).start()
}

/// A client of the zone, by its token.
fn gamer(server: &Server, client_id: &str, token: &str) -> Raw {
    let mut client = server.dial();
    let connect = connect_as(Version::V5, client_id, true, Some(("", token)));
    client.send(&connect);
    assert_eq!(client.expect(2).body[1], 0);
    client.speaks(Version::V5);
    client
}

#[test]
fn verbs_show_and_change_nothing_of_other_zones() {
    let server = place();
    let gus = token(&server, "game/gus", &["admin"]);
    let root = token(&server, "root", &["admin"]);
    let _other = server.client(Version::V5, "pump");
    let mut own = gamer(&server, "hero", &gus);
    let (status, listed) = get(&server, "clients/ls", &gus);
    assert_eq!((status, &listed["total"]), (200, &json!(1)), "{listed}");
    assert_eq!(listed["clients"][0]["client_id"], "hero", "{listed}");
    assert_eq!(get(&server, "clients/ls", &root).1["total"], json!(2));
    assert_eq!(get(&server, "clients/ls?zone=game", &gus).0, 200);
    let (status, problem) = get(&server, "clients/ls?zone=default", &gus);
    assert_eq!(
        (status, &problem["code"]),
        (403, &json!("other-zone")),
        "{problem}"
    );
    let (status, problem) = get(&server, "clients/show?client_id=pump", &gus);
    assert_eq!(status, 404);
    let text = problem.to_string();
    assert!(
        !text.contains("default\\\"") && text.contains("game"),
        "{text}"
    );
    let (status, _) = post(
        &server,
        "clients/kick",
        &gus,
        &json!({ "client_id": "pump" }),
    );
    assert_eq!(status, 404);
    let (_, events) = get(&server, "events", &gus);
    let all = events["events"].as_array().expect("a list");
    assert!(all.iter().all(|event| event["zone"] == "game"), "{events}");
    let message = json!({ "messages": [{ "topic": "a", "payload": "x" }] });
    assert_eq!(post(&server, "retained/put", &root, &message).0, 200);
    let (status, kept) = get(&server, "retained/page?filter=%23", &gus);
    assert_eq!((status, &kept["messages"]), (200, &json!([])), "{kept}");
    let (status, cleared) = post(&server, "retained/clear", &gus, &json!({ "filter": "#" }));
    assert_eq!((status, &cleared["cleared"]), (200, &json!(0)), "{cleared}");
    own.subscribe("a/#", 0);
    let publish = json!({ "topic": "a/b", "payload": "x" });
    assert_eq!(post(&server, "publish", &gus, &publish).0, 200);
    assert_eq!(own.message(), ("a/b".to_owned(), b"x".to_vec()));
    let elsewhere = json!({ "topic": "a/b", "zone": "default" });
    assert_eq!(post(&server, "publish", &gus, &elsewhere).0, 403);
    let (status, kicked) = post(
        &server,
        "clients/kick",
        &gus,
        &json!({ "client_id": "hero" }),
    );
    assert_eq!(
        (status, &kicked["zone_name"]),
        (200, &json!("game")),
        "{kicked}"
    );
    own.expect(14);
}

#[test]
fn figures_of_zones_are_shown_to_those_who_may_see_them() {
    let server = place();
    let gus = token(&server, "game/gus", &["admin"]);
    let root = token(&server, "root", &["admin"]);
    let mut own = gamer(&server, "hero", &gus);
    own.subscribe("a/#", 1);
    let publish = json!({ "topic": "a/b", "payload": "four", "retain": true });
    assert_eq!(post(&server, "publish", &gus, &publish).0, 200);
    own.expect(3);
    let zones = |token: &str, query: &str| {
        let (status, told) = get(&server, &format!("zones?fresh=true{query}"), token);
        assert_eq!(status, 200, "{told}");
        told["zones"].as_array().expect("a list").clone()
    };
    let shown = zones(&gus, "");
    let names: Vec<_> = shown.iter().map(|zone| zone["name"].clone()).collect();
    assert_eq!(names, ["game"], "{shown:?}");
    let game = &shown[0];
    for (key, expected) in [
        ("connections", 1),
        ("sessions", 1),
        ("subscriptions", 1),
        ("messages_out", 1),
        ("messages_out_bytes", 4),
        ("retained_messages", 1),
    ] {
        assert_eq!(game[key], json!(expected), "{key} of {game}");
    }
    assert!(game["held_bytes"].as_u64() > Some(200), "{game}");
    assert_eq!(zones(&root, "&zone=game"), shown);
    assert!(zones(&root, "").len() > 1);
    let (status, problem) = get(&server, "zones?zone=default", &gus);
    assert_eq!((status, &problem["code"]), (403, &json!("other-zone")));
    let (status, problem) = get(&server, "zones?zone=none", &root);
    assert_eq!((status, &problem["code"]), (404, &json!("not-found")));
}

/// Messages of another zone are not cleared without the right to that zone.
#[test]
fn messages_of_other_zones_are_cleared_by_the_right_to_the_zone() {
    let server = place();
    let rules = [
        "allow publish $control/#",
        "deny publish $control/zones/game",
    ];
    role(&server, "clears", &rules);
    let dan = token(&server, "dan", &["clears"]);
    let clear = |zone: &str| json!({ "filter": "#", "zone": zone });
    let (status, problem) = post(&server, "retained/clear", &dan, &clear("game"));
    assert_eq!(
        (status, &problem["code"]),
        (403, &json!("denied")),
        "{problem}"
    );
    let (status, cleared) = post(&server, "retained/clear", &dan, &clear("default"));
    assert_eq!(status, 200, "{cleared}");
}
