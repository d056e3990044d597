//! What all threads of a test hold at most.
//!
//! ```ignore
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//!
//! assert!(held(|| work()) < 1 << 20);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// Counts what all threads hold. Arenas are mapped and not among it.
pub struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

fn grown(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes as i64, SeqCst) + bytes as i64, SeqCst);
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every call is passed on to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Layout) -> *mut u8 {
        grown(block.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(block) }
    }

    unsafe fn alloc_zeroed(&self, block: Layout) -> *mut u8 {
        grown(block.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(block) }
    }

    unsafe fn dealloc(&self, at: *mut u8, block: Layout) {
        LIVE.fetch_sub(block.size() as i64, SeqCst);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, block) }
    }
}

/// Bytes that `work` holds at most, beside what is held already. One test in a process: another one at the same time
/// would be counted, too.
pub fn held(work: impl FnOnce()) -> u64 {
    let before = LIVE.load(SeqCst);
    PEAK.store(before, SeqCst);
    work();
    (PEAK.load(SeqCst) - before) as u64
}
