//! Why a connection ends: one closed list, mapped to what the peer and the operator see.

use stentor_mqtt::{DecodeError, ReasonCode};

/// Why a connection ended, grouped by whose doing it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer broke the protocol: bytes that are not a packet.
    Malformed(DecodeError),
    /// The peer broke the protocol: a packet that is not allowed here.
    Violation(Violation),
    /// The peer may not do this.
    Denied(Denied),
    /// A limit was reached.
    Limit(Limit),
    /// Something did not happen in time.
    Timeout(Timer),
    /// The server ends it, through no fault of the peer.
    Local(Local),
    /// The peer ended it.
    Remote(Remote),
    /// A broken invariant of this program: closes this connection and no other, and is counted.
    Bug(&'static str),
}

/// Packets that are well formed but not allowed where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The first packet was not CONNECT [MQTT-3.1.0-1].
    ExpectedConnect,
    /// A second CONNECT [MQTT-3.1.0-2].
    SecondConnect,
    /// A packet that only a server sends.
    ServerPacket,
    /// A topic alias that is 0 or above the maximum [MQTT-3.3.2-8].
    TopicAlias,
    /// A topic alias that was never set, without a topic to set it to.
    UnknownAlias,
    /// A will or publish topic that is not a topic name.
    TopicName,
    /// A packet identifier for a message that is still in flight as another kind.
    PacketId,
    /// A subscription identifier, shared or wildcard subscription where none is allowed.
    Subscription,
    /// No-local on a shared subscription [MQTT-3.8.3-4].
    SharedNoLocal,
    /// A response or AUTH packet without enhanced authentication [MQTT-4.12.0-1].
    UnexpectedAuth,
    /// DISCONNECT asks for a session expiry after CONNECT set none [MQTT-3.14.2-2].
    SessionExpiry,
    /// Bytes below MQTT: a broken WebSocket frame or HTTP request.
    WebSocket,
    /// Bytes below MQTT: a broken TLS record or a failed handshake.
    Tls,
    /// Bytes below all else: a broken PROXY protocol header.
    Proxy,
}

/// What the peer may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Wrong user name or password: the two are not told apart.
    Credentials,
    /// A login is needed and none was given.
    Anonymous,
    /// Logged in, but without the right for this.
    Right,
    /// This user, client id or address is banned.
    Banned,
    /// An authentication method that this server does not have.
    AuthMethod,
    /// A client id that this server does not take.
    ClientId,
    /// A client id that belongs to another user.
    ForeignClientId,
    /// A keep alive above the server's maximum, in a version that cannot be told another one.
    KeepAlive,
    /// The protocol version is not spoken here.
    Version,
    /// A WebSocket from a page of another origin.
    Origin,
    /// Whatever it logged in with holds no longer: a token has expired.
    Expired,
    /// An adaptor, which is the operator's own code, does not let it in.
    Adaptor,
    /// There is no zone of the name that it says.
    NoZone,
    /// The listener belongs to another zone than the name.
    OtherZone,
    /// It asks for a guest's name where there are none.
    NoGuests,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A packet above the maximum packet size.
    PacketBytes,
    /// More unacknowledged messages than the receive maximum allows.
    ReceiveMaximum,
    /// The client did not read what it subscribed to, and its policy is `disconnect`.
    QueueBytes,
    /// The server holds as many sessions that outlive their connection as it may.
    Sessions,
    /// This user holds as many of them as one user may.
    SessionsPerUser,
    /// This address holds as many of them as one address may.
    SessionsPerAddress,
    /// The users of this zone hold as many of them as those of one zone may.
    SessionsPerZone,
    /// The disk has no room for another session that outlives its connection.
    Disk,
    /// Memory is short.
    Memory,
    /// The server holds as many connections as it may.
    Connections,
    /// This listener holds as many connections as it may.
    ConnectionsOfListener,
    /// This shard has no file descriptor for one more connection.
    ConnectionsPerShard,
    /// This user holds as many connections as its roles let it.
    ConnectionsPerUser,
    /// This user is connected already, and its zone lets each in once.
    SecondLogin,
    /// This user holds as many connections as its zone lets each user have.
    ConnectionsPerUserOfZone,
    /// The users of this zone hold as many connections as they may.
    ConnectionsPerZone,
    /// This address holds as many connections as it may.
    ConnectionsPerAddress,
    /// Connections arrive faster than the configured rate.
    ConnectionRate,
    /// Connections from this address arrive faster than the configured rate.
    ConnectionRatePerAddress,
    /// The queue of logins is full.
    LoginQueue,
    /// Too many logins from this address, or of this account from there, have failed lately.
    LoginRate,
    /// Guests come faster than their zone lets them in.
    GuestRate,
    /// The HTTP request of a WebSocket is too long.
    RequestBytes,
    /// The retained store cannot keep a message and 3.x has no other way to say so.
    Retained,
}

/// What did not happen in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// No CONNECT within the login time.
    Login,
    /// A connected client began to authenticate again and did not go on within the login time.
    Authentication,
    /// No packet within one and a half times the keep-alive time [MQTT-3.1.2-24].
    KeepAlive,
    /// The peer did not take the last bytes before the close.
    Drain,
}

/// Ends that the server decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Another connection took the session [MQTT-3.1.4-3].
    TakenOver,
    /// A newer connection of the same user, where its zone leaves each user one.
    Replaced,
    /// The server stops.
    ShuttingDown,
    /// An administrator closed it.
    Kicked,
    /// The user was deleted or disabled.
    Revoked,
    /// The client was banned while it was connected.
    Banned,
    /// The authentication service cannot answer.
    Unavailable,
}

/// Ends that the peer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// DISCONNECT: the will is dropped.
    Disconnect,
    /// DISCONNECT 0x04: the will is published.
    DisconnectWithWill,
    /// The stream ended without DISCONNECT.
    Closed,
    /// The stream broke.
    Reset,
}

impl CloseReason {
    /// The reason code for DISCONNECT or CONNACK; `None` where nothing is sent, because the peer
    /// is gone or ended it itself.
    #[must_use]
    pub const fn reason_code(self) -> Option<ReasonCode> {
        Some(match self {
            Self::Malformed(error) => error.reason(),
            Self::Violation(violation) => violation.reason_code(),
            Self::Denied(denied) => denied.reason_code(),
            Self::Limit(limit) => limit.reason_code(),
            Self::Timeout(Timer::Login | Timer::Drain) | Self::Remote(_) => return None,
            Self::Timeout(Timer::Authentication) => ReasonCode::NotAuthorized,
            Self::Timeout(Timer::KeepAlive) => ReasonCode::KeepAliveTimeout,
            Self::Local(Local::TakenOver | Local::Replaced) => ReasonCode::SessionTakenOver,
            Self::Local(Local::ShuttingDown) => ReasonCode::ServerShuttingDown,
            Self::Local(Local::Kicked | Local::Revoked | Local::Banned) => {
                ReasonCode::AdministrativeAction
            }
            Self::Local(Local::Unavailable) => ReasonCode::ServerUnavailable,
            Self::Bug(_) => ReasonCode::UnspecifiedError,
        })
    }

    /// A short word for logs and counters; part of the documented interface.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Violation(violation) => violation.label(),
            Self::Denied(denied) => denied.label(),
            Self::Limit(limit) => limit.label(),
            Self::Timeout(Timer::Login) => "login-timeout",
            Self::Timeout(Timer::Authentication) => "authentication-timeout",
            Self::Timeout(Timer::KeepAlive) => "keep-alive-timeout",
            Self::Timeout(Timer::Drain) => "drain-timeout",
            Self::Local(Local::TakenOver) => "taken-over",
            Self::Local(Local::Replaced) => "replaced",
            Self::Local(Local::ShuttingDown) => "shutting-down",
            Self::Local(Local::Kicked) => "kicked",
            Self::Local(Local::Revoked) => "revoked",
            Self::Local(Local::Banned) => "banned-while-connected",
            Self::Local(Local::Unavailable) => "unavailable",
            Self::Remote(Remote::Disconnect) => "disconnect",
            Self::Remote(Remote::DisconnectWithWill) => "disconnect-with-will",
            Self::Remote(Remote::Closed) => "closed",
            Self::Remote(Remote::Reset) => "reset",
            Self::Bug(_) => "bug",
        }
    }

    /// A sentence for who is refused, where there is more to say than the reason code does; empty
    /// otherwise. It helps nobody to guess names or passwords.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Denied(denied) => denied.told(),
            Self::Limit(limit) => limit.told(),
            Self::Local(Local::Unavailable) => "users cannot be looked up now: try again later",
            Self::Local(Local::ShuttingDown) => "the server is about to stop",
            Self::Local(
                Local::TakenOver | Local::Replaced | Local::Kicked | Local::Revoked | Local::Banned,
            )
            | Self::Malformed(_)
            | Self::Violation(_)
            | Self::Timeout(_)
            | Self::Remote(_)
            | Self::Bug(_) => "",
        }
    }

    /// Whether the will is dropped: a DISCONNECT with reason 0 does that [MQTT-3.14.4-3], and a
    /// ban, which would let somebody publish once more otherwise.
    #[must_use]
    pub const fn drops_will(self) -> bool {
        matches!(
            self,
            Self::Remote(Remote::Disconnect) | Self::Local(Local::Banned)
        )
    }
}

impl Violation {
    const fn reason_code(self) -> ReasonCode {
        match self {
            Self::TopicAlias => ReasonCode::TopicAliasInvalid,
            Self::TopicName => ReasonCode::TopicNameInvalid,
            Self::WebSocket | Self::Tls | Self::Proxy => ReasonCode::MalformedPacket,
            Self::ExpectedConnect
            | Self::SecondConnect
            | Self::ServerPacket
            | Self::UnknownAlias
            | Self::PacketId
            | Self::Subscription
            | Self::SharedNoLocal
            | Self::UnexpectedAuth
            | Self::SessionExpiry => ReasonCode::ProtocolError,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::ExpectedConnect => "expected-connect",
            Self::SecondConnect => "second-connect",
            Self::ServerPacket => "server-packet",
            Self::TopicAlias => "topic-alias",
            Self::UnknownAlias => "unknown-topic-alias",
            Self::TopicName => "topic-name",
            Self::PacketId => "packet-id",
            Self::Subscription => "subscription",
            Self::SharedNoLocal => "shared-no-local",
            Self::UnexpectedAuth => "unexpected-auth",
            Self::SessionExpiry => "session-expiry",
            Self::WebSocket => "websocket",
            Self::Tls => "tls",
            Self::Proxy => "proxy-header",
        }
    }
}

impl Denied {
    const fn reason_code(self) -> ReasonCode {
        match self {
            Self::Credentials | Self::NoZone => ReasonCode::BadUserNameOrPassword,
            Self::Anonymous
            | Self::Right
            | Self::Origin
            | Self::Adaptor
            | Self::OtherZone
            | Self::NoGuests => ReasonCode::NotAuthorized,
            Self::Banned => ReasonCode::Banned,
            Self::AuthMethod => ReasonCode::BadAuthenticationMethod,
            // 3.x has no code of its own for the keep alive; this is what mosquitto answers.
            Self::ClientId | Self::ForeignClientId | Self::KeepAlive => {
                ReasonCode::ClientIdentifierNotValid
            }
            Self::Version => ReasonCode::UnsupportedProtocolVersion,
            Self::Expired => ReasonCode::MaximumConnectTime,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Credentials => "bad-credentials",
            Self::Anonymous => "login-required",
            Self::Right => "not-authorized",
            Self::Banned => "banned",
            Self::AuthMethod => "auth-method",
            Self::ClientId => "client-id",
            Self::ForeignClientId => "client-id-of-another",
            Self::KeepAlive => "keep-alive",
            Self::Version => "protocol-version",
            Self::Origin => "origin",
            Self::Expired => "login-expired",
            Self::Adaptor => "denied-by-adaptor",
            Self::NoZone => "no-such-zone",
            Self::OtherZone => "other-zone",
            Self::NoGuests => "no-guests",
        }
    }
}

impl Denied {
    const fn told(self) -> &'static str {
        match self {
            Self::Anonymous => "a user name is needed here",
            Self::Right => "the right to publish the will is missing",
            Self::KeepAlive => "the keep alive is longer than this server allows",
            Self::AuthMethod => "there is no such authentication method here",
            // One sentence, so that nobody learns which of them it is.
            Self::Credentials | Self::NoZone => "the user name, its zone or the password is wrong",
            Self::OtherZone => "this address belongs to another zone than the user name says",
            Self::NoGuests => "this zone lets no guests in",
            Self::ForeignClientId => "this client id belongs to another user",
            Self::Banned
            | Self::ClientId
            | Self::Version
            | Self::Origin
            | Self::Expired
            | Self::Adaptor => "",
        }
    }
}

impl Limit {
    const fn told(self) -> &'static str {
        match self {
            Self::ConnectionsPerUser | Self::SecondLogin | Self::ConnectionsPerUserOfZone => {
                "this user has as many connections as it may have"
            }
            Self::ConnectionsPerZone => "the zone has as many connections as it may have",
            Self::ConnectionsPerAddress => "this address has as many connections as it may have",
            Self::Connections | Self::ConnectionsOfListener | Self::ConnectionsPerShard => {
                "the server has as many connections as it may have"
            }
            Self::Sessions => "the server keeps as many sessions as it may",
            Self::Disk => "the disk of the sessions is full",
            Self::Memory => "the server is short of memory: try again later",
            Self::SessionsPerUser => "the server keeps as many sessions of this user as it may",
            Self::SessionsPerAddress => {
                "the server keeps as many sessions of this address as it may"
            }
            Self::SessionsPerZone => "the server keeps as many sessions of this zone as it may",
            Self::ConnectionRate | Self::ConnectionRatePerAddress => {
                "connections come faster than the limit permits: try again later"
            }
            Self::LoginRate => "logins have failed too often: try again later",
            Self::GuestRate => "guests come faster than the limit permits: try again later",
            Self::LoginQueue => "too many logins wait: try again later",
            Self::PacketBytes
            | Self::ReceiveMaximum
            | Self::QueueBytes
            | Self::RequestBytes
            | Self::Retained => "",
        }
    }

    const fn reason_code(self) -> ReasonCode {
        match self {
            Self::PacketBytes | Self::RequestBytes => ReasonCode::PacketTooLarge,
            Self::ReceiveMaximum => ReasonCode::ReceiveMaximumExceeded,
            Self::QueueBytes
            | Self::Sessions
            | Self::SessionsPerUser
            | Self::SessionsPerAddress
            | Self::SessionsPerZone
            | Self::Disk
            | Self::Memory
            | Self::Connections
            | Self::ConnectionsOfListener
            | Self::ConnectionsPerShard
            | Self::ConnectionsPerAddress
            | Self::Retained => ReasonCode::QuotaExceeded,
            Self::ConnectionRate
            | Self::ConnectionRatePerAddress
            | Self::LoginRate
            | Self::GuestRate => ReasonCode::ConnectionRateExceeded,
            Self::ConnectionsPerUser
            | Self::SecondLogin
            | Self::ConnectionsPerUserOfZone
            | Self::ConnectionsPerZone => ReasonCode::QuotaExceeded,
            Self::LoginQueue => ReasonCode::ServerBusy,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::PacketBytes => "packet-too-large",
            Self::ReceiveMaximum => "receive-maximum",
            Self::QueueBytes => "slow-client",
            Self::Sessions => "too-many-sessions",
            Self::SessionsPerUser => "too-many-sessions-of-user",
            Self::SessionsPerAddress => "too-many-sessions-from-address",
            Self::SessionsPerZone => "too-many-sessions-in-zone",
            Self::Disk => "disk-full",
            Self::Memory => "memory",
            Self::Connections => "too-many-connections",
            Self::ConnectionsOfListener => "too-many-connections-of-listener",
            Self::ConnectionsPerShard => "too-many-open-files",
            Self::ConnectionsPerUser => "too-many-connections-of-user",
            Self::SecondLogin => "second-login",
            Self::ConnectionsPerUserOfZone => "too-many-connections-of-user-in-zone",
            Self::ConnectionsPerZone => "too-many-connections-in-zone",
            Self::ConnectionsPerAddress => "too-many-connections-from-address",
            Self::ConnectionRate => "connection-rate",
            Self::ConnectionRatePerAddress => "connection-rate-of-address",
            Self::LoginQueue => "login-queue-full",
            Self::LoginRate => "login-rate",
            Self::GuestRate => "guest-rate",
            Self::RequestBytes => "request-too-large",
            Self::Retained => "retained-full",
        }
    }
}
