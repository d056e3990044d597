// Adds to a residual, with a factor per channel. The output is the residual.

fn one(i: u32) {
    if (i >= op.units) { return; }
    let t = i / op.frame_units;
    let rest = i % op.frame_units * LANES;
    let channel = i % op.frame_units % op.gate_units * LANES;
    let source = op.input_skip + t * op.input_frame + rest;
    let o = op.output_skip + t * op.output_frame + rest;
@IF VECIN@
    var gate = vec4<f32>(1.0);
    if (op.gated != 0u) { gate = lf4_affine(channel); }
    st4_output(o, fma(gate, ld4_input(source), ld4_output(o)));
@ELSE@
    var gate = 1.0;
    if (op.gated != 0u) { gate = lf_affine(channel); }
    st_output(o, fma(gate, ld_input(source), ld_output(o)));
@END@
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    one((run.base + wid.x + wid.y * grid.x) * 64u + tid);
    done(wid, grid, tid);
}
