//! nats-server's MQTT, which needs a name of the server and JetStream for its sessions.

use super::rival::{Place, Recipe, Tuning};
use super::{Needs, Transport};

/// Tuned: room for the connections, more outstanding acknowledgements, a longer patience with slow
/// readers and more memory for what waits for them.
pub(super) fn recipe(tuning: Tuning, needs: &Needs, place: &Place<'_>) -> Result<Recipe, String> {
    if needs.version.is_v5() {
        return Err("it speaks MQTT 3.1.1 only".into());
    }
    let tls = || {
        let (certificate, key) = place.certificate();
        format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}")
    };
    let listen = format!("listen: \"127.0.0.1:{}\"", place.port);
    // Its WebSockets carry MQTT only where it has a listener for MQTT as well.
    let elsewhere = "listen: \"127.0.0.1:-1\"";
    let (mqtt, websocket) = match place.transport {
        Transport::Mqtt => (listen, None),
        Transport::Mqtts => (format!("{listen}, {}", tls()), None),
        Transport::Ws => (elsewhere.into(), Some(format!("{listen}, no_tls: true"))),
        Transport::Wss => (elsewhere.into(), Some(format!("{listen}, {}", tls()))),
        Transport::Unix => return Err("it has no Unix sockets".into()),
    };
    let acknowledgements = match tuning {
        Tuning::Tuned => ", max_ack_pending: 65535",
        Tuning::Defaults => "",
    };
    let mut config = format!(
        "server_name: bench\n\
         listen: \"127.0.0.1:-1\"\n\
         jetstream {{ store_dir: \"{}\" }}\n\
         mqtt {{ {mqtt}{acknowledgements} }}\n",
        place.file("jetstream")
    );
    if let Some(websocket) = websocket {
        config.push_str(&format!("websocket {{ {websocket} }}\n"));
    }
    if tuning == Tuning::Tuned {
        config.push_str(&format!(
            "max_connections: {}\n\
             max_pending: 268435456\n\
             write_deadline: \"60s\"\n\
             max_payload: {}\n",
            needs.connections + 1_000,
            needs.payload.max(1_048_576) + 1_024
        ));
    }
    Ok(Recipe {
        program: "nats-server",
        config: Some(("nats.conf", config)),
        arguments: vec!["-c".into(), place.file("nats.conf")],
    })
}
