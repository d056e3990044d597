fn ld_@O@(i: u32) -> f32 {
    return lf_@O@(i);
}

fn ld4_@O@(i: u32) -> vec4<f32> {
    return lf4_@O@(i);
}

fn st_@O@(i: u32, v: f32) {
    sf_@O@(i, v);
}

fn st4_@O@(i: u32, v: vec4<f32>) {
    sf4_@O@(i, v);
}

fn rounded_@O@(v: vec4<f32>) -> vec4<f32> {
    return v;
}
