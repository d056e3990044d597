//! Worker threads. An op is a list of independent items; threads take the next one until none is left.
//! Which thread does an item never changes its result.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cancel::CancelToken;
use crate::error::{ComputeError, Result};

pub(super) struct Pool {
    threads: usize,
    pool: Option<rayon::ThreadPool>,
    cancel: CancelToken,
}

impl Pool {
    pub(super) fn new(threads: usize, cancel: CancelToken) -> Result<Self> {
        let failed =
            |e: rayon::ThreadPoolBuildError| ComputeError::Threads { threads, reason: e.to_string() };
        let pool = match threads {
            0 | 1 => None,
            n => Some(rayon::ThreadPoolBuilder::new().num_threads(n).build().map_err(failed)?),
        };
        Ok(Pool { threads: threads.max(1), pool, cancel })
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    pub(super) fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    /// Calls `work(thread, item)` for every item below `items`. Each `thread` runs one item at a time.
    /// Stops early when cancelled, so an item should take well under 100 ms.
    pub(super) fn run(&self, items: usize, work: impl Fn(usize, usize) + Sync) {
        let next = AtomicUsize::new(0);
        let take = |thread: usize| {
            while !self.cancel.is_cancelled() {
                let item = next.fetch_add(1, Ordering::Relaxed);
                if item >= items {
                    break;
                }
                work(thread, item);
            }
        };
        match &self.pool {
            Some(pool) if items > 1 => {
                pool.broadcast(|context| take(context.index()));
            }
            _ => take(0),
        }
    }
}
