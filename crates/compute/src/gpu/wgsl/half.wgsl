fn bits_@O@(v: f32) -> u32 {
    return @BITS@;
}

fn value_@O@(h: u32) -> f32 {
    return @VALUE@;
}

fn ld_@O@(i: u32) -> f32 {
    let w = word_@O@(i >> 3u, (i >> 1u) & 3u);
    return value_@O@((w >> ((i & 1u) * 16u)) & 0xffffu);
}

// The four values of two words, and back.
fn four_@O@(w: vec2<u32>) -> vec4<f32> {
    return @FOUR@;
}

fn words_@O@(v: vec4<f32>) -> vec2<u32> {
    return @WORDS@;
}

fn ld4_@O@(i: u32) -> vec4<f32> {
    let u = unit_@O@(i >> 3u);
    return four_@O@(select(u.xy, u.zw, (i & 4u) != 0u));
}

// Two values share a word, and another thread may own the other one.
fn st_@O@(i: u32, v: f32) {
    let shift = (i & 1u) * 16u;
    merge_@O@(i >> 3u, (i >> 1u) & 3u, 0xffffu << shift, bits_@O@(v) << shift);
}

fn st4_@O@(i: u32, v: vec4<f32>) {
    let q = i >> 3u;
    let s = (i >> 1u) & 2u;
    let w = words_@O@(v);
    put_word_@O@(q, s, w.x);
    put_word_@O@(q, s + 1u, w.y);
}

fn rounded_@O@(v: vec4<f32>) -> vec4<f32> {
    return four_@O@(words_@O@(v));
}
