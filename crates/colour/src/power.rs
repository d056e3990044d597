//! Powers with the same bits on every machine: sums, products and one division, which compilers vectorise. The standard
//! functions ask the platform, whose results differ in the last bits; a difference there changes ranks.

/// `x` to a fixed power between 0 and 3.
#[derive(Clone, Copy)]
pub(crate) struct Power(pub(crate) f64);

/// Bits of the square root of a half: mantissas are taken from there to the square root of two.
const ROOT_HALF: u32 = 0x3f35_04f3;
/// 1.5 * 2^52: added to a small number, its last bits are the number rounded to a whole one.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Of the series of log2 in (m - 1) / (m + 1).
const fn log_term(k: u32) -> f64 {
    2.0 / std::f64::consts::LN_2 / (2 * k + 1) as f64
}

impl Power {
    /// For `x` from 1e-6 to 100: within 0.51 of the last place of f32. In f32 all through it would be 2 places, and
    /// matching by rank makes 3e-4 of that where the reference has few values.
    #[inline(always)]
    pub(crate) fn of(self, x: f32) -> f32 {
        // x = m * 2^e with m around 1.
        let e = (x.to_bits().wrapping_sub(ROOT_HALF) as i32) >> 23;
        let m = f64::from(f32::from_bits(x.to_bits().wrapping_sub((e << 23) as u32)));
        // log2(m) = 2 / ln 2 * atanh((m - 1) / (m + 1)); the first term left out is below 3e-11.
        let s = (m - 1.0) / (m + 1.0);
        let q = s * s;
        let series = log_term(3) + q * (log_term(4) + q * log_term(5));
        let log = s * (log_term(0) + q * (log_term(1) + q * (log_term(2) + q * series)));
        // The exponent of the result: whole steps, and a fraction of at most a half.
        let y = self.0 * (f64::from(e) + log);
        let rounded = y + ROUND;
        // 2^f = e^(f ln 2); the first term left out is below 3e-10.
        let f = (y - (rounded - ROUND)) * std::f64::consts::LN_2;
        let series = 1.0 / 120.0 + f * (1.0 / 720.0 + f * (1.0 / 5040.0 + f * (1.0 / 40_320.0)));
        let power = 1.0 + f * (1.0 + f * (0.5 + f * (1.0 / 6.0 + f * (1.0 / 24.0 + f * series))));
        let scale = rounded.to_bits().wrapping_add(1023) << 52;
        (power * f64::from_bits(scale)) as f32
    }
}

/// 1 / (1 + e^-x), for x from -8 to 8; beyond, the value at those.
pub(crate) fn sigmoid(x: f32) -> f32 {
    // e^-x is the eighth power of e^(-x / 8), whose series has left 1e-11 after 12 terms.
    let y = -x.clamp(-8.0, 8.0) / 8.0;
    let series = (1..13).rev().fold(1.0, |sum, n| 1.0 + sum * y / n as f32);
    let fourth = series * series * series * series;
    1.0 / (1.0 + fourth * fourth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_the_standard_library_rounded() {
        for exponent in [2.4, 1.0 / 2.4, 1.0 / 3.0, 3.0, 0.1] {
            let power = Power(exponent);
            let mut worst = 0.0f64;
            for bits in (1e-6f32.to_bits()..100f32.to_bits()).step_by(97) {
                let x = f32::from_bits(bits);
                let (got, exact) = (power.of(x), f64::from(x).powf(exponent));
                let place = f64::from(got.next_up() - got);
                worst = worst.max((f64::from(got) - exact).abs() / place);
            }
            println!("exponent {exponent:.4}: {worst:.4} of the last place");
            assert!(worst < 0.51, "{exponent}: {worst}");
        }
    }

    #[test]
    fn the_sigmoid_is_that_of_the_standard_library() {
        for i in -800..=800 {
            let x = i as f32 / 100.0;
            let exact = 1.0 / (1.0 + f64::from(-x).exp());
            assert!((f64::from(sigmoid(x)) - exact).abs() < 2e-7, "{x}");
        }
        assert!(sigmoid(f32::INFINITY) > 0.999 && sigmoid(f32::NEG_INFINITY) < 0.001);
    }
}
