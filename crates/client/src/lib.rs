//! The small blocking MQTT client that `stentor pub`, `sub`, `rr` and the benchmarks use.

#![forbid(unsafe_code)]

mod url;

pub use url::{Scheme, Url, UrlError};
