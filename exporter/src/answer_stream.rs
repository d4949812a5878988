//! A connection that gives up on a client that does not take its answer.
//!
//! A page fits the kernel's buffer, so a client that never reads is noticed only when it asks again and again:
//! then the buffers are full, and whoever writes would wait for as long as the client likes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Whether a client is owed an answer: from the end of its request's head until the answer has been written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Debt(Arc<AtomicBool>);

impl Debt {
    /// A request is there.
    pub(crate) fn incur(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether its answer is still to be written.
    pub(crate) fn is_owed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn settle(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A stream whose writes fail with [`io::ErrorKind::TimedOut`] once an answer has waited too long.
#[derive(Debug)]
pub(crate) struct AnswerStream<S> {
    inner: S,
    /// How long the client may take from the first time that it takes no more until it has all.
    limit: Duration,
    /// Runs from that first time.
    patience: Option<Pin<Box<Sleep>>>,
    debt: Debt,
    /// Whether anything was written since the last flush.
    has_written: bool,
}

impl<S> AnswerStream<S> {
    pub(crate) fn new(inner: S, limit: Duration, debt: Debt) -> Self {
        Self { inner, limit, patience: None, debt, has_written: false }
    }

    /// What a write or a flush came to, or that the patience is over.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let limit = self.limit;
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(patience.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AnswerStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AnswerStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.has_written |= written.is_ready();
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.has_written |= written.is_ready();
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// The server flushes when all of an answer has been written: the next one has patience of its own.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        if flushed.is_ready() {
            self.patience = None;
            if std::mem::take(&mut self.has_written) {
                self.debt.settle();
            }
        }
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
