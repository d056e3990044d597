// The first `n` of four values, all if `n` is larger; the others are zero.
fn ld_some_@O@(i: u32, n: u32) -> vec4<f32> {
    var v = vec4<f32>(ld_@O@(i), 0.0, 0.0, 0.0);
    if (n > 1u) { v.y = ld_@O@(i + 1u); }
    if (n > 2u) { v.z = ld_@O@(i + 2u); }
    if (n > 3u) { v.w = ld_@O@(i + 3u); }
    return v;
}

fn st_some_@O@(i: u32, n: u32, v: vec4<f32>) {
    st_@O@(i, v.x);
    if (n > 1u) { st_@O@(i + 1u, v.y); }
    if (n > 2u) { st_@O@(i + 2u, v.z); }
    if (n > 3u) { st_@O@(i + 3u, v.w); }
}
