//! Tests of the whole store.

mod closed;
mod cold;
mod damage;
mod files;
mod grow;
mod history;
mod model;
mod recover;
mod shrink;
mod support;
mod walks;
mod whole;
