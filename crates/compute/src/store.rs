//! Memory beside the device: where tensors wait that the device has no room for.

use memmap2::{MmapMut, MmapOptions};

use crate::arena::Arena;
use crate::error::{ComputeError, Result};

/// Rows of a tensor in a store, frame by frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte of the first row of the first frame.
    pub start: u64,
    /// Bytes from one frame to the next.
    pub frame: u64,
    /// Bytes of a row. Rows of a frame lie one behind the other.
    pub row: usize,
}

impl Extent {
    /// First byte of a row of a frame.
    pub(crate) fn row_at(&self, frame: usize, row: usize) -> u64 {
        self.start + frame as u64 * self.frame + (row * self.row) as u64
    }
}

/// Keeps bytes at offsets that its arena hands out. What is written is whole rows, and rows are read back
/// at the offsets they were written to: a store may keep a checksum per row.
pub trait TensorStore: Send {
    /// The book of what is in use.
    fn arena(&self) -> &Arena;

    /// Keeps rows of `row` bytes from offset `at` on. May return before they are safe; a failure is then
    /// reported by a later call.
    fn write(&mut self, at: u64, row: usize, bytes: &[u8]) -> Result<()>;

    /// Gives them back.
    fn read(&mut self, at: u64, row: usize, out: &mut [u8]) -> Result<()>;

    /// Says that these bytes will be read soon. Only a hint.
    fn will_read(&mut self, _at: u64, _row: usize, _bytes: usize) {}
}

/// Host memory as a store.
pub struct HostStore {
    memory: MmapMut,
    arena: Arena,
}

impl HostStore {
    /// Room for `cap` bytes. The system commits pages when they are first touched.
    pub fn new(cap: u64) -> Result<Self> {
        let refused = || ComputeError::HostMemory { bytes: cap };
        let bytes = usize::try_from(cap).map_err(|_| refused())?.max(1);
        let memory = MmapOptions::new().len(bytes).map_anon().map_err(|_| refused())?;
        Ok(HostStore { memory, arena: Arena::new("host", cap) })
    }
}

impl TensorStore for HostStore {
    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn write(&mut self, at: u64, _row: usize, bytes: &[u8]) -> Result<()> {
        let range = range_of(at, bytes.len(), self.memory.len())?;
        self.memory[range].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, at: u64, _row: usize, out: &mut [u8]) -> Result<()> {
        let range = range_of(at, out.len(), self.memory.len())?;
        out.copy_from_slice(&self.memory[range]);
        Ok(())
    }
}

/// A store that keeps the book and nothing else: for a meter, or where a run needs no store.
pub struct NullStore(Arena);

impl NullStore {
    /// A book of `cap` bytes. The name says which store it stands for.
    pub fn new(name: &'static str, cap: u64) -> Self {
        NullStore(Arena::new(name, cap))
    }
}

impl TensorStore for NullStore {
    fn arena(&self) -> &Arena {
        &self.0
    }

    fn write(&mut self, _at: u64, _row: usize, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, _at: u64, _row: usize, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        Ok(())
    }
}

/// Bytes `at..at + bytes` of a store of `len` bytes.
fn range_of(at: u64, bytes: usize, len: usize) -> Result<std::ops::Range<usize>> {
    let start = usize::try_from(at).ok();
    let end = start.and_then(|s| s.checked_add(bytes)).filter(|end| *end <= len);
    match (start, end) {
        (Some(start), Some(end)) => Ok(start..end),
        _ => Err(ComputeError::Store {
            action: "reach",
            reason: format!("{bytes} bytes at {at} of a store of {len} bytes"),
        }),
    }
}
