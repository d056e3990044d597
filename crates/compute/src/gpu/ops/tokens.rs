//! Ops on tokens that are rows.

use super::{THREADS, quad};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::bindings::{Operand, Ranges};
use crate::gpu::kernels::{Kernel, Role, norm_team};
use crate::gpu::pack::up4;
use crate::gpu::params::{
    ActivateParams, AddGatedParams, TokenNormParams, WindowAttentionParams, WindowParams,
};
use crate::ops::{
    ActivateDesc, Activation, AddGatedDesc, Ops, TokenNormDesc, WindowAttentionDesc, WindowAttentionWork,
    WindowsDesc,
};
use crate::tensor::{Shape, View};
use crate::weight::WeightSpec;

/// Values of a unit, the units of a frame and those of a view.
fn units(view: &View<'_>) -> (usize, usize, usize) {
    let Shape { t, h, w, c } = view.shape();
    let lanes = if quad(c) { 4 } else { 1 };
    let frame = h * w * c / lanes;
    (lanes, frame, t * frame)
}

impl Gpu {
    pub(in crate::gpu) fn token_norm_now(&mut self, d: &TokenNormDesc<'_>) -> Result<()> {
        const OP: &str = "token_norm";
        let Shape { t, h, c, .. } = d.input.shape();
        let mut ranges = Ranges::default();
        let head_width = c / d.heads;
        let mut params = TokenNormParams {
            input: self.bind(OP, &mut ranges, Operand::Input, "input", &d.input)?,
            output: self.bind(OP, &mut ranges, Operand::Output, "output", &d.output)?,
            channels: c,
            heads: d.heads,
            head_width,
            frame_tokens: h,
            units: t * h * d.heads,
            eps: d.eps,
            ..Default::default()
        };
        if let Some(weight) = d.affine {
            self.bind_affine(weight, &mut ranges)?;
            params.scaled = true;
            if let WeightSpec::Norm { channels } = weight.spec() {
                (params.scale_step, params.shifted, params.shift) = (head_width, true, up4(channels));
            }
        }
        if let Some(r) = &d.rotation {
            params.table = self.bind(OP, &mut ranges, Operand::Table, "rotations", &r.table)?;
            params.places = self.bind(OP, &mut ranges, Operand::Places, "places", &r.places)?;
            (params.positions, params.frequencies) = (r.table.shape().h, r.table.shape().c / 2);
            params.rotated = params.frequencies > 0;
        }
        let team = norm_team(head_width);
        let role = Role::TokenNorm { from: d.input.dtype(), team };
        let kernel = Kernel { role, dtype: d.output.dtype(), vec_in: quad(head_width) };
        self.enqueue(kernel, &params, ranges, params.units.div_ceil(THREADS / team))
    }

    pub(in crate::gpu) fn activate_now(&mut self, d: &ActivateDesc<'_>) -> Result<()> {
        const OP: &str = "activate";
        let mut ranges = Ranges { accumulates: true, ..Ranges::default() };
        let output = self.bind(OP, &mut ranges, Operand::Output, "values", &d.x)?;
        let (lanes, frame_units, units) = units(&d.x);
        let gelu = d.function == Activation::GeluTanh;
        let mut params = ActivateParams { output, frame_units, units, gelu, ..Default::default() };
        if let Some(times) = &d.times {
            params.input = self.bind(OP, &mut ranges, Operand::Input, "factors", times)?;
            params.factors = true;
        }
        let kernel = Kernel { role: Role::Activate, dtype: d.x.dtype(), vec_in: lanes == 4 };
        self.enqueue(kernel, &params, ranges, units.div_ceil(THREADS))
    }

    pub(in crate::gpu) fn add_gated_now(&mut self, d: &AddGatedDesc<'_>) -> Result<()> {
        const OP: &str = "add_gated";
        let mut ranges = Ranges { accumulates: true, ..Ranges::default() };
        let input = self.bind(OP, &mut ranges, Operand::Input, "input", &d.input)?;
        let output = self.bind(OP, &mut ranges, Operand::Output, "residual", &d.residual)?;
        let (lanes, frame_units, units) = units(&d.input);
        let gate_units = d.input.shape().c / lanes;
        let gated = d.gate.is_some();
        let params = AddGatedParams { input, output, frame_units, units, gate_units, gated };
        if let Some(gate) = d.gate {
            self.bind_affine(gate, &mut ranges)?;
        }
        let role = Role::AddGated { from: d.input.dtype() };
        let kernel = Kernel { role, dtype: d.residual.dtype(), vec_in: lanes == 4 };
        self.enqueue(kernel, &params, ranges, units.div_ceil(THREADS))
    }

    pub(in crate::gpu) fn gather_now(&mut self, d: &WindowsDesc<'_>) -> Result<()> {
        self.move_windows(d, Role::Gather)
    }

    pub(in crate::gpu) fn scatter_now(&mut self, d: &WindowsDesc<'_>) -> Result<()> {
        self.move_windows(d, Role::Scatter)
    }

    /// A dispatch for each window. All have the same bindings.
    fn move_windows(&mut self, d: &WindowsDesc<'_>, role: Role) -> Result<()> {
        const OP: &str = "windows";
        let (of_grid, of_tokens) = match role {
            Role::Scatter => (Operand::Output, Operand::Input),
            _ => (Operand::Input, Operand::Output),
        };
        let mut ranges = Ranges { partial: true, ..Ranges::default() };
        let grid = self.bind(OP, &mut ranges, of_grid, "grid", &d.grid)?;
        let tokens = self.bind(OP, &mut ranges, of_tokens, "tokens", &d.tokens)?;
        let (lanes, ..) = units(&d.grid);
        let token_units = d.grid.shape().c / lanes;
        let kernel = Kernel { role, dtype: d.grid.dtype(), vec_in: lanes == 4 };
        let mut first = 0;
        for window in d.windows {
            let params = WindowParams {
                grid,
                tokens,
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
    ) -> Result<()> {
        const OP: &str = "window_attention";
        // Several windows add to the sums of the common tokens.
        let mut ranges = Ranges { accumulates: true, partial: true, ..Ranges::default() };
        let mut bind = |operand, what, view| self.bind(OP, &mut ranges, operand, what, view);
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
            let part = |jobs| WindowAttentionParams { jobs, ..params };
            self.in_parts(kernel, &ranges, groups, macs, part)?;
            params.first += n;
            params.accumulate = true;
        }
        Ok(())
    }
}
