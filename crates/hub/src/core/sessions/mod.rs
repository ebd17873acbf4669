//! Sessions: how they begin and end, what they may do, and what they owe.

pub(crate) mod authenticate;
pub(crate) mod charge;
pub(crate) mod client_id;
pub(crate) mod command_rate;
pub(crate) mod connect;
pub(crate) mod debts;
pub(crate) mod departures;
pub(crate) mod ending;
pub(crate) mod lifecycle;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod permission;
pub(crate) mod queue_member;
pub(crate) mod quota;
pub(crate) mod registry;
pub(crate) mod renewal;
pub(crate) mod rights;
pub(crate) mod state;
pub(crate) mod tally;
