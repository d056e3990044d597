//! Statistics from row sums, and normalisation on its own.

use super::{THREADS, quad};
use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::bindings::{Operand, Ranges};
use crate::gpu::kernels::{Kernel, Role};
use crate::gpu::pack::up4;
use crate::gpu::params::{CombineParams, NormalizeParams};
use crate::ops::{CombineDesc, NormalizeDesc};
use crate::tensor::Shape;

/// Pixels of a thread of the kernel that normalises.
pub(in crate::gpu) const RUN: usize = 4;

impl Gpu {
    pub(in crate::gpu) fn combine_now(&mut self, d: &CombineDesc<'_>) -> Result<()> {
        const OP: &str = "combine_sums";
        let Shape { t, h, c, .. } = d.sums.shape();
        let mut ranges = Ranges::default();
        ranges.set(Operand::Note, self.stream.note());
        let sums = self.bind(OP, &mut ranges, Operand::Sums, "row sums", &d.sums)?;
        let output = self.bind(OP, &mut ranges, Operand::Output, "output", &d.output)?;
        let found = self.norms.iter().position(|n| n == d.name);
        let norm = found.unwrap_or_else(|| {
            self.norms.push(d.name.to_owned());
            self.norms.len() - 1
        });
        let groups = c / 2;
        let params = CombineParams {
            sums,
            output,
            rows: h,
            groups,
            count: d.count,
            eps: d.eps,
            number: norm + 1,
            jobs: t * groups,
        };
        let kernel = Kernel { role: Role::Combine, dtype: DType::F32, vec_in: true };
        self.enqueue(kernel, &params, ranges, params.jobs)
    }

    pub(in crate::gpu) fn normalize_now(&mut self, d: &NormalizeDesc<'_>) -> Result<()> {
        const OP: &str = "normalize";
        let Shape { t, h, w, c } = d.input.shape();
        let mut ranges = Ranges::default();
        let frame_runs = (h * w).div_ceil(RUN);
        let params = NormalizeParams {
            input: self.bind(OP, &mut ranges, Operand::Input, "input", &d.input)?,
            output: self.bind(OP, &mut ranges, Operand::Output, "output", &d.output)?,
            norm: self.norm(OP, &d.prologue(), c, &mut ranges)?,
            cin: c,
            cin4: up4(c),
            frame_pixels: h * w,
            frame_runs,
            runs: t * frame_runs,
        };
        let kernel = Kernel { role: Role::Normalize, dtype: d.input.dtype(), vec_in: quad(c) };
        let threads = params.runs * params.cin4 / 4;
        self.enqueue(kernel, &params, ranges, threads.div_ceil(THREADS))
    }
}
