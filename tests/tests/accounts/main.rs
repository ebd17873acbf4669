//! Users, roles, tokens and zones: the commands, with a running server and without one, and what
//! they mean for those who are connected.

mod changes;
mod client_ids;
mod commands;
mod grammar;
mod imports;
mod mosquitto;
mod place;
mod quotas;
mod rights;
mod why;
mod why_not;
