//! What every network is: weights, a geometry, and a way from input to output.

use std::ops::Range;

use remaster_compute::{ComputeError, DType, Ops, Shape, Tensor, Weight};

use crate::state::{State, Tail};

/// A part of a network that has weights.
pub trait Module {
    /// Calls `f` with every weight, in the order of use.
    fn weights(&self, f: &mut dyn FnMut(&Weight));
}

/// A network: a slice in, a slice out. Pairs are of what goes in and what comes out.
pub trait Network: Module + Send + Sync {
    /// Short name, as in messages and file names.
    fn name(&self) -> &'static str;

    /// What decides its bits beside precision and kernels.
    fn variant(&self) -> &'static str {
        "plain"
    }

    /// Channels.
    fn channels(&self) -> [usize; 2];

    /// Pixels of a cell, each way: the least that a frame can be cut into.
    fn scale(&self) -> [usize; 2] {
        [1, 1]
    }

    /// Frames of one step of time, where the first step of a clip takes one frame and makes one. `None` for a network
    /// that sees all frames at once and carries nothing.
    fn step(&self) -> Option<[usize; 2]> {
        None
    }

    /// Takes the next slice of a clip, `[t, h, w, channels in]`, to `[t', h', w', channels out]`.
    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError>;

    /// Whether it goes through its input group by group, each of about `Ops::group` tokens.
    fn groups(&self) -> bool {
        false
    }

    /// Cells to each side of a cell that can reach it, if that is known and no statistics of the frame are used: a frame
    /// can then be cut into bands, each computed with so many rows more.
    fn reach(&self) -> Option<usize> {
        None
    }

    /// Its levels, if parts of it can run on their own.
    fn levels(&self) -> Option<&dyn Levels> {
        None
    }
}

/// A network as levels that work at one size each: those of large frames can run in bands of rows, normalised with
/// statistics of the whole frame.
pub trait Levels {
    /// How many there are.
    fn count(&self) -> usize;

    /// Pixels per cell, each way, of what goes into a level; `count()` stands for the output.
    fn scale(&self, level: usize) -> usize;

    /// Rows (and columns) of cells beside a pixel, at the input of the levels, that can reach it.
    fn reach(&self, levels: Range<usize>) -> usize;

    /// Runs some levels: what goes into the first to what comes out of the last. Does not advance the state.
    fn run(&self, pass: &mut Pass<'_>, x: Tensor, levels: Range<usize>) -> Result<Tensor, ComputeError>;
}

/// One slice on its way through a network: the backend and the clip's state.
pub struct Pass<'a> {
    /// What computes.
    pub ops: &'a mut dyn Ops,
    /// What the clip's earlier slices left behind.
    pub state: &'a mut State,
}

/// The tail of one layer: the old one to read, the new one to write. They are the same tensor where both exist.
pub(crate) struct Tails {
    pub(crate) carried: Option<Tail>,
    pub(crate) carry: Option<Tail>,
}

impl Pass<'_> {
    /// The tail of the layer `name`, of this shape; none where nothing is carried (`t` is 0).
    pub(crate) fn tails(&mut self, name: &str, shape: Shape, dtype: DType) -> Result<Tails, ComputeError> {
        if shape.t == 0 {
            return Ok(Tails { carried: None, carry: None });
        }
        let room = self.state.take(name);
        let carried = room.clone().filter(|_| self.state.is_continued());
        let carry = match (self.state.keeps(), room) {
            (false, _) => None,
            (true, Some(room)) => Some(room),
            (true, None) => Some(self.ops.alloc_kept(shape, dtype)?),
        };
        Ok(Tails { carried, carry })
    }

    /// Leaves a tail for the next slice.
    pub(crate) fn leave(&mut self, name: &str, carry: Option<Tail>) {
        if let Some(carry) = carry {
            self.state.put(name, carry);
        }
    }
}

/// Loads every weight of a part of a network.
pub fn load(ops: &mut dyn Ops, module: &(impl Module + ?Sized)) -> Result<(), ComputeError> {
    let mut result = Ok(());
    module.weights(&mut |weight| {
        if result.is_ok() {
            result = ops.load(weight);
        }
    });
    result
}
