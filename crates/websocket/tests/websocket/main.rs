//! WebSocket from outside.

mod frames;
mod interop;
mod support;
mod upgrade;
