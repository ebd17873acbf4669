//! What stands around the core: each service owns its state, and uses what the core offers.

pub(crate) mod calls;
pub(crate) mod hooks;
pub(crate) mod private;
pub(crate) mod rooms;
pub(crate) mod serving;
