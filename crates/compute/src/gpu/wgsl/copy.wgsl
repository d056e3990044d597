// Copies values, converting them if the formats differ.

fn one(i: u32) {
    if (i >= op.units) { return; }
    let t = i / op.frame_units;
    let rest = i % op.frame_units;
@IF VECIN@
    st4_output(op.output_skip + t * op.output_frame + rest * 4u, ld4_input(op.input_skip + t * op.input_frame + rest * 4u));
@ELSE@
    st_output(op.output_skip + t * op.output_frame + rest, ld_input(op.input_skip + t * op.input_frame + rest));
@END@
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    one((run.base + wid.x + wid.y * grid.x) * 64u + tid);
    done(wid, grid, tid);
}
