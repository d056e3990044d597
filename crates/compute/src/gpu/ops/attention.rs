//! Softmax attention.

use super::quad;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::bindings::{Operand, Ranges};
use crate::gpu::kernels::{Kernel, Role};
use crate::gpu::params::{AttentionParams, Jobs};
use crate::ops::{AttentionDesc, AttentionWork};

impl Gpu {
    pub(in crate::gpu) fn attention_now(
        &mut self,
        d: &AttentionDesc<'_>,
        work: &AttentionWork,
    ) -> Result<()> {
        const OP: &str = "attention";
        let mut ranges = Ranges::default();
        let query_count = work.rows.len() * work.w;
        let attend = self.attend(false, work.width, work.dtype);
        let tiles = query_count.div_ceil(attend.queries(false));
        let params = AttentionParams {
            queries: self.bind(OP, &mut ranges, Operand::Queries, "queries", &d.q)?,
            keys: self.bind(OP, &mut ranges, Operand::Keys, "keys", &d.k)?,
            values: self.bind(OP, &mut ranges, Operand::Values, "values", &d.v)?,
            output: self.bind(OP, &mut ranges, Operand::Output, "output", &d.output)?,
            query_count,
            key_count: work.h * work.w,
            channels: work.heads * work.width,
            heads: work.heads,
            head_width: work.width,
            scale: d.scale,
            tiles,
            jobs: Jobs::default(),
        };
        let kernel = Kernel { role: Role::Attention(attend), dtype: work.dtype, vec_in: quad(work.width) };
        let groups = [tiles * work.t, work.heads * work.width.div_ceil(attend.values())];
        self.in_parts(kernel, &ranges, groups, work.macs(), |jobs| AttentionParams { jobs, ..params })
    }
}
