//! What flows through the network, and what a layer needs to run.

use remaster_compute::{ComputeError, DType, Ops, RowSums, Shape, Tensor, View};

use super::state::{State, Tail};

/// An activation together with the row sums that the normalisation behind it will want. Whoever makes
/// the values makes the sums: they are at hand then.
pub struct Act {
    /// `[t, h, w, c]`.
    pub x: Tensor,
    /// `[t, h, 1, 2 * groups]`, absent where no normalisation follows.
    pub sums: Option<Tensor>,
}

impl Act {
    /// Room for an activation, with sums for `groups` groups if that is not 0.
    pub fn alloc(ops: &mut dyn Ops, shape: Shape, dtype: DType, groups: usize) -> Result<Self, ComputeError> {
        let x = ops.alloc(shape, dtype)?;
        let sums = match groups {
            0 => None,
            n => Some(ops.alloc(Shape::new(shape.t, shape.h, 1, 2 * n), DType::F32)?),
        };
        Ok(Act { x, sums })
    }

    /// All of it.
    pub fn view(&self) -> View<'_> {
        self.x.view()
    }

    /// `[t, h, w, c]`.
    pub fn shape(&self) -> Shape {
        self.x.shape()
    }

    /// Where the sums go, for a descriptor.
    pub(crate) fn sums_out(&self) -> Option<RowSums<'_>> {
        self.sums.as_ref().map(|s| RowSums { groups: s.shape().c / 2, output: s.view() })
    }
}

/// One slice on its way through the network: the backend and the clip's state.
pub struct Pass<'a> {
    /// What computes.
    pub ops: &'a mut dyn Ops,
    /// What the clip's earlier slices left behind.
    pub state: &'a mut State,
}

/// The tail of one convolution: the old one to read, the new one to write. They are the same tensor where
/// both exist.
pub(crate) struct Tails {
    pub(crate) carried: Option<Tail>,
    pub(crate) carry: Option<Tail>,
}

impl Pass<'_> {
    /// The tail of the convolution `name`, of this shape; none where nothing is carried (`t` is 0).
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
