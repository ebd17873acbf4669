//! What became of a private message.

use alloc::vec::Vec;

use serde::Serialize;

use crate::effect::Expelled;
use crate::room::Refusal;

/// How far a private message has come. The better is the greater: of several sessions of a user,
/// the one that it came furthest with counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// No session of the recipient subscribes to its inbox, or there is no such user: whoever may
    /// write to somebody does not learn by it who exists.
    #[default]
    Nobody,
    /// It is larger than the packets that the recipient takes.
    TooLarge,
    /// As much waits for the recipient as may.
    Full,
    /// It waits for a session whose client is away.
    Stored,
    /// It is on its way to a connected client.
    Delivered,
}

/// The response to the sender of a private message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// It was taken, and came as far as this.
    Reached(Reach),
    /// The sender may not write to this user.
    Denied,
    /// The sender of a private message needs a name.
    Nameless,
    /// Its message expiry interval is 0: it has expired before anybody can get it.
    Expired,
    /// More senders wait for a response than the server keeps track of.
    Busy,
}

/// The payload of `$reply/<id>`.
#[derive(Serialize)]
struct Said<'a> {
    code: u8,
    status: &'a str,
    to: &'a str,
    text: &'a str,
}

impl Response {
    /// A reason code of MQTT 5, as in the JSON on `$reply/<id>`.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Reached(Reach::Delivered | Reach::Stored) => 0x00,
            Self::Reached(Reach::Nobody) | Self::Expired => 0x10,
            Self::Reached(Reach::TooLarge) => 0x95,
            Self::Reached(Reach::Full) | Self::Busy => 0x97,
            Self::Denied | Self::Nameless => 0x87,
        }
    }

    /// The same for PUBACK and PUBREC, which know no "too large" [MQTT-3.4.2-1] [MQTT-3.5.2-1].
    #[must_use]
    pub const fn puback_code(self) -> u8 {
        match self.code() {
            0x95 => 0x97,
            code => code,
        }
    }

    /// A word for machines.
    #[must_use]
    pub const fn status(self) -> &'static str {
        match self {
            Self::Reached(Reach::Delivered) => "delivered",
            Self::Reached(Reach::Stored) => "stored",
            Self::Reached(Reach::Nobody) => "nobody-listening",
            Self::Reached(Reach::TooLarge) => "too-large",
            Self::Reached(Reach::Full) => "queue-full",
            Self::Denied | Self::Nameless => "not-allowed",
            Self::Expired => "expired",
            Self::Busy => "busy",
        }
    }

    /// A sentence for people; empty where there is nothing to explain.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Reached(Reach::Delivered) => "",
            Self::Reached(Reach::Stored) => "stored: the recipient is away and gets it later",
            Self::Reached(Reach::Nobody) => "nobody is listening under this name",
            Self::Reached(Reach::TooLarge) => "too large: the recipient takes smaller packets",
            Self::Reached(Reach::Full) => "the recipient's queue is full",
            Self::Denied => "private messages to this user are not allowed",
            Self::Nameless => "private messages need a login with a user name",
            Self::Expired => "expired: with a Message Expiry Interval of 0 nobody gets it",
            Self::Busy => "too many private messages wait for their response; try again",
        }
    }

    /// The payload of `$reply/<id>`, about a message to this user.
    #[must_use]
    pub fn json(self, to: &str) -> Vec<u8> {
        let said = Said {
            code: self.code(),
            status: self.status(),
            to,
            text: self.text(),
        };
        // Numbers and text always serialise.
        serde_json::to_vec(&said).unwrap_or_default()
    }
}

/// The answer to a call that was not made: the payload of `$reply/<id>`.
#[must_use]
pub fn call_refused(status: &str, text: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Refused<'a> {
        status: &'a str,
        text: &'a str,
    }
    // Two texts always serialise.
    serde_json::to_vec(&Refused { status, text }).unwrap_or_default()
}

/// What an adaptor has against a call: the payload of the answer.
#[must_use]
pub fn call_denied(code: u8, text: &str) -> Vec<u8> {
    let denied = serde_json::json!({ "status": "refused", "code": code, "text": text });
    // Numbers and text always serialise.
    serde_json::to_vec(&denied).unwrap_or_default()
}

/// What an adaptor has against a private message or a join: the payload of `$reply/<id>` or
/// `$reply/join`. `key` is what it was about, `to` or `room`.
#[must_use]
pub fn adaptor_refused(code: u8, key: &str, name: &str, text: &str) -> Vec<u8> {
    let refused = serde_json::json!({
        "code": code, "status": "refused", "error": "refused", key: name, "text": text,
    });
    // Numbers and text always serialise.
    serde_json::to_vec(&refused).unwrap_or_default()
}

/// Why a session is not let into a room: the payload of `$reply/join`.
#[must_use]
pub fn join_refused(room: &str, refusal: Refusal) -> Vec<u8> {
    out_of_room(room, refusal.code(), refusal.word(), refusal.text())
}

/// Why a session is out of a room that it did not leave: the payload of `$reply/join`.
#[must_use]
pub fn join_ended(room: &str, why: Expelled) -> Vec<u8> {
    out_of_room(room, why.code(), why.word(), why.text())
}

/// Why a filter below `$room/` joins nothing, whatever its room: the payload of `$reply/join`.
/// `error` is a word for machines.
#[must_use]
pub fn out_of_room(room: &str, code: u8, error: &str, text: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Refused<'a> {
        code: u8,
        error: &'a str,
        room: &'a str,
        text: &'a str,
    }
    let refused = Refused {
        code,
        error,
        room,
        text,
    };
    // Numbers and text always serialise.
    serde_json::to_vec(&refused).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_several_counts() {
        let order = [
            Reach::Nobody,
            Reach::TooLarge,
            Reach::Full,
            Reach::Stored,
            Reach::Delivered,
        ];
        assert!(order.is_sorted());
    }

    #[test]
    fn every_response_has_its_code() {
        for (response, code, puback) in [
            (Response::Reached(Reach::Delivered), 0x00, 0x00),
            (Response::Reached(Reach::Stored), 0x00, 0x00),
            (Response::Reached(Reach::Nobody), 0x10, 0x10),
            (Response::Reached(Reach::TooLarge), 0x95, 0x97),
            (Response::Reached(Reach::Full), 0x97, 0x97),
            (Response::Denied, 0x87, 0x87),
            (Response::Nameless, 0x87, 0x87),
            (Response::Busy, 0x97, 0x97),
        ] {
            assert_eq!(response.code(), code, "{response:?}");
            assert_eq!(response.puback_code(), puback, "{response:?}");
        }
    }

    #[test]
    fn the_payload_is_json_whatever_the_name() {
        let json = Response::Reached(Reach::Nobody).json("a\"b");
        let expected = r#"{"code":16,"status":"nobody-listening","to":"a\"b","#;
        assert!(json.starts_with(expected.as_bytes()));
    }
}
