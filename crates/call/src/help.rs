//! What `--help` prints.

/// The help. The reference page of all commands has it as well.
pub(crate) const TEXT: &str = include_str!("help.txt");

/// What a command line looks like.
pub(crate) const USAGE: &str = "usage: stentor-call [OPTIONS] /PROCEDURE [-KEY VALUE]...";

/// The version, as a line.
pub(crate) const VERSION: &str = concat!("stentor-call ", env!("CARGO_PKG_VERSION"), "\n");
