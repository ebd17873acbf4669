//! How a session begins.

use serde_json::json;
use stentor_tests::raw::eventually;
use stentor_tests::server::hash_password;
use stentor_tests::{Plan, Raw};

use super::{JSON, OWN, cookie, get, log_in, password, post, send, server, session, user};
use crate::api::json_of;
use crate::read;

#[test]
fn a_password_begins_a_session() {
    let server = server();
    user(&server, "vic", "viewer");
    let answer = log_in(&server, JSON, &json!({ "user": "vic", "password": "vic" }));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let set = answer.set_cookie.clone().expect("there is a cookie");
    let rules: Vec<&str> = set.split("; ").skip(1).collect();
    assert_eq!(rules, ["Path=/", "HttpOnly", "SameSite=Strict"]);
    let (name, value) = set.split_once('=').expect("a name and a value");
    // The tests name the host without a port.
    assert_eq!(name, "stentor");
    let value = value.split(';').next().unwrap_or_default();
    assert!(value.len() >= 43, "256 bits: {value}");
    let log = server.log();
    assert!(!log.contains(value), "nobody else has it");
    let cookie = cookie(&answer);
    let (status, me) = get(&server, "me", &cookie);
    assert_eq!(status, 200, "{me}");
    assert_eq!(me["user"], "vic");
    assert_eq!(
        (&me["zone"], &me["roles"]),
        (&json!("default"), &json!(["viewer"]))
    );
    assert_eq!(me["session"]["idle_secs"], 1800);
    let may = me["may"].as_array().expect("a list");
    assert!(may.contains(&json!("status")) && !may.contains(&json!("stop")));
    assert_eq!(get(&server, "status", &cookie).0, 200);
    let (status, problem) = post(&server, "stop", &cookie, (OWN, &json!({})));
    assert_eq!((status, &problem["code"]), (403, &json!("denied")));
    assert_ne!(session(&server, "vic"), cookie, "each session has its own");
}

#[test]
fn a_user_of_a_zone_logs_in_there() {
    let server = server();
    server.control(&["zone", "add", "game"]).success();
    let add = ["user", "add", "game/gus", "--role", "admin"];
    password(&server, &add, "secret");
    for body in [
        json!({ "user": "gus", "password": "secret", "zone": "game" }),
        json!({ "user": "game/gus", "password": "secret" }),
    ] {
        let answer = log_in(&server, JSON, &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let (_, me) = get(&server, "me", &cookie(&answer));
        assert_eq!(
            (&me["name"], &me["zone"]),
            (&json!("game/gus"), &json!("game"))
        );
        let may = me["may"].as_array().expect("a list");
        assert!(may.contains(&json!("clients.ls")) && !may.contains(&json!("status")));
    }
    let elsewhere = json!({ "user": "gus", "password": "secret" });
    assert_eq!(log_in(&server, JSON, &elsewhere).status, 401);
}

/// The same answer for all of them, and no cookie. Guests and people without a name stay out, also
/// where MQTT lets them in.
#[test]
fn wrong_logins_are_refused() {
    let server = server();
    user(&server, "vic", "viewer");
    user(&server, "dora", "viewer");
    server.control(&["user", "disable", "dora"]).success();
    for body in [
        json!({ "user": "vic", "password": "wrong" }),
        json!({ "user": "nobody", "password": "wrong" }),
        json!({ "user": "dora", "password": "dora" }),
        json!({ "user": "vic", "password": "x".repeat(2_000) }),
        json!({ "user": "x".repeat(2_000), "password": "x" }),
        json!({ "user": "vic\u{0}", "password": "vic" }),
    ] {
        let answer = log_in(&server, JSON, &body);
        assert_eq!(answer.set_cookie, None);
        let (status, problem) = json_of(answer);
        assert_eq!(
            (status, &problem["code"]),
            (401, &json!("wrong-login")),
            "{problem}"
        );
    }
    for body in [
        json!({ "user": "vic" }),
        json!({ "user": "vic", "password": "" }),
        json!({ "user": "", "password": "" }),
        json!({ "user": "vic", "password": "vic", "stay": true }),
        json!({ "user": "game/vic", "password": "vic", "zone": "game" }),
        json!(["vic", "vic"]),
    ] {
        let answer = log_in(&server, JSON, &body);
        assert_eq!(answer.set_cookie, None);
        let (status, problem) = json_of(answer);
        assert_eq!(
            (status, &problem["code"]),
            (400, &json!("bad-request")),
            "{problem}"
        );
    }
}

/// Users of the configuration file log in as others do. Their password is the file's to change.
#[test]
fn users_of_the_configuration_log_in() {
    let hash = hash_password("secret");
    let config = format!(
        "[[user]]\nname = \"cora\"\npassword_hash = \"{hash}\"\nadmin = true\n\
         [[user]]\nname = \"gil\"\nzone = \"game\"\npassword_hash = \"{hash}\"\n\
         [[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n"
    );
    let plan = Plan::new().config(&config);
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    let server = plan.opens(1).start();
    let begin = |user: &str| {
        log_in(
            &server,
            JSON,
            &json!({ "user": user, "password": "secret" }),
        )
    };
    let cora = cookie(&begin("cora"));
    assert_eq!(
        get(&server, "status", &cora).0,
        200,
        "she is an administrator"
    );
    let gil = cookie(&begin("game/gil"));
    let (_, me) = get(&server, "me", &gil);
    assert_eq!(
        (&me["name"], &me["zone"]),
        (&json!("game/gil"), &json!("game"))
    );
    assert_eq!(get(&server, "status", &gil).0, 403, "{me}");
    let wrong = json!({ "user": "cora", "password": "wrong" });
    assert_eq!(log_in(&server, JSON, &wrong).status, 401);
    assert_eq!(begin("gil").status, 401, "there is none in this zone");
    let new = json!({ "password": "secret", "new_password": "new" });
    let (status, problem) = post(&server, "me/password", &cora, (OWN, &new));
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(
        status == 409 && detail.contains("configuration"),
        "{problem}"
    );
    // Without the line, the session ends with the next request.
    let (_, without) = config.split_once("[[listener]]").expect("there is one");
    server.reconfigure(&format!("[[listener]]{without}"));
    server.control(&["reload"]).success();
    eventually("the session has ended", || {
        get(&server, "me", &cora).0 == 401
    });
    assert_eq!(begin("cora").status, 401);
}

/// Wrong passwords slow their address down, as those of MQTT clients do.
#[test]
fn guessing_is_slowed_down() {
    let server = server();
    user(&server, "vic", "viewer");
    let wrong = json!({ "user": "vic", "password": "wrong" });
    // None of them waits for its answer: what is late counts as well.
    let mut clients = Vec::new();
    let body = wrong.to_string();
    let length = body.len();
    let request = format!(
        "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{JSON}\
         Content-Length: {length}\r\n\r\n{body}"
    );
    for _ in 0..60 {
        let mut client = Raw::tcp(&server.address("http"));
        client.send(request.as_bytes());
        clients.push(client);
    }
    let answers = clients.iter_mut().map(|client| read(client).status);
    let slowed = answers.filter(|status| matches!(status, 429 | 503)).count();
    assert!(slowed > 0, "all were answered at once");
}

#[test]
fn a_login_is_json_and_small() {
    let server = server();
    user(&server, "vic", "viewer");
    let body = json!({ "user": "vic", "password": "vic" });
    for headers in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
    ] {
        let (status, problem) = json_of(log_in(&server, headers, &body));
        assert_eq!((status, &problem["code"]), (415, &json!("content-type")));
    }
    let large = json!({ "user": "vic", "password": "x".repeat(20_000) });
    let (status, problem) = json_of(log_in(&server, JSON, &large));
    assert_eq!((status, &problem["code"]), (413, &json!("too-large")));
    let (status, problem) = json_of(send(&server, ("GET", "/api/v1/login"), "", ""));
    assert_eq!((status, &problem["code"]), (405, &json!("method")));
}

/// By https, the cookie is for https alone.
#[test]
fn a_session_of_https_stays_there() {
    let (plan, certificates) = Plan::new().certificates();
    let server = plan
        .config("[log]\nlevel = \"info\"\n")
        .tcp()
        .arg("--http")
        .arg("https://localhost:0")
        .opens(1)
        .start();
    user(&server, "vic", "viewer");
    let url = server.url("https").replace("127.0.0.1", "localhost");
    let mut curl = std::process::Command::new("curl");
    curl.args(["--silent", "--include", "--cacert"])
        .arg(certificates.authority())
        .args(["--header", "Content-Type: application/json", "--data"])
        .arg(r#"{"user":"vic","password":"vic"}"#)
        .arg(format!("{url}/api/v1/login"));
    let answer = stentor_tests::process::run(&mut curl).success();
    let set = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "));
    let set = set.expect("there is a cookie");
    let port = server.port("https");
    assert!(set.starts_with(&format!("__Host-stentor-{port}=")), "{set}");
    assert!(
        set.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"),
        "{set}"
    );
    let made = server.json(&["console"]);
    let link = made["url"].as_str().unwrap_or_default();
    assert!(
        link.starts_with(&format!("https://localhost:{port}/login?once=")),
        "{link}"
    );
}

/// A client that sends the body of a login slowly keeps nobody else from anything.
#[test]
fn slow_bodies_of_strangers_hold_up_nobody() {
    let server = server();
    user(&server, "vic", "viewer");
    let cookie = session(&server, "vic");
    let head = "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
                application/json\r\nContent-Length: 100\r\n\r\n{";
    let strangers: Vec<Raw> = (0..40)
        .map(|_| {
            let mut stranger = Raw::tcp(&server.address("http"));
            stranger.send(head.as_bytes());
            stranger
        })
        .collect();
    for _ in 0..10 {
        let (status, answer) = post(&server, "clients/ls", &cookie, (OWN, &json!({})));
        assert_eq!(status, 200, "{answer}");
        let answer = log_in(&server, JSON, &json!({ "user": "vic", "password": "vic" }));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    drop(strangers);
}
