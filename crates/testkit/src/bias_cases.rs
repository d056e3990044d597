//! Layers without bias: on every backend they are layers whose bias is zero, to the bit.

use std::sync::Arc;

use remaster_compute::{
    ComputeError, ConvDesc, DType, LinearDesc, Ops, Padding, Shape, Shortcut, SourceError, Weight,
    WeightPart, WeightSource, WeightSpec,
};

use crate::op_cases::tolerance;
use crate::rng::{Noise, Rng};

/// The bias is zero, or is not there and must not be asked for.
struct Unbiased {
    noise: Noise,
    spelled: bool,
}

impl WeightSource for Unbiased {
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        match (part, self.spelled) {
            (WeightPart::Main, _) => self.noise.read(part, start, out),
            (WeightPart::Bias, true) => {
                out.fill(0.0);
                Ok(())
            }
            (WeightPart::Bias, false) => Err(SourceError("a bias that is not there was read".into())),
        }
    }

    fn has_bias(&self) -> bool {
        self.spelled
    }
}

/// What a convolution, one with a shortcut and a linear layer of odd sizes give with a bias of zeros or with none.
pub fn unbiased(ops: &mut dyn Ops, seed: u64, dtype: DType, spelled: bool) -> Result<Vec<f32>, ComputeError> {
    let mut rng = Rng::new(seed);
    let (cin, cout) = (rng.pick(&[1, 3, 8, 16, 33]), rng.pick(&[1, 5, 16, 24, 48]));
    let input = Shape::new(rng.between(1, 3), rng.between(3, 9), rng.between(3, 11), cin);
    let output = Shape { c: cout, ..input };
    let conv = |cin, k| WeightSpec::conv([cin, cout], k, dtype);
    let weight = |n: u64, spec: WeightSpec| {
        let fan_in = (spec.main_len() / cout) as f32;
        let noise = Noise { seed: seed ^ n << 32, scale: (3.0 / fan_in).sqrt(), centre: 0.0 };
        Weight::new("unbiased", spec, Arc::new(Unbiased { noise, spelled }))
    };
    let main = weight(1, conv(cin, [3; 3]));
    let point = weight(2, conv(cin, [1; 3]));
    let linear = weight(3, WeightSpec::Linear { cin, cout, dtype });
    [&main, &point, &linear].into_iter().try_for_each(|w| ops.load(w))?;

    let x = ops.alloc(input, dtype)?;
    ops.upload(&rng.values(input.len()), x.view())?;
    let mut all = Vec::new();
    for way in 0..3 {
        let y = ops.alloc(output, dtype)?;
        match way {
            2 => {
                let (input, weight, output) = (x.view(), &linear, y.view());
                ops.linear(&LinearDesc { input, weight, accumulate: false, sums: None, output })?;
            }
            _ => ops.conv(&ConvDesc {
                input: x.view(),
                prologue: None,
                carried: None,
                carry: None,
                weight: &main,
                padding: Padding::all(1),
                accumulate: false,
                shortcut: (way == 1).then(|| Shortcut { input: x.view(), weight: &point }),
                sums: None,
                output: y.view(),
            })?,
        }
        all.extend(ops.values(y.view())?);
    }
    Ok(all)
}

/// Layers without bias against the same with zeros, and against a slow twin; panics if they differ.
#[expect(clippy::panic, reason = "a check for tests")]
pub fn check_unbiased(ops: &mut dyn Ops, twin: &mut dyn Ops, seeds: std::ops::Range<u64>) {
    for (seed, dtype) in seeds.flat_map(|s| [DType::F32, DType::Bf16, DType::F16].map(|d| (s, d))) {
        let run = |ops: &mut dyn Ops, spelled| match unbiased(ops, seed, dtype, spelled) {
            Ok(values) => values,
            Err(error) => panic!("seed {seed} in {dtype}: {error}"),
        };
        let (none, zeros, slow) = (run(ops, false), run(ops, true), run(twin, false));
        assert!(none.iter().zip(&zeros).all(|(a, b)| a.to_bits() == b.to_bits()), "seed {seed} in {dtype}");
        // Twice what the op suite allows for one op: sums of up to 891 products, and of a shortcut.
        let tolerance = 2.0 * tolerance(dtype);
        let far = crate::largest(none.iter().zip(&slow).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)));
        assert!(far <= tolerance, "seed {seed} in {dtype}: {far} from the twin");
    }
}
