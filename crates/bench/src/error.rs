//! Why a measurement could not be made, or was cut short.

use std::io;

/// A measurement that could not run, or not to its end. Loss or slowness of a server is a result,
/// never an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A system call failed; `doing` is verb and object.
    #[error("cannot {doing}: {source}")]
    Io {
        /// Verb and object, as in "start mosquitto".
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server refused or did not answer.
    #[error("{0}")]
    Server(String),
    /// A connection that was established broke, or what had to come over it did not: that is a
    /// result, and the run has failed.
    #[error("{0}")]
    Broken(String),
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The reader of the results has left.
    #[error("nobody reads the results any more")]
    NobodyReads,
}

/// Says what was being done when a system call failed.
pub(crate) trait Doing<T> {
    /// Wraps the error; `doing` is verb and object.
    fn doing(self, doing: impl Into<String>) -> Result<T, BenchError>;

    /// The same over an established connection.
    fn over_link(self, doing: &str) -> Result<T, BenchError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: impl Into<String>) -> Result<T, BenchError> {
        self.map_err(|e| BenchError::Io {
            doing: doing.into(),
            source: e.into(),
        })
    }

    fn over_link(self, doing: &str) -> Result<T, BenchError> {
        self.map_err(|e| BenchError::broken(format!("cannot {doing}: {}", e.into())))
    }
}

impl BenchError {
    pub(crate) fn server(text: impl Into<String>) -> Self {
        Self::Server(text.into())
    }

    pub(crate) fn broken(text: impl Into<String>) -> Self {
        Self::Broken(text.into())
    }

    /// The same, where everything that came before it went well: a server that refuses in the
    /// middle has failed.
    pub(crate) fn midway(self) -> Self {
        match self {
            Self::Server(why) => Self::Broken(why),
            other => other,
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }
}
