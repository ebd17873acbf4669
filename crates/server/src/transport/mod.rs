//! What lies between a socket and MQTT: nothing, TLS, WebSocket, or both.
//!
//! A transport is bytes in and bytes out, and knows no socket: what arrived goes through
//! [`Transport::receive`] and comes out as MQTT, MQTT goes through [`Transport::send`] and comes
//! out as [`Transport::pending`] bytes. A plain connection has no transport state and its bytes
//! are not touched.

mod certificate;
mod chains;
mod pem;
mod records;
mod tls;
mod websocket;

pub(crate) use certificate::{Certificate, Demand};
pub(crate) use tls::Tls;

use std::borrow::Cow;
use std::sync::Arc;

use stentor_auth::JwtRefusal;
use stentor_auth::credential::certificate::CertificateError;
use stentor_session::{Batch, CloseReason};

use crate::listener::Port;
use crate::telemetry::Bound;
use websocket::{Pongs, WebSocket};

/// The layers between one connection's socket and MQTT. Only what a connection has takes memory.
#[derive(Debug)]
pub(crate) enum Transport {
    /// MQTT directly on the socket.
    Plain,
    /// MQTT over TLS.
    Tls(Box<Tls>),
    /// MQTT in WebSocket frames.
    WebSocket(Box<WebSocket>),
    /// MQTT in WebSocket frames over TLS.
    SecureWebSocket(Box<(Tls, WebSocket)>),
}

impl Transport {
    /// The transport of a connection that arrives now at this listener.
    ///
    /// # Errors
    /// When TLS refuses the listener's configuration: a bug, since it was checked at the start.
    pub(crate) fn accept(port: &Port) -> Result<Self, CloseReason> {
        let rules = port.rules.load();
        let tls = rules.certificate.as_ref().map(Tls::accept).transpose()?;
        let web = rules
            .web
            .as_ref()
            .map(|web| WebSocket::accept(Arc::clone(web)));
        Ok(match (tls, web) {
            (None, None) => Self::Plain,
            (Some(tls), None) => Self::Tls(Box::new(tls)),
            (None, Some(web)) => Self::WebSocket(Box::new(web)),
            (Some(tls), Some(web)) => Self::SecureWebSocket(Box::new((tls, web))),
        })
    }

    /// Does what the first connection at this listener would wait for, and with it everybody whom
    /// the calling thread serves.
    pub(crate) fn prepare(port: &Port) {
        if port.rules.load().certificate.is_some() {
            tls::gather_randomness();
        }
    }

    /// The certificate that the client has shown, in DER form; it was found to be valid.
    pub(crate) fn client_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain | Self::WebSocket(_) => None,
            Self::Tls(tls) => tls.client_certificate(),
            Self::SecureWebSocket(layers) => layers.0.client_certificate(),
        }
    }

    /// Whether bytes pass untouched.
    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// Whether the socket carries TLS.
    pub(crate) const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::SecureWebSocket(_))
    }

    /// Whether what is received next may be a step of a TLS handshake: one of them signs, which
    /// takes up to a millisecond.
    #[inline]
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Plain | Self::WebSocket(_) => false,
            Self::Tls(tls) => tls.is_handshaking(),
            Self::SecureWebSocket(layers) => layers.0.is_handshaking(),
        }
    }

    /// Whether a TLS handshake has not come to the first answer of this side.
    pub(crate) fn is_unanswered(&self) -> bool {
        match self {
            Self::Plain | Self::WebSocket(_) => false,
            Self::Tls(tls) => tls.is_unanswered(),
            Self::SecureWebSocket(layers) => layers.0.is_unanswered(),
        }
    }

    /// Takes bytes from the socket and appends the MQTT bytes in them to `mqtt`; the input is
    /// unmasked in place. There may be
    /// [`Transport::pending`] bytes afterwards: handshakes, answers, alerts.
    ///
    /// # Errors
    /// When the layers below MQTT are broken or refused; what is pending is still to be written.
    pub(crate) fn receive(
        &mut self,
        input: &mut [u8],
        mqtt: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        match self {
            Self::Plain => {
                mqtt.extend_from_slice(input);
                Ok(())
            }
            Self::Tls(tls) => tls.receive(input, mqtt),
            Self::WebSocket(web) => web.receive(input, mqtt, Pongs::Sent),
            Self::SecureWebSocket(layers) => {
                let (tls, web) = &mut **layers;
                let mut frames = Vec::new();
                let received = tls.receive(input, &mut frames);
                let pongs = Pongs::with_pending(tls.pending().len());
                let unwrapped = web.receive(&mut frames, mqtt, pongs);
                tls.send([web.pending()]);
                web.forget(web.pending().len());
                received.and(unwrapped)
            }
        }
    }

    /// Wraps the bytes of a batch; they wait in [`Transport::pending`]. Not for a plain
    /// connection, whose batch is written as it is.
    pub(crate) fn send(&mut self, batch: &Batch) {
        match self {
            Self::Plain => debug_assert!(false, "a plain connection has nothing to wrap"),
            Self::Tls(tls) => tls.send(batch.slices()),
            Self::WebSocket(web) => web.send(batch),
            Self::SecureWebSocket(layers) => {
                let (tls, web) = &mut **layers;
                web.send(batch);
                tls.send([web.pending()]);
                web.forget(web.pending().len());
            }
        }
    }

    /// Ends each layer in its own way.
    pub(crate) fn close(&mut self) {
        match self {
            Self::Plain => {}
            Self::Tls(tls) => tls.close(),
            Self::WebSocket(web) => web.close(),
            Self::SecureWebSocket(layers) => {
                let (tls, web) = &mut **layers;
                web.close();
                tls.send([web.pending()]);
                web.forget(web.pending().len());
                tls.close();
            }
        }
    }

    /// What was wrong below MQTT, if that was the reason to close.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Plain => None,
            Self::Tls(tls) => tls.fault(),
            Self::WebSocket(web) => web.fault(),
            Self::SecureWebSocket(layers) => layers.0.fault().or_else(|| layers.1.fault()),
        }
    }

    /// Bytes that wait for the socket.
    pub(crate) fn pending(&self) -> &[u8] {
        match self {
            Self::Plain => &[],
            Self::Tls(tls) => tls.pending(),
            Self::WebSocket(web) => web.pending(),
            Self::SecureWebSocket(layers) => layers.0.pending(),
        }
    }

    /// Bytes of memory that it takes: its state, and what it holds. O(1).
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Tls(tls) => size_of::<Tls>() + tls.heap_bytes(),
            Self::WebSocket(web) => size_of::<WebSocket>() + web.heap_bytes(),
            Self::SecureWebSocket(layers) => {
                size_of::<(Tls, WebSocket)>() + layers.0.heap_bytes() + layers.1.heap_bytes()
            }
        }
    }

    /// The part of these bytes that the peer has sent: a record, or the head of a request, that has
    /// not come whole. WebSocket frames are not collected: their content lies in the layer above.
    pub(crate) fn received_bytes(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Tls(tls) => tls.received_bytes(),
            Self::WebSocket(web) => web.received_bytes(),
            Self::SecureWebSocket(layers) => layers.0.received_bytes() + layers.1.received_bytes(),
        }
    }

    /// Forgets the first `written` pending bytes.
    pub(crate) fn forget(&mut self, written: usize) {
        match self {
            Self::Plain => {}
            Self::Tls(tls) => tls.forget(written),
            Self::WebSocket(web) => web.forget(written),
            Self::SecureWebSocket(layers) => layers.0.forget(written),
        }
    }
}

/// Whether these bytes are one TLS record that can be the alert by which a peer closes: of this
/// type, or, since TLS 1.3 hides the type, so short that no more than two bytes are in it.
pub(crate) fn is_closing_alert(bytes: &[u8]) -> bool {
    const ALERT: u8 = 21;
    const HIDDEN: u8 = 23;
    /// Two bytes of an alert, their type, and the tag.
    const HIDDEN_BYTES: usize = 2 + 1 + 16;
    let &[kind, _, _, high, low, ref record @ ..] = bytes else {
        return false;
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    record.len() == len && (kind == ALERT || (kind == HIDDEN && len == HIDDEN_BYTES))
}

/// What was wrong that the reason of a refusal does not say, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A page of this origin may not connect; as much of it as the log shows.
    Origin(Box<str>),
    /// This, with a remedy where there is one.
    Said(Cow<'static, str>),
    /// Its web token does not let it in.
    Bearer(JwtRefusal),
    /// Its certificate names nobody.
    Certificate(CertificateError),
    /// The user is disabled.
    Disabled,
    /// The limit that it has met has this value.
    Bound(Bound),
}

/// Bytes on their way out, forgotten from the front as they are written. Holds no memory while it
/// holds no bytes.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    from: usize,
}

impl Pending {
    const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            from: 0,
        }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }

    /// Bytes of memory that it takes.
    const fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Where to append more.
    fn bytes_mut(&mut self) -> &mut Vec<u8> {
        if self.from > 0 {
            self.bytes.drain(..self.from);
            self.from = 0;
        }
        &mut self.bytes
    }

    fn forget(&mut self, written: usize) {
        self.from += written;
        if self.from >= self.bytes.len() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_bytes_are_forgotten_from_the_front() {
        let mut pending = Pending::default();
        pending.bytes_mut().extend_from_slice(b"abcdef");
        pending.forget(2);
        assert_eq!(pending.as_slice(), b"cdef");
        pending.bytes_mut().extend_from_slice(b"gh");
        assert_eq!(pending.as_slice(), b"cdefgh");
        pending.forget(6);
        assert!(pending.as_slice().is_empty());
        assert_eq!(pending.bytes.capacity(), 0);
    }

    #[test]
    fn the_goodbye_of_tls_is_told_from_data() {
        let record = |kind: u8, len: u8| [&[kind, 3, 3, 0, len][..], &vec![0; len.into()]].concat();
        for (bytes, is_goodbye) in [
            (record(21, 2), true),
            (record(21, 26), true),
            (record(23, 19), true),
            (record(23, 20), false),
            (record(22, 19), false),
            ([record(23, 19), record(23, 19)].concat(), false),
            (record(23, 19)[..10].to_vec(), false),
            (vec![21, 3], false),
        ] {
            assert_eq!(is_closing_alert(&bytes), is_goodbye, "{bytes:?}");
        }
    }

    #[test]
    fn a_plain_connection_costs_no_allocation() {
        assert_eq!(size_of::<Transport>(), 16);
        let transport = Transport::accept(&Port::for_tests(0)).unwrap();
        assert!(transport.is_plain());
    }
}
