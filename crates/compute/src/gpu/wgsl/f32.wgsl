fn ld@S@(base: u32, i: u32) -> f32 {
    return lf(base, i);
}

fn ld4@S@(base: u32, i: u32) -> vec4<f32> {
    return lf4(base, i);
}

fn st@S@(base: u32, i: u32, v: f32) {
    sf(base, i, v);
}

fn st4@S@(base: u32, i: u32, v: vec4<f32>) {
    put_unit(base + (i >> 2u), bitcast<vec4<u32>>(v));
}

fn rounded@S@(v: vec4<f32>) -> vec4<f32> {
    return v;
}
