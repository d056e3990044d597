// A function of every value, in place, times a factor.

fn activated(x: vec4<f32>) -> vec4<f32> {
    if (op.gelu == 0u) { return x / (vec4<f32>(1.0) + exp(-x)); }
    // 0.5 x (1 + tanh u) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
    let inner = fma(x * x * 0.044715, x, x);
    return x / (vec4<f32>(1.0) + exp(inner * -1.595769));
}

fn one(i: u32) {
    if (i >= op.units) { return; }
    let t = i / op.frame_units;
    let rest = i % op.frame_units * LANES;
    let o = op.output_skip + t * op.output_frame + rest;
    let factor = op.input_skip + t * op.input_frame + rest;
@IF VECIN@
    var y = activated(ld4_output(o));
    if (op.factors != 0u) { y *= ld4_input(factor); }
    st4_output(o, y);
@ELSE@
    var y = activated(vec4<f32>(ld_output(o))).x;
    if (op.factors != 0u) { y *= ld_input(factor); }
    st_output(o, y);
@END@
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    one((run.base + wid.x + wid.y * grid.x) * 64u + tid);
    done(wid, grid, tid);
}
