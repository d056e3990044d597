// Normalisation on its own, four channels per thread.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let i = (wid.x + wid.y * grid.x) * 64u + tid;
    let quads = op.cin4 / 4u;
    let pixel = i / quads;
    if (pixel >= op.pixels) { return; }
    let c = i % quads * 4u;
    let cin = op.cin;
    let t = pixel / op.frame_pixels;
    let rest = pixel % op.frame_pixels;
    let at = op.input_skip + t * op.input_frame + rest * cin + c;
    let stats = op.stats_skip + t * op.stats_frame;
    let o = op.output_skip + t * op.output_frame + rest * cin + c;
@IF VECIN@
    st4_output(o, normalised(ld4_input(at), c, stats));
@ELSE@
    st_some_output(o, cin - c, normalised(ld_some_input(at, cin - c), c, stats));
@END@
}
