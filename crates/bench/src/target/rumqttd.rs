//! rumqttd with its limits raised, or as its sample file has them.

use super::rival::{Place, Recipe, Tuning};
use super::{Needs, Transport};

/// The sample file's values where it has any. Tuned are connections, payload and the delay between
/// accepts, which its defaults would stumble over.
pub(super) fn recipe(tuning: Tuning, needs: &Needs, place: &Place<'_>) -> Result<Recipe, String> {
    let section = match (place.transport, needs.version.is_v5()) {
        (Transport::Unix, _) => return Err("it has no Unix sockets".into()),
        (Transport::Ws | Transport::Wss, true) => {
            return Err("over WebSocket it speaks MQTT 3.1.1 only".into());
        }
        (Transport::Ws | Transport::Wss, false) => "ws",
        (Transport::Mqtt | Transport::Mqtts, true) => "v5",
        (Transport::Mqtt | Transport::Mqtts, false) => "v4",
    };
    let (connections, delay_ms, payload) = match tuning {
        Tuning::Tuned => (
            needs.connections + 100,
            0,
            needs.payload.max(20_480) + 1_024,
        ),
        Tuning::Defaults => (10_010, 1, 20_480),
    };
    let port = place.port;
    let tls = match place.transport {
        Transport::Mqtts | Transport::Wss => {
            let (certificate, key) = place.certificate();
            format!("[{section}.1.tls]\ncertpath = \"{certificate}\"\nkeypath = \"{key}\"\n")
        }
        Transport::Mqtt | Transport::Ws | Transport::Unix => String::new(),
    };
    let config = format!(
        "id = 0\n\
         [router]\n\
         id = 0\n\
         max_connections = {connections}\n\
         max_outgoing_packet_count = 200\n\
         max_segment_size = 104857600\n\
         max_segment_count = 10\n\
         [{section}.1]\n\
         name = \"bench\"\n\
         listen = \"127.0.0.1:{port}\"\n\
         next_connection_delay_ms = {delay_ms}\n\
         [{section}.1.connections]\n\
         connection_timeout_ms = 60000\n\
         max_payload_size = {payload}\n\
         max_inflight_count = 100\n\
         dynamic_filters = true\n\
         {tls}"
    );
    Ok(Recipe {
        program: "rumqttd",
        config: Some(("rumqttd.toml", config)),
        arguments: vec!["-c".into(), place.file("rumqttd.toml"), "-q".into()],
    })
}
