//! Scratch memory of one op: laid out once as offsets, which is also how its size is predicted.
#![expect(
    unsafe_code,
    reason = "pieces of one arena buffer are handed to threads that the compiler cannot tell apart"
)]

use crate::arena::Buffer;
use crate::error::Result;
use crate::host::HostMemory;

/// Every piece starts on a cache line.
const PIECE_ALIGN: usize = 64;

/// A piece of scratch: where it starts and how many values it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<T> {
    offset: usize,
    len: usize,
    kind: std::marker::PhantomData<T>,
}

/// Lays out pieces one after the other.
#[derive(Default)]
pub(super) struct Layout {
    bytes: usize,
}

impl Layout {
    /// Pieces of one kind and nothing else.
    pub(super) fn of<T, const N: usize>(lens: [usize; N]) -> (Self, [Piece<T>; N]) {
        let mut layout = Layout::default();
        let pieces = lens.map(|len| layout.take(len));
        (layout, pieces)
    }

    pub(super) fn take<T>(&mut self, len: usize) -> Piece<T> {
        let offset = self.bytes;
        self.bytes = (offset + len * size_of::<T>()).next_multiple_of(PIECE_ALIGN);
        Piece { offset, len, kind: std::marker::PhantomData }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of as many of it as there are threads.
    pub(super) fn per_thread(&self, threads: usize) -> u64 {
        (threads * self.bytes) as u64
    }
}

/// The memory behind a layout: a part for all threads, then one part per thread.
pub(super) struct Scratch {
    base: *mut u8,
    shared: usize,
    per_thread: usize,
    threads: usize,
    _buffer: Buffer,
}

// SAFETY: an address and numbers; pieces are only reached through unsafe calls with their own contracts.
unsafe impl Sync for Scratch {}

/// Bytes of a shared layout and one private layout per thread.
pub(super) fn total(shared: &Layout, private: &Layout, threads: usize) -> u64 {
    (shared.bytes() + threads * private.bytes()) as u64
}

impl Scratch {
    pub(super) fn new(
        host: &HostMemory,
        op: &'static str,
        shared: &Layout,
        private: &Layout,
        threads: usize,
    ) -> Result<Self> {
        let buffer = host.arena().alloc(total(shared, private, threads))?;
        let base = host.address(op, "scratch", &buffer)?;
        Ok(Scratch { base, shared: shared.bytes(), per_thread: private.bytes(), threads, _buffer: buffer })
    }

    /// A piece of the shared part.
    ///
    /// # Safety
    /// No other live borrow of the piece writes, and none exists at all if this one is written to.
    /// `T` may be read from any bytes.
    #[expect(clippy::mut_from_ref, reason = "threads borrow disjoint pieces of one scratch")]
    pub(super) unsafe fn shared<T>(&self, piece: Piece<T>) -> &mut [T] {
        assert!(piece.offset + piece.len * size_of::<T>() <= self.shared);
        // SAFETY: inside the buffer (checked), aligned to 64 bytes, initialised (the arena starts zeroed);
        // aliasing is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(piece.offset).cast(), piece.len) }
    }

    /// The part of the thread with this number in the pool.
    pub(super) fn own(&self, thread: usize) -> Own<'_> {
        Own { scratch: self, thread }
    }
}

/// A thread's own part of scratch.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    scratch: &'a Scratch,
    thread: usize,
}

impl<'a> Own<'a> {
    /// A piece of it.
    ///
    /// # Safety
    /// The calling thread is the one that the part belongs to, and it holds no other borrow of the piece.
    /// `T` may be read from any bytes.
    pub(super) unsafe fn piece<T>(self, piece: Piece<T>) -> &'a mut [T] {
        let Own { scratch, thread } = self;
        assert!(thread < scratch.threads && piece.offset + piece.len * size_of::<T>() <= scratch.per_thread);
        let start = scratch.shared + thread * scratch.per_thread + piece.offset;
        // SAFETY: as in `shared`.
        unsafe { std::slice::from_raw_parts_mut(scratch.base.add(start).cast(), piece.len) }
    }
}

/// A buffer that threads share, each using a part of its own.
pub(super) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    owner: std::marker::PhantomData<&'a mut [f32]>,
}

// SAFETY: an address; parts are only reached through an unsafe call with its own contract.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    pub(super) fn new(values: &'a mut [f32]) -> Self {
        Shared { start: values.as_mut_ptr(), len: values.len(), owner: std::marker::PhantomData }
    }

    /// `len` values from `start` on.
    ///
    /// # Safety
    /// No other live part overlaps this one.
    #[expect(clippy::mut_from_ref, reason = "threads borrow disjoint parts of one buffer")]
    pub(super) unsafe fn part(&self, start: usize, len: usize) -> &mut [f32] {
        assert!(start + len <= self.len);
        // SAFETY: inside the buffer (checked), which is borrowed for as long as `self`; aliasing is the
        // caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}
