//! A stream whose writes end: a client that does not read is not waited for.
//!
//! It tells the room when its connection rests: see [`crate::room`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::bounds::ANSWER_TIME;
use crate::room::Guest;

/// A stream that fails when a write has not gone on for [`ANSWER_TIME`].
pub(crate) struct Patient<S> {
    stream: S,
    guest: Guest,
    answers: Answers,
    /// Runs while a write waits.
    until: Option<Pin<Box<Sleep>>>,
}

/// The answers of a connection that are made, and were not flushed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_made: AtomicBool,
    is_stream: AtomicBool,
}

impl Answers {
    /// One is made, and is written next.
    pub(crate) fn is_made(&self) {
        self.0.is_made.store(true, Ordering::Relaxed);
    }

    /// One is being made for as long as it lasts, and the connection ends with it.
    pub(crate) fn streams(&self) {
        self.0.is_stream.store(true, Ordering::Relaxed);
    }

    /// Whether the last one is being made for as long as it lasts.
    pub(crate) fn is_stream(&self) -> bool {
        self.0.is_stream.load(Ordering::Relaxed)
    }

    /// What was made has been written.
    fn have_gone(&self) -> bool {
        self.0.is_made.swap(false, Ordering::Relaxed)
    }
}

impl<S> Patient<S> {
    /// The stream with its clock.
    pub(crate) const fn new(stream: S, guest: Guest, answers: Answers) -> Self {
        Self {
            stream,
            guest,
            answers,
            until: None,
        }
    }

    /// Fails when a write has waited for too long.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            if self.until.take().is_some() {
                self.guest.is_answered();
            }
            return result;
        }
        self.guest.rests();
        let until = self
            .until
            .get_or_insert_with(|| Box::pin(sleep(ANSWER_TIME)));
        if until.is_elapsed() || Future::poll(until.as_mut(), context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        let result = self.judge(context, result);
        if result.is_ready() && self.answers.have_gone() {
            self.guest.rests();
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, result)
    }
}
