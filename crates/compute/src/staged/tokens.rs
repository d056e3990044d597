//! The ops on tokens: window by window or stripe by stripe where an operand does not lie on the device.

use super::ops::{frame_of, shifted};
use super::stripes::stripes;
use super::{Local, Staged};
use crate::error::Result;
use crate::ops::{
    ActivateDesc, AddGatedDesc, CommonQueries, Ops, Rotation, TokenNormDesc, WindowAttentionDesc,
    WindowAttentionWork, WindowsDesc,
};
use crate::tensor::View;

impl Staged {
    /// Window by window, in their order: what the common tokens see is added up in that order.
    pub(super) fn window_attention_now(
        &mut self,
        d: &WindowAttentionDesc<'_>,
        _work: &WindowAttentionWork,
    ) -> Result<()> {
        let common = d.common.as_ref();
        let (common_q, sum) = (common.map(|c| &c.q), common.map(|c| &c.output));
        let own = [Some(&d.q), Some(&d.k), Some(&d.v), Some(&d.output)];
        if self.all_here(&own) && self.all_here(&[Some(&d.common_k), Some(&d.common_v), common_q, sum]) {
            return self.device.window_attention(d);
        }
        let all = |view: &View<'_>| view.row_range();
        let common_k = self.bring(&d.common_k, all(&d.common_k))?;
        let common_v = self.bring(&d.common_v, all(&d.common_v))?;
        let common_q = common_q.map(|q| self.bring(q, all(q))).transpose()?;
        let accumulate = common.is_some_and(|c| c.accumulate);
        let sum = sum.map(|sum| self.target(sum, all(sum), accumulate)).transpose()?;
        let mut done = 0;
        for (i, n) in d.windows.iter().enumerate() {
            let rows = |view: &View<'_>| {
                let first = view.row_range().start + done;
                first..first + n
            };
            let (q, k) = (self.bring(&d.q, rows(&d.q))?, self.bring(&d.k, rows(&d.k))?);
            let v = self.bring(&d.v, rows(&d.v))?;
            let output = self.target(&d.output, rows(&d.output), false)?;
            let asked = common.zip(common_q.as_ref().zip(sum.as_ref())).map(|(c, (q, sum))| CommonQueries {
                q: q.view(),
                share: c.share,
                accumulate: c.accumulate || i > 0,
                output: sum.view(),
            });
            self.device.window_attention(&WindowAttentionDesc {
                q: q.view(),
                k: k.view(),
                v: v.view(),
                windows: &[*n],
                common_k: common_k.view(),
                common_v: common_v.view(),
                common: asked,
                heads: d.heads,
                scale: d.scale,
                output: output.view(),
            })?;
            drop((q, k, v));
            self.settle(output)?;
            done += n;
        }
        drop((common_k, common_v, common_q));
        sum.map_or(Ok(()), |sum| self.settle(sum))
    }

    pub(super) fn token_norm_now(&mut self, d: &TokenNormDesc<'_>) -> Result<()> {
        self.with_weights(&[d.affine], |s| {
            let turns = d.rotation.as_ref();
            let table = turns.map(|r| s.bring(&r.table, r.table.row_range())).transpose()?;
            let places = turns.map(|r| &r.places);
            let count = s.stripes(&[Some(&d.input), places, Some(&d.output)]);
            for rows in stripes(0..d.input.shape().h, count) {
                let input = s.bring(&d.input, shifted(&d.input, &rows))?;
                let places = places.map(|v| s.bring(v, shifted(v, &rows))).transpose()?;
                let output = s.target(&d.output, shifted(&d.output, &rows), false)?;
                let rotation = table.as_ref().zip(places.as_ref());
                s.device.token_norm(&TokenNormDesc {
                    input: input.view(),
                    heads: d.heads,
                    eps: d.eps,
                    affine: d.affine,
                    rotation: rotation.map(|(t, p)| Rotation { table: t.view(), places: p.view() }),
                    output: output.view(),
                })?;
                drop((input, places));
                s.settle(output)?;
            }
            Ok(())
        })
    }

    pub(super) fn activate_now(&mut self, d: &ActivateDesc<'_>) -> Result<()> {
        let count = self.stripes(&[Some(&d.x), d.times.as_ref()]);
        for rows in stripes(0..d.x.shape().h, count) {
            let times = d.times.as_ref().map(|v| self.bring(v, shifted(v, &rows))).transpose()?;
            let x = self.target(&d.x, shifted(&d.x, &rows), true)?;
            let (values, factors) = (x.view(), times.as_ref().map(Local::view));
            self.device.activate(&ActivateDesc { x: values, function: d.function, times: factors })?;
            drop(times);
            self.settle(x)?;
        }
        Ok(())
    }

    pub(super) fn add_gated_now(&mut self, d: &AddGatedDesc<'_>) -> Result<()> {
        self.with_weights(&[d.gate], |s| {
            s.in_stripes([&d.input, &d.residual], 1, true, |device, input, residual| {
                device.add_gated(&AddGatedDesc { input, gate: d.gate, residual })
            })
        })
    }

    /// Run by run where something lies in a store: its rows are tokens, so none is read in vain.
    pub(super) fn gather_now(&mut self, d: &WindowsDesc<'_>) -> Result<()> {
        if self.all_here(&[Some(&d.grid), Some(&d.tokens)]) {
            return self.device.gather(d);
        }
        runs(d).into_iter().try_for_each(|(grid, tokens)| self.copy(grid, tokens))
    }

    pub(super) fn scatter_now(&mut self, d: &WindowsDesc<'_>) -> Result<()> {
        if self.all_here(&[Some(&d.grid), Some(&d.tokens)]) {
            return self.device.scatter(d);
        }
        runs(d).into_iter().try_for_each(|(grid, tokens)| self.copy(tokens, grid))
    }
}

/// Runs of tokens that follow each other in the grid and in the windows.
fn runs<'a>(d: &WindowsDesc<'a>) -> Vec<(View<'a>, View<'a>)> {
    let first = d.tokens.row_range().start;
    let mut at = 0;
    let runs = d.windows.iter().flat_map(|window| window.runs(d.width));
    let views = runs.map(|(t, run)| {
        let tokens = first + at..first + at + run.len();
        at += run.len();
        (frame_of(&d.grid, t).rows(run), d.tokens.clone().rows(tokens))
    });
    views.collect()
}
