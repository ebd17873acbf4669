//! The way from a stream's task to its client: one piece at a time.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::event;
use super::held::StreamHeld;
use crate::bounds::{HEARTBEAT, PIECE_BYTES};
use crate::problem::Problem;

/// What a client reads.
pub(crate) struct Pieces(mpsc::Receiver<Bytes>);

#[cfg(test)]
impl Pieces {
    /// The next piece.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Where a stream's task puts what its client is to read.
pub(crate) struct Outlet {
    pieces: mpsc::Sender<Bytes>,
    stopping: watch::Receiver<()>,
    held: StreamHeld,
    /// When something was put there last.
    put_at: Instant,
    /// Whether an event has begun that has not come whole.
    is_within: bool,
}

/// The code of the end of a stream that holds too much.
pub(crate) const MEMORY: &str = "memory";

/// Why a stream ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client is gone.
    Gone,
    /// The server stops.
    Stop,
    /// The client may not have it any more, or it cannot be given.
    Refused(Problem),
    /// There is nothing more: a word and a sentence.
    Over(&'static str, String),
}

impl From<Problem> for End {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl Outlet {
    /// The way to a client that counts what waits on it.
    pub(super) fn new(stopping: watch::Receiver<()>, held: StreamHeld) -> (Self, Pieces) {
        let (pieces, read) = mpsc::channel(1);
        let outlet = Self {
            pieces,
            stopping,
            held,
            put_at: Instant::now(),
            is_within: false,
        };
        (outlet, Pieces(read))
    }

    /// Gives the client a text, in pieces of up to [`PIECE_BYTES`], each once it has taken the one
    /// before. An empty text is not a piece, but after a while of silence it becomes a comment.
    pub(crate) async fn put(&mut self, text: impl Into<Vec<u8>>) -> Result<(), End> {
        let text = match text.into() {
            text if !text.is_empty() => text,
            _ if self.put_at.elapsed() < HEARTBEAT => return Ok(()),
            _ => b": the stream goes on\n\n".to_vec(),
        };
        if text.len() <= PIECE_BYTES {
            return self.send(text).await;
        }
        let _counted = self.held.charge_text(text.capacity());
        for piece in text.chunks(PIECE_BYTES) {
            self.send(piece.to_vec()).await?;
        }
        Ok(())
    }

    async fn send(&mut self, piece: Vec<u8>) -> Result<(), End> {
        // The line feed may be the second of the two that end an event.
        let is_within = !matches!(&*piece, [.., b'\n', b'\n'] | [b'\n']);
        let piece = self.held.piece(piece);
        self.held.waits(true);
        let place = tokio::select! {
            biased;
            _ = self.stopping.changed() => return Err(End::Stop),
            () = self.held.has_to_end() => return Err(too_much()),
            place = self.pieces.reserve() => place.map_err(|_| End::Gone)?,
        };
        self.held.waits(false);
        place.send(piece);
        self.put_at = Instant::now();
        self.is_within = is_within;
        Ok(())
    }

    /// Lets time pass.
    pub(crate) async fn pause(&mut self, time: Duration) -> Result<(), End> {
        tokio::select! {
            biased;
            end = self.has_ended() => Err(end),
            () = sleep(time) => Ok(()),
        }
    }

    /// What counts for this stream.
    pub(super) const fn held(&self) -> &StreamHeld {
        &self.held
    }

    /// Waits until the client is gone, the server stops, or the stream holds too much.
    pub(crate) async fn has_ended(&mut self) -> End {
        tokio::select! {
            biased;
            _ = self.stopping.changed() => End::Stop,
            () = self.pieces.closed() => End::Gone,
            () = self.held.has_to_end() => too_much(),
        }
    }

    /// The last event, which says why it is the last. A client that has not taken the piece before
    /// misses it, and so does one that has not got all of the event before: it would be a part of
    /// that.
    pub(crate) fn close(self, end: &End) {
        if self.is_within {
            return;
        }
        let data = match end {
            End::Gone => return,
            End::Stop => said("stopping", "the server stops"),
            End::Refused(problem) => problem.value(),
            End::Over(code, detail) => said(code, detail),
        };
        // Nobody waits for it.
        let piece = self.held.piece(event(Some("end"), None, &data).into());
        let _ = self.pieces.try_send(piece);
    }
}

/// The end of a stream, when all hold too much.
fn too_much() -> End {
    let detail = "event streams hold as much as they may, an eighth of `limits.memory`, and this \
                  one has waited for its client for longest; connect again, and read faster or ask \
                  for less";
    End::Over(MEMORY, detail.to_owned())
}

fn said(code: &str, detail: &str) -> Value {
    json!({ "code": code, "detail": detail })
}

#[cfg(test)]
mod tests {
    use super::super::held::Held;
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(test);
    }

    /// One piece waits for the client, and no more.
    #[test]
    fn a_client_that_does_not_read_is_waited_for() {
        run(async {
            let (stop, stopping) = watch::channel(());
            let (mut outlet, mut pieces) = Outlet::new(stopping, Held::default().stream());
            assert_eq!(outlet.put("a").await, Ok(()));
            let short = Duration::from_millis(1);
            let second = timeout(short, outlet.put("b")).await;
            assert!(second.is_err(), "the first one is still there");
            assert_eq!(pieces.0.recv().await, Some("a".into()));
            assert_eq!(outlet.put("c").await, Ok(()));
            drop(stop);
            assert_eq!(outlet.put("d").await, Err(End::Stop));
            outlet.close(&End::Stop);
            assert_eq!(pieces.0.recv().await, Some("c".into()));
            assert_eq!(pieces.0.recv().await, None, "there was no room for the end");
        });
    }

    #[test]
    fn a_client_that_is_gone_ends_the_stream() {
        run(async {
            let (_stop, stopping) = watch::channel(());
            let (mut outlet, pieces) = Outlet::new(stopping, Held::default().stream());
            assert_eq!(outlet.put("").await, Ok(()));
            drop(pieces);
            assert_eq!(outlet.put("a").await, Err(End::Gone));
            assert_eq!(outlet.pause(Duration::from_secs(9)).await, Err(End::Gone));
        });
    }

    /// Whatever it waits for, and a client that has read everything is told why.
    #[test]
    fn a_stream_that_holds_too_much_ends() {
        run(async {
            for reads in [true, false] {
                let (_stop, stopping) = watch::channel(());
                let held = Held::default();
                held.set_bytes_max(1_000_000);
                let (mut outlet, mut pieces) = Outlet::new(stopping, held.stream());
                assert_eq!(outlet.put(": a\n\n").await, Ok(()));
                let waits = match reads {
                    true => {
                        assert!(pieces.next().await.is_some());
                        let charge = outlet.held().charge_text(1_000_001);
                        let end = outlet.has_ended().await;
                        drop(charge);
                        Err(end)
                    }
                    false => outlet.put("x".repeat(1_000_001)).await,
                };
                let Err(end @ End::Over("memory", _)) = waits else {
                    panic!("{waits:?}");
                };
                outlet.close(&end);
                let last = pieces.next().await.expect("a piece");
                let is_end = last.starts_with(b"event: end\ndata: {\"code\":\"memory\"");
                assert_eq!(is_end, reads, "{last:?}");
                assert_eq!(pieces.next().await, None);
                drop(last);
                assert_eq!(held.bytes(), 0);
            }
        });
    }

    /// A text that is cut counts whole, and each piece until the client has taken it.
    #[test]
    fn a_long_text_comes_in_pieces() {
        run(async {
            let (_stop, stopping) = watch::channel(());
            let held = Held::default();
            let (mut outlet, mut pieces) = Outlet::new(stopping, held.stream());
            let text = "x".repeat(2 * PIECE_BYTES + 1);
            let put = async {
                assert_eq!(outlet.put(text.clone()).await, Ok(()));
                drop(outlet);
            };
            let take = async {
                let mut came = Vec::new();
                while let Some(piece) = pieces.next().await {
                    assert!(held.bytes() <= (text.len() + 3 * PIECE_BYTES) as u64);
                    came.push(piece.len());
                }
                came
            };
            let ((), came) = tokio::join!(put, take);
            assert_eq!(came, [PIECE_BYTES, PIECE_BYTES, 1]);
            assert_eq!(held.bytes(), 0);
        });
    }

    /// The end is an event of its own, or none.
    #[test]
    fn an_event_that_is_cut_is_the_last() {
        run(async {
            for (text, is_told) in [("data: 1\n\n", true), ("data: 1", false), ("\n", true)] {
                let (_stop, stopping) = watch::channel(());
                let (mut outlet, mut pieces) = Outlet::new(stopping, Held::default().stream());
                assert_eq!(outlet.put(text).await, Ok(()));
                assert!(pieces.next().await.is_some());
                outlet.close(&End::Stop);
                assert_eq!(pieces.next().await.is_some(), is_told, "{text:?}");
            }
        });
    }
}
