//! Tests of whole journals, on a disk that fails, is killed and loses power.

mod bytes;
mod damage;
mod kill;
mod mapped;
mod model;
mod ring;
mod support;
