//! What corrections allocate: no more than was said, and not much less.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use remaster_colour::alpha::{self, AlphaKind};
use remaster_colour::{Mode, correct, working_bytes};
use remaster_picture::Frame;

/// Counts what is held.
struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every call is passed on to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Layout) -> *mut u8 {
        PEAK.fetch_max(LIVE.fetch_add(block.size() as i64, SeqCst) + block.size() as i64, SeqCst);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(block) }
    }

    unsafe fn alloc_zeroed(&self, block: Layout) -> *mut u8 {
        PEAK.fetch_max(LIVE.fetch_add(block.size() as i64, SeqCst) + block.size() as i64, SeqCst);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(block) }
    }

    unsafe fn dealloc(&self, at: *mut u8, block: Layout) {
        LIVE.fetch_sub(block.size() as i64, SeqCst);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, block) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn measured(work: impl FnOnce()) -> u64 {
    let before = LIVE.load(SeqCst);
    PEAK.store(before, SeqCst);
    work();
    (PEAK.load(SeqCst) - before) as u64
}

/// Shades of one hue, which is what hsv needs most for.
fn shades(width: usize, height: usize, channels: usize) -> Frame {
    let mut frame = Frame::new(width, height, channels);
    for (i, v) in frame.data.iter_mut().enumerate() {
        *v = [0.3, 0.4, 0.8][i % channels] + 0.1 * (i / channels % 97) as f32 / 97.0;
    }
    frame
}

// One test: another one at the same time would be counted, too.
#[test]
fn corrections_hold_no_more_than_they_say() {
    for (count, w, h) in [(1, 1, 1), (1, 1, 50), (1, 640, 360), (3, 320, 200), (2, 1000, 9)] {
        for mode in Mode::ALL {
            let references = vec![shades(w, h, 3); count];
            let mut frames = references.clone();
            let held = measured(|| correct(mode, &mut frames, &references).unwrap());
            let said = working_bytes(mode, count, w, h);
            println!("{count} x {w} x {h}, {mode}: {held} of {said} bytes");
            assert!(held <= said, "{count} x {w} x {h}, {mode}: {held} of {said} bytes");
            if w * h > 100 {
                assert!(
                    held as f64 >= 0.75 * said as f64,
                    "{count} x {w} x {h}, {mode}: {held} of {said} bytes"
                );
            }
        }
    }
    for (source, [w, h]) in
        [([320, 200], [640, 400]), ([1, 1], [3, 3]), ([700, 500], [70, 50]), ([9, 400], [300, 20])]
    {
        for kind in [AlphaKind::Binary, AlphaKind::Soft] {
            let (plane, rgb) = (shades(source[0], source[1], 1), shades(w, h, 3));
            let held = measured(|| drop(alpha::restore(kind, &plane, &rgb)));
            let said = alpha::working_bytes(source, [w, h]);
            println!("alpha {kind:?} {source:?} to {w} x {h}: {held} of {said} bytes");
            assert!(held <= said, "{kind:?} {source:?} to {w} x {h}: {held} of {said} bytes");
        }
    }
    for mode in Mode::ALL {
        assert!(working_bytes(mode, usize::MAX, usize::MAX, usize::MAX) >= working_bytes(mode, 1, 1, 1));
    }
    assert_eq!(alpha::working_bytes([usize::MAX; 2], [usize::MAX; 2]), u64::MAX);
}
