//! The small blocking MQTT client that `stentor pub`, `sub`, `rr` and the benchmarks use.
//!
//! It speaks MQTT 3.1, 3.1.1 and 5.0 over TCP, TLS, WebSocket and Unix sockets, one operation at a
//! time and without threads of its own:
//!
//! ```no_run
//! use std::time::Duration;
//! use stentor_client::{Client, Options, Publication};
//!
//! let mut client = Client::connect(&Options::new("mqtt://localhost".parse()?))?;
//! client.subscribe(&[("greetings/#", Default::default())])?;
//! client.publish(&Publication::new("greetings/all", b"hello"))?;
//! if let Some(message) = client.receive(Some(Duration::from_secs(1)))? {
//!     assert_eq!(message.topic, "greetings/all");
//! }
//! client.disconnect()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Messages that arrive while another operation waits for its acknowledgement are kept for
//! [`Client::receive`]. Keep-alive is kept up inside the operations: a program that does something
//! else for longer than the keep-alive calls [`Client::receive`] with a time limit now and then, or
//! turns keep-alive off.

#![forbid(unsafe_code)]

mod client;
mod connack;
mod error;
mod flow;
mod interrupt;
mod message;
mod options;
mod tls;
mod transport;
mod url;
mod websocket;

pub use client::Client;
pub use connack::Accepted;
pub use error::ClientError;
pub use flow::Acknowledged;
pub use interrupt::Interrupter;
pub use message::{Message, Publication};
pub use options::{Options, TlsOptions, TlsVersion, Will};
pub use tls::config as tls_config;
pub use url::{Scheme, Url, UrlError};

// What appears in this crate's signatures.
pub use stentor_mqtt::{
    PacketId, Property, PropertyBuf, QoS, ReasonCode, RetainHandling, SubscribeOptions, Version,
};
