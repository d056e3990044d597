//! Ops as numbers for their kernels.

use std::ops::Range;

use super::bindings::Operand;
use super::kernels::{Kernel, Product, QUERIES, Role, attention_values};
use super::pack::{Layout, up4};
use super::params::{P, Params};
use super::stream::DISPATCH_MACS;
use super::{Gpu, Place};
use crate::dtype::DType;
use crate::error::{ComputeError, mismatch};
use crate::ops::{
    AttentionDesc, AttentionWork, CombineDesc, ConvDesc, ConvWork, LinearDesc, LinearWork, NormalizeDesc,
    Ops, Padding, Prologue, RowSums, RowSumsDesc, ShuffleDesc, UpsampleDesc, UpsampleWork,
};
use crate::tensor::{Shape, View};
use crate::weight::Weight;

/// Threads of the kernels that work value by value.
const THREADS: usize = 64;

/// A product: what its weight does not say.
struct Conv {
    params: Params,
    prologue: bool,
    shortcut: bool,
    /// Grid cells of a frame, frames, phases of a cell.
    cells: usize,
    frames: usize,
    phases: usize,
    macs: u64,
}

/// What follows a product, or stands alone: the product's parameters, its format, and whether a normalisation
/// went before it.
struct After {
    params: Params,
    dtype: DType,
    prologue: bool,
}

fn quad(n: usize) -> bool {
    n.is_multiple_of(4)
}

fn set_x(params: &mut Params, p: Place) {
    params.lies(Operand::X, p.range);
    params.set(&[(P::X_SKIP, p.skip), (P::X_FRAME, p.frame), (P::X_ROW0, p.row0)]);
}

fn set_c(params: &mut Params, p: Place) {
    params.lies(Operand::C, p.range);
    params.set(&[(P::C_SKIP, p.skip), (P::C_FRAME, p.frame), (P::C_ROW0, p.row0)]);
}

fn set_s(params: &mut Params, p: Place) {
    params.lies(Operand::S, p.range);
    params.set(&[(P::S_SKIP, p.skip), (P::S_FRAME, p.frame)]);
}

fn set_y(params: &mut Params, p: Place, rows: usize, columns: usize) {
    params.lies(Operand::Y, p.range);
    params.set(&[
        (P::Y_SKIP, p.skip),
        (P::Y_FRAME, p.frame),
        (P::Y_ROW0, p.row0),
        (P::Y_END, p.row0 + rows),
        (P::Y_ROWS, rows),
        (P::Y_W, columns),
    ]);
}

impl Gpu {
    /// Where a weight that is multiplied lies.
    fn weight(&mut self, op: &'static str, weight: &Weight) -> Result<(Range<u64>, Layout), ComputeError> {
        let at = self.address(op, "weight", &weight.buffer(&self.arena)?)?;
        let transformed = matches!(self.product(op, &weight.spec())?, Product::Winograd(_));
        let Some(layout) = Layout::new(&weight.spec(), transformed) else {
            return Err(mismatch(op, "weight", format!("{weight:?}"), "one that is multiplied"));
        };
        Ok((at..at + layout.bytes() as u64, layout))
    }

    /// The weight of a product: matrices, bias, list of taps.
    fn set_weight(
        &mut self,
        op: &'static str,
        params: &mut Params,
        weight: &Weight,
    ) -> Result<(), ComputeError> {
        let (range, layout) = self.weight(op, weight)?;
        params.lies(Operand::W, range).set(&[
            (P::BIAS, layout.bias() / 4),
            (P::TABLE, layout.table() / 4),
            (P::TABLE_ROW, layout.list),
        ]);
        Ok(())
    }

    fn set_prologue(
        &self,
        op: &'static str,
        params: &mut Params,
        prologue: &Prologue<'_>,
        channels: usize,
    ) -> Result<(), ComputeError> {
        let stats = self.place(op, "statistics", &prologue.stats)?;
        let affine = self.address(op, "scale and shift", &prologue.affine.buffer(&self.arena)?)?;
        let bytes = self.weight_bytes(&prologue.affine.spec());
        params.lies(Operand::T, stats.range).lies(Operand::A, affine..affine + bytes).set(&[
            (P::T_SKIP, stats.skip),
            (P::T_FRAME, stats.frame),
            (P::WIDE, channels / (prologue.stats.shape().c / 2)),
            (P::SILU, prologue.silu.into()),
        ]);
        Ok(())
    }

    pub(super) fn conv_now(&mut self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<(), ComputeError> {
        const OP: &str = "conv";
        let mut params = Params::new();
        set_x(&mut params, self.place(OP, "input", &d.input)?);
        set_y(&mut params, self.place(OP, "output", &d.output)?, work.rows.len(), work.w_out);
        self.set_weight(OP, &mut params, d.weight)?;
        if let Some(carried) = &d.carried {
            set_c(&mut params, self.place(OP, "carried tail", carried)?);
        }
        if let Some(prologue) = &d.prologue {
            self.set_prologue(OP, &mut params, prologue, work.cin)?;
        }
        let product = self.product(OP, &d.weight.spec())?;
        let transformed = matches!(product, Product::Winograd(_));
        let shortcut = d.shortcut.as_ref().filter(|_| !transformed);
        if let Some(shortcut) = shortcut {
            set_s(&mut params, self.place(OP, "shortcut", &shortcut.input)?);
            let (range, layout) = self.weight(OP, shortcut.weight)?;
            params
                .lies(Operand::V, range)
                .set(&[(P::SHORT_CIN, shortcut.input.shape().c), (P::SHORT_BIAS, layout.bias() / 4)]);
        }
        // Transformed tiles are cells of two by two pixels.
        let factor = if transformed { 2 } else { 1 };
        let first = work.rows.start / factor;
        let (cell_rows, columns) = (work.rows.end.div_ceil(factor) - first, work.w_out.div_ceil(factor));
        let need = work.input_rows();
        let [kt, ..] = work.kernel;
        let [st, sy, sx] = work.stride;
        params.set(&[
            (P::H_IN, work.h_in),
            (P::W_IN, work.w_in),
            (P::W_GRID, columns),
            (P::H_GRID, work.h_out),
            (P::CELL0, first),
            (P::NEED0, need.start),
            (P::NEED1, need.end),
            (P::STRIDE_T, st),
            (P::STRIDE_Y, sy),
            (P::STRIDE_X, sx),
            (P::BEFORE_Y, work.padding.top),
            (P::BEFORE_X, work.padding.left),
            (P::KT, kt),
            (P::PREFIX, work.prefix),
            (P::CONTINUED, work.continued.into()),
            (P::FACTOR, factor),
            (P::PHASES, 1),
            (P::ACCUMULATE, d.accumulate.into()),
            (P::TAIL, work.tail),
            (P::TAIL_FIRST, work.prefix + work.t_in - work.tail),
        ]);
        let conv = Conv {
            params,
            prologue: d.prologue.is_some(),
            shortcut: shortcut.is_some(),
            cells: cell_rows * columns,
            frames: work.t_out,
            phases: 1,
            macs: work.macs(),
        };
        let params = self.multiply(OP, d.weight, conv)?;
        // A shortcut has no transform: it is a product of its own.
        if let (Some(shortcut), true) = (&d.shortcut, transformed) {
            let (input, output) = (shortcut.input.clone(), d.output.clone());
            let alone = ConvDesc::new(input, shortcut.weight, Padding::all(0), output);
            self.conv(&ConvDesc { accumulate: true, ..alone })?;
        }
        let after = After { params, dtype: work.dtype, prologue: d.prologue.is_some() };
        self.after(OP, after, d.carry.as_ref(), d.sums.as_ref())
    }

    pub(super) fn upsample_now(
        &mut self,
        d: &UpsampleDesc<'_>,
        work: &UpsampleWork,
    ) -> Result<(), ComputeError> {
        const OP: &str = "upsample";
        let mut params = Params::new();
        set_x(&mut params, self.place(OP, "input", &d.input)?);
        set_y(&mut params, self.place(OP, "output", &d.output)?, work.rows.len(), 2 * work.w);
        self.set_weight(OP, &mut params, d.weight)?;
        if let Some(carried) = &d.carried {
            set_c(&mut params, self.place(OP, "carried tail", carried)?);
        }
        let prefix = match (work.time, work.continued) {
            (true, false) => 0,
            (true, true) => 1,
            (false, _) => 2,
        };
        let mode = match (work.time, work.continued) {
            (false, _) => 1,
            (true, true) => 2,
            (true, false) => 3,
        };
        let first = work.rows.start / 2;
        params.set(&[
            (P::H_IN, work.h),
            (P::W_IN, work.w),
            (P::W_GRID, work.w),
            (P::H_GRID, work.h),
            (P::CELL0, first),
            (P::STRIDE_Y, 1),
            (P::STRIDE_X, 1),
            (P::BEFORE_Y, 1),
            (P::BEFORE_X, 1),
            (P::PREFIX, prefix),
            (P::CONTINUED, work.continued.into()),
            (P::MODE, mode),
            (P::SECOND, work.second.into()),
            (P::FACTOR, 2),
            (P::PHASES, 4),
            (P::TAIL, work.tail),
            (P::TAIL_FIRST, prefix + work.t_in - work.tail),
        ]);
        let conv = Conv {
            params,
            prologue: false,
            shortcut: false,
            cells: (work.rows.end.div_ceil(2) - first) * work.w,
            frames: work.t_out,
            phases: 4,
            macs: work.macs(),
        };
        let params = self.multiply(OP, d.weight, conv)?;
        let after = After { params, dtype: work.dtype, prologue: false };
        self.after(OP, after, d.carry.as_ref(), d.sums.as_ref())
    }

    pub(super) fn linear_now(&mut self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<(), ComputeError> {
        const OP: &str = "linear";
        let mut params = Params::new();
        let rows = work.rows.len();
        set_x(&mut params, self.place(OP, "input", &d.input)?);
        set_y(&mut params, self.place(OP, "output", &d.output)?, rows, work.w);
        self.set_weight(OP, &mut params, d.weight)?;
        params.set(&[
            (P::H_IN, work.h),
            (P::W_IN, work.w),
            (P::W_GRID, work.w),
            (P::H_GRID, work.h),
            (P::CELL0, work.rows.start),
            (P::STRIDE_T, 1),
            (P::STRIDE_Y, 1),
            (P::STRIDE_X, 1),
            (P::KT, 1),
            (P::FACTOR, 1),
            (P::PHASES, 1),
            (P::ACCUMULATE, d.accumulate.into()),
        ]);
        let conv = Conv {
            params,
            prologue: false,
            shortcut: false,
            cells: rows * work.w,
            frames: work.t,
            phases: 1,
            macs: work.macs(),
        };
        let params = self.multiply(OP, d.weight, conv)?;
        self.after(OP, After { params, dtype: work.dtype, prologue: false }, None, d.sums.as_ref())
    }

    /// The product of a weight; gives the parameters back for what follows it.
    fn multiply(&mut self, op: &'static str, weight: &Weight, conv: Conv) -> Result<Params, ComputeError> {
        let Conv { mut params, prologue, shortcut, cells, frames, phases, macs } = conv;
        let product = self.product(op, &weight.spec())?;
        let (_, Layout { cin, cout, dtype, .. }) = self.weight(op, weight)?;
        let [bm, bn, _] = product.tile();
        let tiles = cells.div_ceil(bm);
        params.set(&[
            (P::CIN, cin),
            (P::CIN4, up4(cin)),
            (P::COUT, cout),
            (P::COUT4, up4(cout)),
            (P::CELLS, cells),
            (P::TILES, tiles),
        ]);
        let role = Role::Conv { product, prologue, shortcut, vec_out: quad(cout) };
        let kernel = Kernel { role, dtype, vec_in: quad(cin) };
        self.in_parts(kernel, &mut params, tiles * frames, cout.div_ceil(bn) * phases, macs)?;
        Ok(params)
    }

    /// Enqueues `jobs` times `columns` workgroups, in several dispatches if one would take too long.
    fn in_parts(
        &mut self,
        kernel: Kernel,
        params: &mut Params,
        jobs: usize,
        columns: usize,
        macs: u64,
    ) -> Result<(), ComputeError> {
        let parts = macs.div_ceil(DISPATCH_MACS).max(1) as usize;
        let some = jobs.div_ceil(parts).max(1);
        for first in (0..jobs).step_by(some) {
            let n = some.min(jobs - first);
            let [x, y] = self.stream.grid(n);
            params.set(&[(P::FIRST, first), (P::JOBS, first + n)]);
            let macs = macs / jobs as u64 * n as u64;
            self.stream.dispatch(kernel, params, [x, y, columns as u32], macs)?;
        }
        Ok(())
    }

    /// The tail for the next slice and sums of the rows.
    fn after(
        &mut self,
        op: &'static str,
        after: After,
        carry: Option<&View<'_>>,
        sums: Option<&RowSums<'_>>,
    ) -> Result<(), ComputeError> {
        let After { mut params, dtype, prologue } = after;
        let mut tail_jobs = 0;
        if let Some(carry) = carry {
            let place = self.place(op, "new tail", carry)?;
            let Shape { h, w, c, .. } = carry.shape();
            params.lies(Operand::K, place.range).set(&[
                (P::K_SKIP, place.skip),
                (P::K_FRAME, place.frame),
                (P::K_ROW0, place.row0),
                (P::K_ROWS, h),
            ]);
            tail_jobs = (h * w * up4(c) / 4).div_ceil(THREADS);
        }
        let mut sum_jobs = 0;
        if let Some(sums) = sums {
            let place = self.place(op, "row sums", &sums.output)?;
            params.lies(Operand::U, place.range).set(&[
                (P::U_SKIP, place.skip),
                (P::U_FRAME, place.frame),
                (P::GROUPS, sums.groups),
            ]);
            let Shape { t, h, .. } = sums.output.shape();
            sum_jobs = t * h * sums.groups;
        }
        let jobs = tail_jobs + sum_jobs;
        if jobs == 0 {
            return Ok(());
        }
        params.set(&[(P::TAIL_JOBS, tail_jobs), (P::JOBS, jobs), (P::FIRST, 0)]);
        // Sums do not ask how many channels went in: without a tail there is one kernel for all.
        let vec_in = carry.is_none_or(|c| quad(c.shape().c));
        let kernel = Kernel { role: Role::After { prologue: prologue && carry.is_some() }, dtype, vec_in };
        let [x, y] = self.stream.grid(jobs);
        self.stream.dispatch(kernel, &params, [x, y, 1], 0)
    }

    pub(super) fn row_sums_now(&mut self, d: &RowSumsDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "row_sums";
        let Shape { h, w, c, .. } = d.input.shape();
        let mut params = Params::new();
        set_y(&mut params, self.place(OP, "input", &d.input)?, h, w);
        params.set(&[(P::COUT, c)]);
        let sums = RowSums { groups: d.groups, output: d.output.clone() };
        self.after(OP, After { params, dtype: d.input.dtype(), prologue: false }, None, Some(&sums))
    }

    pub(super) fn combine_now(&mut self, d: &CombineDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "combine_sums";
        let Shape { t, h, c, .. } = d.sums.shape();
        let mut params = Params::new();
        set_x(&mut params, self.place(OP, "row sums", &d.sums)?);
        set_y(&mut params, self.place(OP, "output", &d.output)?, h, 1);
        let (groups, eps) = (c / 2, d.eps.to_bits() as usize);
        let jobs = t * groups;
        let found = self.norms.iter().position(|n| n == d.name);
        let norm = found.unwrap_or_else(|| {
            self.norms.push(d.name.to_owned());
            self.norms.len() - 1
        });
        params.lies(Operand::S, self.stream.note()).set(&[
            (P::GROUPS, groups),
            (P::COUNT, d.count),
            (P::EPS, eps),
            (P::JOBS, jobs),
            (P::NORM, norm + 1),
        ]);
        let [x, y] = self.stream.grid(jobs);
        let kernel = Kernel { role: Role::Combine, dtype: DType::F32, vec_in: true };
        if jobs == 0 { Ok(()) } else { self.stream.dispatch(kernel, &params, [x, y, 1], 0) }
    }

    pub(super) fn normalize_now(&mut self, d: &NormalizeDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "normalize";
        let Shape { t, h, w, c } = d.input.shape();
        let mut params = Params::new();
        set_x(&mut params, self.place(OP, "input", &d.input)?);
        set_y(&mut params, self.place(OP, "output", &d.output)?, h, w);
        let prologue = Prologue { stats: d.stats.clone(), affine: d.affine, silu: d.silu };
        self.set_prologue(OP, &mut params, &prologue, c)?;
        let pixels = t * h * w;
        params.set(&[(P::CIN, c), (P::CIN4, up4(c)), (P::CELLS, h * w), (P::JOBS, pixels)]);
        let kernel = Kernel { role: Role::Normalize, dtype: d.input.dtype(), vec_in: quad(c) };
        self.value_by_value(kernel, &params, pixels * up4(c) / 4)
    }

    pub(super) fn copy_now(&mut self, from: &View<'_>, to: &View<'_>) -> Result<(), ComputeError> {
        const OP: &str = "copy";
        let Shape { t, h, w, c } = from.shape();
        let mut params = Params::new();
        set_x(&mut params, self.place(OP, "input", from)?);
        set_y(&mut params, self.place(OP, "output", to)?, h, w);
        let vec_in = quad(c);
        let units = h * w * c / if vec_in { 4 } else { 1 };
        params.set(&[(P::CELLS, units), (P::JOBS, t * units)]);
        let role = Role::Copy { from: from.dtype() };
        self.value_by_value(Kernel { role, dtype: to.dtype(), vec_in }, &params, t * units)
    }

    pub(super) fn shuffle_now(&mut self, d: &ShuffleDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "shuffle";
        let (input, output) = (d.input.shape(), d.output.shape());
        let mut params = Params::new();
        set_x(&mut params, self.place(OP, "input", &d.input)?);
        set_y(&mut params, self.place(OP, "output", &d.output)?, output.h, output.w);
        let vec_in = quad(output.c);
        let units = output.len() / if vec_in { 4 } else { 1 };
        let [z, y, x] = d.factors;
        params.set(&[
            (P::KT, z),
            (P::STRIDE_Y, y),
            (P::STRIDE_X, x),
            (P::W_IN, input.w),
            (P::CIN, input.c),
            (P::COUT, output.c),
            (P::SECOND, d.drop_second.into()),
            (P::JOBS, units),
        ]);
        let kernel = Kernel { role: Role::Shuffle, dtype: d.output.dtype(), vec_in };
        self.value_by_value(kernel, &params, units)
    }

    fn value_by_value(
        &mut self,
        kernel: Kernel,
        params: &Params,
        threads: usize,
    ) -> Result<(), ComputeError> {
        if threads == 0 {
            return Ok(());
        }
        let [x, y] = self.stream.grid(threads.div_ceil(THREADS));
        self.stream.dispatch(kernel, params, [x, y, 1], 0)
    }

    pub(super) fn attention_now(
        &mut self,
        d: &AttentionDesc<'_>,
        work: &AttentionWork,
    ) -> Result<(), ComputeError> {
        const OP: &str = "attention";
        let mut params = Params::new();
        let rows = work.rows.len();
        set_x(&mut params, self.place(OP, "queries", &d.q)?);
        set_c(&mut params, self.place(OP, "keys", &d.k)?);
        set_s(&mut params, self.place(OP, "values", &d.v)?);
        set_y(&mut params, self.place(OP, "output", &d.output)?, rows, work.w);
        let (queries, keys) = (rows * work.w, work.h * work.w);
        let tiles = queries.div_ceil(QUERIES);
        let values = attention_values(work.width);
        params.set(&[
            (P::CIN, work.heads * work.width),
            (P::WIDE, work.width),
            (P::GROUPS, work.heads),
            (P::CELLS, queries),
            (P::KEY_COUNT, keys),
            (P::TILES, tiles),
            (P::EPS, d.scale.to_bits() as usize),
        ]);
        let kernel = Kernel { role: Role::Attention { values }, dtype: work.dtype, vec_in: quad(work.width) };
        let columns = work.heads * work.width.div_ceil(values);
        self.in_parts(kernel, &mut params, tiles * work.t, columns, work.macs())
    }
}
