//! Tests of the whole store.

mod model;
mod support;
