//! The client whose rights are asked about: the names that placeholders stand for.

use std::sync::Arc;

/// The names of one client, for the placeholders `{user}`, `{client}` and `{zone}`.
#[derive(Clone, Debug, Default)]
pub struct Who {
    user: Name,
    client: Name,
    zone: Name,
}

/// What a placeholder stands for.
#[derive(Clone, Debug, Default)]
enum Name {
    /// Nobody has this name: an anonymous client, a client id that the server is to choose.
    #[default]
    Absent,
    /// It means something in topics, so that it stands for nothing.
    Unsafe,
    /// This.
    Usable(Arc<str>),
}

/// The placeholder of a name in a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    User,
    Client,
    Zone,
}

impl Placeholder {
    /// All of them, as patterns write them.
    pub(super) const ALL: [(&'static str, Self); 3] = [
        ("{user}", Self::User),
        ("{client}", Self::Client),
        ("{zone}", Self::Zone),
    ];
}

/// What a name gives a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expansion<'w> {
    /// Itself.
    Text(&'w str),
    /// Any text: only where that takes rights away.
    Any,
    /// Nothing: the rule is about nobody.
    Nothing,
}

impl Name {
    fn new(text: Option<Arc<str>>) -> Self {
        match text {
            None => Self::Absent,
            Some(text) if text.is_empty() => Self::Absent,
            Some(text) if text.contains(['/', '+', '#', '\0']) => Self::Unsafe,
            Some(text) => Self::Usable(text),
        }
    }
}

impl Who {
    /// These names; `None` and the empty name expand no placeholder, nor does one that contains
    /// `/`, `+` or `#`.
    #[must_use]
    pub fn new(user: Option<Arc<str>>, client_id: Option<Arc<str>>, zone: Arc<str>) -> Self {
        Self {
            user: Name::new(user),
            client: Name::new(client_id),
            zone: Name::new(Some(zone)),
        }
    }

    pub(super) fn expand(&self, placeholder: Placeholder) -> Expansion<'_> {
        let name = match placeholder {
            Placeholder::User => &self.user,
            Placeholder::Client => &self.client,
            Placeholder::Zone => &self.zone,
        };
        match name {
            Name::Absent => Expansion::Nothing,
            Name::Unsafe => Expansion::Any,
            Name::Usable(text) => Expansion::Text(text),
        }
    }
}
