//! The call protocol from outside.

mod codec;
mod format;
mod order;
mod refusal;
