// Normalisation on its own, four channels a thread.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let i = (wid.x + wid.y * grid.x) * 64u + tid;
    let quads = P(CIN4) / 4u;
    let pixel = i / quads;
    if (pixel >= P(JOBS)) { return; }
    let c = i % quads * 4u;
    let cin = P(CIN);
    let t = pixel / P(CELLS);
    let rest = pixel % P(CELLS);
    let s = source(t);
    let v = input4(s, s.start + rest * cin, c);
    let o = P(Y_SKIP) + t * P(Y_FRAME) + rest * cin + c;
@IF VECIN@
    st4_y(o, v);
@ELSE@
    st_some_y(o, cin - c, v);
@END@
}
