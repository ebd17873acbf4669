//! Tests of the whole store.

mod cold;
mod damage;
mod model;
mod support;
mod whole;
