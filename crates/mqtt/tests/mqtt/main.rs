//! The codec from outside, and beside an oracle.

mod codec;
mod oracle;
