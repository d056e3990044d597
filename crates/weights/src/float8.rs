//! Floats of 8 and 4 bits.

/// E4M3 without infinities, every code as PyTorch widens it; 0x7f and 0xff are NaN.
pub(crate) static E4M3: [f32; 256] = e4m3();

const fn e4m3() -> [f32; 256] {
    let mut all = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        all[code] = f32::from_bits(e4m3_bits(code as u32));
        code += 1;
    }
    all
}

const fn e4m3_bits(code: u32) -> u32 {
    let sign = (code & 0x80) << 24;
    let (exponent, mantissa) = ((code >> 3) & 15, code & 7);
    let rest = match (exponent, mantissa) {
        (0, 0) => 0,
        // Steps of 2^-9: the leading bit becomes the implied one.
        (0, 1) => (127 - 9) << 23,
        (0, 2 | 3) => ((127 - 8) << 23) | ((mantissa & 1) << 22),
        (0, _) => ((127 - 7) << 23) | ((mantissa & 3) << 21),
        // The bits that PyTorch gives.
        (15, 7) => 0x7ff0_0000,
        _ => ((exponent + 127 - 7) << 23) | (mantissa << 20),
    };
    sign | rest
}

/// E2M1; bit 3 is the sign.
pub(crate) const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// A power of two from its exponent; 0 stands for zero.
pub(crate) fn e8m0(exponent: u8) -> f32 {
    f32::from_bits(u32::from(exponent) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cast of PyTorch (c10/util/Float8_e4m3fn.h), step by step.
    fn torch(code: u8) -> u32 {
        let w = u32::from(code) << 24;
        let (sign, nonsign) = (w & 0x8000_0000, w & 0x7fff_ffff);
        let shift = nonsign.leading_zeros().saturating_sub(4).min(27);
        let nan = ((nonsign.wrapping_add(0x0100_0000) as i32) >> 8) as u32 & 0x7f80_0000;
        let zero = ((nonsign.wrapping_sub(1) as i32) >> 31) as u32;
        let moved = ((nonsign << shift) >> 4).wrapping_add((0x78u32.wrapping_sub(shift)) << 23);
        sign | ((moved | nan) & !zero)
    }

    #[test]
    fn every_code_is_what_pytorch_casts_it_to() {
        for code in 0..=255u8 {
            assert_eq!(E4M3[usize::from(code)].to_bits(), torch(code), "{code:#x}");
        }
        assert_eq!((E4M3[0x7e], E4M3[1], E4M3[0x38]), (448.0, 1.0 / 512.0, 1.0));
        assert!(E4M3[0x7f].is_nan() && E4M3[0xff].is_nan());
    }

    #[test]
    fn exponents_are_powers_of_two() {
        assert_eq!((e8m0(127), e8m0(128), e8m0(1), e8m0(0)), (1.0, 2.0, f32::MIN_POSITIVE, 0.0));
    }
}
