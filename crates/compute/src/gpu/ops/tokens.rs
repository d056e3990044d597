//! Ops on tokens that are rows.

use super::{THREADS, quad};
use crate::error::ComputeError;
use crate::gpu::Gpu;
use crate::gpu::bindings::{Operand, Ranges};
use crate::gpu::kernels::{Kernel, Role, norm_team};
use crate::gpu::pack::up4;
use crate::gpu::params::{
    ActivateParams, AddGatedParams, Jobs, TokenNormParams, WindowAttentionParams, WindowParams,
};
use crate::ops::{
    ActivateDesc, Activation, AddGatedDesc, Ops, TokenNormDesc, WindowAttentionDesc, WindowAttentionWork,
    WindowsDesc,
};
use crate::tensor::{Shape, View};
use crate::weight::{Weight, WeightSpec};

/// Values of a unit, the units of a frame and those of a view.
fn units(view: &View<'_>) -> (usize, usize, usize) {
    let Shape { t, h, w, c } = view.shape();
    let lanes = if quad(c) { 4 } else { 1 };
    let frame = h * w * c / lanes;
    (lanes, frame, t * frame)
}

impl Gpu {
    /// Binds numbers that are not a product's.
    fn vector(&self, op: &'static str, weight: &Weight, ranges: &mut Ranges) -> Result<(), ComputeError> {
        let at = self.address(op, "scale", &weight.buffer(&self.arena)?)?;
        ranges.set(Operand::Affine, at..at + self.weight_bytes(&weight.spec()));
        Ok(())
    }

    pub(in crate::gpu) fn token_norm_now(&mut self, d: &TokenNormDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "token_norm";
        let Shape { t, h, c, .. } = d.input.shape();
        let input = self.place(OP, "input", &d.input)?;
        let output = self.place(OP, "output", &d.output)?;
        let mut ranges = Ranges::from([(Operand::Input, input.range), (Operand::Output, output.range)]);
        let head_width = c / d.heads;
        let mut params = TokenNormParams {
            input: input.at,
            output: output.at,
            channels: c,
            heads: d.heads,
            head_width,
            frame_tokens: h,
            units: t * h * d.heads,
            eps: d.eps,
            ..Default::default()
        };
        if let Some(weight) = d.affine {
            self.vector(OP, weight, &mut ranges)?;
            params.scaled = true;
            if let WeightSpec::Norm { channels } = weight.spec() {
                (params.scale_step, params.shifted, params.shift) = (head_width, true, up4(channels));
            }
        }
        if let Some(r) = &d.rotation {
            let table = self.place(OP, "rotations", &r.table)?;
            let places = self.place(OP, "places", &r.places)?;
            ranges.set(Operand::Table, table.range);
            ranges.set(Operand::Places, places.range);
            (params.table, params.places) = (table.at, places.at);
            (params.positions, params.frequencies) = (r.table.shape().h, r.table.shape().c / 2);
            params.rotated = params.frequencies > 0;
        }
        let team = norm_team(head_width);
        let role = Role::TokenNorm { from: d.input.dtype(), team };
        let kernel = Kernel { role, dtype: d.output.dtype(), vec_in: quad(head_width) };
        self.enqueue(kernel, &params, ranges, params.units.div_ceil(THREADS / team))
    }

    pub(in crate::gpu) fn activate_now(&mut self, d: &ActivateDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "activate";
        let x = self.place(OP, "values", &d.x)?;
        let mut ranges = Ranges::from([(Operand::Output, x.range)]);
        let (lanes, frame_units, units) = units(&d.x);
        let gelu = d.function == Activation::GeluTanh;
        let mut params = ActivateParams { output: x.at, frame_units, units, gelu, ..Default::default() };
        if let Some(times) = &d.times {
            let place = self.place(OP, "factors", times)?;
            ranges.set(Operand::Input, place.range);
            (params.input, params.factors) = (place.at, true);
        }
        let kernel = Kernel { role: Role::Activate, dtype: d.x.dtype(), vec_in: lanes == 4 };
        self.enqueue(kernel, &params, ranges, units.div_ceil(THREADS))
    }

    pub(in crate::gpu) fn add_gated_now(&mut self, d: &AddGatedDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "add_gated";
        let input = self.place(OP, "input", &d.input)?;
        let residual = self.place(OP, "residual", &d.residual)?;
        let mut ranges = Ranges::from([(Operand::Input, input.range), (Operand::Output, residual.range)]);
        let (lanes, frame_units, units) = units(&d.input);
        let gate_units = d.input.shape().c / lanes;
        let (input, output, gated) = (input.at, residual.at, d.gate.is_some());
        let params = AddGatedParams { input, output, frame_units, units, gate_units, gated };
        if let Some(gate) = d.gate {
            self.vector(OP, gate, &mut ranges)?;
        }
        let role = Role::AddGated { from: d.input.dtype() };
        let kernel = Kernel { role, dtype: d.residual.dtype(), vec_in: lanes == 4 };
        self.enqueue(kernel, &params, ranges, units.div_ceil(THREADS))
    }

    pub(in crate::gpu) fn gather_now(&mut self, d: &WindowsDesc<'_>) -> Result<(), ComputeError> {
        self.move_windows(d, Role::Gather)
    }

    pub(in crate::gpu) fn scatter_now(&mut self, d: &WindowsDesc<'_>) -> Result<(), ComputeError> {
        self.move_windows(d, Role::Scatter)
    }

    /// A dispatch for each window. All have the same bindings.
    fn move_windows(&mut self, d: &WindowsDesc<'_>, role: Role) -> Result<(), ComputeError> {
        const OP: &str = "windows";
        let grid = self.place(OP, "grid", &d.grid)?;
        let tokens = self.place(OP, "tokens", &d.tokens)?;
        let (lanes, ..) = units(&d.grid);
        let token_units = d.grid.shape().c / lanes;
        let (from, to) = match role {
            Role::Scatter => (tokens.range, grid.range),
            _ => (grid.range, tokens.range),
        };
        let ranges = Ranges::from([(Operand::Input, from), (Operand::Output, to)]);
        let kernel = Kernel { role, dtype: d.grid.dtype(), vec_in: lanes == 4 };
        let mut first = 0;
        for window in d.windows {
            let params = WindowParams {
                grid: grid.at,
                tokens: tokens.at,
                width: d.width,
                first_frame: window.frames.start,
                first_row: window.rows.start,
                first_column: window.columns.start,
                rows: window.rows.len(),
                columns: window.columns.len(),
                token_units,
                units: window.tokens() * token_units,
                first,
            };
            self.enqueue(kernel, &params, ranges.clone(), params.units.div_ceil(THREADS))?;
            first += window.tokens();
        }
        Ok(())
    }

    /// A dispatch for each window, in their order: so what the common tokens see is added up in that order.
    pub(in crate::gpu) fn window_attention_now(
        &mut self,
        d: &WindowAttentionDesc<'_>,
        work: &WindowAttentionWork,
    ) -> Result<(), ComputeError> {
        const OP: &str = "window_attention";
        let mut ranges = Ranges::default();
        let mut bind = |operand, what, view: &View<'_>| {
            let place = self.place(OP, what, view)?;
            ranges.set(operand, place.range);
            Ok::<_, ComputeError>(place.at)
        };
        let mut params = WindowAttentionParams {
            queries: bind(Operand::Queries, "queries", &d.q)?,
            keys: bind(Operand::Keys, "keys", &d.k)?,
            values: bind(Operand::Values, "values", &d.v)?,
            output: bind(Operand::Output, "output", &d.output)?,
            common_keys: bind(Operand::CommonKeys, "keys of the common tokens", &d.common_k)?,
            common_values: bind(Operand::CommonValues, "values of the common tokens", &d.common_v)?,
            common_count: work.common,
            channels: work.heads * work.width,
            heads: work.heads,
            head_width: work.width,
            scale: d.scale,
            ..Default::default()
        };
        let attend = self.attend(true, work.width, work.dtype);
        let queries = attend.queries(true);
        let mut common_tiles = 0;
        if let Some(asked) = &d.common {
            params.common_queries = bind(Operand::CommonQueries, "queries of the common tokens", &asked.q)?;
            params.sums = bind(Operand::Sums, "sum of the common tokens", &asked.output)?;
            (params.share, params.accumulate) = (asked.share, asked.accumulate);
            common_tiles = work.common.div_ceil(queries);
            if work.windows.is_empty() && !asked.accumulate {
                self.upload(&vec![0.0; asked.output.shape().len()], asked.output.clone())?;
            }
        }
        let kernel =
            Kernel { role: Role::WindowAttention(attend), dtype: work.dtype, vec_in: quad(work.width) };
        for n in &work.windows {
            params.count = *n;
            params.tiles = n.div_ceil(queries);
            let groups = [params.tiles + common_tiles, work.heads * work.width.div_ceil(attend.values())];
            let macs = WindowAttentionWork { windows: vec![*n], ..work.clone() }.macs();
            let part = params;
            self.in_parts(kernel, &ranges, groups, macs, |jobs: Jobs| WindowAttentionParams {
                jobs,
                ..part
            })?;
            params.first += n;
            params.accumulate = true;
        }
        Ok(())
    }
}
