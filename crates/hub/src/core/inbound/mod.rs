//! What clients send, packet by packet.

pub(crate) mod acknowledge;
pub(crate) mod flood;
pub(crate) mod hold;
pub(crate) mod publish;
pub(crate) mod receive;
pub(crate) mod subscribe;
