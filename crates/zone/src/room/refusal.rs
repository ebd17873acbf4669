//! Why a room says no.

/// Why a room does not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All places are taken.
    Full,
    /// Nobody may come in now.
    Locked,
    /// Only members do that.
    NotMember,
    /// Only the owner and administrators do that.
    NotOwner,
    /// Another user holds the property's lock.
    PropertyLocked,
    /// The property does not have the expected value or version.
    Conflict,
    /// There is no such room, member or property.
    Unknown,
    /// There is such a room already.
    Exists,
    /// The name cannot be used.
    Name,
    /// The value or the payload is larger than a bound.
    TooLarge,
    /// As many rooms or properties as there may be.
    TooMany,
    /// The zone does not let users make rooms.
    NotAllowed,
    /// Users make no permanent rooms.
    Permanent,
    /// The room outlives the server, and its change could not be written down.
    Disk,
    /// The user may neither enter the room nor see it in the list of rooms.
    NoRight,
}

impl Refusal {
    /// A word for machines.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Locked => "locked",
            Self::NotMember => "not-member",
            Self::NotOwner => "not-owner",
            Self::PropertyLocked => "property-locked",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
            Self::Exists => "exists",
            Self::Name => "bad-name",
            Self::TooLarge => "too-large",
            Self::TooMany => "too-many",
            Self::Disk => "disk-full",
            Self::NotAllowed | Self::Permanent | Self::NoRight => "not-allowed",
        }
    }

    /// The reason code of MQTT 5 that says it in SUBACK and PUBACK.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Full | Self::TooMany | Self::TooLarge | Self::Disk => 0x97,
            Self::Locked | Self::PropertyLocked | Self::Conflict | Self::Exists => 0x83,
            Self::NotMember
            | Self::NotOwner
            | Self::NotAllowed
            | Self::Permanent
            | Self::NoRight => 0x87,
            Self::Unknown | Self::Name => 0x8F,
        }
    }

    /// A sentence for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Full => "the room is full",
            Self::Locked => "the room is locked",
            Self::NotMember => "you are not a member of the room",
            Self::NotOwner => "only the room's owner may do that",
            Self::PropertyLocked => "another user has locked the property",
            Self::Conflict => "the property has changed",
            Self::Unknown => "there is no such room, member or property",
            Self::Exists => "there is a room of this name already",
            Self::Name => "a name has 1 to 255 bytes, and none of / + # $ or control characters",
            Self::TooLarge => "larger than allowed",
            Self::TooMany => "as many as allowed are there already",
            Self::NotAllowed => "this zone's rooms are made by its administrators",
            Self::Permanent => "permanent rooms are made by administrators",
            Self::Disk => "the disk of the sessions is full, and the room is permanent",
            Self::NoRight => "the right to this room is missing",
        }
    }
}
