//! What no single key can tell: rules between keys, and what is filled in from other keys.

use std::collections::BTreeMap;
use std::path::Path;

use stentor_auth::credential::Stored;
use stentor_auth::credential::jwt::Algorithm;
use stentor_auth::model::{NameError, SERVER};
use stentor_hub::Keep;
use stentor_procedure::adaptor::Source;

use super::choices::{CertificateUser, ClientCertificates};
use super::environment::FileReader;
use super::givens::{Entry, Givens};
use super::keys::{Listener, Policy, User};
use super::reader::Reader;
use super::secret::Secret;
use super::{Adaptor, Asker, Config, ListenUrl, Origin, Problem, Question, http};

/// The listeners of a configuration that names none.
pub(super) const DEFAULT_LISTENERS: [&str; 4] = [
    "mqtt://127.0.0.1:1883",
    "mqtt://[::1]:1883",
    "ws://127.0.0.1:8083",
    "ws://[::1]:8083",
];

/// Fills in what follows from other keys, then checks the rules between keys. Called only when
/// every single value is in order.
pub(super) fn finish(config: &mut Config, givens: &mut Givens, read_file: FileReader<'_>) {
    if config.listeners.is_empty() {
        config.listeners = default_listeners();
    }
    anonymous(config, givens);
    issuers(config, givens);
    for index in 0..config.listeners.len() {
        certificate(config, index, givens);
        out_of_place(&config.listeners[index], index, givens);
        question(&config.listeners[index], index, givens);
        client_certificates(&config.listeners[index], index, givens);
    }
    let urls = config.listeners.iter().map(|listener| place(&listener.url));
    duplicates("listener", "url", urls.collect(), givens);
    let names = config
        .users
        .iter()
        .map(|user| Some(format!("{}/{}", user.zone, user.name)));
    duplicates("user", "name", names.collect(), givens);
    let zones = config.zones.iter().map(|zone| Some(zone.name.clone()));
    duplicates("zone", "name", zones.collect(), givens);
    let rooms = config
        .rooms
        .iter()
        .map(|room| Some(format!("{}/{}", room.zone, room.name)));
    duplicates("room", "name", rooms.collect(), givens);
    adaptors(config, givens);
    let filters = config
        .policies
        .iter()
        .map(|policy: &Policy| Some(policy.filter.clone()));
    duplicates("policy", "filter", filters.collect(), givens);
    histories(config, givens);
    queues(config, givens);
    for (index, user) in config.users.iter_mut().enumerate() {
        if user.name == SERVER {
            let origin = givens.origin("user", index, "name");
            givens.problem(origin, NameError::Server.to_string());
        }
        password(user, index, givens, read_file);
    }
    auth(config, givens, read_file);
    http::finish(config, givens);
    if u64::from(config.limits.packet_bytes) > config.limits.queue_bytes {
        let is_given = |entry: &Entry| entry.values.contains_key("queue_bytes");
        let key = if givens.entries("limits").iter().any(is_given) {
            "queue_bytes"
        } else {
            "packet_bytes"
        };
        let origin = givens.origin("limits", 0, key);
        let message = "limits.queue_bytes is less than limits.packet_bytes, so the largest \
                       messages could never be delivered; raise queue_bytes or lower packet_bytes";
        givens.problem(origin, message);
    }
}

/// Each adaptor has one source of its text, and a room only together with its zone. One that is
/// built in judges a room once.
fn adaptors(config: &Config, givens: &mut Givens) {
    for (index, adaptor) in config.adaptors.iter().enumerate() {
        if adaptor.room.is_some() && adaptor.zone.is_none() {
            let message = "an adaptor of a room needs `zone`, the zone of the room";
            givens.problem(givens.origin("adaptor", index, "room"), message);
        }
        if let Err(message) = adaptor.source() {
            givens.problem(givens.origin("adaptor", index, "builtin"), message);
        }
        let is_same = |first: &&Adaptor| meets(first, adaptor);
        if let Some(first) = config.adaptors[..index]
            .iter()
            .position(|one| is_same(&one))
        {
            let origin = givens.origin("adaptor", index, "builtin");
            let first = givens.origin("adaptor", first, "builtin");
            let message = format!(
                "the built-in adaptor {:?} runs in these rooms already ({first}); remove one of \
                 the entries, or give them different zones or rooms",
                adaptor.builtin.as_deref().unwrap_or_default()
            );
            givens.problem(origin, message);
        }
    }
}

/// Whether both are the same built-in adaptor, and some room has both.
fn meets(one: &Adaptor, other: &Adaptor) -> bool {
    let overlap = |one: &Option<String>, other: &Option<String>| match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    let is_valid = |one: &Adaptor| matches!(one.source(), Ok(Source::Builtin(_)));
    is_valid(one)
        && one.source() == other.source()
        && overlap(&one.zone, &other.zone)
        && overlap(&one.room, &other.room)
}

/// What bounds a history needs one.
fn histories(config: &Config, givens: &mut Givens) {
    const KEYS: [&str; 3] = ["history", "history_bytes", "history_age"];
    for (index, policy) in config.policies.iter().enumerate() {
        if policy.keep == Keep::All {
            continue;
        }
        let entry = givens.entries("policy").get(index);
        let is_given = |key: &&str| entry.is_some_and(|entry| entry.values.contains_key(*key));
        if let Some(key) = KEYS.into_iter().find(|key| is_given(key)) {
            let origin = givens.origin("policy", index, key);
            let message = format!(
                "the policy for {:?} sets `{key}`, and its topics have no history without \
                 keep = \"all\"; add that, or remove `{key}`",
                policy.filter
            );
            givens.problem(origin, message);
        }
    }
}

/// Queues are written down with the sessions, and each is one shared subscription.
fn queues(config: &Config, givens: &mut Givens) {
    let places = config
        .queues
        .iter()
        .map(|queue| Some(format!("{}/{}/{}", queue.zone, queue.name, queue.filter)));
    duplicates("queue", "name", places.collect(), givens);
    for (index, queue) in config.queues.iter().enumerate() {
        if queue.filter.starts_with('$') {
            let origin = givens.origin("queue", index, "filter");
            let message = format!(
                "queue.filter = {:?}: a queue keeps no topics that begin with $, which are the \
                 server's own; give another filter",
                queue.filter
            );
            givens.problem(origin, message);
        }
    }
    if !config.queues.is_empty() && !config.sessions.enabled {
        let origin = givens.origin("sessions", 0, "enabled");
        let message = "a queue is written down with the sessions; set sessions.enabled = true, or \
                       remove the entries of [[queue]]";
        givens.problem(origin, message);
    }
}

/// Whether the command line gives a key of the first entry of a section.
pub(super) fn is_flag(givens: &Givens, section: &str, key: &str) -> bool {
    matches!(givens.origin(section, 0, key), Origin::Flag(_))
}

/// The listeners that hold when none is configured.
fn default_listeners() -> Vec<Listener> {
    let mut givens = Givens::new();
    let mut listener = |url: &str| {
        let entries = givens.entries_mut("listener");
        entries.clear();
        let mut entry = Entry::new(Origin::Default);
        let raw = super::value::Raw::Words(url.to_owned());
        let given = super::value::Given {
            raw,
            origin: Origin::Default,
        };
        entry.values.insert("url", given);
        entries.push(entry);
        let read: fn(&mut Reader<'_>) -> Listener = Listener::read;
        givens.read_one(&Listener::SECTION, read)
    };
    DEFAULT_LISTENERS.into_iter().map(&mut listener).collect()
}

/// Decides for each listener whether clients may come without a name, and refuses to open one to
/// the network by a setting that does not name it.
fn anonymous(config: &mut Config, givens: &mut Givens) {
    let mut exposed = Vec::new();
    for (index, listener) in config.listeners.iter_mut().enumerate() {
        if listener.url.is_call() {
            // Each procedure says itself who may call it.
            continue;
        }
        let undecided = listener.anonymous.is_none();
        if undecided && config.general.allow_anonymous && !listener.url.is_local() {
            exposed.push((index, listener.url.to_string()));
        }
        listener
            .anonymous
            .get_or_insert(config.general.allow_anonymous);
    }
    let Some((first, _)) = exposed.first() else {
        return;
    };
    let urls: Vec<&str> = exposed.iter().map(|(_, url)| url.as_str()).collect();
    let message = format!(
        "allow_anonymous would let anybody on the network in through {}: set `anonymous = true` \
         on that listener (STENTOR_LISTENER__{first}__ANONYMOUS=true) if this is meant, or \
         `anonymous = false` to ask for a login there",
        urls.join(" and ")
    );
    givens.problem(givens.origin("listener", *first, "url"), message);
}

/// Gives an encrypted listener its certificate.
fn certificate(config: &mut Config, index: usize, givens: &mut Givens) {
    let tls = config.tls.clone();
    let listener = &mut config.listeners[index];
    let url = listener.url.clone();
    let own = (listener.certificate.is_some(), listener.key.is_some());
    let origin = givens.origin("listener", index, "url");
    match (url.is_tls(), own) {
        (true, (true, true)) | (false, (false, false)) => {}
        (true, (false, false)) => {
            listener.certificate = tls.certificate;
            listener.key = tls.key;
            let message = match (&listener.certificate, &listener.key) {
                (Some(_), Some(_)) => return,
                (None, None) => format!(
                    "{url} needs a certificate; give `certificate` and `key` on this listener or \
                     in [tls] (--tls-certificate FILE --tls-key FILE)"
                ),
                (Some(certificate), None) => format!(
                    "{url} has the certificate {}, but not its key; give `key` in [tls] as well \
                     (--tls-key FILE)",
                    certificate.display()
                ),
                (None, Some(key)) => format!(
                    "{url} has the key {}, but not its certificate; give `certificate` in [tls] \
                     as well (--tls-certificate FILE)",
                    key.display()
                ),
            };
            givens.problem(origin, message);
        }
        (true, (has_certificate, _)) => {
            let missing = if has_certificate {
                "key"
            } else {
                "certificate"
            };
            let message = format!(
                "{url} has only one half of a certificate; give `{missing}` as well, as a PEM file"
            );
            givens.problem(origin, message);
        }
        (false, _) => {
            let message = format!(
                "{url} is not encrypted, so it takes no certificate; remove `certificate` and \
                 `key`, or make it mqtts://, wss:// or calls://"
            );
            givens.problem(origin, message);
        }
    }
}

/// Refuses keys that mean nothing for the kind of listener they stand on.
fn out_of_place(listener: &Listener, index: usize, givens: &mut Givens) {
    let websocket = listener.url.is_websocket();
    let unix = listener.url.unix_path().is_some();
    let asker = listener.url.asker();
    let call_unix = unix && asker == Some(Asker::Client);
    let mqtt = !listener.url.is_call();
    let mode_given = givens
        .entries("listener")
        .get(index)
        .is_some_and(|entry| entry.values.contains_key("mode"));
    let tls = listener.url.is_tls();
    let asks = listener.client_certificates != ClientCertificates::Off;
    let names = listener.certificate_user != CertificateUser::None;
    let (has_ca, behind) = (listener.client_ca.is_some(), !listener.proxies.is_empty());
    let keys = [
        ("client_certificates", asks, tls && mqtt, "encrypted MQTT"),
        ("client_ca", has_ca, tls && mqtt, "encrypted MQTT"),
        ("certificate_user", names, tls && mqtt, "encrypted MQTT"),
        ("proxies", behind, !unix, "network"),
        ("path", listener.path.is_some(), websocket, "WebSocket"),
        (
            "allowed_origins",
            !listener.allowed_origins.is_empty(),
            websocket,
            "WebSocket",
        ),
        ("owner", listener.owner.is_some(), unix, "Unix socket"),
        ("group", listener.group.is_some(), unix, "Unix socket"),
        ("mode", mode_given, unix, "Unix socket"),
        (
            "allow_uid",
            listener.allow_uid.is_some(),
            call_unix,
            "call+unix",
        ),
        (
            "allow_gid",
            listener.allow_gid.is_some(),
            call_unix,
            "call+unix",
        ),
        ("zone", listener.zone.is_some() && !mqtt, mqtt, "MQTT"),
        (
            "procedure",
            listener.procedure.is_some(),
            listener.url.is_mail(),
            "milter and policy",
        ),
        (
            "anonymous",
            listener.anonymous.is_some() && !mqtt,
            mqtt,
            "MQTT",
        ),
    ];
    for (key, given, fits, place) in keys {
        if given && !fits {
            let message = format!(
                "`{key}` is for {place} listeners, not for {}; remove it",
                listener.url
            );
            givens.problem(givens.origin("listener", index, key), message);
        }
    }
}

/// Mail servers ask about messages and do not say which procedure.
fn question(listener: &Listener, index: usize, givens: &mut Givens) {
    let url = &listener.url;
    if !url.is_mail() {
        return;
    }
    let (key, message) = match &listener.procedure {
        None => {
            let message = format!(
                "{url} has to know what is asked; give `procedure`, as in procedure = \
                 \"/sizecheck -max 10000000\" (STENTOR_LISTENER__{index}__PROCEDURE)"
            );
            ("url", message)
        }
        Some(text) => match Question::parse(text) {
            Ok(_) => return,
            Err(reason) => (
                "procedure",
                format!("{url}: procedure = \"{text}\": {reason}"),
            ),
        },
    };
    givens.problem(givens.origin("listener", index, key), message);
}

/// Client certificates are asked for and can be checked, or they are not mentioned.
fn client_certificates(listener: &Listener, index: usize, givens: &mut Givens) {
    let (certificates, user) = (listener.client_certificates, listener.certificate_user);
    let problem = contradiction(certificates, listener.client_ca.is_some(), user);
    if let Some((key, reason)) = problem {
        let message = format!("{}: `{key}` {reason}", listener.url);
        givens.problem(givens.origin("listener", index, key), message);
    }
}

/// The key about clients' certificates that does not fit the others, and why.
pub(super) fn contradiction(
    certificates: ClientCertificates,
    has_ca: bool,
    user: CertificateUser,
) -> Option<(&'static str, &'static str)> {
    const NO_USE: &str = "is of no use; set `client_certificates` to \"optional\" or \"required\"";
    match (certificates != ClientCertificates::Off, has_ca) {
        (true, false) => Some((
            "client_certificates",
            "needs the certificates that clients' ones must be signed by; give `client_ca`",
        )),
        (false, true) => Some(("client_ca", NO_USE)),
        (false, false) if user != CertificateUser::None => Some(("certificate_user", NO_USE)),
        _ => None,
    }
}

/// An issuer of tokens has one source of keys, and algorithms that exist.
fn issuers(config: &Config, givens: &mut Givens) {
    for (index, jwt) in config.jwts.iter().enumerate() {
        let problem = match (&jwt.key_file, &jwt.jwks_file) {
            (None, None) => Some(("key_file", "give `key_file` or `jwks_file`".to_owned())),
            (Some(_), Some(_)) => {
                let reason = "give either `key_file` or `jwks_file`, not both";
                Some(("jwks_file", reason.to_owned()))
            }
            _ => jwt
                .algorithms
                .iter()
                .find(|name| name.parse::<Algorithm>().is_err())
                .map(|name| {
                    let known = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA, \
                                 HS256, HS384 and HS512";
                    (
                        "algorithms",
                        format!("there is no algorithm {name:?}; there are {known}"),
                    )
                }),
        };
        if let Some((key, reason)) = problem {
            givens.problem(
                givens.origin("jwt", index, key),
                format!("[[jwt]]: {reason}"),
            );
        }
    }
}

/// What two listeners cannot share; nothing for a port that the system picks.
fn place(url: &ListenUrl) -> Option<String> {
    match url {
        ListenUrl::Net { port: 0, .. } => None,
        ListenUrl::Net { host, port, .. } => Some(format!("{host} port {port}")),
        ListenUrl::Unix(path) | ListenUrl::AskUnix(_, path) => Some(path.display().to_string()),
    }
}

fn duplicates(section: &str, key: &str, names: Vec<Option<String>>, givens: &mut Givens) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, name) in names.into_iter().enumerate() {
        let Some(name) = name else { continue };
        if let Some(first) = seen.get(&name) {
            let first = givens.origin(section, *first, key);
            let message =
                format!("{section} {name} is there already ({first}); remove one of them");
            givens.problem(givens.origin(section, index, key), message);
        } else {
            seen.insert(name, index);
        }
    }
}

/// Fetches the passwords of databases, and checks that a source comes with what it needs.
fn auth(config: &mut Config, givens: &mut Givens, read_file: FileReader<'_>) {
    let auth = &mut config.auth;
    let mut problem = |key: &'static str, message: String| {
        let origin = givens.origin("auth", 0, key);
        givens.problem(origin, message);
    };
    let pairs = [
        ("password_file", &mut auth.password, &auth.password_file),
        (
            "source_password_file",
            &mut auth.source_password,
            &auth.source_password_file,
        ),
    ];
    for (key, password, file) in pairs {
        let Some(file) = file else { continue };
        if password.is_some() {
            let other = key.trim_end_matches("_file");
            problem(
                key,
                format!("auth has `{other}` and `{key}`; remove one of them"),
            );
            continue;
        }
        match read_file(file) {
            Ok(text) => *password = Some(Secret::new(text.lines().next().unwrap_or_default())),
            Err(error) => {
                problem(
                    key,
                    format!("auth.{key}: cannot read {}: {error}", file.display()),
                );
            }
        }
    }
    let scheme = |place: &Option<String>| {
        let place = place.as_deref().unwrap_or_default();
        place.split(':').next().unwrap_or_default().to_owned()
    };
    if scheme(&auth.database) == "mosquitto" {
        let message = "auth.database cannot be mosquitto's password file, which has no roles; give \
                       it as auth.source";
        problem("database", message.to_owned());
    }
    let message = match (scheme(&auth.source).as_str(), &auth.query) {
        ("file", _) => {
            "auth.source is a database or mosquitto's password file; give a file of \
                        Stentor's own as auth.database"
        }
        ("", Some(_)) => "auth.query needs auth.source, the database that it is asked of",
        ("mosquitto", Some(_)) => "auth.query is for databases; mosquitto's password file has none",
        ("sqlite" | "postgres" | "postgresql" | "mysql" | "mariadb", None) => {
            "auth.source needs auth.query, like: SELECT name, password FROM account WHERE name IN \
             (?)"
        }
        _ => return,
    };
    problem("source", message.to_owned());
}

/// Fetches a user's password hash from its file.
fn password(user: &mut User, index: usize, givens: &mut Givens, read_file: FileReader<'_>) {
    let name = &user.name;
    let message = match (&user.password_hash, &user.password_file) {
        (Some(_), None) => return,
        (Some(_), Some(_)) => {
            format!("user {name} has `password_hash` and `password_file`; remove one of them")
        }
        (None, None) => format!("user {name} has no password; give `password_hash`"),
        (None, Some(file)) => match read_hash(file, read_file) {
            Ok(hash) => {
                user.password_hash = Some(hash);
                return;
            }
            Err(reason) => format!("the password of user {name}: {reason}"),
        },
    };
    givens.problem(givens.origin("user", index, "password_file"), message);
}

fn read_hash(file: &Path, read_file: FileReader<'_>) -> Result<Secret, String> {
    let shown = file.display();
    let text = read_file(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let line = text.lines().next().unwrap_or_default().trim();
    match Stored::parse(line) {
        Ok(_) => Ok(Secret::new(line)),
        Err(error) => Err(format!("the first line of {shown}: {error}")),
    }
}

/// Sorts problems by their line in the file; those from elsewhere come after.
pub(super) fn sort(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| match problem.origin {
        Origin::File(_, line) => line,
        _ => usize::MAX,
    });
}
