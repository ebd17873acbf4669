//! Tests of the whole store.

mod cold;
mod damage;
mod model;
mod recover;
mod support;
mod whole;
