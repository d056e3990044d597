// Row sums of a whole frame to mean and 1/deviation. Rows are added in an order that the height gives.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let job = wid.x + wid.y * grid.x;
    if (job >= P(JOBS)) { return; }
    let groups = P(GROUPS);
    let g = job % groups;
    let t = job / groups;
    let start = P(X_SKIP) + t * P(X_FRAME) + 2u * g;
    var sum = 0.0;
    for (var y = tid; y < P(Y_ROWS); y += 64u) {
        sum += lf_x(start + y * 2u * groups);
    }
    let mean = total(tid, sum) / f32(P(Y_ROWS));
    var squares = 0.0;
    for (var y = tid; y < P(Y_ROWS); y += 64u) {
        let o = start + y * 2u * groups;
        let d = lf_x(o) - mean;
        squares += fma(d * d, f32(P(COUNT)), lf_x(o + 1u));
    }
    let all = total(tid, squares);
    if (tid == 0u) {
        let variance = all / (f32(P(COUNT)) * f32(P(Y_ROWS)));
        let o = P(Y_SKIP) + t * P(Y_FRAME) + 2u * g;
        sf_y(o, mean);
        sf_y(o + 1u, 1.0 / sqrt(variance + bitcast<f32>(P(EPS))));
    }
}
