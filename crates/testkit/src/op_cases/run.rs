//! One case on one backend: operands with random values, outputs in a frame of canaries.

use std::ops::Range;
use std::sync::Arc;

use remaster_compute::{
    AttentionDesc, CombineDesc, ComputeError, ConvDesc, DType, LinearDesc, NormalizeDesc, Ops, Prologue,
    RowSums, RowSumsDesc, Shape, Shortcut, ShuffleDesc, SourceError, Tensor, UpsampleDesc, View, Weight,
    WeightPart, WeightSource, WeightSpec,
};

use super::{Case, ConvCase, Output, Poison, tolerance};
use crate::rng::{Noise, Rng};

/// Value written around outputs; representable in every format.
const CANARY: f32 = 12288.0;

pub(super) struct Run<'a> {
    ops: &'a mut dyn Ops,
    rng: Rng,
    dtype: DType,
    guarded: Vec<Guarded>,
    poison: Option<Poison>,
    /// Tensors and weights so far.
    made: [usize; 2],
    /// Says where in an operand the bad value goes.
    place: Rng,
}

/// A weight with one bad value, counted through its main part and its bias.
struct Spoiled {
    good: Noise,
    spec: WeightSpec,
    at: usize,
    value: f32,
}

impl WeightSource for Spoiled {
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        self.good.read(part, start, out)?;
        let before = if part == WeightPart::Main { 0 } else { self.spec.main_len() };
        let at = self.at.checked_sub(before + start);
        if let Some(value) = at.and_then(|at| out.get_mut(at)).filter(|_| part_of(self, part)) {
            *value = self.value;
        }
        Ok(())
    }
}

fn part_of(spoiled: &Spoiled, part: WeightPart) -> bool {
    (spoiled.at < spoiled.spec.main_len()) == (part == WeightPart::Main)
}

/// An output with a frame of canaries before and behind it, and canaries in rows not asked for.
struct Guarded {
    name: &'static str,
    tensor: Tensor,
    rows: Range<usize>,
    tolerance: f32,
}

impl Guarded {
    fn view(&self) -> View<'_> {
        let t = self.tensor.shape().t;
        self.tensor.view().frames(1..t - 1).rows(self.rows.clone())
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(ops: &'a mut dyn Ops, case: &Case) -> Self {
        let [rng, place] = [0xda7a, 0xbad].map(|salt| Rng::new(case.seed ^ salt));
        let Case { dtype, poison, .. } = *case;
        Run { ops, rng, dtype, guarded: Vec::new(), poison, made: [0; 2], place }
    }

    fn tensor(&mut self, shape: Shape) -> Result<Tensor, ComputeError> {
        self.tensor_as(shape, self.dtype)
    }

    fn tensor_as(&mut self, shape: Shape, dtype: DType) -> Result<Tensor, ComputeError> {
        let tensor = self.ops.alloc(shape, dtype)?;
        let mut values = self.rng.values(shape.len());
        self.spoil(&mut values);
        self.ops.upload(&values, tensor.view())?;
        Ok(tensor)
    }

    /// Where in the operand at hand the bad value goes, if it is the one.
    fn bad(&mut self, weight: bool, values: usize) -> Option<(usize, f32)> {
        let number = self.made[usize::from(weight)];
        self.made[usize::from(weight)] += 1;
        let poison = self.poison.filter(|p| p.weight == weight && p.operand == number && values > 0)?;
        Some((self.place.below(values), poison.value))
    }

    fn spoil(&mut self, values: &mut [f32]) {
        if let Some((at, value)) = self.bad(false, values.len()) {
            values[at] = value;
        }
    }

    fn source(&mut self, spec: WeightSpec, good: Noise) -> Arc<dyn WeightSource> {
        match self.bad(true, spec.main_len() + spec.bias_len()) {
            None => Arc::new(good),
            Some((at, value)) => Arc::new(Spoiled { good, spec, at, value }),
        }
    }

    /// Statistics of a plausible frame: mean near 0, 1/deviation near 1.
    fn stats(&mut self, t: usize, groups: usize) -> Result<Tensor, ComputeError> {
        let tensor = self.ops.alloc(Shape::new(t, 1, 1, 2 * groups), DType::F32)?;
        let mut values = self.rng.values(2 * groups * t);
        values.iter_mut().skip(1).step_by(2).for_each(|v| *v = 1.0 + 0.5 * *v);
        self.spoil(&mut values);
        self.ops.upload(&values, tensor.view())?;
        Ok(tensor)
    }

    fn weight(&mut self, spec: WeightSpec) -> Result<Weight, ComputeError> {
        let fan_in = (spec.main_len() / spec.bias_len().max(1)).max(1) as f32;
        let (scale, centre) = match spec {
            WeightSpec::Norm { .. } => (0.2, 1.0),
            _ => ((3.0 / fan_in).sqrt(), 0.0),
        };
        let good = Noise { seed: self.rng.bits() >> 8, scale, centre };
        let weight = Weight::new("case", spec, self.source(spec, good));
        self.ops.load(&weight)?;
        Ok(weight)
    }

    fn guard(
        &mut self,
        name: &'static str,
        shape: Shape,
        dtype: DType,
        rows: &Range<usize>,
    ) -> Result<usize, ComputeError> {
        let outer = Shape { t: shape.t + 2, ..shape };
        let tensor = self.ops.alloc(outer, dtype)?;
        self.ops.upload(&vec![CANARY; outer.len()], tensor.view())?;
        self.guarded.push(Guarded { name, tensor, rows: rows.clone(), tolerance: tolerance(self.dtype) });
        Ok(self.guarded.len() - 1)
    }

    /// Row sums of an output of this shape, if it has groups of them.
    fn sums(&mut self, groups: usize, of: Shape, rows: &Range<usize>) -> Result<Option<usize>, ComputeError> {
        let shape = Shape::new(of.t, of.h, 1, 2 * groups);
        (groups > 0).then(|| self.guard("sums", shape, DType::F32, rows)).transpose()
    }

    /// Puts a residual of this shape where output `y` will be, or nothing.
    fn residual(&mut self, y: usize, shape: Shape, wanted: bool) -> Result<(), ComputeError> {
        let values = self.tensor(shape)?;
        let to = self.guarded[y].view();
        let from = values.view().rows(self.guarded[y].rows.clone());
        if wanted { self.ops.copy(from, to) } else { Ok(()) }
    }

    /// Puts the old tail where the new one will be, once in two times.
    fn in_place(
        &mut self,
        carry: Option<usize>,
        old: &Tensor,
        rows: &Range<usize>,
    ) -> Result<Option<usize>, ComputeError> {
        let carry = carry.filter(|_| self.rng.one_in(2));
        if let Some(c) = carry {
            self.ops.copy(old.view().rows(rows.clone()), self.guarded[c].view())?;
        }
        Ok(carry)
    }

    pub(super) fn conv(&mut self, case: &ConvCase, rows: Range<usize>) -> Result<(), ComputeError> {
        let (dtype, input, output) = (self.dtype, case.input, case.output());
        let tail = Shape { t: case.kernel[0] - case.stride[0], ..input };
        let ConvCase { cout, kernel, stride, slopes, .. } = *case;
        let weight = self.weight(WeightSpec::Conv { cin: input.c, cout, kernel, stride, dtype, slopes })?;
        let affine = self.weight(WeightSpec::Norm { channels: input.c })?;
        let cin = case.shortcut.max(1);
        let point = self.weight(WeightSpec::conv([cin, cout], [1; 3], dtype))?;
        let x = self.tensor(input)?;
        let stats = self.stats(input.t, case.prologue.max(1))?;
        let carried = self.tensor(tail)?;
        let shortcut = self.tensor(Shape { c: case.shortcut.max(1), ..output })?;
        // Only the rows that are needed are shown: a kernel that reads others panics or is wrong.
        let first = (rows.start * case.stride[1]).saturating_sub(case.padding.top);
        let last =
            ((rows.end - 1) * case.stride[1] + case.kernel[1]).saturating_sub(case.padding.top).min(input.h);
        let first = first.min(last);
        let seen = first..last;
        let y = self.guard("output", output, dtype, &rows)?;
        self.residual(y, output, case.accumulate)?;
        let s = self.sums(case.sums, output, &rows)?;
        let c = if case.carry { Some(self.guard("tail", tail, dtype, &seen)?) } else { None };
        let in_place = self.in_place(c.filter(|_| case.continued), &carried, &seen)?;
        let guarded = &self.guarded;
        let old = in_place.map_or(carried.view().rows(seen.clone()), |c| guarded[c].view());
        let prologue = Prologue { stats: stats.view(), affine: &affine, silu: case.silu };
        self.ops.conv(&ConvDesc {
            input: x.view().rows(seen.clone()),
            prologue: (case.prologue > 0).then_some(prologue),
            carried: case.continued.then_some(old),
            carry: c.map(|c| guarded[c].view()),
            weight: &weight,
            padding: case.padding,
            accumulate: case.accumulate,
            shortcut: (case.shortcut > 0)
                .then(|| Shortcut { input: shortcut.view().rows(rows), weight: &point }),
            sums: s.map(|s| RowSums { groups: case.sums, output: guarded[s].view() }),
            output: guarded[y].view(),
        })
    }

    pub(super) fn norm(
        &mut self,
        shape: Shape,
        groups: usize,
        silu: bool,
        rows: Range<usize>,
    ) -> Result<(), ComputeError> {
        let x = self.tensor(shape)?;
        let affine = self.weight(WeightSpec::Norm { channels: shape.c })?;
        let s = self.guard("sums", Shape::new(shape.t, shape.h, 1, 2 * groups), DType::F32, &rows)?;
        let input = x.view().rows(rows.clone());
        self.ops.row_sums(&RowSumsDesc { input: input.clone(), groups, output: self.guarded[s].view() })?;
        // The combination needs every row, whatever part is normalised.
        let all = self.ops.alloc(Shape::new(shape.t, shape.h, 1, 2 * groups), DType::F32)?;
        self.ops.row_sums(&RowSumsDesc { input: x.view(), groups, output: all.view() })?;
        let stats = self.guard("stats", Shape::new(shape.t, 1, 1, 2 * groups), DType::F32, &(0..1))?;
        let count = shape.w * shape.c / groups;
        // A large eps keeps frames of one value, whose variance is rounding, comparable.
        let output = self.guarded[stats].view();
        self.ops.combine_sums(&CombineDesc { name: "case", sums: all.view(), count, eps: 1e-2, output })?;
        let y = self.guard("output", shape, self.dtype, &rows)?;
        let (stats, output) = (self.guarded[stats].view(), self.guarded[y].view());
        self.ops.normalize(&NormalizeDesc { input, stats, affine: &affine, silu, output })
    }

    pub(super) fn linear(
        &mut self,
        shape: Shape,
        cout: usize,
        accumulate: bool,
        groups: usize,
        rows: Range<usize>,
    ) -> Result<(), ComputeError> {
        let output = Shape { c: cout, ..shape };
        let x = self.tensor(shape)?;
        let weight = self.weight(WeightSpec::Linear { cin: shape.c, cout, dtype: self.dtype })?;
        let y = self.guard("output", output, self.dtype, &rows)?;
        self.residual(y, output, accumulate)?;
        let s = self.sums(groups, output, &rows)?;
        let sums = s.map(|s| RowSums { groups, output: self.guarded[s].view() });
        let (input, output) = (x.view().rows(rows), self.guarded[y].view());
        self.ops.linear(&LinearDesc { input, weight: &weight, accumulate, sums, output })
    }

    pub(super) fn attention(
        &mut self,
        shape: Shape,
        heads: usize,
        rows: Range<usize>,
    ) -> Result<(), ComputeError> {
        let (q, k, v) = (self.tensor(shape)?, self.tensor(shape)?, self.tensor(shape)?);
        let y = self.guard("output", shape, self.dtype, &rows)?;
        let scale = 2.0 / (shape.c as f32 / heads as f32).sqrt();
        let (q, k, v, output) = (q.view().rows(rows), k.view(), v.view(), self.guarded[y].view());
        self.ops.attention(&AttentionDesc { q, k, v, heads, scale, output })
    }

    pub(super) fn shuffle(
        &mut self,
        cell: Shape,
        factors: [usize; 3],
        drop_second: bool,
        rows: Range<usize>,
    ) -> Result<(), ComputeError> {
        let [z, fy, fx] = factors;
        let x = self.tensor(Shape { c: cell.c * z * fy * fx, ..cell })?;
        let output = Shape::new(cell.t * z - usize::from(drop_second), cell.h * fy, cell.w * fx, cell.c);
        let y = self.guard("output", output, self.dtype, &rows)?;
        let input = x.view().rows(rows.start / fy..rows.end / fy);
        self.ops.shuffle(&ShuffleDesc { input, factors, drop_second, output: self.guarded[y].view() })
    }

    pub(super) fn upsample(
        &mut self,
        shape: Shape,
        cout: usize,
        time: bool,
        continued: bool,
        second: bool,
        carry: bool,
        groups: usize,
        rows: Range<usize>,
    ) -> Result<(), ComputeError> {
        let dtype = self.dtype;
        let spec = WeightSpec::Upsample { cin: shape.c, cout, time, dtype };
        let mut noise = |scale: f32| Noise { seed: self.rng.bits() >> 8, scale, centre: 0.0 };
        let (conv, upscale) =
            (noise((3.0 / (27.0 * cout as f32)).sqrt()), noise((3.0 / shape.c as f32).sqrt()));
        let phases = if time { 8 } else { 4 };
        let front = WeightSpec::Linear { cin: shape.c, cout: phases * cout, dtype };
        let weight = Weight::upsampler("case", spec, self.source(spec, conv), self.source(front, upscale));
        self.ops.load(&weight)?;
        let tail = Shape { t: if time { 1 } else { 2 }, ..shape };
        let (x, carried) = (self.tensor(shape)?, self.tensor(tail)?);
        let t = match (time, continued) {
            (true, true) => 2 * shape.t,
            (true, false) => 2 * shape.t - 1,
            (false, _) => shape.t,
        };
        let output = Shape::new(t, 2 * shape.h, 2 * shape.w, cout);
        let seen = rows.start.saturating_sub(1) / 2..(rows.end / 2 + 1).min(shape.h);
        let y = self.guard("output", output, dtype, &rows)?;
        let s = self.sums(groups, output, &rows)?;
        let c = if carry { Some(self.guard("tail", tail, dtype, &seen)?) } else { None };
        let in_place = self.in_place(c.filter(|_| continued), &carried, &seen)?;
        let guarded = &self.guarded;
        let old = in_place.map_or(carried.view().rows(seen.clone()), |c| guarded[c].view());
        self.ops.upsample(&UpsampleDesc {
            input: x.view().rows(seen),
            carried: continued.then_some(old),
            second,
            carry: c.map(|c| guarded[c].view()),
            weight: &weight,
            sums: s.map(|s| RowSums { groups, output: guarded[s].view() }),
            output: guarded[y].view(),
        })
    }

    pub(super) fn copy(&mut self, shape: Shape, to: DType, rows: Range<usize>) -> Result<(), ComputeError> {
        let x = self.tensor(shape)?;
        let y = self.guard("output", shape, to, &rows)?;
        self.ops.copy(x.view().rows(rows), self.guarded[y].view())
    }

    /// Downloads outputs; panics if a canary is gone.
    pub(super) fn finish(self) -> Result<Vec<Output>, ComputeError> {
        let mut outputs = Vec::new();
        for g in &self.guarded {
            let Shape { t, h, w, c } = g.tensor.shape();
            let all = self.ops.values(g.tensor.view())?;
            let mut values = Vec::new();
            for (i, row) in all.chunks_exact(w * c).enumerate() {
                let (frame, y) = (i / h, i % h);
                if (1..t - 1).contains(&frame) && g.rows.contains(&y) {
                    values.extend_from_slice(row);
                } else {
                    let whole = row.iter().all(|v| *v == CANARY);
                    assert!(whole, "{}: frame {frame} row {y} was written", g.name);
                }
            }
            let Guarded { name, tolerance, .. } = *g;
            outputs.push(Output { name, values, row: w * c, rows: g.rows.len(), tolerance });
        }
        Ok(outputs)
    }
}
