//! The ops on tokens, as naive loops.

use super::{Reference, seen_by};
use crate::error::Result;
use crate::ops::{
    ActivateDesc, Activation, AddGatedDesc, TokenNormDesc, Window, WindowAttentionDesc, WindowAttentionWork,
    WindowsDesc,
};
use crate::tensor::Shape;

impl Reference {
    pub(super) fn window_attention_now(
        &mut self,
        d: &WindowAttentionDesc<'_>,
        work: &WindowAttentionWork,
    ) -> Result<()> {
        const OP: &str = "window_attention";
        let [q, k, v] = [&d.q, &d.k, &d.v].map(|view| self.read(OP, view).map(|grid| grid.values));
        let (q, k, v) = (q?, k?, v?);
        let (common_k, common_v) = (self.read(OP, &d.common_k)?.values, self.read(OP, &d.common_v)?.values);
        let common_q = d.common.as_ref().map(|c| self.read(OP, &c.q)).transpose()?.map(|grid| grid.values);
        let sizes = [work.heads, work.width];
        let c = work.heads * work.width;
        let mut out = Vec::with_capacity(q.len());
        let mut seen = vec![0.0f64; common_k.len()];
        let mut first = 0;
        for n in &work.windows {
            let own = first * c..(first + n) * c;
            let keys = [&k[own.clone()], &common_k].concat();
            let values = [&v[own.clone()], &common_v].concat();
            out.extend(seen_by([&q[own], &keys, &values], sizes, d.scale, work.dtype));
            if let (Some(queries), Some(asked)) = (&common_q, &d.common) {
                let window = seen_by([queries, &keys, &values], sizes, d.scale, work.dtype);
                seen.iter_mut().zip(window).for_each(|(sum, value)| *sum += value * f64::from(asked.share));
            }
            first += n;
        }
        let out: Vec<f32> = out.iter().map(|v| *v as f32).collect();
        self.host.write_all(OP, &d.output, &out)?;
        if let Some(asked) = &d.common {
            if asked.accumulate {
                let before = self.read(OP, &asked.output)?.values;
                seen.iter_mut().zip(before).for_each(|(sum, value)| *sum += f64::from(value));
            }
            let seen: Vec<f32> = seen.iter().map(|v| *v as f32).collect();
            self.host.write_all(OP, &asked.output, &seen)?;
        }
        Ok(())
    }

    pub(super) fn token_norm_now(&mut self, d: &TokenNormDesc<'_>) -> Result<()> {
        const OP: &str = "token_norm";
        let x = self.read(OP, &d.input)?;
        let c = x.shape.c;
        let width = c / d.heads;
        let (scale, shift) = match d.affine {
            Some(weight) => self.weight(weight)?,
            None => (vec![1.0], vec![]),
        };
        let turns = match &d.rotation {
            Some(r) => Some((self.read(OP, &r.table)?, self.read(OP, &r.places)?)),
            None => None,
        };
        let mut out = Vec::with_capacity(x.values.len());
        for (i, head) in x.values.chunks_exact(width).enumerate() {
            let (token, first) = (i / d.heads, i % d.heads * width);
            let squares: f64 = head.iter().map(|v| f64::from(*v).powi(2)).sum();
            let root = (squares / width as f64 + f64::from(d.eps)).sqrt();
            let scaled = head.iter().enumerate().map(|(j, v)| {
                let scale = f64::from(scale[(first + j) % scale.len()]);
                f64::from(*v) / root * scale + shift.get(first + j).map_or(0.0, |s| f64::from(*s))
            });
            let mut y: Vec<f64> = scaled.collect();
            if let Some((table, places)) = &turns {
                let frequencies = table.shape.c / 2;
                for (axis, f) in (0..3).flat_map(|axis| (0..frequencies).map(move |f| (axis, f))) {
                    let place = (places.values[token * 3 + axis] as usize).min(table.shape.h - 1);
                    let turn = |sine: usize| f64::from(table.values[(place * 2 + sine) * frequencies + f]);
                    let pair = 2 * (axis * frequencies + f);
                    let (a, b) = (y[pair], y[pair + 1]);
                    y[pair] = a * turn(0) - b * turn(1);
                    y[pair + 1] = b * turn(0) + a * turn(1);
                }
            }
            out.extend(y.iter().map(|v| *v as f32));
        }
        self.host.write_all(OP, &d.output, &out)
    }

    pub(super) fn activate_now(&mut self, d: &ActivateDesc<'_>) -> Result<()> {
        let mut x = self.read("activate", &d.x)?.values;
        let times = d.times.as_ref().map(|v| self.read("activate", v)).transpose()?;
        for (i, value) in x.iter_mut().enumerate() {
            let v = f64::from(*value);
            let y = match d.function {
                Activation::Silu => v / (1.0 + (-v).exp()),
                Activation::GeluTanh => {
                    let inner = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3));
                    0.5 * v * (1.0 + inner.tanh())
                }
            };
            *value = (y * times.as_ref().map_or(1.0, |t| f64::from(t.values[i]))) as f32;
        }
        self.host.write_all("activate", &d.x, &x)
    }

    pub(super) fn add_gated_now(&mut self, d: &AddGatedDesc<'_>) -> Result<()> {
        let (input, mut sum) =
            (self.read("add_gated", &d.input)?, self.read("add_gated", &d.residual)?.values);
        let gate = match d.gate {
            Some(weight) => self.weight(weight)?.0,
            None => vec![1.0],
        };
        for (i, (sum, value)) in sum.iter_mut().zip(&input.values).enumerate() {
            *sum = (f64::from(*sum) + f64::from(gate[i % gate.len()]) * f64::from(*value)) as f32;
        }
        self.host.write_all("add_gated", &d.residual, &sum)
    }

    pub(super) fn gather_now(&mut self, d: &WindowsDesc<'_>) -> Result<()> {
        let grid = self.read("gather", &d.grid)?;
        let tokens: Vec<f32> = places(d).flat_map(|at| grid.values[at..at + grid.shape.c].to_vec()).collect();
        self.host.write_all("gather", &d.tokens, &tokens)
    }

    pub(super) fn scatter_now(&mut self, d: &WindowsDesc<'_>) -> Result<()> {
        let (tokens, mut grid) = (self.read("scatter", &d.tokens)?, self.read("scatter", &d.grid)?.values);
        let c = tokens.shape.c;
        for (at, token) in places(d).zip(tokens.values.chunks_exact(c.max(1))) {
            grid[at..at + c].copy_from_slice(token);
        }
        self.host.write_all("scatter", &d.grid, &grid)
    }
}

/// Where in the values of the grid the tokens of windows start.
fn places<'a>(d: &'a WindowsDesc<'_>) -> impl Iterator<Item = usize> + 'a {
    let Shape { h, c, .. } = d.grid.shape();
    let tokens =
        move |w: &'a Window| w.runs(d.width).flat_map(move |(t, run)| run.map(move |i| (t * h + i) * c));
    d.windows.iter().flat_map(tokens)
}
