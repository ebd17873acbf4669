//! The server's answer to an upgrade.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// The status of an answer that is not an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// 200: a page.
    Ok,
    /// 400: what came is not a request, or contradicts itself.
    BadRequest,
    /// 403: the page's origin is not allowed here.
    Forbidden,
    /// 404: there is no WebSocket at this path.
    NotFound,
    /// 405: something other than GET.
    MethodNotAllowed,
    /// 426: WebSocket version 13 is spoken here, nothing else.
    UpgradeRequired,
    /// 431: too long or too many headers.
    HeadTooLarge,
    /// 503: the server has too much to do.
    Unavailable,
}

impl Status {
    /// The status line's number and words.
    const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::UpgradeRequired => "426 Upgrade Required",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }

    /// The headers that go with this status.
    const fn headers(self) -> &'static str {
        match self {
            Self::MethodNotAllowed => "Allow: GET\r\n",
            Self::UpgradeRequired => {
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            }
            Self::Ok
            | Self::BadRequest
            | Self::Forbidden
            | Self::NotFound
            | Self::HeadTooLarge
            | Self::Unavailable => "",
        }
    }

    /// The number of the status.
    #[must_use]
    pub const fn get(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::UpgradeRequired => 426,
            Self::HeadTooLarge => 431,
            Self::Unavailable => 503,
        }
    }
}

/// What is hashed behind the client's key (RFC 6455, 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The Sec-WebSocket-Accept that proves that a server understood the client's key.
#[must_use]
pub fn accept_key(key: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(KEY_SUFFIX);
    STANDARD.encode(hash.finalize())
}

/// Appends the answer that turns the connection into a WebSocket.
///
/// `key` is the client's, `subprotocol` one of those that it offered.
pub fn response_accept(key: &str, subprotocol: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Accept: ",
    );
    out.extend_from_slice(accept_key(key).as_bytes());
    if let Some(subprotocol) = subprotocol {
        out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        out.extend_from_slice(subprotocol.as_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
}

/// Appends an answer with a plain text body, after which the connection is to be closed.
pub fn response_refuse(status: Status, body: &str, out: &mut Vec<u8>) {
    let head = alloc::format!(
        "HTTP/1.1 {}\r\n{}Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\n\r\n",
        status.line(),
        status.headers(),
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body.as_bytes());
}
