//! The head of a client's HTTP request.

use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httparse::{EMPTY_HEADER, Header};
use thiserror::Error;

use crate::Status;

/// Limits on the head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of the head, in bytes.
    pub head_bytes_max: usize,
    /// Number of header lines; more than 64 count as 64.
    pub headers_max: usize,
}

/// Room for headers, on the stack.
const HEADERS_MAX: usize = 64;

impl Default for Limits {
    /// 8 KiB and 64 headers.
    fn default() -> Self {
        Self {
            head_bytes_max: 8 * 1024,
            headers_max: HEADERS_MAX,
        }
    }
}

/// A client's request, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What was asked for, without the query; begins with `/`.
    pub path: &'a str,
    /// The Host header: the name and port that the client connected to.
    pub host: Option<&'a str>,
    /// The Origin header: the page that the client belongs to; see [`origin_allowed`].
    ///
    /// [`origin_allowed`]: crate::origin_allowed
    pub origin: Option<&'a str>,
    /// What the client wants.
    pub kind: Kind<'a>,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A page: somebody points a browser at this port.
    Page,
    /// A WebSocket connection; the request fulfils section 4.2.1 of RFC 6455.
    Upgrade {
        /// The Sec-WebSocket-Key, for [`accept_key`](crate::accept_key).
        key: &'a str,
        /// The subprotocols offered, the client's favourite first; see [`choose_subprotocol`].
        protocols: Vec<&'a str>,
    },
}

/// Why a request cannot be served; it is to be answered with [`UpgradeError::status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UpgradeError {
    /// The bytes are not HTTP/1.1: perhaps MQTT without WebSocket, or TLS.
    #[error("the request is not HTTP/1.1")]
    Malformed,
    /// The head is longer than [`Limits::head_bytes_max`].
    #[error("the head of the request is too long")]
    HeadTooLong,
    /// More headers than [`Limits::headers_max`].
    #[error("the request has too many headers")]
    TooManyHeaders,
    /// The method is not GET.
    #[error("the method of the request is not GET")]
    Method,
    /// Host, Origin or Sec-WebSocket-Key is there more than once, or is not ASCII.
    #[error("a header of the request is ambiguous")]
    AmbiguousHeader,
    /// An upgrade without Host.
    #[error("the request has no Host header")]
    HostMissing,
    /// An upgrade whose Connection header does not say so.
    #[error("the request has an Upgrade header, but Connection does not name it")]
    Connection,
    /// An upgrade to a version of WebSocket other than 13.
    #[error("the request is not for version 13 of WebSocket")]
    Version,
    /// An upgrade without a key of 16 bytes in base64.
    #[error("the request has no valid Sec-WebSocket-Key")]
    Key,
    /// An upgrade with a body, which would be taken for frames.
    #[error("the request to upgrade has a body")]
    Body,
}

impl UpgradeError {
    /// The status to answer with.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::HeadTooLong | Self::TooManyHeaders => Status::HeadTooLarge,
            Self::Method => Status::MethodNotAllowed,
            Self::Version => Status::UpgradeRequired,
            Self::Malformed
            | Self::AmbiguousHeader
            | Self::HostMissing
            | Self::Connection
            | Self::Key
            | Self::Body => Status::BadRequest,
        }
    }
}

/// Reads the head of a request, and its length in bytes; `None` while it is incomplete.
///
/// The caller hands in all that arrived since the connection began, and again with more. Bytes
/// after the head are frames already.
///
/// Cost: one pass over the head per call, which the limits bound. Nothing is kept between calls.
///
/// # Errors
/// The first thing wrong with it; bytes that cannot become a request are refused as soon as they
/// are there. See [`UpgradeError`].
pub fn parse_request(
    input: &[u8],
    limits: Limits,
) -> Result<Option<(Request<'_>, usize)>, UpgradeError> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let headers_max = limits.headers_max.min(HEADERS_MAX);
    let mut parsed = httparse::Request::new(&mut headers[..headers_max]);
    let head_bytes = match parsed.parse(input) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if input.len() >= limits.head_bytes_max => {
            return Err(UpgradeError::HeadTooLong);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(UpgradeError::TooManyHeaders),
        Err(_) => return Err(UpgradeError::Malformed),
    };
    if head_bytes > limits.head_bytes_max {
        return Err(UpgradeError::HeadTooLong);
    }
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(UpgradeError::Malformed);
    };
    if method != "GET" {
        return Err(UpgradeError::Method);
    }
    let headers = Headers(parsed.headers);
    let request = Request {
        path: path_of(target)?,
        host: headers.single("Host")?,
        origin: headers.single("Origin")?,
        kind: match headers.kind()? {
            // HTTP/1.0 has no upgrade, and neither has what a proxy made of one.
            Kind::Upgrade { .. } if minor == 0 => return Err(UpgradeError::Malformed),
            kind => kind,
        },
    };
    Ok(Some((request, head_bytes)))
}

/// The subprotocol to speak: the first of those offered that is supported (both by exact name).
///
/// `None` where there is none. A client of MQTT must offer `mqtt` [MQTT-6.0.0-3]; whether one that
/// offers nothing is served, is the caller's decision.
#[must_use]
pub fn choose_subprotocol<'s>(offered: &[&str], supported: &[&'s str]) -> Option<&'s str> {
    let find = |offer: &&str| supported.iter().find(|&support| support == offer).copied();
    offered.iter().find_map(find)
}

/// The path of a request target, which may name the server too (RFC 9112, 3.2).
fn path_of(target: &str) -> Result<&str, UpgradeError> {
    let target = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['/', '?']) => {
            rest.find(['/', '?']).map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    match target.split_once('?').map_or(target, |(path, _)| path) {
        "" => Ok("/"),
        path if path.starts_with('/') => Ok(path),
        _ => Err(UpgradeError::Malformed),
    }
}

/// The headers of a request or response.
pub(crate) struct Headers<'h, 'a>(pub(crate) &'h [Header<'a>]);

impl<'a> Headers<'_, 'a> {
    /// The values of all headers of this name, those that are not ASCII as `None`.
    fn all(&self, name: &str) -> impl Iterator<Item = Option<&'a str>> {
        self.0
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| core::str::from_utf8(header.value).ok().map(str::trim_ascii))
    }

    /// The value of a header that may be there once.
    pub(crate) fn single(&self, name: &str) -> Result<Option<&'a str>, UpgradeError> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(Some(value)), None) => Ok(Some(value)),
            _ => Err(UpgradeError::AmbiguousHeader),
        }
    }

    /// The elements of a header that is a list, which may be spread over several lines.
    pub(crate) fn list(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let elements = self.all(name).flatten().flat_map(|value| value.split(','));
        elements
            .map(str::trim_ascii)
            .filter(|element| !element.is_empty())
    }

    pub(crate) fn lists(&self, name: &str, wanted: &str) -> bool {
        self.list(name)
            .any(|element| element.eq_ignore_ascii_case(wanted))
    }

    fn kind(&self) -> Result<Kind<'a>, UpgradeError> {
        if !self.lists("Upgrade", "websocket") {
            return Ok(Kind::Page);
        }
        if !self.lists("Connection", "upgrade") {
            return Err(UpgradeError::Connection);
        }
        if self.single("Host")?.is_none() {
            return Err(UpgradeError::HostMissing);
        }
        if self.single("Sec-WebSocket-Version")? != Some("13") {
            return Err(UpgradeError::Version);
        }
        let key = self.single("Sec-WebSocket-Key")?.unwrap_or_default();
        if !is_key(key) {
            return Err(UpgradeError::Key);
        }
        let length = self.single("Content-Length")?;
        if length.is_some_and(|length| length != "0") || self.all("Transfer-Encoding").count() > 0 {
            return Err(UpgradeError::Body);
        }
        let protocols = self.list("Sec-WebSocket-Protocol").collect();
        Ok(Kind::Upgrade { key, protocols })
    }
}

/// Whether this is base64 of 16 bytes.
fn is_key(key: &str) -> bool {
    // Room for what 24 characters without padding would be; longer keys do not fit and fail.
    let mut bytes = [0; 18];
    key.len() == 24 && STANDARD.decode_slice(key, &mut bytes) == Ok(16)
}
