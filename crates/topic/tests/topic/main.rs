//! The index of topics from outside.

mod cost;
mod hash;
mod index;
mod rules;
mod walk;
