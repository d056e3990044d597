//! A connection: when something last moved on it, whether it waits for its client, and whether that client is still there.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long nothing may move. Longer than any answer takes to begin but previews, and than the pause between events.
const STILL: Duration = Duration::from_secs(300);

/// How often work that may take longer says that it goes on.
const GOES_ON: Duration = Duration::from_secs(60);

/// How long a client that has closed its side is taken for one that waits for its answer, before that is tried. Most answers
/// take less.
const HALF_CLOSED: Duration = Duration::from_millis(300);

/// How long the system of a client that is gone may take to say so.
const ECHO: Duration = Duration::from_millis(200);

/// How often it is tried again.
const TRIED: Duration = Duration::from_secs(5);

/// How long a client of HTTP/1.0, which knows no such answer, may wait.
const OLD: Duration = Duration::from_secs(10);

/// An answer that clients of HTTP/1.1 pass over. A system whose program is gone answers it with a reset.
const PASSED_OVER: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What a connection does.
#[derive(Debug)]
pub(crate) struct Activity {
    begun: Instant,
    /// Nanoseconds from its beginning to what last moved.
    moved: AtomicU64,
    /// It can do nothing before the client sends or reads more.
    reading: AtomicBool,
    writing: AtomicBool,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let (moved, flag) = (AtomicU64::new(0), AtomicBool::default);
        Activity { begun: Instant::now(), moved, reading: flag(), writing: flag() }
    }

    fn now(&self) {
        self.moved.store(self.begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// When something last moved.
    fn since(&self) -> Instant {
        self.begun + Duration::from_nanos(self.moved.load(Ordering::Relaxed))
    }

    /// How long nothing has moved.
    fn still(&self) -> Duration {
        self.since().elapsed()
    }

    /// Since when the client has been waited for; `None` if it is not.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        let waits = self.reading.load(Ordering::Relaxed) || self.writing.load(Ordering::Relaxed);
        waits.then(|| self.since())
    }

    #[cfg(test)]
    pub(crate) fn set_waits(&self, waits: bool) {
        self.reading.store(waits, Ordering::Relaxed);
    }

    /// One that was begun a minute ago, and moved now.
    #[cfg(test)]
    pub(crate) fn old() -> Self {
        let old = Activity { begun: Instant::now() - Duration::from_secs(60), ..Activity::new() };
        old.now();
        old
    }

    /// Lets it wait for a minute.
    #[cfg(test)]
    pub(crate) fn age(&self) {
        self.moved.store(0, Ordering::Relaxed);
        self.set_waits(true);
    }

    /// Ends when nothing has moved for too long.
    pub(crate) async fn until_still(&self) {
        loop {
            match STILL.checked_sub(self.still()) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left + Duration::from_millis(1)).await,
                _ => return,
            }
        }
    }
}

/// The client at the other end, for those who answer it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    stream: Arc<TcpStream>,
    pub(crate) activity: Arc<Activity>,
    is_local: bool,
}

impl Client {
    /// True if the other end is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Does work that may take longer than a connection may be still.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(GOES_ON, &mut work).await {
                Ok(done) => return done,
                Err(_) => self.activity.now(),
            }
        }
    }

    /// Waits so that the place of this client can be given to others meanwhile.
    pub(crate) async fn penalty(&self, time: Duration) {
        self.activity.reading.store(true, Ordering::Relaxed);
        tokio::time::sleep(time).await;
        self.activity.reading.store(false, Ordering::Relaxed);
    }

    /// Ends when the client sends no more. False if the connection is broken.
    pub(crate) async fn half_closed(&self) -> bool {
        loop {
            match self.stream.peek(&mut [0]).await {
                Ok(0) => return true,
                // It sends its next request already.
                Ok(_) => tokio::time::sleep(HALF_CLOSED).await,
                Err(_) => return false,
            }
        }
    }

    /// Ends when nobody is there who could read an answer. Closing one side and closing both look alike until something is
    /// sent, so something is. Only for the time before an answer begins.
    pub(crate) async fn gone(&self, is_old: bool) {
        if !self.half_closed().await {
            return;
        }
        tokio::time::sleep(if is_old { OLD } else { HALF_CLOSED }).await;
        while !is_old && self.is_there() {
            tokio::time::sleep(ECHO).await;
            if !matches!(self.stream.take_error(), Ok(None)) {
                return;
            }
            tokio::time::sleep(TRIED).await;
        }
    }

    /// Sends what clients pass over. False if that fails.
    fn is_there(&self) -> bool {
        match self.stream.try_write(PASSED_OVER) {
            Ok(sent) => sent == PASSED_OVER.len(),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// A connection whose activity is noted.
pub(crate) struct Watched(Client);

impl Watched {
    pub(crate) fn new(stream: TcpStream) -> (Self, Client) {
        let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
        let client = Client { stream: Arc::new(stream), activity: Arc::new(Activity::new()), is_local };
        (Watched(client.clone()), client)
    }

    fn done<T>(&self, waits: &AtomicBool, done: Poll<T>) -> Poll<T> {
        waits.store(done.is_pending(), Ordering::Relaxed);
        if done.is_ready() {
            self.0.activity.now();
        }
        done
    }

    fn poll_sent(
        &self,
        cx: &mut Context<'_>,
        send: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.stream.poll_write_ready(cx))?;
            match send(&self.0.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_received(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.stream.poll_read_ready(cx))?;
            match self.0.stream.try_read(buf.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|count| buf.advance(count))),
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let done = self.poll_received(cx, buf);
        self.done(&self.0.activity.reading, done)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = self.poll_sent(cx, |stream| stream.try_write(bytes));
        self.done(&self.0.activity.writing, done)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// It closes when it is dropped, which is next.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        list: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = self.poll_sent(cx, |stream| stream.try_write_vectored(list));
        self.done(&self.0.activity.writing, done)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
