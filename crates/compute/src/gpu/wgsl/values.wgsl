// Values of one operand by index, as f32: statistics, biases and sums are f32 in every format.

fn lf_@O@(i: u32) -> f32 {
    return bitcast<f32>(word_@O@(i >> 2u, i & 3u));
}

fn lf4_@O@(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(unit_@O@(i >> 2u));
}

fn sf_@O@(i: u32, v: f32) {
    put_word_@O@(i >> 2u, i & 3u, bitcast<u32>(v));
}

fn sf4_@O@(i: u32, v: vec4<f32>) {
    put_unit_@O@(i >> 2u, bitcast<vec4<u32>>(v));
}
