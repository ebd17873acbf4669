//! Which clients write to which.

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// Each writes private messages to itself.
    Private,
    /// The same, and an adaptor is asked about each.
    Adaptor,
    /// Each writes to a topic of its own.
    OwnTopic,
    /// All are in one room; what one says all hear.
    Room,
    /// All subscribe to one ordinary topic.
    Topic,
}

impl Scene {
    /// Whether all hear what one says.
    pub(super) const fn is_shared(self) -> bool {
        match self {
            Self::Room | Self::Topic => true,
            Self::Private | Self::Adaptor | Self::OwnTopic => false,
        }
    }

    /// What each does, for people.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Private => "a private message to itself",
            Self::Adaptor => "a private message to itself, which an adaptor allows,",
            Self::OwnTopic => "a message to a topic of its own",
            Self::Room => "a word to the room that all are in",
            Self::Topic => "a message to the topic that all hear",
        }
    }

    /// For machines.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Adaptor => "adaptor",
            Self::OwnTopic => "own-topic",
            Self::Room => "room",
            Self::Topic => "topic",
        }
    }

    /// What our own server is configured with besides.
    pub(super) const fn config(self) -> &'static str {
        match self {
            Self::Adaptor => "[[adaptor]]\nfile = \"FOLDER/allow.luau\"\n",
            Self::Private | Self::OwnTopic | Self::Room | Self::Topic => "",
        }
    }

    /// The files that it needs.
    pub(super) const fn files(self) -> &'static [(&'static str, &'static str)] {
        const ALLOW: &str = "return { private = function(event)\n    return nil\nend }\n";
        match self {
            Self::Adaptor => &[("allow.luau", ALLOW)],
            Self::Private | Self::OwnTopic | Self::Room | Self::Topic => &[],
        }
    }
}
