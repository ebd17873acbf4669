//! The exit codes of a server, in the manner of `sysexits.h`.

/// Why the process of a server ends with an exit code other than 0. Scripts may rely on the
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ServerExit {
    /// `EX_UNAVAILABLE`: another program has the port or socket.
    Taken = 69,
    /// `EX_SOFTWARE`: a part of the server failed.
    Bug = 70,
    /// `EX_OSERR`: the system refuses something.
    System = 71,
    /// `EX_CANTCREAT`: a folder cannot be used.
    Folder = 73,
    /// `EX_TEMPFAIL`: another process has the data folder.
    Busy = 75,
    /// `EX_NOPERM`: not permitted.
    Permission = 77,
    /// `EX_CONFIG`: the configuration is wrong.
    Configuration = 78,
}

impl ServerExit {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Taken,
        Self::Bug,
        Self::System,
        Self::Folder,
        Self::Busy,
        Self::Permission,
        Self::Configuration,
    ];

    /// What it means, as a sentence of the reference.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Taken => "Another program has the port or the Unix socket.",
            Self::Bug => "A shard failed. This is a bug.",
            Self::System => "The system refuses something, for example threads or descriptors.",
            Self::Folder => {
                "The data folder, the retained messages or the sessions cannot be used."
            }
            Self::Busy => "Another server or a command has the data folder open.",
            Self::Permission => "A port below 1024, or the owner of a socket, is not permitted.",
            Self::Configuration => "The configuration has an error.",
        }
    }

    /// What to do, as a sentence of the reference.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Taken => "Stop that program, or choose another `url` of the `[[listener]]`.",
            Self::Bug => "Start the server again, and report the log.",
            Self::System => "Raise the limit that the line names, often `LimitNOFILE`.",
            Self::Folder => "Repair the folder or its rights, or choose another `--data-dir`.",
            Self::Busy => "Stop the other process, or choose another `--data-dir`.",
            Self::Permission => {
                "Use a higher port, or give the service `AmbientCapabilities=CAP_NET_BIND_SERVICE`."
            }
            Self::Configuration => "Correct it. `stentor check-config` says what is wrong.",
        }
    }
}
