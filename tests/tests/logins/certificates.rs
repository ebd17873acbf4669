//! Client certificates that name the user.

use std::fs;
use std::path::PathBuf;

use rcgen::SanType;
use stentor_tests::{Certificates, Finished, Plan, Server, process, server};

/// A server whose clients show certificates, with the users it knows.
fn listening(name: &str, users: &[&str]) -> (Server, Certificates) {
    listening_also(name, "", users)
}

/// The same with more lines for its listener.
fn listening_also(name: &str, lines: &str, users: &[&str]) -> (Server, Certificates) {
    let (plan, certificates) = Plan::new().certificates();
    let config = format!(
        "[[listener]]\nurl = \"mqtts://127.0.0.1:0\"\nclient_certificates = \"required\"\n\
         client_ca = \"{}\"\ncertificate_user = \"{name}\"\n{lines}",
        certificates.authority().display()
    );
    let server = plan.config(&config).start();
    let own = ["role", "add", "own", "--rule", "allow publish own/{user}"];
    server.control(&own).success();
    for user in users {
        let add = ["user", "add", user, "--no-password", "--role", "own"];
        server.control(&add).success();
    }
    (server, certificates)
}

/// Publishes with a certificate and no password.
fn publish(
    server: &Server,
    authority: PathBuf,
    shown: &(PathBuf, PathBuf),
    topic: &str,
) -> Finished {
    let address = server.address("mqtts");
    let (_, port) = address.rsplit_once(':').expect("an address has a port");
    let mut command = server::stentor();
    command.args([
        "pub",
        "-h",
        "localhost",
        "-p",
        port,
        "-V",
        "5",
        "-q",
        "1",
        "-m",
        "x",
    ]);
    command.args(["-t", topic]).arg("--cafile").arg(authority);
    command
        .arg("--cert")
        .arg(&shown.0)
        .arg("--key")
        .arg(&shown.1);
    process::run(&mut command)
}

#[test]
fn each_name_of_a_certificate_can_be_the_users() {
    let text = |text: &str| text.try_into().expect("ASCII");
    let names = || {
        vec![
            SanType::DnsName(text("pump.example")),
            SanType::Rfc822Name(text("pump@example.org")),
            SanType::URI(text("urn:example:pump")),
        ]
    };
    for (kind, user) in [
        ("cn", "pump"),
        ("dns", "pump.example"),
        ("email", "pump@example.org"),
        ("uri", "urn:example:pump"),
    ] {
        let (server, certificates) = listening(kind, &[user]);
        let shown = certificates.client_known_as("pump", names());
        let topic = |user: &str| format!("own/{user}");
        publish(&server, certificates.authority(), &shown, &topic(user)).success();
        // It is that user and nobody else.
        publish(&server, certificates.authority(), &shown, &topic("x")).refusal();
        // A certificate that is genuine and names nobody who is known, or nobody at all.
        let stranger = certificates.client("stranger");
        publish(&server, certificates.authority(), &stranger, &topic(user)).refusal();
        server.control(&["user", "disable", user]).success();
        publish(&server, certificates.authority(), &shown, &topic(user)).refusal();
    }
}

/// A name with a zone is of that zone, whether the login says the name or leaves it to the
/// certificate.
#[test]
fn a_certificate_selects_the_zone() {
    let (server, certificates) = listening("cn", &[]);
    server.control(&["zone", "add", "game"]).success();
    let add = ["user", "add", "game/pump", "--no-password", "--role", "own"];
    server.control(&add).success();
    let shown = certificates.client("game/pump");
    publish(&server, certificates.authority(), &shown, "own/pump").success();
    let figures = server.json(&["zone", "show", "game"]);
    assert_eq!(figures["zones"][0]["messages_in"], 1, "{figures}");
    // In the default zone there is no such user.
    let bare = certificates.client("pump");
    publish(&server, certificates.authority(), &bare, "own/pump").refusal();
}

#[test]
fn a_certificate_of_another_authority_is_none() {
    let (server, certificates) = listening("cn", &["pump"]);
    let elsewhere = server.folder().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder can be made");
    let forged = Certificates::new(&elsewhere).client("pump");
    publish(&server, certificates.authority(), &forged, "own/pump").refusal();
    let genuine = certificates.client("pump");
    publish(&server, certificates.authority(), &genuine, "own/pump").success();
}

/// A client that ought to be somebody does not come in as nobody.
#[test]
fn a_certificate_that_names_nobody_is_refused() {
    for (kind, name, why) in [
        ("dns", "pump", "no name of the kind that `certificate_user`"),
        ("cn", "", "the name in its certificate"),
    ] {
        let (server, certificates) = listening_also(kind, "anonymous = true\n", &[]);
        let shown = certificates.client(name);
        publish(&server, certificates.authority(), &shown, "x").refusal();
        server.wait_log(0, why);
    }
}
