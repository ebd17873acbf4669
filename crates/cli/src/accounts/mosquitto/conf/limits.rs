//! Options of the whole server: bounds, logs, what is left to others.

use super::{Draft, Level};
use crate::accounts::mosquitto::{Line, Plan};

/// What `limits.inflight` may be at most.
const MOST: u64 = 4_096;

/// Options of the whole server.
pub(super) fn general(draft: &mut Draft, line: &Line, plan: &mut Plan) -> bool {
    let value = line.value.as_str();
    let number = value.parse::<u64>().ok();
    match (line.key.as_str(), number) {
        ("per_listener_settings", _) => draft.is_per_listener = line.is_true(),
        ("allow_anonymous", _) => match draft.listeners.last_mut() {
            Some(listener) if draft.is_per_listener => listener.anonymous = Some(line.is_true()),
            _ => draft.anonymous = Some(line.is_true()),
        },
        ("persistence", _) => persistence(line, plan),
        // What is so in Stentor anyway.
        ("allow_zero_length_clientid" | "retain_available" | "set_tcp_nodelay", _)
            if line.is_true() => {}
        ("max_packet_size", Some(bytes)) => packet_size(draft, bytes, line, plan),
        ("message_size_limit", Some(0)) => draft.payload_bytes = None,
        ("message_size_limit", Some(bytes)) => {
            draft.payload_bytes = Some(bytes);
            plan.troubles.push(line.trouble(
                "it bounds payloads; Stentor bounds packets, so `limits.packet_bytes` leaves room \
                 for a topic and properties, and a client that sends more is disconnected",
                "lower `limits.packet_bytes` if your topics are short",
            ));
        }
        // 0 means unlimited there.
        ("max_inflight_messages", Some(count @ 0..=65_535)) => {
            // 0 is as many as there can be.
            let count = if count == 0 { MOST } else { count.min(MOST) };
            draft.limit("inflight", count.to_string());
        }
        ("max_queued_messages", Some(count @ 0..=1_000_000)) => {
            let count = if count == 0 { 1_000_000 } else { count };
            draft.limit("queue_messages", count.to_string());
        }
        ("max_queued_bytes", Some(bytes)) => draft.queue_bytes = Some(bytes),
        ("max_keepalive", Some(secs @ 1..=65_535)) => {
            draft.limit("keep_alive_max", format!("\"{secs}s\""));
        }
        ("persistent_client_expiration", _) if days(value).is_some() => {
            let days = days(value).unwrap_or_default();
            draft.limit("session_expiry_max", format!("\"{days}d\""));
        }
        ("sys_interval", Some(secs @ 0..=86_400)) => draft.sys = Some(format!("\"{secs}s\"")),
        ("log_type", _) if log_level(value).is_some() => {
            draft.level = draft.level.max(log_level(value));
        }
        ("log_dest", _) if value == "stderr" => {}
        ("log_dest" | "log_type" | "log_timestamp" | "log_timestamp_format", _) => {
            let reason = "Stentor logs to standard error, and nowhere else";
            plan.troubles
                .push(line.trouble(reason, "let systemd or a shell direct it"));
        }
        ("persistence_location" | "persistence_file", _) => {
            let reason = "sessions and messages of mosquitto are not taken over";
            let remedy = "set `data_dir`; while mosquitto runs, `stentor retained import --from \
                          mqtt://HOST:PORT` copies its retained messages";
            plan.troubles.push(line.trouble(reason, remedy));
        }
        ("pid_file" | "user", _) => {
            let reason = "Stentor leaves this to the program that starts it";
            plan.troubles
                .push(line.trouble(reason, "use the systemd unit in deploy/"));
        }
        _ => return false,
    }
    true
}

/// The level of the log that shows what a `log_type` shows.
fn log_level(kind: &str) -> Option<Level> {
    match kind {
        "error" => Some(Level::Error),
        "warning" => Some(Level::Warn),
        "notice" | "information" => Some(Level::Info),
        "all" | "debug" => Some(Level::Debug),
        _ => None,
    }
}

/// The bounds of `limits.packet_bytes`.
const PACKET_BYTES: (u64, u64) = (1 << 10, 256 << 20);

/// The bounds of `limits.queue_bytes`.
const QUEUE_BYTES: (u64, u64) = (4 << 10, 16 << 30);

/// What `limits.packet_bytes` and `limits.queue_bytes` are where nothing is said.
pub(super) const DEFAULTS: (u64, u64) = (2 << 20, 4 << 20);

/// What a packet has beside its payload, at most, but for many user properties: a topic, a header
/// and some more.
const BESIDE_PAYLOAD: u64 = 128 << 10;

/// `persistence`, which Stentor always does, and more.
fn persistence(line: &Line, plan: &mut Plan) {
    let (reason, remedy) = match line.is_true() {
        true => (
            "sessions and the messages that wait in them always survive a restart here",
            "nothing has to be done",
        ),
        false => (
            "retained messages always survive a restart here",
            "nothing has to be done",
        ),
    };
    plan.troubles.push(line.trouble(reason, remedy));
}

/// Options of mosquitto for what Stentor does in one way only, or not at all.
const WITHOUT_COUNTERPART: [&str; 14] = [
    "accept_protocol_versions",
    "allow_duplicate_messages",
    "allow_zero_length_clientid",
    "disable_client_cn_binding",
    "enable_control_api",
    "log_facility",
    "packet_buffer_size",
    "retain_available",
    "retained_persistence",
    "retry_interval",
    "set_tcp_nodelay",
    "upgrade_outgoing_qos",
    "websockets_headers_size",
    "websockets_log_level",
];

/// Why an option of mosquitto is not carried that has no key here, and what to do.
pub(super) fn elsewhere(key: &str) -> (&'static str, &'static str) {
    match key {
        "tls_version" => ("TLS 1.2 and 1.3 are always on here, and no others", NOTHING),
        "ciphers"
        | "ciphers_tls1.3"
        | "dhparamfile"
        | "tls_engine"
        | "tls_engine_kpass_sha1"
        | "tls_keyform" => ("Stentor chooses the ciphers, and loads no engines", NOTHING),
        "autosave_interval" | "autosave_on_changes" => (
            "retained messages are written as they come",
            "`retained.sync` says what a power loss may cost",
        ),
        "connection_messages" => ("connections are always logged at the level info", NOTHING),
        "max_qos" => (
            "every QoS is taken",
            "use rights to limit what a user publishes",
        ),
        "queue_qos0_messages" => (
            "messages of QoS 0 do not wait for absent clients",
            "publish what has to wait at QoS 1",
        ),
        "max_topic_alias" => (
            "it is a key of all listeners here",
            "set `limits.topic_alias_maximum`",
        ),
        "memory_limit" => ("it is counted in another way here", "set `limits.memory`"),
        "clientid_prefixes" | "auto_id_prefix" => (
            "client ids are bound to users here",
            "see `auth.client_id_binding`",
        ),
        "check_retain_source" => (
            "a retained message stays when the rights of its publisher change",
            "clear it: stentor retained clear TOPIC",
        ),
        "mount_point" => (
            "topics are not prefixed by the listener",
            "use a zone: see docs/zones.md",
        ),
        "http_dir" => ("Stentor serves no files", "let a web server do that"),
        "retain_expiry_interval" => (
            "retained messages stay until they are cleared, or as long as their publisher says",
            "publish them with a message expiry interval (MQTT 5)",
        ),
        "max_queued_bytes"
        | "max_queued_messages"
        | "max_inflight_messages"
        | "max_inflight_bytes"
        | "max_keepalive"
        | "max_packet_size"
        | "message_size_limit"
        | "persistent_client_expiration"
        | "sys_interval" => (
            "the value cannot be carried",
            "set the key of [limits] that comes closest: see docs/configuration.md",
        ),
        key if WITHOUT_COUNTERPART.contains(&key) => ("Stentor has no counterpart", NOTHING),
        "global_max_clients" | "global_max_connections" => (
            "connections are limited by address and by open files here",
            "see `limits.connections_per_address`",
        ),
        _ => (
            "there is no such option here",
            "check its spelling; docs/configuration.md lists all keys",
        ),
    }
}

/// The remedy of what needs none.
const NOTHING: &str = "nothing has to be done";

/// `max_packet_size`; 0 means unlimited.
fn packet_size(draft: &mut Draft, bytes: u64, line: &Line, plan: &mut Plan) {
    let (least, most) = PACKET_BYTES;
    if (1..least).contains(&bytes) {
        let reason = "the least that Stentor takes is 1 KiB";
        let remedy = "nothing has to be done; `limits.packet_bytes` is 1 KiB";
        plan.troubles.push(line.trouble(reason, remedy));
    }
    draft.packet_bytes = Some(match bytes {
        0 => most,
        bytes => bytes.clamp(least, most),
    });
}

/// Lists the bound of a queue that became another one, by the last line that says one.
pub(super) fn tell_queue_size(draft: &Draft, lines: &[Line], plan: &mut Plan) {
    let is_raised =
        draft.queue_bytes.is_some_and(|bytes| bytes > 0) && draft.queue_bytes < draft.queue_bytes();
    let mut lines = lines.iter().rev();
    if let Some(line) = lines.find(|line| is_raised && line.key == "max_queued_bytes") {
        let reason = "what waits for a client has to have room for the largest packet, \
                      `limits.packet_bytes`, and for 4 KiB";
        let remedy = "lower `limits.packet_bytes` and `limits.queue_bytes` if your messages are \
                      small";
        plan.troubles.push(line.trouble(reason, remedy));
    }
}

/// Days of `1h`, `2d`, `3w`, `4m` (months), `5y`; hours are rounded up.
fn days(text: &str) -> Option<u64> {
    let count: u64 = text.get(..text.len().checked_sub(1)?)?.parse().ok()?;
    let days = match text.chars().last()? {
        'h' => count.div_ceil(24),
        'd' => count,
        'w' => count.checked_mul(7)?,
        'm' => count.checked_mul(30)?,
        'y' => count.checked_mul(365)?,
        _ => return None,
    };
    (1..=49_710).contains(&days).then_some(days)
}

impl Draft {
    /// The largest packet; the smaller of two bounds counts.
    pub(super) fn packet_bytes(&self) -> Option<u64> {
        let beside = |payload: u64| payload.saturating_add(BESIDE_PAYLOAD).min(PACKET_BYTES.1);
        let payload = self.payload_bytes.map(beside);
        self.packet_bytes.into_iter().chain(payload).min()
    }

    /// What may wait for one client: the largest packet at least. 0 means unlimited.
    pub(super) fn queue_bytes(&self) -> Option<u64> {
        let (least, most) = QUEUE_BYTES;
        let packet = self.packet_bytes().unwrap_or(DEFAULTS.0);
        match self.queue_bytes {
            None => (packet > DEFAULTS.1).then_some(packet),
            Some(0) => Some(most),
            Some(bytes) => Some(bytes.max(packet).clamp(least, most)),
        }
    }

    /// The last line counts.
    fn limit(&mut self, key: &'static str, value: String) {
        self.limits.retain(|(known, _)| *known != key);
        self.limits.push((key, value));
    }
}
