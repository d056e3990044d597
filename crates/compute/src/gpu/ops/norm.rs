//! Statistics from row sums, and normalisation on its own.

use super::{THREADS, quad};
use crate::dtype::DType;
use crate::error::ComputeError;
use crate::gpu::Gpu;
use crate::gpu::bindings::{Operand, Ranges};
use crate::gpu::kernels::{Kernel, Role};
use crate::gpu::pack::up4;
use crate::gpu::params::{CombineParams, NormalizeParams};
use crate::ops::{CombineDesc, NormalizeDesc, Prologue};
use crate::tensor::Shape;

impl Gpu {
    pub(in crate::gpu) fn combine_now(&mut self, d: &CombineDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "combine_sums";
        let Shape { t, h, c, .. } = d.sums.shape();
        let sums = self.place(OP, "row sums", &d.sums)?;
        let output = self.place(OP, "output", &d.output)?;
        let found = self.norms.iter().position(|n| n == d.name);
        let norm = found.unwrap_or_else(|| {
            self.norms.push(d.name.to_owned());
            self.norms.len() - 1
        });
        let groups = c / 2;
        let params = CombineParams {
            sums: sums.at,
            output: output.at,
            rows: h,
            groups,
            count: d.count,
            eps: d.eps,
            number: norm + 1,
            jobs: t * groups,
        };
        let ranges = Ranges::from([
            (Operand::Sums, sums.range),
            (Operand::Output, output.range),
            (Operand::Note, self.stream.note()),
        ]);
        let kernel = Kernel { role: Role::Combine, dtype: DType::F32, vec_in: true };
        self.enqueue(kernel, &params, ranges, params.jobs)
    }

    pub(in crate::gpu) fn normalize_now(&mut self, d: &NormalizeDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "normalize";
        let Shape { t, h, w, c } = d.input.shape();
        let input = self.place(OP, "input", &d.input)?;
        let output = self.place(OP, "output", &d.output)?;
        let mut ranges = Ranges::from([(Operand::Input, input.range), (Operand::Output, output.range)]);
        let prologue = Prologue { stats: d.stats.clone(), affine: d.affine, silu: d.silu };
        let params = NormalizeParams {
            input: input.at,
            output: output.at,
            norm: self.norm(OP, &prologue, c, &mut ranges)?,
            cin: c,
            cin4: up4(c),
            frame_pixels: h * w,
            pixels: t * h * w,
        };
        let kernel = Kernel { role: Role::Normalize, dtype: d.input.dtype(), vec_in: quad(c) };
        let threads = params.pixels * params.cin4 / 4;
        self.enqueue(kernel, &params, ranges, threads.div_ceil(THREADS))
    }
}
