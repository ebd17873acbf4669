//! The protocols of mail servers from outside.

mod milter;
mod policy;
