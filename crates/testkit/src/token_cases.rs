//! Random calls of the ops on tokens, in any format, on odd sizes and at the widths of the real networks.

use std::ops::Range;
use std::sync::Arc;

use remaster_compute::{
    ActivateDesc, Activation, AddGatedDesc, CommonQueries, ComputeError, DType, Ops, Rotation, Shape,
    SourceError, Tensor, TokenNormDesc, Weight, WeightPart, WeightSource, WeightSpec, Window,
    WindowAttentionDesc, WindowsDesc,
};

use crate::Rng;
use crate::op_cases::tolerance;

/// One call: which op, of which sizes, on which values.
#[derive(Clone, Copy, Debug)]
pub struct TokenCase {
    /// Decides everything that is random.
    pub seed: u64,
    /// Which op.
    pub op: TokenOp,
    /// Format of the operands.
    pub dtype: DType,
    /// Format of a residual, or of what a norm makes.
    pub other: DType,
    /// Heads.
    pub heads: usize,
    /// Channels of a head.
    pub width: usize,
    /// Tokens.
    pub tokens: usize,
    /// Put in a place of one operand, which is named by the order in which they are made.
    pub poison: Option<(usize, f32)>,
}

/// The ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOp {
    /// RMS norm with scale and shift, no rotation.
    Norm,
    /// RMS norm of heads with rotation.
    Rotate,
    /// SwiGLU's function and product.
    Silu,
    /// GELU.
    Gelu,
    /// Gated sum.
    Add,
    /// Grid to windows and back.
    Windows,
    /// Attention in windows, with common tokens that ask and some that do not.
    Attention {
        /// Whether the common tokens ask.
        asked: bool,
    },
}

const OPS: [TokenOp; 8] = [
    TokenOp::Norm,
    TokenOp::Rotate,
    TokenOp::Silu,
    TokenOp::Gelu,
    TokenOp::Add,
    TokenOp::Windows,
    TokenOp::Attention { asked: true },
    TokenOp::Attention { asked: false },
];

impl TokenCase {
    /// A case from a seed.
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x70c3);
        let dtypes = [DType::F32, DType::Bf16, DType::F16];
        let dtype = dtypes[rng.below(3)];
        let other = if rng.one_in(2) { dtype } else { DType::F32 };
        let op = OPS[(seed % 8) as usize];
        let (heads, width) = (1 + rng.below(4), [6, 8, 20, 32, 50, 128][rng.below(6)]);
        TokenCase { seed, op, dtype, other, heads, width, tokens: 1 + rng.below(150), poison: None }
    }

    /// A case from a seed, once for each operand with a value in it that is not finite.
    pub fn poisoned(seed: u64) -> impl Iterator<Item = Self> {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        let case = TokenCase::random(seed);
        let operands = match case.op {
            TokenOp::Attention { .. } => 8,
            TokenOp::Norm | TokenOp::Rotate => 4,
            _ => 3,
        };
        (0..operands).map(move |n| TokenCase { poison: Some((n, values[(seed as usize + n) % 3])), ..case })
    }

    /// The case with heads that matrix units take, if it is attention.
    pub fn for_units(self) -> Option<Self> {
        let width = self.width.next_multiple_of(8);
        let takes = matches!(self.op, TokenOp::Attention { .. });
        takes.then_some(TokenCase { dtype: DType::F16, width, ..self })
    }

    /// The widths of the real networks, each op once per format.
    pub fn wide() -> Vec<Self> {
        let dtypes = [DType::F32, DType::Bf16, DType::F16];
        let all = OPS.iter().flat_map(|op| dtypes.iter().map(move |dtype| (*op, *dtype)));
        let case = |(i, (op, dtype)): (usize, (TokenOp, DType))| {
            let (seed, other, heads) = (900 + i as u64, DType::F32, 20 + 4 * (i % 2));
            TokenCase { seed, op, dtype, other, heads, width: 128, tokens: 130, poison: None }
        };
        all.enumerate().map(case).collect()
    }
}

/// Values by their place around a centre, and the first one's own value.
struct Noise(u64, f32, Option<f32>);

impl WeightSource for Noise {
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        let all = Rng::new(self.0 + u64::from(part == WeightPart::Bias)).values(start + out.len());
        out.iter_mut().zip(&all[start..]).for_each(|(o, v)| *o = self.1 + 0.5 * v);
        if let (0, Some(first), Some(bad)) = (start, out.first_mut(), self.2) {
            *first = bad;
        }
        Ok(())
    }
}

struct Run<'a> {
    ops: &'a mut dyn Ops,
    rng: Rng,
    poison: Option<(usize, f32)>,
}

impl Run<'_> {
    fn tensor(&mut self, shape: Shape, dtype: DType) -> Result<Tensor, ComputeError> {
        let mut values = self.rng.values(shape.len());
        self.spoil(&mut values);
        self.filled(shape, dtype, &values)
    }

    /// The bad value of the next operand, if there is one.
    fn bad(&mut self) -> Option<f32> {
        let (left, value) = self.poison?;
        self.poison = left.checked_sub(1).map(|left| (left, value));
        (left == 0).then_some(value)
    }

    fn spoil(&mut self, values: &mut [f32]) {
        if let (Some(bad), false) = (self.bad(), values.is_empty()) {
            let place = values.len() * 5 / 8;
            values[place] = bad;
        }
    }

    fn filled(&mut self, shape: Shape, dtype: DType, values: &[f32]) -> Result<Tensor, ComputeError> {
        let tensor = self.ops.alloc(shape, dtype)?;
        self.ops.upload(values, tensor.view())?;
        Ok(tensor)
    }

    fn weight(&mut self, spec: WeightSpec, centre: f32) -> Result<Weight, ComputeError> {
        let noise = Noise(self.rng.bits() >> 8, centre, self.bad());
        let weight = Weight::new("case", spec, Arc::new(noise));
        self.ops.load(&weight)?;
        Ok(weight)
    }
}

/// Runs a case; with `cut` in as small pieces as the op allows.
pub fn run_tokens(ops: &mut dyn Ops, case: &TokenCase, cut: bool) -> Result<Vec<f32>, ComputeError> {
    let TokenCase { seed, op, dtype, other, heads, width, tokens, poison } = *case;
    let mut run = Run { ops, rng: Rng::new(seed), poison };
    let c = heads * width;
    let shape = Shape::new(1, tokens, 1, c);
    let pieces: Vec<Range<usize>> =
        if cut { (0..tokens).map(|i| i..i + 1).collect() } else { std::iter::once(0..tokens).collect() };
    match op {
        TokenOp::Norm | TokenOp::Rotate => {
            let (x, y) = (run.tensor(shape, dtype)?, run.tensor(shape, other)?);
            let turned = op == TokenOp::Rotate;
            let heads = if turned { heads } else { 1 };
            let spec = match turned {
                true => WeightSpec::Vector { len: width },
                false => WeightSpec::Norm { channels: c },
            };
            let affine = run.weight(spec, 1.0)?;
            let frequencies = width / 6;
            let angles = run.rng.values(7 * frequencies);
            let row = |angles: &[f32]| {
                let sines = angles.iter().map(|a| (9.0 * a).sin());
                angles.iter().map(|a| (9.0 * a).cos()).chain(sines).collect::<Vec<_>>()
            };
            let mut table: Vec<f32> = angles.chunks_exact(frequencies).flat_map(row).collect();
            run.spoil(&mut table);
            let table = run.filled(Shape::new(1, 7, 1, 2 * frequencies), DType::F32, &table)?;
            let places: Vec<f32> = (0..3 * tokens).map(|_| run.rng.below(7) as f32).collect();
            let places = run.filled(Shape::new(1, tokens, 1, 3), DType::F32, &places)?;
            for rows in pieces {
                let rotation = Rotation { table: table.view(), places: places.view().rows(rows.clone()) };
                let (input, output) = (x.view().rows(rows.clone()), y.view().rows(rows));
                let (affine, rotation) = ((seed % 16 < 12).then_some(&affine), turned.then_some(rotation));
                run.ops.token_norm(&TokenNormDesc { input, heads, eps: 1e-5, affine, rotation, output })?;
            }
            run.ops.values(y.view())
        }
        TokenOp::Silu | TokenOp::Gelu => {
            let (x, times) = (run.tensor(shape, dtype)?, run.tensor(shape, dtype)?);
            let function = if op == TokenOp::Silu { Activation::Silu } else { Activation::GeluTanh };
            for rows in pieces {
                let times = (seed % 16 < 10).then(|| times.view().rows(rows.clone()));
                run.ops.activate(&ActivateDesc { x: x.view().rows(rows), function, times })?;
            }
            run.ops.values(x.view())
        }
        TokenOp::Add => {
            let (x, sum) = (run.tensor(shape, dtype)?, run.tensor(shape, other)?);
            let gate = run.weight(WeightSpec::Vector { len: c }, 0.0)?;
            for rows in pieces {
                let gate = (seed % 16 < 12).then_some(&gate);
                let (input, residual) = (x.view().rows(rows.clone()), sum.view().rows(rows));
                run.ops.add_gated(&AddGatedDesc { input, gate, residual })?;
            }
            run.ops.values(sum.view())
        }
        TokenOp::Windows => {
            let [t, h, w] = [1 + run.rng.below(4), 1 + run.rng.below(6), 1 + run.rng.below(7)];
            let (grid, back) = {
                let shape = Shape::new(t, h * w, 1, c);
                (run.tensor(shape, dtype)?, run.tensor(shape, dtype)?)
            };
            let windows = windows_of(&mut run.rng, [t, h, w]);
            let groups: Vec<&[Window]> = if cut { windows.chunks(1).collect() } else { vec![&windows] };
            let mut all = Vec::new();
            for windows in groups {
                let n = windows.iter().map(Window::tokens).sum();
                let tokens = run.tensor(Shape::new(1, n, 1, c), dtype)?;
                let desc = |grid| WindowsDesc { grid, width: w, windows, tokens: tokens.view() };
                run.ops.gather(&desc(grid.view()))?;
                run.ops.scatter(&desc(back.view()))?;
                all.extend(run.ops.values(tokens.view())?);
            }
            all.extend(run.ops.values(back.view())?);
            Ok(all)
        }
        TokenOp::Attention { asked } => attention(&mut run, case, asked, cut),
    }
}

/// Attention in windows, with common queries if they are `asked` for.
fn attention(run: &mut Run<'_>, case: &TokenCase, asked: bool, cut: bool) -> Result<Vec<f32>, ComputeError> {
    let TokenCase { dtype, heads, width, tokens, .. } = *case;
    let c = heads * width;
    let shape = Shape::new(1, tokens, 1, c);
    let [q, k, v] = [0; 3].map(|_| run.tensor(shape, dtype));
    let (q, k, v, y) = (q?, k?, v?, run.tensor(shape, dtype)?);
    let common = Shape::new(1, 1 + run.rng.below(70), 1, c);
    let [cq, ck, cv] = [0; 3].map(|_| run.tensor(common, dtype));
    let (cq, ck, cv) = (cq?, ck?, cv?);
    let sum = run.tensor(common, DType::F32)?;
    let mut windows = Vec::new();
    while windows.iter().sum::<usize>() < tokens {
        let left = tokens - windows.iter().sum::<usize>();
        windows.push((1 + run.rng.below(120)).min(left));
    }
    let share = 1.0 / windows.len() as f32;
    let groups: Vec<&[usize]> = if cut { windows.chunks(1).collect() } else { vec![&windows] };
    let mut first = 0;
    for windows in groups {
        let rows = first..first + windows.iter().sum::<usize>();
        let common = CommonQueries { q: cq.view(), share, accumulate: first > 0, output: sum.view() };
        run.ops.window_attention(&WindowAttentionDesc {
            q: q.view().rows(rows.clone()),
            k: k.view().rows(rows.clone()),
            v: v.view().rows(rows.clone()),
            windows,
            common_k: ck.view(),
            common_v: cv.view(),
            common: asked.then_some(common),
            heads,
            scale: 2.0 / (width as f32).sqrt(),
            output: y.view().rows(rows.clone()),
        })?;
        first = rows.end;
    }
    let mut all = run.ops.values(y.view())?;
    if asked {
        all.extend(run.ops.values(sum.view())?);
    }
    Ok(all)
}

/// Windows that cover a grid, in the order of the grid.
fn windows_of(rng: &mut Rng, size: [usize; 3]) -> Vec<Window> {
    let mut cuts = |n: usize| -> Vec<Range<usize>> {
        let mut cuts = Vec::new();
        let mut at = 0;
        while at < n {
            let end = (at + 1 + rng.below(3)).min(n);
            cuts.push(at..end);
            at = end;
        }
        cuts
    };
    let [frames, rows, columns] = size.map(&mut cuts);
    let mut windows = Vec::new();
    for frames in &frames {
        for rows in &rows {
            for columns in &columns {
                windows.push(Window { frames: frames.clone(), rows: rows.clone(), columns: columns.clone() });
            }
        }
    }
    windows
}

/// The largest difference of two results, in units of what rounding to the format explains.
pub fn token_distance(case: &TokenCase, a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "{case:?}");
    let tolerance = tolerance(case.dtype);
    crate::largest(a.iter().zip(b).map(|(a, b)| (a - b).abs() / (tolerance * b.abs().max(1.0))))
}

/// Panics unless values that are not finite are exactly where the twin has them. Returns how many there are.
pub fn same_token_holes(case: &TokenCase, ours: &[f32], twin: &[f32]) -> usize {
    assert_eq!(ours.len(), twin.len(), "{case:?}");
    for (i, (a, b)) in ours.iter().zip(twin).enumerate() {
        assert_eq!(a.is_finite(), b.is_finite(), "{case:?}: value {i} is {a}, in the twin {b}");
    }
    twin.iter().filter(|v| !v.is_finite()).count()
}
