//! Memory handed out in pieces, never more than a cap.
//!
//! The arena is bookkeeping only: offsets in one range `0..cap`. What lies behind an offset is the
//! backend's business (host memory, device buffers, a file, or nothing at all for the meter), so every
//! backend that makes the same requests in the same order gets the same offsets and the same peak.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::{ComputeError, Result};

/// Every buffer starts at a multiple of this. 256 is the largest storage-offset alignment GPU APIs ask for.
pub const ALIGN: u64 = 256;

/// Hands out buffers up to a hard cap. Clones share one book.
#[derive(Clone, Debug)]
pub struct Arena(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u64,
    name: &'static str,
    cap: u64,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// Free pieces below `top`, by offset; neighbours are always merged.
    holes: BTreeMap<u64, u64>,
    /// Everything from here to the cap is free.
    top: u64,
    live: u64,
    peak: u64,
    peak_live: u64,
}

/// A piece of an arena, given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Buffer(Arc<Block>);

/// Does not keep its arena alive: what a backend left in the weights of a network ends with the backend.
#[derive(Debug)]
struct Block {
    arena: Weak<Shared>,
    id: u64,
    offset: u64,
    bytes: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(arena) = self.arena.upgrade() {
            arena.book().give_back(self.offset, round_up(self.bytes));
        }
    }
}

impl Buffer {
    /// Where the piece starts.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Whether the piece came from `arena`.
    pub fn is_from(&self, arena: &Arena) -> bool {
        self.0.id == arena.0.id
    }

    /// Whether the arena of the piece is still there.
    pub fn is_alive(&self) -> bool {
        self.0.arena.strong_count() > 0
    }

    /// Whether both names mean the same piece.
    pub fn same_as(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Arena {
    /// An arena of `cap` bytes, named in error messages.
    pub fn new(name: &'static str, cap: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arena(Arc::new(Shared { id, name, cap, book: Mutex::default() }))
    }

    /// A piece of `bytes` bytes, or `OutOfMemory`. Contents are whatever was there before.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer> {
        let mut book = self.0.book();
        match book.take(round_up(bytes), self.0.cap) {
            Some(offset) => {
                let arena = Arc::downgrade(&self.0);
                Ok(Buffer(Arc::new(Block { arena, id: self.0.id, offset, bytes })))
            }
            None => Err(ComputeError::OutOfMemory {
                arena: self.0.name,
                requested: bytes,
                live: book.live,
                cap: self.0.cap,
                largest: book.largest(self.0.cap),
            }),
        }
    }

    /// The hard cap in bytes.
    pub fn cap(&self) -> u64 {
        self.0.cap
    }

    /// Bytes in use now.
    pub fn live(&self) -> u64 {
        self.0.book().live
    }

    /// The highest end of any buffer so far: the size an arena must have to serve the same requests.
    pub fn peak(&self) -> u64 {
        self.0.book().peak
    }

    /// The most bytes in use at one time so far. `peak` minus this is what fragmentation costs.
    pub fn peak_live(&self) -> u64 {
        self.0.book().peak_live
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // No code panics while it holds the book, so a poisoned lock still guards a sound one.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Smallest hole that fits, lowest first; only then the free top. The top comes last whatever the cap
    /// is, so that a capped arena and an endless one lay out the same requests in the same way.
    fn take(&mut self, bytes: u64, cap: u64) -> Option<u64> {
        let hole = self.holes.iter().filter(|(_, len)| **len >= bytes).min_by_key(|(_, len)| **len);
        let offset = match hole.map(|(offset, len)| (*offset, *len)) {
            Some((offset, len)) => {
                self.holes.remove(&offset);
                if len > bytes {
                    self.holes.insert(offset + bytes, len - bytes);
                }
                offset
            }
            None => {
                let end = self.top.checked_add(bytes).filter(|end| *end <= cap)?;
                std::mem::replace(&mut self.top, end)
            }
        };
        self.live += bytes;
        self.peak = self.peak.max(self.top);
        self.peak_live = self.peak_live.max(self.live);
        Some(offset)
    }

    fn give_back(&mut self, mut offset: u64, mut bytes: u64) {
        self.live -= bytes;
        if let Some((before, len)) = self.holes.range(..offset).next_back().map(|(o, l)| (*o, *l))
            && before + len == offset
        {
            self.holes.remove(&before);
            offset = before;
            bytes += len;
        }
        if let Some(len) = self.holes.remove(&(offset + bytes)) {
            bytes += len;
        }
        if offset + bytes == self.top {
            self.top = offset;
        } else if bytes > 0 {
            self.holes.insert(offset, bytes);
        }
    }

    fn largest(&self, cap: u64) -> u64 {
        self.holes.values().copied().max().unwrap_or(0).max(cap.saturating_sub(self.top))
    }
}

/// Zero-sized requests still take a place of their own, so that two buffers never share an offset.
fn round_up(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX / ALIGN * ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_over_the_cap_is_an_error_that_names_the_numbers() {
        let arena = Arena::new("test", 1024);
        let first = arena.alloc(700).unwrap();
        let error = arena.alloc(512).unwrap_err().to_string();
        assert!(error.contains("512") && error.contains("768 of 1024") && error.contains("256"), "{error}");
        drop(first);
        assert!(arena.alloc(1024).is_ok());
        assert!(arena.alloc(u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn buffers_never_overlap_and_everything_comes_back(
            requests in proptest::collection::vec((0u64..5000, 0usize..4), 1..200),
        ) {
            let arena = Arena::new("test", 1 << 20);
            let endless = Arena::new("endless", u64::MAX / 2);
            let mut live: Vec<(Buffer, Buffer)> = Vec::new();
            for (bytes, drop_index) in requests {
                let b = arena.alloc(bytes).unwrap();
                let e = endless.alloc(bytes).unwrap();
                prop_assert_eq!(b.offset(), e.offset());
                for (other, _) in &live {
                    prop_assert!(b.offset() + b.bytes() <= other.offset() || other.offset() + other.bytes() <= b.offset());
                }
                live.push((b, e));
                if drop_index > 0 && live.len() > drop_index {
                    live.swap_remove(live.len() / drop_index - 1);
                }
                prop_assert!(arena.peak() >= arena.peak_live());
            }
            prop_assert_eq!(arena.peak(), endless.peak());
            live.clear();
            prop_assert_eq!(arena.live(), 0);
            prop_assert!(arena.alloc(1 << 20).is_ok());
        }
    }
}
