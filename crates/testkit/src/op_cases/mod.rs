//! Random op calls on odd sizes, and how to run one on a backend. The same case on two backends must
//! give the same numbers up to rounding; the same case cut into rows must give the same bits.

mod run;

use std::ops::Range;

use remaster_compute::{ComputeError, DType, Ops, Padding, Shape};

use crate::rng::Rng;
use run::Run;

/// One op with everything random about it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Also seeds the values.
    pub seed: u64,
    /// Storage format.
    pub dtype: DType,
    /// Which op.
    pub op: Op,
    /// One value that is not finite.
    pub poison: Option<Poison>,
}

/// One value in one operand of a case that is not finite.
#[derive(Clone, Copy, Debug)]
pub struct Poison {
    /// In a weight, or in a tensor.
    pub weight: bool,
    /// Which of them, in the order in which a case makes them; beyond the last one nothing happens.
    pub operand: usize,
    /// What is put there.
    pub value: f32,
}

/// The op of a case.
#[derive(Clone, Debug)]
pub enum Op {
    /// See `ConvCase`.
    Conv(ConvCase),
    /// Row sums, combination and normalisation of a frame.
    Norm {
        /// Of the input.
        shape: Shape,
        /// Of the channels.
        groups: usize,
        /// SiLU behind.
        silu: bool,
    },
    /// Linear layer.
    Linear {
        /// Of the input.
        shape: Shape,
        /// Output width.
        cout: usize,
        /// Added to a residual.
        accumulate: bool,
        /// With row sums for this many groups.
        groups: usize,
    },
    /// Attention.
    Attention {
        /// Of queries, keys and values.
        shape: Shape,
        /// Of the channels.
        heads: usize,
    },
    /// Shuffle.
    Shuffle {
        /// Of the output cell: input channels are this times the factors.
        shape: Shape,
        /// Time, rows, columns.
        factors: [usize; 3],
        /// Leave out output frame 1.
        drop_second: bool,
    },
    /// Upsampling.
    Upsample {
        /// Of the coarse frames.
        shape: Shape,
        /// Output channels.
        cout: usize,
        /// Time doubles.
        time: bool,
        /// A slice went before.
        continued: bool,
        /// It was the first frame of the clip alone.
        second: bool,
        /// A slice follows.
        carry: bool,
        /// Groups of row sums; 0 for none.
        groups: usize,
    },
    /// Copy with conversion.
    Copy {
        /// Of both sides.
        shape: Shape,
        /// Format of the target.
        to: DType,
    },
}

/// A convolution of a case.
#[derive(Clone, Debug)]
pub struct ConvCase {
    /// Of the input.
    pub input: Shape,
    /// Output channels.
    pub cout: usize,
    /// Taps.
    pub kernel: [usize; 3],
    /// Steps.
    pub stride: [usize; 3],
    /// Zeros around a frame.
    pub padding: Padding,
    /// A slice went before.
    pub continued: bool,
    /// A slice follows.
    pub carry: bool,
    /// Groups of the normalisation on the way in; 0 for none.
    pub prologue: usize,
    /// SiLU behind it.
    pub silu: bool,
    /// Added to a residual.
    pub accumulate: bool,
    /// Channels of a 1x1x1 shortcut; 0 for none.
    pub shortcut: usize,
    /// Groups of row sums; 0 for none.
    pub sums: usize,
    /// PReLU behind.
    pub slopes: bool,
}

impl ConvCase {
    /// Output shape.
    pub fn output(&self) -> Shape {
        let front = if self.continued { self.kernel[0] - self.stride[0] } else { self.kernel[0] - 1 };
        let Padding { top, bottom, left, right } = self.padding;
        let sizes = [self.input.t + front, self.input.h + top + bottom, self.input.w + left + right];
        let [t, h, w] = std::array::from_fn(|i| (sizes[i] - self.kernel[i]) / self.stride[i] + 1);
        Shape::new(t, h, w, self.cout)
    }
}

/// Channel counts: below, at and off every vector width.
const CHANNELS: [usize; 14] = [1, 2, 3, 4, 5, 8, 16, 17, 24, 32, 33, 48, 20, 44];

fn groups_of(rng: &mut Rng, channels: usize) -> usize {
    let fits: Vec<usize> = [1, 2, 4, 8, 16].into_iter().filter(|g| channels.is_multiple_of(*g)).collect();
    rng.pick(&fits)
}

impl Case {
    /// The case of a seed.
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let dtype = rng.pick(&[DType::F32, DType::F32, DType::Bf16, DType::F16]);
        let op = match rng.between(0, 11) {
            0..=4 => Op::Conv(random_conv(&mut rng)),
            5 => {
                let shape = random_shape(&mut rng);
                Op::Norm { shape, groups: groups_of(&mut rng, shape.c), silu: rng.one_in(2) }
            }
            6 => {
                let (shape, cout) = (random_shape(&mut rng), rng.pick(&CHANNELS));
                let groups = if rng.one_in(2) { groups_of(&mut rng, cout) } else { 0 };
                Op::Linear { shape, cout, accumulate: rng.one_in(2), groups }
            }
            7 => {
                let shape = random_shape(&mut rng);
                // Wide frames now and then: more than one block of keys.
                let shape = if rng.one_in(4) { Shape::new(1, 19, 15, 8) } else { shape };
                Op::Attention { shape, heads: groups_of(&mut rng, shape.c) }
            }
            8 => {
                let factors = [rng.between(1, 2), rng.between(1, 3), rng.between(1, 2)];
                let shape = random_shape(&mut rng);
                Op::Shuffle { shape, factors, drop_second: factors[0] > 1 && rng.one_in(2) }
            }
            9 | 10 => {
                let shape = Shape { h: rng.between(1, 6), w: rng.between(1, 7), ..random_shape(&mut rng) };
                let cout = rng.pick(&CHANNELS[..9]);
                let groups = if rng.one_in(2) { groups_of(&mut rng, cout) } else { 0 };
                let [time, continued, second, carry] = std::array::from_fn(|_| rng.one_in(2));
                Op::Upsample { shape, cout, time, continued, second, carry, groups }
            }
            _ => Op::Copy {
                shape: random_shape(&mut rng),
                to: rng.pick(&[DType::F32, DType::Bf16, DType::F16]),
            },
        };
        Case { seed, dtype, op, poison: None }
    }

    /// The case with channels that matrix units take: eight at a time in, four out.
    pub fn for_units(mut self) -> Self {
        let eights = |n: &mut usize| *n = n.next_multiple_of(8);
        let fitting = |groups: &mut usize, channels: usize| {
            while *groups > 0 && !channels.is_multiple_of(*groups) {
                *groups /= 2;
            }
        };
        match &mut self.op {
            Op::Conv(c) => {
                [&mut c.input.c, &mut c.cout, &mut c.shortcut].into_iter().for_each(eights);
                fitting(&mut c.prologue, c.input.c);
                fitting(&mut c.sums, c.cout);
            }
            Op::Linear { shape, cout, groups, .. } | Op::Upsample { shape, cout, groups, .. } => {
                eights(&mut shape.c);
                eights(cout);
                fitting(groups, *cout);
            }
            Op::Attention { shape, heads } => shape.c = shape.c.next_multiple_of(8 * *heads),
            Op::Norm { .. } | Op::Shuffle { .. } | Op::Copy { .. } => {}
        }
        self
    }

    /// Rows of the output frame.
    pub fn height(&self) -> usize {
        match &self.op {
            Op::Conv(c) => c.output().h,
            Op::Norm { shape, .. } | Op::Linear { shape, .. } => shape.h,
            Op::Attention { shape, .. } | Op::Copy { shape, .. } => shape.h,
            Op::Shuffle { shape, factors, .. } => shape.h * factors[1],
            Op::Upsample { shape, .. } => 2 * shape.h,
        }
    }

    /// A cut of the output rows into pieces this op can make one by one.
    pub fn cuts(&self) -> Vec<Range<usize>> {
        let mut rng = Rng::new(self.seed ^ 0xc075);
        let step = if let Op::Shuffle { factors, .. } = &self.op { factors[1] } else { 1 };
        let rows = self.height() / step;
        let mut cuts = Vec::new();
        let mut start = 0;
        while start < rows {
            let end = (start + rng.between(1, 3)).min(rows);
            cuts.push(start * step..end * step);
            start = end;
        }
        cuts
    }

    /// Runs the op for output rows `rows` and returns every output by name; values that must stay
    /// untouched are checked and not returned.
    pub fn run(&self, ops: &mut dyn Ops, rows: Range<usize>) -> Result<Vec<Output>, ComputeError> {
        let mut run = Run::new(ops, self);
        match &self.op {
            Op::Conv(case) => run.conv(case, rows)?,
            Op::Norm { shape, groups, silu } => run.norm(*shape, *groups, *silu, rows)?,
            Op::Linear { shape, cout, accumulate, groups } => {
                run.linear(*shape, *cout, *accumulate, *groups, rows)?
            }
            Op::Attention { shape, heads } => run.attention(*shape, *heads, rows)?,
            Op::Shuffle { shape, factors, drop_second } => {
                run.shuffle(*shape, *factors, *drop_second, rows)?
            }
            Op::Upsample { shape, cout, time, continued, second, carry, groups } => {
                run.upsample(*shape, *cout, *time, *continued, *second, *carry, *groups, rows)?;
            }
            Op::Copy { shape, to } => run.copy(*shape, *to, rows)?,
        }
        run.finish()
    }
}

fn random_shape(rng: &mut Rng) -> Shape {
    Shape::new(rng.between(1, 3), rng.between(1, 9), rng.between(1, 11), rng.pick(&CHANNELS))
}

fn random_conv(rng: &mut Rng) -> ConvCase {
    let kernel = rng.pick(&[[3, 3, 3], [3, 3, 3], [1, 3, 3], [1, 1, 1], [3, 1, 1], [1, 1, 3], [2, 2, 3]]);
    let stride: [usize; 3] = std::array::from_fn(|i| if kernel[i] > 1 && rng.one_in(4) { 2 } else { 1 });
    let mut pad = |k: usize| if k > 1 { rng.between(0, 1) } else { 0 };
    let padding =
        Padding { top: pad(kernel[1]), bottom: pad(kernel[1]), left: pad(kernel[2]), right: pad(kernel[2]) };
    // In front of a clip an odd number of frames makes whole steps of 2, later an even one.
    let continued = kernel[0] > stride[0] && rng.one_in(2);
    let t = match (stride[0], continued, kernel[0]) {
        (2, true, _) => 2 * rng.between(1, 2),
        (2, false, _) => 2 * rng.between(0, 2) + 1,
        _ => rng.between(1, 4),
    };
    // Wide frames now and then: more than one block of columns.
    let widest = if rng.one_in(8) { 70 } else { 13 };
    let tallest = if rng.one_in(8) { 40 } else { 12 };
    let input =
        Shape::new(t, rng.between(kernel[1], tallest), rng.between(kernel[2], widest), rng.pick(&CHANNELS));
    let cout = rng.pick(&CHANNELS);
    let extra = rng.between(0, 3);
    ConvCase {
        input,
        cout,
        kernel,
        stride,
        padding,
        continued,
        carry: kernel[0] > stride[0] && rng.one_in(2),
        prologue: if rng.one_in(2) { groups_of(rng, input.c) } else { 0 },
        silu: rng.one_in(2),
        accumulate: extra == 1,
        shortcut: if extra == 2 { rng.pick(&CHANNELS) } else { 0 },
        sums: if rng.one_in(2) { groups_of(rng, cout) } else { 0 },
        slopes: extra != 2 && rng.one_in(3),
    }
}

/// One output of a case.
#[derive(Clone, Debug)]
pub struct Output {
    /// Which one.
    pub name: &'static str,
    /// Values of the rows that were asked for, frame by frame.
    pub values: Vec<f32>,
    /// Values in one row of one frame.
    pub row: usize,
    /// Rows per frame.
    pub rows: usize,
    /// Largest difference between two right answers.
    pub tolerance: f32,
}

/// Runs all rows of a case.
#[expect(clippy::panic, reason = "a check for tests")]
pub fn whole(ops: &mut dyn Ops, case: &Case) -> Vec<Output> {
    case.run(ops, 0..case.height()).unwrap_or_else(|e| panic!("{case:?}: {e}"))
}

/// Panics unless the rows of a case are the same bits when they are made a few at a time.
#[expect(clippy::panic, reason = "a check for tests")]
pub fn rows_one_by_one(ops: &mut dyn Ops, case: &Case) {
    let all = whole(ops, case);
    for cut in case.cuts() {
        let part = case.run(ops, cut.clone()).unwrap_or_else(|e| panic!("{case:?} {cut:?}: {e}"));
        for (p, a) in part.iter().zip(&all).filter(|(p, _)| p.name == "output" || p.name == "sums") {
            let frame = a.rows * a.row;
            let expected = a.values.chunks_exact(frame.max(1));
            let expected: Vec<u32> = expected
                .flat_map(|f| f[cut.start * a.row..cut.end * a.row].iter().map(|v| v.to_bits()))
                .collect();
            let got: Vec<u32> = p.values.iter().map(|v| v.to_bits()).collect();
            assert_eq!(got, expected, "{case:?} rows {cut:?} {}", p.name);
        }
    }
}

/// Two right answers differ by rounding: of sums in f32, of an operand or a result that falls to the other side
/// in 16 bits. Measured over all CPU paths: 7e-6, 8e-3 and 9.6e-4; these are two to three times that.
pub(crate) fn tolerance(dtype: DType) -> f32 {
    match dtype {
        DType::F32 => 2e-5,
        DType::Bf16 => 0.02,
        DType::F16 => 0.0025,
    }
}

/// Bits of every output, so that -0 and 0 or two NaN differ.
pub fn bits(outputs: &[Output]) -> Vec<(&'static str, Vec<u32>)> {
    outputs.iter().map(|o| (o.name, o.values.iter().map(|v| v.to_bits()).collect())).collect()
}

/// Largest difference of two outputs in units of the tolerance: at most 1 if they agree. Values above 1
/// count relative to themselves, sums relative to the largest of them.
pub fn distance(a: &Output, b: &Output) -> f32 {
    assert_eq!(a.values.len(), b.values.len());
    let largest = b.values.iter().fold(1.0f32, |m, v| m.max(v.abs()));
    let scale = |v: f32| if a.name == "sums" { largest } else { v.abs().max(1.0) };
    crate::largest(a.values.iter().zip(&b.values).map(|(x, y)| (x - y).abs() / scale(*y) / a.tolerance))
}

/// Cases with the widths of the real network, few pixels each. Weights of 512 channels take another path through the
/// convolution than those that fit a cache.
pub fn wide() -> Vec<Case> {
    let conv = ConvCase {
        input: Shape::new(1, 5, 6, 512),
        cout: 512,
        kernel: [3; 3],
        stride: [1; 3],
        padding: Padding::all(1),
        continued: true,
        carry: true,
        prologue: 32,
        silu: true,
        accumulate: true,
        shortcut: 0,
        sums: 32,
        slopes: false,
    };
    let plain = ConvCase { accumulate: false, ..conv.clone() };
    let input = Shape::new(2, 4, 5, 256);
    let narrower = ConvCase { input, cout: 128, shortcut: 256, continued: false, ..plain.clone() };
    let (input, padding) = (Shape::new(1, 8, 9, 256), Padding { top: 0, bottom: 1, left: 0, right: 1 });
    let down = ConvCase { input, cout: 256, stride: [1, 2, 2], padding, prologue: 0, ..plain };
    let input = Shape::new(1, 17, 51, 64);
    let compact = ConvCase {
        input,
        cout: 64,
        kernel: [1, 3, 3],
        padding: Padding::all(1),
        stride: [1; 3],
        ..down.clone()
    };
    let compact = ConvCase { continued: false, carry: false, sums: 0, slopes: true, ..compact };
    let shuffled = ConvCase { cout: 48, shortcut: 3, slopes: false, ..compact.clone() };
    let input = Shape::new(2, 3, 50, 128);
    let flat = ConvCase { input, cout: 3, sums: 0, shortcut: 0, ..narrower.clone() };
    let upsample = |c, time| {
        let (shape, [continued, second, carry]) = (Shape::new(1, 2, 2, c), [true, false, true]);
        Op::Upsample { shape, cout: c, time, continued, second, carry, groups: 32 }
    };
    let ops = [
        Op::Conv(conv),
        Op::Conv(narrower),
        Op::Conv(down),
        Op::Conv(flat),
        Op::Conv(compact),
        Op::Conv(shuffled),
        upsample(256, false),
        upsample(128, true),
        Op::Norm { shape: Shape::new(2, 4, 5, 512), groups: 32, silu: true },
        Op::Linear { shape: Shape::new(1, 5, 7, 512), cout: 512, accumulate: true, groups: 32 },
        // More channels than are held at a time, and blocks of pixels that end in the midst of a frame.
        Op::Linear { shape: Shape::new(2, 3, 37, 3500), cout: 45, accumulate: true, groups: 5 },
        // Tokens in one row, several groups of output channels.
        Op::Linear { shape: Shape::new(1, 1, 210, 520), cout: 1100, accumulate: false, groups: 0 },
        Op::Attention { shape: Shape::new(1, 16, 17, 512), heads: 1 },
        Op::Attention { shape: Shape::new(1, 9, 15, 256), heads: 2 },
    ];
    let dtypes = [DType::F32, DType::Bf16, DType::F16];
    let cases = ops.into_iter().enumerate().flat_map(|(i, op)| {
        // f32 always, the other two in turn; linear layers keep their weights in each.
        let skipped = if let Op::Linear { .. } = op { None } else { Some(dtypes[2 - i % 2]) };
        dtypes.into_iter().filter(move |d| Some(*d) != skipped).map(move |dtype| (dtype, op.clone()))
    });
    let seeds = 70_000..;
    cases.zip(seeds).map(|((dtype, op), seed)| Case { seed, dtype, op, poison: None }).collect()
}

/// The cases of a seed with a bad value, in every operand in turn; in the last ones it is nowhere.
pub fn poisoned(seed: u64) -> impl Iterator<Item = Case> {
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    (0..7).map(move |n| {
        let (weight, operand) = if n < 4 { (false, n) } else { (true, n - 4) };
        let poison = Poison { weight, operand, value: values[(seed as usize + n) % 3] };
        Case { poison: Some(poison), ..Case::random(seed) }
    })
}

/// Panics unless values that are not finite are exactly where the twin has them. Returns how many there are.
pub fn same_holes(case: &Case, ours: &[Output], twin: &[Output]) -> usize {
    let mut count = 0;
    for (a, b) in ours.iter().zip(twin) {
        for (i, (x, y)) in a.values.iter().zip(&b.values).enumerate() {
            count += usize::from(!y.is_finite());
            let same = x.is_finite() == y.is_finite();
            assert!(same, "{case:?}\n{} {i} is {x}, in the twin {y}", a.name);
        }
    }
    count
}
