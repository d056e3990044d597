// Normalisation on its own: four channels of four neighbouring pixels per thread. What finds the channels, the frame and
// their statistics takes more instructions than normalising four values.

fn one(i: u32) {
    let quads = op.cin4 / 4u;
    let run = i / quads;
    if (run >= op.runs) { return; }
    let c = i % quads * 4u;
    let cin = op.cin;
    let t = run / op.frame_runs;
    let first = run % op.frame_runs * 4u;
    // Pixels beyond the last one are read as that one and not stored.
    let last = op.frame_pixels - 1u;
    let at = op.input_skip + t * op.input_frame + c;
    let o = op.output_skip + t * op.output_frame + c;
    let s = scale_of(c, op.stats_skip + t * op.stats_frame);
    let p = min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(last)) * cin;
@IF VECIN@
    let v0 = ld4_input(at + p.x);
    let v1 = ld4_input(at + p.y);
    let v2 = ld4_input(at + p.z);
    let v3 = ld4_input(at + p.w);
    st4_output(o + p.x, scaled(v0, s));
    if (first + 1u <= last) { st4_output(o + p.y, scaled(v1, s)); }
    if (first + 2u <= last) { st4_output(o + p.z, scaled(v2, s)); }
    if (first + 3u <= last) { st4_output(o + p.w, scaled(v3, s)); }
@ELSE@
    let n = cin - c;
    st_some_output(o + p.x, n, scaled(ld_some_input(at + p.x, n), s));
    if (first + 1u <= last) { st_some_output(o + p.y, n, scaled(ld_some_input(at + p.y, n), s)); }
    if (first + 2u <= last) { st_some_output(o + p.z, n, scaled(ld_some_input(at + p.z, n), s)); }
    if (first + 3u <= last) { st_some_output(o + p.w, n, scaled(ld_some_input(at + p.w, n), s)); }
@END@
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    one((run.base + wid.x + wid.y * grid.x) * 64u + tid);
    done(wid, grid, tid);
}
