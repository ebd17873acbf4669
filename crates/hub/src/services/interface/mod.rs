//! What the services, the control plane and the adaptors say to each other.
//!
//! It is the same whichever of the services are compiled in, so none of these names another.

pub(crate) mod answer;
pub(crate) mod broadcast;
pub(crate) mod calls;
pub(crate) mod hooks;
pub(crate) mod message;
pub(crate) mod places;
pub(crate) mod rooms;
pub(crate) mod who;
