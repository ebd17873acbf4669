//! The commands for users, roles, tokens and zones, with a running server and without one.

mod commands;
