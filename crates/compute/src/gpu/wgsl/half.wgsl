fn bits_@O@(v: f32) -> u32 {
    return @BITS@(v);
}

fn value_@O@(h: u32) -> f32 {
    return @VALUE@;
}

fn ld_@O@(i: u32) -> f32 {
    let w = word_@O@(i >> 3u, (i >> 1u) & 3u);
    return value_@O@((w >> ((i & 1u) * 16u)) & 0xffffu);
}

fn ld4_@O@(i: u32) -> vec4<f32> {
    let u = unit_@O@(i >> 3u);
    let w = select(u.xy, u.zw, (i & 4u) != 0u);
    return vec4<f32>(value_@O@(w.x & 0xffffu), value_@O@(w.x >> 16u), value_@O@(w.y & 0xffffu), value_@O@(w.y >> 16u));
}

// Two values share a word, and another thread may own the other one.
fn st_@O@(i: u32, v: f32) {
    let shift = (i & 1u) * 16u;
    merge_@O@(i >> 3u, (i >> 1u) & 3u, 0xffffu << shift, bits_@O@(v) << shift);
}

fn st4_@O@(i: u32, v: vec4<f32>) {
    let q = i >> 3u;
    let s = (i >> 1u) & 2u;
    put_word_@O@(q, s, bits_@O@(v.x) | (bits_@O@(v.y) << 16u));
    put_word_@O@(q, s + 1u, bits_@O@(v.z) | (bits_@O@(v.w) << 16u));
}

fn rounded_@O@(v: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(value_@O@(bits_@O@(v.x)), value_@O@(bits_@O@(v.y)), value_@O@(bits_@O@(v.z)), value_@O@(bits_@O@(v.w)));
}
