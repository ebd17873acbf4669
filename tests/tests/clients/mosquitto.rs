//! The mosquitto command-line clients.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};

use stentor_tests::{DEADLINE, Plan, Server, process, tools};

const VERSIONS: [&str; 3] = ["mqttv31", "mqttv311", "mqttv5"];

/// Where a client connects, as its flags.
fn tcp(server: &Server) -> Vec<String> {
    ["-h", "127.0.0.1", "-p", &server.port("mqtt")]
        .map(str::to_owned)
        .into()
}

fn client(program: &str, place: &[String], version: &str, args: &[&str]) -> Command {
    let mut command = tools::mosquitto(program);
    command.args(place).args(["-V", version]).args(args);
    command
}

/// A subscription that outlives its client, a message for it, and the client that fetches it.
#[track_caller]
fn check_session(place: &[String]) {
    for version in VERSIONS {
        let session = match version {
            "mqttv5" => vec!["-c", "-x", "600", "-i", "fetcher"],
            _ => vec!["-c", "-i", "fetcher"],
        };
        let topic = format!("fetch/{version}");
        let subscribe = |more: &[&str]| {
            let mut command = client("mosquitto_sub", place, version, &session);
            command.args(["-q", "2", "-t", &topic]).args(more);
            process::run(&mut command).success()
        };
        subscribe(&["-E"]);
        for qos in ["1", "2"] {
            let args = ["-q", qos, "-t", &topic, "-m", qos];
            process::run(&mut client("mosquitto_pub", place, version, &args)).success();
        }
        assert_eq!(subscribe(&["-C", "2", "-F", "%t %q %p"]), {
            format!("{topic} 1 1\n{topic} 2 2\n")
        });
    }
}

/// Starts a subscriber and waits for its SUBACK.
#[track_caller]
fn subscribed(command: &Command) -> (Child, BufReader<std::process::ChildStdout>) {
    // The program writes its lines to a pipe only when the pipe is full, unless told otherwise.
    let mut unbuffered = Command::new("stdbuf");
    unbuffered
        .arg("-oL")
        .arg(command.get_program())
        .args(command.get_args())
        .arg("-d");
    let mut child = process::start(&mut unbuffered);
    let mut lines = BufReader::new(child.stdout.take().expect("standard output is captured"));
    let mut line = String::new();
    while !line.contains("SUBACK") {
        line.clear();
        let length = lines.read_line(&mut line).expect("lines can be read");
        assert!(length > 0, "a subscriber ended before its SUBACK");
    }
    (child, lines)
}

#[test]
fn sub_and_pub_over_tcp() {
    let server = Server::open();
    check_session(&tcp(&server));
}

#[test]
fn sub_and_pub_over_tls() {
    let (plan, certificates) = Plan::new()
        .anonymous()
        .listen("mqtts://127.0.0.1:0")
        .certificates();
    let server = plan.start();
    let authority = certificates.authority();
    let place = [
        "-h",
        "localhost",
        "-p",
        &server.port("mqtts"),
        "--cafile",
        authority.to_str().expect("paths are UTF-8"),
    ];
    check_session(&place.map(str::to_owned));
}

#[test]
fn sub_and_pub_over_a_unix_socket() {
    let plan = Plan::new().anonymous();
    let path = plan.folder().join("mqtt.sock");
    let server = plan.listen(&format!("unix:{}", path.display())).start();
    assert!(
        Path::new(&path).exists(),
        "the server listens on {:?}",
        server.urls()
    );
    check_session(&["--unix".to_owned(), path.display().to_string()]);
}

#[test]
fn tls_clients_refuse_a_stranger() {
    let (plan, _) = Plan::new()
        .anonymous()
        .listen("mqtts://127.0.0.1:0")
        .certificates();
    let server = plan.start();
    let other = tempfile_authority();
    let port = server.port("mqtts");
    let cafile = other.authority();
    let mut command = tools::mosquitto("mosquitto_pub");
    command
        .args([
            "-h",
            "localhost",
            "-p",
            &port,
            "-t",
            "x",
            "-m",
            "x",
            "--cafile",
        ])
        .arg(cafile);
    process::run(&mut command).refusal();
}

/// An authority that signed nothing of the server's; its folder stays until the process ends.
fn tempfile_authority() -> stentor_tests::Certificates {
    let folder = Plan::new();
    let certificates = stentor_tests::Certificates::new(folder.folder());
    std::mem::forget(folder);
    certificates
}

#[test]
fn live_delivery_to_every_version() {
    let server = Server::open();
    let place = tcp(&server);
    for receiver in VERSIONS {
        for sender in VERSIONS {
            let args = ["-q", "1", "-t", "live/+", "-C", "3"];
            let (child, lines) = subscribed(&client("mosquitto_sub", &place, receiver, &args));
            for qos in ["0", "1", "2"] {
                let message = format!("{sender}-{qos}");
                let args = ["-q", qos, "-t", "live/x", "-m", &message];
                process::run(&mut client("mosquitto_pub", &place, sender, &args)).success();
            }
            let text: Vec<String> = lines.lines().map_while(Result::ok).collect();
            for qos in 0..3 {
                let message = format!("{sender}-{qos}");
                assert!(
                    text.contains(&message),
                    "{receiver} missed {message}: {text:?}"
                );
            }
            process::finish(child, DEADLINE).success();
        }
    }
}

#[test]
fn pub_sends_every_line_of_its_input() {
    let server = Server::open();
    let place = tcp(&server);
    let args = ["-q", "1", "-t", "lines", "-C", "100"];
    let (child, lines) = subscribed(&client("mosquitto_sub", &place, "mqttv5", &args));
    let publish = client(
        "mosquitto_pub",
        &place,
        "mqttv5",
        &["-q", "1", "-t", "lines", "-l"],
    );
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg("seq 100 | \"$0\" \"$@\"")
        .arg(publish.get_program());
    process::run(shell.args(publish.get_args())).success();
    let text: Vec<String> = lines.lines().map_while(Result::ok).collect();
    let numbers: Vec<&String> = text
        .iter()
        .filter(|line| line.parse::<u8>().is_ok())
        .collect();
    let wanted: Vec<String> = (1..=100).map(|number: u8| number.to_string()).collect();
    assert_eq!(numbers, wanted.iter().collect::<Vec<_>>());
    process::finish(child, DEADLINE).success();
}

#[test]
fn rr_gets_its_answer() {
    let server = Server::open();
    let place = tcp(&server);
    let mut responder = server.client(stentor_tests::Version::V5, "responder");
    responder.subscribe("ask", 0);
    let args = ["-t", "ask", "-e", "answer/here", "-m", "how?", "-W", "50"];
    let asker = process::start(&mut client("mosquitto_rr", &place, "mqttv5", &args));
    let (topic, _) = responder.message();
    assert_eq!(topic, "ask");
    responder.publish_surely("answer/here", b"so");
    assert_eq!(process::finish(asker, DEADLINE).success(), "so\n");
}

#[test]
fn a_will_set_by_pub_is_published() {
    let server = Server::open();
    let place = tcp(&server);
    let mut watcher = server.client(stentor_tests::Version::V4, "watcher");
    watcher.subscribe("will/#", 0);
    let args = [
        "-t",
        "idle",
        "--will-topic",
        "will/sub",
        "--will-payload",
        "gone",
    ];
    let (mut child, _lines) = subscribed(&client("mosquitto_sub", &place, "mqttv311", &args));
    child.kill().expect("a subscriber can be killed");
    assert_eq!(watcher.message(), ("will/sub".to_owned(), b"gone".to_vec()));
    child.wait().expect("a subscriber can be waited for");
}
