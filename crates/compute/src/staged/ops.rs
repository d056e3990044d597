//! Every op, stripe by stripe where an operand does not lie on the device.

use std::ops::Range;

use super::stripes::{Share, shares, stripes};
use super::{Local, Staged, Target, extent};
use crate::arena::Arena;
use crate::dtype::{DType, decode, encode};
use crate::error::{Result, ensure};
use crate::meter::Counts;
use crate::ops::{
    AttentionDesc, AttentionWork, CombineDesc, ConvDesc, ConvWork, LinearDesc, LinearWork, NormalizeDesc,
    Ops, Prologue, RowSums, RowSumsDesc, Shortcut, ShuffleDesc, UpsampleDesc, UpsampleWork, checked_ops,
    same_shape,
};
use crate::store::{Extent, TensorStore};
use crate::tensor::{Band, Shape, Tensor, View};
use crate::weight::{Weight, WeightSpec};

impl Staged {
    /// Whether all operands of a convolution lie on the device.
    fn holds(&self, d: &ConvDesc<'_>) -> bool {
        self.all_here(&[
            Some(&d.input),
            d.prologue.as_ref().map(|p| &p.stats),
            d.carried.as_ref(),
            d.carry.as_ref(),
            d.shortcut.as_ref().map(|s| &s.input),
            d.sums.as_ref().map(|s| &s.output),
            Some(&d.output),
        ])
    }

    /// A convolution or an upsampler stripe by stripe, each done by `run`; `reach` says which input rows some output
    /// rows need.
    fn convolve_in_stripes(
        &mut self,
        d: &ConvDesc<'_>,
        reach: impl Fn(Range<usize>) -> Range<usize>,
        run: impl Fn(&mut dyn Ops, ConvDesc<'_>) -> Result<()>,
    ) -> Result<()> {
        let stats = d.prologue.as_ref().map(|p| self.bring(&p.stats, p.stats.row_range())).transpose()?;
        let shares = shares(d.output.row_range(), self.placement.stripes, d.input.height(), reach);
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
            let prologue = d.prologue.as_ref().zip(stats.as_ref());
            let shortcut = d.shortcut.as_ref().zip(beside.as_ref());
            let part = ConvDesc {
                input: input.view(),
                prologue: prologue.map(|(p, stats)| Prologue { stats: stats.view(), ..p.clone() }),
                carried: carried.as_ref().map(Local::view),
                carry: carry.as_ref().map(Target::view),
                weight: d.weight,
                padding: d.padding,
                accumulate: d.accumulate,
                shortcut: shortcut.map(|(s, input)| Shortcut { input: input.view(), weight: s.weight }),
                sums: sums_into(&d.sums, &sums),
                output: output.view(),
            };
            run(self.device.as_mut(), part)?;
            drop((input, carried, beside));
            for target in [sums, Some(output)].into_iter().flatten() {
                self.settle(target)?;
            }
            left = carry;
        }
        left.map_or(Ok(()), |left| self.settle(left))
    }

    /// Runs an op from one view to another in stripes. A row of the input becomes `factor` rows of the output; with
    /// `filled` what they hold comes along.
    pub(super) fn in_stripes(
        &mut self,
        [input, output]: [&View<'_>; 2],
        factor: usize,
        filled: bool,
        op: impl Fn(&mut dyn Ops, View<'_>, View<'_>) -> Result<()>,
    ) -> Result<()> {
        let count = self.stripes(&[Some(input), Some(output)]);
        for rows in stripes(0..input.shape().h, count) {
            let from = self.bring(input, shifted(input, &rows))?;
            let rows = rows.start * factor..rows.end * factor;
            let to = self.target(output, shifted(output, &rows), filled)?;
            op(self.device.as_mut(), from.view(), to.view())?;
            drop(from);
            self.settle(to)?;
        }
        Ok(())
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
    fn load(&mut self, weight: &Weight) -> Result<()> {
        match self.placement.stream_weights {
            true => self.streaming.push(self.device.as_mut(), weight),
            false => self.device.load(weight),
        }
    }

    fn prefetch(&mut self, weight: &Weight) -> Result<()> {
        self.device.prefetch(weight)
    }

    fn evict(&mut self, weight: &Weight) {
        self.device.evict(weight);
    }

    fn alloc_band(&mut self, shape: Shape, dtype: DType, band: Band) -> Result<Tensor> {
        self.place(shape, dtype, band, self.placement.activations)
    }

    fn alloc_kept(&mut self, shape: Shape, dtype: DType) -> Result<Tensor> {
        self.place(shape, dtype, Band { first: 0, height: shape.h }, self.placement.state)
    }

    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<()> {
        if self.is_here(to.tensor().buffer()) {
            return self.device.upload(from, to);
        }
        ensure(from.len() == to.shape().len(), "upload", "values", from.len(), to.shape().len())?;
        let (home, shape, dtype) = (extent(&to), to.shape(), to.dtype());
        let mut bytes = vec![0; home.row];
        let (_, store) = self.split(to.tensor().buffer())?;
        for (i, values) in from.chunks_exact((shape.w * shape.c).max(1)).enumerate() {
            encode(dtype, values, &mut bytes);
            store.write(home.row_at(i / shape.h, i % shape.h), home.row, &bytes)?;
        }
        Ok(())
    }

    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<()> {
        if self.is_here(from.tensor().buffer()) {
            return self.device.download(from, to);
        }
        self.device.wait()?;
        ensure(to.len() == from.shape().len(), "download", "values", to.len(), from.shape().len())?;
        let (home, shape, dtype) = (extent(&from), from.shape(), from.dtype());
        let mut bytes = vec![0; home.row];
        let (_, store) = self.split(from.tensor().buffer())?;
        for (i, values) in to.chunks_exact_mut((shape.w * shape.c).max(1)).enumerate() {
            store.read(home.row_at(i / shape.h, i % shape.h), home.row, &mut bytes)?;
            decode(dtype, &bytes, values);
        }
        Ok(())
    }

    fn fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: View<'_>) -> Result<()> {
        if self.is_here(to.tensor().buffer()) {
            return self.device.fetch(from, at, to);
        }
        let home = extent(&to);
        let (_, store) = self.split(to.tensor().buffer())?;
        move_rows(from, at, store, home, to.shape())
    }

    fn stow(&mut self, from: View<'_>, to: &mut dyn TensorStore, at: Extent) -> Result<()> {
        if self.is_here(from.tensor().buffer()) {
            return self.device.stow(from, to, at);
        }
        self.device.wait()?;
        let home = extent(&from);
        let (_, store) = self.split(from.tensor().buffer())?;
        move_rows(store, home, to, at, from.shape())
    }

    fn wait(&mut self) -> Result<()> {
        self.device.wait()
    }

    fn finish_checks(&mut self) -> Result<()> {
        self.device.finish_checks()
    }

    fn first_spoiled(&mut self) -> Result<Option<String>> {
        self.device.first_spoiled()
    }

    checked_ops!(but copy);

    fn copy(&mut self, from: View<'_>, to: View<'_>) -> Result<()> {
        same_shape("copy", "output", &to, &from)?;
        self.in_stripes([&from, &to], 1, false, |device, from, to| device.copy(from, to))
    }
}

impl Staged {
    fn conv_now(&mut self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<()> {
        let weights =
            [d.prologue.as_ref().map(|p| p.affine), Some(d.weight), d.shortcut.as_ref().map(|s| s.weight)];
        let reach = |rows| ConvWork { rows, ..work.clone() }.input_rows();
        self.with_weights(&weights, |s| match s.holds(d) {
            true => s.device.conv(d),
            false => s.convolve_in_stripes(d, reach, |device, part| device.conv(&part)),
        })
    }

    fn upsample_now(&mut self, d: &UpsampleDesc<'_>, work: &UpsampleWork) -> Result<()> {
        let conv = d.as_conv();
        let reach = |rows| UpsampleWork { rows, ..work.clone() }.input_rows();
        self.with_weights(&[Some(d.weight)], |s| match s.holds(&conv) {
            true => s.device.upsample(d),
            false => s.convolve_in_stripes(&conv, reach, |device, part| {
                let ConvDesc { input, carried, carry, weight, sums, output, .. } = part;
                let second = d.second;
                device.upsample(&UpsampleDesc { input, carried, second, carry, weight, sums, output })
            }),
        })
    }

    fn row_sums_now(&mut self, d: &RowSumsDesc<'_>) -> Result<()> {
        self.in_stripes([&d.input, &d.output], 1, false, |device, input, output| {
            device.row_sums(&RowSumsDesc { input, groups: d.groups, output })
        })
    }

    fn combine_now(&mut self, d: &CombineDesc<'_>) -> Result<()> {
        let sums = self.bring(&d.sums, d.sums.row_range())?;
        let output = self.target(&d.output, d.output.row_range(), false)?;
        let (x, y) = (sums.view(), output.view());
        let CombineDesc { name, count, eps, .. } = *d;
        self.device.combine_sums(&CombineDesc { name, sums: x, count, eps, output: y })?;
        drop(sums);
        self.settle(output)
    }

    fn normalize_now(&mut self, d: &NormalizeDesc<'_>) -> Result<()> {
        self.with_weights(&[Some(d.affine)], |s| {
            let stats = s.bring(&d.stats, d.stats.row_range())?;
            s.in_stripes([&d.input, &d.output], 1, false, |device, input, output| {
                let (stats, affine, silu) = (stats.view(), d.affine, d.silu);
                device.normalize(&NormalizeDesc { input, stats, affine, silu, output })
            })
        })
    }

    fn linear_now(&mut self, d: &LinearDesc<'_>, _work: &LinearWork) -> Result<()> {
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
    fn attention_now(&mut self, d: &AttentionDesc<'_>, work: &AttentionWork) -> Result<()> {
        let count = self.stripes(&[Some(&d.q), Some(&d.k), Some(&d.v), Some(&d.output)]);
        for t in 0..work.t {
            let [q, k, v, y] = [&d.q, &d.k, &d.v, &d.output].map(|view| frame_of(view, t));
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

    fn shuffle_now(&mut self, d: &ShuffleDesc<'_>) -> Result<()> {
        let (factors, drop_second) = (d.factors, d.drop_second);
        self.in_stripes([&d.input, &d.output], factors[1], false, |device, input, output| {
            device.shuffle(&ShuffleDesc { input, factors, drop_second, output })
        })
    }
}

/// Rows of a view by their numbers in it, as absolute ones.
pub(super) fn shifted(view: &View<'_>, rows: &Range<usize>) -> Range<usize> {
    let first = view.row_range().start;
    first + rows.start..first + rows.end
}

pub(super) fn frame_of<'a>(view: &View<'a>, t: usize) -> View<'a> {
    view.clone().frames(t..t + 1)
}

/// Rows from one store to another, one at a time.
fn move_rows(
    from: &mut dyn TensorStore,
    source: Extent,
    to: &mut dyn TensorStore,
    target: Extent,
    shape: Shape,
) -> Result<()> {
    let mut bytes = vec![0; source.row];
    for (t, y) in (0..shape.t).flat_map(|t| (0..shape.h).map(move |y| (t, y))) {
        from.read(source.row_at(t, y), source.row, &mut bytes)?;
        to.write(target.row_at(t, y), target.row, &bytes)?;
    }
    Ok(())
}
