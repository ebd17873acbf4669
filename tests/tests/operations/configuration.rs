//! `stentor config effective` and `stentor config diff`.

use serde_json::{Value, json};
use stentor_tests::{Plan, Server};

const BASE: &str = "shards = 1\n[limits]\nqueue_messages = 77\n\
                    [[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n\
                    [[user]]\nname = \"ann\"\n";

fn server_with(hash: &str) -> Server {
    let config = format!("{BASE}password_hash = \"{hash}\"\n");
    let plan = Plan::new().config(&config);
    plan.variable("STENTOR_LIMITS__TOPIC_LEVELS", "20").start()
}

fn server() -> Server {
    server_with(&stentor_tests::server::hash_password("pw"))
}

#[track_caller]
fn value(server: &Server, key: &str) -> Value {
    let told = server.json(&["config", "effective", key]);
    let values = told["values"].as_array().expect("a list").clone();
    let found = values.into_iter().find(|one| one["key"] == key);
    found.unwrap_or_else(|| panic!("{key}: {told}"))
}

#[test]
fn each_value_says_where_it_comes_from() {
    let hash = stentor_tests::server::hash_password("pw");
    let server = server_with(&hash);
    let of_file = value(&server, "limits.queue_messages");
    assert_eq!(
        (&of_file["value"], &of_file["source"]),
        (&json!("77"), &json!("file"))
    );
    let place = of_file["place"].as_str().unwrap_or_default();
    assert!(place.ends_with(":3"), "{of_file}");
    let variable = value(&server, "limits.topic_levels");
    assert_eq!(
        (&variable["value"], &variable["source"]),
        (&json!("20"), &json!("environment"))
    );
    assert_eq!(variable["place"], "STENTOR_LIMITS__TOPIC_LEVELS");
    let flag = value(&server, "data_dir");
    assert_eq!(
        (&flag["source"], &flag["place"]),
        (&json!("flag"), &json!("--data-dir"))
    );
    let default = value(&server, "log.level");
    assert_eq!(
        (&default["value"], &default["source"]),
        (&json!("info"), &json!("default"))
    );
    let listener = value(&server, "listener[mqtt://127.0.0.1:0].anonymous");
    assert_eq!(
        (&listener["value"], &listener["source"]),
        (&json!("true"), &json!("file"))
    );
    let secret = value(&server, "user[ann].password_hash");
    assert_eq!(
        (&secret["value"], &secret["secret"]),
        (&Value::Null, &json!(true))
    );
    let all = server.json(&["config", "effective"]).to_string();
    assert!(!all.contains(&*hash), "no hash is shown");
    let text = server.control(&["config", "effective"]).success();
    assert!(
        text.contains("variable STENTOR_LIMITS__TOPIC_LEVELS"),
        "{text}"
    );
    assert!(
        !text.contains("log.level") && text.contains("--all"),
        "{text}"
    );
    assert!(
        server
            .control(&["config", "effective", "--all"])
            .success()
            .contains("log.level")
    );
}

#[test]
fn a_reload_is_told_before_it_is_made() {
    let server = server();
    let nothing = server.control(&["config", "diff"]).success();
    assert_eq!(nothing, "a reload would change nothing\n");
    let hash = stentor_tests::server::hash_password("other");
    let new = BASE.replace("shards = 1", "shards = 2").replace("77", "78");
    server.reconfigure(&format!(
        "{new}password_hash = \"{hash}\"\n[log]\nlevel = \"warn\"\n"
    ));
    let told = server.json(&["config", "diff"]);
    let changes = told["changes"].as_array().expect("a list").clone();
    let of = |key: &str| {
        let found = changes.iter().find(|change| change["key"] == key);
        found.unwrap_or_else(|| panic!("{key}: {told}")).clone()
    };
    let live = json!({
        "key": "limits.queue_messages", "from": "77", "to": "78", "takes_effect": "live",
    });
    assert_eq!(of("limits.queue_messages"), live);
    let waits = json!({ "key": "shards", "from": "1", "to": "2", "takes_effect": "restart" });
    assert_eq!(of("shards"), waits);
    let secret = of("user[ann].password_hash");
    assert_eq!(
        (&secret["from"], &secret["to"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(changes.len(), 4, "{told}");
    assert_eq!(
        value(&server, "limits.queue_messages")["value"],
        "77",
        "nothing is done"
    );
    server.control(&["reload"]).success();
    assert_eq!(value(&server, "limits.queue_messages")["value"], "78");
    let shards = value(&server, "shards");
    assert_eq!(
        (&shards["value"], &shards["waiting"]),
        (&json!("2"), &json!(true))
    );
    let rest = server.json(&["config", "diff"]);
    assert_eq!(
        rest["changes"],
        json!([waits]),
        "the restart is still to come"
    );
    server.reconfigure("nonsense = 1\n");
    let refused = server.control(&["config", "diff"]).refusal();
    assert!(refused.contains("nonsense"), "{refused}");
}
