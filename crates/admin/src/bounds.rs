//! What a peer can take at most.

use std::time::Duration;

/// Connections at a time. For another one, one that asks for nothing ends: see
/// [`crate::connections`].
pub(crate) const CONNECTIONS_MAX: usize = 192;

/// Those of one address: others find room whatever it does.
pub(crate) const ADDRESS_MAX: usize = 160;

/// Connections from which nothing is read before there is room for them.
pub(crate) const CONNECTIONS_WAITING_MAX: usize = 384;

/// The time for a TLS handshake, for the headers of a request from their first byte on, and until
/// the first request begins.
pub(crate) const HEADER_TIME: Duration = Duration::from_secs(5);

/// How long a connection is kept on which nothing comes, between two requests.
pub(crate) const IDLE_TIME: Duration = Duration::from_secs(60);

/// Header lines of a request.
pub(crate) const HEADERS_MAX: usize = 64;

/// Bytes of a request line with all its headers.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a body where none is read, so this only decides how a request is refused.
pub(crate) const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Bytes of a body below `/api/v1`.
pub(crate) const API_BODY_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of the body of a login.
pub(crate) const LOGIN_BODY_BYTES_MAX: usize = 16 * 1024;

/// How long a body may take to come.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(10);

/// Entries of a list that one answer has at most.
pub(crate) const LIMIT_MAX: u64 = 10_000;

/// How long a connection serves requests. After that the client connects again.
pub(crate) const CONNECTION_TIME: Duration = Duration::from_secs(600);

/// How long the answer in progress may take when its connection ends.
pub(crate) const END_TIME: Duration = Duration::from_secs(10);

/// How long answers in progress may take when the server stops.
pub(crate) const FAREWELL_TIME: Duration = Duration::from_millis(500);

/// How long an answer may take to reach a client that does not read.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Threads that wait for the backend.
pub(crate) const THREADS: usize = 19;

/// Answers that are made at the same time, by kind, so that no kind keeps another one waiting.
pub(crate) const HEALTH_AT_ONCE: usize = 1;
/// The same of metrics.
pub(crate) const METRICS_AT_ONCE: usize = 2;

/// Requests whose token is being checked, and as many of logins, and of users whose bodies are on
/// their way. They hold a connection each but no thread. See [`crate::checks`].
pub(crate) const TOKENS_MAX: usize = 16;

/// How long a token may take. A wrong one that would be answered later gets 503.
pub(crate) const TOKEN_TIME: Duration = Duration::from_secs(10);

/// Verbs that are done at the same time, and those that wait for that.
pub(crate) const VERBS_AT_ONCE: usize = 4;
/// See [`VERBS_AT_ONCE`].
pub(crate) const VERBS_WAITING_MAX: usize = 20;
/// Verbs at the same time that wait for something to happen. None waits for one of them to end:
/// that may take as long as a client likes.
pub(crate) const WAITS_AT_ONCE: usize = 8;

/// Publishes that are begun at once and have no answer yet: one of each connection. Others are done
/// as verbs.
pub(crate) const SOON_MAX: usize = CONNECTIONS_MAX;

/// Bytes of the body of such a publish: it is read where all requests are.
pub(crate) const SOON_BYTES_MAX: usize = 16 * 1024;

/// How long the answer to one may take.
pub(crate) const SOON_TIME: Duration = Duration::from_secs(10);

/// A body that takes longer is from a caller whose rights are looked up again when it is there.
pub(crate) const BODY_AT_ONCE: Duration = Duration::from_millis(10);

/// Event streams at a time. Each holds a connection, and no thread.
pub(crate) const STREAMS_MAX: usize = 64;

/// Event streams of one user at a time.
pub(crate) const STREAMS_PER_USER_MAX: usize = 8;

/// Event streams of one session at a time.
pub(crate) const STREAMS_PER_SESSION_MAX: usize = 4;

/// Looks of event streams that are made at the same time: each answers at once.
pub(crate) const LOOKS_AT_ONCE: usize = 2;

/// Looks at the figures. All streams share one that is new enough.
pub(crate) const FIGURES_AT_ONCE: usize = 1;

/// How long figures are new enough for another stream.
pub(crate) const FIGURES_AGE_MAX: Duration = Duration::from_millis(500);

/// How often an event stream looks for news.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// After so much silence an event stream sends a comment, so that everybody on the way sees that
/// it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// Events that an event stream sends in one piece.
pub(crate) const EVENTS_AT_ONCE: u64 = 200;

/// Earlier events that an event stream begins with.
pub(crate) const EARLIER_MAX: u64 = 1_000;

/// How often figures are sent, in milliseconds: at most, at least, and if nothing is said.
pub(crate) const INTERVAL_MIN_MS: u64 = 1_000;
/// See [`INTERVAL_MIN_MS`].
pub(crate) const INTERVAL_MAX_MS: u64 = 60_000;
/// See [`INTERVAL_MIN_MS`].
pub(crate) const INTERVAL_MS: u64 = 2_000;

/// Topic filters of a stream of messages.
pub(crate) const FILTERS_MAX: usize = 16;

/// Bytes of a piece of an event stream at most. A few of them are on their way to each client.
pub(crate) const PIECE_BYTES: usize = 16 * 1024;

/// How long a session behind a stream may take to begin.
pub(crate) const SESSION_TIME: Duration = Duration::from_secs(10);

/// How often a stream of messages looks whether some were lost.
pub(crate) const LOSS_LOOK: Duration = Duration::from_secs(1);

/// For how long bytes may go unacknowledged by the machine of a client before its connection ends:
/// one that is gone without a word keeps no place.
pub(crate) const UNACKNOWLEDGED_TIME: Duration = Duration::from_secs(30);

/// Each kind has a thread, whatever the others do.
const _: () = assert!(
    HEALTH_AT_ONCE
        + METRICS_AT_ONCE
        + VERBS_AT_ONCE
        + WAITS_AT_ONCE
        + LOOKS_AT_ONCE
        + FIGURES_AT_ONCE
        <= THREADS
);

/// Even if all of these are taken, by one address, there are connections left for probes.
const _: () = assert!(
    3 * TOKENS_MAX + VERBS_AT_ONCE + VERBS_WAITING_MAX + WAITS_AT_ONCE + STREAMS_MAX < ADDRESS_MAX
        && ADDRESS_MAX < CONNECTIONS_MAX
);
