//! The topics by which plain MQTT clients use a zone.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

use crate::name::{LEVEL_BYTES_MAX, NAME_BYTES_MAX, check_name, decode_name, encode_name};

/// What a client means that publishes to a topic beginning with `$`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address<'a> {
    /// `$private/to/<user>` or `$private/to/<user>/<id>`: a private message.
    Private {
        /// The recipient.
        user: Cow<'a, str>,
        /// Where the result goes: `$reply/<id>`.
        reply: Option<&'a str>,
    },
    /// `$room/<room>/say`.
    Say {
        /// The room.
        room: &'a str,
    },
    /// `$room/<room>/call/<name>` or `$room/<room>/call/<name>/<id>`: for the room's own code.
    RoomCall {
        /// The room.
        room: &'a str,
        /// What is called.
        procedure: &'a str,
        /// Where the answer goes: `$reply/<id>`.
        reply: Option<&'a str>,
    },
    /// `$call/<name>` or `$call/<name>/<id>`.
    Call {
        /// The procedure.
        procedure: &'a str,
        /// Where the answer goes: `$reply/<id>`.
        reply: Option<&'a str>,
    },
    /// `$answer/<number>`: what a client says to a call that it was asked to serve.
    Answer {
        /// The number of the call, as it stood in the topic by which it came.
        number: u64,
    },
}

/// Why a topic of a zone's tree cannot be published to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAddress {
    /// It is none of a zone's topics: ordinary rules apply.
    Elsewhere,
    /// Only the server publishes there: what it says about senders and members cannot be forged.
    ServerOnly,
    /// A level is missing, is empty, or is one too many.
    Malformed,
    /// Behind `$private/` stands something else than `to` and `from`.
    NoBranch,
    /// A `%` in a name that two hexadecimal digits do not follow, or bytes that are not UTF-8.
    BadEscape,
    /// A name is longer than those of users and procedures may be.
    TooLong,
}

impl NotAddress {
    /// A sentence for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Elsewhere => "not one of the zone's topics",
            Self::ServerOnly => "only the server publishes to this topic",
            Self::Malformed => "the topic does not have the levels that it needs",
            Self::NoBranch => "private messages go to $private/to/USER, not to another word",
            Self::BadEscape => "two hexadecimal digits of UTF-8 have to follow a % in a name",
            Self::TooLong => "a name has at most 255 bytes",
        }
    }
}

impl fmt::Display for NotAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for NotAddress {}

impl<'a> Address<'a> {
    /// Reads the topic of a publish.
    ///
    /// # Errors
    /// Why nothing is meant by it; see [`NotAddress`].
    pub fn parse(topic: &'a str) -> Result<Self, NotAddress> {
        let (tree, rest) = topic.split_once('/').unwrap_or((topic, ""));
        match tree {
            "$private" => Self::private(rest),
            "$room" => Self::room(rest),
            "$call" => Self::call(rest),
            "$answer" => Self::answer(rest),
            "$rooms" | "$presence" | "$reply" | "$serve" => Err(NotAddress::ServerOnly),
            _ => Err(NotAddress::Elsewhere),
        }
    }

    /// The topic that the right to publish is asked about: for private messages and calls the
    /// shortest form, however the name is written and whatever id follows it; `topic` is what was
    /// read.
    #[must_use]
    pub fn right(&self, topic: &'a str) -> Cow<'a, str> {
        match self {
            Self::Private { user, .. } => topic::private_to_as(user, topic),
            Self::Call { procedure, .. } => topic::call(procedure).into(),
            // A user that may speak in a room may call it.
            Self::RoomCall { room, .. } => topic::say(room).into(),
            Self::Say { .. } | Self::Answer { .. } => topic.into(),
        }
    }

    fn private(rest: &'a str) -> Result<Self, NotAddress> {
        let (branch, rest) = rest.split_once('/').unwrap_or((rest, ""));
        match branch {
            "to" => {}
            "from" => return Err(NotAddress::ServerOnly),
            "" => return Err(NotAddress::Malformed),
            _ => return Err(NotAddress::NoBranch),
        }
        let (user, reply) = with_reply(rest)?;
        if user.len() > LEVEL_BYTES_MAX {
            return Err(NotAddress::TooLong);
        }
        let user = decode_name(user).ok_or(NotAddress::BadEscape)?;
        if user.len() > NAME_BYTES_MAX {
            return Err(NotAddress::TooLong);
        }
        Ok(Self::Private { user, reply })
    }

    fn room(rest: &'a str) -> Result<Self, NotAddress> {
        let (room, below) = rest.split_once('/').ok_or(NotAddress::Malformed)?;
        check_name(room).map_err(|_| NotAddress::Malformed)?;
        match below.split_once('/') {
            None if below == "say" => Ok(Self::Say { room }),
            Some(("call", rest)) => {
                let (procedure, reply) = procedure(rest)?;
                Ok(Self::RoomCall {
                    room,
                    procedure,
                    reply,
                })
            }
            _ => Err(NotAddress::ServerOnly),
        }
    }

    fn call(rest: &'a str) -> Result<Self, NotAddress> {
        let (procedure, reply) = procedure(rest)?;
        Ok(Self::Call { procedure, reply })
    }

    fn answer(rest: &'a str) -> Result<Self, NotAddress> {
        // As the server writes it: a sign or a zero before it would be another number's name.
        let number = rest.parse().map_err(|_| NotAddress::Malformed)?;
        match rest.as_bytes() {
            [b'1'..=b'9', ..] => Ok(Self::Answer { number }),
            _ => Err(NotAddress::Malformed),
        }
    }
}

/// The name of a procedure, and where the answer goes.
fn procedure(rest: &str) -> Result<(&str, Option<&str>), NotAddress> {
    let (name, reply) = with_reply(rest)?;
    match name.len() > NAME_BYTES_MAX {
        true => Err(NotAddress::TooLong),
        false => Ok((name, reply)),
    }
}

/// `<name>` or `<name>/<id>`.
fn with_reply(rest: &str) -> Result<(&str, Option<&str>), NotAddress> {
    let (name, reply) = match rest.split_once('/') {
        Some((name, id)) => (name, Some(id)),
        None => (rest, None),
    };
    let is_level = |text: &str| check_name(text).is_ok();
    if name.is_empty() || reply.is_some_and(|id| !is_level(id)) {
        return Err(NotAddress::Malformed);
    }
    Ok((name, reply))
}

/// What a client means that subscribes to a filter beginning with `$`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest<'a> {
    /// `$private/from/…`: its own inbox.
    Inbox,
    /// `$room/<room>/…`: it wants to be in the room.
    Room {
        /// The room.
        room: &'a str,
    },
    /// `$rooms/…`: the list of rooms.
    RoomList,
    /// `$presence/…`: who is there.
    Presence,
    /// `$reply/…`: the answers to its calls.
    Replies,
    /// `$serve/…`: the calls that it serves.
    Calls,
    /// A wildcard or nothing stands where a room's name should: that never joins anything.
    NoRoom,
    /// `$private/…`, but nothing that ever arrives.
    NoInbox,
    /// None of a zone's filters: ordinary rules apply.
    Elsewhere,
}

/// Of filters that name no room.
const NO_ROOM: &str = "the name of a room has to follow $room/, without a wildcard and with at most \
                       255 bytes, and then what to receive of it, as in $room/tea/#";

impl<'a> Interest<'a> {
    /// Reads a topic filter, without `$share/<group>/`.
    #[must_use]
    pub fn parse(filter: &'a str) -> Self {
        let (tree, rest) = filter.split_once('/').unwrap_or((filter, ""));
        match tree {
            "$private" => match rest.split_once('/') {
                Some(("from" | "+", below)) if !below.is_empty() => Self::Inbox,
                None if rest == "#" => Self::Inbox,
                _ => Self::NoInbox,
            },
            "$room" => match rest.split_once('/') {
                Some((room, below)) if check_name(room).is_ok() && !below.is_empty() => {
                    Self::Room { room }
                }
                _ => Self::NoRoom,
            },
            "$rooms" => Self::RoomList,
            "$presence" => Self::Presence,
            "$reply" => Self::Replies,
            "$serve" => Self::Calls,
            _ => Self::Elsewhere,
        }
    }

    /// Why no right in the world grants such a filter, as a sentence for people; `None` where it
    /// is a question of rights.
    #[must_use]
    pub const fn never(self, is_shared: bool) -> Option<&'static str> {
        match self {
            Self::Elsewhere => None,
            Self::NoInbox => Some("private messages arrive below $private/from/"),
            Self::NoRoom => Some(NO_ROOM),
            _ if is_shared => Some("the topics of a zone cannot be shared"),
            Self::Inbox | Self::Room { .. } | Self::RoomList => None,
            Self::Presence | Self::Replies | Self::Calls => None,
        }
    }
}

/// Where private messages are routed: every user has a tree of its own, `$private/to/<user>/…`, in
/// which its subscriptions to `$private/…` stand. Nobody subscribes or publishes there by name.
pub mod inbox {
    use super::{Cow, String, encode_name};
    use alloc::format;

    const OWN: &str = "$private/";
    const TREE: &str = "$private/to/";

    /// Where a user's subscription to this filter, which begins with `$private/`, stands.
    #[must_use]
    pub fn filter(user: &str, filter: &str) -> String {
        let below = filter.strip_prefix(OWN).unwrap_or(filter);
        format!("{TREE}{}/{below}", encode_name(user))
    }

    /// Where a message to a user is routed.
    #[must_use]
    pub fn route(user: &str, sender: &str) -> String {
        let mut route = String::new();
        write_route(user, sender, &mut route);
        route
    }

    /// The same, in the place of what the buffer holds: for the way of every message.
    pub fn write_route(user: &str, sender: &str, out: &mut String) {
        out.clear();
        for part in [TREE, &encode_name(user), "/from/", &encode_name(sender)] {
            out.push_str(part);
        }
    }

    /// A filter as its subscriber wrote it: the inverse of [`filter`] for those, any other filter
    /// as it is.
    #[must_use]
    pub fn written(filter: &str) -> Cow<'_, str> {
        let below = filter
            .strip_prefix(TREE)
            .and_then(|rest| rest.split_once('/'));
        match below {
            Some((_, below)) => format!("{OWN}{below}").into(),
            None => filter.into(),
        }
    }
}

/// Makes the topics on which the server itself publishes in a zone.
pub mod topic {
    use super::{Cow, String, encode_name};
    use alloc::format;

    /// Where a private message arrives: `$private/from/<sender>`.
    #[must_use]
    pub fn private_from(sender: &str) -> String {
        let mut topic = String::new();
        write_private_from(sender, &mut topic);
        topic
    }

    /// The same, in the place of what the buffer holds: for the way of every message.
    pub fn write_private_from(sender: &str, out: &mut String) {
        out.clear();
        out.push_str("$private/from/");
        out.push_str(&encode_name(sender));
    }

    /// What rights to write to a user are asked about, however the publisher wrote the name and
    /// whatever follows it: `$private/to/<user>`.
    #[must_use]
    pub fn private_to(user: &str) -> String {
        format!("$private/to/{}", encode_name(user))
    }

    /// The same for a user who was read out of `topic`: usually that is it already.
    #[must_use]
    pub fn private_to_as<'t>(user: &str, topic: &'t str) -> Cow<'t, str> {
        let name = topic.strip_prefix("$private/to/");
        match encode_name(user) {
            Cow::Borrowed(level) if name == Some(level) => topic.into(),
            _ => private_to(user).into(),
        }
    }

    /// What the right to call a procedure is asked about, whatever follows it: `$call/<name>`.
    #[must_use]
    pub fn call(procedure: &str) -> String {
        format!("$call/{procedure}")
    }

    /// Where the code of a room is called: `$room/<room>/call/<name>`.
    #[must_use]
    pub fn call_room(room: &str, name: &str) -> String {
        format!("$room/{room}/call/{name}")
    }

    /// Where a call comes to a client that serves it: `$serve/<procedure>/<number>`.
    #[must_use]
    pub fn serve(procedure: &str, number: u64) -> String {
        format!("$serve/{procedure}/{number}")
    }

    /// Where that client answers: `$answer/<number>`.
    #[must_use]
    pub fn answer(number: u64) -> String {
        format!("$answer/{number}")
    }

    /// How the topics of answers begin.
    pub const REPLIES: &str = "$reply/";

    /// Where an answer goes: `$reply/<id>`.
    #[must_use]
    pub fn reply(id: &str) -> String {
        format!("$reply/{id}")
    }

    /// Where members of a room publish: `$room/<room>/say`.
    #[must_use]
    pub fn say(room: &str) -> String {
        format!("$room/{room}/say")
    }

    /// Where a user is heard: `$room/<room>/say/<user>`.
    #[must_use]
    pub fn said(room: &str, user: &str) -> String {
        format!("$room/{room}/say/{}", encode_name(user))
    }

    /// What happened in a room: `$room/<room>/event`.
    #[must_use]
    pub fn event(room: &str) -> String {
        format!("$room/{room}/event")
    }

    /// A member, retained while it is one: `$room/<room>/member/<user>`.
    #[must_use]
    pub fn member(room: &str, user: &str) -> String {
        format!("$room/{room}/member/{}", encode_name(user))
    }

    /// A property, retained while it has a value: `$room/<room>/prop/<name>`.
    #[must_use]
    pub fn property(room: &str, name: &str) -> String {
        format!("$room/{room}/prop/{name}")
    }

    /// The room in the list of rooms, retained while it exists: `$rooms/<room>`.
    #[must_use]
    pub fn listed(room: &str) -> String {
        format!("$rooms/{room}")
    }

    /// Whether a user is there, retained: `$presence/<user>`.
    #[must_use]
    pub fn presence(user: &str) -> String {
        format!("$presence/{}", encode_name(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_publish_means_what_the_table_says() {
        let private = |user: &'static str, reply| {
            Ok(Address::Private {
                user: user.into(),
                reply,
            })
        };
        for (topic, meant) in [
            ("$private/to/bob", private("bob", None)),
            ("$private/to/bob/7", private("bob", Some("7"))),
            ("$private/to/a%2fb", private("a/b", None)),
            ("$private/to/", Err(NotAddress::Malformed)),
            ("$private/to/bob/", Err(NotAddress::Malformed)),
            ("$private/to/bob/1/2", Err(NotAddress::Malformed)),
            ("$private/to/%", Err(NotAddress::BadEscape)),
            ("$private/to/b%zz", Err(NotAddress::BadEscape)),
            ("$private/to/b%ff/1", Err(NotAddress::BadEscape)),
            ("$private/from/bob", Err(NotAddress::ServerOnly)),
            ("$private", Err(NotAddress::Malformed)),
            ("$private/to", Err(NotAddress::Malformed)),
            ("$private/other/x", Err(NotAddress::NoBranch)),
            ("$private//x", Err(NotAddress::Malformed)),
            ("$room/tea/say", Ok(Address::Say { room: "tea" })),
            (
                "$room/tea/call/move/7",
                Ok(Address::RoomCall {
                    room: "tea",
                    procedure: "move",
                    reply: Some("7"),
                }),
            ),
            (
                "$room/tea/call/move",
                Ok(Address::RoomCall {
                    room: "tea",
                    procedure: "move",
                    reply: None,
                }),
            ),
            ("$room/tea/call", Err(NotAddress::ServerOnly)),
            ("$room/tea/call/", Err(NotAddress::Malformed)),
            ("$room/tea/call/move/7/8", Err(NotAddress::Malformed)),
            ("$room/tea/say/bob", Err(NotAddress::ServerOnly)),
            ("$room/tea/event", Err(NotAddress::ServerOnly)),
            ("$room/tea", Err(NotAddress::Malformed)),
            ("$room//say", Err(NotAddress::Malformed)),
            ("$rooms/tea", Err(NotAddress::ServerOnly)),
            ("$presence/bob", Err(NotAddress::ServerOnly)),
            ("$reply/1", Err(NotAddress::ServerOnly)),
            ("$SYS/x", Err(NotAddress::Elsewhere)),
            ("a/b", Err(NotAddress::Elsewhere)),
            (
                "$call/room.create/9",
                Ok(Address::Call {
                    procedure: "room.create",
                    reply: Some("9"),
                }),
            ),
            ("$call/", Err(NotAddress::Malformed)),
            ("$serve/check/1", Err(NotAddress::ServerOnly)),
            ("$answer/17", Ok(Address::Answer { number: 17 })),
            ("$answer", Err(NotAddress::Malformed)),
            ("$answer/", Err(NotAddress::Malformed)),
            ("$answer/0", Err(NotAddress::Malformed)),
            ("$answer/+1", Err(NotAddress::Malformed)),
            ("$answer/01", Err(NotAddress::Malformed)),
            ("$answer/1/2", Err(NotAddress::Malformed)),
            ("$answer/18446744073709551616", Err(NotAddress::Malformed)),
        ] {
            assert_eq!(Address::parse(topic), meant, "{topic}");
        }
    }

    #[test]
    fn a_name_that_nobody_can_have_is_refused() {
        for (tree, piece, count, fits) in [
            ("$private/to/", "x", 255, true),
            ("$private/to/", "x", 256, false),
            ("$private/to/", "%41", 255, true),
            ("$private/to/", "%41", 256, false),
            ("$private/to/", "%41", 1_000, false),
            // Too long to look at.
            ("$private/to/", "%zz", 256, false),
            ("$call/", "x", 255, true),
            ("$call/", "x", 256, false),
            ("$call/", "%41", 1_000, false),
        ] {
            let topic = format!("{tree}{}", piece.repeat(count));
            let is_too_long = Address::parse(&topic) == Err(NotAddress::TooLong);
            assert_eq!(!is_too_long, fits, "{tree}{count} times {piece}");
        }
    }

    #[test]
    fn every_user_has_an_inbox_of_its_own() {
        for (user, filter, stands) in [
            ("bob", "$private/from/+", "$private/to/bob/from/+"),
            ("bob", "$private/#", "$private/to/bob/#"),
            ("a/b", "$private/from/bob", "$private/to/a%2fb/from/bob"),
            ("+", "$private/+/x", "$private/to/%2b/+/x"),
        ] {
            assert_eq!(inbox::filter(user, filter), stands);
            assert_eq!(inbox::written(stands), filter);
        }
        assert_eq!(inbox::written("a/b"), "a/b");
        let route = inbox::route("a/b", "ann");
        assert_eq!(route, "$private/to/a%2fb/from/ann");
        for (filter, arrives) in [
            ("$private/from/+", true),
            ("$private/from/#", true),
            ("$private/#", true),
            ("$private/from/ann", true),
            ("$private/from/bob", false),
        ] {
            let stands = inbox::filter("a/b", filter);
            assert_eq!(stentor_topic::matches(&stands, &route), arrives, "{filter}");
            let stands = inbox::filter("a", filter);
            assert!(!stentor_topic::matches(&stands, &route), "{filter}");
        }
    }

    /// However the publisher wrote the name, rights are asked about its shortest form.
    #[test]
    fn a_name_is_asked_about_in_its_shortest_form() {
        for (topic, asked) in [
            ("$private/to/bob", "$private/to/bob"),
            ("$private/to/bob/7", "$private/to/bob"),
            ("$private/to/%62ob", "$private/to/bob"),
            ("$private/to/a%2Fb", "$private/to/a%2fb"),
            ("$private/to/a$b", "$private/to/a%24b"),
        ] {
            let Ok(Address::Private { user, .. }) = Address::parse(topic) else {
                panic!("{topic} is no private message");
            };
            assert_eq!(topic::private_to_as(&user, topic), asked);
            // The alias of a topic leaves nothing to look at.
            assert_eq!(topic::private_to_as(&user, ""), asked);
        }
    }

    #[test]
    fn a_filter_means_what_the_table_says() {
        let tea = Interest::Room { room: "tea" };
        for (filter, meant) in [
            ("$room/tea/#", tea),
            ("$room/tea/say/+", tea),
            ("$room/tea/event", tea),
            ("$room/+/say/#", Interest::NoRoom),
            ("$room/#", Interest::NoRoom),
            ("$room/tea", Interest::NoRoom),
            ("$room/tea/", Interest::NoRoom),
            ("$private/from/+", Interest::Inbox),
            ("$private/from/bob", Interest::Inbox),
            ("$private/#", Interest::Inbox),
            ("$private/+/bob", Interest::Inbox),
            ("$private/to/bob", Interest::NoInbox),
            ("$private/from", Interest::NoInbox),
            ("$private/from/", Interest::NoInbox),
            ("$private", Interest::NoInbox),
            ("$rooms/+", Interest::RoomList),
            ("$presence/#", Interest::Presence),
            ("$reply/+", Interest::Replies),
            ("$serve/check/+", Interest::Calls),
            ("#", Interest::Elsewhere),
            ("a/b", Interest::Elsewhere),
        ] {
            assert_eq!(Interest::parse(filter), meant, "{filter}");
        }
    }
}
