//! A stream whose writes end: a client that does not read is not waited for. Nor is one whose
//! request begins and does not go on.
//!
//! It tells its connection when it rests: see [`crate::connections`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::bounds::{ANSWER_TIME, HEADER_TIME};
use crate::connections::Connection;

/// A stream that fails when a write has not gone on for [`ANSWER_TIME`], and when the headers of a
/// request take more than [`HEADER_TIME`].
pub(crate) struct Patient<S> {
    stream: S,
    connection: Connection,
    answers: Answers,
    /// The wait for its turn, during which nothing is read.
    admission: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Runs while a write waits.
    until: Option<Pin<Box<Sleep>>>,
    /// Runs from the first byte of a request until its headers are there; for the first request,
    /// as soon as it is served.
    head_until: Option<Pin<Box<Sleep>>>,
}

/// The answers of a connection that are made, and were not flushed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// A request is there whose answer has not gone.
    is_asked: AtomicBool,
    is_made: AtomicBool,
    is_stream: AtomicBool,
}

impl Answers {
    /// The headers of a request are there.
    pub(crate) fn has_come(&self) {
        self.0.is_asked.store(true, Ordering::Relaxed);
    }

    /// Whether what comes next belongs to a request that is there.
    fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Relaxed)
    }

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
        let have_gone = self.0.is_made.swap(false, Ordering::Relaxed);
        if have_gone {
            self.0.is_asked.store(false, Ordering::Relaxed);
        }
        have_gone
    }
}

impl<S> Patient<S> {
    /// The stream with its clocks, the first of which runs as soon as it is served.
    pub(crate) fn new(stream: S, connection: Connection, answers: Answers) -> Self {
        let admission = connection.clone().served();
        Self {
            stream,
            connection,
            answers,
            admission: Some(Box::pin(admission)),
            until: None,
            head_until: None,
        }
    }

    /// Waits until it is served. The first request has so much time from then on.
    fn poll_admission(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(admission) = &mut self.admission {
            ready!(admission.as_mut().poll(context));
            self.admission = None;
            self.head_until = Some(Box::pin(sleep(HEADER_TIME)));
        }
        Poll::Ready(())
    }

    /// Fails when the headers of a request have taken too long.
    fn judge_head(
        &mut self,
        context: &mut Context<'_>,
        read: Poll<io::Result<()>>,
        is_more: bool,
    ) -> Poll<io::Result<()>> {
        if self.answers.is_asked() {
            self.head_until = None;
            return read;
        }
        if is_more {
            self.head_until
                .get_or_insert_with(|| Box::pin(sleep(HEADER_TIME)));
        }
        let Some(until) = &mut self.head_until else {
            return read;
        };
        // Each byte is a reason to look, however slowly they come.
        if until.is_elapsed() || Future::poll(until.as_mut(), context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }

    /// Fails when a write has waited for too long.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            if self.until.take().is_some() {
                self.connection.is_answered();
            }
            return result;
        }
        self.connection.rests();
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
        ready!(self.poll_admission(context));
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let is_more = buffer.filled().len() > before;
        self.judge_head(context, read, is_more)
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
            self.head_until = None;
            self.connection.rests();
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, result)
    }
}
