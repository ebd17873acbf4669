//! The upgrade from the client's side.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httparse::EMPTY_HEADER;
use thiserror::Error;

use crate::request::{Headers, Limits};
use crate::response::accept_key;

/// What a client asks a server for.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// The server's `name[:port]`.
    pub host: &'a str,
    /// What to ask for; begins with `/`, and may have a query.
    pub path: &'a str,
    /// The subprotocols to offer, the favourite first.
    pub protocols: &'a [&'a str],
    /// 16 random bytes, new for each connection.
    pub nonce: [u8; 16],
}

/// A server's consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The subprotocol that the server chose, one of those offered.
    pub protocol: Option<String>,
    /// Length of the response's head; what follows are frames.
    pub head_bytes: usize,
}

/// Why a handshake failed at the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// The host or path has characters that would end its line.
    #[error("the host, path or subprotocol contains a space or control character")]
    InvalidRequest,
    /// The response is not HTTP/1.1, or its head is longer than 8 KiB or 64 headers.
    #[error("the response is not a valid HTTP/1.1 head")]
    Malformed,
    /// The server refuses, with this status.
    #[error("the server answered with status {0}")]
    Refused(u16),
    /// The Upgrade or Connection header is missing or names something else.
    #[error("the server did not switch to WebSocket")]
    NotUpgraded,
    /// The Sec-WebSocket-Accept is missing or answers another key.
    #[error("the server's Sec-WebSocket-Accept is wrong")]
    AcceptKey,
    /// The server chose a subprotocol that was not offered.
    #[error("the server chose a subprotocol that was not offered")]
    Protocol,
    /// The server uses an extension, though none was offered.
    #[error("the server uses an extension that was not offered")]
    Extension,
}

/// Appends the request for a WebSocket.
///
/// # Errors
/// [`HandshakeError::InvalidRequest`] if a text would not stay in its place.
pub fn client_request(
    request: &ClientRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<(), HandshakeError> {
    let is_clean = |text: &&str| text.bytes().all(|byte| byte > b' ' && byte != 0x7F);
    let texts = [request.host, request.path]
        .into_iter()
        .chain(request.protocols.iter().copied());
    if !request.path.starts_with('/') || !texts.clone().all(|text| is_clean(&text)) {
        return Err(HandshakeError::InvalidRequest);
    }
    let head = alloc::format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n",
        request.path,
        request.host,
        STANDARD.encode(request.nonce)
    );
    out.extend_from_slice(head.as_bytes());
    if !request.protocols.is_empty() {
        out.extend_from_slice(b"Sec-WebSocket-Protocol: ");
        out.extend_from_slice(request.protocols.join(", ").as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Reads the head of a server's response to `request`; `None` while it is incomplete.
///
/// # Errors
/// Why there is no connection (RFC 6455, 4.1), see [`HandshakeError`].
pub fn parse_response(
    input: &[u8],
    request: &ClientRequest<'_>,
) -> Result<Option<Accepted>, HandshakeError> {
    let limits = Limits::default();
    let mut headers = [EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut headers);
    let head_bytes = match parsed.parse(input) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if input.len() < limits.head_bytes_max => return Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => return Err(HandshakeError::Malformed),
    };
    match parsed.code {
        Some(101) => {}
        Some(code) => return Err(HandshakeError::Refused(code)),
        None => return Err(HandshakeError::Malformed),
    }
    let headers = Headers(parsed.headers);
    let single = |name| headers.single(name).map_err(|_| HandshakeError::Malformed);
    if !headers.lists("Upgrade", "websocket") || !headers.lists("Connection", "upgrade") {
        return Err(HandshakeError::NotUpgraded);
    }
    let expected = accept_key(&STANDARD.encode(request.nonce));
    if single("Sec-WebSocket-Accept")? != Some(&expected) {
        return Err(HandshakeError::AcceptKey);
    }
    if headers.list("Sec-WebSocket-Extensions").next().is_some() {
        return Err(HandshakeError::Extension);
    }
    let protocol = single("Sec-WebSocket-Protocol")?;
    if protocol.is_some_and(|protocol| !request.protocols.contains(&protocol)) {
        return Err(HandshakeError::Protocol);
    }
    Ok(Some(Accepted {
        protocol: protocol.map(String::from),
        head_bytes,
    }))
}
