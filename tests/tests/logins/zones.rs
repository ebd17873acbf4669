//! What selects the zone of a login: its name, a token, the listener.

use std::io::{BufRead, BufReader};
use std::process::Command;

use serde_json::Value;
use stentor_auth::credential::{Cost, PasswordHash};
use stentor_tests::database::{Database, Kind};
use stentor_tests::{DEADLINE, Plan, Server, process, server};

/// The zones game and shop; the second listener belongs to shop.
const ZONES: &str = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[[listener]]\nurl = \
                     \"ws://127.0.0.1:0\"\nzone = \"shop\"\n[[zone]]\nname = \"game\"\n";

/// Each zone has a user ann.
fn start() -> Server {
    let server = Plan::new().config(ZONES).start();
    for name in ["ann", "game/ann", "shop/ann"] {
        let add = ["user", "add", name, "--no-password"];
        server.control(&add).success();
    }
    server
}

fn token(server: &Server, name: &str) -> String {
    let made = server.json(&["token", "create", name]);
    made["token"].as_str().expect("a token is shown").to_owned()
}

/// How many messages each zone has received.
fn received(server: &Server, zone: &str) -> u64 {
    let shown = server.json(&["zone", "show", zone]);
    shown["zones"][0]["messages_in"].as_u64().expect("a number")
}

/// Publishes by a login name, which may be empty, with a password or a token.
fn publish(server: &Server, scheme: &str, name: &str, password: &str, version: &str) -> Command {
    let mut publish = server::stentor();
    publish.args(["pub", "-L", server.url(scheme), "-u", name, "-V", version]);
    publish.args(["-q", "1", "-t", "t", "-m", "x"]);
    publish.env("STENTOR_PASSWORD", password);
    publish
}

#[test]
fn a_token_selects_the_zone_of_its_user() {
    let server = start();
    let (game, default) = (token(&server, "game/ann"), token(&server, "ann"));
    for (at, (name, version)) in [
        ("ann", "5"),
        ("ann", "311"),
        ("", "5"),
        ("", "311"),
        ("game/ann", "5"),
    ]
    .into_iter()
    .enumerate()
    {
        process::run(&mut publish(&server, "mqtt", name, &game, version)).success();
        assert_eq!(
            received(&server, "game"),
            at as u64 + 1,
            "{name:?} {version}"
        );
    }
    assert_eq!(received(&server, "default"), 0);
    process::run(&mut publish(&server, "mqtt", "ann", &default, "5")).success();
    process::run(&mut publish(&server, "mqtt", "", &default, "5")).success();
    assert_eq!(received(&server, "default"), 2);
    // A token opens its own user's account and no other, and not at a listener of another zone.
    for (scheme, name, token) in [
        ("mqtt", "eve", &game),
        ("mqtt", "shop/ann", &game),
        ("mqtt", "game/ann", &default),
        ("ws", "ann", &game),
        ("ws", "", &game),
    ] {
        process::run(&mut publish(&server, scheme, name, token, "5")).refusal();
    }
    let shop = token(&server, "shop/ann");
    for name in ["ann", "", "shop/ann"] {
        process::run(&mut publish(&server, "ws", name, &shop, "5")).success();
    }
    assert_eq!(received(&server, "shop"), 3);
}

/// The operator's own table has users of one name in several zones, whose passwords are the names
/// of these.
fn check_own_table(kind: Kind) {
    let database = Database::start(kind);
    let url = database.create("shop");
    let row = |(name, password, zone): (&str, &str, &str)| {
        let hash = PasswordHash::make(password.as_bytes(), Cost::PBKDF2_SHA512);
        let hash = hash.expect("a hash can be made");
        format!("INSERT INTO customer VALUES ('{name}', '{hash}', {zone});")
    };
    let rows = [
        ("ann", "default", "NULL"),
        ("ann", "game", "'game'"),
        ("ann", "shop", "'shop'"),
        ("eve", "nowhere", "'nowhere'"),
    ];
    let table = "CREATE TABLE customer (login VARCHAR(60), hash VARCHAR(255), realm VARCHAR(60));";
    database.sql("shop", &[table, &rows.map(row).concat()].concat());
    let config = format!(
        "{ZONES}[auth]\nsource = \"{url}\"\nslow_failures = false\ncolumn_zone = \"realm\"\n\
         query = \"SELECT login AS name, hash AS password, realm FROM customer WHERE login IN (?)\"\n"
    );
    let server = Plan::new().config(&config).start();
    for (scheme, name, zone, count) in [
        ("mqtt", "ann", "default", 1),
        ("mqtt", "game/ann", "game", 1),
        ("ws", "ann", "shop", 1),
        ("ws", "shop/ann", "shop", 2),
        ("mqtt", "shop/ann", "shop", 3),
    ] {
        process::run(&mut publish(&server, scheme, name, zone, "5")).success();
        assert_eq!(received(&server, zone), count, "{scheme} {name}");
    }
    for (scheme, name, password) in [
        ("mqtt", "ann", "game"),
        ("mqtt", "game/ann", "default"),
        ("ws", "ann", "default"),
        ("ws", "game/ann", "game"),
        ("mqtt", "eve", "nowhere"),
    ] {
        process::run(&mut publish(&server, scheme, name, password, "5")).refusal();
    }
}

#[test]
fn a_table_in_postgres_tells_the_zones_of_its_users() {
    check_own_table(Kind::Postgres);
}

#[test]
fn a_table_in_mariadb_tells_the_zones_of_its_users() {
    check_own_table(Kind::MariaDb);
}

/// Nothing of a zone outlives its removal: not its connections, sessions, rooms or retained
/// messages, whatever comes later under its name.
#[test]
fn a_removed_zone_leaves_nothing_behind() {
    let server = Plan::new().tcp().start();
    server.control(&["zone", "add", "chess"]).success();
    let add = ["user", "add", "chess/ann", "--no-password"];
    server.control(&add).success();
    let ann = token(&server, "chess/ann");
    let mut keep = publish(&server, "mqtt", "ann", &ann, "5");
    process::run(keep.arg("-r")).success();
    let mut listen = server::stentor();
    listen.args([
        "sub",
        "-L",
        server.url("mqtt"),
        "-u",
        "ann",
        "-d",
        "--no-reconnect",
    ]);
    listen
        .args(["-t", "$room/tea/#"])
        .env("STENTOR_PASSWORD", &ann);
    let mut listener = process::start(&mut listen);
    let says = listener.stderr.take().expect("standard error is captured");
    let mut says = BufReader::new(says).lines();
    let is_there = |line: std::io::Result<String>| line.expect("a line").contains("subscribed");
    assert!(says.any(is_there), "ann did not subscribe");
    let shown = server.json(&["zone", "show", "chess"]);
    let zone = &shown["zones"][0];
    for (name, value) in [("rooms", 2), ("members", 1), ("retained_messages", 1)] {
        assert!(zone[name].as_u64() >= Some(value), "{name}: {shown}");
    }
    let refused = server.control(&["zone", "remove", "chess"]);
    assert!(refused.stderr.contains("1 user;"), "{refused}");
    server.control(&["user", "delete", "chess/ann"]).success();
    let removed: Value = server.json(&["zone", "remove", "chess"]);
    assert_eq!(removed["retained_messages"], 1, "{removed}");
    assert!(!process::finish(listener, DEADLINE).status.success());
    let gone = server.control(&["zone", "show", "chess"]);
    assert!(gone.stderr.contains("no zone"), "{gone}");
    let gone = server.control(&["zone", "rm", "chess"]);
    assert!(gone.stderr.contains("no zone"), "{gone}");
    server.control(&["zone", "add", "chess"]).success();
    let shown = server.json(&["zone", "show", "chess"]);
    for name in ["rooms", "sessions", "retained_messages"] {
        assert_eq!(shown["zones"][0][name], 0, "{name}: {shown}");
    }
}

/// The same while the server is stopped; and its figures stand in the status of a running one.
#[test]
fn a_zone_that_is_removed_while_the_server_is_stopped_leaves_nothing_behind() {
    let mut server = Plan::new().tcp().start();
    server.control(&["zone", "add", "chess"]).success();
    let add = ["user", "add", "chess/ann", "--no-password"];
    server.control(&add).success();
    let ann = token(&server, "chess/ann");
    let mut keep = publish(&server, "mqtt", "ann", &ann, "5");
    process::run(keep.arg("-r")).success();
    let status = server.json(&["status"]);
    let zones = status["zones"].as_array().expect("there are zones");
    let chess = zones.iter().find(|zone| zone["name"] == "chess");
    let chess = chess.expect("the zone has something");
    assert_eq!(chess["retained_messages"], 1, "{status}");
    server.control(&["user", "delete", "chess/ann"]).success();
    server.stop();
    let removed: Value = server.json(&["zone", "remove", "chess"]);
    assert_eq!(removed["retained_messages"], 1, "{removed}");
    let again = server.control(&["zone", "remove", "chess"]);
    assert!(again.stderr.contains("no zone"), "{again}");
    let left = server.control(&["retained", "ls", "--zone", "chess", "--json"]);
    assert_eq!(left.success(), "");
}
