//! What the command lines of Stentor's programs say of themselves, made from their `clap` commands:
//! tips beside what a parser finds wrong, and their pages of the reference.

#![forbid(unsafe_code)]

mod page;
mod refusal;

pub use page::Page;
pub use refusal::{mended, readable, show, verb};
