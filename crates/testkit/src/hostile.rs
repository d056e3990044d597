//! Files made to do harm: mutations of good ones, and an allocator that counts what a parser holds.
//!
//! ```ignore
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//!
//! attack("png", &[good], 64 << 20, |bytes| drop(read(bytes)));
//! ```
#![expect(clippy::panic, reason = "a failing check of a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::{Rng, nightly};

/// Longest time that one file may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Numbers that parsers get wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// How many mutations each parser gets: `REMASTER_HOSTILE_CASES`, or 1,000, at night 10,000.
pub fn cases() -> usize {
    std::env::var("REMASTER_HOSTILE_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or_else(|| nightly(1000, 10_000))
}

/// A file that is nearly `bytes`: one to four of its parts are flipped, overwritten, cut, repeated or moved.
pub fn mutate(rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    for _ in 0..rng.between(1, 4) {
        if file.is_empty() {
            file.push(rng.bits() as u8);
        }
        let at = rng.below(file.len());
        // Headers are short and at the front: half of the changes go there.
        let at = if rng.one_in(2) { at % file.len().min(256) } else { at };
        let length = rng.between(1, 16).min(file.len() - at);
        match rng.below(8) {
            0 => file[at] ^= 1 << rng.below(8),
            1 => file[at] = rng.bits() as u8,
            2 | 3 => {
                let (edge, width) = (rng.pick(&EDGES), rng.pick(&[1usize, 2, 4, 8]));
                let (big, little) = (edge.to_be_bytes(), edge.to_le_bytes());
                let number = if rng.one_in(2) { &big[8 - width..] } else { &little[..width] };
                let fits = width.min(file.len() - at);
                file[at..at + fits].copy_from_slice(&number[..fits]);
            }
            4 => file.truncate(at),
            5 => drop(file.drain(at..at + length)),
            6 => {
                let part = file[at..at + length].to_vec();
                let to = rng.below(file.len());
                file.splice(to..to, part);
            }
            // A digit of a text becomes a larger number.
            _ => match file[at..].iter().position(u8::is_ascii_digit) {
                Some(i) => drop(file.splice(at + i..at + i, *b"99999999")),
                None => file[at] = b'9',
            },
        }
    }
    file
}

/// Gives `parse` mutations of `good` files, [`cases`] in all. None may panic, take more than 5 s, or hold more than
/// `allowed` bytes beyond the file. The test must use [`Counting`] as its allocator.
pub fn attack(name: &str, good: &[Vec<u8>], allowed: usize, mut parse: impl FnMut(&[u8])) {
    let mut rng =
        Rng::new(name.bytes().fold(1u64, |seed, b| seed.wrapping_mul(31).wrapping_add(u64::from(b))));
    for case in 0..cases() {
        let file = mutate(&mut rng, &good[case % good.len()]);
        let started = Instant::now();
        let (ended, held) = measured(|| catch_unwind(AssertUnwindSafe(|| parse(&file))));
        let took = started.elapsed();
        let allowed = allowed + file.len();
        if ended.is_err() || took > PATIENCE || held > allowed {
            let place = std::env::temp_dir().join(format!("remaster-{name}-{case}.bin"));
            let _ = std::fs::write(&place, &file);
            let panicked = if ended.is_err() { "panicked, " } else { "" };
            let place = place.display();
            panic!("{name} case {case}: {panicked}{took:?}, {held} bytes of {allowed}; the file is {place}");
        }
    }
}

/// The checksum of PNG, bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, b| (0..8).fold(crc ^ u32::from(*b), |c, _| step(c)))
}

/// Counts what the current thread holds. Tests run on several threads; each sees its own.
pub struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn grown(bytes: usize) {
    // A thread that is ending has no counters any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes as isize);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
        LARGEST.with(|largest| largest.set(largest.get().max(bytes)));
    });
}

fn shrunk(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get() - bytes as isize));
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every call is passed on to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        shrunk(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new count together, as when the block has to move.
        grown(size);
        // SAFETY: the caller keeps the contract of `realloc`.
        let moved = unsafe { System.realloc(at, layout, size) };
        shrunk(layout.size());
        moved
    }
}

/// What `work` gives, and the most bytes that it held at once on this thread.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    LARGEST.set(0);
    let done = work();
    (done, (PEAK.get() - before).max(0) as usize)
}

/// The largest allocation of the last [`measured`] work of this thread.
pub fn largest() -> usize {
    LARGEST.get()
}
