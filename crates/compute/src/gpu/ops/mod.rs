//! Ops as parameters and operands of their kernels, one file for each family.

mod after;
mod attention;
mod moves;
mod norm;
mod pass;
mod product;
mod tokens;

pub(super) use norm::RUN;
pub(super) use pass::pass_bytes;

use std::ops::Range;

use super::Gpu;
use super::bindings::{Operand, Ranges};
use super::kernels::Kernel;
use super::pack::Layout;
use super::params::{Fields, Jobs, Norm, Params};
use crate::error::{Result, mismatch};
use crate::ops::{Ops, Prologue};
use crate::weight::Weight;

/// Threads of a workgroup in the kernels that work value by value.
const THREADS: usize = 64;

fn quad(n: usize) -> bool {
    n.is_multiple_of(4)
}

impl Gpu {
    /// The bytes and the layout of the weight of a product.
    fn weight(&mut self, op: &'static str, weight: &Weight) -> Result<(Range<u64>, Layout)> {
        let at = weight.buffer(&self.arena)?.offset();
        let order = self.product(op, &weight.spec())?.order();
        let Some(layout) = Layout::new(&weight.spec(), order) else {
            return Err(mismatch(op, "weight", format!("{weight:?}"), "one that is multiplied"));
        };
        Ok((at..at + layout.bytes() as u64, layout))
    }

    /// The parameters of a normalisation of `channels`, whose operands are added to `ranges`.
    fn norm(
        &self,
        op: &'static str,
        prologue: &Prologue<'_>,
        channels: usize,
        ranges: &mut Ranges,
    ) -> Result<Norm> {
        let stats = self.bind(op, ranges, Operand::Stats, "statistics", &prologue.stats)?;
        self.bind_affine(prologue.affine, ranges)?;
        let group_width = channels / (prologue.stats.shape().c / 2);
        Ok(Norm { stats, group_width, silu: prologue.silu })
    }

    /// Binds numbers that are not a product's.
    fn bind_affine(&self, weight: &Weight, ranges: &mut Ranges) -> Result<()> {
        let at = weight.buffer(&self.arena)?.offset();
        ranges.set(Operand::Affine, at..at + self.weight_bytes(&weight.spec()));
        Ok(())
    }

    /// Enqueues `jobs` workgroups; none at all is no dispatch.
    fn enqueue(&mut self, kernel: Kernel, params: &impl Fields, ranges: Ranges, jobs: usize) -> Result<()> {
        if jobs == 0 {
            return Ok(());
        }
        let [x, y] = self.stream.grid(jobs);
        self.stream.dispatch(kernel, &Params::new(params, ranges), [x, y, 1], 0)
    }

    /// Enqueues `jobs` times `columns` workgroups, in several dispatches if one would take too long.
    fn in_parts<F: Fields>(
        &mut self,
        kernel: Kernel,
        ranges: &Ranges,
        [jobs, columns]: [usize; 2],
        macs: u64,
        params: impl Fn(Jobs) -> F,
    ) -> Result<()> {
        let each = (macs / jobs.max(1) as u64).max(1);
        let mut first = 0;
        let mut ranges = ranges.clone();
        while first < jobs {
            let most = usize::try_from(self.stream.most(&kernel) / each).unwrap_or(usize::MAX);
            let n = most.clamp(1, jobs - first);
            ranges.partial |= n < jobs;
            let [x, y] = self.stream.grid(n);
            let part = params(Jobs { first_job: first, end_job: first + n });
            let params = Params::new(&part, ranges.clone());
            self.stream.dispatch(kernel, &params, [x, y, columns as u32], each * n as u64)?;
            first += n;
        }
        Ok(())
    }
}
