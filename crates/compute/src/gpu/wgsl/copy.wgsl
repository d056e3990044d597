// Values as they are, or in another format.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let i = (wid.x + wid.y * grid.x) * 64u + tid;
    if (i >= P(JOBS)) { return; }
    let t = i / P(CELLS);
    let rest = i % P(CELLS);
@IF VECIN@
    st4_y(P(Y_SKIP) + t * P(Y_FRAME) + rest * 4u, ld4_x(P(X_SKIP) + t * P(X_FRAME) + rest * 4u));
@ELSE@
    st_y(P(Y_SKIP) + t * P(Y_FRAME) + rest, ld_x(P(X_SKIP) + t * P(X_FRAME) + rest));
@END@
}
