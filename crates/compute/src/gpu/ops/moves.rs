//! Ops that move values: copy, conversion, shuffle.

use super::{THREADS, quad};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::bindings::{Operand, Ranges};
use crate::gpu::kernels::{Kernel, Role};
use crate::gpu::params::{CopyParams, ShuffleParams};
use crate::ops::ShuffleDesc;
use crate::tensor::{Shape, View};

impl Gpu {
    pub(in crate::gpu) fn copy_now(&mut self, from: &View<'_>, to: &View<'_>) -> Result<()> {
        const OP: &str = "copy";
        let Shape { t, h, w, c } = from.shape();
        let mut ranges = Ranges::default();
        let vec_in = quad(c);
        let frame_units = h * w * c / if vec_in { 4 } else { 1 };
        let units = t * frame_units;
        let params = CopyParams {
            input: self.bind(OP, &mut ranges, Operand::Input, "input", from)?,
            output: self.bind(OP, &mut ranges, Operand::Output, "output", to)?,
            frame_units,
            units,
        };
        let kernel = Kernel { role: Role::Copy { from: from.dtype() }, dtype: to.dtype(), vec_in };
        self.enqueue(kernel, &params, ranges, units.div_ceil(THREADS))
    }

    pub(in crate::gpu) fn shuffle_now(&mut self, d: &ShuffleDesc<'_>) -> Result<()> {
        const OP: &str = "shuffle";
        let (from, to) = (d.input.shape(), d.output.shape());
        let mut ranges = Ranges::default();
        let vec_in = quad(to.c);
        let units = to.len() / if vec_in { 4 } else { 1 };
        let [factor_t, factor_y, factor_x] = d.factors;
        let params = ShuffleParams {
            input: self.bind(OP, &mut ranges, Operand::Input, "input", &d.input)?,
            output: self.bind(OP, &mut ranges, Operand::Output, "output", &d.output)?,
            w_in: from.w,
            cin: from.c,
            output_rows: to.h,
            output_w: to.w,
            cout: to.c,
            factor_t,
            factor_y,
            factor_x,
            drop_second: d.drop_second,
            units,
        };
        let kernel = Kernel { role: Role::Shuffle, dtype: d.output.dtype(), vec_in };
        self.enqueue(kernel, &params, ranges, units.div_ceil(THREADS))
    }
}
