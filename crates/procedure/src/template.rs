//! What a new procedure begins as.

/// A script with a manifest, a test of its own and a verdict.
pub const SCRIPT: &str = include_str!("template.luau");

/// A message that [`SCRIPT`] refuses.
pub const MESSAGE: &str = include_str!("template.eml");
