//! Convolutions, upsamplers and linear layers: products of a weight, by the same kernels.

use super::after::After;
use super::quad;
use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::bindings::{Operand, Ranges};
use crate::gpu::kernels::{Kernel, Product, Role};
use crate::gpu::pack::{Layout, up4};
use crate::gpu::params::{AfterParams, Norm, ProductParams, Source};
use crate::ops::{ConvDesc, ConvWork, LinearDesc, LinearWork, Ops, Padding, UpsampleDesc, UpsampleWork};
use crate::tensor::Shape;
use crate::weight::Weight;

const CONV: &str = "conv";

/// A product, but for what its weight says.
#[derive(Clone)]
pub(super) struct Multiply {
    params: ProductParams,
    ranges: Ranges,
    prologue: bool,
    shortcut: bool,
    frames: usize,
    macs: u64,
}

impl Multiply {
    /// The op that follows, on the product's input and output. The tail has some frames, the first of them at a place
    /// among prefix and slice.
    fn after(&self, dtype: DType, [tail_len, tail_first]: [usize; 2]) -> After {
        let ProductParams { source, norm, output, output_row0, output_end, output_w, cout, .. } = self.params;
        let params = AfterParams {
            source,
            norm,
            tail_len,
            tail_first,
            output,
            output_rows: output_end - output_row0,
            output_w,
            cout,
            ..Default::default()
        };
        After { params, ranges: self.ranges.clone(), dtype, prologue: self.prologue }
    }
}

impl Gpu {
    /// Parameters of a product from its input to its output, without a prefix. The grid has a cell for each output pixel.
    fn begin(&self, op: &'static str, d: &ConvDesc<'_>, ranges: &mut Ranges) -> Result<ProductParams> {
        let Shape { w: w_in, c: cin, .. } = d.input.shape();
        let input = self.bind(op, ranges, Operand::Input, "input", &d.input)?;
        let input_row0 = d.input.row_range().start;
        let mut source = Source { input, input_row0, w_in, cin, cin4: up4(cin), ..Default::default() };
        if let Some(carried) = &d.carried {
            source.carried = self.bind(op, ranges, Operand::Carried, "carried tail", carried)?;
            source.carried_row0 = carried.row_range().start;
            source.continued = true;
        }
        let (rows, w) = (d.output.row_range(), d.output.shape().w);
        Ok(ProductParams {
            source,
            output: self.bind(op, ranges, Operand::Output, "output", &d.output)?,
            output_row0: rows.start,
            output_end: rows.end,
            output_w: w,
            grid_w: w,
            factor: 1,
            phases: 1,
            stride_t: 1,
            stride_y: 1,
            stride_x: 1,
            kernel_t: 1,
            accumulate: d.accumulate,
            ..Default::default()
        })
    }

    pub(in crate::gpu) fn conv_now(&mut self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<()> {
        let multiply = self.places(d, work)?;
        match &d.prologue {
            Some(prologue) if self.choices.passes(&d.weight.spec()) => {
                self.convolve_after_pass(d, prologue, work)?;
            }
            _ => self.convolve(d, multiply.clone())?,
        }
        let tail = [work.tail, work.prefix + work.t_in - work.tail];
        self.after(CONV, multiply.after(work.dtype, tail), d.carry.as_ref(), d.sums.as_ref())?;
        self.recheck_conv(d, work)
    }

    /// Where a convolution reads and writes, but for its shortcut.
    pub(super) fn places(&mut self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<Multiply> {
        let mut ranges = Ranges::default();
        let plain = self.begin(CONV, d, &mut ranges)?;
        let norm = match &d.prologue {
            Some(prologue) => self.norm(CONV, prologue, work.cin, &mut ranges)?,
            None => Norm::default(),
        };
        let transformed = matches!(self.product(CONV, &d.weight.spec())?, Product::Winograd(_));
        // Transformed tiles are cells of two by two pixels.
        let factor = if transformed { 2 } else { 1 };
        let first = work.rows.start / factor;
        let (cell_rows, columns) = (work.rows.end.div_ceil(factor) - first, work.w_out.div_ceil(factor));
        let need = work.input_rows();
        let [kernel_t, ..] = work.kernel;
        let [stride_t, stride_y, stride_x] = work.stride;
        let params = ProductParams {
            source: Source { prefix: work.prefix, ..plain.source },
            norm,
            h_in: work.h_in,
            grid_h: work.h_out,
            grid_w: columns,
            cell_row0: first,
            cells: cell_rows * columns,
            factor,
            need_row0: need.start,
            need_end: need.end,
            stride_t,
            stride_y,
            stride_x,
            pad_top: work.padding.top,
            pad_left: work.padding.left,
            kernel_t,
            cout: work.cout,
            ..plain
        };
        let (prologue, frames, macs) = (d.prologue.is_some(), work.t_out, work.macs());
        Ok(Multiply { params, ranges, prologue, shortcut: false, frames, macs })
    }

    /// Enqueues a convolution and its shortcut.
    pub(super) fn convolve(&mut self, d: &ConvDesc<'_>, mut multiply: Multiply) -> Result<()> {
        let by = self.product(CONV, &d.weight.spec())?;
        let fused = match &d.shortcut {
            Some(s) if self.product(CONV, &s.weight.spec())?.order() == by.order() => Some(s),
            _ => None,
        };
        if let Some(shortcut) = fused {
            let Multiply { params, ranges, .. } = &mut multiply;
            params.shortcut = self.bind(CONV, ranges, Operand::Shortcut, "shortcut", &shortcut.input)?;
            let (range, layout) = self.weight(CONV, shortcut.weight)?;
            ranges.set(Operand::ShortcutWeight, range);
            params.shortcut_cin = shortcut.input.shape().c;
            params.shortcut_bias = layout.bias() / 4;
            multiply.shortcut = true;
        }
        self.multiply(CONV, d.weight, multiply)?;
        // A shortcut cannot be transformed: it becomes a product of its own, as does one whose weights lie otherwise.
        if let (Some(shortcut), None) = (&d.shortcut, fused) {
            let (input, output) = (shortcut.input.clone(), d.output.clone());
            let alone = ConvDesc::new(input, shortcut.weight, Padding::all(0), output);
            self.conv(&ConvDesc { accumulate: true, ..alone })?;
        }
        Ok(())
    }

    pub(in crate::gpu) fn upsample_now(&mut self, d: &UpsampleDesc<'_>, work: &UpsampleWork) -> Result<()> {
        const OP: &str = "upsample";
        let mut ranges = Ranges::default();
        let plain = self.begin(OP, &d.as_conv(), &mut ranges)?;
        let (prefix, frame_mode) = match (work.time, work.continued) {
            (false, _) => (2, 1),
            (true, true) => (1, 2),
            (true, false) => (0, 3),
        };
        let first = work.rows.start / 2;
        let params = ProductParams {
            source: Source { prefix, ..plain.source },
            h_in: work.h,
            grid_h: work.h,
            grid_w: work.w,
            cell_row0: first,
            cells: (work.rows.end.div_ceil(2) - first) * work.w,
            factor: 2,
            phases: 4,
            pad_top: 1,
            pad_left: 1,
            frame_mode,
            second: work.second,
            ..plain
        };
        let (frames, macs) = (work.t_out, work.macs());
        let multiply = Multiply { params, ranges, prologue: false, shortcut: false, frames, macs };
        let multiply = self.multiply(OP, d.weight, multiply)?;
        let tail = [work.tail, prefix + work.t_in - work.tail];
        self.after(OP, multiply.after(work.dtype, tail), d.carry.as_ref(), d.sums.as_ref())
    }

    pub(in crate::gpu) fn linear_now(&mut self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<()> {
        const OP: &str = "linear";
        let mut ranges = Ranges::default();
        let alone = ConvDesc::new(d.input.clone(), d.weight, Padding::default(), d.output.clone());
        let alone = ConvDesc { accumulate: d.accumulate, ..alone };
        let params = ProductParams {
            h_in: work.h,
            grid_h: work.h,
            cell_row0: work.rows.start,
            cells: work.rows.len() * work.w,
            ..self.begin(OP, &alone, &mut ranges)?
        };
        let (frames, macs) = (work.t, work.macs());
        let multiply = Multiply { params, ranges, prologue: false, shortcut: false, frames, macs };
        let multiply = self.multiply(OP, d.weight, multiply)?;
        self.after(OP, multiply.after(work.dtype, [0; 2]), None, d.sums.as_ref())?;
        self.recheck_linear(d, work)
    }

    /// Enqueues the product with a weight, and returns it with what the weight said.
    fn multiply(&mut self, op: &'static str, weight: &Weight, mut multiply: Multiply) -> Result<Multiply> {
        let product = self.product(op, &weight.spec())?;
        let (range, layout) = self.weight(op, weight)?;
        let Layout { cin, cout, dtype, .. } = layout;
        let [bm, bn, _] = product.tile();
        multiply.ranges.set(Operand::Weight, range);
        multiply.ranges.accumulates = multiply.params.accumulate;
        let params = &mut multiply.params;
        params.cout = cout;
        params.cout4 = up4(cout);
        params.bias = layout.bias() / 4;
        params.taps = layout.table() / 4;
        params.taps_row = layout.list;
        params.tiles = params.cells.div_ceil(bm);
        let Multiply { params, prologue, shortcut, frames, macs, .. } = multiply;
        let narrow = prologue && !quad(params.norm.group_width);
        let edges = product.edges(cin, params.is_padded(), narrow);
        let (slopes, vec_out) = (weight.spec().has_slopes(), quad(cout));
        let role = Role::Conv { product, prologue, shortcut, slopes, vec_out, edges };
        let kernel = Kernel { role, dtype, vec_in: quad(cin) };
        let groups = [params.tiles * frames, cout.div_ceil(bn) * params.phases];
        self.in_parts(kernel, &multiply.ranges, groups, macs, |jobs| ProductParams { jobs, ..params })?;
        Ok(multiply)
    }
}
