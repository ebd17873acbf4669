//! The table: every configuration key, once.
//!
//! A docstring here is the key's sentence in the sample file and on the reference page as well,
//! so it is written for operators. After a change, `cargo xtask gen` writes both again.

use std::path::PathBuf;
use std::time::Duration;

use stentor_hub::{ClientIdBinding, Keep, SlowPolicy, WideSubscription};

use super::choices::{
    CLIENT_ID_BINDINGS, CertificateUser, ClientCertificates, Format, KEEPS, Level,
    PasswordFunction, QueueFull, SLOW_POLICIES, SessionSync, SyncLevel, WIDE_SUBSCRIPTIONS,
};
use super::diff::Change;
use super::kind::Kind;
use super::memory_limit::MemoryLimit;
use super::reader::Reader;
use super::secret::Secret;
use super::table::Fallback::{Required, Unset, Value as Default};
use super::table::{Key, Reload, Section, section};
use super::url::ListenUrl;
use super::zone_keys::{Adaptor, Room, Zone};

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

pub(super) const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

pub(super) const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max }
}

pub(super) const fn seconds(min: u64, max: u64) -> Kind {
    Kind::Duration {
        min: Duration::from_secs(min),
        max: Duration::from_secs(max),
        never: false,
    }
}

section! {
    /// The server as a whole.
    General = "", repeated: false;

    /// The folder that holds the control socket and everything that the server keeps.
    data_dir: PathBuf = Kind::Path, Default("data"), Restart, flag: "data-dir";
    /// The number of threads that carry connections; 0 takes one per processor.
    shards: u8 = count(0, 64), Default("0"), Restart, flag: "shards";
    /// Lets clients in without a user name on listeners that only this machine can reach.
    allow_anonymous: bool = Kind::Flag, Default("false"), NewConnections, flag: "allow-anonymous";
    /// How long the server holds output back to send it in larger pieces. This costs latency and
    /// saves processor time.
    coalesce: Duration = Kind::Duration {
        min: Duration::ZERO, max: Duration::from_millis(100), never: false,
    }, Default("0us"), Live;
    /// How long a stopping server waits for calls of procedures in flight on its call and mail
    /// listeners, and then for clients to receive their queued messages.
    shutdown_timeout: Duration = seconds(0, 300), Default("5s"), Live;
    /// Applies a changed configuration file by itself, a moment after it was saved. If this is off,
    /// a change waits for `stentor reload` or SIGHUP, so that a half-written file is never applied.
    apply_on_save: bool = Kind::Flag, Default("false"), Live;
    /// The base of its response topics, for an MQTT 5 client that asks for it.
    response_information: Option<String> = Kind::Text, Unset("response"), NewConnections;
    /// The server that MQTT 5 clients should use instead when this one refuses or stops.
    server_reference: Option<String> = Kind::Text, Unset("other.example:1883"), NewConnections;
}

section! {
    /// What is written to standard error.
    Log = "log", repeated: false;

    /// The least important lines that are written.
    level: Level = Kind::Choice(Level::NAMES), Default("info"), Live, flag: "log-level";
    /// The shape of the lines: `auto` and `human` are for people, `json` is for programs.
    format: Format = Kind::Choice(Format::NAMES), Default("auto"), Restart, flag: "log-format";
    /// The log and `stentor status` report a turn of a shard that takes this time or longer. During
    /// a turn, the shard serves no other client. `0s` turns it off.
    slow_turn: Duration = Kind::Duration {
        min: Duration::ZERO, max: Duration::from_secs(60), never: false,
    }, Default("5ms"), Live;
}

section! {
    /// The certificate of all encrypted listeners that have no certificate of their own. The files
    /// are read again on every reload.
    Tls = "tls", repeated: false;

    /// The certificate chain, in PEM format.
    certificate: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/server.crt"), NewConnections,
        flag: "tls-certificate";
    /// The private key of the certificate, in PEM format.
    key: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/server.key"), NewConnections,
        flag: "tls-key";
}

section! {
    /// Limits per client and for the whole server. A request over a limit is refused with a reason
    /// code; other clients are unaffected.
    Limits = "limits", repeated: false;

    /// The memory that the server may hold for clients: a size, or a part of the machine's memory
    /// (or of what its control group may use). Above four fifths of it, sessions without a
    /// connection end, beginning with those of the users or addresses that hold most. Above all of
    /// it, only clients that have a session may connect. docs/limits.md says what is counted, and
    /// in which order sessions end. `0` turns the limit off.
    memory: MemoryLimit = Kind::Memory, Default("50%"), Live;
    /// Simultaneous connections; with 0, as many as there are file descriptors.
    connections: u64 = count(0, 10_000_000), Default("0"), Live;
    /// Simultaneous connections from one network address, that is from one IPv4 address or one IPv6
    /// /64; 0 turns the limit off.
    connections_per_address: u32 = count(0, 1_000_000), Default("0"), Live;
    /// New connections per second; 0 turns the limit off.
    connection_rate: u32 = count(0, 1_000_000), Default("0"), Live;
    /// New connections per second from one network address, that is from one IPv4 address or one
    /// IPv6 /64; 0 turns the limit off. Connections that it refuses do not count for
    /// `connection_rate`, so no address can use that up for all. It is off by default because whole
    /// fleets may share one address: behind a NAT, or behind a balancer that sends no PROXY header.
    connection_rate_per_address: u32 = count(0, 1_000_000), Default("0"), Live;
    /// How often a client id may connect within `flapping_window`. One that connects more often is
    /// banned for `flapping_ban`, as by `stentor ban add`. Two devices with the same client id do
    /// that, for example, since each of them disconnects the other one. Clients of this machine's
    /// Unix sockets are not counted. 0 turns it off.
    flapping_connects: u32 = count(0, 1_000_000), Default("0"), Live;
    /// The time in which the connections of a client id are counted together.
    flapping_window: Duration = seconds(1, 3_600), Default("1m"), Live;
    /// The time for which a client id that connects too often is banned.
    flapping_ban: Duration = seconds(1, 31_536_000), Default("5m"), Live;
    /// The time that a client has from connecting until its whole CONNECT has arrived. It also
    /// applies to each AUTH that the server asks for, also when the client authenticates again.
    /// Time in which the client waits for the server does not count.
    login_timeout: Duration = seconds(1, 300), Default("10s"), NewConnections;
    /// The longest keep alive. An MQTT 5 client that asks for a longer one, or for none, gets this
    /// one. An older client cannot be informed and is refused (return code 2), as by mosquitto's
    /// `max_keepalive`. `0s` leaves the choice to clients.
    keep_alive_max: Duration = seconds(0, 65_535), Default("0s"), NewConnections;
    /// The longest time that a session outlives its connection.
    session_expiry_max: Duration = Kind::Duration {
        min: Duration::ZERO, max: Duration::from_secs(0xFFFF_FFFE), never: true,
    }, Default("7d"), NewConnections;
    /// The largest packet that the server accepts from a client. A CONNECT has at most 1 MiB in any
    /// case, so that clients that have not logged in get little memory.
    packet_bytes: u32 = bytes(KIB, 256 * MIB), Default("2MiB"), NewConnections;
    /// Sessions that outlive their connection. When the limit is reached, a new session can replace
    /// one of the owner that holds most, if the new session's owner holds less. Of that owner's
    /// sessions without a connection, the one that is closest to its end is removed. Otherwise the
    /// new client is refused.
    sessions: u64 = count(1, 1_000_000_000), Default("1000000"), Live;
    /// The same for one user with a name; 0 turns the limit off.
    sessions_per_user: u32 = count(0, 1_000_000_000), Default("0"), Live;
    /// The same for one network address (for IPv6, one /64), by clients without a name and by
    /// guests; 0 turns the limit off. Clients behind a load balancer share its address, unless it
    /// sends theirs: see `proxies`.
    sessions_per_address: u32 = count(0, 1_000_000_000), Default("100000"), Live;
    /// The same for all users of one zone; 0 turns the limit off.
    sessions_per_zone: u32 = count(0, 1_000_000_000), Default("0"), Live;
    /// The topic filters that one session may subscribe to.
    subscriptions_per_client: u32 = count(1, 10_000_000), Default("10000"), Live;
    /// Bytes of memory that the subscriptions of one session may take, by an upper bound. A filter
    /// without wildcards takes some 128 bytes and its own length. A filter with wildcards takes
    /// about 64 more for each level. A shared one takes some 400 bytes and twice the filter on
    /// every shard.
    subscription_bytes_per_client: u64 = bytes(64 * KIB, GIB), Default("8MiB"), Live;
    /// The shared subscriptions (`$share/...`) that one session may have; more are refused with
    /// 0x97.
    shared_subscriptions_per_client: u32 = count(0, 10_000_000), Default("256"), Live;
    /// The groups that may share one topic filter of a zone, because each of them receives every
    /// message; more are refused with 0x97.
    share_groups_per_filter: u32 = count(1, 10_000_000), Default("256"), Live;
    /// Messages with QoS 1 or 2 on their way to one client that it has not acknowledged yet. More
    /// than 4,096 would let a client that acknowledges in disorder take time from others.
    inflight: u16 = count(1, 4_096), Default("1024"), NewConnections;
    /// Messages with QoS 1 or 2 that one client may have on their way to the server.
    receive_maximum: u16 = count(1, 65_535), Default("1024"), NewConnections;
    /// Messages that wait for one client, connected or away, at any QoS. Messages in flight do not
    /// wait.
    queue_messages: u32 = count(1, 100_000_000), Default("100000"), Live;
    /// Bytes that wait for one client or are in flight to it, connected or away. Each message
    /// counts with 100 to 400 bytes of overhead, and for each client that it waits for, though
    /// clients share it. While this number of bytes is in flight, the server sends no more with QoS
    /// 1 or 2 until the client acknowledges some. One message may always be in flight, however
    /// large. The topic's policy decides about a message that does not fit. For a client that is
    /// away, `disconnect` and `conflate` are `drop-newest`.
    queue_bytes: u64 = bytes(4 * KIB, 16 * GIB), Default("8MiB"), Live;
    /// Topic aliases that one MQTT 5 client may set; 0 turns them off.
    topic_alias_maximum: u16 = count(0, 65_535), Default("32"), NewConnections;
    /// The longest topic name, topic filter, or name of a group of shared subscriptions. No known
    /// device needs more than the default; raise it if yours does.
    topic_bytes: u16 = bytes(16, 65_535), Default("4KiB"), Live;
    /// The levels that a topic name or topic filter may have. No known device needs more than the
    /// default; raise it if yours does.
    topic_levels: u16 = count(1, 65_535), Default("32"), Live;
    /// The levels of a topic filter that may be wildcards (`+` and `#`). They make it expensive to
    /// find the receivers of a message. A filter with more is refused with 0x97.
    topic_wildcards: u16 = count(0, 65_535), Default("8"), Live;
}

section! {
    /// The last messages, which late subscribers receive.
    Retained = "retained", repeated: false;

    /// The folder of the retained messages; not given, `retained` in the data folder.
    dir: Option<PathBuf> = Kind::Path, Unset("/var/lib/stentor/retained"), Restart;
    /// What a power loss may cost. With `never`, it costs messages that the operating system has
    /// not written by itself. With `interval`, it costs messages that were acknowledged in the last
    /// `sync_interval`. With `always`, it costs nothing, because acknowledgements wait for the
    /// disk. A crash or a kill of the server costs nothing in any case.
    sync: SyncLevel = Kind::Choice(SyncLevel::NAMES), Default("interval"), Restart;
    /// How often `sync = "interval"` writes to the disk.
    sync_interval: Duration = Kind::Duration {
        min: Duration::from_millis(10), max: Duration::from_secs(3600), never: false,
    }, Default("1s"), Restart;
    /// Topics that may hold a retained message, and messages of histories, together.
    messages: u64 = count(0, 1_000_000_000), Default("1000000"), Live;
    /// Bytes of all these messages: topics, properties and payloads.
    bytes: u64 = bytes(0, 16 * TIB), Default("1GiB"), Live;
    /// The same as `messages` in each zone; 0 turns the limit off.
    zone_messages: u64 = count(0, 1_000_000_000), Default("0"), Live;
    /// The same as `bytes` in each zone; 0 turns the limit off.
    zone_bytes: u64 = bytes(0, 16 * TIB), Default("0"), Live;
}

section! {
    /// What is written down of sessions that outlive their connections, for the next start: who
    /// they belong to, what they have subscribed to, and their wills.
    Sessions = "sessions", repeated: false;

    /// Whether anything is written. If not, a restart forgets all sessions. What was written
    /// before stays in the folder, and goes on when this is on again.
    enabled: bool = Kind::Flag, Default("true"), Restart;
    /// The folder of the sessions; not given, `sessions` in the data folder.
    dir: Option<PathBuf> = Kind::Path, Unset("/var/lib/stentor/sessions"), Restart;
    /// What a power loss may cost. With `never`, it costs what the operating system has not
    /// written by itself. With `interval`, it costs what was acknowledged in the last
    /// `sync_interval`, and while the disk was busy with that. With `always`, it costs nothing,
    /// because acknowledgements wait for the disk. A crash or a kill of the server costs nothing
    /// of it in any case. If the disk is full, failing, or too slow for many seconds, the server
    /// refuses what it cannot keep, and is not ready.
    sync: SessionSync = Kind::Choice(SessionSync::NAMES), Default("interval"), Restart;
    /// How often `sync = "interval"` writes to the disk.
    sync_interval: Duration = Kind::Duration {
        min: Duration::from_millis(10), max: Duration::from_secs(3600), never: false,
    }, Default("1s"), Restart;
    /// Memory for messages that wait for sessions whose clients are away. Each session has a share
    /// of it: 64 KiB at least, 1 MiB at most. When a session holds more, its oldest messages
    /// above QoS 0 go to the disk, unless the policy of their topic drops messages.
    memory: u64 = bytes(0, 16 * TIB), Default("256MiB"), Live;
    /// Bytes on the disk of what waits for one session. Above that, messages wait in memory, within
    /// `limits.queue_bytes`. `0`: nothing goes to the disk.
    client_bytes: u64 = bytes(0, 16 * TIB), Default("256MiB"), Live;
    /// The same of all sessions of one zone.
    zone_bytes: u64 = bytes(4 * MIB, 16 * TIB), Default("16TiB"), Live;
    /// The same of all sessions, in files of 4 MiB. One user may have eight times as much as is
    /// free beyond an eighth of all, and so may all clients of one address without a proved name.
    /// When they have that, what they publish to absent sessions of theirs is refused. While there
    /// is no room at all, so is what an absent session has no memory for.
    bytes: u64 = bytes(4 * MIB, 16 * TIB), Default("10GiB"), Restart;
    /// Whether the wills of sessions that end with their connection are written down too: then a
    /// crash of the server only defers them. Each connection with a will costs some writing.
    keep_wills: bool = Kind::Flag, Default("true"), Restart;
    /// How long after a start clients may come back before their wills are published. A will
    /// with a longer delay waits for that.
    will_grace: Duration = Kind::Duration {
        min: Duration::from_secs(0), max: Duration::from_secs(3600), never: false,
    }, Default("30s"), Restart;
}

section! {
    /// Procedures that are asked about messages: by `stentor-call` on listeners `call+unix:PATH`,
    /// `call://HOST:PORT` and `calls://HOST:PORT` (TLS), by mail servers on `milter+unix:PATH`,
    /// `milter://HOST:PORT`, `policy+unix:PATH` and `policy://HOST:PORT`.
    Procedures = "procedures", repeated: false;

    /// The folder with one file for each procedure. The server takes over a changed file by itself.
    /// Not given, there are only the built-in procedures.
    folder: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/procedures"), Restart,
        flag: "procedures";
    /// A file with a line `NAME token:HASH` for each user who may call over TCP, where HASH is the
    /// SHA-256 of the token. Tokens of `stentor token create` need no line here.
    tokens: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/call.tokens"), Restart;
    /// Simultaneous connections of callers, or mail servers, to each listener for them. When the
    /// limit is reached, connections without a call are closed first. Unknown callers from one
    /// address, or of one user of this machine, get at most half of it.
    connections: u32 = count(1, 100_000), Default("4096"), Restart;
    /// The bytes of all messages that the server holds for procedures at once, from their arrival
    /// by TCP or from a mail server until the answer. Unknown callers get half of it. A call above
    /// it gets the answer "overloaded". Files passed over a Unix socket are not counted. Messages
    /// of more than 1 MiB are files without a name in the data folder; so are smaller ones while
    /// those in memory take an eighth of `limits.memory`.
    bodies: u64 = bytes(MIB, 16 * TIB), Default("1GiB"), Restart;
    /// The mail server, `HOST:PORT`, that scripts with the grant `mail` hand their messages to.
    relay: Option<String> = Kind::Text, Unset("127.0.0.1:25"), Restart;
    /// The name server that scripts with the grant `dns` ask; not given, this machine's first one.
    resolver: Option<String> = Kind::Text, Unset("127.0.0.1:53"), Restart;
    /// The authorities, in PEM format, whose certificates scripts, endpoints and adaptors trust at
    /// `https://`; not given, those that this machine trusts (`SSL_CERT_FILE` names their file).
    ca_file: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/authority.pem"), Restart;
}

section! {
    /// What the server publishes about itself, below `$SYS/broker/`, under mosquitto's names.
    /// `heap/current` is the resident anonymous memory of the process in bytes, and `heap/maximum`
    /// the highest published value.
    Sys = "sys", repeated: false;

    /// The time from one publication to the next; `0s` turns them off.
    interval: Duration = seconds(0, 86_400), Default("10s"), Live;
}

section! {
    /// The history of the server's figures: connections, messages, memory and more, for two years.
    /// `stentor figures` shows it, and docs/figures.md says what there is. The server
    /// keeps it in `figures.redb` in the data folder. That file never has more than 32 MiB, and may
    /// be deleted at any time.
    Figures = "figures", repeated: false;

    /// How often the server writes the history to the file; a killed server loses what came after
    /// the last time. With `0s`, it writes no file, and the history ends with the server.
    commit: Duration = seconds(0, 3_600), Default("1m"), Restart;
}

section! {
    /// HTTP for operators: `/metrics` for Prometheus, `/healthz` and `/readyz` for probes, and
    /// `/api/v1` for programs with a token. docs/monitoring.md and docs/http.md say how to use
    /// them.
    Http = "http", repeated: false;

    /// The addresses, `http://HOST:PORT`, `https://HOST:PORT` or `http+unix:PATH`. An empty list
    /// opens none, and so does the word `off` in a variable or a flag. Users of the server's group
    /// may connect to a Unix socket. Not given, the addresses are
    /// `http://127.0.0.1:18083` and `http://[::1]:18083`. If another program has that port, the
    /// server logs a warning and runs without it. A server whose listeners are named by `--listen`
    /// opens no HTTP address by itself, so that servers for tests do not disturb each other. An
    /// address that is named here has to be free.
    listen: Option<Vec<String>> = Kind::Texts, Unset("https://0.0.0.0:18083"), Restart,
        flag: "http";
    /// Allows addresses `http://` that other machines can reach. Without it, those have to be
    /// `https://`.
    insecure: bool = Kind::Flag, Default("false"), Restart;
    /// Lets everybody read `/metrics` at addresses that other machines can reach. Without it, a
    /// program there has to show the token of a user who may subscribe to `$control/metrics`.
    open_metrics: bool = Kind::Flag, Default("false"), Restart;
    /// Hosts that a request to an address of this machine may name besides `localhost`,
    /// 127.0.0.0/8 and `[::1]`: the name of a reverse proxy, for example. Others are refused, so
    /// that no web page can reach the server by a name that resolves to this machine.
    names: Vec<String> = Kind::Texts, Default(""), Restart;
    /// The certificate chain for `https://`, in PEM format; not given, that of `[tls]`. The file is
    /// read again on every reload.
    certificate: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/server.crt"), Restart;
    /// The private key of the certificate, in PEM format; not given, that of `[tls]`.
    key: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/server.key"), Restart;
    /// Whether the addresses `https://` ask for a certificate. With `required`, probes and
    /// Prometheus have to show one too.
    client_certificates: ClientCertificates = Kind::Choice(ClientCertificates::NAMES),
        Default("off"), Restart;
    /// The authorities that must have signed these certificates, in PEM format. A client may send
    /// three more certificates that lie between. The file is read again on every reload.
    client_ca: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/clients-ca.crt"), Restart;
    /// Which name in such a certificate is the name of the user who asks, as on a listener. A
    /// request that shows a token or a session is that of their user.
    certificate_user: CertificateUser = Kind::Choice(CertificateUser::NAMES), Default("none"),
        Restart;
}

section! {
    /// Where clients connect. Without any, the server listens on `mqtt://127.0.0.1:1883`,
    /// `mqtt://[::1]:1883`, `ws://127.0.0.1:8083` and `ws://[::1]:8083`.
    Listener = "listener", repeated: true;

    /// The address and the protocol; port 0 picks a free port. A host name opens every address that
    /// it stands for, all on one port; `localhost` is 127.0.0.1 and ::1.
    url: ListenUrl = Kind::Url, Required("mqtts://0.0.0.0:8883"), Live, flag: "listen";
    /// Lets clients in without a user name (`true`) or refuses them (`false`); not given,
    /// `allow_anonymous` decides.
    anonymous: Option<bool> = Kind::Flag, Unset("false"), NewConnections;
    /// The zone of all clients of this listener. A login name without a zone belongs to it, and a
    /// login name of another zone is refused.
    zone: Option<String> = Kind::Name, Unset("game"), NewConnections;
    /// The certificate chain of an encrypted listener, in PEM format.
    certificate: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/server.crt"), NewConnections;
    /// The private key of the certificate, in PEM format.
    key: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/server.key"), NewConnections;
    /// Whether an encrypted listener asks clients for a certificate.
    client_certificates: ClientCertificates = Kind::Choice(ClientCertificates::NAMES),
        Default("off"), NewConnections;
    /// The authorities that must have signed clients' certificates, in PEM format. A client may
    /// send three more certificates that lie between. The file is read again on every reload.
    client_ca: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/clients-ca.crt"), NewConnections;
    /// Which name in a client's certificate is its user name, so that the client logs in without a
    /// password. A certificate without such a name logs no client in, not even as a client without
    /// a name.
    certificate_user: CertificateUser = Kind::Choice(CertificateUser::NAMES), Default("none"),
        NewConnections;
    /// The load balancers in front of this listener. Connections from these addresses must begin
    /// with a PROXY protocol header (version 1 or 2) that names the client.
    proxies: Vec<String> = Kind::Networks, Default(""), NewConnections;
    /// The only path at which a WebSocket listener answers; not given, any path.
    path: Option<String> = Kind::HttpPath, Unset("/mqtt"), NewConnections;
    /// The origins of web pages, besides the server's own, that may connect to a WebSocket
    /// listener. A listener on a loopback address accepts only pages of this machine, and only a
    /// Host of this machine (localhost, 127.0.0.0/8, `[::1]`). So no page can connect by a name
    /// that resolves to this machine. Behind a proxy on the same machine, list the site's origin
    /// here. Clients that send no Origin are not pages, and their Host is not checked.
    allowed_origins: Vec<String> = Kind::Origins, Default(""), NewConnections;
    /// The user who owns a Unix socket, by name or number.
    owner: Option<String> = Kind::Text, Unset("stentor"), Live;
    /// The group of a Unix socket, by name or number.
    group: Option<String> = Kind::Text, Unset("mail"), Live;
    /// The permissions of a Unix socket.
    mode: u32 = Kind::Mode, Default("0660"), Live;
    /// Simultaneous connections on this listener; 0 turns the limit off.
    max_connections: u64 = count(0, 10_000_000), Default("0"), Live;
    /// The users of this machine who may call procedures on a `call+unix` listener, by name or
    /// number, separated by commas. `UID=NAME` or `UID=ZONE/NAME` lets one call as that user, whose
    /// roles say what it may call. Not given: root and the server's own user, who may call
    /// everything. Others may call the procedures that are open to everybody.
    allow_uid: Option<String> = Kind::Text, Unset("mail, 1000=filter"), Restart;
    /// The groups whose members may call procedures on a `call+unix` listener, as in `allow_uid`.
    /// The groups of the calling program count, including the supplementary ones.
    allow_gid: Option<String> = Kind::Text, Unset("mail"), Restart;
    /// The procedure that mail servers ask on a `milter` or `policy` listener, with its arguments
    /// as for `stentor-call`.
    procedure: Option<String> = Kind::Text, Unset("/sizecheck -max 10000000"), Restart;
    /// The server that MQTT 5 clients of this listener should use instead.
    server_reference: Option<String> = Kind::Text, Unset("other.example:1883"), NewConnections;
}

section! {
    /// What happens to messages for a client that does not keep up. The first entry whose filter
    /// matches a topic decides. Topics that no entry matches follow the defaults below.
    Policy = "policy", repeated: true;

    /// The topics.
    filter: String = Kind::Filter, Required("sensors/#"), Live;
    /// What happens to a message with QoS 0.
    qos0: SlowPolicy = Kind::Choice(SLOW_POLICIES), Default("drop-newest"), Live;
    /// What happens to a message with QoS 1 or 2.
    qos1: SlowPolicy = Kind::Choice(SLOW_POLICIES), Default("disconnect"), Live;
    /// The highest number of messages of one topic that each client receives in a second. It
    /// receives the newest ones, and always the last one; 0 turns the limit off.
    max_rate: u32 = count(0, 1_000_000), Default("0"), Live;
    /// How long messages may wait in the output of a connection, so that several leave in one
    /// packet. This costs latency and saves processor time. What else goes to the client in the
    /// meantime takes them along.
    delay: Duration = Kind::Duration {
        min: Duration::ZERO, max: Duration::from_secs(1), never: false,
    }, Default("0us"), Live;
    /// Which messages the server keeps for late subscribers.
    keep: Keep = Kind::Choice(KEEPS), Default("retained"), Live;
    /// With `keep = "all"`, the messages of each topic that its history keeps. Beyond this bound
    /// and the two below, the oldest messages go.
    history: u32 = count(1, 1_000_000), Default("100"), Live;
    /// Bytes of the messages in the history of each topic: topic, properties and payload of each.
    /// The newest message stays whatever its size is. They count for `retained.bytes`, too.
    history_bytes: u64 = bytes(KIB, 16 * GIB), Default("1MiB"), Live;
    /// How long a message stays in the history of its topic; `0s` turns the limit off. It holds for
    /// messages that come while it is set.
    history_age: Duration = seconds(0, 315_360_000), Default("0s"), Live;
    /// Adds user properties to each kept message for MQTT 5 subscribers: `seq` and `epoch` number
    /// it, and `conflated` is the number of older messages that it replaces. With `keep = "all"`,
    /// they are there in any case.
    sequence: bool = Kind::Flag, Default("false"), Live;
}

section! {
    /// Shared subscriptions that keep messages with QoS 1 or 2 while no member takes them. Clients
    /// join by `$queue/NAME/FILTER`, which is the same as `$share/NAME/FILTER`. What a queue keeps
    /// survives a restart and a kill, like sessions.
    Queue = "queue", repeated: true;

    /// The name, which is the group of the shared subscription.
    name: String = Kind::Name, Required("jobs"), Restart;
    /// The topics.
    filter: String = Kind::Filter, Required("jobs/#"), Restart;
    /// The zone of its members.
    zone: String = Kind::Name, Default("default"), Restart;
    /// Messages that may wait in it.
    messages: u32 = count(1, 100_000_000), Default("100000"), Restart;
    /// Bytes that may wait in it. Each message counts with 100 to 400 bytes of overhead. They are
    /// in memory too, so choose less than `limits.memory`.
    bytes: u64 = bytes(4 * KIB, 16 * GIB), Default("64MiB"), Restart;
    /// What happens to a message for which there is no room. It is counted as dropped, and
    /// `stentor sessions` and `stentor why` show that.
    full: QueueFull = Kind::Choice(QueueFull::NAMES), Default("drop-newest"), Restart;
}

section! {
    /// Where users, roles and zones are kept, and how rights are applied; `stentor user --help`
    /// says how to change them.
    Auth = "auth", repeated: false;

    /// The database of the server's own records. The server makes its tables itself. Not given, an
    /// SQLite file `auth.db` in the data folder. Relative paths start at the data folder.
    database: Option<String> = Kind::Place {
        password: "auth.password",
    }, Unset("postgres://stentor@db.example/stentor"), Restart;
    /// The password for the database.
    password: Option<Secret> = Kind::Password, Unset("PASSWORD"), Restart;
    /// A file whose first line is the password for the database, instead of `password`.
    password_file: Option<PathBuf> = Kind::Path, Unset("/run/credentials/database"), Restart;
    /// Users that others keep, and that the server only reads, beside its own: mosquitto's password
    /// file (`mosquitto:PATH`), or tables that it asks with `query`.
    source: Option<String> = Kind::Place {
        password: "auth.source_password",
    }, Unset("mysql://reader@db.example/shop"), Restart;
    /// The password for the database in `source`.
    source_password: Option<Secret> = Kind::Password, Unset("PASSWORD"), Restart;
    /// A file whose first line is the password for the database in `source`.
    source_password_file: Option<PathBuf> = Kind::Path, Unset("/run/credentials/source"), Restart;
    /// How the server finds users in `source`; `(?)` stands for the list of names. Columns for
    /// roles (separated by commas or white space), zone and disabled may be missing, unless
    /// `column_…` gives them other names.
    query: Option<String> = Kind::Text,
        Unset("SELECT name, password FROM account WHERE name IN (?)"), Restart;
    /// The column of the query with the name.
    column_name: String = Kind::Text, Default("name"), Restart;
    /// The column of the query with the password's hash.
    column_password: String = Kind::Text, Default("password"), Restart;
    /// The column of the query with the roles.
    column_roles: String = Kind::Text, Default("roles"), Restart;
    /// The column of the query that says whether the user is disabled. A number other than 0, `t`,
    /// `true`, `y`, `yes`, `on` or a date disables the user. 0, `f`, `false`, `n`, `no`, `off`, an
    /// empty text or NULL does not. A user with any other value is refused, and the log names it.
    column_disabled: String = Kind::Text, Default("disabled"), Restart;
    /// The column of the query with the zone, which has to exist: `stentor zone add`.
    column_zone: String = Kind::Text, Default("zone"), Restart;
    /// The role of users from `source` that have no role there.
    role: String = Kind::Name, Default("member"), Restart;
    /// How often the server reads users who are in use, roles and zones again, so that direct
    /// changes in the database take effect for live connections. `stentor auth refresh` does it
    /// now.
    refresh: Duration = seconds(1, 86_400), Default("30s"), Restart;
    /// How long the database may take for an answer before it counts as unavailable.
    timeout: Duration = Kind::Duration {
        min: Duration::from_millis(100), max: Duration::from_secs(60), never: false,
    }, Default("5s"), Restart;
    /// What happens to a subscription if the client may receive only a part of it: `filtered`
    /// accepts it and delivers that part, `strict` refuses it. If the client may receive nothing of
    /// it, it is always refused.
    subscribe: WideSubscription = Kind::Choice(WIDE_SUBSCRIPTIONS), Default("filtered"), Live;
    /// Which client ids a user may connect with; others are refused (0x85, in MQTT 3 return code
    /// 2). `none`: any; a client with the client id of a connection in the same zone ends that
    /// connection, also of another user. `user-prefix`: the user's name, and the name followed by
    /// `-`, `/`, `:` or `.` and anything. `owner`: any that no other user of the zone is connected
    /// with or has a session with. docs/rights.md says what this means for clients without a name.
    client_id_binding: ClientIdBinding = Kind::Choice(CLIENT_ID_BINDINGS), Default("none"),
        NewConnections;
    /// The hash function of new passwords; older and weaker hashes are replaced at the next login.
    password_hash: PasswordFunction = Kind::Choice(PasswordFunction::NAMES), Default("argon2id"),
        Live;
    /// How long a verified password is remembered in memory, under a key that ends with the server,
    /// so that a mass reconnect costs no hashing; `0s` turns it off.
    remember: Duration = seconds(0, 604_800), Default("10m"), Live;
    /// Whether wrong passwords and tokens slow down the account at that address, the address, and
    /// the account. Failures of others never slow addresses from which an account has logged in
    /// lately. A valid JSON web token never waits. An invalid one counts against the user that it
    /// names at that address. If its signature is wrong, it counts against the address, apart from
    /// passwords.
    slow_failures: bool = Kind::Flag, Default("true"), Live;
    /// Logins that may wait for the database; above that, a client gets "server busy".
    queue: u32 = count(1, 1_000_000), Default("20000"), Restart;
}

section! {
    /// Issuers whose JSON web tokens let clients in: as their password, or by the MQTT 5
    /// authentication method `JWT`. A connection ends with its token unless AUTH renews it. The
    /// claim `roles` lists names of roles, which replace those of the user in the database;
    /// `rights` adds rules like `allow publish sensors/{user}/#`.
    Jwt = "jwt", repeated: true;

    /// The required value of the claim `iss`; not given, any value.
    issuer: Option<String> = Kind::Text, Unset("https://id.example.org"), Live;
    /// One of these must be in the claim `aud`. With `audience = []`, a token must not have that
    /// claim.
    audience: Vec<String> = Kind::Texts, Default("stentor"), Live;
    /// The key of the signatures: one public key in PEM format, or for HS algorithms the secret.
    /// The file is read again on every reload.
    key_file: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/issuer.pem"), Live;
    /// A JSON Web Key Set with the keys of the signatures, instead of `key_file`. A token that does
    /// not name its key by `kid` is tried with up to 16 of them.
    jwks_file: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/issuer-keys.json"), Live;
    /// The algorithms that tokens may be signed with. Without any, all algorithms that the keys are
    /// made for, but never HS256, HS384 or HS512.
    algorithms: Vec<String> = Kind::Texts, Default(""), Live;
    /// How much the clocks may differ when a client shows a token; a connection ends with its
    /// token.
    leeway: Duration = seconds(0, 3_600), Default("30s"), Live;
    /// The claim with the user's name, which must be valid for `stentor user add`: without `/ + #
    /// $`.
    user_claim: String = Kind::Text, Default("sub"), Live;
    /// The zone of all users of this issuer. Not given, the claim `zone` names it, and it has to
    /// exist (`stentor zone add`); without the claim it is `default`.
    zone: Option<String> = Kind::Name, Unset("game"), Live;
    /// Lets only those users of this issuer in that are also in the database.
    known_users: bool = Kind::Flag, Default("false"), Live;
}

section! {
    /// Users of the configuration, who take precedence over all others of the same name. Keep users
    /// that change in the database.
    User = "user", repeated: true;

    /// The login name.
    name: String = Kind::Name, Required("alice"), Live;
    /// The hash of the password, as `stentor hash-password` prints it; or any other credential that
    /// the database may hold.
    password_hash: Option<Secret> = Kind::Secret,
        Unset("$argon2id$v=19$m=19456,t=2,p=1$bsOIgJw7Fbs$G8YUf+aXG5DpxL/tKgCFmA"), Live;
    /// A file whose first line is the hash of the password, instead of `password_hash`.
    password_file: Option<PathBuf> = Kind::Path, Unset("/run/credentials/alice.hash"), Live;
    /// The zone that the user belongs to.
    zone: String = Kind::Name, Default("default"), Live;
    /// Gives the user all rights, administration included.
    admin: bool = Kind::Flag, Default("false"), Live;
}

/// Every section with its keys, in the order of the documents.
pub const SECTIONS: &[Section] = &[
    General::SECTION,
    Log::SECTION,
    Listener::SECTION,
    Tls::SECTION,
    Auth::SECTION,
    Jwt::SECTION,
    User::SECTION,
    Zone::SECTION,
    Room::SECTION,
    Adaptor::SECTION,
    Limits::SECTION,
    Policy::SECTION,
    Queue::SECTION,
    Retained::SECTION,
    Sessions::SECTION,
    Procedures::SECTION,
    Sys::SECTION,
    Figures::SECTION,
    Http::SECTION,
];

/// Every key.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|section| section.keys)
}

/// The section of that name.
pub(super) fn find_section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// The key with that dotted path.
#[must_use]
pub fn find_key(path: &str) -> Option<&'static Key> {
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    find_section(section)?.key(name)
}
