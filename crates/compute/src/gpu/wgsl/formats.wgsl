// Integer arithmetic rounds to nearest even: it needs no device feature and is the same on every device.

fn f16_bits(v: f32) -> u32 {
    let b = bitcast<u32>(v);
    let s = (b >> 16u) & 0x8000u;
    let a = b & 0x7fffffffu;
    if (a >= 0x47800000u) {
        return s | select(0x7c00u, 0x7e00u, a > 0x7f800000u);
    }
    if (a < 0x38800000u) {
        // 0.5 has steps of 2^-24, the smallest f16: the addition rounds.
        return s | (bitcast<u32>(bitcast<f32>(a) + 0.5) - 0x3f000000u);
    }
    return s | ((a + 0xfffu + ((a >> 13u) & 1u) - 0x38000000u) >> 13u);
}

fn f16_value(h: u32) -> f32 {
    let s = (h & 0x8000u) << 16u;
    let a = h & 0x7fffu;
    if (a >= 0x7c00u) {
        return bitcast<f32>(s | 0x7f800000u | (a << 13u));
    }
    if (a < 0x400u) {
        return bitcast<f32>(s | bitcast<u32>(f32(a) * 5.9604644775390625e-8));
    }
    return bitcast<f32>(s | ((a << 13u) + 0x38000000u));
}

fn bf16_bits(v: f32) -> u32 {
    let b = bitcast<u32>(v);
    if ((b & 0x7fffffffu) > 0x7f800000u) {
        return (b >> 16u) | 0x40u;
    }
    return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
}
