//! The number formats activations and weights are stored in.

use half::slice::HalfFloatSliceExt;

/// Storage format of a tensor. Arithmetic is always f32 (or wider); 16-bit formats are storage only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit IEEE float.
    F32,
    /// 16-bit brain float: the range of f32 with 8 bits of precision.
    Bf16,
    /// 16-bit IEEE float: 11 bits of precision, largest value 65504.
    F16,
}

impl DType {
    /// Bytes of one value.
    pub const fn bytes(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::Bf16 | DType::F16 => 2,
        }
    }

    /// The word used on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::Bf16 => "bf16",
            DType::F16 => "f16",
        }
    }

    /// `value` as it comes back after being stored in this format.
    pub fn round(self, value: f32) -> f32 {
        match self {
            DType::F32 => value,
            DType::Bf16 => bf16_to_f32(f32_to_bf16(value)),
            DType::F16 => half::f16::from_f32(value).to_f32(),
        }
    }

    /// Rounds every value in place to what this format can hold.
    pub fn round_all(self, values: &mut [f32]) {
        if self != DType::F32 {
            values.iter_mut().for_each(|v| *v = self.round(*v));
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for DType {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "f32" | "fp32" => Ok(DType::F32),
            "bf16" => Ok(DType::Bf16),
            "f16" | "fp16" => Ok(DType::F16),
            _ => Err(format!("unknown dtype `{word}`; use f32, bf16 or f16")),
        }
    }
}

/// Round to nearest even. Written with integers so that a loop over it vectorises.
#[inline]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // A NaN whose payload sits in the low bits would become infinity: keep it a NaN.
    if value.is_nan() { ((bits >> 16) | 0x40) as u16 } else { rounded as u16 }
}

/// Exact.
#[inline]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Widens stored 16-bit or 32-bit values to f32. `from` holds `out.len()` values of `dtype`.
pub fn decode(dtype: DType, from: &[u8], out: &mut [f32]) {
    debug_assert_eq!(from.len(), out.len() * dtype.bytes());
    match dtype {
        DType::F32 => {
            for (o, b) in out.iter_mut().zip(from.chunks_exact(4)) {
                *o = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            }
        }
        DType::Bf16 => {
            for (o, b) in out.iter_mut().zip(from.chunks_exact(2)) {
                *o = bf16_to_f32(u16::from_le_bytes([b[0], b[1]]));
            }
        }
        DType::F16 => {
            // Converted in runs: half's slice conversion uses the CPU's own instruction, where it knows of one.
            let mut run = [half::f16::ZERO; 64];
            for (o, b) in out.chunks_mut(64).zip(from.chunks(128)) {
                for (h, pair) in run.iter_mut().zip(b.chunks_exact(2)) {
                    *h = half::f16::from_le_bytes([pair[0], pair[1]]);
                }
                run[..o.len()].convert_to_f32_slice(o);
            }
        }
    }
}

/// Narrows f32 values to `dtype`, rounding to nearest even. `out` holds `from.len()` values of `dtype`.
pub fn encode(dtype: DType, from: &[f32], out: &mut [u8]) {
    debug_assert_eq!(out.len(), from.len() * dtype.bytes());
    match dtype {
        DType::F32 => {
            for (b, v) in out.chunks_exact_mut(4).zip(from) {
                b.copy_from_slice(&v.to_le_bytes());
            }
        }
        DType::Bf16 => {
            for (b, v) in out.chunks_exact_mut(2).zip(from) {
                b.copy_from_slice(&f32_to_bf16(*v).to_le_bytes());
            }
        }
        DType::F16 => {
            let mut run = [half::f16::ZERO; 64];
            for (b, v) in out.chunks_mut(128).zip(from.chunks(64)) {
                run[..v.len()].convert_from_f32_slice(v);
                for (pair, h) in b.chunks_exact_mut(2).zip(&run) {
                    pair.copy_from_slice(&h.to_le_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounding_agrees_with_half_for_every_pattern_of_the_upper_bits() {
        for upper in 0..=u16::MAX {
            for lower in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                let ours = f32_to_bf16(value);
                let theirs = half::bf16::from_f32(value);
                if value.is_nan() {
                    assert!(bf16_to_f32(ours).is_nan());
                } else {
                    assert_eq!(ours, theirs.to_bits(), "{value:e}");
                }
            }
        }
    }

    #[test]
    fn encode_then_decode_is_the_rounding_of_each_value() {
        let values: Vec<f32> = (0..131).map(|i| (i as f32 - 60.0) * 1.2345e-2).collect();
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            let mut bytes = vec![0; values.len() * dtype.bytes()];
            let mut back = vec![0.0; values.len()];
            encode(dtype, &values, &mut bytes);
            decode(dtype, &bytes, &mut back);
            for (b, v) in back.iter().zip(&values) {
                assert_eq!(b.to_bits(), dtype.round(*v).to_bits());
            }
        }
    }
}
