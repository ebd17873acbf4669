//! The way of a message: where it goes that is published to one of a zone's topics, by which topic
//! it arrives, and which adaptors are asked about it.

use std::borrow::Cow;

use stentor_control::adaptors::Adaptor;
use stentor_zone::{Address, topic as zone_topic};

use super::{Check, Party, State};
use crate::context::ServerContext;

/// What happens to a message of a topic.
pub(super) enum Way<'t> {
    /// It goes to all who subscribe to its topic.
    Usual,
    /// It goes to the sessions of one user.
    Private {
        /// The recipient.
        user: Cow<'t, str>,
    },
    /// It is said in a room.
    Said {
        /// The room.
        room: &'t str,
    },
}

impl<'t> Way<'t> {
    pub(super) fn of(topic: &'t str) -> Self {
        match Address::parse(topic) {
            Ok(Address::Private { user, .. }) => Self::Private { user },
            Ok(Address::Say { room }) => Self::Said { room },
            _ => Self::Usual,
        }
    }

    /// Whether it is the same topic by which the message arrives.
    pub(super) const fn is_usual(&self) -> bool {
        matches!(self, Self::Usual)
    }

    /// The topic by which the message arrives that this user publishes. Of a user who is not known
    /// the name is empty: the filters match that take the messages of everybody.
    pub(super) fn arrives(&self, topic: &'t str, publisher: Option<&str>) -> Cow<'t, str> {
        let name = publisher.unwrap_or_default();
        match self {
            Self::Usual => topic.into(),
            Self::Private { .. } => zone_topic::private_from(name).into(),
            Self::Said { room } => zone_topic::said(room, name).into(),
        }
    }

    /// The same for people.
    pub(super) fn shown(&self, topic: &'t str, publisher: Option<&str>) -> String {
        let arrives = self.arrives(topic, publisher);
        match publisher.is_none() && !self.is_usual() {
            true => format!("{arrives}USER"),
            false => arrives.into_owned(),
        }
    }

    /// Whether this client is among those to whom a private message goes.
    pub(super) fn recipient(&self, party: &Party) -> Option<Check> {
        let Self::Private { user } = self else {
            return None;
        };
        let what = "recipient";
        let whom = format!(
            "private messages to {user:?} go to the sessions of this user that subscribe to \
             $private/from/+ or $private/#"
        );
        let client = &party.client_id;
        Some(match party.name() {
            Some(name) if *name == **user => Check::new(
                what,
                State::Good,
                format!("{whom}; {client:?} is a session of it"),
            ),
            Some(name) => {
                let text = format!("{whom}; {client:?} is a session of the user {name:?}");
                let remedy = format!(
                    "publish to {}, or ask about a client of {user:?}: `stentor clients ls` shows \
                     the user of each",
                    zone_topic::private_to(name)
                );
                Check::new(what, State::Bad, text).with_remedy(remedy)
            }
            None => {
                let text = format!("{whom}; {client:?} has no user name");
                let remedy = format!("let it log in as {user:?}");
                Check::new(what, State::Bad, text).with_remedy(remedy)
            }
        })
    }

    /// Whether the publisher is what it has to be for this.
    pub(super) fn sender(&self, party: &Party) -> Option<Check> {
        let session = party.session.as_ref()?;
        match self {
            Self::Private { .. } if party.name().is_none() => {
                let text = "private messages need a login with a user name, and it has none";
                Some(Check::new("sender", State::Bad, text).with_remedy("let it log in"))
            }
            Self::Said { room } if session.delivering.is_in_room == Some(false) => {
                let text = format!(
                    "its connection has no subscription below $room/{room}/, and only members \
                     speak there"
                );
                let remedy = format!("let it subscribe to $room/{room}/# first");
                let check = Check::new("in the room", State::Note, text).with_remedy(remedy);
                Some(check.with_lead("if another connection makes its user a member"))
            }
            Self::Usual | Self::Private { .. } | Self::Said { .. } => None,
        }
    }

    /// Adaptors that may refuse or change the message.
    pub(super) fn adaptors(&self, context: &ServerContext, zone: &str) -> Option<Check> {
        let (hook, room, about) = match self {
            Self::Usual => ("publish", None, "message"),
            Self::Private { .. } => ("private", None, "private message"),
            Self::Said { room } => ("say", Some(*room), "message that is said in this room"),
        };
        let all = context.adaptors.asked(zone, hook, room);
        let names: Vec<String> = all.iter().map(named).collect();
        (!names.is_empty()).then(|| {
            let text = format!(
                "{} decides about each {about}: it may refuse or change it",
                names.join(", then ")
            );
            let check = Check::new("adaptors", State::Note, text).with_remedy(
                "`stentor adaptor ls` lists the adaptors, with how often each has run and failed",
            );
            check.with_lead("unless an adaptor refuses it")
        })
    }
}

/// An adaptor, with what was wrong with it.
fn named(one: &Adaptor) -> String {
    let file = &one.file;
    match one.failures {
        0 => format!("the adaptor {file}"),
        times => format!("the adaptor {file} (which has failed {times} times)"),
    }
}
