//! Lays weights out for the kernels: a matrix per tap, both sides padded to multiples of four, then the rows of the bias in
//! f32, then the lists of taps.

use crate::cpu::conv::pack::{fold, fold_bias, folds, read_kernel, transform_kernel};
use crate::cpu::conv::program::{Kind, upsampled_phases};
use crate::dtype::{DType, encode};
use crate::error::{Result, ensure};
use crate::weight::{Weight, WeightPart, WeightSpec};

/// How matrices of a weight lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// `[input channels, output channels]`.
    Rows,
    /// `[output channels, input channels]`, as matrix units take them.
    Columns,
    /// Rows of transformed kernels.
    Transformed,
}

/// Where the parts of a weight lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    order: Order,
    pub(super) dtype: DType,
    pub(super) cin: usize,
    pub(super) cout: usize,
    matrices: usize,
    /// Rows of the bias.
    biases: usize,
    /// Lists of taps, and words in each: the number of taps, then one word per tap.
    lists: usize,
    pub(super) list: usize,
}

pub(super) fn up4(n: usize) -> usize {
    n.next_multiple_of(4)
}

impl Layout {
    /// The layout of a product's weight; `None` for other weights.
    pub(super) fn new(spec: &WeightSpec, order: Order) -> Option<Self> {
        let (cin, cout, dtype) = spec.product()?;
        let rows = 1 + usize::from(spec.has_slopes());
        let (matrices, biases, lists, list) = match *spec {
            WeightSpec::Conv { kernel: [kt, ..], .. } if order == Order::Transformed => (16 * kt, rows, 0, 0),
            WeightSpec::Conv { kernel: [kt, kh, kw], .. } => (kt * kh * kw, rows, 1, 1 + kt * kh * kw),
            WeightSpec::Upsample { time: true, .. } => (112, 80, 20, 9),
            WeightSpec::Upsample { .. } => (48, 16, 4, 13),
            _ => (1, 1, 1, 2),
        };
        Some(Layout { order, dtype, cin, cout, matrices, biases, lists, list })
    }

    fn matrix_len(&self) -> usize {
        up4(self.cin) * up4(self.cout)
    }

    /// First byte of the bias.
    pub(super) fn bias(&self) -> usize {
        self.matrices * self.matrix_len() * self.dtype.bytes()
    }

    /// First byte of the lists.
    pub(super) fn table(&self) -> usize {
        self.bias() + self.biases * up4(self.cout) * 4
    }

    pub(super) fn bytes(&self) -> usize {
        self.table() + self.lists * self.list * 4
    }
}

/// Bytes of a weight.
pub(super) fn bytes(spec: &WeightSpec, order: Order) -> u64 {
    let plain = 4 * (up4(spec.main_len()) + up4(spec.bias_len()));
    Layout::new(spec, order).map_or(plain, |layout| layout.bytes()) as u64
}

/// Packs a tap into one word. 63 frames back and a kernel of 63 by 63 exceed any network.
fn word(back: usize, dy: usize, dx: usize, matrix: usize) -> u32 {
    (back | dy << 6 | dx << 12 | matrix << 18) as u32
}

/// Reads a weight and lays it out.
pub(super) fn pack(weight: &Weight, order: Order) -> Result<Vec<u8>> {
    let spec = weight.spec();
    let transformed = order == Order::Transformed;
    let Some(layout) = Layout::new(&spec, order) else { return plain(weight) };
    let mut packed = Packed { layout, bytes: vec![0; layout.bytes()] };
    match spec {
        WeightSpec::Conv { kernel: [kt, ..], .. } if transformed => winograd(weight, kt, &mut packed)?,
        WeightSpec::Conv { kernel, .. } => conv(weight, kernel, &mut packed)?,
        WeightSpec::Upsample { time, .. } => upsample(weight, time, &mut packed)?,
        _ => conv(weight, [1; 3], &mut packed)?,
    }
    Ok(packed.bytes)
}

/// Scale, then shift; or one vector.
fn plain(weight: &Weight) -> Result<Vec<u8>> {
    let (len, bias) = (weight.spec().main_len(), weight.spec().bias_len());
    let mut values = vec![0.0; up4(len) + up4(bias)];
    let (scale, shift) = values.split_at_mut(up4(len));
    weight.read(WeightPart::Main, 0, &mut scale[..len])?;
    weight.read(WeightPart::Bias, 0, &mut shift[..bias])?;
    Ok(values.iter().flat_map(|v| v.to_le_bytes()).collect())
}

struct Packed {
    layout: Layout,
    bytes: Vec<u8>,
}

impl Packed {
    /// Sets weights of input channel `i` for output channels from `first` on.
    fn put(&mut self, matrix: usize, i: usize, first: usize, values: &[f32]) {
        let Layout { order, dtype, cin, cout, .. } = self.layout;
        let (matrix, size) = (matrix * self.layout.matrix_len(), dtype.bytes());
        if order == Order::Columns {
            for (o, value) in (first..).zip(values) {
                let start = (matrix + o * up4(cin) + i) * size;
                encode(dtype, std::slice::from_ref(value), &mut self.bytes[start..start + size]);
            }
            return;
        }
        let start = (matrix + i * up4(cout) + first) * size;
        encode(dtype, values, &mut self.bytes[start..start + values.len() * size]);
    }

    fn bias(&mut self, row: usize, values: &[f32]) {
        let start = self.layout.bias() + row * up4(self.layout.cout) * 4;
        encode(DType::F32, values, &mut self.bytes[start..start + values.len() * 4]);
    }

    fn read_bias(&mut self, weight: &Weight) -> Result<()> {
        let Layout { cout, biases, .. } = self.layout;
        let mut bias = vec![0.0; cout];
        for row in 0..biases {
            weight.read(WeightPart::Bias, row * cout, &mut bias)?;
            self.bias(row, &bias);
        }
        Ok(())
    }

    fn list(&mut self, list: usize, taps: &[u32]) {
        let start = self.layout.table() + list * self.layout.list * 4;
        let words = std::iter::once(taps.len() as u32).chain(taps.iter().copied());
        for (to, word) in self.bytes[start..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Output channels read at a time. A row of a matrix gathers its columns from that many places.
const CHUNK: usize = 64;

fn conv(weight: &Weight, [kt, kh, kw]: [usize; 3], packed: &mut Packed) -> Result<()> {
    let Layout { cin, cout, .. } = packed.layout;
    let taps = kt * kh * kw;
    let small = kt < 64 && kh < 64 && kw < 64 && taps < 1 << 14;
    ensure(small, "load", "kernel", format!("{:?}", [kt, kh, kw]), "less than 64 on each axis")?;
    let mut chunk = vec![0.0; CHUNK.min(cout) * cin * taps];
    let mut line = vec![0.0; CHUNK];
    for first in (0..cout).step_by(CHUNK) {
        let n = CHUNK.min(cout - first);
        let chunk = &mut chunk[..n * cin * taps];
        weight.read(WeightPart::Main, first * cin * taps, chunk)?;
        for (tap, i) in (0..taps).flat_map(|t| (0..cin).map(move |i| (t, i))) {
            for (o, value) in line[..n].iter_mut().enumerate() {
                *value = chunk[(o * cin + i) * taps + tap];
            }
            packed.put(tap, i, first, &line[..n]);
        }
    }
    packed.read_bias(weight)?;
    let list: Vec<u32> = (0..taps).map(|m| word(kt - 1 - m / (kh * kw), m / kw % kh, m % kw, m)).collect();
    packed.list(0, &list);
    Ok(())
}

/// Transforms the 3x3 kernel of every tap in time, as on the CPU.
fn winograd(weight: &Weight, kt: usize, packed: &mut Packed) -> Result<()> {
    let Layout { cin, cout, .. } = packed.layout;
    let taps = 9 * kt;
    let mut line = vec![0.0; cin * taps];
    for o in 0..cout {
        weight.read(WeightPart::Main, o * cin * taps, &mut line)?;
        for (i, k) in (0..cin).flat_map(|i| (0..kt).map(move |k| (i, k))) {
            let kernel = std::array::from_fn(|n| line[i * taps + 9 * k + n]);
            for (place, value) in transform_kernel(kernel).into_iter().enumerate() {
                packed.put(k * 16 + place, i, o, &[value]);
            }
        }
    }
    packed.read_bias(weight)
}

/// Folds the three steps of an upsampler into one matrix per phase and tap.
fn upsample(weight: &Weight, time: bool, packed: &mut Packed) -> Result<()> {
    let Layout { cin, cout, .. } = packed.layout;
    let z = if time { 2 } else { 1 };
    let mut kernel = vec![0.0; 27 * cout * cout];
    read_kernel(weight, cout, &mut kernel)?;
    let mut matrix = vec![0.0; 4 * z * cout * cin];
    let mut matrix_bias = vec![0.0; 4 * z * cout];
    weight.read_upscale(WeightPart::Main, 0, &mut matrix)?;
    weight.read_upscale(WeightPart::Bias, 0, &mut matrix_bias)?;
    let jobs = folds(time, |s, y, x| ((y * 2 + x) * z + s) * cout);
    let (mut sums, mut turned) = (vec![0.0; cout * cin], vec![0.0; cout]);
    for (job, pairs) in jobs.iter().enumerate() {
        fold(pairs, [cin, cout], &kernel, &matrix, &mut sums);
        for i in 0..cin {
            turned.iter_mut().enumerate().for_each(|(o, v)| *v = sums[o * cin + i]);
            packed.put(job, i, 0, &turned);
        }
    }
    let mut bias = vec![0.0; packed.layout.biases * cout];
    fold_bias(weight, &Kind::all(time), [cout, z], &kernel, &matrix_bias, &mut bias)?;
    for (row, values) in bias.chunks_exact(cout).enumerate() {
        packed.bias(row, values);
    }
    for (kind, phases) in upsampled_phases(time).iter().enumerate() {
        for (n, phase) in phases.iter().enumerate() {
            let taps: Vec<u32> = phase.taps.iter().map(|t| word(t.back, t.dy, t.dx, t.matrix)).collect();
            packed.list(kind * 4 + n, &taps);
        }
    }
    Ok(())
}
