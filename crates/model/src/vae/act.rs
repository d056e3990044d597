//! What flows through the network.

use remaster_compute::{ComputeError, DType, Ops, RowSums, Shape, Tensor, View};

/// An activation together with the row sums that the normalisation behind it will want. Whoever makes
/// the values makes the sums: they are at hand then.
pub struct Act {
    /// `[t, h, w, c]`.
    pub x: Tensor,
    /// `[t, h, 1, 2 * groups]`, absent where no normalisation follows.
    pub sums: Option<Tensor>,
}

impl From<Tensor> for Act {
    fn from(x: Tensor) -> Self {
        Act { x, sums: None }
    }
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
