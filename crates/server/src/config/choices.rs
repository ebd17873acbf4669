//! What keys choose from by name.

use stentor_auth::credential::Cost;
use stentor_hub::{ClientIdBinding, Keep, SlowPolicy, WideSubscription};

use super::table::{choice, choice_of};
use super::value::{Setting, Value};

choice! {
    /// The least important lines that the log takes.
    Level {
        /// What went wrong and needs somebody's attention.
        Error = "error",
        /// What looks wrong but was dealt with.
        Warn = "warn",
        /// One line per connection event.
        Info = "info",
        /// Details that help to find a fault.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

choice! {
    /// The shape of log lines.
    Format {
        /// For people: in colour on a terminal, without a time stamp under systemd.
        Auto = "auto",
        /// For people, always with a time stamp and never in colour.
        Human = "human",
        /// One JSON object per line.
        Json = "json",
    }
}

choice! {
    /// What happens to a message for a queue that is full.
    QueueFull {
        /// The arriving message is dropped.
        DropNewest = "drop-newest",
        /// The oldest messages are dropped to make room.
        DropOldest = "drop-oldest",
    }
}

choice! {
    /// When retained messages are written to the disk.
    SyncLevel {
        /// When the operating system likes.
        Never = "never",
        /// After an interval at the latest.
        Interval = "interval",
        /// Before they are acknowledged.
        Always = "always",
    }
}

choice! {
    /// When what is written down of sessions is brought to the disk.
    SessionSync {
        /// When the operating system likes.
        Never = "never",
        /// After an interval at the latest.
        Interval = "interval",
        /// Before it is acknowledged.
        Always = "always",
    }
}

choice! {
    /// The functions that new passwords are hashed with.
    PasswordFunction {
        /// argon2id with 19 MiB and two passes.
        Argon2id = "argon2id",
        /// PBKDF2 with SHA-256 and 600,000 rounds.
        Pbkdf2Sha256 = "pbkdf2-sha256",
        /// PBKDF2 with SHA-512 and 210,000 rounds.
        Pbkdf2Sha512 = "pbkdf2-sha512",
        /// scrypt with 128 MiB.
        Scrypt = "scrypt",
        /// bcrypt with 2^12 rounds.
        Bcrypt = "bcrypt",
    }
}

impl PasswordFunction {
    /// The function of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::from_value(Value::Text(name.to_owned()))
    }

    /// What a hash of a new password costs.
    #[must_use]
    pub const fn cost(self) -> Cost {
        match self {
            Self::Argon2id => Cost::DEFAULT,
            Self::Pbkdf2Sha256 => Cost::PBKDF2_SHA256,
            Self::Pbkdf2Sha512 => Cost::PBKDF2_SHA512,
            Self::Scrypt => Cost::SCRYPT,
            Self::Bcrypt => Cost::BCRYPT,
        }
    }
}

choice! {
    /// Whether clients of an encrypted listener show certificates.
    ClientCertificates {
        /// They are not asked for one.
        Off = "off",
        /// They may show one; one that is not valid is refused.
        Optional = "optional",
        /// They must show a valid one.
        Required = "required",
    }
}

choice! {
    /// Which name in a client's certificate is the name of the user that it logs in as.
    CertificateUser {
        /// None: the certificate lets a client talk to the server, and it logs in as usual.
        None = "none",
        /// The common name of the subject.
        Cn = "cn",
        /// The first DNS name of the alternative names.
        Dns = "dns",
        /// The first mail address of the alternative names.
        Email = "email",
        /// The first URI of the alternative names.
        Uri = "uri",
    }
}

choice_of! {
    SLOW_POLICIES: SlowPolicy {
        DropNewest = "drop-newest",
        DropOldest = "drop-oldest",
        Disconnect = "disconnect",
        Conflate = "conflate",
    }
}

choice_of! {
    WIDE_SUBSCRIPTIONS: WideSubscription {
        Filter = "filtered",
        Refuse = "strict",
    }
}

choice_of! {
    KEEPS: Keep {
        Retained = "retained",
        Last = "last",
        All = "all",
    }
}

choice_of! {
    CLIENT_ID_BINDINGS: ClientIdBinding {
        None = "none",
        UserPrefix = "user-prefix",
        Owner = "owner",
    }
}
