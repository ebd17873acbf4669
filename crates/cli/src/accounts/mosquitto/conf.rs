//! mosquitto.conf: its lines, with those of included files, and what they become.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Line, NO_TEXT, Plan};
use crate::file;
use stentor_server::config::ListenUrl;

/// Files that one configuration may include.
const FILES_MAX: usize = 1_000;

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What the lines name that lies elsewhere.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    pub(super) passwords: Option<PathBuf>,
    pub(super) acl: Option<PathBuf>,
    pub(super) dynsec: Option<PathBuf>,
}

/// A listener as it comes together.
#[derive(Clone, Debug, Default)]
struct Listener {
    /// `None` for what is no port: the listener is not carried, and neither are its options.
    port: Option<u16>,
    bind: Option<String>,
    is_websocket: bool,
    certificate: Option<String>,
    key: Option<String>,
    authority: Option<String>,
    needs_certificate: bool,
    names_by_certificate: bool,
    connections: Option<u32>,
    anonymous: Option<bool>,
}

/// Everything that the lines say, before it is written down.
#[derive(Debug, Default)]
struct Draft {
    listeners: Vec<Listener>,
    is_local_only: bool,
    is_per_listener: bool,
    anonymous: Option<bool>,
    limits: Vec<(&'static str, String)>,
    packet_bytes: Option<u64>,
    payload_bytes: Option<u64>,
    queue_bytes: Option<u64>,
    sys: Option<String>,
    level: Option<&'static str>,
}

/// The lines of a text that say something.
pub(super) fn lines(file: &str, text: impl AsRef<[u8]>) -> Vec<Line> {
    let line = |(at, bytes): (usize, &[u8])| {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        let (key, value) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        Some(Line {
            file: file.to_owned(),
            number: at + 1,
            key: key.to_owned(),
            value: value.trim().to_owned(),
            is_text: std::str::from_utf8(bytes).is_ok(),
        })
    };
    let lines = text.as_ref().split(|byte| *byte == b'\n');
    lines.enumerate().filter_map(line).collect()
}

/// Reads a file of bounded size, whatever is in it.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = file::read(path, FILE_BYTES_MAX);
    bytes.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Reads a file of bounded size.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let text = file::read_text(path, FILE_BYTES_MAX);
    text.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// All lines of a configuration, those of included folders in their place.
pub(super) fn gather(path: &Path) -> Result<Vec<Line>, String> {
    let mut files = 0;
    gather_into(path, &mut files)
}

fn gather_into(path: &Path, files: &mut usize) -> Result<Vec<Line>, String> {
    *files += 1;
    if *files > FILES_MAX {
        return Err(format!("more than {FILES_MAX} files are included"));
    }
    let text = read_bytes(path)?;
    let mut all = Vec::new();
    for line in lines(&path.to_string_lossy(), text) {
        if line.key != "include_dir" {
            all.push(line);
            continue;
        }
        let folder = fs::read_dir(&line.value)
            .map_err(|error| format!("cannot read the folder {}: {error}", line.value))?;
        let mut included: Vec<PathBuf> = folder
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "conf")
            })
            .collect();
        // As mosquitto: capitals before small letters.
        included.sort();
        for path in included {
            all.extend(gather_into(&path, files)?);
        }
    }
    Ok(all)
}

/// Turns the lines into our configuration; what they name elsewhere is left to the caller.
pub(super) fn take(lines: &[Line], plan: &mut Plan) -> Elsewhere {
    let mut draft = Draft::default();
    let mut elsewhere = Elsewhere::default();
    for line in lines {
        if !line.is_text && !begins_listener(line) {
            plan.troubles.push(line.trouble(NO_TEXT.0, NO_TEXT.1));
            continue;
        }
        let is_known = bridge(line, plan)
            || listener(&mut draft, line, plan)
            || general(&mut draft, line, plan)
            || files(&mut elsewhere, line, plan);
        if !is_known {
            plan.troubles.push(line.trouble(
                "Stentor has no such option",
                "see docs/configuration.md for what comes closest",
            ));
        }
    }
    draft.is_local_only = draft.listeners.is_empty();
    draft.listeners.retain(|listener| listener.port.is_some());
    if draft.listeners.is_empty() {
        draft.listeners.push(Listener {
            port: Some(1883),
            bind: Some("127.0.0.1".to_owned()),
            ..Listener::default()
        });
    }
    if plan.has_ipv6 {
        draft.open_ipv6();
    }
    tell_queue_size(&draft, lines, plan);
    plan.config = draft.toml();
    plan.listeners = draft.listeners.len();
    plan.has_certificate_names = draft.listeners.iter().any(|one| one.names_by_certificate);
    elsewhere
}

/// What belongs to a bridge, beside what begins with `bridge_`, `local_`, `notification` or
/// `remote_`. Other options behind `connection` are as general as anywhere else.
const OF_BRIDGES: [&str; 15] = [
    "connection",
    "address",
    "addresses",
    "cleansession",
    "clientid",
    "idle_timeout",
    "keepalive_interval",
    "password",
    "restart_timeout",
    "round_robin",
    "start_type",
    "threshold",
    "topic",
    "try_private",
    "username",
];

/// A bridge and its options.
fn bridge(line: &Line, plan: &mut Plan) -> bool {
    let key = line.key.as_str();
    let starts = ["bridge_", "local_", "notification", "remote_"];
    let is_of_bridge =
        OF_BRIDGES.contains(&key) || starts.iter().any(|start| key.starts_with(start));
    if is_of_bridge {
        plan.troubles.push(line.trouble(
            "Stentor makes no bridges",
            "let the other server connect to this one; bridges of mosquitto are welcome here",
        ));
    }
    is_of_bridge
}

fn begins_listener(line: &Line) -> bool {
    matches!(line.key.as_str(), "listener" | "port")
}

/// Why nobody can listen there; `None` if somebody can.
fn unusable(listener: &Listener) -> Option<String> {
    let bind = listener.bind.as_deref().unwrap_or_default();
    match listener.port {
        None => Some("a port is a number from 0 to 65535".to_owned()),
        Some(0) if !bind.starts_with('/') => Some("a port of 0 needs the path of a socket".into()),
        Some(_) => match listener.url().parse::<ListenUrl>() {
            Ok(_) => None,
            Err(_) => Some(format!("{bind:?} is no address to listen on")),
        },
    }
}

/// Takes a listener that nobody could connect to out of the count, with its options.
fn check_listener(listener: &mut Listener, line: &Line, plan: &mut Plan) {
    let reason = match line.is_text {
        true => unusable(listener),
        false => Some(NO_TEXT.0.to_owned()),
    };
    if let Some(reason) = reason {
        let reason = format!("{reason}; the listener and its options are left out");
        let remedy = "add it to the new file: [[listener]] with a url";
        plan.troubles.push(line.trouble(&reason, remedy));
        listener.port = None;
    }
}

/// Takes a listener out of the count where clients speak something else than MQTT.
fn leave_out(listener: &mut Listener, line: &Line, plan: &mut Plan) {
    let (reason, remedy) = match line.value.as_str() {
        "http_api" => (
            "Stentor has no HTTP API",
            "use the stentor command, whose --json is for programs, or the topics of $SYS",
        ),
        _ => (
            "listeners speak MQTT, over TCP or WebSocket",
            "if it does, add it to the new file: [[listener]] with a url",
        ),
    };
    let reason = format!("{reason}; the listener and its options are left out");
    plan.troubles.push(line.trouble(&reason, remedy));
    listener.port = None;
}

/// Options of the listener that was named last, or of the first one.
fn listener(draft: &mut Draft, line: &Line, plan: &mut Plan) -> bool {
    let value = line.value.as_str();
    if begins_listener(line) {
        let (port, bind) = value.split_once([' ', '\t']).unwrap_or((value, ""));
        let mut listener = Listener {
            port: port.parse().ok(),
            bind: (!bind.is_empty()).then(|| bind.trim().to_owned()),
            ..Listener::default()
        };
        check_listener(&mut listener, line, plan);
        draft.listeners.push(listener);
        return true;
    }
    let is_listeners = matches!(
        line.key.as_str(),
        "bind_address"
            | "protocol"
            | "certfile"
            | "keyfile"
            | "cafile"
            | "require_certificate"
            | "use_identity_as_username"
            | "max_connections"
    );
    if !is_listeners {
        return false;
    }
    if draft.listeners.is_empty() {
        draft.listeners.push(Listener {
            port: Some(1883),
            ..Listener::default()
        });
    }
    let Some(current) = draft.listeners.last_mut() else {
        return false;
    };
    match (line.key.as_str(), value) {
        (_, "") => {
            let reason = "the value is missing";
            plan.troubles
                .push(line.trouble(reason, "add it, or delete the line"));
        }
        ("bind_address", _) => {
            current.bind = Some(value.to_owned());
            if current.port.is_some() {
                check_listener(current, line, plan);
            }
        }
        ("protocol", "websockets") => current.is_websocket = true,
        ("protocol", "mqtt") => {}
        ("protocol", _) => leave_out(current, line, plan),
        ("certfile", _) => current.certificate = Some(absolute(value)),
        ("keyfile", _) => current.key = Some(absolute(value)),
        ("cafile", _) => current.authority = Some(absolute(value)),
        ("require_certificate", _) => current.needs_certificate = value == "true",
        ("use_identity_as_username", _) => names_by_certificate(current, line, plan),
        ("max_connections", "-1") => {}
        ("max_connections", _) if value.parse::<u32>().is_ok() => {
            let count: Option<u32> = value.parse().ok();
            current.connections = count.map(|count| count.min(CONNECTIONS_MAX));
        }
        _ => {
            let reason = "the value means nothing here";
            plan.troubles
                .push(line.trouble(reason, "see docs/configuration.md"));
        }
    }
    true
}

/// Carried, but a name is worth something else here.
fn names_by_certificate(listener: &mut Listener, line: &Line, plan: &mut Plan) {
    listener.names_by_certificate = line.value == "true";
    if listener.names_by_certificate {
        plan.troubles.push(line.trouble(
            "it lets in whoever has a certificate; here each name in one has to be a user's, and \
             who is called `admin` in one is Stentor's administrator",
            "add the users that no file names: stentor user add NAME --no-password; let no \
             certificate have the name admin",
        ));
    }
}

/// Options of the whole server.
fn general(draft: &mut Draft, line: &Line, plan: &mut Plan) -> bool {
    let value = line.value.as_str();
    let number = value.parse::<u64>().ok();
    match (line.key.as_str(), number) {
        ("per_listener_settings", _) => draft.is_per_listener = value == "true",
        ("allow_anonymous", _) => match draft.listeners.last_mut() {
            Some(listener) if draft.is_per_listener => listener.anonymous = Some(value == "true"),
            _ => draft.anonymous = Some(value == "true"),
        },
        // What is so in Stentor anyway.
        ("persistence", _) if value == "true" => {}
        ("allow_zero_length_clientid" | "retain_available" | "set_tcp_nodelay", _)
            if value == "true" => {}
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
        // 0 is no bound there.
        ("max_inflight_messages", Some(count @ 0..=65_535)) => {
            let count = if count == 0 { 65_535 } else { count };
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
        ("log_type", _) if matches!(value, "all" | "debug") => draft.level = Some("debug"),
        ("log_type", _) if matches!(value, "information" | "notice" | "warning" | "error") => {}
        ("log_dest", _) if value == "stderr" => {}
        ("log_dest" | "log_type" | "log_timestamp" | "log_timestamp_format", _) => {
            let reason = "Stentor logs to standard error, and nowhere else";
            plan.troubles
                .push(line.trouble(reason, "let systemd or a shell direct it"));
        }
        ("persistence_location" | "persistence_file", _) => {
            let reason = "sessions and messages of mosquitto are not taken over";
            let remedy = "set `data_dir`; publish retained messages anew";
            plan.troubles.push(line.trouble(reason, remedy));
        }
        ("pid_file" | "user", _) => {
            let reason = "Stentor leaves this to whoever starts it";
            plan.troubles
                .push(line.trouble(reason, "use the systemd unit in deploy/"));
        }
        _ => return false,
    }
    true
}

/// The upper bound of `listener.max_connections`.
const CONNECTIONS_MAX: u32 = 10_000_000;

/// The bounds of `limits.packet_bytes`.
const PACKET_BYTES: (u64, u64) = (1 << 10, 256 << 20);

/// The bounds of `limits.queue_bytes`.
const QUEUE_BYTES: (u64, u64) = (4 << 10, 16 << 30);

/// What `limits.packet_bytes` and `limits.queue_bytes` are where nothing is said.
const DEFAULTS: (u64, u64) = (2 << 20, 4 << 20);

/// What a packet has beside its payload, at most, but for many user properties: a topic, a header
/// and some more.
const BESIDE_PAYLOAD: u64 = 128 << 10;

/// `max_packet_size`; 0 is no bound.
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
fn tell_queue_size(draft: &Draft, lines: &[Line], plan: &mut Plan) {
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

/// Files with users and rules.
fn files(elsewhere: &mut Elsewhere, line: &Line, plan: &mut Plan) -> bool {
    let place = match line.key.as_str() {
        "password_file" => &mut elsewhere.passwords,
        "acl_file" => &mut elsewhere.acl,
        "plugin_opt_config_file" => &mut elsewhere.dynsec,
        "plugin" | "auth_plugin" => {
            if !line.value.contains("dynamic_security") {
                let reason = "plugins of mosquitto do not work in Stentor";
                let remedy = "name their database in auth.source, or import its users";
                plan.troubles.push(line.trouble(reason, remedy));
            }
            return true;
        }
        _ => return false,
    };
    let path = PathBuf::from(&line.value);
    match place {
        Some(known) if *known != path => {
            let reason = "Stentor has one set of users for all listeners; the first file counts";
            let remedy = "import the second one into a zone of its own";
            plan.troubles.push(line.trouble(reason, remedy));
        }
        _ => *place = Some(path),
    }
    true
}

/// A path as it was meant where the command was run.
fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path);
    absolute.map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

impl Draft {
    /// Puts one for IPv6 beside each listener that was told no address: here an address is one
    /// family's.
    fn open_ipv6(&mut self) {
        let both = |listener: Listener| {
            let is_everywhere = listener.bind.is_none();
            let other = is_everywhere.then(|| Listener {
                bind: Some("::".to_owned()),
                ..listener.clone()
            });
            std::iter::once(listener).chain(other)
        };
        let listeners = std::mem::take(&mut self.listeners);
        self.listeners = listeners.into_iter().flat_map(both).collect();
    }

    /// The largest packet; the smaller of two bounds counts.
    fn packet_bytes(&self) -> Option<u64> {
        let beside = |payload: u64| payload.saturating_add(BESIDE_PAYLOAD).min(PACKET_BYTES.1);
        let payload = self.payload_bytes.map(beside);
        self.packet_bytes.into_iter().chain(payload).min()
    }

    /// What may wait for one client: the largest packet at least. 0 is no bound.
    fn queue_bytes(&self) -> Option<u64> {
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

    /// Our configuration file.
    fn toml(&self) -> String {
        let mut out = String::from("# Made from mosquitto's configuration.\n");
        let anonymous = self.anonymous.unwrap_or(self.is_local_only);
        for listener in &self.listeners {
            out += &listener.toml(if self.is_per_listener {
                listener.anonymous.unwrap_or(false)
            } else {
                anonymous
            });
        }
        let bytes = [
            ("packet_bytes", self.packet_bytes()),
            ("queue_bytes", self.queue_bytes()),
        ];
        let bytes = bytes.into_iter();
        let bytes = bytes.filter_map(|(key, bytes)| Some((key, bytes?.to_string())));
        let mut limits = self.limits.iter().cloned().chain(bytes).peekable();
        if limits.peek().is_some() {
            out += "\n[limits]\n";
            for (key, value) in limits {
                out += &format!("{key} = {value}\n");
            }
        }
        if let Some(interval) = &self.sys {
            out += &format!("\n[sys]\ninterval = {interval}\n");
        }
        if let Some(level) = self.level {
            out += &format!("\n[log]\nlevel = \"{level}\"\n");
        }
        out
    }
}

impl Listener {
    const fn is_tls(&self) -> bool {
        self.certificate.is_some() && self.key.is_some()
    }

    fn url(&self) -> String {
        let scheme = match (self.is_websocket, self.is_tls()) {
            (false, false) => "mqtt",
            (false, true) => "mqtts",
            (true, false) => "ws",
            (true, true) => "wss",
        };
        let bind = self.bind.as_deref().unwrap_or("0.0.0.0");
        match (self.port.unwrap_or_default(), bind) {
            (0, path) if path.starts_with('/') => format!("unix:{path}"),
            (port, "localhost") => format!("{scheme}://127.0.0.1:{port}"),
            (port, host) if host.contains(':') => format!("{scheme}://[{host}]:{port}"),
            (port, host) => format!("{scheme}://{host}:{port}"),
        }
    }

    fn toml(&self, anonymous: bool) -> String {
        let is_tls = self.is_tls();
        let mut out = format!("\n[[listener]]\nurl = {}\n", quoted(&self.url()));
        if anonymous {
            out += "anonymous = true\n";
        }
        if let (true, Some(certificate), Some(key)) = (is_tls, &self.certificate, &self.key) {
            out += &format!(
                "certificate = {}\nkey = {}\n",
                quoted(certificate),
                quoted(key)
            );
        }
        if let (true, true, Some(authority)) = (is_tls, self.needs_certificate, &self.authority) {
            out += &format!(
                "client_certificates = \"required\"\nclient_ca = {}\n",
                quoted(authority)
            );
            if self.names_by_certificate {
                out += "certificate_user = \"cn\"\n";
            }
        }
        if let Some(connections) = self.connections {
            out += &format!("max_connections = {connections}\n");
        }
        out
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> (Plan, Elsewhere) {
        let mut plan = Plan::default();
        let elsewhere = take(&lines("m.conf", text), &mut plan);
        (plan, elsewhere)
    }

    #[test]
    fn without_a_listener_it_is_open_to_this_machine() {
        let (plan, _) = taken("");
        assert!(
            plan.config
                .contains("url = \"mqtt://127.0.0.1:1883\"\nanonymous = true")
        );
        let (plan, _) = taken("allow_anonymous false\n");
        assert!(!plan.config.contains("anonymous"), "{}", plan.config);
    }

    /// As mosquitto reads its file: a section ends where an option belongs to no bridge.
    #[test]
    fn what_stands_behind_a_bridge_counts() {
        let (plan, elsewhere) = taken(
            "connection far\naddress far:1883\ntopic # both 0\nremote_username u\n\
             notifications false\nacl_file /a\npassword_file /p\nallow_anonymous false\n\
             max_inflight_messages 5\n",
        );
        let lines: Vec<usize> = plan.troubles.iter().map(|trouble| trouble.number).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5]);
        assert_eq!(elsewhere.passwords, Some("/p".into()));
        assert_eq!(elsewhere.acl, Some("/a".into()));
        assert!(plan.config.contains("inflight = 5"), "{}", plan.config);
        assert!(!plan.config.contains("anonymous"), "{}", plan.config);
    }

    #[test]
    fn listeners_keep_their_options() {
        let (plan, elsewhere) = taken(
            "password_file /p\nacl_file /a\nmax_inflight_messages 5\nlistener 1884 ::1\n\
             listener 9001\nprotocol websockets\nlistener 8883\ncafile /ca\ncertfile /c\n\
             keyfile /k\nrequire_certificate true\nuse_identity_as_username true\n\
             max_connections 7\nsys_interval 60\npersistent_client_expiration 2w\n",
        );
        // What names in certificates come to is carried, and told.
        let told: Vec<&str> = plan.troubles.iter().map(|told| &*told.text).collect();
        assert_eq!(told, ["use_identity_as_username true"]);
        for part in [
            "url = \"mqtt://[::1]:1884\"\n\n",
            "url = \"ws://0.0.0.0:9001\"\n\n",
            "url = \"mqtts://0.0.0.0:8883\"\ncertificate = \"/c\"\nkey = \"/k\"\n\
             client_certificates = \"required\"\nclient_ca = \"/ca\"\ncertificate_user = \"cn\"\n\
             max_connections = 7\n",
            "inflight = 5\nsession_expiry_max = \"14d\"\n",
            "[sys]\ninterval = \"60s\"",
        ] {
            assert!(plan.config.contains(part), "{part}\n{}", plan.config);
        }
        assert_eq!(elsewhere.passwords, Some("/p".into()));
        assert_eq!(elsewhere.acl, Some("/a".into()));
    }

    #[test]
    fn a_listener_without_an_address_is_on_ipv6_too() {
        let urls = |text: &str| {
            let mut plan = Plan {
                has_ipv6: true,
                ..Plan::default()
            };
            take(&lines("m.conf", text), &mut plan);
            let urls = plan
                .config
                .lines()
                .filter_map(|line| line.strip_prefix("url = "));
            let urls: Vec<String> = urls.map(str::to_owned).collect();
            assert_eq!(urls.len(), plan.listeners, "{text}");
            urls.join(" ")
        };
        for (text, expected) in [
            (
                "listener 1884\n",
                "\"mqtt://0.0.0.0:1884\" \"mqtt://[::]:1884\"",
            ),
            (
                "port 9001\nprotocol websockets\n",
                "\"ws://0.0.0.0:9001\" \"ws://[::]:9001\"",
            ),
            ("listener 1884 192.0.2.1\n", "\"mqtt://192.0.2.1:1884\""),
            ("listener 0 /run/m.sock\n", "\"unix:/run/m.sock\""),
            ("listener 1884\nbind_address ::1\n", "\"mqtt://[::1]:1884\""),
            ("", "\"mqtt://127.0.0.1:1883\""),
        ] {
            assert_eq!(urls(text), expected, "{text}");
        }
        // What belongs to one belongs to both.
        let mut plan = Plan {
            has_ipv6: true,
            ..Plan::default()
        };
        take(
            &lines("m.conf", "listener 1884\nmax_connections 7\n"),
            &mut plan,
        );
        let bound = plan.config.matches("max_connections = 7\n").count();
        assert_eq!(bound, 2, "{}", plan.config);
    }

    /// One bounds packets, the other what is in them.
    #[test]
    fn a_bound_of_payloads_is_no_bound_of_packets() {
        for (text, expected, told) in [
            ("max_packet_size 5000\n", "packet_bytes = 5000\n", 0),
            (
                "max_packet_size 0\n",
                "packet_bytes = 268435456\nqueue_bytes = 268435456\n",
                0,
            ),
            ("max_packet_size 20\n", "packet_bytes = 1024\n", 1),
            ("message_size_limit 5000\n", "packet_bytes = 136072\n", 1),
            (
                "message_size_limit 268435455\n",
                "packet_bytes = 268435456\n",
                1,
            ),
            (
                "message_size_limit 9000000\nmax_packet_size 5000\n",
                "packet_bytes = 5000\n",
                1,
            ),
            (
                "max_inflight_messages 0\nmax_queued_messages 0\n",
                "inflight = 65535\nqueue_messages = 1000000\n",
                0,
            ),
            ("max_queued_bytes 5000000\n", "queue_bytes = 5000000\n", 0),
            ("max_queued_bytes 0\n", "queue_bytes = 17179869184\n", 0),
            ("max_queued_bytes 20\n", "queue_bytes = 2097152\n", 1),
            (
                "max_queued_bytes 5000\nmax_packet_size 4000\n",
                "packet_bytes = 4000\nqueue_bytes = 5000\n",
                0,
            ),
        ] {
            let (plan, _) = taken(text);
            assert!(plan.config.contains(expected), "{text}{}", plan.config);
            assert_eq!(plan.troubles.len(), told, "{text}");
            let bytes = |key: &str| {
                let mut lines = plan.config.lines();
                let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
                value.map(|value| value.parse::<u64>().unwrap())
            };
            // Or the server would not take the file.
            let packet = bytes("packet_bytes").unwrap_or(DEFAULTS.0);
            assert!(
                bytes("queue_bytes").unwrap_or(DEFAULTS.1) >= packet,
                "{text}"
            );
        }
        let (plan, _) = taken("message_size_limit 0\n");
        assert!(!plan.config.contains("packet_bytes"), "{}", plan.config);
    }

    #[test]
    fn a_listener_without_a_port_is_listed_and_its_options_go_with_it() {
        for line in [
            "listener",
            "port",
            "listener 99999",
            "listener x 127.0.0.1",
            "listener 0",
            "listener 0 sock",
            "listener 1885 foo bar",
            "listener 1885 fe80::1%eth0",
        ] {
            let text = format!(
                "per_listener_settings true\nlistener 1884\n{line}\nallow_anonymous true\n\
                 protocol websockets\n"
            );
            let (plan, _) = taken(&text);
            let numbers: Vec<usize> = plan.troubles.iter().map(|one| one.number).collect();
            assert_eq!((numbers, plan.listeners), (vec![3], 1), "{line}");
            let config = plan.config;
            assert!(
                config.contains("url = \"mqtt://0.0.0.0:1884\"\n"),
                "{config}"
            );
            assert!(!config.contains("anonymous"), "{config}");
            // Where it was the only one, nobody is let in whom it did not let in.
            let (plan, _) = taken(&format!("{line}\n"));
            assert!(
                plan.config.contains("mqtt://127.0.0.1:1883"),
                "{}",
                plan.config
            );
            assert!(!plan.config.contains("anonymous"), "{}", plan.config);
        }
    }

    /// Nobody is to find MQTT, and perhaps no password, where there was something else.
    #[test]
    fn a_listener_of_another_protocol_is_listed_and_left_out() {
        for (protocol, remedy) in [("http_api", "--json"), ("mqttsn", "[[listener]]")] {
            let text = format!(
                "per_listener_settings true\nlistener 1884\nlistener 8080\nprotocol {protocol}\n\
                 bind_address 127.0.0.1\nallow_anonymous true\nlistener 1885\n"
            );
            let (plan, _) = taken(&text);
            let told: Vec<_> = plan
                .troubles
                .iter()
                .map(|one| (one.number, &one.remedy))
                .collect();
            assert_eq!((told.len(), told[0].0), (1, 4), "{told:?}");
            assert!(told[0].1.contains(remedy), "{told:?}");
            assert_eq!(plan.listeners, 2);
            assert!(!plan.config.contains("8080"), "{}", plan.config);
            assert!(!plan.config.contains("anonymous"), "{}", plan.config);
        }
    }

    #[test]
    fn a_line_that_is_no_utf8_costs_nothing_but_itself() {
        let text = b"listener 1884\nlog_type \xe9\nlistener 1885 \xe9\nprotocol websockets\n\
                     listener 1886\nbind_address a b\ncertfile\nmax_connections 4294967295\n\
                     listener 1887\n";
        let mut plan = Plan::default();
        take(&lines("m.conf", text), &mut plan);
        let numbers: Vec<usize> = plan.troubles.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [2, 3, 6, 7], "{:?}", plan.troubles);
        let urls = plan.config.lines().filter(|line| line.starts_with("url"));
        let urls: Vec<&str> = urls.collect();
        let expected = [
            "url = \"mqtt://0.0.0.0:1884\"",
            "url = \"mqtt://0.0.0.0:1887\"",
        ];
        assert_eq!(urls, expected);
    }

    #[test]
    fn what_is_not_carried_is_listed() {
        let (plan, _) = taken(
            "connection up\naddress example.com\nremote_password hush\nlistener 1883\n\
             mount_point x/\nplugin /usr/lib/other.so\nmax_inflight_messages many\n\
             use_identity_as_username true\n",
        );
        let numbers: Vec<usize> = plan.troubles.iter().map(|trouble| trouble.number).collect();
        assert_eq!(numbers, [1, 2, 3, 5, 6, 7, 8]);
        assert!(
            plan.troubles
                .iter()
                .all(|trouble| !trouble.text.contains("hush"))
        );
    }
}
