//! How fast a card could be at best, by instructions and by bytes. Caches, latencies and clocks under load are not in it.

use remaster_compute::WeightSpec;
use remaster_compute::gpu::Variant;

use crate::cards::{Card, Maker};
use crate::counts::{Counts, Mix};

/// Cycles of a vector instruction: 64 threads on the 32 lanes of AMD, 32 threads on the 16 integer lanes of NVIDIA.
const VECTOR_CYCLES: f64 = 2.0;

/// Cycles that a part of the work keeps the issue of a SIMD or a partition busy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cycles {
    pub(crate) matrix: f64,
    pub(crate) vector: f64,
}

impl Cycles {
    /// Of a mix that so many subgroups run so often, of which so many multiply matrices.
    fn of(card: &Card, mix: &Mix, times: f64, all: f64, multiplying: f64) -> Self {
        let matrix = f64::from(mix.matrix_macs) / card.macs_a_cycle();
        Cycles {
            matrix: matrix * multiplying * times,
            vector: f64::from(mix.vector) * VECTOR_CYCLES * all * times,
        }
    }

    fn and(self, other: Self) -> Self {
        Cycles { matrix: self.matrix + other.matrix, vector: self.vector + other.vector }
    }

    /// AMD issues matrix and vector instructions by the same port, so they add up. NVIDIA's tensor cores work beside the other
    /// pipes, so the slower counts.
    pub(crate) fn together(self, maker: Maker) -> f64 {
        match maker {
            Maker::Amd => self.matrix + self.vector,
            Maker::Nvidia => self.matrix.max(self.vector),
        }
    }
}

/// The sizes of a product that decide how often its loops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) cin: usize,
    pub(crate) cout: usize,
    pub(crate) taps: usize,
    /// Channels of the shortcut.
    pub(crate) shortcut: usize,
}

impl Sizes {
    /// Of a layer; `None` for one that is not multiplied. An upsampler's taps are those behind the first frame.
    pub(crate) fn of(spec: &WeightSpec, shortcut: usize) -> Option<Self> {
        let (cin, cout, taps) = match *spec {
            WeightSpec::Conv { cin, cout, kernel, .. } => (cin, cout, kernel.iter().product()),
            WeightSpec::Upsample { cin, cout, time, .. } => (cin, cout, if time { 8 } else { 12 }),
            WeightSpec::Linear { cin, cout, .. } => (cin, cout, 1),
            WeightSpec::Norm { .. } | WeightSpec::Vector { .. } => return None,
        };
        Some(Sizes { cin, cout, taps, shortcut })
    }
}

/// Multiply-adds a second, at best, of a product by a kernel. What a workgroup computes beyond the last output channel is
/// not counted as work.
pub(crate) fn product(card: &Card, counts: &Counts, variant: &Variant, sizes: Sizes) -> Option<f64> {
    if counts.inner.matrix == 0 {
        return mixed(card, counts);
    }
    let [bm, bn, bk] = variant.tile();
    let all = variant.threads() as f64 / f64::from(counts.subgroup.max(1));
    let multiplying = (bm * bn * bk) as f64 / f64::from(counts.inner.matrix_macs);
    let Sizes { cin, cout, taps, shortcut } = sizes;
    let steps = cin.div_ceil(bk).saturating_sub(1);
    let part = |mix: &Mix, times: usize| Cycles::of(card, mix, times as f64, all, multiplying);
    let cycles = part(&counts.inner, taps * steps)
        .and(part(&counts.outer, taps))
        .and(part(&counts.short, shortcut.div_ceil(bk)))
        .and(part(&counts.rest, 1))
        .together(card.maker);
    let useful = cout as f64 / cout.div_ceil(bn).max(1) as f64;
    let macs = bm as f64 * useful * (cin * taps + shortcut) as f64;
    (cycles > 0.0).then(|| macs / cycles * card.cycles())
}

/// Values a second, at best, of the kernel that only normalises.
pub(crate) fn normalised(card: &Card, counts: &Counts, values: usize) -> f64 {
    let all = [&counts.inner, &counts.outer, &counts.short, &counts.rest].map(|mix| f64::from(mix.vector));
    let cycles = all.iter().sum::<f64>() * VECTOR_CYCLES;
    (values as f64 * f64::from(counts.subgroup)) / cycles.max(1.0) * card.cycles()
}

/// Multiply-adds a second, at best, of attention on matrix units, with blocks of `side` and heads of `width`. Scores are computed twice, once for the
/// largest and once for the weights. The loop over the keys has one branch for each, so it counts once.
pub(crate) fn attention(
    card: &Card,
    counts: &Counts,
    [side, threads]: [usize; 2],
    width: usize,
) -> Option<f64> {
    if counts.inner.matrix_macs == 0 {
        return None;
    }
    let all = threads as f64 / f64::from(counts.subgroup.max(1));
    let multiplying = side.pow(3) as f64 / f64::from(counts.inner.matrix_macs);
    let part = |mix: &Mix, times: usize| Cycles::of(card, mix, times as f64, all, multiplying);
    let scores = part(&counts.inner, 2 * width.div_ceil(side));
    let cycles = scores.and(part(&counts.outer, 1)).together(card.maker);
    let macs = (2 * side * side * width) as f64;
    (cycles > 0.0).then(|| macs / cycles * card.cycles())
}

/// The same of a kernel whose loops are taken as one: multiply-adds of their instructions against cycles of all of them.
pub(crate) fn mixed(card: &Card, counts: &Counts) -> Option<f64> {
    let mix = &counts.inner;
    let macs = f64::from(mix.matrix_macs) + f64::from(mix.vector_macs) * f64::from(counts.subgroup);
    let cycles = Cycles::of(card, mix, 1.0, 1.0, 1.0).together(card.maker);
    (cycles > 0.0 && macs > 0.0).then(|| macs / cycles * card.cycles())
}

#[cfg(test)]
mod tests {
    use remaster_compute::DType;
    use remaster_compute::gpu::{MatrixUnits, variants};

    use super::*;
    use crate::cards::named;

    fn linear() -> (WeightSpec, Variant) {
        let spec = WeightSpec::Linear { cin: 2560, cout: 2560, dtype: DType::F16 };
        let all = variants(&spec, Some(MatrixUnits { size: 16, subgroup: 64, fixed: false }));
        let variant = all.into_iter().find(|v| v.tile() == [128, 128, 32] && v.threads() == 256).unwrap();
        (spec, variant)
    }

    fn counts(vector: u32) -> Counts {
        // 32 products of 16x16x16 in each of four subgroups are a tile of 128 by 128 by 32.
        let inner = Mix { matrix: 32, matrix_macs: 32 * 4096, vector, ..Mix::default() };
        Counts { outer: inner.clone(), inner, subgroup: 64, ..Counts::default() }
    }

    #[test]
    fn without_other_instructions_a_product_reaches_the_peak() {
        let (spec, variant) = linear();
        let card = named(&["RX 7900 XTX"]).unwrap()[0];
        let rate = product(card, &counts(0), &variant, Sizes::of(&spec, 0).unwrap()).unwrap();
        assert!((rate / card.peak() - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn vector_instructions_add_on_amd_and_hide_on_nvidia() {
        let (spec, variant) = linear();
        let [amd, nvidia] = ["RX 7900 XTX", "Ada"].map(|name| named(&[name]).unwrap()[0]);
        let sizes = Sizes::of(&spec, 0).unwrap();
        // 512 vector instructions take as many cycles as the 32 products on AMD.
        let share =
            |card: &Card, vector| product(card, &counts(vector), &variant, sizes).unwrap() / card.peak();
        assert!((share(amd, 512) - 0.5).abs() < 0.01, "{}", share(amd, 512));
        assert!((share(nvidia, 512) - 1.0).abs() < 1e-9, "{}", share(nvidia, 512));
    }

    #[test]
    fn output_channels_that_fill_no_tile_are_lost() {
        let (_, variant) = linear();
        let card = named(&["RX 7900 XTX"]).unwrap()[0];
        let sizes = Sizes { cin: 512, cout: 32, taps: 27, shortcut: 0 };
        let rate = product(card, &counts(0), &variant, sizes).unwrap();
        assert!((rate / card.peak() - 0.25).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn attention_multiplies_three_times_for_two() {
        let card = named(&["RX 7900 XTX"]).unwrap()[0];
        // Four subgroups: a block of scores is 64 deep, and a head of 128 has two blocks of scores and of values.
        let inner = Mix { matrix: 16, matrix_macs: 16 * 4096, ..Mix::default() };
        let outer = Mix { matrix: 32, matrix_macs: 32 * 4096, ..Mix::default() };
        let counts = Counts { inner, outer, subgroup: 64, ..Counts::default() };
        let rate = attention(card, &counts, [64, 256], 128).unwrap();
        assert!((rate / card.peak() - 2.0 / 3.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn a_pass_takes_the_cycles_of_all_its_instructions() {
        let card = named(&["RX 7900 XTX"]).unwrap()[0];
        let of = |vector| Mix { vector, ..Mix::default() };
        let counts = Counts { inner: of(60), rest: of(20), subgroup: 64, ..Counts::default() };
        // 16 values of 64 threads in 160 cycles.
        let rate = normalised(card, &counts, 16);
        assert!((rate / (6.4 * card.cycles()) - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn a_kernel_without_matrices_is_measured_by_its_multiply_adds() {
        let card = named(&["Ada"]).unwrap()[0];
        let inner = Mix { vector: 10, vector_macs: 5, ..Mix::default() };
        let rate = mixed(card, &Counts { inner, subgroup: 32, ..Counts::default() }).unwrap();
        // Five times 32 multiply-adds in twenty cycles.
        assert!((rate / (8.0 * card.cycles()) - 1.0).abs() < 1e-9);
    }
}
