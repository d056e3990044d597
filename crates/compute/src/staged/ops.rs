//! Every op, stripe by stripe where an operand does not lie on the device.

use super::stripes::{Share, shares, stripes};
use super::{Local, Staged, Target, extent};
use crate::arena::Arena;
use crate::dtype::{DType, decode, encode};
use crate::error::{ComputeError, ensure};
use crate::meter::Counts;
use crate::ops::{
    ActivateDesc, AddGatedDesc, AttentionDesc, CombineDesc, ConvDesc, ConvWork, LinearDesc, NormalizeDesc,
    Ops, Prologue, RowSums, RowSumsDesc, Shortcut, ShuffleDesc, TokenNormDesc, UpsampleDesc, UpsampleWork,
    WindowAttentionDesc, WindowsDesc, same_shape,
};
use crate::store::{Extent, Store};
use crate::tensor::{Band, Shape, Tensor, View};
use crate::weight::{Weight, WeightSpec};

impl Staged {
    fn conv_in_stripes(&mut self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<(), ComputeError> {
        let stats = d.prologue.as_ref().map(|p| self.bring(&p.stats, p.stats.row_range())).transpose()?;
        let reach = |rows| ConvWork { rows, ..work.clone() }.input_rows();
        let shares = shares(work.rows.clone(), self.placement.stripes, work.h_in, reach);
        let mut left = None;
        for (i, Share { rows, held, tail }) in shares.iter().enumerate() {
            let beside = d.shortcut.as_ref().map(|s| &s.input);
            if let Some(next) = shares.get(i + 1) {
                self.hint(Some(&d.input), &next.held);
                self.hint(d.carried.as_ref(), &next.held);
                self.hint(beside, &next.rows);
                self.hint(d.accumulate.then_some(&d.output), &next.rows);
            }
            let input = self.bring(&d.input, held.clone())?;
            let carried = d.carried.as_ref().map(|v| self.snapshot(v, held.clone())).transpose()?;
            let beside = beside.map(|v| self.bring(v, rows.clone())).transpose()?;
            let carry = self.new_tail(d.carry.as_ref(), tail, &mut left)?;
            let sums = d.sums.as_ref().map(|s| self.target(&s.output, rows.clone(), false)).transpose()?;
            let output = self.target(&d.output, rows.clone(), d.accumulate)?;
            self.device.conv(&ConvDesc {
                input: input.view(),
                prologue: d.prologue.as_ref().zip(stats.as_ref()).map(|(p, stats)| Prologue {
                    stats: stats.view(),
                    affine: p.affine,
                    silu: p.silu,
                }),
                carried: carried.as_ref().map(Local::view),
                carry: carry.as_ref().map(Target::view),
                weight: d.weight,
                padding: d.padding,
                accumulate: d.accumulate,
                shortcut: d
                    .shortcut
                    .as_ref()
                    .zip(beside.as_ref())
                    .map(|(s, input)| Shortcut { input: input.view(), weight: s.weight }),
                sums: sums_into(&d.sums, &sums),
                output: output.view(),
            })?;
            drop((input, carried, beside));
            for target in [sums, Some(output)].into_iter().flatten() {
                self.settle(target)?;
            }
            left = carry;
        }
        left.map_or(Ok(()), |left| self.settle(left))
    }

    fn upsample_in_stripes(&mut self, d: &UpsampleDesc<'_>, work: &UpsampleWork) -> Result<(), ComputeError> {
        let reach = |rows| UpsampleWork { rows, ..work.clone() }.input_rows();
        let shares = shares(work.rows.clone(), self.placement.stripes, work.h, reach);
        let mut left = None;
        for (i, Share { rows, held, tail }) in shares.iter().enumerate() {
            if let Some(next) = shares.get(i + 1) {
                self.hint(Some(&d.input), &next.held);
                self.hint(d.carried.as_ref(), &next.held);
            }
            let input = self.bring(&d.input, held.clone())?;
            let carried = d.carried.as_ref().map(|v| self.snapshot(v, held.clone())).transpose()?;
            let carry = self.new_tail(d.carry.as_ref(), tail, &mut left)?;
            let sums = d.sums.as_ref().map(|s| self.target(&s.output, rows.clone(), false)).transpose()?;
            let output = self.target(&d.output, rows.clone(), false)?;
            self.device.upsample(&UpsampleDesc {
                input: input.view(),
                carried: carried.as_ref().map(Local::view),
                second: d.second,
                carry: carry.as_ref().map(Target::view),
                weight: d.weight,
                sums: sums_into(&d.sums, &sums),
                output: output.view(),
            })?;
            drop((input, carried));
            for target in [sums, Some(output)].into_iter().flatten() {
                self.settle(target)?;
            }
            left = carry;
        }
        left.map_or(Ok(()), |left| self.settle(left))
    }
}

/// The row sums of a stripe, where they were asked for.
fn sums_into<'a>(asked: &Option<RowSums<'_>>, target: &'a Option<Target<'_>>) -> Option<RowSums<'a>> {
    asked.as_ref().zip(target.as_ref()).map(|(s, t)| RowSums { groups: s.groups, output: t.view() })
}

impl Ops for Staged {
    fn name(&self) -> &'static str {
        self.device.name()
    }

    fn only_counts(&self) -> bool {
        self.device.only_counts()
    }

    fn arena(&self) -> &Arena {
        self.device.arena()
    }

    fn group(&self) -> usize {
        self.placement.group
    }

    fn counts(&self) -> Counts {
        self.device.counts()
    }

    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        self.device.weight_bytes(spec)
    }

    /// Weights that are streamed only take their place in the order of use.
    fn load(&mut self, weight: &Weight) -> Result<(), ComputeError> {
        match self.placement.stream_weights {
            true => self.streaming.push(self.device.as_mut(), weight),
            false => self.device.load(weight),
        }
    }

    fn prefetch(&mut self, weight: &Weight) -> Result<(), ComputeError> {
        self.device.prefetch(weight)
    }

    fn evict(&mut self, weight: &Weight) {
        self.device.evict(weight);
    }

    fn alloc_band(&mut self, shape: Shape, dtype: DType, band: Band) -> Result<Tensor, ComputeError> {
        self.place(shape, dtype, band, self.placement.activations)
    }

    fn alloc_kept(&mut self, shape: Shape, dtype: DType) -> Result<Tensor, ComputeError> {
        self.place(shape, dtype, Band { first: 0, height: shape.h }, self.placement.state)
    }

    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<(), ComputeError> {
        if self.is_here(to.tensor().buffer()) {
            return self.device.upload(from, to);
        }
        ensure(from.len() == to.shape().len(), "upload", "values", from.len(), to.shape().len())?;
        let Extent { start, frame, row } = extent(&to);
        let (shape, dtype) = (to.shape(), to.dtype());
        let mut bytes = vec![0; row];
        let (_, store) = self.split(to.tensor().buffer())?;
        for (i, values) in from.chunks_exact((shape.w * shape.c).max(1)).enumerate() {
            encode(dtype, values, &mut bytes);
            store.write(start + (i / shape.h) as u64 * frame + (i % shape.h * row) as u64, row, &bytes)?;
        }
        Ok(())
    }

    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<(), ComputeError> {
        if self.is_here(from.tensor().buffer()) {
            return self.device.download(from, to);
        }
        self.device.wait()?;
        ensure(to.len() == from.shape().len(), "download", "values", to.len(), from.shape().len())?;
        let Extent { start, frame, row } = extent(&from);
        let (shape, dtype) = (from.shape(), from.dtype());
        let mut bytes = vec![0; row];
        let (_, store) = self.split(from.tensor().buffer())?;
        for (i, values) in to.chunks_exact_mut((shape.w * shape.c).max(1)).enumerate() {
            store.read(start + (i / shape.h) as u64 * frame + (i % shape.h * row) as u64, row, &mut bytes)?;
            decode(dtype, &bytes, values);
        }
        Ok(())
    }

    fn fetch(&mut self, from: &mut dyn Store, at: Extent, to: View<'_>) -> Result<(), ComputeError> {
        if self.is_here(to.tensor().buffer()) {
            return self.device.fetch(from, at, to);
        }
        let home = extent(&to);
        let (_, store) = self.split(to.tensor().buffer())?;
        move_rows(from, at, store, home, to.shape())
    }

    fn stow(&mut self, from: View<'_>, to: &mut dyn Store, at: Extent) -> Result<(), ComputeError> {
        if self.is_here(from.tensor().buffer()) {
            return self.device.stow(from, to, at);
        }
        self.device.wait()?;
        let home = extent(&from);
        let (_, store) = self.split(from.tensor().buffer())?;
        move_rows(store, home, to, at, from.shape())
    }

    fn wait(&mut self) -> Result<(), ComputeError> {
        self.device.wait()
    }

    fn first_spoiled(&mut self) -> Result<Option<String>, ComputeError> {
        self.device.first_spoiled()
    }

    fn conv(&mut self, d: &ConvDesc<'_>) -> Result<(), ComputeError> {
        let work = d.check()?;
        let weights =
            [d.prologue.as_ref().map(|p| p.affine), Some(d.weight), d.shortcut.as_ref().map(|s| s.weight)];
        let here = self.all_here(&[
            Some(&d.input),
            d.prologue.as_ref().map(|p| &p.stats),
            d.carried.as_ref(),
            d.carry.as_ref(),
            d.shortcut.as_ref().map(|s| &s.input),
            d.sums.as_ref().map(|s| &s.output),
            Some(&d.output),
        ]);
        self.with_weights(&weights, |s| if here { s.device.conv(d) } else { s.conv_in_stripes(d, &work) })
    }

    fn upsample(&mut self, d: &UpsampleDesc<'_>) -> Result<(), ComputeError> {
        let work = d.check()?;
        let here = self.all_here(&[
            Some(&d.input),
            d.carried.as_ref(),
            d.carry.as_ref(),
            d.sums.as_ref().map(|s| &s.output),
            Some(&d.output),
        ]);
        self.with_weights(&[Some(d.weight)], |s| {
            if here { s.device.upsample(d) } else { s.upsample_in_stripes(d, &work) }
        })
    }

    fn row_sums(&mut self, d: &RowSumsDesc<'_>) -> Result<(), ComputeError> {
        d.check()?;
        let count = self.stripes(&[Some(&d.input), Some(&d.output)]);
        for rows in stripes(d.input.row_range(), count) {
            let input = self.bring(&d.input, rows.clone())?;
            let output = self.target(&d.output, rows, false)?;
            let (x, y) = (input.view(), output.view());
            self.device.row_sums(&RowSumsDesc { input: x, groups: d.groups, output: y })?;
            drop(input);
            self.settle(output)?;
        }
        Ok(())
    }

    fn combine_sums(&mut self, d: &CombineDesc<'_>) -> Result<(), ComputeError> {
        d.check()?;
        let sums = self.bring(&d.sums, d.sums.row_range())?;
        let output = self.target(&d.output, d.output.row_range(), false)?;
        let (x, y) = (sums.view(), output.view());
        let CombineDesc { name, count, eps, .. } = *d;
        self.device.combine_sums(&CombineDesc { name, sums: x, count, eps, output: y })?;
        drop(sums);
        self.settle(output)
    }

    fn normalize(&mut self, d: &NormalizeDesc<'_>) -> Result<(), ComputeError> {
        d.check()?;
        self.with_weights(&[Some(d.affine)], |s| {
            let stats = s.bring(&d.stats, d.stats.row_range())?;
            let count = s.stripes(&[Some(&d.input), Some(&d.output)]);
            for rows in stripes(d.input.row_range(), count) {
                let input = s.bring(&d.input, rows.clone())?;
                let output = s.target(&d.output, rows, false)?;
                let (x, stats, y) = (input.view(), stats.view(), output.view());
                let desc = NormalizeDesc { input: x, stats, affine: d.affine, silu: d.silu, output: y };
                s.device.normalize(&desc)?;
                drop(input);
                s.settle(output)?;
            }
            Ok(())
        })
    }

    fn linear(&mut self, d: &LinearDesc<'_>) -> Result<(), ComputeError> {
        d.check()?;
        self.with_weights(&[Some(d.weight)], |s| {
            let count = s.stripes(&[Some(&d.input), d.sums.as_ref().map(|a| &a.output), Some(&d.output)]);
            for rows in stripes(d.input.row_range(), count) {
                let input = s.bring(&d.input, rows.clone())?;
                let sums = d.sums.as_ref().map(|a| s.target(&a.output, rows.clone(), false)).transpose()?;
                let output = s.target(&d.output, rows, d.accumulate)?;
                s.device.linear(&LinearDesc {
                    input: input.view(),
                    weight: d.weight,
                    accumulate: d.accumulate,
                    sums: sums_into(&d.sums, &sums),
                    output: output.view(),
                })?;
                drop(input);
                for target in [sums, Some(output)].into_iter().flatten() {
                    s.settle(target)?;
                }
            }
            Ok(())
        })
    }

    /// Frame by frame, so that keys and values of one frame are enough; queries in stripes.
    fn attention(&mut self, d: &AttentionDesc<'_>) -> Result<(), ComputeError> {
        let work = d.check()?;
        let count = self.stripes(&[Some(&d.q), Some(&d.k), Some(&d.v), Some(&d.output)]);
        for t in 0..work.t {
            let (q, k) = (frame_of(&d.q, t), frame_of(&d.k, t));
            let (v, y) = (frame_of(&d.v, t), frame_of(&d.output, t));
            let k = self.bring(&k, k.row_range())?;
            let v = self.bring(&v, v.row_range())?;
            for rows in stripes(work.rows.clone(), count) {
                let q = self.bring(&q, rows.clone())?;
                let output = self.target(&y, rows, false)?;
                self.device.attention(&AttentionDesc {
                    q: q.view(),
                    k: k.view(),
                    v: v.view(),
                    heads: d.heads,
                    scale: d.scale,
                    output: output.view(),
                })?;
                drop(q);
                self.settle(output)?;
            }
        }
        Ok(())
    }

    fn window_attention(&mut self, d: &WindowAttentionDesc<'_>) -> Result<(), ComputeError> {
        self.window_attention_now(d)
    }

    fn token_norm(&mut self, d: &TokenNormDesc<'_>) -> Result<(), ComputeError> {
        self.token_norm_now(d)
    }

    fn activate(&mut self, d: &ActivateDesc<'_>) -> Result<(), ComputeError> {
        self.activate_now(d)
    }

    fn add_gated(&mut self, d: &AddGatedDesc<'_>) -> Result<(), ComputeError> {
        self.add_gated_now(d)
    }

    fn gather(&mut self, d: &WindowsDesc<'_>) -> Result<(), ComputeError> {
        self.gather_now(d)
    }

    fn scatter(&mut self, d: &WindowsDesc<'_>) -> Result<(), ComputeError> {
        self.scatter_now(d)
    }

    fn shuffle(&mut self, d: &ShuffleDesc<'_>) -> Result<(), ComputeError> {
        d.check()?;
        let factor = d.factors[1];
        let count = self.stripes(&[Some(&d.input), Some(&d.output)]);
        for rows in stripes(d.input.row_range(), count) {
            let input = self.bring(&d.input, rows.clone())?;
            let output = self.target(&d.output, rows.start * factor..rows.end * factor, false)?;
            self.device.shuffle(&ShuffleDesc {
                input: input.view(),
                factors: d.factors,
                drop_second: d.drop_second,
                output: output.view(),
            })?;
            drop(input);
            self.settle(output)?;
        }
        Ok(())
    }

    fn copy(&mut self, from: View<'_>, to: View<'_>) -> Result<(), ComputeError> {
        same_shape("copy", "output", &to, &from)?;
        let (first, start) = (from.row_range().start, to.row_range().start);
        let count = self.stripes(&[Some(&from), Some(&to)]);
        for rows in stripes(0..from.shape().h, count) {
            let input = self.bring(&from, first + rows.start..first + rows.end)?;
            let output = self.target(&to, start + rows.start..start + rows.end, false)?;
            self.device.copy(input.view(), output.view())?;
            drop(input);
            self.settle(output)?;
        }
        Ok(())
    }
}

pub(super) fn frame_of<'a>(view: &View<'a>, t: usize) -> View<'a> {
    view.clone().frames(t..t + 1)
}

/// Rows from one store to another, one at a time.
fn move_rows(
    from: &mut dyn Store,
    source: Extent,
    to: &mut dyn Store,
    target: Extent,
    shape: Shape,
) -> Result<(), ComputeError> {
    let mut bytes = vec![0; source.row];
    for (t, y) in (0..shape.t).flat_map(|t| (0..shape.h).map(move |y| (t as u64, y))) {
        from.read(source.start + t * source.frame + (y * source.row) as u64, source.row, &mut bytes)?;
        to.write(target.start + t * target.frame + (y * target.row) as u64, target.row, &bytes)?;
    }
    Ok(())
}
