//! The slow twin: naive loops in f64 that can be checked by reading. It rounds to the storage format
//! at the same points as every other backend: after a prologue, after an op, and the weights once.

mod tokens;

use crate::arena::{Arena, Buffer};
use crate::dtype::DType;
use crate::error::Result;
use crate::host::HostMemory;
use crate::loader::Ahead;
use crate::ops::{
    AttentionDesc, AttentionWork, CombineDesc, ConvDesc, ConvWork, LinearDesc, LinearWork, NormalizeDesc,
    OpWork, Ops, RowSums, RowSumsDesc, ShuffleDesc, Sizing, UpsampleDesc, UpsampleWork, checked_ops,
    same_shape,
};
use crate::store::{Extent, TensorStore};
use crate::tensor::{Shape, View};
use crate::weight::{Weight, WeightPart, WeightSpec};

/// Computes with naive loops. Copies its operands to vectors first: it is for tests only.
pub struct Reference {
    host: HostMemory,
    /// Room of weights that will be loaded soon.
    ahead: Ahead<Buffer>,
    /// See `Ops::first_spoiled`.
    spoiled: Option<String>,
}

/// Sizes of this backend: weights as f32, no scratch in the arena.
pub struct ReferenceSizing;

impl Sizing for ReferenceSizing {
    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        4 * (spec.main_len() + spec.bias_len()) as u64
    }

    fn scratch_bytes(&self, _work: &OpWork) -> u64 {
        0
    }
}

impl Reference {
    /// With an arena of `cap` bytes.
    pub fn new(cap: u64) -> Result<Self> {
        Ok(Reference { host: HostMemory::new(cap)?, ahead: Ahead::default(), spoiled: None })
    }

    fn read(&self, op: &'static str, view: &View<'_>) -> Result<Grid> {
        let mut values = vec![0.0; view.shape().len()];
        self.host.read_all(op, view, &mut values)?;
        Ok(Grid { shape: view.shape(), first_row: view.row_range().start, values })
    }

    /// Main part and bias of a loaded weight.
    fn weight(&self, weight: &Weight) -> Result<(Vec<f32>, Vec<f32>)> {
        weight.buffer(self.host.arena())?;
        let dtype = precision(weight.spec());
        let mut main = vec![0.0; weight.spec().main_len()];
        let mut bias = vec![0.0; weight.spec().bias_len()];
        weight.read(WeightPart::Main, 0, &mut main)?;
        weight.read(WeightPart::Bias, 0, &mut bias)?;
        dtype.round_all(&mut main);
        Ok((main, bias))
    }

    /// Scale, shift and SiLU, rounded to `dtype`.
    fn normalized(
        &self,
        mut x: Grid,
        stats: &Grid,
        affine: &Weight,
        silu: bool,
        dtype: DType,
    ) -> Result<Grid> {
        let (gamma, beta) = self.weight(affine)?;
        let Shape { h, w, c, .. } = x.shape;
        let groups = stats.shape.c / 2;
        for (i, value) in x.values.iter_mut().enumerate() {
            let (t, channel) = (i / (h * w * c), i % c);
            let pair = t * groups * 2 + channel / (c / groups) * 2;
            let (mean, rstd) = (f64::from(stats.values[pair]), f64::from(stats.values[pair + 1]));
            let y = (f64::from(*value) - mean) * rstd * f64::from(gamma[channel]) + f64::from(beta[channel]);
            *value = dtype.round((if silu { y / (1.0 + (-y).exp()) } else { y }) as f32);
        }
        Ok(x)
    }

    /// Leaves a tail whose values `at` knows, by their places in it with absolute rows.
    fn write_tail(
        &mut self,
        op: &'static str,
        carry: &Option<View<'_>>,
        at: impl Fn([usize; 4]) -> f64,
    ) -> Result<()> {
        let Some(carry) = carry else { return Ok(()) };
        let (Shape { t, h, w, c }, first) = (carry.shape(), carry.row_range().start);
        let places = (0..t).flat_map(|t| triples(h, w, c).map(move |(y, x, c)| [t, first + y, x, c]));
        let tail: Vec<f32> = places.map(|place| at(place) as f32).collect();
        self.host.write_all(op, carry, &tail)
    }

    fn write_sums(&mut self, sums: &Option<RowSums<'_>>, of: &View<'_>) -> Result<()> {
        sums.as_ref().map_or(Ok(()), |sums| self.row_sums(&sums.of(of)))
    }
}

/// A view's values; rows are absolute.
struct Grid {
    shape: Shape,
    first_row: usize,
    values: Vec<f32>,
}

impl Grid {
    fn at(&self, t: usize, row: usize, x: usize, c: usize) -> f64 {
        let Shape { h, w, c: channels, .. } = self.shape;
        f64::from(self.values[((t * h + row - self.first_row) * w + x) * channels + c])
    }
}

fn precision(spec: WeightSpec) -> DType {
    match spec {
        // Folded first, rounded then: the two factors stay as they are.
        WeightSpec::Upsample { .. } => DType::F32,
        other => other.product().map_or(DType::F32, |(.., dtype)| dtype),
    }
}

/// What one output value of a convolution is made of, tap by tap. `seen` is a value of `prefix ++ input`.
fn conv_at(work: &ConvWork, kernel: &[f32], seen: &dyn Fn([usize; 4]) -> f64, at: [usize; 4]) -> f64 {
    let [t, y, x, o] = at;
    let [kt, kh, kw] = work.kernel;
    let mut sum = 0.0;
    for (dt, dy, dx) in triples(kt, kh, kw) {
        let row = (y * work.stride[1] + dy).wrapping_sub(work.padding.top);
        let column = (x * work.stride[2] + dx).wrapping_sub(work.padding.left);
        let inside = row < work.h_in && column < work.w_in;
        let frame = t * work.stride[0] + dt;
        for i in 0..work.cin {
            // Zeros around the frame are multiplied too: not a number times zero is not a number.
            let value = if inside { seen([frame, row, column, i]) } else { 0.0 };
            sum += value * f64::from(kernel[(((o * work.cin + i) * kt + dt) * kh + dy) * kw + dx]);
        }
    }
    sum
}

/// What queries see: tokens of `heads * width` channels, each head on its own.
fn seen_by([q, k, v]: [&[f32]; 3], [heads, width]: [usize; 2], scale: f32, dtype: DType) -> Vec<f64> {
    let c = heads * width;
    let mut out = vec![0.0; q.len()];
    let at = |all: &[f32], token: usize, head: usize| -> Vec<f64> {
        let start = token * c + head * width;
        all[start..start + width].iter().map(|v| f64::from(*v)).collect()
    };
    for (i, head) in (0..q.len() / c).flat_map(|i| (0..heads).map(move |h| (i, h))) {
        let query = at(q, i, head);
        let dot = |j| at(k, j, head).iter().zip(&query).map(|(a, b)| a * b).sum::<f64>();
        let scores: Vec<f64> = (0..k.len() / c).map(|j| dot(j) * f64::from(scale)).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (j, weight) in weights.iter().enumerate() {
            // The weights are an operand of the second product: rounded as if they had been stored.
            let weight = f64::from(dtype.round(*weight as f32)) / total;
            for (x, value) in at(v, j, head).iter().enumerate() {
                out[i * c + head * width + x] += weight * value;
            }
        }
    }
    out
}

/// All triples below the three bounds, last one fastest.
fn triples(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

impl Ops for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn arena(&self) -> &Arena {
        self.host.arena()
    }

    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        ReferenceSizing.weight_bytes(spec)
    }

    /// Takes the place in the arena; the values are read again at each use.
    fn load(&mut self, weight: &Weight) -> Result<()> {
        if !weight.is_resident(self.arena()) {
            let buffer = match self.ahead.take(weight) {
                Some(buffer) => buffer,
                None => self.arena().alloc(self.weight_bytes(&weight.spec()))?,
            };
            weight.keep(buffer, self.arena());
        }
        Ok(())
    }

    /// As `load`: there is nothing to read yet.
    fn prefetch(&mut self, weight: &Weight) -> Result<()> {
        if !weight.is_resident(self.arena()) && !self.ahead.contains(weight) {
            let buffer = self.arena().alloc(self.weight_bytes(&weight.spec()))?;
            self.ahead.push(weight, buffer);
        }
        Ok(())
    }

    fn evict(&mut self, weight: &Weight) {
        self.ahead.take(weight);
        weight.forget(self.arena());
    }

    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<()> {
        self.host.write_all("upload", &to, from)
    }

    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<()> {
        self.host.read_all("download", &from, to)
    }

    fn fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: View<'_>) -> Result<()> {
        self.host.fetch(from, at, &to)
    }

    fn stow(&mut self, from: View<'_>, to: &mut dyn TensorStore, at: Extent) -> Result<()> {
        self.wait()?;
        self.host.stow(&from, to, at)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn first_spoiled(&mut self) -> Result<Option<String>> {
        Ok(self.spoiled.take())
    }

    checked_ops!(but copy);

    fn copy(&mut self, from: View<'_>, to: View<'_>) -> Result<()> {
        same_shape("copy", "output", &to, &from)?;
        let values = self.read("copy", &from)?.values;
        self.host.write_all("copy", &to, &values)
    }
}

impl Reference {
    fn conv_now(&mut self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<()> {
        const OP: &str = "conv";
        let mut input = self.read(OP, &d.input)?;
        if let Some(p) = &d.prologue {
            let stats = self.read(OP, &p.stats)?;
            input = self.normalized(input, &stats, p.affine, p.silu, work.dtype)?;
        }
        let carried = d.carried.as_ref().map(|v| self.read(OP, v)).transpose()?;
        let residual = d.accumulate.then(|| self.read(OP, &d.output)).transpose()?;
        let shortcut = match &d.shortcut {
            Some(s) => Some((self.read(OP, &s.input)?, self.weight(s.weight)?)),
            None => None,
        };
        let (kernel, bias) = self.weight(d.weight)?;
        let seen = |[frame, y, x, c]: [usize; 4]| match (frame.checked_sub(work.prefix), &carried) {
            (Some(frame), _) => input.at(frame, y, x, c),
            (None, Some(tail)) => tail.at(frame, y, x, c),
            (None, None) => input.at(0, y, x, c),
        };

        let mut out = Vec::with_capacity(d.output.shape().len());
        for t in 0..work.t_out {
            for (y, x, o) in triples(work.rows.len(), work.w_out, work.cout) {
                let y = work.rows.start + y;
                let mut sum = conv_at(work, &kernel, &seen, [t, y, x, o]) + f64::from(bias[o]);
                if let Some((from, (matrix, bias))) = &shortcut {
                    let c = from.shape.c;
                    let products = (0..c).map(|i| from.at(t, y, x, i) * f64::from(matrix[o * c + i]));
                    sum += products.sum::<f64>() + f64::from(bias[o]);
                }
                if let Some(residual) = &residual {
                    sum += residual.at(t, y, x, o);
                }
                if let Some(slope) = bias.get(work.cout + o) {
                    let part = |outside: bool| if outside { 0.0 } else { sum };
                    sum = part(sum < 0.0) + f64::from(*slope) * part(sum > 0.0);
                }
                out.push(sum as f32);
            }
        }
        self.host.write_all(OP, &d.output, &out)?;
        let first = work.prefix + work.t_in - work.tail;
        self.write_tail(OP, &d.carry, |[t, y, x, c]| seen([first + t, y, x, c]))?;
        self.write_sums(&d.sums, &d.output)
    }

    fn upsample_now(&mut self, d: &UpsampleDesc<'_>, work: &UpsampleWork) -> Result<()> {
        const OP: &str = "upsample";
        let input = self.read(OP, &d.input)?;
        let carried = d.carried.as_ref().map(|v| self.read(OP, v)).transpose()?;
        let (kernel, bias) = self.weight(d.weight)?;
        let z = if work.time { 2 } else { 1 };
        let (cin, mid) = (work.cin, work.cout);
        let mut matrix = vec![0.0; 4 * z * mid * cin];
        let mut upscale_bias = vec![0.0; 4 * z * mid];
        d.weight.read_upscale(WeightPart::Main, 0, &mut matrix)?;
        d.weight.read_upscale(WeightPart::Bias, 0, &mut upscale_bias)?;
        // A coarse frame by its number in this slice, from -tail on.
        let coarse = |frame: isize, y: usize, x: usize, c: usize| match (&carried, frame) {
            (_, 0..) => input.at(frame as usize, y, x, c),
            (Some(tail), _) => tail.at((frame + work.tail as isize) as usize, y, x, c),
            (None, _) => input.at(0, y, x, c),
        };
        // One value of the fine frames in between, `frame` counted from the first fine frame of this slice.
        let fine = |frame: isize, y: usize, x: usize, m: usize| -> f64 {
            let (frame, phase) = match (work.time, work.continued) {
                (false, _) => (frame, 0),
                // The first coarse frame of a clip has one fine frame, and copies of it stand before.
                (true, true) if work.second && frame < 0 => (-1, 0),
                (true, true) => (frame.div_euclid(2), frame.rem_euclid(2) as usize),
                (true, false) if frame <= 0 => (0, 0),
                (true, false) => ((frame + 1) / 2, ((frame + 1) % 2) as usize),
            };
            let channel = ((y % 2 * 2 + x % 2) * z + phase) * mid + m;
            let row = &matrix[channel * cin..(channel + 1) * cin];
            let products =
                row.iter().enumerate().map(|(c, w)| coarse(frame, y / 2, x / 2, c) * f64::from(*w));
            products.sum::<f64>() + f64::from(upscale_bias[channel])
        };
        let (rows, columns) = (2 * work.h, 2 * work.w);
        let mut out = Vec::with_capacity(d.output.shape().len());
        for t in 0..work.t_out {
            for (y, x) in work.rows.clone().flat_map(|y| (0..columns).map(move |x| (y, x))) {
                let mut sums: Vec<f64> = bias.iter().map(|b| f64::from(*b)).collect();
                for (dt, dy, dx) in triples(3, 3, 3) {
                    let (y, x) = ((y + dy).wrapping_sub(1), (x + dx).wrapping_sub(1));
                    let inside = y < rows && x < columns;
                    for m in 0..mid {
                        let value = if inside { fine((t + dt) as isize - 2, y, x, m) } else { 0.0 };
                        for (o, sum) in sums.iter_mut().enumerate() {
                            *sum += value * f64::from(kernel[((o * mid + m) * 9 + dt * 3 + dy) * 3 + dx]);
                        }
                    }
                }
                out.extend(sums.iter().map(|s| *s as f32));
            }
        }
        self.host.write_all(OP, &d.output, &out)?;
        let first = work.t_in as isize - work.tail as isize;
        self.write_tail(OP, &d.carry, |[t, y, x, c]| coarse(first + t as isize, y, x, c))?;
        self.write_sums(&d.sums, &d.output)
    }

    fn row_sums_now(&mut self, d: &RowSumsDesc<'_>) -> Result<()> {
        let x = self.read("row_sums", &d.input)?;
        let Shape { w, c, .. } = x.shape;
        let wide = c / d.groups;
        let mut out = Vec::with_capacity(d.output.shape().len());
        for row in x.values.chunks_exact(w * c) {
            for g in 0..d.groups {
                let group = |p: &[f32]| p[g * wide..(g + 1) * wide].to_vec();
                let values: Vec<f64> = row.chunks_exact(c).flat_map(group).map(f64::from).collect();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                out.push(mean as f32);
                out.push(values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() as f32);
            }
        }
        self.host.write_all("row_sums", &d.output, &out)
    }

    fn combine_now(&mut self, d: &CombineDesc<'_>) -> Result<()> {
        let sums = self.read("combine_sums", &d.sums)?;
        let Shape { t, h, c, .. } = sums.shape;
        let mut out = Vec::with_capacity(t * c);
        for (frame, pair) in (0..t).flat_map(|t| (0..c / 2).map(move |g| (t, 2 * g))) {
            let rows: Vec<(f64, f64)> =
                (0..h).map(|y| (sums.at(frame, y, 0, pair), sums.at(frame, y, 0, pair + 1))).collect();
            let mean = rows.iter().map(|r| r.0).sum::<f64>() / h as f64;
            let squares = rows.iter().map(|r| r.1 + d.count as f64 * (r.0 - mean).powi(2)).sum::<f64>();
            let variance = squares / (d.count * h) as f64;
            out.push(mean as f32);
            out.push((1.0 / (variance + f64::from(d.eps)).sqrt()) as f32);
        }
        if self.spoiled.is_none() && out.iter().any(|v| !v.is_finite()) {
            self.spoiled = Some(d.name.to_owned());
        }
        self.host.write_all("combine_sums", &d.output, &out)
    }

    fn normalize_now(&mut self, d: &NormalizeDesc<'_>) -> Result<()> {
        let (x, stats) = (self.read("normalize", &d.input)?, self.read("normalize", &d.stats)?);
        let y = self.normalized(x, &stats, d.affine, d.silu, d.output.dtype())?;
        self.host.write_all("normalize", &d.output, &y.values)
    }

    fn linear_now(&mut self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<()> {
        let x = self.read("linear", &d.input)?;
        let residual = d.accumulate.then(|| self.read("linear", &d.output)).transpose()?;
        let (matrix, bias) = self.weight(d.weight)?;
        let mut out = Vec::with_capacity(d.output.shape().len());
        for pixel in x.values.chunks_exact(work.cin) {
            for o in 0..work.cout {
                let row = &matrix[o * work.cin..(o + 1) * work.cin];
                let sum: f64 = pixel.iter().zip(row).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                let extra = residual.as_ref().map_or(0.0, |r| f64::from(r.values[out.len()]));
                out.push((sum + f64::from(bias[o]) + extra) as f32);
            }
        }
        self.host.write_all("linear", &d.output, &out)?;
        self.write_sums(&d.sums, &d.output)
    }

    fn attention_now(&mut self, d: &AttentionDesc<'_>, work: &AttentionWork) -> Result<()> {
        const OP: &str = "attention";
        let (q, k, v) = (self.read(OP, &d.q)?, self.read(OP, &d.k)?, self.read(OP, &d.v)?);
        let c = work.heads * work.width;
        let (queries, keys) = (work.rows.len() * work.w * c, work.h * work.w * c);
        let mut out = Vec::with_capacity(d.output.shape().len());
        for t in 0..work.t {
            let [k, v] = [&k, &v].map(|grid| &grid.values[t * keys..(t + 1) * keys]);
            let q = &q.values[t * queries..(t + 1) * queries];
            let seen = seen_by([q, k, v], [work.heads, work.width], d.scale, work.dtype);
            out.extend(seen.iter().map(|v| *v as f32));
        }
        self.host.write_all(OP, &d.output, &out)
    }

    fn shuffle_now(&mut self, d: &ShuffleDesc<'_>) -> Result<()> {
        let input = self.read("shuffle", &d.input)?;
        let output = d.output.shape();
        let [fz, fy, fx] = d.factors;
        let mut out = Vec::with_capacity(output.len());
        for frame in 0..output.t {
            let frame = if d.drop_second && frame > 0 { frame + 1 } else { frame };
            for (y, x, c) in triples(output.h, output.w, output.c) {
                let channel = ((y % fy * fx + x % fx) * fz + frame % fz) * output.c + c;
                out.push(input.at(frame / fz, input.first_row + y / fy, x / fx, channel) as f32);
            }
        }
        self.host.write_all("shuffle", &d.output, &out)
    }
}
