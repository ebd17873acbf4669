//! What one client could do to everybody else, one test for each: a bystander must hardly notice.

mod handshakes;

const MIB: u64 = 1 << 20;
