//! The client against a server that somebody else wrote.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stentor_client::{
    Client, Options, Property, PropertyBuf, Publication, QoS, SubscribeOptions, Url, Version,
};

const MOSQUITTO: &str = "/usr/sbin/mosquitto";

/// A mosquitto of our own, on a Unix socket; ends with the test.
struct Mosquitto(Child);

impl Drop for Mosquitto {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it and waits until it says that it runs; nothing where it is not installed.
fn start(folder: &Path) -> Option<(Mosquitto, Url)> {
    if !Path::new(MOSQUITTO).exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "there is no {MOSQUITTO}: run tests/install-tools.sh"
        );
        eprintln!("skipped: there is no {MOSQUITTO}");
        return None;
    }
    let (socket, config) = (folder.join("m.sock"), folder.join("m.conf"));
    let text = format!(
        "listener 0 {}\nallow_anonymous true\nuser root\n",
        socket.display()
    );
    std::fs::write(&config, text).expect("write the configuration");
    let mut child = Command::new(MOSQUITTO)
        .arg("-v")
        .arg("-c")
        .arg(&config)
        .stderr(Stdio::piped())
        .spawn()
        .expect("start mosquitto");
    let log = child.stderr.take().expect("its log");
    let mosquitto = Mosquitto(child);
    let mut lines = BufReader::new(log).lines().map_while(Result::ok);
    assert!(
        lines.any(|line| line.ends_with("running")),
        "mosquitto runs"
    );
    // A log that nobody reads would stop it in the end.
    std::thread::spawn(move || lines.for_each(drop));
    Some((mosquitto, Url::unix(socket.to_string_lossy())))
}

#[test]
fn messages_cross_mosquitto_in_every_version_and_qos() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_mosquitto, url)) = start(folder.path()) else {
        return;
    };
    for version in [Version::V31, Version::V311, Version::V5] {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let mut options = Options::new(url.clone());
            options.version = version;
            options.client_id = format!("{version:?}-{qos:?}");
            let mut client = Client::connect(&options).expect("connect");
            let filter = SubscribeOptions {
                qos,
                ..SubscribeOptions::default()
            };
            let answers = client.subscribe(&[("a/+", filter)]).expect("subscribe");
            assert_eq!(answers.len(), 1);
            assert_eq!(answers[0] as u8, qos as u8);
            let mut properties = PropertyBuf::new();
            properties.push(Property::UserProperty(("name", "value")));
            let publication = Publication {
                qos,
                properties,
                ..Publication::new("a/b", b"hello")
            };
            for _ in 0..10 {
                client.publish_soon(&publication).expect("publish");
            }
            client.wait_outstanding(0).expect("acknowledgements");
            for _ in 0..10 {
                let message = client.receive(Some(Duration::from_secs(60)));
                let message = message.expect("receive").expect("a message");
                assert_eq!(
                    (message.topic.as_str(), &message.payload[..]),
                    ("a/b", &b"hello"[..])
                );
                assert_eq!(message.qos, qos);
                let users = message.properties.as_properties().user_properties().count();
                assert_eq!(users, usize::from(version.is_v5()));
            }
            client.ping().expect("ping");
            client.unsubscribe(&["a/+"]).expect("unsubscribe");
            client.disconnect().expect("disconnect");
        }
    }
}
