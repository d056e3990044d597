// Moves channels to time, rows and columns: one output value, or four channels, per thread.

fn one(i: u32) {
    if (i >= op.units) { return; }
    let cout = op.cout;
    let e = i * LANES;
    let c = e % cout;
    let pixel = e / cout;
    let x = pixel % op.output_w;
    let y = pixel / op.output_w % op.output_rows;
    let t = pixel / op.output_w / op.output_rows;
    let frame = t + select(0u, 1u, op.drop_second != 0u && t > 0u);
    let fz = op.factor_t;
    let fy = op.factor_y;
    let fx = op.factor_x;
    let channel = ((y % fy * fx + x % fx) * fz + frame % fz) * cout + c;
    let o = op.input_skip + frame / fz * op.input_frame + (y / fy * op.w_in + x / fx) * op.cin + channel;
    let to = op.output_skip + t * op.output_frame + (y * op.output_w + x) * cout + c;
@IF VECIN@
    st4_output(to, ld4_input(o));
@ELSE@
    st_output(to, ld_input(o));
@END@
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    one((run.base + wid.x + wid.y * grid.x) * 64u + tid);
    done(wid, grid, tid);
}
