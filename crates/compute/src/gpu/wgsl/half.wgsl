fn bits@S@(v: f32) -> u32 {
    return @BITS@(v);
}

fn value@S@(h: u32) -> f32 {
    return @VALUE@;
}

fn ld@S@(base: u32, i: u32) -> f32 {
    let w = word(base + (i >> 3u), (i >> 1u) & 3u);
    return value@S@((w >> ((i & 1u) * 16u)) & 0xffffu);
}

fn ld4@S@(base: u32, i: u32) -> vec4<f32> {
    let u = unit(base + (i >> 3u));
    let w = select(u.xy, u.zw, (i & 4u) != 0u);
    return vec4<f32>(value@S@(w.x & 0xffffu), value@S@(w.x >> 16u), value@S@(w.y & 0xffffu), value@S@(w.y >> 16u));
}

// Two values share a word, and the other one may be another thread's.
fn st@S@(base: u32, i: u32, v: f32) {
    let shift = (i & 1u) * 16u;
    merge(base + (i >> 3u), (i >> 1u) & 3u, 0xffffu << shift, bits@S@(v) << shift);
}

fn st4@S@(base: u32, i: u32, v: vec4<f32>) {
    let q = base + (i >> 3u);
    let s = (i >> 1u) & 2u;
    put_word(q, s, bits@S@(v.x) | (bits@S@(v.y) << 16u));
    put_word(q, s + 1u, bits@S@(v.z) | (bits@S@(v.w) << 16u));
}

fn rounded@S@(v: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(value@S@(bits@S@(v.x)), value@S@(bits@S@(v.y)), value@S@(bits@S@(v.z)), value@S@(bits@S@(v.w)));
}
