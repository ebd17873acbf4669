//! Tests of the whole store.

mod damage;
mod model;
mod support;
mod whole;
