//! The codec seen from outside: tables of packets, bytes to packet and back.

mod ack;
mod connect;
mod disconnect;
mod encoded;
mod fixed_header;
mod limits;
mod properties;
mod publish;
mod random;
mod roundtrip;
mod subscribe;
mod support;
