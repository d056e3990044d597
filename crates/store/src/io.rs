//! The thread that does the asynchronous work, so that callers see none of it.

use std::future::Future;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Local files are read and written in threads of the runtime; more at once do not make a disk faster.
const BLOCKING_THREADS: usize = 32;

/// A current-thread runtime in a thread of its own. Idle connections stay looked after between calls, and a caller that
/// lives inside another runtime cannot disturb it, as it would if its own thread had to drive this one.
pub(crate) struct Io {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The result of work that was started.
pub(crate) struct Pending<T> {
    hear: Receiver<T>,
    /// It came before it was waited for.
    came: Option<T>,
}

impl Io {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
            let _ = runtime.block_on(stopped);
            // A read that hangs on a dead network drive must not hang the end of the program.
            runtime.shutdown_background();
        })?;
        Ok(Io { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Starts work. It goes on to its end even if its result is not awaited.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Pending<T> {
        let (say, hear) = sync_channel(1);
        // The channel has room for the one result, so that this never blocks.
        self.handle.spawn(async move { drop(say.send(work.await)) });
        Pending { hear, came: None }
    }
}

impl<T> Pending<T> {
    /// Waits for it; `None` if the thread has ended or the work has panicked. The work itself has the time limits.
    pub(crate) fn wait(self) -> Option<T> {
        self.came.or_else(|| self.hear.recv().ok())
    }

    /// Whether [`Pending::wait`] would return at once.
    pub(crate) fn is_over(&mut self) -> bool {
        if self.came.is_some() {
            return true;
        }
        match self.hear.try_recv() {
            Ok(came) => {
                self.came = Some(came);
                true
            }
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => true,
        }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_for_many_threads_and_inside_another_runtime() {
        let io = Io::start().unwrap();
        std::thread::scope(|scope| {
            for i in 0..8 {
                let io = &io;
                scope.spawn(move || assert_eq!(io.begin(async move { i * 2 }).wait().unwrap(), i * 2));
            }
        });
        let outer = Builder::new_current_thread().build().unwrap();
        outer.block_on(async { assert_eq!(io.begin(async { 7 }).wait().unwrap(), 7) });
    }
}
