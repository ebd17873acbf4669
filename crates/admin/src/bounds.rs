//! What a peer can take at most.

use std::time::Duration;

/// Connections at a time. For another one, one that asks for nothing ends: see [`crate::room`].
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// The time for a TLS handshake, for the headers of a request, and between two requests.
pub(crate) const HEADER_TIME: Duration = Duration::from_secs(5);

/// Header lines of a request.
pub(crate) const HEADERS_MAX: usize = 64;

/// Bytes of a request line with all its headers.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a body. No path takes one yet, so this only decides how a request is refused.
pub(crate) const BODY_BYTES_MAX: u64 = 64 * 1024;

/// How long a connection serves requests. After that the client connects again.
pub(crate) const CONNECTION_TIME: Duration = Duration::from_secs(600);

/// How long the answer in progress may take when its connection ends.
pub(crate) const END_TIME: Duration = Duration::from_secs(10);

/// How long an answer may take to reach a client that does not read.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Threads that wait for the office.
pub(crate) const THREADS: usize = 4;

/// Answers that are made at the same time, by kind, so that no kind keeps another one waiting.
pub(crate) const HEALTH_AT_ONCE: usize = 1;
/// The same of metrics.
pub(crate) const METRICS_AT_ONCE: usize = 2;
/// The same of tokens that are checked; a wrong one takes its time.
pub(crate) const TOKENS_AT_ONCE: usize = 1;

/// Each kind has a thread, whatever the others do.
const _: () = assert!(HEALTH_AT_ONCE + METRICS_AT_ONCE + TOKENS_AT_ONCE <= THREADS);
