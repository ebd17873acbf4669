//! What an operator does with the binary: start it wrong and right, change it, look at it, stop it.

mod audit;
mod bans;
mod bundle;
mod client;
mod commands;
mod configuration;
mod delay;
mod events;
mod figures;
mod folder;
mod log;
mod login;
mod promise;
mod ranking;
mod reader;
mod reload;
mod remedies;
mod shards;
mod shutdown;
mod signals;
mod starting;
mod subscriptions;
mod top;
mod trace;
mod turns;
mod verbs;
