//! Causal state on disk, in a form that knows nothing of plans: whole-frame rows of every tail under the
//! name of its layer.
//!
//! ```text
//! "RMSTATE2", length of the header (u64, little endian), header (JSON), crc32 of the header (u32),
//! the tails one behind the other, each followed by the crc32 of its bytes (u32)
//! ```

use std::io::{Read, Write};

use remaster_compute::{Arena, ComputeError, DType, Extent, Ops, Shape, Tensor, TensorStore};
use remaster_model::State;
use remaster_plan::Description;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;

const MAGIC: &[u8; 8] = b"RMSTATE2";

/// Headers are a few kilobytes; a larger one is not ours.
const MAX_HEADER: u64 = 1 << 24;

/// What the state belongs to: it continues the same job and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Belongs {
    pub(crate) network: Description,
    pub(crate) dtype: String,
    pub(crate) numerics: String,
    /// Rows and columns of cells.
    pub(crate) cells: [usize; 2],
    /// Tiles of the frame, and how its bands were cut.
    pub(crate) tiles: Vec<[usize; 4]>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    belongs: Belongs,
    /// Input frames that went through.
    seen: usize,
    /// Per tile, per layer.
    states: Vec<Vec<Tail>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Tail {
    name: String,
    shape: [usize; 4],
}

fn described(states: &[State]) -> Vec<Vec<Tail>> {
    let described = |(name, tail): (&str, &Tensor)| {
        let Shape { t, h, w, c } = tail.shape();
        Tail { name: name.to_owned(), shape: [t, h, w, c] }
    };
    states.iter().map(|state| state.tails().map(described).collect()).collect()
}

fn broken(reason: impl ToString) -> EngineError {
    EngineError::State { reason: reason.to_string() }
}

/// A file that is written or read once, in order, as a store: offsets do not matter.
struct Stream<F> {
    file: F,
    sum: crc32fast::Hasher,
    arena: Arena,
}

impl<F> Stream<F> {
    fn new(file: F) -> Self {
        Stream { file, sum: crc32fast::Hasher::new(), arena: Arena::new("state file", u64::MAX / 2) }
    }

    fn take_sum(&mut self) -> u32 {
        std::mem::replace(&mut self.sum, crc32fast::Hasher::new()).finalize()
    }
}

struct Writing<'a>(Stream<&'a mut (dyn Write + Send)>);
struct Reading<'a>(Stream<&'a mut (dyn Read + Send)>);

fn failed(action: &'static str, error: std::io::Error) -> ComputeError {
    ComputeError::Store { action, reason: error.to_string() }
}

impl TensorStore for Writing<'_> {
    fn arena(&self) -> &Arena {
        &self.0.arena
    }

    fn write(&mut self, _: u64, _: usize, bytes: &[u8]) -> Result<(), ComputeError> {
        self.0.sum.update(bytes);
        self.0.file.write_all(bytes).map_err(|e| failed("save", e))
    }

    fn read(&mut self, _: u64, _: usize, _: &mut [u8]) -> Result<(), ComputeError> {
        Err(ComputeError::Store { action: "read", reason: "the state is being saved".into() })
    }
}

impl TensorStore for Reading<'_> {
    fn arena(&self) -> &Arena {
        &self.0.arena
    }

    fn write(&mut self, _: u64, _: usize, _: &[u8]) -> Result<(), ComputeError> {
        Err(ComputeError::Store { action: "write", reason: "the state is being restored".into() })
    }

    fn read(&mut self, _: u64, _: usize, out: &mut [u8]) -> Result<(), ComputeError> {
        self.0.file.read_exact(out).map_err(|e| failed("restore", e))?;
        self.0.sum.update(out);
        Ok(())
    }
}

impl Writing<'_> {
    /// Bytes and then their checksum.
    fn sealed(&mut self, bytes: &[u8]) -> Result<(), ComputeError> {
        self.write(0, 0, bytes)?;
        self.seal()
    }

    fn seal(&mut self) -> Result<(), ComputeError> {
        let sum = self.0.take_sum();
        self.0.file.write_all(&sum.to_le_bytes()).map_err(|e| failed("save", e))
    }
}

impl Reading<'_> {
    /// Whether what was read since the last time is what was written.
    fn check(&mut self, what: &str) -> Result<(), EngineError> {
        let sum = self.0.take_sum();
        let mut stored = [0; 4];
        self.0.file.read_exact(&mut stored).map_err(|e| broken(format!("{what}: {e}")))?;
        if u32::from_le_bytes(stored) == sum { Ok(()) } else { Err(broken(format!("{what} is damaged"))) }
    }
}

fn extent(shape: Shape, dtype: DType) -> Extent {
    let row = shape.w * shape.c * dtype.bytes();
    Extent { start: 0, frame: (row * shape.h) as u64, row }
}

/// Writes the states of all tiles.
pub(crate) fn save(
    ops: &mut dyn Ops,
    belongs: &Belongs,
    states: &[State],
    to: &mut (dyn Write + Send),
) -> Result<(), EngineError> {
    let seen = states.first().map_or(0, State::seen);
    let header = Header { belongs: belongs.clone(), seen, states: described(states) };
    let header = serde_json::to_vec(&header).map_err(broken)?;
    let mut file = Writing(Stream::new(to));
    file.0.file.write_all(MAGIC).map_err(|e| failed("save", e))?;
    file.0.file.write_all(&(header.len() as u64).to_le_bytes()).map_err(|e| failed("save", e))?;
    file.sealed(&header)?;
    for (_, tail) in states.iter().flat_map(State::tails) {
        ops.stow(tail.view(), &mut file, extent(tail.shape(), tail.dtype()))?;
        file.seal()?;
    }
    Ok(())
}

/// Reads the states of all tiles into the room that `states` have, and says how many frames went before.
pub(crate) fn restore(
    ops: &mut dyn Ops,
    belongs: &Belongs,
    states: &[State],
    from: &mut (dyn Read + Send),
) -> Result<usize, EngineError> {
    let mut start = [0; 16];
    from.read_exact(&mut start).map_err(broken)?;
    let (magic, length) = start.split_at(8);
    if magic != MAGIC {
        return Err(broken("it is no state, or one of another version"));
    }
    let length = length.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    if length > MAX_HEADER {
        return Err(broken("its header is damaged"));
    }
    let mut file = Reading(Stream::new(from));
    // Grows with what is there, not with what is claimed.
    let mut header = Vec::new();
    (&mut *file.0.file).take(length).read_to_end(&mut header).map_err(broken)?;
    file.0.sum.update(&header);
    file.check("its header")?;
    let header: Header = serde_json::from_slice(&header).map_err(broken)?;
    if header.belongs != *belongs {
        return Err(broken(format!("it belongs to {:?}, this is {belongs:?}", header.belongs)));
    }
    if header.states != described(states) {
        return Err(broken("its layers are not those of this network"));
    }
    for (name, tail) in states.iter().flat_map(State::tails) {
        ops.fetch(&mut file, extent(tail.shape(), tail.dtype()), tail.view())?;
        file.check(name)?;
    }
    Ok(header.seen)
}
