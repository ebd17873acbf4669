//! Waking a client that waits.

use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

/// Ends the waiting of a [`Client`](crate::Client) from another thread, or from one that handles
/// signals. Holds a descriptor of its own, so it does no harm when the client is gone.
#[derive(Debug)]
pub struct Interrupter(pub(crate) Handle);

#[derive(Debug)]
pub(crate) enum Handle {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Interrupter {
    /// Lets the client read no more: what it waits for fails as if the server had closed the
    /// connection. It can still write, so it can say DISCONNECT.
    pub fn interrupt(&self) {
        // An error says that the connection is gone, and then nobody waits.
        let _ = match &self.0 {
            Handle::Tcp(socket) => socket.shutdown(Shutdown::Read),
            Handle::Unix(socket) => socket.shutdown(Shutdown::Read),
        };
    }
}
