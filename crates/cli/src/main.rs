//! The stentor command.
fn main() {}
