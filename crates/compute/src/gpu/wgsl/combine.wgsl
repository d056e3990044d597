// Row sums of a whole frame to mean and 1/deviation. Rows are added in an order that the height gives.

fn is_finite(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}

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
        let rstd = 1.0 / sqrt(variance + bitcast<f32>(P(EPS)));
        sf_y(o, mean);
        sf_y(o + 1u, rstd);
        // The first normalisation that sees what is not finite leaves its number. Groups of one dispatch write the
        // same one, and dispatches follow each other.
        if (!(is_finite(mean) && is_finite(rstd)) && word_s(0u, 0u) == 0u) { put_word_s(0u, 0u, P(NORM)); }
    }
}
