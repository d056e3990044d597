//! A connection that is given up when nothing moves.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long nothing may move. Longer than any answer takes to begin but previews, and than the pause between events.
const STILL: Duration = Duration::from_secs(300);

/// How often work that may take longer says that it goes on.
const GOES_ON: Duration = Duration::from_secs(60);

/// A connection, and when something last moved on it.
pub(crate) struct Watched {
    stream: TcpStream,
    moved: Moved,
}

/// When something last moved.
#[derive(Clone)]
pub(crate) struct Moved {
    begun: Instant,
    at: Arc<AtomicU64>,
}

impl Moved {
    fn now(&self) {
        self.at.store(self.begun.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// Does work that may take longer than a connection may be still.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(GOES_ON, &mut work).await {
                Ok(done) => return done,
                Err(_) => self.now(),
            }
        }
    }

    /// Ends when nothing has moved for too long.
    pub(crate) async fn until_still(self) {
        loop {
            let still = self.begun.elapsed().as_secs().saturating_sub(self.at.load(Ordering::Relaxed));
            match STILL.checked_sub(Duration::from_secs(still)) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left + Duration::from_secs(1)).await,
                _ => return,
            }
        }
    }
}

impl Watched {
    pub(crate) fn new(stream: TcpStream) -> (Self, Moved) {
        let moved = Moved { begun: Instant::now(), at: Arc::default() };
        (Watched { stream, moved: moved.clone() }, moved)
    }

    fn moved<T>(&self, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.moved.now();
        }
        done
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.moved(done)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.moved(done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        list: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, list);
        self.moved(done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
