//! The thread that writes a film, and the engine's end of it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Messages that wait for the thread. While it writes one slice the engine makes the next, which is handed over when it
/// is asked for: one more in between would only take memory.
pub(crate) const WAITING: usize = 0;

/// A thread that takes messages in order and writes frames.
pub(crate) struct Worker<M, E> {
    to: Option<SyncSender<M>>,
    thread: Option<JoinHandle<Result<usize, E>>>,
    /// The error of a thread that ended without a result.
    died: fn(&'static str) -> E,
}

impl<M: Send + 'static, E: Send + 'static> Worker<M, E> {
    /// Starts `work`, which returns how many frames it wrote. Messages that end before it returns mean that the run failed.
    pub(crate) fn start(
        died: fn(&'static str) -> E,
        work: impl FnOnce(Receiver<M>) -> Result<usize, E> + Send + 'static,
    ) -> Self {
        let (to, from) = sync_channel(WAITING);
        let thread = std::thread::spawn(move || work(from));
        Worker { to: Some(to), thread: Some(thread), died }
    }

    /// Hands a message over, or says what the thread failed with.
    pub(crate) fn send(&mut self, message: M) -> Result<(), E> {
        if self.to.as_ref().is_some_and(|to| to.send(message).is_ok()) {
            return Ok(());
        }
        self.to = None;
        Err(self.join().err().unwrap_or_else(|| (self.died)("encoding")))
    }

    /// Sends the last message and waits until the file is in its place. Returns its frames.
    pub(crate) fn complete(mut self, last: M) -> Result<usize, E> {
        self.send(last)?;
        self.to = None;
        self.join()
    }

    fn join(&mut self) -> Result<usize, E> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err((self.died)("encoding")),
        }
    }
}

impl<M, E> Drop for Worker<M, E> {
    fn drop(&mut self) {
        drop(self.to.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
