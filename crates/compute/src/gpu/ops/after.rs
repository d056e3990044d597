//! What follows a product in one dispatch: the tail for the next slice, and sums of the rows. Row sums of any other
//! tensor use the same kernel.

use super::{THREADS, quad};
use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::bindings::{Operand, Ranges};
use crate::gpu::kernels::{Kernel, Role};
use crate::gpu::pack::up4;
use crate::gpu::params::AfterParams;
use crate::ops::{RowSums, RowSumsDesc};
use crate::tensor::{Shape, View};

/// What is known before the tail and the sums are.
pub(super) struct After {
    pub(super) params: AfterParams,
    pub(super) ranges: Ranges,
    pub(super) dtype: DType,
    /// Whether the input is normalised on the way.
    pub(super) prologue: bool,
}

impl Gpu {
    pub(super) fn after(
        &mut self,
        op: &'static str,
        after: After,
        carry: Option<&View<'_>>,
        sums: Option<&RowSums<'_>>,
    ) -> Result<()> {
        let After { mut params, mut ranges, dtype, prologue } = after;
        if let Some(carry) = carry {
            let Shape { h, w, c, .. } = carry.shape();
            params.carry = self.bind(op, &mut ranges, Operand::Carry, "new tail", carry)?;
            (params.carry_row0, params.carry_rows) = (carry.row_range().start, h);
            params.tail_jobs = (h * w * up4(c) / 4).div_ceil(THREADS);
        }
        params.jobs = params.tail_jobs;
        if let Some(sums) = sums {
            let Shape { t, h, .. } = sums.output.shape();
            params.sums = self.bind(op, &mut ranges, Operand::Sums, "row sums", &sums.output)?;
            params.groups = sums.groups;
            params.jobs += t * h * sums.groups;
        }
        // Sums do not depend on the input's channels: without a tail one kernel serves all.
        let vec_in = carry.is_none_or(|c| quad(c.shape().c));
        let kernel = Kernel { role: Role::After { prologue: prologue && carry.is_some() }, dtype, vec_in };
        self.enqueue(kernel, &params, ranges, params.jobs)
    }

    pub(in crate::gpu) fn row_sums_now(&mut self, d: &RowSumsDesc<'_>) -> Result<()> {
        const OP: &str = "row_sums";
        let Shape { h: output_rows, w: output_w, c: cout, .. } = d.input.shape();
        let mut ranges = Ranges::default();
        let output = self.bind(OP, &mut ranges, Operand::Output, "input", &d.input)?;
        let params = AfterParams { output, output_rows, output_w, cout, ..Default::default() };
        let after = After { params, ranges, dtype: d.input.dtype(), prologue: false };
        let sums = RowSums { groups: d.groups, output: d.output.clone() };
        self.after(OP, after, None, Some(&sums))
    }
}
