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
use crate::bounds::HEARTBEAT;
use crate::problem::Problem;

/// What a client reads.
pub(crate) struct Pieces(mpsc::Receiver<Bytes>);

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
    /// When something was put there last.
    put_at: Instant,
}

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
    pub(crate) fn new(stopping: watch::Receiver<()>) -> (Self, Pieces) {
        let (pieces, read) = mpsc::channel(1);
        let outlet = Self {
            pieces,
            stopping,
            put_at: Instant::now(),
        };
        (outlet, Pieces(read))
    }

    /// Gives the client a piece, once it has taken the one before. An empty text is not a piece,
    /// but after a while of silence it becomes a comment.
    pub(crate) async fn put(&mut self, text: String) -> Result<(), End> {
        let text = match text.is_empty() {
            true if self.put_at.elapsed() < HEARTBEAT => return Ok(()),
            true => ": the stream goes on\n\n".to_owned(),
            false => text,
        };
        let place = tokio::select! {
            biased;
            _ = self.stopping.changed() => return Err(End::Stop),
            place = self.pieces.reserve() => place.map_err(|_| End::Gone)?,
        };
        place.send(text.into());
        self.put_at = Instant::now();
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

    /// Waits until the client is gone or the server stops.
    pub(crate) async fn has_ended(&mut self) -> End {
        tokio::select! {
            biased;
            _ = self.stopping.changed() => End::Stop,
            () = self.pieces.closed() => End::Gone,
        }
    }

    /// The last event, which says why it is the last. A client that has not taken the piece before
    /// misses it.
    pub(crate) fn close(self, end: &End) {
        let data = match end {
            End::Gone => return,
            End::Stop => said("stopping", "the server stops"),
            End::Refused(problem) => problem.value(),
            End::Over(code, detail) => said(code, detail),
        };
        // Nobody waits for it.
        let _ = self.pieces.try_send(event(Some("end"), None, &data).into());
    }
}

fn said(code: &str, detail: &str) -> Value {
    json!({ "code": code, "detail": detail })
}

#[cfg(test)]
mod tests {
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
            let (mut outlet, mut pieces) = Outlet::new(stopping);
            assert_eq!(outlet.put("a".into()).await, Ok(()));
            let short = Duration::from_millis(1);
            let second = timeout(short, outlet.put("b".into())).await;
            assert!(second.is_err(), "the first one is still there");
            assert_eq!(pieces.0.recv().await, Some("a".into()));
            assert_eq!(outlet.put("c".into()).await, Ok(()));
            drop(stop);
            assert_eq!(outlet.put("d".into()).await, Err(End::Stop));
            outlet.close(&End::Stop);
            assert_eq!(pieces.0.recv().await, Some("c".into()));
            assert_eq!(pieces.0.recv().await, None, "there was no room for the end");
        });
    }

    #[test]
    fn a_client_that_is_gone_ends_the_stream() {
        run(async {
            let (_stop, stopping) = watch::channel(());
            let (mut outlet, pieces) = Outlet::new(stopping);
            assert_eq!(outlet.put(String::new()).await, Ok(()));
            drop(pieces);
            assert_eq!(outlet.put("a".into()).await, Err(End::Gone));
            assert_eq!(outlet.pause(Duration::from_secs(9)).await, Err(End::Gone));
        });
    }
}
