//! Many cases at a time.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Does the cases of these numbers, each once, in several threads.
pub fn in_threads(threads: usize, cases: Range<usize>, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(cases.start);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let case = next.fetch_add(1, Relaxed)
                    && case < cases.end
                {
                    work(case);
                }
            });
        }
    });
}
