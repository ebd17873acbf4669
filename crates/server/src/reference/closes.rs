//! When connections are refused or end, and what to do about it.

use stentor_session::{CloseReason, Denied, Limit, Local, Remote, Timer, Violation};

/// A row of the page.
#[derive(Debug)]
pub(super) struct Close {
    pub(super) reason: CloseReason,
    /// When it happens, as a sentence.
    pub(super) when: &'static str,
    /// What to do; empty if there is nothing.
    pub(super) remedy: &'static str,
}

/// Makes the groups of rows, and a match without a wildcard: a reason without a row does not
/// compile.
macro_rules! closes {
    ($( $title:literal: {
        $( $kind:ident($name:ident::$variant:ident) => $when:literal, $remedy:literal; )+
    } )+) => {
        /// All reasons, by what they have in common. What makes a packet malformed is a table of
        /// its own.
        pub(super) const CLOSES: &[(&str, &[Close])] = &[
            $( ($title, &[ $( Close {
                reason: CloseReason::$kind($name::$variant),
                when: $when,
                remedy: $remedy,
            }, )+ ]), )+
        ];

        const _: fn(CloseReason) = |reason| match reason {
            CloseReason::Malformed(_) | CloseReason::Bug(_) => {}
            $( $( CloseReason::$kind($name::$variant) => {} )+ )+
        };
    };
}

closes! {
    "Users, rights and zones": {
        Denied(Denied::Credentials) =>
            "The user name or the password is wrong, the user is disabled, or a token is not valid.",
            "Check both at the client. `stentor user set-password NAME` sets a password. The log says which of them is wrong.";
        Denied(Denied::Anonymous) =>
            "The client gave no user name, and the listener needs one.",
            "Set a user name at the client, or `anonymous = true` on the listener.";
        Denied(Denied::Right) =>
            "The user has no right to publish to the topic of its will.",
            "Give a role with that right by `stentor grant`, or change the will.";
        Denied(Denied::Banned) =>
            "The client id, user, address or zone is banned, or the user is disabled.",
            "`stentor ban ls` shows the bans, `stentor ban rm` ends one. `stentor user enable` enables a user.";
        Denied(Denied::Expired) =>
            "The token of the client expired while it was connected.",
            "Let the client log in again with a new token.";
        Denied(Denied::AuthMethod) =>
            "The client asks for an authentication method that the server does not have.",
            "Use a password, SCRAM-SHA-256, or JWT with a `[[jwt]]` section.";
        Denied(Denied::ClientId) =>
            "The client id is empty, and this version of MQTT needs one.",
            "Set a client id, use Clean Session with MQTT 3.1.1, or use MQTT 5.";
        Denied(Denied::ForeignClientId) =>
            "The client id belongs to another user, and `auth.client_id_binding` protects it.",
            "Use a client id that begins with the user name, or one that is free.";
        Denied(Denied::KeepAlive) =>
            "A client of MQTT 3 asks for a keep alive above `limits.keep_alive_max`.",
            "Lower the keep alive at the client, raise the limit, or use MQTT 5.";
        Denied(Denied::Version) =>
            "The version of MQTT is not 3.1, 3.1.1 or 5.0.",
            "Choose one of these versions at the client.";
        Denied(Denied::Origin) =>
            "A web page of another origin opened the WebSocket.",
            "Add the origin to `allowed_origins` of the listener.";
        Denied(Denied::Adaptor) =>
            "An adaptor denied the login. It may give another code and a text.",
            "Ask the author of the adaptor. The log has the text.";
        Denied(Denied::NoZone) =>
            "The user name has a zone that does not exist, as in `ZONE/NAME`.",
            "`stentor zone list` shows the zones, `stentor zone add` adds one.";
        Denied(Denied::OtherZone) =>
            "The listener belongs to another zone than the user name says.",
            "Use the listener of that zone, or leave the zone out of the name.";
        Denied(Denied::NoGuests) =>
            "The client asks for a guest name, and the zone has no guests.",
            "Set `guests = true` in that `[[zone]]`, or log in as a user.";
        Local(Local::Unavailable) =>
            "The database of users does not answer.",
            "Start the database. Clients try again later.";
    }
    "Limits": {
        Limit(Limit::Connections) =>
            "The server has as many connections as `limits.connections` allows.",
            "Raise the limit.";
        Limit(Limit::ConnectionsOfListener) =>
            "The listener has as many connections as its `max_connections` allows.",
            "Raise the limit.";
        Limit(Limit::ConnectionsPerShard) =>
            "The process can open no more files.",
            "Raise `LimitNOFILE`, or `--shards`.";
        Limit(Limit::ConnectionsPerAddress) =>
            "The address has as many connections as `limits.connections_per_address` allows.",
            "Raise the limit. Behind a load balancer, use the PROXY protocol.";
        Limit(Limit::ConnectionsPerUser) =>
            "The user has as many connections as its roles allow.",
            "Raise the quota by `stentor role change NAME --connections N`.";
        Limit(Limit::ConnectionsPerUserOfZone) =>
            "The user has as many connections as `user_connections` of its zone allows.",
            "Raise `user_connections` of the `[[zone]]`.";
        Limit(Limit::SecondLogin) =>
            "The user is connected, and its zone has `second_login = \"refuse\"`.",
            "Close the other connection, or set `second_login` to `replace` or `allow`.";
        Limit(Limit::ConnectionsPerZone) =>
            "The users of the zone have as many connections as its quota allows.",
            "Raise `connections` of the zone.";
        Limit(Limit::ConnectionRate) =>
            "Connections arrive faster than `limits.connection_rate`.",
            "Let clients wait a random time before they reconnect, or raise the limit.";
        Limit(Limit::ConnectionRatePerAddress) =>
            "Connections from this address arrive faster than `limits.connection_rate_per_address`.",
            "Find the client that reconnects in a loop, or raise the limit.";
        Limit(Limit::LoginQueue) =>
            "More logins wait for the database of users than `auth.queue` allows.",
            "Clients try again. If it lasts, make the database faster.";
        Limit(Limit::LoginRate) =>
            "Too many logins from this address, or of this user from there, failed lately.",
            "Correct the password at the client, and log in again after a pause.";
        Limit(Limit::GuestRate) =>
            "Guests arrive faster than `guest_rate` of their zone.",
            "Clients try again, or raise `guest_rate`.";
        Limit(Limit::Sessions) =>
            "The server keeps as many sessions without a connection as `limits.sessions` allows.",
            "Raise the limit, or lower `limits.session_expiry_max`.";
        Limit(Limit::SessionsPerUser) =>
            "The server keeps as many sessions of this user as `limits.sessions_per_user` allows.",
            "Use the same client id at each connection, or raise the limit.";
        Limit(Limit::SessionsPerAddress) =>
            "The server keeps as many sessions from this address as `limits.sessions_per_address` allows.",
            "Use the same client id at each connection, or raise the limit.";
        Limit(Limit::SessionsPerZone) =>
            "The server keeps as many sessions of this zone as `limits.sessions_per_zone` allows.",
            "Raise the limit, or lower `limits.session_expiry_max`.";
        Limit(Limit::Disk) =>
            "The client asks for a session that outlives its connection, and the disk of the sessions is full.",
            "Free space on the disk of `sessions.dir`, or raise `sessions.bytes` if the log says so. Sessions that are there go on.";
        Limit(Limit::Memory) =>
            "`limits.memory` is reached, or packets that have not arrived in full take an eighth of it. For a listener `unix:http`: event streams hold an eighth of it, and this one waits for its reader.",
            "`stentor status` says who holds most. Raise the limit.";
        Limit(Limit::QueueBytes) =>
            "The queue of the client is full, and its `[[policy]]` is `disconnect`.",
            "The log line and the reason string name the limit and its value. Let the client read faster, raise the limit, or choose another policy.";
        Limit(Limit::PacketBytes) =>
            "A packet is larger than `limits.packet_bytes`, or a CONNECT is larger than 1 MiB.",
            "Send smaller messages, or raise the limit.";
        Limit(Limit::ReceiveMaximum) =>
            "The client has more unacknowledged messages than `limits.receive_maximum` allows.",
            "The client has to wait for acknowledgements. Update its library.";
        Limit(Limit::RequestBytes) =>
            "The HTTP request of a WebSocket is too long.",
            "Send fewer cookies and headers.";
        Limit(Limit::Retained) =>
            "A message of an MQTT 3 client cannot be kept, as a retained one or for a session that lasts, and MQTT 3 has no code for it.",
            "Raise `retained.messages`, `retained.bytes` or `limits.memory`, or free space on the disk: the log names which.";
    }
    "Protocol errors": {
        Violation(Violation::ExpectedConnect) =>
            "The first packet was not CONNECT.",
            "Check that the client speaks MQTT to this port.";
        Violation(Violation::SecondConnect) =>
            "The client sent CONNECT twice.",
            "Update the client library.";
        Violation(Violation::ServerPacket) =>
            "The client sent a packet that only a server sends.",
            "Update the client library.";
        Violation(Violation::TopicAlias) =>
            "A topic alias is 0 or above the Topic Alias Maximum in CONNACK.",
            "Use smaller aliases, or raise `limits.topic_alias_maximum`.";
        Violation(Violation::UnknownAlias) =>
            "A topic alias was used before it had a topic.",
            "Send the topic with the first use of an alias after each connect.";
        Violation(Violation::TopicName) =>
            "The topic of a will or a message is not a valid topic name.",
            "Remove `+`, `#` and NUL, and keep within `limits.topic_bytes` and `limits.topic_levels`.";
        Violation(Violation::PacketId) =>
            "A packet identifier is in use for another kind of message.",
            "Update the client library.";
        Violation(Violation::Subscription) =>
            "A subscription has a form that is not allowed there.",
            "Update the client library.";
        Violation(Violation::SharedNoLocal) =>
            "A shared subscription has the option No Local.",
            "Leave No Local out of shared subscriptions.";
        Violation(Violation::UnexpectedAuth) =>
            "The client sent AUTH without an authentication method in CONNECT.",
            "Update the client library.";
        Violation(Violation::SessionExpiry) =>
            "DISCONNECT has a session expiry, and CONNECT had none.",
            "Set the session expiry in CONNECT.";
        Violation(Violation::WebSocket) =>
            "The HTTP request or a WebSocket frame is not valid.",
            "Check that the client uses `ws://` or `wss://` for this port.";
        Violation(Violation::Tls) =>
            "The TLS handshake failed or a record is not valid.",
            "Check the certificate, the authority that the client trusts, and the port.";
        Violation(Violation::Proxy) =>
            "The listener expects a PROXY protocol header, and there was none.",
            "Turn the PROXY protocol on at the load balancer, or remove `proxies` from the listener.";
    }
    "Timeouts": {
        Timeout(Timer::Login) =>
            "No complete CONNECT arrived within `limits.login_timeout`.",
            "Check the network and the client. Port scanners cause this too.";
        Timeout(Timer::Authentication) =>
            "A connected client began to authenticate again and did not continue in time.",
            "Update the client library, or raise `limits.login_timeout`.";
        Timeout(Timer::KeepAlive) =>
            "The client was silent for one and a half times its keep alive.",
            "Check the network. Raise the keep alive if the client sleeps.";
        Timeout(Timer::Drain) =>
            "The client did not read the last bytes before the close.",
            "";
    }
    "Ends that the server or an administrator decides": {
        Local(Local::TakenOver) =>
            "Another connection uses the same client id.",
            "Give each client its own client id.";
        Local(Local::Replaced) =>
            "The user connected again, and its zone has `second_login = \"replace\"`.",
            "Connect once, or set `second_login = \"allow\"` in the `[[zone]]`.";
        Local(Local::ShuttingDown) =>
            "The server stops.",
            "Reconnect after a pause.";
        Local(Local::Kicked) =>
            "An administrator or an adaptor closed the connection.",
            "Ask the administrator. `audit.log` says who it was.";
        Local(Local::Revoked) =>
            "The user was deleted or disabled, or its password or token was withdrawn.",
            "Log in with the new password or token, or enable the user.";
        Local(Local::Banned) =>
            "The client was banned while it was connected. Its will is dropped.",
            "`stentor ban ls` shows the bans, `stentor ban rm` ends one.";
    }
    "Ends that the client decides": {
        Remote(Remote::Disconnect) =>
            "The client sent DISCONNECT. Its will is dropped.",
            "";
        Remote(Remote::DisconnectWithWill) =>
            "The client sent DISCONNECT with code 4. Its will is published.",
            "";
        Remote(Remote::Closed) =>
            "The client closed the connection without DISCONNECT. Its will is published.",
            "";
        Remote(Remote::Reset) =>
            "The connection broke. The will is published.",
            "Check the network if it happens often.";
    }
}
