//! The shape of the configuration table: what a key declares about itself.

use super::kind::Kind;

/// When a changed key takes effect on a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reload {
    /// At once, for everything that is connected.
    Live,
    /// For connections that are made after the reload; the others keep what they have.
    NewConnections,
    /// When the server is started again.
    Restart,
}

impl Reload {
    /// The class as the reference page names it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::NewConnections => "new connections",
            Self::Restart => "restart",
        }
    }
}

/// What holds when a key is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// This value, written as in an environment variable.
    Value(&'static str),
    /// Nothing: the key is optional. The text is an example for the documents.
    Unset(&'static str),
    /// A problem: every entry of the section needs the key. The text is an example.
    Required(&'static str),
}

impl Fallback {
    /// The default, or the example where there is no default.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Value(text) | Self::Unset(text) | Self::Required(text) => text,
        }
    }
}

/// One configuration key: everything that parsing, the sample file, the reference page, the
/// command line and a reload need to know about it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The section that holds the key; empty for the keys at the top of the file.
    pub section: &'static str,
    /// The section is a list (`[[listener]]`), so the key exists once per entry.
    pub repeated: bool,
    /// The key's own name.
    pub name: &'static str,
    /// The type with its unit and range.
    pub kind: Kind,
    /// The default.
    pub fallback: Fallback,
    /// When a change takes effect.
    pub reload: Reload,
    /// The command line flag, without its dashes.
    pub flag: Option<&'static str>,
    /// What the key does, in a sentence.
    pub text: &'static str,
}

impl Key {
    /// The dotted path, for example `limits.packet_bytes`.
    #[must_use]
    pub fn path(&self) -> String {
        if self.section.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}.{}", self.section, self.name)
        }
    }

    /// The environment variable, for example `STENTOR_LIMITS__PACKET_BYTES`. In a list, `N` stands
    /// for the number of the entry, counted from 0.
    #[must_use]
    pub fn environment(&self) -> String {
        let name = self.name.to_uppercase();
        match (self.section, self.repeated) {
            ("", _) => format!("STENTOR_{name}"),
            (section, false) => format!("STENTOR_{}__{name}", section.to_uppercase()),
            (section, true) => format!("STENTOR_{}__N__{name}", section.to_uppercase()),
        }
    }

    /// The key takes a secret, so its variable also exists with `_FILE` appended.
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        matches!(
            self.kind,
            Kind::Secret | Kind::Password | Kind::Place { .. }
        )
    }
}

/// One section of the file with its keys.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// The name between the brackets; empty for the top of the file.
    pub name: &'static str,
    /// Whether the section is a list of entries (`[[listener]]`).
    pub repeated: bool,
    /// What the section is about.
    pub text: &'static str,
    /// Its keys in the order of the documents.
    pub keys: &'static [Key],
}

impl Section {
    /// The key of that name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The section's header in a file, for example `[[listener]]`; empty for the top.
    #[must_use]
    pub fn header(&self) -> String {
        match (self.name, self.repeated) {
            ("", _) => String::new(),
            (name, false) => format!("[{name}]"),
            (name, true) => format!("[[{name}]]"),
        }
    }
}

/// Declares a section: its struct, its entry in the table, how it is read and how it is compared.
///
/// The docstring of a field is the key's sentence in the sample file and on the reference page,
/// so each key is described exactly once.
macro_rules! section {
    (
        $(#[doc = $text:literal])+
        $name:ident = $section:literal, repeated: $repeated:literal;
        $(
            $(#[doc = $key_text:literal])+
            $field:ident: $type:ty = $kind:expr, $fallback:expr, $reload:ident
                $(, flag: $flag:literal)?;
        )+
    ) => {
        $(#[doc = $text])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $(
                $(#[doc = $key_text])+
                pub $field: $type,
            )+
        }

        impl $name {
            /// The section in the table of keys.
            pub const SECTION: Section = Section {
                name: $section,
                repeated: $repeated,
                text: concat!($($text),+),
                keys: &[$(Key {
                    section: $section,
                    repeated: $repeated,
                    name: stringify!($field),
                    kind: $kind,
                    fallback: $fallback,
                    reload: Reload::$reload,
                    flag: section!(@flag $($flag)?),
                    text: concat!($($key_text),+),
                }),+],
            };

            pub(super) fn read(reader: &mut Reader<'_>) -> Self {
                Self {
                    $($field: reader.value(&Self::SECTION, stringify!($field)),)+
                }
            }

            pub(super) fn changes(&self, new: &Self, at: &str, changes: &mut Vec<Change>) {
                $(
                    if self.$field != new.$field {
                        changes.push(Change::of(&Self::SECTION, stringify!($field), at));
                    }
                )+
            }
        }
    };
    (@flag $flag:literal) => { Some($flag) };
    (@flag) => { None };
}

/// Reads the values of an enum by their names.
macro_rules! by_name {
    ($type:ident { $( $variant:ident = $text:literal, )+ }) => {
        impl Setting for $type {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::Text(text) => match text.as_str() {
                        $( $text => Some(Self::$variant), )+
                        _ => None,
                    },
                    _ => None,
                }
            }
        }
    };
}

/// Declares an enum that a key chooses from by name.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )+ }

        impl $name {
            /// The names that a key of this type takes.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The name, as in the configuration file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )+ }
            }
        }

        impl core::default::Default for $name {
            /// A placeholder for the reader; the default of a key is in the table.
            fn default() -> Self { [$(Self::$variant),+][0] }
        }

        $crate::config::table::by_name! { $name { $( $variant = $text, )+ } }
    };
}

/// Lets keys choose from an enum of another crate by name, and says the names.
macro_rules! choice_of {
    ($names:ident: $type:ident { $( $variant:ident = $text:literal, )+ }) => {
        pub(super) const $names: &[&str] = &[$($text),+];

        $crate::config::table::by_name! { $type { $( $variant = $text, )+ } }
    };
}

pub(super) use {by_name, choice, choice_of, section};
