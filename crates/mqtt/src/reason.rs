//! Reason codes of MQTT 5.0 and their 3.x counterparts.

use core::fmt;

macro_rules! reason_codes {
    ($( $(#[doc = $doc:literal])+ $name:ident = $value:literal, $phrase:literal; )+) => {
        /// A reason code [MQTT 5.0, section 2.4]. Codes from 0x80 on are failures.
        ///
        /// 3.x knows only the return codes of CONNACK and the failure of a subscription; the codec
        /// translates, so the rest of the program speaks this one language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ReasonCode {
            $( $(#[doc = $doc])+ $name = $value, )+
        }

        impl ReasonCode {
            /// Every code, in order of its value.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )+ ];

            /// The code with this value; `None` if the specification defines none.
            #[must_use]
            pub const fn from_u8(value: u8) -> Option<Self> {
                match value {
                    $( $value => Some(Self::$name), )+
                    _ => None,
                }
            }

            /// A phrase for people, without a full stop.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$name => $phrase, )+
                }
            }
        }
    };
}

reason_codes! {
    /// Success; also a normal disconnection and a subscription granted at QoS 0.
    Success = 0x00, "success";
    /// A subscription granted at QoS 1.
    GrantedQoS1 = 0x01, "granted QoS 1";
    /// A subscription granted at QoS 2.
    GrantedQoS2 = 0x02, "granted QoS 2";
    /// The client leaves and wants its will published.
    DisconnectWithWill = 0x04, "disconnect with will message";
    /// The message was accepted, but nobody subscribes to its topic.
    NoMatchingSubscribers = 0x10, "no matching subscribers";
    /// There was no such subscription to remove.
    NoSubscriptionExisted = 0x11, "no subscription existed";
    /// Authentication goes on with another step.
    ContinueAuthentication = 0x18, "continue authentication";
    /// The client starts to authenticate again.
    ReAuthenticate = 0x19, "re-authenticate";
    /// A failure whose reason is not told, or none of the others.
    UnspecifiedError = 0x80, "unspecified error";
    /// The packet could not be parsed.
    MalformedPacket = 0x81, "malformed packet";
    /// A packet that is well-formed but not allowed here.
    ProtocolError = 0x82, "protocol error";
    /// Valid, but this server does not do it.
    ImplementationSpecificError = 0x83, "implementation specific error";
    /// The server does not speak this version of the protocol.
    UnsupportedProtocolVersion = 0x84, "unsupported protocol version";
    /// The client identifier is a valid string but is not allowed.
    ClientIdentifierNotValid = 0x85, "client identifier not valid";
    /// The client's user name or password is not valid.
    BadUserNameOrPassword = 0x86, "bad user name or password";
    /// The client may not do this.
    NotAuthorized = 0x87, "not authorized";
    /// The server cannot serve now.
    ServerUnavailable = 0x88, "server unavailable";
    /// The server has too much to do; try later.
    ServerBusy = 0x89, "server busy";
    /// An administrator has banned the client.
    Banned = 0x8A, "banned";
    /// The server is shutting down.
    ServerShuttingDown = 0x8B, "server shutting down";
    /// The authentication method is unknown, or not the one in use.
    BadAuthenticationMethod = 0x8C, "bad authentication method";
    /// Nothing was heard for one and a half times the keep-alive.
    KeepAliveTimeout = 0x8D, "keep alive timeout";
    /// Another connection with the same client identifier took over.
    SessionTakenOver = 0x8E, "session taken over";
    /// The topic filter is a valid string but is not accepted.
    TopicFilterInvalid = 0x8F, "topic filter invalid";
    /// The topic name is a valid string but is not accepted.
    TopicNameInvalid = 0x90, "topic name invalid";
    /// The packet identifier is already in use.
    PacketIdentifierInUse = 0x91, "packet identifier in use";
    /// The packet identifier is not known.
    PacketIdentifierNotFound = 0x92, "packet identifier not found";
    /// More unacknowledged messages than the receiver allows.
    ReceiveMaximumExceeded = 0x93, "receive maximum exceeded";
    /// The topic alias is zero, too large or unknown.
    TopicAliasInvalid = 0x94, "topic alias invalid";
    /// The packet is larger than the receiver allows.
    PacketTooLarge = 0x95, "packet too large";
    /// The messages come too fast.
    MessageRateTooHigh = 0x96, "message rate too high";
    /// A limit set by the operator was reached.
    QuotaExceeded = 0x97, "quota exceeded";
    /// An administrator closed the connection.
    AdministrativeAction = 0x98, "administrative action";
    /// The payload is not what its format indicator says.
    PayloadFormatInvalid = 0x99, "payload format invalid";
    /// The server keeps no retained messages.
    RetainNotSupported = 0x9A, "retain not supported";
    /// The server does not offer this QoS.
    QoSNotSupported = 0x9B, "QoS not supported";
    /// Use another server for now.
    UseAnotherServer = 0x9C, "use another server";
    /// Use another server from now on.
    ServerMoved = 0x9D, "server moved";
    /// The server has no shared subscriptions.
    SharedSubscriptionsNotSupported = 0x9E, "shared subscriptions not supported";
    /// Connections are being made too fast.
    ConnectionRateExceeded = 0x9F, "connection rate exceeded";
    /// The connection lived as long as it may.
    MaximumConnectTime = 0xA0, "maximum connect time";
    /// The server has no subscription identifiers.
    SubscriptionIdentifiersNotSupported = 0xA1, "subscription identifiers not supported";
    /// The server has no wildcard subscriptions.
    WildcardSubscriptionsNotSupported = 0xA2, "wildcard subscriptions not supported";
}

impl ReasonCode {
    /// Whether this is a failure: 0x80 or above.
    #[inline]
    #[must_use]
    pub const fn is_error(self) -> bool {
        self as u8 >= 0x80
    }

    /// The CONNACK return code that says this in 3.x [MQTT 3.1.1, section 3.2.2.3]. What 3.x has no
    /// word for becomes 3, "server unavailable", so that the client tries again later.
    #[must_use]
    pub const fn connect_return_code(self) -> u8 {
        match self {
            Self::UnsupportedProtocolVersion => 1,
            Self::ClientIdentifierNotValid => 2,
            Self::BadUserNameOrPassword => 4,
            // A topic name is that of the will: it is wrong the next time as well.
            Self::NotAuthorized
            | Self::Banned
            | Self::BadAuthenticationMethod
            | Self::TopicNameInvalid => 5,
            other if other.is_error() => 3,
            _ => 0,
        }
    }

    /// The inverse of [`connect_return_code`](Self::connect_return_code); `None` for the values
    /// above 5, which are reserved.
    #[must_use]
    pub const fn from_connect_return_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Success),
            1 => Some(Self::UnsupportedProtocolVersion),
            2 => Some(Self::ClientIdentifierNotValid),
            3 => Some(Self::ServerUnavailable),
            4 => Some(Self::BadUserNameOrPassword),
            5 => Some(Self::NotAuthorized),
            _ => None,
        }
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
