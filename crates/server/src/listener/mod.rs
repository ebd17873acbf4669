//! Where clients arrive: URLs, and the sockets that are bound to them.

mod url;

pub use url::{ListenerUrl, ListenerUrlError, Scheme};
