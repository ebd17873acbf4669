//! Why a measurement could not be made.

use std::io;

/// A measurement that could not run. Loss or slowness of a server is a result, never an error.
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
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Whoever read the results has left.
    #[error("nobody reads the results any more")]
    NobodyReads,
}

/// Says what was being done when a system call failed.
pub(crate) trait Doing<T> {
    /// Wraps the error; `doing` is verb and object.
    fn doing(self, doing: impl Into<String>) -> Result<T, BenchError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: impl Into<String>) -> Result<T, BenchError> {
        self.map_err(|e| BenchError::Io {
            doing: doing.into(),
            source: e.into(),
        })
    }
}

impl BenchError {
    pub(crate) fn server(text: impl Into<String>) -> Self {
        Self::Server(text.into())
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }
}
