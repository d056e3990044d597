// Channels to time, rows and columns: one output value (or four channels of it) a thread.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let i = (wid.x + wid.y * grid.x) * 64u + tid;
    if (i >= P(JOBS)) { return; }
    let cout = P(COUT);
    let e = i * LANES;
    let c = e % cout;
    let pixel = e / cout;
    let x = pixel % P(Y_W);
    let y = pixel / P(Y_W) % P(Y_ROWS);
    let t = pixel / P(Y_W) / P(Y_ROWS);
    let frame = t + select(0u, 1u, P(SECOND) != 0u && t > 0u);
    let fz = P(KT);
    let fy = P(STRIDE_Y);
    let fx = P(STRIDE_X);
    let channel = ((y % fy * fx + x % fx) * fz + frame % fz) * cout + c;
    let o = P(X_SKIP) + frame / fz * P(X_FRAME) + (y / fy * P(W_IN) + x / fx) * P(CIN) + channel;
    let to = P(Y_SKIP) + t * P(Y_FRAME) + (y * P(Y_W) + x) * cout + c;
@IF VECIN@
    st4_y(to, ld4_x(o));
@ELSE@
    st_y(to, ld_x(o));
@END@
}
