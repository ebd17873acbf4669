//! SCRAM by AUTH packets, and authenticating again.

use std::fs;

use stentor_auth::credential::scram::{AwaitingFinal, ScramClient};
use stentor_auth::credential::{ScramSecret, Sha};
use stentor_tests::raw::eventually;
use stentor_tests::{Packet, Plan, Raw, Server};

use crate::authenticate::{AGAIN, CONTINUE, auth, connect, data};

const PASSWORD: &[u8] = b"pencil";

/// A server with a user who has a secret for one mechanism.
fn with_ann(sha: Sha) -> Server {
    with_ann_as(sha, |plan| plan)
}

/// The same with something else in its plan.
fn with_ann_as(sha: Sha, change: impl FnOnce(Plan) -> Plan) -> Server {
    let server = change(Plan::new().tcp()).start();
    let secret = ScramSecret::make(sha, PASSWORD, 4_096).expect("a secret can be made");
    let file = server.folder().join("secret");
    fs::write(&file, secret.to_string()).expect("a file can be written");
    let file = file.to_str().expect("plain names");
    let added = server.control(&["user", "add", "ann", "--credential-file", file]);
    added.success();
    server
}

/// Answers the challenge to the first message; what the server says then, and what it must prove.
#[track_caller]
fn answer(client: &mut Raw, sha: Sha, awaiting: First) -> (Packet, AwaitingFinal) {
    let challenge = client.expect(15);
    assert_eq!(challenge.body[0], CONTINUE, "{challenge:?}");
    let answered = awaiting.answer(&data(&challenge, b"r="));
    let (last, proof) = answered.expect("a challenge");
    client.send(&auth(CONTINUE, sha.mechanism(), &proof));
    (client.receive(), last)
}

type First = stentor_auth::credential::scram::AwaitingFirst;

fn first(sha: Sha, name: &str, password: &[u8]) -> (First, Vec<u8>) {
    let begun = ScramClient::new(sha, password).first(name);
    begun.expect("a first message")
}

/// How the one log-in of a user ends who has this password.
#[track_caller]
fn outcome(server: &Server, sha: Sha, password: &[u8]) -> u8 {
    let mut client = server.dial();
    let (awaiting, message) = first(sha, "ann", password);
    client.send(&connect("c", sha.mechanism(), &message));
    let (answered, _) = answer(&mut client, sha, awaiting);
    answered.body[1]
}

#[test]
fn commands_make_secrets() {
    let server = Plan::new().tcp().start();
    let file = server.folder().join("given");
    let path = file.to_str().expect("plain names");
    let given = |text: &str| fs::write(&file, text).expect("a file can be written");
    given("pencil\n");
    let add = ["user", "add", "ann", "--password-file", path, "--scram"];
    server.control(&add).success();
    for sha in [Sha::Sha256, Sha::Sha512] {
        assert_eq!(outcome(&server, sha, PASSWORD), 0);
    }
    // A user who logs in by SCRAM does so with a new password too, and not with the old one.
    given("eraser\n");
    let change = ["user", "set-password", "ann", "--password-file", path];
    server.control(&change).success();
    for sha in [Sha::Sha256, Sha::Sha512] {
        assert_eq!(outcome(&server, sha, b"eraser"), 0);
        assert_ne!(outcome(&server, sha, PASSWORD), 0);
    }
    // What is exported and imported again serves as before.
    let csv = server.control(&["user", "export"]).success();
    let table = server.folder().join("users.csv");
    fs::write(&table, csv).expect("a file can be written");
    let table = table.to_str().expect("plain names");
    server.control(&["user", "delete", "ann"]).success();
    assert_ne!(outcome(&server, Sha::Sha256, b"eraser"), 0);
    server
        .control(&["user", "import", table, "--replace"])
        .success();
    assert_eq!(outcome(&server, Sha::Sha256, b"eraser"), 0);
    // A table of passwords makes secrets on demand.
    let plain = server.folder().join("plain.csv");
    fs::write(&plain, "name,password\nann,rubber\n").expect("a file can be written");
    let plain = plain.to_str().expect("plain names");
    let import = ["user", "import", plain, "--replace", "--scram"];
    server.control(&import).success();
    assert_eq!(outcome(&server, Sha::Sha512, b"rubber"), 0);
}

#[test]
fn a_user_logs_in_and_again() {
    for sha in [Sha::Sha256, Sha::Sha512] {
        let server = with_ann(sha);
        let mut client = server.dial();
        let (awaiting, message) = first(sha, "ann", PASSWORD);
        client.send(&connect("c", sha.mechanism(), &message));
        let (answered, last) = answer(&mut client, sha, awaiting);
        assert_eq!((answered.kind(), answered.body[1]), (2, 0), "{answered:?}");
        last.finish(&data(&answered, b"v="))
            .expect("the server proves itself");
        client.ping();
        let (awaiting, message) = first(sha, "ann", PASSWORD);
        client.send(&auth(AGAIN, sha.mechanism(), &message));
        let (answered, last) = answer(&mut client, sha, awaiting);
        assert_eq!((answered.kind(), answered.body[0]), (15, 0), "{answered:?}");
        last.finish(&data(&answered, b"v="))
            .expect("the server proves itself again");
        client.ping();
        // Somebody else cannot take the connection over, and a wrong password ends it.
        let (awaiting, message) = first(sha, "ann", b"eraser");
        client.send(&auth(AGAIN, sha.mechanism(), &message));
        let (answered, _) = answer(&mut client, sha, awaiting);
        assert_eq!(
            (answered.kind(), answered.body[0]),
            (14, 0x87),
            "{answered:?}"
        );
        client.closed();
    }
}

/// A name that nobody has is asked for a proof too, with a salt that stays.
#[test]
fn who_does_not_exist_is_asked_like_who_does() {
    let sha = Sha::Sha256;
    let server = with_ann(sha);
    let attempt = |name: &str| {
        let mut client = server.dial();
        let (awaiting, message) = first(sha, name, b"eraser");
        client.send(&connect("c", sha.mechanism(), &message));
        let challenge = client.expect(15);
        let text = String::from_utf8(data(&challenge, b"r=")).expect("ASCII");
        let (_, proof) = awaiting.answer(text.as_bytes()).expect("a challenge");
        client.send(&auth(CONTINUE, sha.mechanism(), &proof));
        let answered = client.expect(2);
        client.closed();
        let salt = text.split(',').nth(1).map(str::to_owned);
        (salt, answered.body)
    };
    let (nobody, ann) = (attempt("nobody"), attempt("ann"));
    assert_eq!(nobody.1, ann.1, "the answers are the same");
    assert!(ann.1[1] >= 0x80, "{ann:?}");
    assert_eq!(nobody, attempt("nobody"), "the salt stays");
}

#[test]
fn what_is_no_message_of_scram_is_refused() {
    let server = with_ann(Sha::Sha256);
    let mechanism = Sha::Sha256.mechanism();
    let long = [b"n,,n=ann,r=".to_vec(), vec![b'x'; 20_000]].concat();
    for message in [
        &b""[..],
        b"n,,n=ann",
        b"y",
        b"n,,n=ann,r=",
        b"p=tls-unique,,n=ann,r=x",
        &long,
    ] {
        let mut client = server.dial();
        client.send(&connect("c", mechanism, message));
        let answered = client.try_receive();
        let is_refused = answered.is_none_or(|packet| packet.kind() == 2 && packet.body[1] >= 0x80);
        assert!(is_refused, "{message:?}");
        client.closed();
    }
    // A second message that is none ends the exchange.
    let mut client = server.dial();
    let (_, message) = first(Sha::Sha256, "ann", PASSWORD);
    client.send(&connect("c", mechanism, &message));
    client.expect(15);
    client.send(&auth(CONTINUE, mechanism, b"c=biws,r=stranger,p=AAAA"));
    assert!(client.expect(2).body[1] >= 0x80);
    client.closed();
    eventually("nobody is left", || {
        server.json(&["status"])["connections"] == 0
    });
}

/// What is begun with a password is not finished with it once there is another one.
#[test]
fn an_exchange_does_not_outlive_its_password() {
    let sha = Sha::Sha256;
    let server = with_ann(sha);
    let mut client = server.dial();
    let (awaiting, message) = first(sha, "ann", PASSWORD);
    client.send(&connect("c", sha.mechanism(), &message));
    let (answered, _) = answer(&mut client, sha, awaiting);
    assert_eq!((answered.kind(), answered.body[1]), (2, 0), "{answered:?}");
    let (again, message) = first(sha, "ann", PASSWORD);
    client.send(&auth(AGAIN, sha.mechanism(), &message));
    let mut newcomer = server.dial();
    let (new, message) = first(sha, "ann", PASSWORD);
    newcomer.send(&connect("d", sha.mechanism(), &message));
    let proof = |client: &mut Raw, awaiting: First| {
        let answered = awaiting.answer(&data(&client.expect(15), b"r="));
        answered.expect("a challenge").1
    };
    let proofs = [proof(&mut client, again), proof(&mut newcomer, new)];
    let file = server.folder().join("given");
    fs::write(&file, "eraser\n").expect("a file can be written");
    let path = file.to_str().expect("plain names");
    let change = ["user", "set-password", "ann", "--password-file", path];
    server.control(&change).success();
    // A connected client stays so.
    client.ping();
    client.send(&auth(CONTINUE, sha.mechanism(), &proofs[0]));
    assert_eq!(client.expect(14).body[0], 0x87);
    newcomer.send(&auth(CONTINUE, sha.mechanism(), &proofs[1]));
    assert_eq!(newcomer.expect(2).body[1], 0x86);
}

/// A client that begins to authenticate again has as long for it as at the log-in.
#[test]
fn an_exchange_that_stands_still_ends() {
    let sha = Sha::Sha256;
    let server = with_ann_as(sha, |plan| {
        plan.variable("STENTOR_LIMITS__LOGIN_TIMEOUT", "1s")
    });
    let begun = |client_id: &str| {
        let mut client = server.dial();
        let (awaiting, message) = first(sha, "ann", PASSWORD);
        client.send(&connect(client_id, sha.mechanism(), &message));
        assert_eq!(answer(&mut client, sha, awaiting).0.body[1], 0);
        let (awaiting, message) = first(sha, "ann", PASSWORD);
        client.send(&auth(AGAIN, sha.mechanism(), &message));
        (client, awaiting)
    };
    let (mut idle, _) = begun("c");
    let (mut busy, awaiting) = begun("d");
    assert_eq!(answer(&mut busy, sha, awaiting).0.body[0], 0);
    idle.expect(15);
    assert_eq!(idle.expect(14).body[0], 0x87);
    idle.closed();
    server.wait_log(0, "authentication-timeout");
    busy.ping();
}

/// The operator's own code is asked about everybody, whatever it proves itself by.
#[test]
fn adaptors_judge_who_logs_in() {
    let script = "return { login = function(event)
        if event.user ~= 'ann' or event.password then return deny('this is another') end
        if event.client_id == 'c' then return deny('not you') end
        if event.client_id == 'd' then return allow({ roles = { 'member' } }) end
        return nil
    end }";
    let sha = Sha::Sha256;
    let server = with_ann_as(sha, |plan| {
        let file = plan.folder().join("door.luau");
        fs::write(&file, script).expect("a file can be written");
        plan.config(&format!("[[adaptor]]\nfile = \"{}\"\n", file.display()))
    });
    assert_eq!(outcome(&server, sha, PASSWORD), 0x87);
    server.wait_log(0, "an adaptor's `login` denied it: not you");
    for id in ["d", "e"] {
        let mut client = server.dial();
        let (awaiting, message) = first(sha, "ann", PASSWORD);
        client.send(&connect(id, sha.mechanism(), &message));
        let (answered, last) = answer(&mut client, sha, awaiting);
        assert_eq!((answered.kind(), answered.body[1]), (2, 0), "{answered:?}");
        last.finish(&data(&answered, b"v="))
            .expect("the server proves itself");
    }
}
