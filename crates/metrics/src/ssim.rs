//! Structural similarity of luma (Wang and others, 2004).
//!
//! The window is a Gaussian of 11 taps with sigma 1.5 and K1 = 0.01, K2 = 0.03 as in the paper. Only windows
//! that lie inside the picture count ("valid" borders), as in scikit-image, so both agree to the last
//! digits; programs that reflect or shrink windows at the border differ in the third one.

/// Taps of the window; a picture must be that large both ways.
const TAPS: usize = 11;
const C1: f64 = 0.01 * 0.01;
const C2: f64 = 0.03 * 0.03;

fn window() -> [f64; TAPS] {
    let mut taps = [0.0; TAPS];
    for (i, tap) in taps.iter_mut().enumerate() {
        let x = i as f64 - (TAPS / 2) as f64;
        *tap = (-x * x / (2.0 * 1.5 * 1.5)).exp();
    }
    let sum: f64 = taps.iter().sum();
    taps.map(|t| t / sum)
}

/// Of means, the mean of a² + b², and the mean of ab. Only the sum of the variances is ever needed.
fn similarity(mean_a: f64, mean_b: f64, squares: f64, product: f64) -> f64 {
    let (both, cross) = (mean_a * mean_a + mean_b * mean_b, mean_a * mean_b);
    // Rounding can leave a variance a little below zero.
    let variances = (squares - both).max(0.0);
    (2.0 * cross + C1) * (2.0 * (product - cross) + C2) / ((both + C1) * (variances + C2))
}

/// Mean SSIM of two planes of luma: 1 for equal ones. `None` for a picture of fewer than 11 pixels either way.
///
/// Separable: down the columns into rows of sums, then along them. It holds eight rows, whatever the height.
/// In f64, since variances are differences of nearly equal sums: f32 is off by up to 1e-3 in flat regions.
pub(crate) fn of_luma(a: &[f32], b: &[f32], width: usize, height: usize) -> Option<f64> {
    if width < TAPS || height < TAPS {
        return None;
    }
    let (taps, inner) = (window(), width - TAPS + 1);
    let mut down = [const { Vec::new() }; 4];
    let mut along = [const { Vec::new() }; 4];
    let mut total = 0.0;
    for y in 0..=height - TAPS {
        for sums in &mut down {
            sums.clear();
            sums.resize(width, 0.0f64);
        }
        let [sa, sb, ss, sp] = &mut down;
        for (k, tap) in taps.iter().enumerate() {
            let row = (y + k) * width..(y + k + 1) * width;
            let pairs = a[row.clone()].iter().zip(&b[row]);
            let sums = sa.iter_mut().zip(sb.iter_mut()).zip(ss.iter_mut().zip(sp.iter_mut()));
            for ((a, b), ((sa, sb), (ss, sp))) in pairs.zip(sums) {
                let (a, b) = (f64::from(*a), f64::from(*b));
                *sa += tap * a;
                *sb += tap * b;
                *ss += tap * (a * a + b * b);
                *sp += tap * (a * b);
            }
        }
        for (sums, out) in down.iter().zip(&mut along) {
            out.clear();
            out.resize(inner, 0.0f64);
            for (k, tap) in taps.iter().enumerate() {
                for (out, sum) in out.iter_mut().zip(&sums[k..k + inner]) {
                    *out += tap * sum;
                }
            }
        }
        let [ma, mb, ss, sp] = &along;
        let means = ma.iter().zip(mb);
        total += means.zip(ss.iter().zip(sp)).map(|((a, b), (s, p))| similarity(*a, *b, *s, *p)).sum::<f64>();
    }
    Some(total / (inner * (height - TAPS + 1)) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: a window of 121 weights at every place it fits.
    fn slow(a: &[f32], b: &[f32], width: usize, height: usize) -> f64 {
        let taps = window();
        let (mut total, mut count) = (0.0, 0);
        for y in 0..=height - TAPS {
            for x in 0..=width - TAPS {
                let mut at = [0.0; 4];
                for (j, down) in taps.iter().enumerate() {
                    for (i, along) in taps.iter().enumerate() {
                        let place = (y + j) * width + x + i;
                        let (a, b, w) = (f64::from(a[place]), f64::from(b[place]), down * along);
                        at[0] += w * a;
                        at[1] += w * b;
                        at[2] += w * (a * a + b * b);
                        at[3] += w * a * b;
                    }
                }
                total += similarity(at[0], at[1], at[2], at[3]);
                count += 1;
            }
        }
        total / f64::from(count)
    }

    #[test]
    fn rows_of_sums_equal_whole_windows() {
        for (width, height) in [(11, 11), (12, 11), (11, 29), (37, 23), (64, 17)] {
            let noise = |seed: u32| -> Vec<f32> {
                let step = |s: &u32| Some(s.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
                let states = std::iter::successors(Some(seed), step).skip(1).take(width * height);
                states.map(|s| (s >> 8) as f32 / (1 << 24) as f32).collect()
            };
            let (a, b) = (noise(3), noise(4));
            let fast = of_luma(&a, &b, width, height).unwrap();
            let slow = slow(&a, &b, width, height);
            assert!((fast - slow).abs() < 1e-12, "{width} x {height}: {fast} {slow}");
        }
    }
}
