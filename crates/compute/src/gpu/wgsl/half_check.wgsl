// Compares the device's conversions with those of `formats.wgsl`: every 16-bit number, and around the middle between it
// and the next one.

@group(0) @binding(0) var<storage, read_write> wrong: array<atomic<u32>, 1>;

fn is_other(v: f32) -> bool {
    let bits = pack2x16float(vec2<f32>(v, -v));
    return bits != (f16_bits(v) | (f16_bits(-v) << 16u));
}

fn is_wrong(h: u32) -> bool {
    let v = f16_value(h);
    let back = unpack2x16float(h | ((h | 0x8000u) << 16u));
    var bad = any(bitcast<vec2<u32>>(back) != bitcast<vec2<u32>>(vec2<f32>(v, -v))) || is_other(v);
    if (h < 0x7bffu) {
        let middle = bitcast<u32>(v + (f16_value(h + 1u) - v) * 0.5);
        for (var i = 0u; i < 3u; i++) {
            bad = bad || is_other(bitcast<f32>(middle + i - 1u));
        }
    }
    return bad;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    // Numbers without a sign up to infinity.
    for (var i = 0u; i < 32u; i++) {
        let h = id.x * 32u + i;
        if (h <= 0x7c00u && is_wrong(h)) { atomicAdd(&wrong[0], 1u); }
    }
}
