//! mosquitto, tuned for throughput or as it comes; with persistence where messages have to survive.

use super::rival::{Place, Recipe, Tuning};
use super::{Needs, Transport};

/// Tuned: no queue limits (its default drops messages beyond 1,000 per client), no logs, and a disk
/// only where messages have to survive: it saves at the end, and every `autosave` seconds. Sessions
/// are saved every second if it is tuned, retained messages as by default.
pub(super) fn recipe(tuning: Tuning, needs: &Needs, place: &Place<'_>) -> Recipe {
    let mut config = match place.transport {
        Transport::Unix => format!("listener 0 {}\n", place.file("mqtt.sock")),
        _ => format!("listener {} 127.0.0.1\n", place.port),
    };
    if matches!(place.transport, Transport::Ws | Transport::Wss) {
        config.push_str("protocol websockets\n");
    }
    if matches!(place.transport, Transport::Mqtts | Transport::Wss) {
        let (certificate, key) = place.certificate();
        config.push_str(&format!("certfile {certificate}\nkeyfile {key}\n"));
    }
    config.push_str("allow_anonymous true\n");
    if tuning == Tuning::Tuned {
        config.push_str(
            "max_queued_messages 0\n\
             max_inflight_messages 0\n\
             set_tcp_nodelay true\n\
             sys_interval 0\n\
             log_type none\n\
             connection_messages false\n",
        );
    }
    let keeps = needs.stored > 0 || needs.lasting;
    if keeps {
        // Sessions lose what came after the last save, so that is as often as can be.
        let autosave_secs = match tuning {
            Tuning::Tuned if needs.lasting => 1,
            Tuning::Tuned | Tuning::Defaults => 1_800,
        };
        config.push_str(&format!(
            "persistence true\npersistence_location {}/\nautosave_interval {autosave_secs}\n",
            place.folder.display()
        ));
    } else if tuning == Tuning::Tuned {
        config.push_str("persistence false\n");
    }
    let has_files = keeps || place.transport != Transport::Mqtt;
    if has_files && nix::unistd::geteuid().is_root() {
        // As root it becomes the user mosquitto, who could not use the folder.
        config.push_str("user root\n");
    }
    Recipe {
        program: "mosquitto",
        config: Some(("mosquitto.conf", config)),
        arguments: vec!["-c".into(), place.file("mosquitto.conf")],
    }
}
