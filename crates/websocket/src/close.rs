//! Why a WebSocket connection is closed.

/// A status code of a close frame (RFC 6455, section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloseCode(u16);

impl CloseCode {
    /// 1000: done.
    pub const NORMAL: Self = Self(1000);
    /// 1001: the server stops, or the page was left.
    pub const GOING_AWAY: Self = Self(1001);
    /// 1002: the peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// 1003: data of a kind that is not accepted; text, for MQTT [MQTT-6.0.0-1].
    pub const UNSUPPORTED: Self = Self(1003);
    /// 1007: text that is not UTF-8.
    pub const INVALID_DATA: Self = Self(1007);
    /// 1008: against the rules of the server.
    pub const POLICY: Self = Self(1008);
    /// 1009: more than the receiver takes.
    pub const TOO_BIG: Self = Self(1009);
    /// 1011: the server failed.
    pub const INTERNAL: Self = Self(1011);
    /// 1013: the server has too much to do; later, please.
    pub const TRY_AGAIN_LATER: Self = Self(1013);

    /// The code with this number, if one may send it: 1000 to 1003, 1007 to 1014 (as registered),
    /// and 3000 to 4999. The numbers between have meanings that never travel in a frame.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        match number {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(number)),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}
