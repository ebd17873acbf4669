//! mochi-mqtt's two programs: one that has options for addresses only, which is measured as it
//! comes, and one that reads a configuration file, which is tuned.

use super::Transport;
use super::rival::{Place, Recipe, Tuning};

pub(super) fn recipe(tuning: Tuning, place: &Place<'_>) -> Result<Recipe, String> {
    match tuning {
        Tuning::Defaults => by_options(place),
        Tuning::Tuned => by_file(place),
    }
}

/// The listeners that are not measured are on ports that the system chooses.
fn by_options(place: &Place<'_>) -> Result<Recipe, String> {
    let (measured, other) = (
        format!("127.0.0.1:{}", place.port),
        "127.0.0.1:0".to_owned(),
    );
    let (tcp, websocket) = match place.transport {
        Transport::Mqtt | Transport::Mqtts => (measured, other.clone()),
        Transport::Ws => (other.clone(), measured),
        Transport::Wss => return Err("its program has no WebSocket over TLS".into()),
        Transport::Unix => return Err("its program has no Unix sockets".into()),
    };
    let mut arguments = vec!["-tcp".into(), tcp, "-ws".into(), websocket];
    arguments.extend(["-info".into(), other]);
    if place.transport == Transport::Mqtts {
        let (certificate, key) = place.certificate();
        let options = [
            "-tls-cert-file".into(),
            certificate,
            "-tls-key-file".into(),
            key,
        ];
        arguments.extend(options);
    }
    Ok(Recipe {
        program: "mochi",
        config: None,
        arguments,
    })
}

/// Larger buffers, so that more messages leave in one write; $SYS once a minute; no logs.
fn by_file(place: &Place<'_>) -> Result<Recipe, String> {
    let kind = match place.transport {
        Transport::Mqtt => "tcp",
        Transport::Ws => "ws",
        Transport::Mqtts | Transport::Wss => {
            return Err("its program with a configuration file has no TLS".into());
        }
        Transport::Unix => return Err("its program has no unix listener that is named".into()),
    };
    let config = format!(
        "listeners:\n\
         \x20 - type: \"{kind}\"\n\
         \x20   id: \"bench\"\n\
         \x20   address: \"127.0.0.1:{}\"\n\
         hooks:\n\
         \x20 auth:\n\
         \x20   allow_all: true\n\
         options:\n\
         \x20 client_net_write_buffer_size: 32768\n\
         \x20 client_net_read_buffer_size: 16384\n\
         \x20 sys_topic_resend_interval: 60\n\
         logging:\n\
         \x20 level: ERROR\n",
        place.port
    );
    Ok(Recipe {
        program: "mochi-config",
        config: Some(("mochi.yaml", config)),
        arguments: vec!["-config".into(), place.file("mochi.yaml")],
    })
}
