//! The one convolution of the network.

use remaster_compute::{ComputeError, ConvDesc, Padding, Prologue, Shape, Shortcut, View, Weight};

use super::act::Act;
use crate::network::{Module, Pass, Tails};
use crate::params::Scope;

/// A 3-D convolution that sees no frame later than its own. In front of a clip its first frame is
/// repeated; in front of a later slice stand the frames the slice before left behind.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/causal_inflation_lib.py#L51>
pub struct CausalConv3d {
    weight: Weight,
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: Padding,
    cout: usize,
}

/// What is computed in one step with a convolution.
#[derive(Default)]
pub struct Fused<'a> {
    /// Normalisation on the way in.
    pub prologue: Option<Prologue<'a>>,
    /// The result is added to it, in its memory.
    pub residual: Option<Act>,
    /// Convolved 1x1x1 and added to the result.
    pub shortcut: Option<(View<'a>, &'a CausalConv3d)>,
    /// Groups of the normalisation behind; 0 for none.
    pub groups: usize,
}

impl Fused<'_> {
    /// Only the sums for a normalisation behind.
    pub fn sums(groups: usize) -> Self {
        Fused { groups, ..Fused::default() }
    }
}

impl CausalConv3d {
    /// 3x3x3, step 1, one zero pixel fused each frame.
    pub fn new(scope: &mut Scope<'_>, name: &str, cin: usize, cout: usize) -> Self {
        Self::with(scope, name, [cin, cout], [3; 3], [1; 3], Padding::all(1))
    }

    /// 1x1x1.
    pub fn pointwise(scope: &mut Scope<'_>, name: &str, cin: usize, cout: usize) -> Self {
        Self::with(scope, name, [cin, cout], [1; 3], [1; 3], Padding::default())
    }

    /// Any kernel.
    pub fn with(
        scope: &mut Scope<'_>,
        name: &str,
        [cin, cout]: [usize; 2],
        kernel: [usize; 3],
        stride: [usize; 3],
        padding: Padding,
    ) -> Self {
        CausalConv3d { weight: scope.conv(name, [cin, cout], kernel, stride), kernel, stride, padding, cout }
    }

    /// `[t, h, w, cin]` to `[t', h', w', cout]`, where t' = t / stride (one more in front of a clip).
    pub fn forward(&self, pass: &mut Pass<'_>, x: View<'_>, fused: Fused<'_>) -> Result<Act, ComputeError> {
        let tail = self.kernel[0] - self.stride[0];
        let shape = Shape { t: tail, ..x.shape() };
        let Tails { carried, carry } = pass.tails(self.weight.name(), shape, x.dtype())?;
        let accumulate = fused.residual.is_some();
        let y = match fused.residual {
            Some(residual) => residual,
            None => {
                let shape = self.output(x.shape(), carried.is_some());
                Act::alloc(pass.ops, shape, x.dtype(), fused.groups)?
            }
        };
        pass.ops.conv(&ConvDesc {
            input: x,
            prologue: fused.prologue,
            carried: carried.as_ref().map(|t| t.view()),
            carry: carry.as_ref().map(|t| t.view()),
            weight: &self.weight,
            padding: self.padding,
            accumulate,
            shortcut: fused.shortcut.map(|(input, conv)| Shortcut { input, weight: &conv.weight }),
            sums: y.sums_out(),
            output: y.view(),
        })?;
        pass.leave(self.weight.name(), carry);
        Ok(y)
    }

    fn output(&self, x: Shape, continued: bool) -> Shape {
        let front = if continued { self.kernel[0] - self.stride[0] } else { self.kernel[0] - 1 };
        let steps =
            |size: usize, axis: usize| (size.saturating_sub(self.kernel[axis])) / self.stride[axis] + 1;
        let Padding { top, bottom, left, right } = self.padding;
        Shape::new(
            steps(x.t + front, 0),
            steps(x.h + top + bottom, 1),
            steps(x.w + left + right, 2),
            self.cout,
        )
    }
}

impl Module for CausalConv3d {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        f(&self.weight);
    }
}
